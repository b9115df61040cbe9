//! Written pages are read back from the disk when all is synced, and are compared when they are
//! read again.

use crate::fixture::{Fixture, REL, Spec, change, each_spec, stamp, tag, version};
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, IoMemory, Region, probe_direct};
use forebay_format::{Fork, PageBytes};
use forebay_storage::{
    Backend, BufferPool, PoolConfig, ReadPolicy, StorageError, Strategy, WriteScope,
};
use std::sync::Arc;

/// Runs a test over every method, buffered and direct, on disks that can be read past the kernel's
/// cache.
fn each(test: impl Fn(&Fixture, &Arc<FaultPlan>)) {
    if let Err(why) = probe_direct(tempfile::tempdir().unwrap().path()) {
        eprintln!("reading back is left out: {why}");
        return;
    }
    each_spec(Spec { verify: true, segment_blocks: 16, ..Spec::plain() }, |spec| {
        let plan = FaultPlan::new();
        test(&Fixture::faulty(spec, &plan), &plan);
    });
}

/// Makes twenty pages in two segments, on disk and confirmed.
fn filled(fixture: &Fixture) -> Backend {
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 20);
    assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 20);
    backend
}

/// Changes a page and writes it.
fn rewrite(fixture: &Fixture, backend: &mut Backend, block: u32) {
    change(&fixture.pool.read(backend, tag(block), Strategy::Normal).unwrap(), |page| {
        stamp(page, block, 1)
    });
    assert_eq!(fixture.pool.write_dirty(backend, WriteScope::All).unwrap().buffers, 1);
}

/// Changes a page and writes it, and restores the old page on disk.
fn lose(fixture: &Fixture, backend: &mut Backend, block: u32) {
    let before: PageBytes = fixture.on_disk(block);
    rewrite(fixture, backend, block);
    fixture.damage(block, 0, &before);
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
    each(|fixture, _| {
        let mut backend = filled(fixture);
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 0);
        for block in [3, 4, 17] {
            rewrite(fixture, &mut backend, block);
            rewrite(fixture, &mut backend, block);
        }
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 3);
    });
}

#[test]
fn nothing_is_read_back_unless_the_setting_is_on() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 4);
    lose(&fixture, &mut backend, 2);
    assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 0);
}

#[test]
fn a_lost_write_is_found_when_all_is_synced() {
    each(|fixture, _| {
        for block in [7, 18] {
            let mut backend = filled(fixture);
            lose(fixture, &mut backend, block);
            assert_lost(fixture.pool.sync_pending(&mut backend), block);
            assert_lost(fixture.pool.sync_pending(&mut backend), block);
            fixture.pool.drop_relation(&mut backend, REL).unwrap();
        }
    });
}

#[test]
fn invalid_pages_and_short_or_missing_files_are_lost_writes() {
    each(|fixture, _| {
        let mut backend = filled(fixture);
        rewrite(fixture, &mut backend, 19);
        fixture.damage(19, 5000, b"rot");
        assert_lost(fixture.pool.sync_pending(&mut backend), 19);
        rewrite(fixture, &mut backend, 19);
        std::fs::OpenOptions::new()
            .write(true)
            .open(fixture.path(1))
            .unwrap()
            .set_len(3 * 8192 + 512)
            .unwrap();
        assert_lost(fixture.pool.sync_pending(&mut backend), 19);
        std::fs::remove_file(fixture.path(1)).unwrap();
        assert_lost(fixture.pool.sync_pending(&mut backend), 19);
    });
}

