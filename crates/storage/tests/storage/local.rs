//! Temporary relations: pools and files of single sessions.

use crate::bed::{Bed, REL, Spec, change, each, each_faulty, full_stream, stamp, tag, version};
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, IoContext, IoObject, IoOp, PosixNamespace};
use forebay_format::Fork;
use forebay_storage::{
    Backend, LocalPool, ReadStream, StorageError, Strategy, StreamFlags, StreamSettings,
    WriteScope, remove_private_files,
};

const SMALL: Spec = Spec { segment_blocks: 24, ..Spec::plain() };
/// 256 kB of buffers.
const TINY: Spec = Spec { segment_blocks: 24, buffers: 32, ..Spec::plain() };

/// Makes [`REL`] with `n` stamped pages.
fn fill(local: &LocalPool, be: &mut Backend, n: u32) {
    local.create(be, REL).unwrap();
    let mut made = 0;
    while made < n {
        for pin in local.extend(be, REL, Fork::Main, n - made, Strategy::BulkWrite).unwrap() {
            change(&pin, |page| stamp(page, made, 7));
            made += 1;
        }
    }
}

/// Reads `n` pages through a stream; all must be as `fill` made them.
fn scan(local: &LocalPool, be: &mut Backend, n: u32, flags: StreamFlags, strategy: Strategy) {
    let mut blocks = 0..n;
    let mut stream = ReadStream::new(
        local,
        REL,
        Fork::Main,
        move || blocks.next(),
        flags,
        strategy,
        StreamSettings::new(4, 16),
    );
    for block in 0..n {
        let pin = stream.next(be).unwrap().unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), block), 7);
    }
    assert!(stream.next(be).unwrap().is_none());
}

