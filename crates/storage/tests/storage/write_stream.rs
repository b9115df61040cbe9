//! The write stream on a disk without faults: order, combining, depth, the log ahead of the pages,
//! and locks.

use crate::fixture::{Fixture, REL, Spec, change, each, each_faulty, stamp, tag, version};
use crate::wal::{Event, Log, assert_nothing_held, dirty, lsn, pin};
use forebay_aio::execute::PosixExecutor;
use forebay_aio::fault::{Ops, Rule};
use forebay_aio::{IoContext, IoOp};
use forebay_format::Fork;
use forebay_storage::{Backend, FullSpeed, Locked, WriteOptions, WriteScope, WriteStream, Written};
use std::sync::Arc;
use std::thread;

pub const ROOMY: Spec = Spec { buffers: 512, ..Spec::plain() };

pub fn options(depth: usize, combine: u32) -> WriteOptions {
    let (context, locked, go_on, flush_after) = (IoContext::Normal, Locked::Wait, false, 0);
    WriteOptions { depth, combine, context, locked, go_on, flush_after }
}

/// The writes that a stream reports, as first blocks and counts.
fn written(stream: &mut WriteStream<'_>) -> Vec<(u32, u32)> {
    std::iter::from_fn(|| stream.next_written())
        .map(|Written { first, pages }| {
            assert_eq!((first.rel, first.fork), (REL, Fork::Main));
            (first.block, pages)
        })
        .collect()
}

/// Fills the fixture with `n` pages, on disk and in memory.
pub fn filled(fixture: &Fixture, n: u32) -> Backend {
    let mut backend = fixture.backend();
    fixture.fill(&mut backend, n);
    backend
}

#[test]
fn writes_are_reported_in_the_order_in_which_they_were_started() {
    each(ROOMY, |fixture| {
        let mut backend = filled(fixture, 64);
        let mut stream = WriteStream::new(&fixture.pool, options(4, 4));
        assert_eq!(stream.window(), 8, "two runs of four are taken together");
        // Three windows, each unordered; the last one is not full.
        let windows =
            [[35, 33, 34, 32, 50, 51, 49, 48].as_slice(), &[7, 0, 1, 6, 3, 5, 4, 2], &[60, 20]];
        for block in windows.concat() {
            let pinned = dirty(&fixture.pool, &mut backend, block, 1);
            stream.push(&mut backend, pinned).unwrap();
        }
        stream.drain(&mut backend).unwrap();
        assert_eq!(written(&mut stream), [(32, 4), (48, 4), (0, 4), (4, 4), (20, 1), (60, 1)]);
        let report = stream.finish(&mut backend).unwrap();
        assert_eq!((report.buffers, report.writes), (18, 6));
        for block in windows.concat() {
            assert_eq!(version(&fixture.on_disk(block), block), 1);
            assert!(!pin(&fixture.pool, &mut backend, block).is_dirty());
        }
        assert_nothing_held(fixture, backend);
    });
}

#[test]
fn neighbours_are_written_together_up_to_the_limit() {
    let spec = Spec { segment_blocks: 48, combine: 32, ..ROOMY };
    each(spec, |fixture| {
        let mut backend = filled(fixture, 128);
        let mut version = 0;
        let mut writes = |combine: u32, blocks: &[u32]| {
            version += 1;
            let before = fixture.count(IoOp::Write);
            let mut stream = WriteStream::new(&fixture.pool, options(16, combine));
            for &block in blocks {
                let pinned = dirty(&fixture.pool, &mut backend, block, version);
                stream.push(&mut backend, pinned).unwrap();
            }
            let report = stream.finish(&mut backend).unwrap();
            assert_eq!(report.buffers, blocks.len() as u64);
            assert_eq!(fixture.count(IoOp::Write) - before, report.writes);
            report.writes
        };
        let row: Vec<u32> = (0..48).collect();
        assert_eq!(writes(1, &row), 48);
        assert_eq!(writes(5, &row), 10, "nine of five and one of three");
        assert_eq!(writes(16, &row), 3);
        assert_eq!(writes(64, &row), 2, "no more than the pool's limit");
        let backwards: Vec<u32> = (0..32).rev().collect();
        assert_eq!(writes(32, &backwards), 1);
        // 40..48 and 48..56 are in two segments; 90 and 92 are no neighbours.
        let gaps: Vec<u32> = (40..56).chain([90, 92]).collect();
        assert_eq!(writes(32, &gaps), 4);
        let (mut backend, cold) = (fixture.backend(), fixture.cold().1);
        assert_eq!(
            crate::fixture::version(&pin(&cold, &mut backend, 92).lock_shared().copy(), 92),
            6
        );
    });
}

