//! The cleaner, stepped by hand; victims; loads that write behind themselves.

use crate::fixture::{Fixture, REL, Spec, change, each, stamp, tag, version};
use crate::wal::{assert_nothing_held, dirty, pin};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::sync::Duration;
use forebay_aio::{IoContext, IoOp, MethodKind};
use forebay_format::Fork;
use forebay_storage::{
    Backend, BufferPool, CleanReport, Cleaner, CleanerOptions, Strategy, WriteScope,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::Arc;
use std::thread;

const UNLIMITED: CleanerOptions = CleanerOptions {
    max_pages: 10_000,
    multiplier: 2.0,
    delay: Duration::from_millis(200),
    flush_after: 0,
};

/// A pool of 64 pages, of which the last four are in the queue. All are dirty except the first,
/// which has given way to another one. The clock's hand stands at the second page.
fn aged(fixture: &Fixture, backend: &mut Backend) -> Arc<BufferPool> {
    fixture.fill(backend, 300);
    let pool = fixture.cold().1;
    drop(pin(&pool, backend, 0));
    (1..64).for_each(|block| drop(dirty(&pool, backend, block, 1)));
    drop(pin(&pool, backend, 100));
    pool
}

const SMALL: Spec = Spec { buffers: 64, ..Spec::plain() };

#[test]
fn enough_clean_buffers_are_kept_ahead_of_need() {
    const BLOCKS: u32 = 4096;
    // A round comes before the queue of 64 pages has gone round, as if the cleaner were woken.
    let spec = Spec { buffers: 1024, ..Spec::plain() };
    each(spec, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, BLOCKS);
        let pool = fixture.cold().1;
        let mut random = StdRng::seed_from_u64(7);
        let mut versions = vec![0_u64; BLOCKS as usize];
        let mut cleaner = Cleaner::default();
        let mut update = |backend: &mut Backend, times: usize| {
            for _ in 0..times {
                let block = random.random_range(0..BLOCKS);
                let seen = &mut versions[block as usize];
                let pinned = pool.read(backend, tag(block), Strategy::Normal).unwrap();
                assert_eq!(version(&pinned.lock_shared().copy(), block), *seen);
                *seen += 1;
                change(&pinned, |page| stamp(page, block, *seen));
            }
        };
        // First until the pool is full of dirty pages and the cleaner has caught up; then in a
        // steady state.
        for _ in 0..100 {
            update(&mut backend, 40);
            cleaner.step(&pool, &mut backend, &UNLIMITED).unwrap();
        }
        let before = pool.stats();
        for _ in 0..100 {
            update(&mut backend, 40);
            cleaner.step(&pool, &mut backend, &UNLIMITED).unwrap();
        }
        let after = pool.stats();
        let taken = after.allocated - before.allocated;
        let waited = after.victims_waited - before.victims_waited;
        assert!(taken > 2000, "{after:?}");
        assert!(waited * 100 < taken, "{waited} of {taken} were waited for");
        let dirty = after.victims_dirty - before.victims_dirty;
        assert!(dirty * 20 < taken, "{dirty} of {taken} were dirty when the hand came");
        // It does not repeatedly write pages that change again: about one write for each page that
        // is evicted.
        let cleaned = after.cleaned - before.cleaned;
        assert!(cleaned <= taken + taken / 4, "{cleaned} pages cleaned, {taken} taken");
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        (0..BLOCKS).for_each(|block| {
            assert_eq!(version(&fixture.on_disk(block), block), versions[block as usize])
        });
    });
}

#[test]
fn rounds_that_end_at_their_limit_are_counted() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        let pool = aged(fixture, &mut backend);
        let mut cleaner = Cleaner::default();
        let few = CleanerOptions { max_pages: 5, ..UNLIMITED };
        let report = cleaner.step(&pool, &mut backend, &few).unwrap();
        assert_eq!(report, CleanReport { cleaned: 5, limited: true, idle: false });
        assert_eq!(few.rest_after(report), Duration::ZERO, "buffers are in demand");
        assert_eq!((pool.stats().cleaned, pool.stats().clean_limited), (5, 1));
        // No buffer was needed since: it goes on after its delay, until a quarter of the clock and
        // three of the queue's four pages are clean.
        for cleaned in [5, 5, 3] {
            let report = cleaner.step(&pool, &mut backend, &few).unwrap();
            assert_eq!(report, CleanReport { cleaned, limited: cleaned == 5, idle: true });
            assert_eq!(few.rest_after(report), few.delay);
        }
        assert_eq!((pool.stats().cleaned, pool.stats().clean_limited), (18, 3));
        // Then it hibernates.
        let report = cleaner.step(&pool, &mut backend, &few).unwrap();
        assert_eq!(report, CleanReport { cleaned: 0, limited: false, idle: true });
        assert_eq!(few.rest_after(report), few.delay * 50);
        assert_eq!(few.rest_after(CleanReport { idle: false, ..report }), few.delay);
    });
}

