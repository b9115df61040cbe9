//! The pool's size changes while others look pages up, evict them, and wait for I/O.

use crate::{BLOCKS, BUFFERS, Fixture, REL, add_one, each, join, number, spawn};
use forebay_aio::sync::{Arc, Duration, thread};
use forebay_format::Fork;
use forebay_storage::{Backend, ResizeStop, ShrinkMode, Strategy, WriteScope};
use shuttle::rand::{Rng as _, thread_rng};

/// Nothing here waits for time to pass.
const FOREVER: Duration = Duration::from_secs(3600);

const MODES: [ShrinkMode; 2] = [ShrinkMode::Urgent, ShrinkMode::Orderly];

fn shrink_or_grow(fixture: &Fixture, backend: &mut Backend, buffers: usize, mode: ShrinkMode) {
    // An urgent one passes over buffers in use, and what it has left may stay during the next.
    let may_pass = mode == ShrinkMode::Urgent || fixture.pool.has_leftovers();
    let done = fixture.pool.resize_with(backend, buffers, (mode, FOREVER));
    let passes = may_pass && matches!(done.stopped, Some(ResizeStop::InUse { .. }));
    assert!(done.stopped.is_none() || passes, "{done:?}");
    assert_eq!(done.buffers, buffers);
    assert!(!passes || fixture.pool.has_leftovers());
}

fn change(fixture: &Fixture, blocks: impl Iterator<Item = u32>) {
    let mut backend = fixture.backend();
    for block in blocks {
        add_one(fixture.read(&mut backend, block).lock_exclusive());
        thread::yield_now();
    }
}

/// Asserts that no buffer is lost, and that each page was changed as often as it should.
fn check(fixture: &Fixture, changes: impl Fn(u32) -> u64) {
    assert!(fixture.pool.has_sound_places());
    let mut backend = fixture.backend();
    fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
    assert_eq!(fixture.pool.evict_all(&mut backend).unwrap(), 0);
    for block in 0..BLOCKS {
        assert_eq!(fixture.on_disk(block), u64::from(block) + changes(block), "block {block}");
    }
}

#[test]
fn no_change_and_no_buffer_is_lost_when_the_size_changes() {
    each(|fixture| {
        let changes = [0, 1]
            .map(|n| spawn(&fixture, move |f| change(f, (n..BLOCKS).step_by(2 + n as usize))));
        let resizes = spawn(&fixture, |fixture| {
            let mut backend = fixture.backend();
            for (buffers, mode) in [24, 16, 40, 20].into_iter().zip(MODES.repeat(2)) {
                shrink_or_grow(fixture, &mut backend, buffers, mode);
            }
        });
        join(changes.into_iter().chain([resizes]));
        assert_eq!(fixture.pool.buffers(), 20);
        check(&fixture, |block| u64::from(block % 2 == 0) + u64::from(block % 3 == 1));
    });
}

#[test]
fn a_shrink_that_gives_up_leaves_all_buffers_in_use() {
    each(|fixture| {
        let mut backend = fixture.backend();
        assert!(fixture.pool.resize(&mut backend, 32, FOREVER).stopped.is_none());
        let changes = spawn(&fixture, |fixture| change(fixture, 0..BLOCKS));
        let done = fixture.pool.resize(&mut backend, BUFFERS as usize, Duration::ZERO);
        match done.stopped {
            Some(ResizeStop::InUse { .. }) => assert_eq!(done.buffers, 32),
            None => assert_eq!(done.buffers, BUFFERS as usize),
            other => panic!("{other:?}"),
        }
        join([changes]);
        check(&fixture, |_| 1);
    });
}

/// Fills a pool that is larger than the table, and makes it smaller than that beside other work.
fn beside_a_shrink(fixture: &Arc<Fixture>, work: fn(&Fixture, &mut Backend)) {
    let mode = MODES[thread_rng().gen_range(0..MODES.len())];
    let mut backend = fixture.backend();
    shrink_or_grow(fixture, &mut backend, 40, mode);
    change(fixture, 0..BLOCKS);
    let shrinks = spawn(fixture, move |fixture| {
        shrink_or_grow(fixture, &mut fixture.backend(), BUFFERS as usize, mode);
    });
    work(fixture, &mut backend);
    join([shrinks]);
    assert!(fixture.pool.has_sound_places());
}

#[test]
fn a_checkpoint_misses_no_page_that_moves() {
    each(|fixture| {
        beside_a_shrink(&fixture, |fixture, backend| {
            fixture.pool.write_dirty(backend, WriteScope::All).unwrap();
            let written = |block| fixture.on_disk(block) == u64::from(block) + 1;
            assert!((0..BLOCKS).all(written), "all of them were dirty before");
        });
        check(&fixture, |_| 1);
    });
}

/// New pages, which find the buffers of those that were forgotten, are nobody else's.
#[test]
fn a_truncation_forgets_pages_that_move() {
    const KEPT: u32 = 5;
    const NEW: u32 = 4;
    each(|fixture| {
        beside_a_shrink(&fixture, |fixture, backend| {
            fixture.pool.truncate(backend, REL, Fork::Main, KEPT).unwrap();
            for _ in 0..NEW {
                let added = fixture.pool.extend(backend, REL, Fork::Main, 1, Strategy::Normal);
                added.unwrap().iter().for_each(|page| add_one(page.lock_exclusive()));
                thread::yield_now();
            }
        });
        let pages = fixture.pool.inspect().filter_map(|buffer| buffer.page);
        let beyond: Vec<_> = pages.filter(|page| page.tag.block >= KEPT + NEW).collect();
        assert!(beyond.is_empty(), "{beyond:?}");
        let mut backend = fixture.backend();
        let new = (KEPT..KEPT + NEW)
            .map(|block| number(&fixture.read(&mut backend, block).lock_shared().copy()));
        assert_eq!(new.collect::<Vec<_>>(), [1; NEW as usize], "they were all zeros before");
    });
}
