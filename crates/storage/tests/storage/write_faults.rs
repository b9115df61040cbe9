//! Writing to a disk, or behind a log, that fails: once, permanently, because it is full, or in
//! part. No change is lost, no thread hangs, errors name file and blocks, and later writes succeed.

use crate::fixture::{Fixture, REL, Spec, change, each_faulty, stamp, tag, version};
use crate::wal::{Log, assert_nothing_held, dirty, pin};
use forebay_aio::Errno;
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::{
    Backend, Cleaner, CleanerOptions, StorageError, Strategy, WriteOptions, WriteScope, WriteStream,
};
use std::sync::Arc;

const ROOMY: Spec = Spec { buffers: 512, ..Spec::plain() };
const SMALL: Spec = Spec { buffers: 64, ..Spec::plain() };
const EIO: Effect = Effect::Fail(Errno::IO);

/// Makes `n` pages of version 1, none of them on disk.
fn all_dirty(fixture: &Fixture, n: u32) -> Backend {
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, n);
    (0..n).for_each(|block| drop(dirty(&fixture.pool, &mut backend, block, 1)));
    backend
}

fn assert_on_disk(fixture: &Fixture, blocks: std::ops::Range<u32>, wanted: u64) {
    blocks.for_each(|block| {
        assert_eq!(version(&fixture.on_disk(block), block), wanted, "block {block}")
    });
}

fn writes_of_data() -> Rule {
    Rule::on(Ops::WRITE).path("base/5")
}

/// The bytes of a block in its file.
fn only_block(block: u64) -> Rule {
    writes_of_data().bytes(block * 8192..(block + 1) * 8192)
}

#[test]
fn a_write_that_fails_once_leaves_its_pages_dirty_for_the_next_time() {
    each_faulty(ROOMY, |fixture, plan| {
        fixture.aio.set_combine_limit(0);
        let mut backend = all_dirty(fixture, 64);
        let fault = plan.add(only_block(20).times(1), EIO);
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not write blocks 16..31 in file \"base/5/16384\": Input/output error"
        );
        assert_eq!((error.sqlstate(), error.is_fatal()), ("58030", false));
        assert_eq!(plan.fired(fault), 1);
        for block in 0..64 {
            let dirty = pin(&fixture.pool, &mut backend, block).is_dirty();
            assert_eq!(dirty, (16..32).contains(&block), "block {block}");
        }
        let report = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!((report.buffers, report.writes), (16, 1));
        assert_on_disk(fixture, 0..64, 1);
        assert_nothing_held(fixture, backend);
    });
}

#[test]
fn a_block_that_cannot_be_written_fails_passes_but_nothing_else() {
    each_faulty(ROOMY, |fixture, plan| {
        let mut backend = all_dirty(fixture, 64);
        plan.add(only_block(20), EIO);
        for _ in 0..3 {
            let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
            assert!(
                matches!(error, StorageError::Write { block: 16, count: 16, errno: Errno::IO, .. }),
                "{error}"
            );
        }
        // It can be read and changed, others can be evicted and read, and the file grows.
        assert_eq!(version(&pin(&fixture.pool, &mut backend, 20).lock_shared().copy(), 20), 1);
        drop(dirty(&fixture.pool, &mut backend, 20, 2));
        let mut most = 64;
        while most < 400 {
            for pinned in
                fixture.pool.extend(&mut backend, REL, Fork::Main, 16, Strategy::Normal).unwrap()
            {
                change(&pinned, |page| stamp(page, most, 1));
                most += 1;
            }
        }
        let other = RelFileLocator::in_default(5, 16_999);
        fixture.smgr.create(other, Fork::Main, false).unwrap();
        let pins =
            fixture.pool.extend(&mut backend, other, Fork::Main, 1, Strategy::Normal).unwrap();
        change(&pins[0], |page| stamp(page, 0, 7));
        drop(pins);
        assert_eq!(
            fixture.pool.write_dirty(&mut backend, WriteScope::Relation(other)).unwrap().buffers,
            1
        );
        assert!(pin(&fixture.pool, &mut backend, 20).is_dirty());
        // After its relation is dropped, passes succeed.
        fixture.pool.drop_relation(&mut backend, REL).unwrap();
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        fixture.pool.sync_pending(&mut backend).unwrap();
        assert_nothing_held(fixture, backend);
    });
}

#[test]
fn a_full_disk_is_reported_as_such() {
    each_faulty(ROOMY, |fixture, plan| {
        let mut backend = all_dirty(fixture, 16);
        plan.add(writes_of_data(), Effect::Fail(Errno::NOSPC));
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        let told = "could not write blocks 0..15 in file \"base/5/16384\": No space left on device";
        assert_eq!(
            (error.to_string().as_str(), error.sqlstate(), error.is_fatal()),
            (told, "53100", false)
        );
        assert!((0..16).all(|block| pin(&fixture.pool, &mut backend, block).is_dirty()));
        plan.mend();
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 16);
        assert_on_disk(fixture, 0..16, 1);
        assert_nothing_held(fixture, backend);
    });
}