#[test]
fn a_reader_of_a_lost_page_gets_an_error_whatever_its_policy() {
    each(|fixture, _| {
        let mut backend = filled(fixture);
        lose(fixture, &mut backend, 7);
        fixture.damage(9, 5000, b"rot");
        rewrite(fixture, &mut backend, 10);
        fixture.damage(10, 5000, b"rot");
        assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0);
        backend.policy = ReadPolicy { zero_damaged_pages: true, ..ReadPolicy::default() };
        assert_lost(fixture.pool.read(&mut backend, tag(7), Strategy::Normal), 7);
        assert_lost(fixture.pool.read(&mut backend, tag(10), Strategy::Normal), 10);
        // A page that was not written since it was confirmed is merely damaged.
        let zeroed = fixture.pool.read(&mut backend, tag(9), Strategy::Normal).unwrap();
        assert!(zeroed.lock_shared().copy().iter().all(|&byte| byte == 0));
        let good =
            fixture.pool.read_many(&mut backend, REL, Fork::Main, 0, 7, Strategy::Normal).unwrap();
        assert!(
            good.iter().zip(0..).all(|(pin, block)| version(&pin.lock_shared().copy(), block) == 0)
        );
    });
}

#[test]
fn truncated_and_dropped_pages_are_not_read_back() {
    each(|fixture, _| {
        let mut backend = filled(fixture);
        for block in [2, 12, 18] {
            lose(fixture, &mut backend, block);
        }
        fixture.pool.truncate(&mut backend, REL, Fork::Main, 12).unwrap();
        assert_lost(fixture.pool.sync_pending(&mut backend), 2);
        fixture.pool.drop_relation(&mut backend, REL).unwrap();
        fixture.fill(&mut backend, 5);
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 5);
    });
}

/// Without checksums the LSN is not enough, since not every change has one of its own.
#[test]
fn a_lost_write_is_found_without_checksums() {
    each(|fixture, _| {
        let mut backend = filled(fixture);
        let config = PoolConfig { buffers: 64, checksums: false, ..PoolConfig::default() };
        let pool = BufferPool::new(config, Arc::clone(&fixture.aio), fixture.cold().0).unwrap();
        let before: PageBytes = fixture.on_disk(7);
        change(&pool.read(&mut backend, tag(7), Strategy::Normal).unwrap(), |page| {
            stamp(page, 7, 1)
        });
        assert_eq!(pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 1);
        fixture.damage(7, 0, &before);
        assert_lost(pool.sync_pending(&mut backend), 7);
    });
}

/// Callers that write past the pool are responsible for their writes.
#[test]
fn a_write_past_the_pool_is_not_read_back() {
    each(|fixture, _| {
        let mut backend = filled(fixture);
        [3, 4].into_iter().for_each(|block| rewrite(fixture, &mut backend, block));
        let memory = IoMemory::new(Region::new(8192).unwrap(), 0, 8192);
        fixture.smgr.write_blocks(&mut backend.io, REL, Fork::Main, 3, &memory).unwrap();
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 1);
    });
}

#[test]
fn a_failed_write_is_not_read_back_until_it_succeeds() {
    each(|fixture, plan| {
        let mut backend = filled(fixture);
        rewrite(fixture, &mut backend, 5);
        change(&fixture.pool.read(&mut backend, tag(5), Strategy::Normal).unwrap(), |page| {
            stamp(page, 5, 2)
        });
        plan.add(Rule::on(Ops::WRITE).times(1), Effect::FailAfter(4096, Errno::IO));
        assert!(fixture.pool.write_dirty(&mut backend, WriteScope::All).is_err());
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 0);
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 1);
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 1);
        assert_eq!(version(&fixture.on_disk(5), 5), 2);
    });
}

#[test]
fn a_page_that_cannot_be_read_back_stays_recorded() {
    each(|fixture, plan| {
        let mut backend = filled(fixture);
        rewrite(fixture, &mut backend, 17);
        plan.add(Rule::on(Ops::READ).times(2), Effect::Fail(Errno::IO));
        let error = fixture.pool.sync_pending(&mut backend).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not read block 17 in file \"base/5/16384.1\": Input/output error"
        );
        assert!(!error.is_fatal());
        // A failed read is repeated before it counts.
        plan.add(Rule::on(Ops::READ).times(1), Effect::Fail(Errno::IO));
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().read_back, 1);
    });
}
