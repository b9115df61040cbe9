//! Many threads at once, compared with a model.

use crate::fixture::{REL, Spec, each, full_stream, stamp, tag, version};
use forebay_format::{Fork, Page, RelFileLocator};
use forebay_storage::{
    Backend, Cleaner, CleanerOptions, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings,
    WriteScope,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const PAGES: u32 = 80;

fn bump(pin: &Pinned, block: u32) -> u64 {
    let mut page = pin.lock_exclusive();
    let next = version(&page, block) + 1;
    stamp(&mut page, block, next);
    page.mark_dirty();
    next
}

/// Updates random pages in random ways, and counts the updates.
fn worker(
    pool: &std::sync::Arc<forebay_storage::BufferPool>,
    mut backend: Backend,
    seed: u64,
    model: &[AtomicU64],
) {
    let mut rng = StdRng::seed_from_u64(seed);
    for _ in 0..40 {
        for _ in 0..10 {
            let block = rng.random_range(0..PAGES);
            let strategy =
                if rng.random_bool(0.2) { Strategy::BulkWrite } else { Strategy::Normal };
            let pin = pool.read(&mut backend, tag(block), strategy).unwrap();
            bump(&pin, block);
            model[block as usize].fetch_add(1, Ordering::SeqCst);
        }
        let start = rng.random_range(0..PAGES);
        let mut blocks = start..PAGES.min(start + 25);
        let mut stream = full_stream(pool, || blocks.next(), Strategy::BulkRead, 4, 4);
        let mut expected = start;
        while let Some(pin) = stream.next(&mut backend).unwrap() {
            assert_eq!(pin.tag().block, expected);
            version(&pin.lock_shared().copy(), expected);
            expected += 1;
        }
    }
}

fn torture(buffers: usize, threads: u64) {
    each(Spec { buffers, segment_blocks: 32, combine: 8, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, PAGES);
        let model: Vec<AtomicU64> = (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (pool, model, stop) = (&pool, &model, &stop);
            scope.spawn(|| {
                let mut backend = fixture.backend();
                let mut cleaner = Cleaner::default();
                while !stop.load(Ordering::SeqCst) {
                    pool.write_dirty(&mut backend, WriteScope::All).unwrap();
                    pool.sync_pending(&mut backend).unwrap();
                    cleaner.step(pool, &mut backend, &CleanerOptions::default()).unwrap();
                }
            });
            let workers: Vec<_> = (0..threads)
                .map(|seed| {
                    let backend = fixture.backend();
                    scope.spawn(move || worker(pool, backend, seed, model))
                })
                .collect();
            let failed = workers.into_iter().filter_map(|w| w.join().err()).count();
            stop.store(true, Ordering::SeqCst);
            assert_eq!(failed, 0);
        });
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        for block in 0..PAGES {
            let want = model[block as usize].load(Ordering::SeqCst);
            assert_eq!(version(&fixture.on_disk(block), block), want, "block {block}");
        }
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
    });
}

#[test]
fn updates_and_scans_in_a_small_pool() {
    torture(32, 4);
}

#[test]
fn updates_and_scans_in_the_smallest_pool() {
    torture(16, 6);
}

#[test]
fn extensions_never_overlap() {
    each(Spec { buffers: 64, segment_blocks: 32, ..Spec::plain() }, |fixture| {
        fixture.smgr.create(REL, Fork::Main, false).unwrap();
        let seen = Mutex::new(BTreeSet::new());
        thread::scope(|scope| {
            for thread in 0..4u32 {
                let (seen, fixture) = (&seen, &fixture);
                scope.spawn(move || {
                    let mut backend = fixture.backend();
                    for n in 0..30 {
                        let pins = fixture
                            .pool
                            .extend(
                                &mut backend,
                                REL,
                                Fork::Main,
                                1 + (n + thread) % 7,
                                Strategy::Normal,
                            )
                            .unwrap();
                        for pin in pins {
                            let block = pin.tag().block;
                            assert!(fixture.pool.nblocks(REL, Fork::Main).unwrap() > block);
                            let mut page = pin.lock_exclusive();
                            assert!(Page::new(&page).is_all_zeros());
                            stamp(&mut page, block, 1);
                            page.mark_dirty();
                            assert!(
                                seen.lock().unwrap().insert(block),
                                "block {block} was given twice"
                            );
                        }
                        // New pages of other threads may be read at once.
                        let last = fixture.pool.nblocks(REL, Fork::Main).unwrap() - 1;
                        drop(fixture.pool.read(&mut backend, tag(last), Strategy::Normal).unwrap());
                    }
                });
            }
        });
        let seen = seen.into_inner().unwrap();
        let n = fixture.pool.nblocks(REL, Fork::Main).unwrap();
        assert_eq!(seen, (0..n).collect());
        fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap();
        (0..n).for_each(|block| assert_eq!(version(&fixture.on_disk(block), block), 1));
        assert_eq!(fixture.cold().0.nblocks(REL, Fork::Main).unwrap(), n);
    });
}

/// As in INSERT ... SELECT, each thread holds the page of its scan while it extends another
/// relation.
#[test]
fn scans_that_extend_do_not_starve_each_other_in_the_smallest_pool() {
    const COPY: RelFileLocator = RelFileLocator::in_default(5, 16_385);
    each(Spec { buffers: 16, segment_blocks: 64, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, PAGES);
        pool.smgr().create(COPY, Fork::Main, false).unwrap();
        let (pool, all_have_a_page) = (&pool, &std::sync::Barrier::new(8));
        thread::scope(|scope| {
            for _ in 0..8 {
                let mut backend = fixture.backend();
                scope.spawn(move || {
                    let mut blocks = 0..PAGES;
                    let flags = StreamFlags::FULL;
                    let next = || blocks.next();
                    let mut stream = ReadStream::new(
                        pool,
                        REL,
                        Fork::Main,
                        next,
                        flags,
                        Strategy::Normal,
                        StreamSettings::new(16, 16),
                    );
                    let mut n = 0;
                    let mut ready = false;
                    while let Some(from) = stream.next(&mut backend).unwrap() {
                        if !std::mem::replace(&mut ready, true) {
                            all_have_a_page.wait();
                        }
                        assert_eq!(version(&from.lock_shared().copy(), n), 0);
                        for to in pool
                            .extend(&mut backend, COPY, Fork::Main, 2, Strategy::Normal)
                            .unwrap()
                        {
                            let block = to.tag().block;
                            let mut page = to.lock_exclusive();
                            stamp(&mut page, block, 1);
                            page.mark_dirty();
                        }
                        n += 1;
                    }
                    assert_eq!(n, PAGES);
                });
            }
        });
        let n = pool.nblocks(COPY, Fork::Main).unwrap();
        assert!(n >= 8 * PAGES);
    });
}
