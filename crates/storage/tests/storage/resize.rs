//! Changing the pool's size: while it is idle, dirty, pinned, in I/O and in use.

use crate::fixture::{
    Fixture, Inline, REL, Spec, change, config, each, each_faulty, stamp, tag, version,
};
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::handle::Word;
use forebay_aio::method::Method;
use forebay_aio::sync::Duration;
use forebay_aio::table::HandleTable;
use forebay_aio::{
    Aio, AioError, Errno, HugePages, PosixNamespace, Region, Registration, execute::PosixExecutor,
};
use forebay_format::Fork;
use forebay_storage::{
    Backend, BufferPool, PoolConfig, ReadStream, ResizeStop, ShrinkMode, Strategy, StreamFlags,
    StreamSettings, WriteScope,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const MOST: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(60);
const PAGES: u32 = 600;

/// A pool of 128 buffers that can grow, over the fixture's files.
fn pool(fixture: &Fixture) -> Arc<BufferPool> {
    let config = PoolConfig {
        buffers: 128,
        max_buffers: MOST,
        huge_pages: HugePages::Off,
        ..PoolConfig::default()
    };
    let smgr = fixture.cold().0;
    BufferPool::new(config, Arc::clone(&fixture.aio), smgr).unwrap()
}

fn resize(pool: &BufferPool, backend: &mut Backend, buffers: usize) {
    let from = pool.buffers();
    let done = pool.resize(backend, buffers, PATIENCE);
    assert!(done.stopped.is_none(), "{done:?}");
    assert_eq!((done.from, done.buffers, pool.buffers()), (from, buffers, buffers));
    assert!(pool.has_sound_places());
}

/// Reads the pages, each of which must have this version.
fn read(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    blocks: impl IntoIterator<Item = u32>,
    v: u64,
) {
    for block in blocks {
        let pin = pool.read(backend, tag(block), Strategy::Normal).unwrap();
        assert_eq!(version(&pin.lock_shared().copy(), block), v, "block {block}");
    }
}

fn write(pool: &Arc<BufferPool>, backend: &mut Backend, pages: u32, v: u64) {
    for block in 0..pages {
        let pin = pool.read(backend, tag(block), Strategy::Normal).unwrap();
        change(&pin, |page| stamp(page, block, v));
    }
}

fn cached(pool: &BufferPool) -> usize {
    pool.inspect().filter(|buffer| buffer.page.is_some()).count()
}

/// A pool that grows before it is full has all pages that were read, as if it had been as large
/// from the beginning.
#[test]
fn a_pool_that_grows_in_time_loses_nothing() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        let told = Arc::new(AtomicU64::new(0));
        let times = || told.load(Ordering::SeqCst);
        let count = Arc::clone(&told);
        pool.on_demand(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        assert!(pool.has_free(1_000_000), "half of it is enough");
        pool.tell_after(48);
        read(&pool, &mut backend, 0..47, 0);
        assert_eq!((times(), pool.has_free(32)), (0, true));
        read(&pool, &mut backend, 47..100, 0);
        assert_eq!((times(), pool.has_free(32)), (1, false), "it is told once");
        for (pages, buffers) in [(100..220, 256), (220..450, 512), (450..PAGES, 1024)] {
            resize(&pool, &mut backend, buffers);
            read(&pool, &mut backend, pages, 0);
        }
        assert_eq!((pool.stats().evicted, cached(&pool)), (0, PAGES as usize));
        assert!(pool.has_free(128));
    });
}

/// The buffers of a truncated table are taken while the hand rests, and follow the size.
#[test]
fn buffers_of_a_truncated_table_are_told_of_and_given_up() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        pool.on_demand(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        read(&pool, &mut backend, 0..256, 0);
        let evicted = pool.stats().evicted;
        let extend = |backend: &mut Backend, pages: usize| {
            for _ in 0..pages {
                let new = pool.extend(backend, REL, Fork::Main, 1, Strategy::Normal).unwrap();
                assert_eq!(new.len(), 1);
            }
        };
        pool.tell_after(1);
        pool.truncate(&mut backend, REL, Fork::Main, 0).unwrap();
        extend(&mut backend, 127);
        assert_eq!(told.load(Ordering::SeqCst), 0);
        extend(&mut backend, 1);
        assert_eq!((told.load(Ordering::SeqCst), cached(&pool)), (1, 128));
        pool.truncate(&mut backend, REL, Fork::Main, 0).unwrap();
        resize(&pool, &mut backend, 96);
        extend(&mut backend, 96);
        resize(&pool, &mut backend, 128);
        extend(&mut backend, 32);
        assert_eq!((pool.stats().evicted, cached(&pool)), (evicted, 128));
        assert!(pool.has_sound_places());
    });
}