/// No write ends: the stream starts as many as its depth allows, in two groups, and waits.
#[test]
fn no_more_than_the_depth_is_in_flight() {
    for depth in [1, 2, 3, 7, 16] {
        let (fixture, gate) =
            Fixture::gated(Spec { buffers: 1024, ..ROOMY }, Arc::new(PosixExecutor));
        fixture.aio.set_combine_limit(0);
        let mut backend = filled(&fixture, 128);
        // No two of them are neighbours.
        for block in (0..128).step_by(2) {
            drop(dirty(&fixture.pool, &mut backend, block, 1));
        }
        gate.shut();
        thread::scope(|scope| {
            let _open = gate.open_at_end();
            let pool = &fixture.pool;
            let writer = scope.spawn(move || {
                pool.write_paced(&mut backend, WriteScope::All, options(depth, 16), &mut FullSpeed)
            });
            gate.await_waiters(1);
            assert_eq!(gate.held(), if depth % 2 == 0 { depth } else { depth.div_ceil(2) });
            gate.open();
            assert_eq!(writer.join().unwrap().unwrap().writes, 64);
        });
    }
}

/// The same while writes end one by one, over every method.
#[test]
fn the_depth_is_kept_while_writes_end() {
    const DEPTH: usize = 3;
    each_faulty(ROOMY, |fixture, plan| {
        fixture.aio.set_combine_limit(0);
        let mut backend = filled(fixture, 64);
        for block in (0..64).step_by(2) {
            drop(dirty(&fixture.pool, &mut backend, block, 1));
        }
        let pool = &fixture.pool;
        let hold = plan.hold(Rule::on(Ops::WRITE));
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                pool.write_paced(&mut backend, WriteScope::All, options(DEPTH, 16), &mut FullSpeed)
            });
            for _ in 0..32 {
                hold.await_count(1);
                assert!(hold.count() <= DEPTH);
                hold.release_oldest(1);
            }
            hold.release();
            assert_eq!(writer.join().unwrap().unwrap().writes, 32);
        });
    });
}

/// In a small pool only a part of the pages is locked at once, whatever the depth.
#[test]
fn a_small_pool_has_few_pages_in_flight() {
    let (fixture, gate) =
        Fixture::gated(Spec { buffers: 64, ..Spec::plain() }, Arc::new(PosixExecutor));
    fixture.aio.set_combine_limit(0);
    let mut backend = filled(&fixture, 64);
    for block in 0..64 {
        drop(dirty(&fixture.pool, &mut backend, block, 1));
    }
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let writer = scope
            .spawn(|| fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap());
        gate.await_waiters(1);
        assert_eq!(gate.held(), 1, "one write of sixteen pages");
        // The others can still be changed.
        change(&pin(&fixture.pool, &mut backend, 40), |page| stamp(page, 40, 2));
        gate.open();
        assert_eq!(writer.join().unwrap().buffers, 64);
    });
    assert_eq!(version(&fixture.on_disk(40), 40), 2);
}

