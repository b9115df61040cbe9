//! What was written is read back from the disk before a sync of everything is done, and compared
//! when it is read again.

use crate::bed::{Bed, REL, Spec, change, each_spec, stamp, tag, version};
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, IoMemory, Region, probe_direct};
use forebay_format::{Fork, PageBytes};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, ReadPolicy, StorageError, Strategy, WriteScope,
};
use std::sync::Arc;

/// Runs a test over every method, buffered and direct, on disks that can be read past the kernel's
/// cache.
fn each(test: impl Fn(&Bed, &Arc<FaultPlan>)) {
    if let Err(why) = probe_direct(tempfile::tempdir().unwrap().path()) {
        eprintln!("reading back is left out: {why}");
        return;
    }
    each_spec(Spec { verify: true, segment_blocks: 16, ..Spec::plain() }, |spec| {
        let plan = FaultPlan::new();
        test(&Bed::faulty(spec, &plan), &plan);
    });
}

/// Twenty pages in two segments, on the disk and seen there.
fn filled(bed: &Bed) -> Backend {
    let mut be = bed.backend();
    bed.fill(&mut be, 20);
    assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 20);
    be
}

/// Changes a page and writes it.
fn rewrite(bed: &Bed, be: &mut Backend, block: u32) {
    change(&bed.pool.read(be, tag(block), Strategy::Normal).unwrap(), |page| stamp(page, block, 1));
    assert_eq!(bed.pool.write_dirty(be, WriteScope::All).unwrap().buffers, 1);
}

/// Changes a page and writes it, and the disk has what was there before.
fn lose(bed: &Bed, be: &mut Backend, block: u32) {
    let before: PageBytes = bed.on_disk(block);
    rewrite(bed, be, block);
    bed.damage(block, 0, &before);
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(result: Result<T, StorageError>, block: u32) {
    let error = result.unwrap_err();
    let file = if block < 16 { "base/5/16384" } else { "base/5/16384.1" };
    assert_eq!(
        error.to_string(),
        format!(
            "lost write of block {block} in file \"{file}\": on disk is not what was written there"
        )
    );
    assert!(error.is_fatal() && error.sqlstate() == "XX001" && error.hint().is_some());
}

#[test]
fn each_page_is_read_back_once() {
    each(|bed, _| {
        let mut be = filled(bed);
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 0);
        for block in [3, 4, 17] {
            rewrite(bed, &mut be, block);
            rewrite(bed, &mut be, block);
        }
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 3);
    });
}

#[test]
fn nothing_is_read_back_unless_asked_for() {
    let bed = Bed::new(Spec::plain());
    let mut be = bed.backend();
    bed.fill(&mut be, 4);
    lose(&bed, &mut be, 2);
    assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 0);
}

#[test]
fn a_lost_write_is_found_when_all_is_synced() {
    each(|bed, _| {
        for block in [7, 18] {
            let mut be = filled(bed);
            lose(bed, &mut be, block);
            assert_lost(bed.pool.sync_pending(&mut be), block);
            assert_lost(bed.pool.sync_pending(&mut be), block);
            bed.pool.drop_relation(&mut be, REL).unwrap();
        }
    });
}

#[test]
fn bytes_that_are_no_page_and_a_file_that_ends_or_is_gone_are_lost_writes() {
    each(|bed, _| {
        let mut be = filled(bed);
        rewrite(bed, &mut be, 19);
        bed.damage(19, 5000, b"rot");
        assert_lost(bed.pool.sync_pending(&mut be), 19);
        rewrite(bed, &mut be, 19);
        std::fs::OpenOptions::new()
            .write(true)
            .open(bed.path(1))
            .unwrap()
            .set_len(3 * 8192 + 512)
            .unwrap();
        assert_lost(bed.pool.sync_pending(&mut be), 19);
        std::fs::remove_file(bed.path(1)).unwrap();
        assert_lost(bed.pool.sync_pending(&mut be), 19);
    });
}

