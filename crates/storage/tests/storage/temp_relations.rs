//! Temporary relations of single sessions.

use crate::fixture::{
    Fixture, REL, Spec, change, each, each_faulty, full_stream, stamp, tag, version,
};
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, IoContext, IoObject, IoOp, PosixNamespace};
use forebay_format::Fork;
use forebay_storage::{
    Backend, ReadStream, StorageError, Strategy, StreamFlags, StreamSettings, TempRelations,
    WriteScope, remove_temp_relations,
};
use forebay_testkit::files;

const SMALL: Spec = Spec { segment_blocks: 24, ..Spec::plain() };
/// 256 kB of buffers.
const TINY: Spec = Spec { segment_blocks: 24, buffers: 32, ..Spec::plain() };

/// Makes [`REL`] with `n` stamped pages.
fn fill(local: &TempRelations, backend: &mut Backend, n: u32) {
    local.create(backend, REL).unwrap();
    let mut made = 0;
    while made < n {
        for pin in
            local.pool().extend(backend, REL, Fork::Main, n - made, Strategy::BulkWrite).unwrap()
        {
            change(&pin, |page| stamp(page, made, 7));
            made += 1;
        }
    }
}

/// Reads `n` pages through a stream, and checks that they are as `fill` made them.
fn scan(
    local: &TempRelations,
    backend: &mut Backend,
    n: u32,
    flags: StreamFlags,
    strategy: Strategy,
) {
    let mut blocks = 0..n;
    let mut stream = ReadStream::new(
        local.pool(),
        REL,
        Fork::Main,
        move || blocks.next(),
        flags,
        strategy,
        StreamSettings::new(4, 16),
    );
    for block in 0..n {
        let pin = stream.next(backend).unwrap().unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), block), 7);
    }
    assert!(stream.next(backend).unwrap().is_none());
}

fn names(fixture: &Fixture) -> Vec<String> {
    files::names(&fixture.dir().join("base/5"))
}

#[test]
fn a_relation_larger_than_its_buffers_can_be_read_and_is_removed_at_the_end() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        let local = TempRelations::new(&fixture.pool, 3, 16).unwrap();
        fill(&local, &mut backend, 100);
        for strategy in [Strategy::Normal, Strategy::BulkRead] {
            scan(&local, &mut backend, 100, StreamFlags::DEFAULT, strategy);
            scan(&local, &mut backend, 100, StreamFlags::FULL, strategy);
        }
        let segments = ["t3_16384", "t3_16384.1", "t3_16384.2", "t3_16384.3", "t3_16384.4"];
        assert_eq!(names(fixture), segments);
        assert!(local.pool().smgr().nothing_to_sync() && fixture.smgr.nothing_to_sync());
        let rows = fixture.aio.stats().snapshot();
        for op in [IoOp::Read, IoOp::Write, IoOp::Extend, IoOp::Evict] {
            let in_all: u64 = rows.iter().map(|r| r.get(op).count).sum();
            let temp = rows
                .iter()
                .filter(|r| (r.object, r.context) == (IoObject::TempRelation, IoContext::Normal));
            assert_eq!(temp.map(|r| r.get(op).count).sum::<u64>(), in_all, "{op:?}");
            assert!(in_all > 0, "{op:?}");
        }
        local.clear(&mut backend).unwrap();
        assert!(names(fixture).is_empty() && local.relations().is_empty());
    });
}

