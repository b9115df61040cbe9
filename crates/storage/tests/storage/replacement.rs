//! Which pages stay in the pool: loops over tables, and a hot set beside bulk work. Only pages that
//! had to be read are counted, so the figures don't depend on the machine.

use crate::fixture::{Fixture, REL, Spec, change, full_stream, stamp, tag, version};
use crate::wal::assert_nothing_held;
use forebay_aio::{IoContext, IoOp};
use forebay_format::{Fork, PageTag, RelFileLocator};
use forebay_storage::{Backend, BufferPool, Cleaner, CleanerOptions, Strategy};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::ops::Range;
use std::sync::Arc;

const POOL: u32 = 1024;
const SPEC: Spec = Spec { buffers: POOL as usize, ..Spec::plain() };
const LOADED: RelFileLocator = RelFileLocator { rel: 16_385, ..REL };

fn misses(pool: &BufferPool) -> u64 {
    pool.stats().allocated
}

/// Scans blocks of [`REL`] through a stream. Returns how many of them were read.
fn scan(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    blocks: Range<u32>,
    strategy: Strategy,
) -> u64 {
    let before = misses(pool);
    let (mut source, mut expected) = (blocks.clone(), blocks);
    let mut stream = full_stream(pool, || source.next(), strategy, 4, 8);
    while let Some(pin) = stream.next(backend).unwrap() {
        let block = expected.next().unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), block), 0);
    }
    assert_eq!(expected.next(), None);
    misses(pool) - before
}

/// The pages that each of six scans of a table reads.
fn loops(blocks: u32, strategy: Strategy) -> Vec<u64> {
    let fixture = Fixture::new(SPEC);
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, blocks);
    let read = (0..6).map(|_| scan(&pool, &mut backend, 0..blocks, strategy)).collect();
    assert!(pool.has_sound_places());
    assert_nothing_held(&fixture, backend);
    read
}

#[test]
fn a_table_that_fits_is_in_memory_after_one_scan() {
    let half = u64::from(POOL / 2);
    assert_eq!(loops(POOL / 2, Strategy::BulkRead), [half, 0, 0, 0, 0, 0]);
    let whole = u64::from(POOL);
    let read = loops(POOL, Strategy::BulkRead);
    assert_eq!(read[0], whole);
    assert!(read[1..].iter().all(|read| *read <= whole / 40), "{read:?}");
}

#[test]
fn of_a_table_of_two_pools_half_is_read_each_time() {
    let blocks = u64::from(2 * POOL);
    let read = loops(2 * POOL, Strategy::BulkRead);
    assert_eq!(read[0], blocks);
    let settled = &read[2..];
    let about_half = blocks * 48 / 100..=blocks * 58 / 100;
    assert!(settled.iter().all(|read| about_half.contains(read)), "{read:?} of {blocks}");
}

#[test]
fn a_part_stays_of_a_table_that_outlasts_its_ghosts() {
    let size = 6 * POOL;
    let read = loops(size, Strategy::Scan { blocks: size });
    let blocks = u64::from(size);
    assert_eq!(read[0], blocks);
    // At best five of the six pools' worth.
    let settled = &read[3..];
    let about = blocks * 83 / 100..=blocks * 88 / 100;
    assert!(settled.iter().all(|read| about.contains(read)), "{read:?} of {blocks}");
}

/// Pages of half a pool that are used at random.
struct Hot {
    random: StdRng,
    used: u64,
    missed: u64,
}

impl Hot {
    const PAGES: u32 = POOL / 2;

    /// Warms them up.
    fn new(pool: &Arc<BufferPool>, backend: &mut Backend) -> Hot {
        let mut hot = Hot { random: StdRng::seed_from_u64(11), used: 0, missed: 0 };
        (0..8 * POOL).for_each(|_| hot.use_one(pool, backend));
        Hot { used: 0, missed: 0, ..hot }
    }

    fn use_one(&mut self, pool: &Arc<BufferPool>, backend: &mut Backend) {
        let (block, before) = (self.random.random_range(0..Hot::PAGES), misses(pool));
        let pin = pool.read(backend, tag(block), Strategy::Normal).unwrap();
        assert_eq!(pin.tag(), tag(block));
        self.used += 1;
        self.missed += misses(pool) - before;
    }

    /// At most one in a hundred was read again.
    fn assert_kept(&self, beside: &str) {
        assert!(self.missed * 100 <= self.used, "{beside}: {} of {}", self.missed, self.used);
    }
}