#[test]
fn the_log_is_flushed_once_for_a_batch_and_before_it() {
    each_faulty(ROOMY, |fixture, plan| {
        let mut backend = filled(fixture, 128);
        let log = Log::attach(&fixture.pool, plan);
        let mut stream = WriteStream::new(&fixture.pool, options(4, 8));
        assert_eq!(stream.window(), 16);
        // The newest page of the first batch is its first one. The pages of the second batch are
        // older.
        for block in (0..16).chain(64..80) {
            let pinned = dirty(&fixture.pool, &mut backend, block, if block < 16 { 2 } else { 1 });
            if block == 0 {
                change(&pinned, |page| crate::fixture::set_lsn(page, 2500));
            }
            stream.push(&mut backend, pinned).unwrap();
        }
        stream.finish(&mut backend).unwrap();
        let events = log.take();
        assert_eq!(events[0], Event::Flushed(2500), "{events:?}");
        let writes = |events: &[Event]| {
            let blocks = events.iter().map(|event| match *event {
                Event::Wrote { blocks, .. } => blocks,
                Event::Flushed(_) => 0,
            });
            blocks.sum::<u32>()
        };
        assert_eq!(
            events.iter().filter(|e| matches!(e, Event::Flushed(_))).count(),
            1,
            "{events:?}"
        );
        assert_eq!(writes(&events), 32);

        // Each batch is preceded by a flush up to its newest page.
        let report = {
            (0..48).for_each(|block| drop(dirty(&fixture.pool, &mut backend, block, 3)));
            fixture
                .pool
                .write_paced(&mut backend, WriteScope::All, options(4, 8), &mut FullSpeed)
                .unwrap()
        };
        assert_eq!(report.buffers, 48);
        let events = log.take();
        let mut durable = 0;
        for event in &events {
            match *event {
                Event::Flushed(upto) => durable = upto,
                Event::Wrote { first, blocks } => {
                    assert!(
                        lsn(first + blocks - 1, 3) <= durable,
                        "a page overtook the log: {events:?}"
                    );
                }
            }
        }
        let flushes: Vec<_> =
            events.iter().filter(|e| matches!(e, Event::Flushed(_))).copied().collect();
        assert_eq!(flushes, [15, 31, 47].map(|block| Event::Flushed(lsn(block, 3))));
        assert_eq!(writes(&events), 48);
    });
}

#[test]
fn a_page_is_written_as_it_is_when_its_turn_comes() {
    each(ROOMY, |fixture| {
        let mut backend = filled(fixture, 32);
        let mut stream = WriteStream::new(&fixture.pool, options(16, 16));
        for block in 0..8 {
            let pinned = dirty(&fixture.pool, &mut backend, block, 1);
            stream.push(&mut backend, pinned).unwrap();
        }
        // Meanwhile one is changed again, and one is pushed twice.
        drop(dirty(&fixture.pool, &mut backend, 3, 2));
        let again = pin(&fixture.pool, &mut backend, 5);
        stream.push(&mut backend, again).unwrap();
        // A clean page is not written.
        let clean = pin(&fixture.pool, &mut backend, 20);
        stream.push(&mut backend, clean).unwrap();
        let report = stream.finish(&mut backend).unwrap();
        assert_eq!((report.buffers, report.writes), (8, 1));
        assert_eq!(version(&fixture.on_disk(3), 3), 2);
        assert!(!pin(&fixture.pool, &mut backend, 3).is_dirty());
        assert_nothing_held(fixture, backend);
    });
}

#[test]
fn a_stream_that_does_not_wait_leaves_out_locked_pages() {
    each(ROOMY, |fixture| {
        let mut backend = filled(fixture, 32);
        for block in 0..12 {
            drop(dirty(&fixture.pool, &mut backend, block, 1));
        }
        let pins = [4, 8].map(|block| pin(&fixture.pool, &mut backend, block));
        let changing = pins[0].lock_exclusive();
        // A reader does not prevent a write.
        let reading = pins[1].lock_shared();
        let skipping = WriteOptions { locked: Locked::Skip, ..options(16, 16) };
        let report = fixture
            .pool
            .write_paced(&mut backend, WriteScope::All, skipping, &mut FullSpeed)
            .unwrap();
        assert_eq!((report.buffers, report.writes), (11, 2));
        drop((changing, reading));
        assert!(pins[0].is_dirty() && !pins[1].is_dirty());
        drop(pins);
        assert_eq!(fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap().buffers, 1);
    });
}