#[test]
fn temporary_relations_of_sessions_and_permanent_ones_are_separate() {
    let fixture = Fixture::new(SMALL);
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 2);
    let [one, two] = [1, 2].map(|owner| TempRelations::new(&fixture.pool, owner, 16).unwrap());
    fill(&one, &mut backend, 3);
    fill(&two, &mut backend, 5);
    one.drop_relation(&mut backend, REL).unwrap();
    assert_eq!(two.pool().nblocks(REL, Fork::Main).unwrap(), 5);
    scan(&two, &mut backend, 5, StreamFlags::DEFAULT, Strategy::Normal);
    assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 2);
    assert_eq!(names(&fixture), ["16384", "t2_16384"]);
    // A checkpoint of the shared pool leaves them alone.
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert_eq!(std::fs::metadata(fixture.dir().join("base/5/t2_16384")).unwrap().len(), 5 * 8192);
    assert_eq!(
        fixture
            .aio
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
fn leftovers_of_a_crash_are_removed_at_the_start_or_when_the_name_is_reused() {
    let fixture = Fixture::new(SMALL);
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 2);
    let left = TempRelations::new(&fixture.pool, 4, 16).unwrap();
    fill(&left, &mut backend, 60);
    drop(left);
    // A session of the same number finds nothing of the old relation.
    let next = TempRelations::new(&fixture.pool, 4, 16).unwrap();
    fill(&next, &mut backend, 2);
    assert_eq!(names(&fixture), ["16384", "t4_16384"]);
    drop(next);
    assert_eq!(remove_temp_relations(&PosixNamespace, fixture.dir()).unwrap(), 1);
    assert_eq!(names(&fixture), ["16384"]);
    assert_eq!(remove_temp_relations(&PosixNamespace, fixture.dir()).unwrap(), 0);
}

#[test]
fn a_pool_without_unpinned_buffers_is_an_error_at_once() {
    let fixture = Fixture::new(SMALL);
    let mut backend = fixture.backend();
    let local = TempRelations::new(&fixture.pool, 3, 16).unwrap();
    fill(&local, &mut backend, 40);
    let mut pins = Vec::new();
    let error = (0..40).find_map(|block| {
        match local.pool().read(&mut backend, tag(block), Strategy::Normal) {
            Ok(pin) => {
                pins.push(pin);
                None
            }
            Err(error) => Some(error),
        }
    });
    assert!(matches!(error, Some(StorageError::NoUnpinnedBuffers)), "{error:?}");
    assert_eq!(pins.len(), 16);
    drop(pins);
    scan(&local, &mut backend, 40, StreamFlags::FULL, Strategy::Normal);
}

#[test]
fn failed_writes_and_reads_name_the_file_and_can_be_repeated() {
    each_faulty(TINY, |fixture, plan| {
        let mut backend = fixture.backend();
        let local = TempRelations::new(&fixture.pool, 3, 32).unwrap();
        fill(&local, &mut backend, 20);
        plan.add(Rule::on(Ops::WRITE).path("t3_").times(1), Effect::Fail(Errno::IO));
        let error = local.pool().write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert!(error.to_string().contains("base/5/t3_16384\""), "{error}");
        local.pool().write_dirty(&mut backend, WriteScope::All).unwrap();
        local.pool().evict_all(&mut backend).unwrap();
        plan.add(Rule::on(Ops::READ).path("t3_").times(1), Effect::Fail(Errno::IO));
        let error = local.pool().read(&mut backend, tag(3), Strategy::Normal).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read block 3 in file \"base/5/t3_16384\": Input/output error"
        );
        scan(&local, &mut backend, 20, StreamFlags::FULL, Strategy::Normal);
        local.clear(&mut backend).unwrap();
    });
}

#[test]
fn a_drop_waits_for_a_read_in_flight() {
    each(TINY, |fixture| {
        let mut backend = fixture.backend();
        let local = TempRelations::new(&fixture.pool, 3, 32).unwrap();
        fill(&local, &mut backend, 60);
        local.pool().write_dirty(&mut backend, WriteScope::All).unwrap();
        local.pool().evict_all(&mut backend).unwrap();
        let mut blocks = 0..60;
        let mut stream = full_stream(local.pool(), move || blocks.next(), Strategy::Normal, 4, 16);
        drop(stream.next(&mut backend).unwrap());
        drop(stream);
        local.clear(&mut backend).unwrap();
        assert!(names(fixture).is_empty());
        // A relation of the same name has nothing of the old one.
        fill(&local, &mut backend, 60);
        scan(&local, &mut backend, 60, StreamFlags::FULL, Strategy::Normal);
    });
}