#[test]
fn a_hot_half_stays_beside_scans_and_vacuum() {
    const TABLE: u32 = 6 * POOL;
    let fixture = Fixture::new(SPEC);
    let mut backend = fixture.backend();
    let cold = fixture.fill_cold(&mut backend, Hot::PAGES + TABLE);
    drop(cold);
    for strategy in [Strategy::BulkRead, Strategy::VACUUM] {
        // Another page for each hot one, and then four.
        for each in [1, 4] {
            let pool = fixture.cold().1;
            let mut hot = Hot::new(&pool, &mut backend);
            let mut other = fixture.backend();
            let mut blocks = Hot::PAGES..Hot::PAGES + TABLE;
            let mut stream = full_stream(&pool, || blocks.next(), strategy, 4, 8);
            let mut n = 0;
            while stream.next(&mut other).unwrap().is_some() {
                n += 1;
                if n % each == 0 {
                    hot.use_one(&pool, &mut backend);
                }
            }
            assert_eq!(n, TABLE);
            hot.assert_kept(&format!("{strategy:?}, {each} a use"));
            drop(stream);
            assert!(pool.has_sound_places());
        }
    }
}

/// A table that is scanned again and again may take what the hot set leaves, and no more.
#[test]
fn a_hot_half_stays_beside_a_repeated_scan_which_keeps_a_part() {
    const TABLE: u32 = 2 * POOL;
    let fixture = Fixture::new(SPEC);
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, Hot::PAGES + TABLE);
    let mut hot = Hot::new(&pool, &mut backend);
    let mut read = Vec::new();
    for _ in 0..6 {
        let mut scanned = 0;
        for block in Hot::PAGES..Hot::PAGES + TABLE {
            let before = misses(&pool);
            drop(pool.read(&mut backend, tag(block), Strategy::BulkRead).unwrap());
            scanned += misses(&pool) - before;
            hot.use_one(&pool, &mut backend);
        }
        read.push(scanned);
    }
    hot.assert_kept("a loop");
    // Of two pools, half a pool less the queue fits.
    let all = u64::from(TABLE);
    assert!(read[3..].iter().all(|read| *read <= all * 85 / 100), "{read:?} of {all}");
}

/// A load of four pools beside the hot half, with and without the cleaner: its pages are written
/// behind it, so that neither side waits for a write.
#[test]
fn a_hot_half_stays_beside_a_load_which_waits_for_no_write() {
    for cleaning in [false, true] {
        let fixture = Fixture::new(SPEC);
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, Hot::PAGES);
        let mut hot = Hot::new(&pool, &mut backend);
        pool.smgr().create(LOADED, Fork::Main, false).unwrap();
        let (mut other, mut cleaner) = (fixture.backend(), Cleaner::default());
        let before = pool.stats();
        let mut block = 0;
        while block < 4 * POOL {
            let pins = pool.extend(&mut other, LOADED, Fork::Main, 8, Strategy::BulkWrite).unwrap();
            for pin in pins {
                change(&pin, |page| stamp(page, block, 3));
                hot.use_one(&pool, &mut backend);
                block += 1;
            }
            if cleaning && block % 64 == 0 {
                cleaner.step(&pool, &mut backend, &CleanerOptions::default()).unwrap();
            }
        }
        hot.assert_kept("a load");
        let after = pool.stats();
        let (taken, waited) =
            (after.allocated - before.allocated, after.victims_waited - before.victims_waited);
        assert!(taken >= u64::from(4 * POOL) && waited * 100 < taken, "{waited} of {taken}");
        // The half of the pool that the hot set leaves is filled first; then buffers of the queue
        // are taken, and nothing else.
        let reused = fixture.count_in(IoContext::BulkWrite, IoOp::Reuse);
        let evicted = fixture.count_in(IoContext::BulkWrite, IoOp::Evict);
        assert!(reused >= u64::from(4 * POOL - POOL / 2 - POOL / 16), "{reused} reused");
        assert!(evicted <= u64::from(POOL / 100), "{evicted} evicted");
        pool.write_dirty(&mut backend, forebay_storage::WriteScope::All).unwrap();
        assert!(pool.has_sound_places());
        for block in (0..4 * POOL).step_by(97) {
            let page = PageTag { rel: LOADED, ..tag(block) };
            let pin = pool.read(&mut backend, page, Strategy::Normal).unwrap();
            assert_eq!(version(&pin.lock_shared().copy(), block), 3);
        }
    }
}

/// A table beside one that is loaded and dropped again and again. Both fit. At first one or the
/// other has pages in the queue.
#[test]
fn buffers_of_a_dropped_relation_are_taken_first() {
    const TABLE: u32 = POOL / 16 * 7;
    for table_first in [false, true] {
        let fixture = Fixture::new(SPEC);
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, TABLE);
        let load = |backend: &mut Backend, blocks: u32| {
            pool.smgr().create(LOADED, Fork::Main, false).unwrap();
            for _ in 0..blocks / 16 {
                let new = pool.extend(backend, LOADED, Fork::Main, 16, Strategy::BulkWrite);
                assert_eq!(new.unwrap().len(), 16);
            }
        };
        let read = |backend: &mut Backend| scan(&pool, backend, 0..TABLE, Strategy::BulkRead);
        if table_first {
            assert_eq!(read(&mut backend), u64::from(TABLE));
        }
        load(&mut backend, POOL - TABLE);
        assert_eq!(read(&mut backend), if table_first { 0 } else { u64::from(TABLE) });
        for _ in 0..8 {
            pool.drop_relation(&mut backend, LOADED).unwrap();
            load(&mut backend, TABLE);
            assert_eq!(read(&mut backend), 0);
        }
        assert!(pool.has_sound_places());
        assert_nothing_held(&fixture, backend);
    }
}