#[test]
fn short_writes_are_continued_to_their_end() {
    let cases =
        [Effect::AtMost(8192), Effect::AtMost(3 * 4096), Effect::ShortBy(4096), Effect::Cut];
    for effect in cases {
        each_faulty(ROOMY, |fixture, plan| {
            let mut backend = all_dirty(fixture, 64);
            let fault = plan.add(writes_of_data().when(|call| call.len > 4096).times(20), effect);
            let report = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
            assert_eq!((report.buffers, report.writes), (64, 4));
            assert!(plan.fired(fault) > 0);
            assert_on_disk(fixture, 0..64, 1);
            assert!((0..64).all(|block| !pin(&fixture.pool, &mut backend, block).is_dirty()));
            assert_nothing_held(fixture, backend);
        });
    }
}

#[test]
fn a_partial_write_counts_as_failed() {
    each_faulty(ROOMY, |fixture, plan| {
        let mut backend = all_dirty(fixture, 16);
        fixture.pool.sync_pending(&mut backend).unwrap();
        plan.add(writes_of_data().times(1), Effect::FailAfter(3 * 8192, Errno::IO));
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert!(matches!(error, StorageError::Write { block: 0, count: 16, .. }), "{error}");
        assert!((0..16).all(|block| pin(&fixture.pool, &mut backend, block).is_dirty()));
        // Two pages reach the file, and at most a part of the third. The next pass writes all of
        // them and requests a sync.
        drop(dirty(&fixture.pool, &mut backend, 1, 2));
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 16);
        assert_eq!(version(&fixture.on_disk(1), 1), 2);
        assert_on_disk(fixture, 2..16, 1);
        assert_eq!(fixture.pool.sync_pending(&mut backend).unwrap().files, 1);
        assert_nothing_held(fixture, backend);
    });
}

#[test]
fn no_page_is_written_if_the_log_cannot_be_flushed() {
    each_faulty(ROOMY, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 64);
        let log = Log::attach(&fixture.pool, plan);
        (0..64).for_each(|block| drop(dirty(&fixture.pool, &mut backend, block, 1)));
        log.set_broken(true);
        // A pass, a stream, and the cleaner.
        let told = "could not flush write-ahead log ahead of a page: the log is broken";
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert_eq!(error.to_string(), told);
        let mut stream = WriteStream::new(&fixture.pool, WriteOptions::checkpoint(&fixture.pool));
        let pinned = pin(&fixture.pool, &mut backend, 30);
        stream.push(&mut backend, pinned).unwrap();
        assert_eq!(stream.drain(&mut backend).unwrap_err().to_string(), told);
        assert_eq!(stream.finish(&mut backend).unwrap().buffers, 0);
        assert_eq!(log.take(), [], "nothing was written");
        assert!(log.refused() >= 2);
        for block in 0..64 {
            let pinned = pin(&fixture.pool, &mut backend, block);
            assert!(pinned.is_dirty() && pinned.try_lock_exclusive().is_some(), "block {block}");
        }
        log.set_broken(false);
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 64);
        assert_on_disk(fixture, 0..64, 1);
        assert_nothing_held(fixture, backend);
    });
}

/// Reads and writes blocks that are not in memory, until the first error.
fn first_refusal(fixture: &Fixture, backend: &mut Backend, strategy: Strategy) -> StorageError {
    let missing: Vec<u32> =
        (0..256).filter(|&block| fixture.pool.lookup(&tag(block)).is_none()).collect();
    let mut results =
        missing.iter().map(|&block| fixture.pool.read(backend, tag(block), strategy).map(drop));
    results.find_map(Result::err).expect("every buffer is dirty, and nothing can be written")
}

/// Every page is dirty and no write succeeds: a backend that needs a buffer gets an error each
/// time, and none hangs.
#[test]
fn a_pool_full_of_pages_that_cannot_be_written_returns_errors() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 256);
        // Each buffer has a page of version 1 that is not on disk.
        (100..164).for_each(|block| drop(dirty(&fixture.pool, &mut backend, block, 1)));
        let held: Vec<u32> =
            (0..256).filter(|&block| fixture.pool.lookup(&tag(block)).is_some()).collect();
        for &block in &held {
            drop(dirty(&fixture.pool, &mut backend, block, 1));
        }
        plan.add(writes_of_data(), EIO);
        for strategy in
            [Strategy::Normal, Strategy::BulkRead, Strategy::BulkWrite, Strategy::VACUUM]
        {
            for _ in 0..20 {
                let error = first_refusal(fixture, &mut backend, strategy);
                assert!(
                    matches!(error, StorageError::Write { errno: Errno::IO, .. }),
                    "{strategy:?}: {error}"
                );
                assert!(
                    error.to_string().contains("in file \"base/5/16384\": Input/output error"),
                    "{error}"
                );
            }
        }
        let blocks = fixture.pool.nblocks(REL, Fork::Main).unwrap();
        assert!(fixture.pool.extend(&mut backend, REL, Fork::Main, 8, Strategy::Normal).is_err());
        assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), blocks);
        let mut cleaner = Cleaner::default();
        let cleaned = cleaner.step(&fixture.pool, &mut backend, &CleanerOptions::default());
        assert!(matches!(cleaned, Err(StorageError::Write { .. })), "{cleaned:?}");
        // The pages in memory are still correct and dirty.
        for &block in &held {
            let pinned = fixture.pool.lookup(&tag(block)).expect("a page was lost");
            assert!(pinned.is_dirty());
            assert_eq!(version(&pinned.lock_shared().copy(), block), 1);
        }
        plan.mend();
        for block in 0..256 {
            let wanted = u64::from(held.contains(&block) || (100..164).contains(&block));
            assert_eq!(
                version(&pin(&fixture.pool, &mut backend, block).lock_shared().copy(), block),
                wanted
            );
        }
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        held.iter().for_each(|&block| assert_on_disk(fixture, block..block + 1, 1));
        assert_nothing_held(fixture, backend);
    });
}