#[test]
fn a_cleaner_without_pages_to_write_does_nothing() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        let pool = aged(fixture, &mut backend);
        let off = CleanerOptions { max_pages: 0, ..UNLIMITED };
        let mut cleaner = Cleaner::default();
        let report = cleaner.step(&pool, &mut backend, &off).unwrap();
        assert_eq!(report, CleanReport { cleaned: 0, limited: false, idle: false });
        assert_eq!(off.rest_after(report), off.delay, "it waits for its delay");
        assert_eq!((pool.stats().cleaned, pool.stats().clean_limited), (0, 0));
    });
}

#[test]
fn the_cleaner_skips_pages_that_are_pinned_locked_or_used() {
    each(SMALL, |fixture| {
        let mut backend = fixture.backend();
        let pool = aged(fixture, &mut backend);
        // 1 is pinned, 2 is used again, 3 and 4 are unused.
        let pinned = pin(&pool, &mut backend, 1);
        drop(pin(&pool, &mut backend, 2));
        let report = Cleaner::default().step(&pool, &mut backend, &UNLIMITED).unwrap();
        assert_eq!(report.cleaned, 18);
        let is_dirty = |block: u32| pool.lookup(&tag(block)).unwrap().is_dirty();
        assert!(pinned.is_dirty() && is_dirty(2));
        assert!(!is_dirty(3) && !is_dirty(17) && is_dirty(18), "15 of the clock");
        assert!(!is_dirty(60) && !is_dirty(62) && is_dirty(63), "three of the queue");
    });
}

#[test]
fn waits_for_victims_are_counted() {
    let (fixture, gate) = Fixture::gated(SMALL, Arc::new(PosixExecutor));
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 300);
    let pool = fixture.cold().1;
    (0..64).for_each(|n| drop(dirty(&pool, &mut backend, n * 2, 1)));
    assert_eq!(pool.stats().victims_waited, 0);
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let reader = scope.spawn(|| drop(pin(&pool, &mut fixture.backend(), 200)));
        // The search has started writes of some victims, finds no clean one, and waits.
        gate.await_waiters(1);
        assert!(gate.held() >= 1 && !reader.is_finished());
        gate.open();
        reader.join().unwrap();
    });
    let stats = pool.stats();
    assert_eq!((stats.victims_waited, stats.victims_dirty), (1, 8));
    assert!(pool.lookup(&tag(200)).is_some());
}

/// A load.
fn load(pool: &Arc<BufferPool>, backend: &mut Backend, blocks: &mut u32, n: u32) {
    let end = *blocks + n;
    while *blocks < end {
        for pinned in pool.extend(backend, REL, Fork::Main, 8, Strategy::BulkWrite).unwrap() {
            change(&pinned, |page| stamp(page, *blocks, 3));
            *blocks += 1;
        }
    }
}

#[test]
fn a_bulk_load_writes_its_pages_behind_itself() {
    each(Spec { buffers: 1024, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, 8);
        // The other pages are dirty, and the load must not write them.
        let pool = fixture.cold().1;
        let mut blocks = 8;
        load(&pool, &mut backend, &mut blocks, 1200);
        let stats = pool.stats();
        assert_eq!(stats.victims_waited, 0, "{stats:?}");
        if fixture.spec.method == MethodKind::Sync {
            assert_eq!((stats.victims_dirty, stats.bulk_waited), (0, 0));
        }
        assert!(stats.victims_dirty < 12, "{stats:?}");
        // All 1200 pages except the last 32, half of the queue, were written, in full writes.
        let (writes, reuses) = (
            fixture.count_in(IoContext::BulkWrite, IoOp::Write),
            fixture.count_in(IoContext::BulkWrite, IoOp::Reuse),
        );
        assert_eq!(
            reuses,
            u64::from(blocks) - 8 - 1024,
            "what does not fit goes through the queue"
        );
        assert!(((1200 - 32) / 16 - 1..=1200 / 8).contains(&writes), "{writes} writes");
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        (8..blocks).for_each(|block| assert_eq!(version(&fixture.on_disk(block), block), 3));
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
        assert_nothing_held(fixture, backend);
    });
}

/// On a disk that does not answer, a load goes on for half of the queue: it does not wait for the
/// writes that it starts behind itself.
#[test]
fn a_bulk_load_does_not_wait_for_its_writes() {
    let (fixture, gate) =
        Fixture::gated(Spec { buffers: 1024, ..Spec::plain() }, Arc::new(PosixExecutor));
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, 8);
    let pool = fixture.cold().1;
    let mut blocks = 8;
    load(&pool, &mut backend, &mut blocks, 1024 + 256);
    gate.shut();
    let _open = gate.open_at_end();
    load(&pool, &mut backend, &mut blocks, 32);
    assert!(gate.held() >= 1, "writes are in flight");
    assert_eq!((pool.stats().victims_waited, pool.stats().bulk_waited), (0, 0));
    gate.open();
    pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    (8..blocks).for_each(|block| assert_eq!(version(&fixture.on_disk(block), block), 3));
}