/// Pages that are read ahead fill the queue of a small pool, and stay pinned when a reader rests.
/// Others go on.
#[test]
fn scans_that_rest_with_pages_pinned_hold_nobody_up() {
    let fixture = Fixture::new(SPEC);
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 4 * POOL);
    let mut hot = Hot::new(&pool, &mut backend);
    scan(&pool, &mut backend, POOL..2 * POOL, Strategy::BulkRead);
    let mut resting = Vec::new();
    for n in 0..6 {
        let mut blocks = 2 * POOL + n * 100..2 * POOL + n * 100 + 100;
        let mut stream = full_stream(&pool, move || blocks.next(), Strategy::BulkRead, 4, 8);
        drop(stream.next(&mut backend).unwrap().unwrap());
        resting.push(stream);
    }
    let pinned = pool.summary().pinned;
    assert!(pinned > POOL / 16, "more than the queue has: {pinned}");
    scan(&pool, &mut backend, 3 * POOL..4 * POOL, Strategy::BulkRead);
    (0..POOL).for_each(|_| hot.use_one(&pool, &mut backend));
    // What rests has pushed as many pages out, at most.
    assert!(hot.missed <= u64::from(pinned), "{} of {}", hot.missed, hot.used);
    drop(resting);
    assert!(pool.has_sound_places());
}

/// vacuum_buffer_usage_limit = 0: what vacuum reads is treated like what others read.
#[test]
fn a_vacuum_without_a_limit_takes_buffers_like_any_access() {
    let fixture = Fixture::new(SPEC);
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 2 * POOL);
    // Half of the pool's pages were never used again.
    scan(&pool, &mut backend, 0..POOL, Strategy::BulkRead);
    let table = POOL..POOL + POOL / 2;
    scan(&pool, &mut backend, table.clone(), Strategy::VACUUM);
    let read = scan(&pool, &mut backend, table.clone(), Strategy::VACUUM);
    assert!(read > u64::from(POOL / 3), "with a limit, its pages leave soon: {read}");
    scan(&pool, &mut backend, table.clone(), Strategy::Vacuum { buffers: 0 });
    assert_eq!(scan(&pool, &mut backend, table, Strategy::Vacuum { buffers: 0 }), 0);
}

/// A page that came back after its eviction is kept like one that was used twice.
#[test]
fn usage_counts_tell_how_pages_were_used() {
    let fixture = Fixture::new(SPEC);
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, POOL);
    let usage = |block: u32| {
        let page = |b: forebay_storage::BufferInfo| b.page.filter(|page| page.tag == tag(block));
        pool.inspect().find_map(page).map(|page| page.usage)
    };
    let mut read = |block, strategy| {
        drop(pool.read(&mut backend, tag(block), strategy).unwrap());
    };
    for block in [0, 1, 2] {
        read(block, Strategy::Normal);
        read(block, Strategy::Normal);
        assert_eq!(usage(block), Some(1), "uses that belong together count once");
    }
    // Each miss takes as long as 64 uses; an epoch is as many uses as there are buffers.
    (100..140).for_each(|block| read(block, Strategy::Normal));
    read(1, Strategy::BulkRead);
    read(2, Strategy::Normal);
    assert_eq!([0, 1, 2].map(usage), [Some(1), Some(2), Some(5)]);
    (200..200 + POOL / 2).for_each(|block| read(block, Strategy::BulkRead));
    assert_eq!([0, 1, 2].map(usage), [Some(1), Some(2), Some(4)]);
    assert_eq!(usage(900), None);
}

/// 16 pools of misses later nothing that was in use is in the way of a load, however high the
/// epochs are by then.
#[test]
fn pages_that_nobody_uses_any_more_leave_in_the_end() {
    const SMALL: u32 = 64;
    let fixture = Fixture::new(Spec { buffers: SMALL as usize, ..SPEC });
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 64 * SMALL);
    let read = |backend: &mut Backend, block, strategy| {
        drop(pool.read(backend, tag(block), strategy).unwrap());
    };
    for _ in 0..4 {
        (0..SMALL / 2).for_each(|block| read(&mut backend, block, Strategy::Normal));
        // So that the uses are in different epochs.
        (1000..1004).for_each(|block| read(&mut backend, block, Strategy::BulkRead));
    }
    let kept = || (0..SMALL / 2).filter(|&block| pool.lookup(&tag(block)).is_some()).count();
    for pools in 1..=40 {
        for n in 0..SMALL {
            read(&mut backend, SMALL + pools * SMALL + n, Strategy::VACUUM);
        }
        match pools {
            ..15 => assert_eq!(kept() as u32, SMALL / 2, "after {pools} pools"),
            18.. => assert_eq!(kept(), 0, "after {pools} pools"),
            _ => {}
        }
    }
}
