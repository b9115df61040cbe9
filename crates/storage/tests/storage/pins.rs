//! Pins, also many in a small pool; and the share-exclusive and cleanup locks of a page.

use crate::alone::alone;
use crate::fixture::{Fixture, REL, Spec, change, each, full_stream, stamp, tag, version};
use forebay_format::{Fork, RelFileLocator};
use forebay_storage::{Backend, BufferPool, Pinned, StorageError, Strategy, WriteScope};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

const PAGES: u32 = 96;
const OTHER: RelFileLocator = RelFileLocator::in_default(5, 16_385);
const STRATEGIES: [Strategy; 4] =
    [Strategy::Normal, Strategy::BulkRead, Strategy::BulkWrite, Strategy::VACUUM];

fn read(pool: &Arc<BufferPool>, backend: &mut Backend, block: u32) -> Pinned {
    pool.read(backend, tag(block), Strategy::Normal).unwrap()
}

/// Takes 32 pins at once in every way there is, and more while it has them.
fn greedy(pool: &Arc<BufferPool>, backend: &mut Backend, seed: u32) {
    for round in 0..6 {
        let strategy = STRATEGIES[((seed + round) % 4) as usize];
        let first = (seed * 7 + round * 13) % (PAGES - 32);
        let pins = pool.read_many(backend, REL, Fork::Main, first, 32, strategy).unwrap();
        assert!(!pins.is_empty());
        for (pin, block) in pins.iter().zip(first..) {
            assert_eq!(pin.tag(), tag(block));
            version(&pin.lock_shared().copy(), block);
        }
        drop(read(pool, backend, (first + 40) % PAGES));
        drop(pins);
        let mut blocks = first..first + 32;
        let next = || blocks.next();
        let mut stream = full_stream(pool, next, strategy, 32, 32);
        while let Some(pin) = stream.next(backend).unwrap() {
            let second = read(pool, backend, (pin.tag().block + 11) % PAGES);
            let third = read(pool, backend, (pin.tag().block + 23) % PAGES);
            change(&second, |page| stamp(page, second.tag().block, 1));
            drop(third);
        }
        let made = pool.extend(backend, OTHER, Fork::Main, 32, strategy).unwrap();
        assert!(!made.is_empty());
        let beside = read(pool, backend, first);
        made.iter().for_each(|pin| change(pin, |page| stamp(page, pin.tag().block, 1)));
        drop(beside);
    }
}

fn many_greedy(buffers: usize) {
    each(Spec { buffers, segment_blocks: 32, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = &fixture.fill_cold(&mut backend, PAGES);
        pool.smgr().create(OTHER, Fork::Main, false).unwrap();
        thread::scope(|scope| {
            for seed in 0..10 {
                let mut backend = fixture.backend();
                scope.spawn(move || greedy(pool, &mut backend, seed));
            }
        });
        pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0, "all pins were released");
    });
}

#[test]
fn thirty_two_pins_at_once_in_a_pool_of_sixteen() {
    many_greedy(16);
}

#[test]
fn thirty_two_pins_at_once_in_a_pool_of_thirty_two() {
    many_greedy(32);
}

#[test]
fn a_backend_that_pins_all_buffers_gets_an_error_at_once() {
    each(Spec { buffers: 16, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 20);
        let mut pins: Vec<Pinned> = (0..16).map(|block| read(&pool, &mut backend, block)).collect();
        for _ in 0..3 {
            let error = pool.read(&mut backend, tag(16), Strategy::Normal).unwrap_err();
            assert!(matches!(error, StorageError::NoUnpinnedBuffers), "{error}");
            assert_eq!(error.sqlstate(), "53000");
        }
        drop(read(&pool, &mut backend, 3));
        pins.pop();
        assert_eq!(version(&read(&pool, &mut backend, 16).lock_shared().copy(), 16), 0);
        drop(pins);
        assert_eq!(pool.evict_all(&mut backend).unwrap(), 0);
    });
}

#[test]
fn a_backend_that_waits_for_a_buffer_is_woken_by_a_released_pin() {
    each(Spec { buffers: 128, ..Spec::plain() }, |fixture| {
        let mut backend = fixture.backend();
        let pool = &fixture.fill_cold(&mut backend, 140);
        let mut pins: Vec<Pinned> = (0..128).map(|block| read(pool, &mut backend, block)).collect();
        thread::scope(|scope| {
            let mut other = fixture.backend();
            let waiting = scope.spawn(move || {
                let pin = read(pool, &mut other, 130);
                version(&pin.lock_shared().copy(), 130)
            });
            while pool.stats().pin_waits == 0 {
                thread::yield_now();
            }
            pins.pop();
            assert_eq!(waiting.join().unwrap(), 0);
        });
    });
}