#[test]
fn who_reads_the_page_again_is_told_whatever_the_policy() {
    each(|bed, _| {
        let mut be = filled(bed);
        lose(bed, &mut be, 7);
        bed.damage(9, 5000, b"rot");
        rewrite(bed, &mut be, 10);
        bed.damage(10, 5000, b"rot");
        assert_eq!(bed.pool.evict_all(&mut be).unwrap(), 0);
        be.policy = ReadPolicy { zero_damaged_pages: true, ..ReadPolicy::default() };
        assert_lost(bed.pool.read(&mut be, tag(7), Strategy::Normal), 7);
        assert_lost(bed.pool.read(&mut be, tag(10), Strategy::Normal), 10);
        // Not written since it was seen: damage like any other.
        let zeroed = bed.pool.read(&mut be, tag(9), Strategy::Normal).unwrap();
        assert!(zeroed.lock_shared().copy().iter().all(|&byte| byte == 0));
        let good = bed.pool.read_many(&mut be, REL, Fork::Main, 0, 7, Strategy::Normal).unwrap();
        assert!(
            good.iter().zip(0..).all(|(pin, block)| version(&pin.lock_shared().copy(), block) == 0)
        );
    });
}

#[test]
fn what_is_cut_or_dropped_is_not_looked_for() {
    each(|bed, _| {
        let mut be = filled(bed);
        for block in [2, 12, 18] {
            lose(bed, &mut be, block);
        }
        bed.pool.truncate(&mut be, REL, Fork::Main, 12).unwrap();
        assert_lost(bed.pool.sync_pending(&mut be), 2);
        bed.pool.drop_relation(&mut be, REL).unwrap();
        bed.fill(&mut be, 5);
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 5);
    });
}

/// Such a page has nothing that tells it from the one before: not every change has an LSN.
#[test]
fn a_lost_write_is_found_without_checksums() {
    each(|bed, _| {
        let mut be = filled(bed);
        let config = PoolConfig { buffers: 64, checksums: false, ..PoolConfig::default() };
        let pool = BufferPool::new(config, Arc::clone(&bed.aio), bed.cold().0).unwrap();
        let before: PageBytes = bed.on_disk(7);
        change(&pool.read(&mut be, tag(7), Strategy::Normal).unwrap(), |page| stamp(page, 7, 1));
        assert_eq!(pool.write_dirty(&mut be, WriteScope::All).unwrap().buffers, 1);
        bed.damage(7, 0, &before);
        assert_lost(pool.sync_pending(&mut be), 7);
    });
}

/// Who writes past the pool sees to it himself.
#[test]
fn a_write_past_the_pool_is_not_looked_for() {
    each(|bed, _| {
        let mut be = filled(bed);
        [3, 4].into_iter().for_each(|block| rewrite(bed, &mut be, block));
        let memory = IoMemory::new(Region::new(8192).unwrap(), 0, 8192);
        bed.smgr.write_blocks(&mut be.io, REL, Fork::Main, 3, &memory).unwrap();
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 1);
    });
}

#[test]
fn a_write_that_failed_is_not_looked_for_until_it_is_done() {
    each(|bed, plan| {
        let mut be = filled(bed);
        rewrite(bed, &mut be, 5);
        change(&bed.pool.read(&mut be, tag(5), Strategy::Normal).unwrap(), |page| {
            stamp(page, 5, 2)
        });
        plan.add(Rule::on(Ops::WRITE).times(1), Effect::FailAfter(4096, Errno::IO));
        assert!(bed.pool.write_dirty(&mut be, WriteScope::All).is_err());
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 0);
        assert_eq!(bed.pool.write_dirty(&mut be, WriteScope::All).unwrap().buffers, 1);
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 1);
        assert_eq!(version(&bed.on_disk(5), 5), 2);
    });
}

#[test]
fn a_page_that_can_t_be_read_back_stays_noted() {
    each(|bed, plan| {
        let mut be = filled(bed);
        rewrite(bed, &mut be, 17);
        plan.add(Rule::on(Ops::READ).times(2), Effect::Fail(Errno::IO));
        let error = bed.pool.sync_pending(&mut be).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read block 17 in file \"base/5/16384.1\": Input/output error"
        );
        assert!(!error.is_fatal());
        // A failed read is done again before it counts.
        plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
        assert_eq!(bed.pool.sync_pending(&mut be).unwrap().read_back, 1);
    });
}
