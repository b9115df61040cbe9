//! A failed write or sync ends the log: all callers get the error, and nothing is acknowledged.

use std::sync::Arc;

use crate::common::*;
use forebay_aio::fault::{Effect, Ops, Rule};
use forebay_aio::{Errno, MethodKind};
use forebay_wal::{CheckpointKind, SyncMethod, WalError};

const EIO: Effect = Effect::Fail(Errno::IO);

/// Every call on a log that has ended returns the error that ended it.
fn assert_ended(rig: &mut Rig, wal: &forebay_wal::Wal, expected: &WalError) {
    let expected = expected.to_string();
    assert!(expected.contains("000000010000000000000001"), "{expected} names the segment");
    let end = wal.end_lsn();
    let io = &mut rig.io;
    for (call, result) in [
        ("insert", wal.insert(io, &plain(&[1])).map(drop)),
        ("flush", wal.flush(io, end)),
        ("flush of what was durable before", wal.flush(io, BEGIN)),
        ("flush_all", wal.flush_all(io).map(drop)),
        ("step", wal.step(io).map(drop)),
        ("room", wal.ensure_room(io, 1)),
        ("checkpoint", wal.begin_checkpoint(io, CheckpointKind::Shutdown).map(drop)),
        ("removal", wal.remove_old_segments(end, 0).map(drop)),
    ] {
        let error = result.expect_err(call);
        assert!(error.is_fatal(), "{call}");
        assert_eq!(error.to_string(), expected, "{call}");
    }
    assert_eq!(wal.end_lsn(), end);
    assert!(wal.poisoned().is_some_and(|error| error.to_string() == expected));
}

#[test]
fn a_failed_sync_ends_the_log() {
    for sync_method in [SyncMethod::Fdatasync, SyncMethod::Fsync] {
        let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
        rig.config.sync_method = sync_method;
        let wal = rig.fresh();
        let a = insert(&wal, &mut rig.io, &[1; 100]);
        wal.flush(&mut rig.io, a.end).expect("flush");
        let b = insert(&wal, &mut rig.io, &[2; 100]);
        plan.add(Rule::on(Ops::SYNCS), EIO);
        let error = wal.flush(&mut rig.io, b.end).expect_err("failed sync");
        assert!(
            error.is_fatal() && error.to_string().contains("could not sync WAL file"),
            "{error}"
        );
        // A repeated sync would succeed, but prove nothing.
        plan.mend();
        let syncs = plan.calls(Ops::SYNCS);
        assert_ended(&mut rig, &wal, &error);
        assert_eq!(plan.calls(Ops::SYNCS), syncs, "never tried again");
        assert_eq!(wal.flushed_lsn(), a.end);
    }
}

#[test]
fn a_failed_write_ends_the_log() {
    for sync_method in [SyncMethod::Fdatasync, SyncMethod::OpenDatasync] {
        let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
        rig.config.sync_method = sync_method;
        let wal = rig.fresh();
        let a = insert(&wal, &mut rig.io, &[1; 100]);
        wal.flush(&mut rig.io, a.end).expect("flush");
        let b = insert(&wal, &mut rig.io, &[2; 20_000]);
        // Even ENOSPC is fatal, because the blocks of the segment were allocated.
        let errno = if sync_method == SyncMethod::Fdatasync { Errno::IO } else { Errno::NOSPC };
        plan.add(Rule::on(Ops::WRITE), Effect::Fail(errno));
        let error = wal.flush(&mut rig.io, b.end).expect_err("failed write");
        assert!(
            error.is_fatal() && error.to_string().contains("could not write WAL file"),
            "{error}"
        );
        plan.mend();
        assert_ended(&mut rig, &wal, &error);
        assert_eq!((wal.flushed_lsn(), wal.written_lsn()), (a.end, a.end));
    }
}