fn names(bed: &Bed) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(bed.dir().join("base/5"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_relation_larger_than_its_buffers_comes_back_and_goes_at_the_end() {
    each(SMALL, |bed| {
        let mut be = bed.backend();
        let local = LocalPool::new(&bed.pool, 3, 16).unwrap();
        fill(&local, &mut be, 100);
        for strategy in [Strategy::Normal, Strategy::BulkRead] {
            scan(&local, &mut be, 100, StreamFlags::DEFAULT, strategy);
            scan(&local, &mut be, 100, StreamFlags::FULL, strategy);
        }
        let segments = ["t3_16384", "t3_16384.1", "t3_16384.2", "t3_16384.3", "t3_16384.4"];
        assert_eq!(names(bed), segments);
        assert!(local.smgr().nothing_to_sync() && bed.smgr.nothing_to_sync());
        let rows = bed.aio.stats().snapshot();
        for op in [IoOp::Read, IoOp::Write, IoOp::Extend, IoOp::Evict] {
            let in_all: u64 = rows.iter().map(|r| r.get(op).count).sum();
            let temp = rows
                .iter()
                .filter(|r| (r.object, r.context) == (IoObject::TempRelation, IoContext::Normal));
            assert_eq!(temp.map(|r| r.get(op).count).sum::<u64>(), in_all, "{op:?}");
            assert!(in_all > 0, "{op:?}");
        }
        local.clear(&mut be).unwrap();
        assert!(names(bed).is_empty() && local.relations().is_empty());
    });
}

#[test]
fn sessions_and_everyones_relations_do_not_meet() {
    let bed = Bed::new(SMALL);
    let mut be = bed.backend();
    bed.fill(&mut be, 2);
    let [one, two] = [1, 2].map(|owner| LocalPool::new(&bed.pool, owner, 16).unwrap());
    fill(&one, &mut be, 3);
    fill(&two, &mut be, 5);
    one.drop_relation(&mut be, REL).unwrap();
    assert_eq!(two.nblocks(REL, Fork::Main).unwrap(), 5);
    scan(&two, &mut be, 5, StreamFlags::DEFAULT, Strategy::Normal);
    assert_eq!(bed.pool.nblocks(REL, Fork::Main).unwrap(), 2);
    assert_eq!(names(&bed), ["16384", "t2_16384"]);
    // A checkpoint of what is everyone's leaves them alone.
    bed.pool.write_dirty(&mut be, WriteScope::All).unwrap();
    assert_eq!(std::fs::metadata(bed.dir().join("base/5/t2_16384")).unwrap().len(), 5 * 8192);
    assert_eq!(
        bed.aio
            .stats()
            .snapshot()
            .iter()
            .filter(|r| r.object == IoObject::TempRelation)
            .map(|r| r.get(IoOp::Write).count)
            .sum::<u64>(),
        0
    );
}

#[test]
fn what_a_crash_left_goes_at_the_start_or_with_the_name() {
    let bed = Bed::new(SMALL);
    let mut be = bed.backend();
    bed.fill(&mut be, 2);
    let left = LocalPool::new(&bed.pool, 4, 16).unwrap();
    fill(&left, &mut be, 60);
    drop(left);
    // A session of the same number finds nothing of it.
    let next = LocalPool::new(&bed.pool, 4, 16).unwrap();
    fill(&next, &mut be, 2);
    assert_eq!(names(&bed), ["16384", "t4_16384"]);
    drop(next);
    assert_eq!(remove_private_files(&PosixNamespace, bed.dir()).unwrap(), 1);
    assert_eq!(names(&bed), ["16384"]);
    assert_eq!(remove_private_files(&PosixNamespace, bed.dir()).unwrap(), 0);
}

#[test]
fn all_pinned_is_told_at_once() {
    let bed = Bed::new(SMALL);
    let mut be = bed.backend();
    let local = LocalPool::new(&bed.pool, 3, 16).unwrap();
    fill(&local, &mut be, 40);
    let mut pins = Vec::new();
    let error = (0..40).find_map(|block| match local.read(&mut be, tag(block), Strategy::Normal) {
        Ok(pin) => {
            pins.push(pin);
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(error, Some(StorageError::NoUnpinnedBuffers)), "{error:?}");
    assert_eq!(pins.len(), 16);
    drop(pins);
    scan(&local, &mut be, 40, StreamFlags::FULL, Strategy::Normal);
}

#[test]
fn failed_writes_and_reads_name_the_file_and_pass() {
    each_faulty(TINY, |bed, plan| {
        let mut be = bed.backend();
        let local = LocalPool::new(&bed.pool, 3, 32).unwrap();
        fill(&local, &mut be, 20);
        plan.add(Rule::on(Ops::WRITE).path("t3_").times(1), Effect::Fail(Errno::IO));
        let error = local.write_dirty(&mut be, WriteScope::All).unwrap_err();
        assert!(error.to_string().contains("base/5/t3_16384\""), "{error}");
        local.write_dirty(&mut be, WriteScope::All).unwrap();
        local.evict_all(&mut be).unwrap();
        plan.add(Rule::on(Ops::READ).path("t3_").times(1), Effect::Fail(Errno::IO));
        let error = local.read(&mut be, tag(3), Strategy::Normal).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read block 3 in file \"base/5/t3_16384\": Input/output error"
        );
        scan(&local, &mut be, 20, StreamFlags::FULL, Strategy::Normal);
        local.clear(&mut be).unwrap();
    });
}

#[test]
fn a_drop_with_a_read_outstanding_waits_for_it() {
    each(TINY, |bed| {
        let mut be = bed.backend();
        let local = LocalPool::new(&bed.pool, 3, 32).unwrap();
        fill(&local, &mut be, 60);
        local.write_dirty(&mut be, WriteScope::All).unwrap();
        local.evict_all(&mut be).unwrap();
        let mut blocks = 0..60;
        let mut stream = full_stream(&local, move || blocks.next(), Strategy::Normal, 4, 16);
        drop(stream.next(&mut be).unwrap());
        drop(stream);
        local.clear(&mut be).unwrap();
        assert!(names(bed).is_empty());
        // The same name, at once: nothing of the old one comes back.
        fill(&local, &mut be, 60);
        scan(&local, &mut be, 60, StreamFlags::FULL, Strategy::Normal);
    });
}
