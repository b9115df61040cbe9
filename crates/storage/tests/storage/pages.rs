//! Pages through the pool: round trips, eviction, write-out, new pages.

use crate::fixture::{Fixture, REL, Spec, change, each, set_lsn, stamp, tag, version};
use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::sync::{Duration, Mutex};
use forebay_aio::{self as aio, Errno, IoContext, IoOp, OpKind};
use forebay_format::{Fork, Lsn, Page, RelFileLocator};
use forebay_storage::WalFailure;
use forebay_storage::{
    Cleaner, CleanerOptions, PrewarmMode, StorageError, Strategy, WalFlush, WriteScope,
    kernel_cached_pages,
};
use forebay_wal::WalError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SMALL: Spec = Spec { segment_blocks: 8, ..Spec::plain() };

#[test]
fn round_trip_across_segments() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 20);
        for block in 0..20 {
            assert_eq!(version(&fixture.on_disk(block), block), 0);
        }
        let (_, pool) = fixture.cold();
        let pins = pool.read_many(&mut backend, REL, Fork::Main, 3, 15, Strategy::Normal).unwrap();
        for (pin, block) in pins.iter().zip(3..) {
            assert_eq!(pin.tag(), tag(block));
            assert_eq!(version(&pin.lock_shared().copy(), block), 0);
        }
        assert_eq!(fixture.count(IoOp::Read), 3, "one read for each segment");
        for pin in &pins {
            let block = pin.tag().block;
            change(pin, |page| stamp(page, block, 7));
        }
        drop(pins);
        let report = pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!((report.buffers, report.writes), (15, 3));
        for block in 0..20 {
            assert_eq!(
                version(&fixture.on_disk(block), block),
                if (3..18).contains(&block) { 7 } else { 0 }
            );
        }
        assert_eq!(pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 0);
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
    });
}

#[test]
fn neighbours_are_written_together() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 70);
        let before = fixture.count(IoOp::Write);
        // 0..64 without 40; then 66 alone.
        for block in (0..64).filter(|b| *b != 40).chain([66]).rev() {
            let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            change(&pin, |page| stamp(page, block, 1));
        }
        let report = fixture.pool.write_dirty(&mut backend, WriteScope::Relation(REL)).unwrap();
        // 0..16, 16..32, 32..40, 41..57, 57..64, 66
        assert_eq!((report.buffers, report.writes), (64, 6));
        assert_eq!(fixture.count(IoOp::Write) - before, 6);
        assert_eq!(version(&fixture.on_disk(40), 40), 0);
        assert_eq!(version(&fixture.on_disk(66), 66), 1);
    });
}

#[test]
fn pages_outside_a_scope_stay_dirty() {
    let fixture = Fixture::new(SMALL);
    let mut backend = fixture.backend();
    let other = RelFileLocator::in_default(6, 5000);
    for rel in [REL, other] {
        fixture.smgr.create(rel, Fork::Main, true).unwrap();
        let pins = fixture.pool.extend(&mut backend, rel, Fork::Main, 2, Strategy::Normal).unwrap();
        pins.iter().for_each(|pin| change(pin, |page| stamp(page, 0, 0)));
    }
    assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::Database(6)).unwrap().buffers, 2);
    assert_eq!(
        fixture.pool.write_dirty(&mut backend, WriteScope::Relation(REL)).unwrap().buffers,
        2
    );
    assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 0);
}

#[test]
fn a_tiny_pool_evicts_pages_without_losing_changes() {
    each(Spec { buffers: 16, ..SMALL }, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 100);
        for round in 1..4 {
            for block in (0..100).rev() {
                let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
                assert_eq!(version(&pin.lock_shared().copy(), block), round - 1);
                change(&pin, |page| stamp(page, block, round));
            }
        }
        assert!(fixture.count(IoOp::Evict) >= 280);
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        (0..100).for_each(|block| assert_eq!(version(&fixture.on_disk(block), block), 3));
    });
}

#[test]
fn dirty_victims_are_written_with_their_neighbours() {
    let fixture = Fixture::new(Spec { buffers: 64, ..Spec::plain() });
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 256);
    let pool = fixture.cold().1;
    let before = fixture.count(IoOp::Write);
    for block in 0..256 {
        let pin = pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, block, 1));
    }
    let writes = fixture.count(IoOp::Write) - before;
    assert!((1..=20).contains(&writes), "{writes} writes for some 200 evicted pages");
}

