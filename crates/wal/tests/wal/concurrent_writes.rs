//! Concurrent writes: how far the log is durable, and what the WAL writer does.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::common::*;
use forebay_aio::execute::{Executor, PosixExecutor, Request};
use forebay_aio::{Aio, AioConfig, Errno, MethodKind, OpKind, PosixNamespace};
use forebay_format::Lsn;
use forebay_wal::{SyncMethod, WriterPace};

const BLOCK: u64 = 8192;

#[derive(Debug, Default)]
struct Seen {
    /// Offsets of writes that have started, and of those that have ended.
    begun: Vec<u64>,
    ended: Vec<u64>,
    held: Option<u64>,
    syncs: usize,
}

/// Blocks the write to one offset until it is released.
#[derive(Debug, Default)]
struct Gate {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Gate {
    fn change<R>(&self, change: impl FnOnce(&mut Seen) -> R) -> R {
        let result = change(&mut self.seen.lock().expect("gate"));
        self.changed.notify_all();
        result
    }

    /// Waits for an event that happens within milliseconds. Fails if it takes a minute.
    fn wait(&self, what: &str, ready: impl Fn(&Seen) -> bool) {
        let seen = self.seen.lock().expect("gate");
        let limit = Duration::from_secs(60);
        let (seen, late) =
            self.changed.wait_timeout_while(seen, limit, |seen| !ready(seen)).expect("gate");
        assert!(!late.timed_out(), "{what} did not happen: {seen:?}");
    }
}

impl Executor for Gate {
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno> {
        let of_log = !request.file().path().to_string_lossy().contains("xlogtemp");
        if of_log && request.op() == OpKind::Writev {
            self.change(|seen| seen.begun.push(request.offset()));
            self.wait("the release", |seen| seen.held != Some(request.offset()));
        }
        let done = PosixExecutor.execute(request);
        self.change(|seen| match request.op() {
            OpKind::Writev if of_log => seen.ended.push(request.offset()),
            OpKind::Fsync | OpKind::Fdatasync if of_log => seen.syncs += 1,
            _ => {}
        });
        done
    }
}

fn gated() -> (Rig, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let config = AioConfig::default();
    let executor: Arc<dyn Executor> = Arc::<Gate>::clone(&gate);
    let aio = Aio::with_method(Arc::new(PosixNamespace), executor, config, |table| {
        MethodKind::Sync.start(&table, &config)
    });
    (Rig::with(aio.expect("aio")), gate)
}

/// A later write that completes before an earlier one makes nothing durable, with durable writes
/// and with syncs.
#[test]
fn only_bytes_without_a_gap_before_them_are_durable() {
    for sync_method in [SyncMethod::OpenDatasync, SyncMethod::Fdatasync] {
        let (mut rig, gate) = gated();
        if sync_method == SyncMethod::OpenDatasync {
            if !has_direct(rig.dir.path()) {
                continue;
            }
            rig.config.direct = true;
        }
        rig.config.sync_method = sync_method;
        let wal = rig.fresh();
        let first = insert(&wal, &mut rig.io, &[1; 5000]);
        let second = insert(&wal, &mut rig.io, &[2; 9000]);
        let border = BEGIN.add(BLOCK);
        assert!(first.end < border && border < second.end);
        gate.change(|seen| seen.held = Some(0));
        std::thread::scope(|scope| {
            let (wal, gate) = (&wal, &gate);
            let (mut io_a, mut io_b) = (rig.backend(), rig.backend());
            let a = scope.spawn(move || wal.flush(&mut io_a, first.end));
            gate.wait("the first write", |seen| seen.begun == [0]);
            let b = scope.spawn(move || wal.flush(&mut io_b, second.end));
            gate.wait("the second write, before the first", |seen| seen.ended == [BLOCK]);
            assert_eq!((wal.written_lsn(), wal.flushed_lsn()), (BEGIN, BEGIN));
            assert!(!a.is_finished() && !b.is_finished());
            gate.change(|seen| seen.held = None);
            a.join().expect("thread").expect("flush");
            b.join().expect("thread").expect("flush");
        });
        assert_eq!((wal.written_lsn(), wal.flushed_lsn()), (second.end, second.end));
        let stats = wal.stats();
        assert_eq!((stats.writes, stats.in_flight), (2, 3), "the second was one of two in flight");
        assert_eq!(rig.read_all(BEGIN).0.len(), 2);
    }
}

/// Two writes may be in flight: while one is slow, others can follow one another.
#[test]
fn a_slow_write_does_not_hold_up_others() {
    let (mut rig, gate) = gated();
    rig.config.sync_method = SyncMethod::Fdatasync;
    rig.config.writes_in_flight = 2;
    let wal = rig.fresh();
    gate.change(|seen| seen.held = Some(0));
    std::thread::scope(|scope| {
        for number in 1..=3 {
            let (wal, mut io) = (&wal, rig.backend());
            // Up to the end of a block, so that the next write begins with another one.
            let end = insert(wal, &mut io, &[number; 9000]).end.page_start();
            scope.spawn(move || wal.flush(&mut io, end).expect("flush"));
            gate.wait("another write", |seen| seen.begun.len() == usize::from(number));
            gate.wait("its end", |seen| seen.ended.len() + 1 == usize::from(number));
        }
        assert_eq!(wal.flushed_lsn(), BEGIN);
        gate.change(|seen| seen.held = None);
    });
    assert_eq!(wal.flushed_lsn(), wal.end_lsn().page_start());
}

/// Buffered writes that are durable by themselves are not concurrent, because either of two could
/// get the error of a failure.
#[test]
fn buffered_durable_writes_are_sequential() {
    let (mut rig, gate) = gated();
    rig.config.sync_method = SyncMethod::OpenDatasync;
    let wal = rig.fresh();
    let first = insert(&wal, &mut rig.io, &[1; 5000]);
    let second = insert(&wal, &mut rig.io, &[2; 9000]);
    gate.change(|seen| seen.held = Some(0));
    std::thread::scope(|scope| {
        let (wal, gate) = (&wal, &gate);
        let (mut io_a, mut io_b) = (rig.backend(), rig.backend());
        scope.spawn(move || wal.flush(&mut io_a, first.end).expect("flush"));
        gate.wait("the first write", |seen| seen.begun == [0]);
        scope.spawn(move || wal.flush(&mut io_b, second.end).expect("flush"));
        gate.change(|seen| seen.held = None);
    });
    assert_eq!(wal.stats().in_flight, wal.stats().writes);
    assert_eq!(wal.flushed_lsn(), second.end);
}

/// Without gather writes, a flush writes the blocks one by one, and syncs once.
#[test]
fn without_gather_writes_each_block_is_a_write() {
    let (mut rig, gate) = gated();
    rig.config.gather = false;
    let wal = rig.fresh();
    insert(&wal, &mut rig.io, &[1; 30_000]);
    wal.flush_all(&mut rig.io).expect("flush");
    let offsets = gate.change(|seen| seen.ended.clone());
    assert_eq!(offsets, [0, 1, 2, 3].map(|block| block * BLOCK));
    let stats = wal.stats();
    assert_eq!((stats.writes, stats.written_bytes, stats.syncs), (4, 4 * BLOCK, 1));
}

#[test]
fn the_wal_writer_flushes_asynchronous_commits() {
    let (mut rig, gate) = gated();
    let wal = rig.fresh();
    let io = &mut rig.io;
    let syncs = |gate: &Gate| gate.change(|seen| seen.syncs);
    wal.step(io).expect("step");
    let at = insert(&wal, io, &[1; 100]);
    // No commit was noted.
    assert!(!wal.step(io).expect("step"));
    wal.note_async_commit(at.end);
    assert_eq!((wal.flushed_lsn(), syncs(&gate)), (BEGIN, 0));
    let mut pace =
        WriterPace { delay: Duration::from_secs(3600), flush_after: 3 * BLOCK, last_flush: None };
    assert!(wal.write_behind(io, &mut pace).expect("step"), "the first round flushes");
    assert_eq!((wal.flushed_lsn(), syncs(&gate)), (at.end, 1));
    // Within the hour, whole blocks are written but not synced, as long as they are fewer than
    // three.
    let at = insert(&wal, io, &[2; 9000]);
    wal.note_async_commit(at.end);
    assert!(!wal.write_behind(io, &mut pace).expect("step"));
    assert_eq!((wal.written_lsn(), syncs(&gate)), (at.end.page_start(), 1));
    let at = insert(&wal, io, &[2; 30_000]);
    wal.note_async_commit(at.end);
    assert!(wal.write_behind(io, &mut pace).expect("step"));
    assert_eq!((wal.flushed_lsn(), syncs(&gate)), (at.end.page_start(), 2));
    // When the delay is over, the rest is flushed.
    pace.delay = Duration::ZERO;
    assert!(wal.write_behind(io, &mut pace).expect("step"));
    assert_eq!((wal.flushed_lsn(), syncs(&gate)), (at.end, 3));
    assert!(!wal.write_behind(io, &mut pace).expect("step"));
    wal.flush_async_commits(io).expect("flush");
    assert_eq!(syncs(&gate), 3);
    assert!(wal.flushed_lsn() > Lsn(0));
}