/// Without gather writes, the error names the block, which is between others that were written.
#[test]
fn a_failed_write_of_one_block_ends_the_log() {
    // Through the page cache one after the other: none after the one that fails.
    for (direct, in_batch, expected_writes) in
        [(false, false, 2), (true, false, 4), (true, true, 4)]
    {
        let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
        if direct && !has_direct(rig.dir.path()) {
            return;
        }
        (rig.config.direct, rig.config.gather) = (direct, false);
        let wal = rig.fresh();
        let a = insert(&wal, &mut rig.io, &[1; 100]);
        wal.flush(&mut rig.io, a.end).expect("flush");
        let b = insert(&wal, &mut rig.io, &[2; 30_000]);
        let writes = plan.calls(Ops::WRITE);
        plan.add(Rule::on(Ops::WRITE).nth(1), EIO);
        if in_batch {
            rig.io.begin_batch();
        }
        let error = wal.flush(&mut rig.io, b.end).expect_err("failed write");
        assert_eq!(rig.io.in_batch(), in_batch);
        if in_batch {
            rig.io.end_batch();
        }
        assert!(
            error.is_fatal() && error.to_string().contains("at offset 8192, length 8192"),
            "{error}"
        );
        assert_eq!(
            (plan.calls(Ops::WRITE) - writes, rig.io.in_flight()),
            (expected_writes, 0),
            "each once"
        );
        plan.mend();
        assert_ended(&mut rig, &wal, &error);
        assert_eq!((wal.flushed_lsn(), wal.written_lsn()), (a.end, a.end));
    }
}

#[test]
fn a_failed_write_for_a_free_buffer_ends_the_log() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    rig.config.buffers = 4;
    let wal = rig.fresh();
    plan.add(Rule::on(Ops::WRITE).skip(2), EIO);
    let before = wal.stats();
    let error = wal.insert(&mut rig.io, &plain(&vec![1; 200_000])).expect_err("failed write");
    plan.mend();
    assert_ended(&mut rig, &wal, &error);
    assert_eq!(wal.stats().records, before.records);
}

#[test]
fn all_waiters_get_the_error() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    rig.config.buffers = 8;
    let wal = Arc::new(rig.fresh());
    // All within the first segment, even if each write has a record of each thread.
    plan.add(Rule::on(Ops::WRITE).skip(20), EIO);
    let outcomes: Vec<(usize, WalError)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| {
                let (wal, mut io) = (Arc::clone(&wal), rig.backend());
                scope.spawn(move || {
                    let mut acknowledged = 0;
                    loop {
                        let main = vec![n as u8; 300 + 900 * n];
                        let done = wal
                            .insert(&mut io, &plain(&main))
                            .and_then(|at| wal.flush(&mut io, at.end));
                        match done {
                            Ok(()) => acknowledged += 1,
                            Err(error) => return (acknowledged, error),
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    plan.mend();
    let error = &outcomes[0].1;
    assert_ended(&mut rig, &wal, error);
    assert!(outcomes.iter().all(|(_, e)| e.to_string() == error.to_string()));
    let acknowledged: usize = outcomes.iter().map(|(n, _)| n).sum();
    let flushed = wal.flushed_lsn();
    let durable = rig.read_all(BEGIN).0.iter().filter(|record| record.end <= flushed).count();
    assert!(acknowledged <= durable, "{acknowledged} acknowledged, {durable} durable");
}

#[test]
fn a_panic_in_the_middle_of_a_record_ends_the_log() {
    let (mut rig, plan) = Rig::faulty(MethodKind::Sync);
    rig.config.buffers = 4;
    let wal = rig.fresh();
    let a = insert(&wal, &mut rig.io, &[1; 100]);
    wal.flush(&mut rig.io, a.end).expect("flush");
    plan.add(Rule::on(Ops::WRITE).skip(2), Effect::Panic);
    let error = wal.insert(&mut rig.io, &plain(&vec![2; 200_000])).expect_err("an I/O error");
    plan.mend();
    assert_ended(&mut rig, &wal, &error);
}