/// Bulk work beside a pool full of pages that others use again and again: it reuses the buffers of
/// the queue.
#[test]
fn bulk_work_reuses_the_buffers_of_the_queue() {
    const QUEUE: u32 = 512 / 16;
    each(Spec { buffers: 512, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 1000);
        let hot = 0..512 - QUEUE;
        // Often enough that each is used in two epochs.
        for block in (0..4).flat_map(|_| hot.clone()) {
            drop(pool.read(&mut backend, tag(block), Strategy::Normal).unwrap());
        }
        for block in 600..1000 {
            let pin = pool.read(&mut backend, tag(block), Strategy::BulkRead).unwrap();
            assert_eq!(version(&pin.lock_shared().copy(), block), 0);
        }
        let count = |op| fixture.count_in(IoContext::BulkRead, op);
        assert_eq!(count(IoOp::Reuse), u64::from(400 - QUEUE), "after the free ones");
        assert_eq!((count(IoOp::Evict), pool.stats().from_queue), (0, 400));
        let is_in = |block: &u32| pool.lookup(&tag(*block)).is_some();
        assert!(hot.clone().all(|block| is_in(&block)));
        assert_eq!(
            (600..1000).filter(is_in).collect::<Vec<_>>(),
            (1000 - QUEUE..1000).collect::<Vec<_>>()
        );
        // A load: written in runs, before its pages leave the queue.
        let before = fixture.count(IoOp::Write);
        let (mut made, mut block) = (0, 1000);
        while made < 400 {
            for pin in pool.extend(&mut backend, REL, Fork::Main, 16, Strategy::BulkWrite).unwrap()
            {
                change(&pin, |page| stamp(page, block, 5));
                (made, block) = (made + 1, block + 1);
            }
        }
        let writes = fixture.count(IoOp::Write) - before;
        let all = (400 - u64::from(QUEUE)) / 16..=400 / 8;
        assert!(all.contains(&writes), "{writes} writes");
        assert!(hot.clone().all(|block| is_in(&block)));
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        (1000..block).for_each(|b| assert_eq!(version(&fixture.on_disk(b), b), 5));
    });
}

#[test]
fn the_cleaner_works_ahead_of_the_clock() {
    let fixture = Fixture::new(Spec { buffers: 64, ..Spec::plain() });
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 200);
    let pool = fixture.cold().1;
    // The first page stays clean, so that it gives way.
    for block in 0..64 {
        let pin = pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        if block > 0 {
            change(&pin, |page| stamp(page, block, 1));
        }
    }
    let mut cleaner = Cleaner::default();
    let options = CleanerOptions { max_pages: 40, ..CleanerOptions::default() };
    drop(pool.read(&mut backend, tag(100), Strategy::Normal).unwrap());
    // It keeps a quarter of a small clock clean, and another quarter when those are taken; and
    // three of the queue's four pages, of which none is taken.
    let mut next = 101;
    for cleaned in [15 + 3, 15, 15] {
        let report = cleaner.step(&pool, &mut backend, &options).unwrap();
        assert_eq!((report.cleaned, report.limited, report.idle), (cleaned, false, false));
        (next..next + 15)
            .for_each(|block| drop(pool.read(&mut backend, tag(block), Strategy::Normal).unwrap()));
        next += 15;
    }
    let stats = pool.stats();
    assert_eq!((stats.victims_dirty, stats.victims_waited, stats.cleaned), (0, 0, 48));
}

/// A search for a buffer passes over dirty ones, and waits only if there is no other.
#[test]
fn dirty_victims_are_written_without_waiting() {
    each(Spec { buffers: 256, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 600);
        let pool = fixture.cold().1;
        // Every second page is changed.
        for block in 0..600 {
            let pin = pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            if block % 2 == 0 {
                change(&pin, |page| stamp(page, block, 1));
            }
        }
        let stats = pool.stats();
        assert!(stats.victims_dirty > 0, "{stats:?}");
        assert_eq!(stats.victims_waited, 0, "{stats:?}");
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        for block in 0..600 {
            assert_eq!(version(&fixture.on_disk(block), block), u64::from(block % 2 == 0));
        }
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
    });
}