#[test]
fn what_a_larger_pool_has_room_for_stays_in_it() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        read(&pool, &mut backend, 0..PAGES, 0);
        assert_eq!(cached(&pool), 128);
        resize(&pool, &mut backend, 2 * PAGES as usize);
        let before = pool.stats().allocated;
        read(&pool, &mut backend, 0..PAGES, 0);
        let missed = pool.stats().allocated - before;
        assert!(missed >= u64::from(PAGES) - 128, "{missed}");
        read(&pool, &mut backend, 0..PAGES, 0);
        assert_eq!(pool.stats().allocated - before, missed, "all pages are in memory");
        assert_eq!(cached(&pool), PAGES as usize, "and the free buffers were used first");
    });
}

#[test]
fn a_smaller_pool_has_written_what_left_it() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, MOST);
        for (v, size) in [(1, 700), (2, 97), (3, 2000), (4, 96), (5, MOST), (6, 128)] {
            write(&pool, &mut backend, PAGES, v);
            resize(&pool, &mut backend, size);
            assert_eq!(pool.inspect().count(), size);
            assert!(cached(&pool) <= size);
            read(&pool, &mut backend, 0..PAGES, v);
        }
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "no buffer was lost");
        assert_eq!(pool.summary().unused, 128);
        assert_eq!(version(&fixture.on_disk(PAGES - 1), PAGES - 1), 6);
    });
}

#[test]
fn pages_in_demand_stay_in_a_smaller_pool() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 1024);
        // The last pages are in the last buffers of those that have pages.
        let in_demand = (0..20).flat_map(|_| PAGES - 100..PAGES);
        read(&pool, &mut backend, (0..PAGES).chain(in_demand), 0);
        resize(&pool, &mut backend, 256);
        let kept: Vec<u32> = (0..PAGES).filter(|&b| pool.lookup(&tag(b)).is_some()).collect();
        let in_demand = kept.iter().filter(|&&block| block >= PAGES - 100).count();
        assert!(in_demand >= 95, "{in_demand} of {}", kept.len());
        assert!(kept.len() >= 240, "{}", kept.len());
        let before = pool.stats().allocated;
        read(&pool, &mut backend, kept, 0);
        assert_eq!(pool.stats().allocated, before);
    });
}

#[test]
fn dirty_pages_move_where_there_is_no_time_to_write() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 1024);
        read(&pool, &mut backend, 0..PAGES, 0);
        for block in PAGES - 100..PAGES {
            let pin = pool.read(&mut backend, tag(block), Strategy::Normal).unwrap();
            change(&pin, |page| stamp(page, block, 1));
        }
        let done = pool.resize_with(&mut backend, 256, (ShrinkMode::Urgent, PATIENCE));
        assert!(done.stopped.is_none() && pool.has_sound_places(), "{done:?}");
        let missed = pool.stats().allocated;
        for block in PAGES - 100..PAGES {
            assert_eq!(version(&fixture.on_disk(block), block), 0, "not written");
        }
        read(&pool, &mut backend, PAGES - 100..PAGES, 1);
        assert_eq!(pool.stats().allocated, missed, "all of them are in memory");
        let written = pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!(written.buffers, 100);
        assert_eq!(version(&fixture.on_disk(PAGES - 1), PAGES - 1), 1);
    });
}