#[test]
fn pins_outlive_the_pool() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 20);
        let pin = read(&pool, &mut backend, 7);
        let cached = pool.lookup(&tag(7)).unwrap();
        // The pool's core has a weak reference.
        let before = Arc::weak_count(&fixture.aio);
        drop((pool, backend));
        assert_eq!(version(&cached.lock_shared().copy(), 7), 0);
        drop(cached);
        assert_eq!(version(&pin.lock_exclusive(), 7), 0);
        assert_eq!(Arc::weak_count(&fixture.aio), before);
        drop(pin);
        assert_eq!(
            Arc::weak_count(&fixture.aio),
            before - 1,
            "the pool's memory was not given back"
        );
    });
}

// ---- locks

#[test]
fn the_cleanup_lock_waits_for_pins_and_only_one_may_wait() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = &fixture.fill_cold(&mut backend, 20);
        let mine = read(pool, &mut backend, 5);
        let others = mine.clone();
        assert!(mine.try_lock_cleanup().is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(move || {
                let mut page = alone(&mine).unwrap();
                stamp(&mut page, 5, 9);
                page.mark_dirty();
            });
            // Before the thread waits, this call is not refused, and it cannot succeed because
            // there are two pins.
            let refused = loop {
                let guard = others.lock_exclusive();
                if guard.cleanup_is_wanted() {
                    drop(guard);
                    break alone(&others).unwrap_err();
                }
                drop(guard);
                thread::yield_now();
            };
            assert!(
                matches!(refused, StorageError::CleanupWanted { tag: t } if t == tag(5)),
                "{refused}"
            );
            assert!(others.try_lock_cleanup().is_none());
            assert_eq!(version(&others.lock_shared().copy(), 5), 0);
            drop(others);
            waiting.join().unwrap();
        });
        let pin = read(pool, &mut backend, 5);
        assert_eq!(version(&pin.lock_shared().copy(), 5), 9);
        assert_eq!(version(&pin.try_lock_cleanup().unwrap(), 5), 9);
        assert_eq!(version(&alone(&pin).unwrap(), 5), 9);
    });
}

#[test]
fn a_page_locked_share_exclusively_is_read_but_neither_changed_nor_written() {
    each(Spec::plain(), |fixture| {
        let mut backend = fixture.backend();
        let pool = fixture.fill_cold(&mut backend, 20);
        let pin = read(&pool, &mut backend, 5);
        change(&pin, |page| stamp(page, 5, 1));
        let held = pin.try_lock_share_exclusive().unwrap();
        assert_eq!(version(&held, 5), 1);
        assert_eq!(version(&pin.lock_shared().copy(), 5), 1);
        assert!(pin.try_lock_exclusive().is_none() && pin.try_lock_share_exclusive().is_none());
        let (pool, released) = (&pool, &AtomicBool::new(false));
        thread::scope(|scope| {
            let mut other = fixture.backend();
            let writing = scope.spawn(move || {
                pool.write_dirty(&mut other, WriteScope::All).unwrap();
                assert!(released.load(Ordering::SeqCst), "written while held");
            });
            assert!(pin.is_dirty());
            released.store(true, Ordering::SeqCst);
            drop(held);
            writing.join().unwrap();
        });
        assert!(!pin.is_dirty());
        assert_eq!(version(&pin.lock_share_exclusive(), 5), 1);
        assert_eq!(version(&fixture.on_disk(5), 5), 1);
    });
}

/// Two threads read in turns, so that the page always has a reader. A third thread changes it.
#[test]
fn steady_readers_do_not_keep_a_writer_out() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 20);
    let pin = &read(&pool, &mut backend, 5);
    let (turns, written) = (&[AtomicU32::new(0), AtomicU32::new(0)], &AtomicBool::new(false));
    thread::scope(|scope| {
        for me in 0..2 {
            scope.spawn(move || {
                while !written.load(Ordering::SeqCst) {
                    let page = pin.lock_shared();
                    turns[me].fetch_add(1, Ordering::SeqCst);
                    // Until the other thread reads too, or for some time, since it may have to wait
                    // for the writer.
                    let seen = turns[1 - me].load(Ordering::SeqCst);
                    for _ in 0..1000 {
                        if turns[1 - me].load(Ordering::SeqCst) != seen {
                            break;
                        }
                        thread::yield_now();
                    }
                    drop(page);
                }
            });
        }
        while turns.iter().any(|turns| turns.load(Ordering::SeqCst) < 10) {
            thread::yield_now();
        }
        let mut page = pin.lock_exclusive();
        stamp(&mut page, 5, 3);
        page.mark_dirty();
        written.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_waiting_writer_comes_before_later_readers() {
    let fixture = Fixture::new(Spec::plain());
    let mut backend = fixture.backend();
    let pool = fixture.fill_cold(&mut backend, 20);
    let pin = &read(&pool, &mut backend, 5);
    thread::scope(|scope| {
        let before = pin.lock_shared();
        scope.spawn(move || {
            let mut page = pin.lock_exclusive();
            stamp(&mut page, 5, 3);
            page.mark_dirty();
        });
        // Once the writer waits, it is the next holder.
        while pin.try_lock_share_exclusive().is_some() {
            thread::yield_now();
        }
        let reader = scope.spawn(move || version(&pin.lock_shared().copy(), 5));
        drop(before);
        assert_eq!(reader.join().unwrap(), 3);
    });
}