/// The same if the log cannot be flushed.
#[test]
fn a_pool_full_of_pages_ahead_of_a_broken_log_returns_errors() {
    each_faulty(SMALL, |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 256);
        let log = Log::attach(&fixture.pool, plan);
        let held: Vec<u32> =
            (0..256).filter(|&block| fixture.pool.lookup(&tag(block)).is_some()).collect();
        held.iter().for_each(|&block| drop(dirty(&fixture.pool, &mut backend, block, 1)));
        log.set_broken(true);
        for _ in 0..10 {
            let error = first_refusal(fixture, &mut backend, Strategy::Normal);
            assert!(matches!(error, StorageError::Wal(_)), "{error}");
        }
        assert_eq!(log.take(), []);
        assert!(
            held.iter()
                .all(|&block| fixture.pool.lookup(&tag(block)).is_some_and(|p| p.is_dirty()))
        );
        log.set_broken(false);
        (0..256).for_each(|block| drop(pin(&fixture.pool, &mut backend, block)));
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        held.iter().for_each(|&block| assert_on_disk(fixture, block..block + 1, 1));
        assert_nothing_held(fixture, backend);
    });
}

/// The cleaner meets a block that cannot be written. It returns the error, and goes on with the
/// others. No other backend gets the error, even if it writes what the cleaner has given up.
#[test]
fn the_cleaner_gets_past_a_bad_block() {
    each_faulty(SMALL, |fixture, plan: &Arc<FaultPlan>| {
        fixture.aio.set_combine_limit(0);
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 256);
        let pool = fixture.cold().1;
        // Pages two apart, so that none has a neighbour. The first stays clean, so that the clock's
        // first round, which lowers all usage counts, ends with it.
        drop(pin(&pool, &mut backend, 0));
        (1..64).for_each(|n| drop(dirty(&pool, &mut backend, n * 2, 1)));
        drop(pin(&pool, &mut backend, 199));
        let bad = 40;
        let fault = plan.add(only_block(u64::from(bad)), EIO);
        let mut cleaner = Cleaner::default();
        let options = CleanerOptions { max_pages: 1000, ..CleanerOptions::default() };
        let mut errors = 0;
        for round in 0..4 {
            match cleaner.step(&pool, &mut backend, &options) {
                Ok(_) => {}
                Err(StorageError::Write { block, count: 1, .. }) if block == bad => errors += 1,
                Err(other) => panic!("{other}"),
            }
            // A part of the pool is reused.
            (0..12).for_each(|n| drop(pin(&pool, &mut backend, 200 + round * 12 + n)));
        }
        assert!(errors > 0 && plan.fired(fault) > 0);
        let stats = pool.stats();
        assert!(stats.cleaned >= 40, "the others were written, and are counted: {stats:?}");
        assert!(pool.lookup(&tag(bad)).is_some_and(|pinned| pinned.is_dirty()));
        plan.mend();
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        (1..64).for_each(|n| assert_eq!(version(&fixture.on_disk(n * 2), n * 2), 1));
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
    });
}

/// A load that has a page in the queue which cannot be written goes on without that buffer.
#[test]
fn a_load_gets_past_a_bad_block() {
    each_faulty(SMALL, |fixture, plan| {
        fixture.aio.set_combine_limit(0);
        let mut backend = fixture.backend();
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        let fault = plan.add(only_block(66), EIO);
        let mut blocks = 0;
        while blocks < 200 {
            for pinned in
                fixture.pool.extend(&mut backend, REL, Fork::Main, 2, Strategy::BulkWrite).unwrap()
            {
                change(&pinned, |page| stamp(page, blocks, 1));
                blocks += 1;
            }
        }
        assert!(plan.fired(fault) > 0, "the load came to the bad block");
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert!(matches!(error, StorageError::Write { .. }), "{error}");
        plan.mend();
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_on_disk(fixture, 0..200, 1);
        assert_nothing_held(fixture, backend);
    });
}