#[test]
fn the_pool_keeps_to_its_bounds() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    let pool = pool(&fixture);
    for (wanted, got) in [(MOST + 1, MOST), (1, 96)] {
        let done = pool.resize(&mut backend, wanted, PATIENCE);
        assert_eq!(done.buffers, got);
        let Some(ResizeStop::Bounds { first: 128, least: 96, most: MOST }) = done.stopped else {
            panic!("{:?}", done.stopped);
        };
    }
    let fixed = fixture.pool.resize(&mut backend, 129, PATIENCE);
    assert!(matches!(fixed.stopped, Some(ResizeStop::Bounds { most: 128, .. })), "{fixed:?}");
}

#[test]
fn a_shrink_stops_at_pinned_buffers_and_gives_back_the_others() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 2048);
        read(&pool, &mut backend, 0..PAGES, 0);
        // The oldest pages are in the first buffers; those of the added ones are pinned.
        let pins: Vec<_> = (0..PAGES)
            .filter_map(|block| pool.lookup(&tag(block)))
            .filter(|pin| pin.buffer() >= 1000)
            .collect();
        let last = pool.inspect().filter(|b| b.page.is_some()).map(|b| b.buffer).max().unwrap();
        let pin = match pins.is_empty() {
            true => {
                let at = |&block: &u32| pool.lookup(&tag(block)).unwrap().buffer() == last;
                pool.lookup(&tag((0..PAGES).find(at).unwrap())).unwrap()
            }
            false => pins.into_iter().last().unwrap(),
        };
        let done = pool.resize(&mut backend, 128, Duration::ZERO);
        assert!(matches!(done.stopped, Some(ResizeStop::InUse { .. })), "{done:?}");
        let in_use = pin.buffer() as usize;
        assert!(done.buffers > in_use && done.buffers <= in_use + 512, "{done:?}, {in_use}");
        assert!(pool.has_sound_places());
        read(&pool, &mut backend, 0..PAGES, 0);
        drop(pin);
        resize(&pool, &mut backend, 128);
        read(&pool, &mut backend, 0..PAGES, 0);
    });
}

#[test]
fn a_shrink_in_a_hurry_passes_over_buffers_in_use() {
    let hurry = (ShrinkMode::Urgent, Duration::ZERO);
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 2048);
        read(&pool, &mut backend, 0..PAGES, 0);
        let pins: Vec<_> = (0..PAGES)
            .filter_map(|block| pool.lookup(&tag(block)))
            .filter(|pin| pin.buffer() > 140 && pin.buffer() % 100 == 7)
            .collect();
        assert!(pins.len() > 2, "some are beyond the smaller pool");
        let done = pool.resize_with(&mut backend, 128, hurry);
        let in_use = pins.len();
        let passed =
            matches!(done.stopped, Some(ResizeStop::InUse { buffers }) if buffers == in_use);
        assert!(passed && done.buffers == 128 && pool.has_leftovers(), "{done:?}");
        assert!(pool.has_sound_places());

        // Their pages are in use as before.
        read(&pool, &mut backend, 0..PAGES, 0);
        let blocks: Vec<u32> = pins.iter().map(|pin| pin.tag().block).collect();
        for (pin, &block) in pins.iter().zip(&blocks) {
            assert_eq!(pool.lookup(&tag(block)).unwrap().buffer(), pin.buffer());
            change(pin, |page| stamp(page, block, 1));
        }
        assert_eq!(pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, in_use as u64);
        assert!(blocks.iter().all(|&block| version(&fixture.on_disk(block), block) == 1));

        // Within the part that was given up, and beyond it.
        for size in [300, 1024, 2500] {
            resize(&pool, &mut backend, size);
            read(&pool, &mut backend, blocks.iter().copied(), 1);
            assert_eq!(pool.has_leftovers(), size == 300 && pins.iter().any(|p| p.buffer() >= 300));
        }
        assert_eq!(pool.resize_with(&mut backend, 128, hurry).buffers, 128);
        drop(pins);
        resize(&pool, &mut backend, 128);
        assert!(!pool.has_leftovers());
        read(&pool, &mut backend, blocks, 1);
    });
}

