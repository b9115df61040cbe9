//! The pool's size changes while others look pages up, evict them, and wait for I/O.

use crate::{BLOCKS, BUFFERS, Fixture, add_one, each, join, spawn};
use forebay_aio::sync::{Duration, thread};
use forebay_storage::{ResizeStop, WriteScope};

/// Nothing here waits for time to pass.
const FOREVER: Duration = Duration::from_secs(3600);

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
            for buffers in [24, 16, 40, 20] {
                let done = fixture.pool.resize(&mut backend, buffers, FOREVER);
                assert!(done.stopped.is_none(), "{done:?}");
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