#[test]
fn the_cleaner_is_woken_when_buffers_are_needed() {
    let fixture = Fixture::new(Spec { buffers: 64, ..Spec::plain() });
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 400);
    let pool = fixture.cold().1;
    let options = CleanerOptions { delay: Duration::from_secs(600), ..CleanerOptions::default() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            let (mut backend, mut cleaner) = (fixture.backend(), Cleaner::default());
            while !done.load(Ordering::SeqCst) {
                let report = cleaner.step(&pool, &mut backend, &options).unwrap();
                cleaner.rest(&pool, &options, report);
            }
        });
        // With a delay of ten minutes, it cleans only because it is woken.
        let mut block = 0;
        while pool.stats().cleaned < 200 {
            let pin = pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            change(&pin, |page| stamp(page, block, 1));
            block = (block + 1) % 400;
        }
        done.store(true, Ordering::SeqCst);
        while !cleaner.is_finished() {
            pool.wake_cleaner();
            std::thread::yield_now();
        }
    });
}

#[test]
fn new_pages_are_zero_valid_and_counted() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        let pins =
            fixture.pool.extend(&mut backend, REL, Fork::Main, 10, Strategy::Normal).unwrap();
        assert_eq!(
            pins.iter().map(|p| p.tag().block).collect::<Vec<_>>(),
            (0..10).collect::<Vec<_>>()
        );
        assert!(pins.iter().all(|p| p.lock_shared().page().is_all_zeros() && !p.is_dirty()));
        assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 10);
        assert_eq!(
            (fixture.count(IoOp::Extend), fixture.count(IoOp::Write), fixture.count(IoOp::Read)),
            (1, 0, 0)
        );
        drop(pins);
        // Never written, they read as zeros.
        let pin = fixture.cold().1.read(&mut backend, tag(9), Strategy::Normal).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros());
    });
}

#[test]
fn recovery_extends_files_for_its_pages() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        let pin = fixture.pool.zero_page(&mut backend, tag(10)).unwrap();
        assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 11);
        change(&pin, |page| stamp(page, 10, 4));
        drop(pin);
        let pin = fixture.pool.zero_page(&mut backend, tag(20)).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros());
        assert_eq!(fixture.smgr.nblocks(REL, Fork::Main).unwrap(), 21);
        let pin = fixture.pool.read(&mut backend, tag(10), Strategy::Normal).unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), 10), 4);
        // A page that recovery makes from nothing loses its contents, in memory or not.
        let pin = fixture.pool.zero_page(&mut backend, tag(10)).unwrap();
        assert!(pin.lock_shared().page().is_all_zeros());
        let reads = fixture.count(IoOp::Read);
        assert!(
            fixture
                .pool
                .zero_page(&mut backend, tag(3))
                .unwrap()
                .lock_shared()
                .page()
                .is_all_zeros()
        );
        assert_eq!(fixture.count(IoOp::Read), reads, "not read first");
    });
}

/// A log that only records its calls.
#[derive(Default)]
struct Log {
    flushed: AtomicU64,
    calls: Mutex<Vec<u64>>,
    overtaken: AtomicBool,
}

impl WalFlush for Log {
    fn flush(
        &self,
        _io: &mut aio::IoBackend,
        upto: Lsn,
    ) -> Result<(), Arc<dyn std::error::Error + Send + Sync>> {
        self.calls.lock().push(upto.0);
        self.flushed.store(upto.0, Ordering::SeqCst);
        Ok(())
    }
    fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::SeqCst))
    }
}

/// Looks at each request before it is executed.
struct Watched<F>(F);

impl<F: Fn(&Request<'_>) + Send + Sync> Executor for Watched<F> {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        (self.0)(request);
        PosixExecutor.execute(request)
    }
}