#[test]
fn what_a_shrink_in_a_hurry_has_left_keeps_no_later_one() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 2048);
        read(&pool, &mut backend, 0..PAGES, 0);
        let pins = || (0..PAGES).filter_map(|block| pool.lookup(&tag(block)));
        let far = pins().max_by_key(|pin| pin.buffer()).unwrap();
        assert!(far.buffer() > 300);
        pool.resize_with(&mut backend, 128, (ShrinkMode::Urgent, Duration::ZERO));
        resize(&pool, &mut backend, 300);
        read(&pool, &mut backend, 0..PAGES, 0);

        // It is passed over, and not waited for.
        let done = pool.resize(&mut backend, 200, PATIENCE);
        assert!(matches!(done.stopped, Some(ResizeStop::InUse { buffers: 1 })), "{done:?}");
        assert_eq!((done.from, done.buffers, pool.has_leftovers()), (300, 200, true));
        let near = pins().find(|pin| (150..200).contains(&pin.buffer())).unwrap();
        let done = pool.resize(&mut backend, 128, Duration::ZERO);
        assert!(matches!(done.stopped, Some(ResizeStop::InUse { .. })), "{done:?}");
        assert_eq!((done.buffers, pool.has_leftovers()), (200, true), "no more than it was");
        assert!(pool.has_sound_places());
        for pin in [&near, &far] {
            let block = pin.tag().block;
            assert_eq!(version(&pin.lock_shared().copy(), block), 0);
        }
        read(&pool, &mut backend, 0..PAGES, 0);
        drop((near, far));
        resize(&pool, &mut backend, 128);
        assert!(!pool.has_leftovers());
        read(&pool, &mut backend, 0..PAGES, 0);
    });
}

#[test]
fn a_pool_that_is_dropped_with_retired_buffers_between_those_in_use_gives_its_memory_back() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 2048);
        read(&pool, &mut backend, 0..PAGES, 0);
        let pins = (0..PAGES).filter_map(|block| pool.lookup(&tag(block)));
        let far = pins.max_by_key(|pin| pin.buffer()).unwrap();
        pool.resize_with(&mut backend, 128, (ShrinkMode::Urgent, Duration::ZERO));
        assert_eq!(pool.summary().pinned, 1, "retired buffers don't count");
        // The pool's core has a weak reference.
        let before = Arc::weak_count(&fixture.aio);
        drop((pool, backend));
        assert_eq!(version(&far.lock_shared().copy(), far.tag().block), 0);
        assert_eq!(Arc::weak_count(&fixture.aio), before);
        drop(far);
        assert_eq!(Arc::weak_count(&fixture.aio), before - 1);
    });
}

#[test]
fn buffers_in_use_far_apart_are_given_up_one_after_the_other() {
    // More than the part whose memory is given back together.
    const MANY: u32 = 17_000;
    let hurry = (ShrinkMode::Urgent, Duration::ZERO);
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, MANY);
    let config = PoolConfig {
        buffers: 128,
        max_buffers: 20_000,
        huge_pages: HugePages::Off,
        ..PoolConfig::default()
    };
    let pool = BufferPool::new(config, Arc::clone(&fixture.aio), fixture.cold().0).unwrap();
    resize(&pool, &mut backend, 18_000);
    read(&pool, &mut backend, 0..MANY, 0);
    let pinned = |range: std::ops::Range<u32>| {
        let mut pins = (0..MANY).filter_map(|block| pool.lookup(&tag(block)));
        pins.find(|pin| range.contains(&pin.buffer())).unwrap()
    };
    let (near, far) = (pinned(9_000..9_500), pinned(16_800..17_000));
    let mut shrink = |to: usize, left: usize| {
        let done = pool.resize_with(&mut backend, to, hurry);
        let in_use = match done.stopped {
            None => 0,
            Some(ResizeStop::InUse { buffers }) => buffers,
            other => panic!("{other:?}"),
        };
        assert_eq!((done.buffers, in_use, pool.has_leftovers()), (to, left, left > 0));
    };
    shrink(128, 2);
    drop(far);
    shrink(120, 1);
    drop(near);
    shrink(120, 0);
    read(&pool, &mut backend, 0..200, 0);
}