/// A stream that waits for a lock has started the writes of its locked pages, and holds no lock.
#[test]
fn a_stream_that_waits_for_a_lock_holds_none() {
    let (fixture, gate) = Fixture::gated(ROOMY, Arc::new(PosixExecutor));
    let mut backend = filled(&fixture, 32);
    for block in 0..8 {
        drop(dirty(&fixture.pool, &mut backend, block, 1));
    }
    let middle = pin(&fixture.pool, &mut backend, 4);
    let mut changing = middle.lock_exclusive();
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let writer = scope
            .spawn(|| fixture.pool.write_dirty(&mut fixture.backend(), WriteScope::All).unwrap());
        gate.await_held(1);
        gate.open();
        // The first half is written. The pages after it can be changed while the stream waits.
        let behind = pin(&fixture.pool, &mut backend, 6);
        change(&behind, |page| stamp(page, 6, 2));
        stamp(&mut changing, 4, 2);
        drop(changing);
        let report = writer.join().unwrap();
        assert_eq!((report.buffers, report.writes), (8, 2));
    });
    for block in 0..8 {
        let wanted = if block == 4 || block == 6 { 2 } else { 1 };
        assert_eq!(version(&fixture.on_disk(block), block), wanted);
    }
}

#[test]
fn a_stream_that_is_dropped_early_leaves_nothing_behind() {
    each(ROOMY, |fixture| {
        let mut backend = filled(fixture, 128);
        // More writes than the backend has handles.
        for round in 1..=40 {
            let mut stream = WriteStream::new(&fixture.pool, options(8, 1));
            for block in 0..8 {
                let pinned = dirty(&fixture.pool, &mut backend, block * 2, round);
                stream.push(&mut backend, pinned).unwrap();
            }
            drop(stream);
        }
        assert_eq!(backend.io.end_of_transaction().failed, 0);
        // A stream that has not started anything.
        let mut stream = WriteStream::new(&fixture.pool, options(16, 16));
        let pinned = dirty(&fixture.pool, &mut backend, 100, 1);
        stream.push(&mut backend, pinned).unwrap();
        drop(stream);
        assert!(pin(&fixture.pool, &mut backend, 100).is_dirty());
        fixture.pool.write_dirty(&mut backend, WriteScope::All).unwrap();
        for block in 0..8 {
            assert_eq!(version(&fixture.on_disk(block * 2), block * 2), 40);
        }
        assert_eq!(version(&fixture.on_disk(100), 100), 1);
        assert_nothing_held(fixture, backend);
    });
}

/// Pushed pages are pinned: a drop waits until the stream has written them.
#[test]
fn a_drop_waits_for_the_pages_of_a_write_stream() {
    let (fixture, gate) = Fixture::gated(ROOMY, Arc::new(PosixExecutor));
    let mut backend = filled(&fixture, 32);
    let mut stream = WriteStream::new(&fixture.pool, options(4, 4));
    for block in 0..4 {
        let pinned = dirty(&fixture.pool, &mut backend, block, 1);
        stream.push(&mut backend, pinned).unwrap();
    }
    gate.shut();
    thread::scope(|scope| {
        let _open = gate.open_at_end();
        let dropped =
            scope.spawn(|| fixture.pool.drop_relation(&mut fixture.backend(), REL).unwrap());
        stream.start(&mut backend).unwrap();
        gate.await_held(1);
        gate.await_waiters(1);
        assert!(fixture.path(0).exists() && !dropped.is_finished());
        gate.open();
        dropped.join().unwrap();
    });
    assert_eq!(stream.finish(&mut backend).unwrap().buffers, 4);
    assert!(!fixture.path(0).exists());
    assert!((0..32).all(|block| fixture.pool.lookup(&tag(block)).is_none()));
}