#[test]
fn the_log_is_durable_ahead_of_pages() {
    let log = Arc::new(Log::default());
    let seen = Arc::clone(&log);
    let executor = Watched(move |request: &Request<'_>| {
        if request.op() == OpKind::Writev {
            let newest = request
                .vectors()
                .iter()
                .flat_map(|v| {
                    // SAFETY: the memory belongs to the write that is being executed.
                    unsafe { std::slice::from_raw_parts(v.ptr(), v.len()) }.chunks_exact(8192)
                })
                .map(|page| Page::new(page.try_into().unwrap()).lsn().0)
                .max();
            if newest > Some(seen.flushed().0) {
                seen.overtaken.store(true, Ordering::SeqCst);
            }
        }
    });
    let fixture = Fixture::with_executor(Spec { buffers: 16, ..Spec::plain() }, Arc::new(executor));
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 40);
    fixture.pool.attach_wal(Arc::clone(&log) as Arc<dyn WalFlush>);
    let before = fixture.count(IoOp::Write);
    for block in 0..40 {
        let pin = fixture.pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
        change(&pin, |page| set_lsn(page, 1000 + u64::from(block)));
    }
    assert!(!log.calls.lock().is_empty(), "victims were written");
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert!(!log.overtaken.load(Ordering::SeqCst), "a page was written before its log");
    let calls = log.calls.lock();
    assert_eq!(calls.last(), Some(&1039));
    let runs = fixture.count(IoOp::Write) - before;
    assert!(calls.len() as u64 <= runs, "a flush for each run at most, of {runs}");
    assert_eq!(Page::new(&fixture.on_disk(39)).lsn(), Lsn(1039));
}

#[test]
fn prewarming() {
    each(Spec { buffers: 512, segment_blocks: 64, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 200);
        assert_eq!(
            pool.prewarm(&mut backend, REL, Fork::Main, PrewarmMode::Prefetch).unwrap(),
            200
        );
        assert_eq!(fixture.count(IoOp::Read), 0, "the kernel reads, if anyone");
        assert_eq!(pool.prewarm(&mut backend, REL, Fork::Main, PrewarmMode::Read).unwrap(), 200);
        assert_eq!(fixture.count(IoOp::Read), 13, "64 blocks in 4 reads each, and 8 in one more");
        assert!(pool.lookup(&tag(0)).is_none());
        assert_eq!(pool.prewarm(&mut backend, REL, Fork::Main, PrewarmMode::Buffer).unwrap(), 200);
        assert!((0..200).all(|block| pool.lookup(&tag(block)).is_some()));
        assert_eq!(fixture.count(IoOp::Read), 26, "as many into the pool");
        pool.sync_pending(&mut backend).unwrap();
        let (cached, all) = kernel_cached_pages(&fixture.aio, &fixture.path(0)).unwrap();
        assert_eq!(all, 64 * 2);
        if fixture.spec.direct {
            assert_eq!(cached, 0, "direct I/O leaves nothing in the kernel's cache");
        } else {
            assert!(cached > 0);
        }
    });
}

#[test]
fn recovery_refuses_an_invalid_block_number() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    for block in [u32::MAX, u32::MAX - 1] {
        let error = fixture.pool.zero_page(&mut backend, tag(block)).unwrap_err();
        assert!(matches!(error, StorageError::TooManyBlocks { .. }), "{error}");
        assert_eq!(fixture.pool.nblocks(REL, Fork::Main).unwrap(), 0);
    }
}

/// A log that cannot be flushed.
struct Stuck(fn() -> WalFailure);

impl WalFlush for Stuck {
    fn flush(&self, _io: &mut aio::IoBackend, _upto: Lsn) -> Result<(), WalFailure> {
        Err((self.0)())
    }
    fn flushed(&self) -> Lsn {
        Lsn(0)
    }
}

#[test]
fn the_logs_error_decides_whether_it_is_fatal() {
    let beyond: fn() -> WalFailure =
        || Arc::new(WalError::BeyondEnd { requested: Lsn(1 << 40), end: Lsn(1 << 30) });
    let unknown: fn() -> WalFailure = || Arc::new(std::io::Error::other("lost"));
    for (failure, fatal) in [(beyond, false), (unknown, true)] {
        let fixture = Fixture::new(Spec::plain());
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 2);
        fixture.pool.attach_wal(Arc::new(Stuck(failure)));
        let pin = fixture.pool.read(&mut backend, tag(1), Strategy::Normal).unwrap();
        change(&pin, |page| set_lsn(page, 1 << 40));
        let error = fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap_err();
        assert_eq!(error.is_fatal(), fatal, "{error}");
        assert!(pin.is_dirty() && pin.try_lock_exclusive().is_some());
    }
}