#[test]
fn a_shrink_goes_on_when_the_last_pin_is_released() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, PAGES);
    let pool = pool(&fixture);
    resize(&pool, &mut backend, 1024);
    read(&pool, &mut backend, 0..PAGES, 0);
    let pins: Vec<_> = (0..PAGES).filter_map(|block| pool.lookup(&tag(block))).collect();
    thread::scope(|scope| {
        let shrink = scope.spawn(|| resize(&pool, &mut fixture.backend(), 96));
        drop(pins);
        shrink.join().unwrap();
    });
    read(&pool, &mut backend, 0..PAGES, 0);
}

#[test]
fn pages_that_cannot_be_written_keep_their_buffers() {
    each_faulty(Spec::plain(), |fixture, plan| {
        let mut backend = fixture.backend();
        fixture.fill(&mut backend, PAGES);
        let pool = pool(fixture);
        resize(&pool, &mut backend, 2048);
        write(&pool, &mut backend, PAGES, 1);
        let fault = plan.add(Rule::on(Ops::WRITE).path("16384"), Effect::Fail(Errno::IO));
        let done = pool.resize(&mut backend, 128, PATIENCE);
        assert!(matches!(done.stopped, Some(ResizeStop::Failed(_))), "{done:?}");
        assert!(pool.has_sound_places());
        plan.end(fault);
        read(&pool, &mut backend, 0..PAGES, 1);
        resize(&pool, &mut backend, 128);
        read(&pool, &mut backend, 0..PAGES, 1);

        // In a hurry it goes on with other pages.
        resize(&pool, &mut backend, 2048);
        write(&pool, &mut backend, PAGES, 2);
        let fault = plan.add(Rule::on(Ops::WRITE).path("16384"), Effect::Fail(Errno::IO));
        let done = pool.resize_with(&mut backend, 128, (ShrinkMode::Urgent, PATIENCE));
        assert!(matches!(done.stopped, Some(ResizeStop::Failed(_))), "{done:?}");
        assert_eq!((done.buffers, pool.has_leftovers()), (128, true));
        plan.end(fault);
        let done = pool.resize_with(&mut backend, 128, (ShrinkMode::Urgent, PATIENCE));
        assert!(done.stopped.is_none() && !pool.has_leftovers(), "{done:?}");
        read(&pool, &mut backend, 0..PAGES, 2);
    });
}

/// A method with a machine that has no more memory.
struct Poor {
    registered: Arc<AtomicU64>,
}

impl Method for Poor {
    fn name(&self) -> &'static str {
        "poor"
    }
    fn submit(&self, table: &HandleTable, slot: u32, staged: &[u32], in_flight: usize) {
        Inline.submit(table, slot, staged, in_flight);
    }
    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        Inline.wait(table, index, seen);
    }
    fn occupy_memory(&self, region: &Arc<Region>, to: usize) -> Result<(), AioError> {
        if to > 1000 * 8192 {
            let action = "occupy I/O memory".to_owned();
            return Err(AioError::Resource { action, errno: Errno(12) });
        }
        region.occupy(to)
    }
    fn memory_resized(&self, _region: &Arc<Region>, bytes: usize) -> Registration {
        self.registered.store(bytes as u64, Ordering::SeqCst);
        Registration::Unused
    }
}

#[test]
fn the_size_stays_if_there_is_no_memory() {
    let registered = Arc::new(AtomicU64::new(0));
    let poor = Poor { registered: Arc::clone(&registered) };
    let aio = Aio::with_method(Arc::new(PosixNamespace), Arc::new(PosixExecutor), config(), |_| {
        Ok(Box::new(poor))
    });
    let fixture = Fixture::on(Spec::plain(), aio.unwrap());
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, PAGES);
    let pool = pool(&fixture);
    resize(&pool, &mut backend, 1000);
    write(&pool, &mut backend, PAGES, 1);
    let done = pool.resize(&mut backend, 1001, PATIENCE);
    assert!(matches!(done.stopped, Some(ResizeStop::Failed(_))), "{done:?}");
    assert_eq!((done.buffers, pool.buffers()), (1000, 1000));
    assert_eq!(registered.load(Ordering::SeqCst), 1000 * 8192);
    read(&pool, &mut backend, 0..PAGES, 1);
    resize(&pool, &mut backend, 100);
    assert_eq!(registered.load(Ordering::SeqCst), 100 * 8192);
    read(&pool, &mut backend, 0..PAGES, 1);
}

#[test]
#[cfg(target_os = "linux")]
fn memory_is_given_back() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    let config = PoolConfig {
        buffers: 2048,
        max_buffers: 65_536,
        huge_pages: HugePages::Off,
        ..PoolConfig::default()
    };
    let smgr = fixture.cold().0;
    let pool = BufferPool::new(config, Arc::clone(&fixture.aio), smgr).unwrap();
    // Other tests of this process need far less.
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let small = resident();
    resize(&pool, &mut backend, 65_536);
    let large = resident();
    assert!(large >= small + (200 << 20), "{small}, {large}");
    resize(&pool, &mut backend, 2048);
    assert!(resident() <= large - (200 << 20), "{small}, {large}, {}", resident());
}

/// Updates a relation over and over, through a stream, while the pool's size changes.
fn work(fixture: &Fixture, pool: &Arc<BufferPool>, number: u32, ended: &AtomicBool) -> u64 {
    let rel = forebay_format::RelFileLocator { rel: REL.rel + number, ..REL };
    let mut backend = fixture.backend();
    pool.smgr().create(rel, Fork::Main, false).unwrap();
    let mut made = 0;
    while made < PAGES {
        let most = PAGES - made;
        for pin in pool.extend(&mut backend, rel, Fork::Main, most, Strategy::Normal).unwrap() {
            change(&pin, |page| stamp(page, made, 0));
            made += 1;
        }
    }
    let mut v = 0;
    while !ended.load(Ordering::SeqCst) {
        let mut blocks = 0..PAGES;
        let mut stream = ReadStream::new(
            pool,
            rel,
            Fork::Main,
            move || blocks.next(),
            StreamFlags::DEFAULT,
            if v % 2 == 0 { Strategy::BulkRead } else { Strategy::Normal },
            StreamSettings::new(16, 16),
        );
        let mut block = 0;
        while let Some(pin) = stream.next(&mut backend).unwrap() {
            change(&pin, |page| {
                assert_eq!(version(page, block), v);
                stamp(page, block, v + 1);
            });
            block += 1;
        }
        assert_eq!(block, PAGES);
        v += 1;
    }
    v
}

#[test]
fn sizes_change_under_load() {
    each(Spec::plain(), |fixture| {
        let pool = pool(fixture);
        let ended = AtomicBool::new(false);
        let rounds: Vec<u64> = thread::scope(|scope| {
            let (pool, ended) = (&pool, &ended);
            let workers: Vec<_> =
                (1..=3).map(|n| scope.spawn(move || work(fixture, pool, n, ended))).collect();
            let mut backend = fixture.backend();
            let sizes = [1000, 300, MOST, 96, 2000, 128, 600, 110, 3000, 500];
            let done = sizes.into_iter().enumerate().map(|(n, size)| {
                let mode = [ShrinkMode::Urgent, ShrinkMode::Orderly][n / 2 % 2];
                // What an urgent one has left may stay in use during the next.
                let may_pass = mode == ShrinkMode::Urgent || pool.has_leftovers();
                let done = pool.resize_with(&mut backend, size, (mode, PATIENCE));
                let passes = may_pass && matches!(done.stopped, Some(ResizeStop::InUse { .. }));
                (done.buffers == size && (done.stopped.is_none() || passes), done)
            });
            let done: Vec<_> = done.collect();
            ended.store(true, Ordering::SeqCst);
            assert!(done.iter().all(|(well, _)| *well), "{done:?}");
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let mut backend = fixture.backend();
        resize(&pool, &mut backend, 400);
        assert!(!pool.has_leftovers());
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
        for (number, v) in (1..).zip(rounds) {
            for block in 0..PAGES {
                let rel = forebay_format::RelFileLocator { rel: REL.rel + number, ..REL };
                let page = forebay_format::PageTag::new(rel, Fork::Main, block);
                let pin = pool.read(&mut backend, page, Strategy::Normal).unwrap();
                assert_eq!(version(&pin.lock_shared().copy(), block), v);
            }
        }
    });
}
