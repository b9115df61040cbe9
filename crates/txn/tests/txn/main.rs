//! Transactions over the real log, pool and files.

mod fixture;
mod multixact;
mod slru;
mod subxacts;

use std::path::Path;
use std::sync::Arc;

use fixture::{FIRST_XID, Fixture, TABLE, WAL_START, checkpoint, pool, reader};
use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::thread;
use forebay_aio::{BackendType, MethodKind};
use forebay_format::{FullXid, Xid};
use forebay_storage::Backend;
use forebay_testkit::io::open;
use forebay_txn::redo::{ClogRedo, RedoContext, RedoRecord, ResourceManager, XactRedo};
use forebay_txn::{
    Clog, CommitGate, CommitOptions, DatabaseName, Finished, LastRunning, MultiCounters,
    MultiXacts, Outcome, Running, Transaction, TxnError, XactManager,
};
use proptest::prelude::*;

/// The SQLSTATE of a result that must be an error.
fn sqlstate<T: std::fmt::Debug>(result: Result<T, TxnError>) -> &'static str {
    result.unwrap_err().sqlstate()
}

#[test]
fn the_gate_waits_for_passes_taken_before() {
    let gate = Arc::new(CommitGate::new());
    gate.wait_for_earlier();
    let early = gate.enter();
    let (waiting, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let checkpoint = thread::spawn({
        let (gate, waiting, passed) = (gate.clone(), waiting.clone(), passed.clone());
        move || {
            waiting.store(true, Ordering::SeqCst);
            gate.wait_for_earlier();
            passed.store(true, Ordering::SeqCst);
        }
    });
    while !waiting.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    assert!(!passed.load(Ordering::SeqCst));
    // The waiting checkpoint does not delay others.
    for _ in 0..100 {
        drop(gate.enter());
    }
    drop(early);
    checkpoint.join().unwrap();
    let _late = gate.enter();
    drop(gate.enter());
}

#[test]
fn the_gate_does_not_wait_for_passes_taken_after() {
    let gate = CommitGate::new();
    drop(gate.enter());
    gate.wait_for_earlier();
    let one = gate.enter();
    let two = gate.enter();
    drop(one);
    drop(two);
    gate.wait_for_earlier();
    gate.wait_for_earlier();
}

/// Descriptors or memory may be short when a transaction ends.
#[test]
fn an_end_whose_page_of_pg_xact_cannot_be_read() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let file = fixture.dir.path().join("pg_xact/0000");
    let aside = fixture.dir.path().join("aside");
    // Nothing is cached.
    let clog = Arc::new(Clog::new(fixture.aio.clone(), fixture.dir.path(), false));
    let next = FullXid::new(0, FIRST_XID + 100);
    let xacts = XactManager::new(clog.clone(), fixture.wal.clone(), next, FIRST_XID);
    let (mut aborts, mut commits) = (Transaction::new(), Transaction::new());
    let aborted = xacts.assign(&mut backend.io, &mut aborts).unwrap();
    let committed = xacts.assign(&mut backend.io, &mut commits).unwrap();
    std::fs::rename(&file, &aside).unwrap();
    // A commit fails before its record is in the log, and can be repeated.
    let end = fixture.wal.insert_lsn();
    xacts.commit(&mut backend.io, &mut commits).unwrap_err();
    assert_eq!(fixture.wal.insert_lsn(), end);
    assert!(commits.xid().is_some());
    // An abort needs no page: a transaction that neither runs nor has committed has aborted.
    xacts.abort(&mut backend.io, &mut aborts).unwrap();
    assert_eq!(xacts.procs().count(), 1);
    std::fs::rename(&aside, &file).unwrap();
    xacts.commit(&mut backend.io, &mut commits).unwrap();
    assert_eq!(clog.status(&mut backend.io, committed).unwrap(), Outcome::Committed);
    assert_ne!(clog.status(&mut backend.io, aborted).unwrap(), Outcome::Committed);
}

proptest! {
    #[test]
    fn running_agrees_with_a_plain_search(
        start: u32,
        mut steps in prop::collection::vec(0u32..9, 1..60),
        probe in 0u32..400,
    ) {
        // Ids also across the wraparound.
        let at = |distance: u32| start.wrapping_add(distance).max(3);
        prop_assume!(start > 3 && at(600) > 3);
        steps.insert(0, 0);
        let mut distance = 0;
        let mut xids = Vec::new();
        for step in steps {
            distance += step + 1;
            xids.push(at(distance));
        }
        let (mut tops, mut subs) = (Vec::new(), Vec::new());
        for (index, &xid) in xids.iter().enumerate() {
            if index % 3 == 2 { subs.push(xid) } else { tops.push(xid) }
        }
        let running = Running {
            xmin: xids[0],
            xmax: at(distance + 1),
            xids: tops.into(),
            subxids: subs.into(),
            ..Running::none(3)
        };
        let xid = at(probe);
        let expected = if probe > distance { true } else { xids.contains(&xid) };
        prop_assert_eq!(running.contains(xid), expected);
        prop_assert!(!running.contains(2) && !running.contains(1));
    }
}

#[test]
fn a_snapshot_sees_what_had_committed() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (mut a, mut b, mut c) = (Transaction::new(), Transaction::new(), Transaction::new());
    let mut assign = |tx: &mut Transaction| fixture.xacts.assign(&mut backend.io, tx).unwrap();
    let (xa, xb, xc) = (assign(&mut a), assign(&mut b), assign(&mut c));
    assert_eq!((xa, xb, xc), (FIRST_XID, FIRST_XID + 1, FIRST_XID + 2));
    assert_eq!(assign(&mut b), xb, "an id is handed out once");
    assert_eq!(fixture.xacts.oldest_running(), FullXid::new(0, xa));
    fixture.xacts.commit(&mut backend.io, &mut b).unwrap();

    let snapshot = fixture.xacts.snapshot(&c);
    assert!(snapshot.is_running(xa) && !snapshot.is_running(xb) && snapshot.is_running(xc + 1));
    assert!(snapshot.is_own(xc));
    assert_eq!((snapshot.xmin(), snapshot.xmax()), (xa, xb + 1));
    fixture.xacts.abort(&mut backend.io, &mut a).unwrap();
    assert!(snapshot.is_running(xa), "a snapshot does not change");
    assert!(!fixture.xacts.snapshot(&c).is_running(xa));
    fixture.xacts.commit(&mut backend.io, &mut c).unwrap();
    let mut status = |xid| fixture.clog.status(&mut backend.io, xid).unwrap();
    assert_eq!(
        [xa, xb, xc].map(&mut status),
        [Outcome::Aborted, Outcome::Committed, Outcome::Committed]
    );
    assert_eq!([1, 2].map(&mut status), [Outcome::Committed; 2]);
    assert_eq!(status(xc + 1), Outcome::InProgress);
    assert_eq!(fixture.xacts.next_xid(), FullXid::new(0, xc + 1));
    assert_eq!(fixture.xacts.oldest_running(), fixture.xacts.next_xid());
}

#[test]
fn the_horizon_waits_for_the_oldest_snapshot_in_use() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let horizon = || fixture.xacts.procs().horizon();
    let mut commit_one = || {
        let mut tx = Transaction::new();
        let xid = fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
        fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
        xid
    };
    assert_eq!(horizon(), FIRST_XID);
    let mut last = LastRunning::default();
    let reader = Transaction::new();
    let old = fixture.xacts.snapshot_since(&reader, &mut last);
    let again = fixture.xacts.snapshot_since(&reader, &mut last);
    let ended: Vec<Xid> = (0..300).map(|_| commit_one()).collect();
    assert_eq!(horizon(), FIRST_XID, "a snapshot is in use");
    drop(old);
    let newer = fixture.xacts.snapshot_since(&reader, &mut last);
    commit_one();
    assert_eq!(horizon(), FIRST_XID, "another one of the same moment is still in use");
    drop(again);
    assert_eq!(horizon(), ended[299] + 1);
    drop(newer);
    assert_eq!(horizon(), ended[299] + 2, "what a session remembers is not in use");
}

#[test]
fn a_running_transaction_holds_back_the_horizon() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (mut long, mut short) = (Transaction::new(), Transaction::new());
    let oldest = fixture.xacts.assign(&mut backend.io, &mut long).unwrap();
    fixture.xacts.assign(&mut backend.io, &mut short).unwrap();
    fixture.xacts.commit(&mut backend.io, &mut short).unwrap();
    assert_eq!(fixture.xacts.procs().horizon(), oldest);
    fixture.xacts.abort(&mut backend.io, &mut long).unwrap();
    assert_eq!(fixture.xacts.procs().horizon(), oldest + 2);
}

#[test]
fn a_commit_is_durable_and_a_reader_writes_nothing() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let mut tx = Transaction::new();
    let before = fixture.wal.insert_lsn();
    assert_eq!(fixture.xacts.commit(&mut backend.io, &mut tx).unwrap(), Finished::default());
    fixture.xacts.abort(&mut backend.io, &mut Transaction::new()).unwrap();
    assert_eq!(fixture.wal.insert_lsn(), before);

    fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
    tx.drop_at_commit(TABLE);
    tx.drop_at_abort(TABLE);
    let finished = fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    let lsn = finished.lsn.unwrap();
    assert!(fixture.wal.flushed_lsn() >= lsn && lsn > before);
    assert_eq!(finished.drop, [TABLE]);
    assert_eq!(tx.xid(), None, "the transaction is over");
}

#[test]
fn a_commit_that_does_not_wait_is_flushed_before_its_page_of_pg_xact() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let options = CommitOptions { wait: false, ..CommitOptions::default() };
    let mut tx = Transaction::new();
    let xid = fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
    let lsn = fixture.xacts.commit_with(&mut backend.io, &mut tx, &options).unwrap().lsn.unwrap();
    assert!(fixture.wal.flushed_lsn() < lsn);
    assert_eq!(
        fixture.clog.status(&mut backend.io, xid).unwrap(),
        Outcome::Committed,
        "everyone sees it"
    );
    // The page of pg_xact with its outcome is written after the log.
    let mut seen = None;
    let flushed = fixture.clog.flush_behind(&mut backend.io, |io| {
        fixture.wal.flush_async_commits(io)?;
        seen = Some(fixture.wal.flushed_lsn());
        Ok::<(), TxnError>(())
    });
    assert!(flushed.unwrap() > 0 && seen.unwrap() >= lsn);

    // A commit that removes files always waits.
    fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
    tx.drop_at_commit(TABLE);
    let lsn = fixture.xacts.commit_with(&mut backend.io, &mut tx, &options).unwrap().lsn.unwrap();
    assert!(fixture.wal.flushed_lsn() >= lsn);
}

#[test]
fn a_failure_before_pg_xact_is_written_leaves_its_pages_to_be_written() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    fixture.clog.zero_page(7);
    let refused = fixture.clog.flush_behind(&mut backend.io, |_| Err(TxnError::OutOfCommands));
    assert!(refused.is_err());
    assert!(fixture.clog.flush(&mut backend.io).unwrap() > 0);
    assert_eq!(fixture.clog.flush(&mut backend.io).unwrap(), 0);
}

#[test]
fn commands_count_only_when_used() {
    let mut tx = Transaction::new();
    tx.next_command().unwrap();
    assert_eq!(tx.command(), 0);
    assert_eq!(tx.use_command(), 0);
    tx.next_command().unwrap();
    tx.next_command().unwrap();
    assert_eq!(tx.command(), 1);
    assert_eq!(tx.combos().combine(0, 1), 0);
    assert_eq!(tx.combos().combine(0, 2), 1);
    assert_eq!(tx.combos().combine(0, 1), 0);
    assert_eq!((tx.combos().resolve(1), tx.combos().resolve(2)), (Some((0, 2)), None));
}

/// Replays the whole log. Returns `pg_xact`, in memory.
fn replayed_clog(dir: &Path) -> Clog {
    let aio = open(MethodKind::Sync);
    let pool = pool(&aio, dir, 64);
    let clog = Clog::new(aio.clone(), dir, false);
    clog.set_recovering(true);
    let mut backend = Backend::new(aio.backend(BackendType::Startup).unwrap());
    let mut io = aio.backend(BackendType::Startup).unwrap();
    let mut reader = reader(&aio, dir, WAL_START);
    let checkpoint = checkpoint();
    let multis = no_sets(&clog);
    let mut ctx = RedoContext::new(&mut backend, &pool, &clog, &multis, &checkpoint);
    let managers: [&dyn ResourceManager; 2] = [&XactRedo, &ClogRedo];
    while let Some(record) = reader.next(&mut io).unwrap() {
        let decoded = record.decode().unwrap();
        let manager = managers.iter().find(|m| m.id() == decoded.header.rmgr).unwrap();
        let record = RedoRecord { start: record.start, end: record.end, record: &decoded };
        manager.redo(&record, &mut ctx).unwrap();
    }
    clog
}

/// `pg_multixact` beside `pg_xact`, without a set.
fn no_sets(clog: &Clog) -> MultiXacts {
    MultiXacts::beside(clog, MultiCounters { next: 1, next_offset: 0, oldest: 1, oldest_db: 1 })
}

/// A manager whose next id is `next`.
fn manager_at(fixture: &Fixture, next: FullXid, oldest: Xid) -> XactManager {
    XactManager::new(fixture.clog.clone(), fixture.wal.clone(), next, oldest)
}

#[test]
fn new_pages_of_pg_xact_are_made_logged_and_kept() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let xacts = manager_at(&fixture, FullXid::new(0, 32_766), 3);
    let mut end = |commit: bool| {
        let mut tx = Transaction::new();
        let xid = xacts.assign(&mut backend.io, &mut tx).unwrap();
        match commit {
            true => xacts.commit(&mut backend.io, &mut tx).unwrap(),
            false => xacts.abort(&mut backend.io, &mut tx).unwrap(),
        };
        xid
    };
    let xids: Vec<Xid> = [true, false, true, true].map(&mut end).into();
    assert_eq!(xids, [32_766, 32_767, 32_768, 32_769]);
    let expected = [Outcome::Committed, Outcome::Aborted, Outcome::Committed, Outcome::Committed];
    for (xid, outcome) in xids.iter().zip(expected) {
        assert_eq!(fixture.clog.status(&mut backend.io, *xid).unwrap(), outcome);
    }
    // Page 1 was never written. Replaying the log makes it.
    fixture.wal.flush_all(&mut backend.io).unwrap();
    let replayed = replayed_clog(fixture.dir.path());
    for (xid, outcome) in xids.iter().zip(expected) {
        assert_eq!(replayed.status(&mut backend.io, *xid).unwrap(), outcome);
    }
    assert_eq!(fixture.clog.flush(&mut backend.io).unwrap(), 2);
    assert_eq!(fixture.clog.flush(&mut backend.io).unwrap(), 0);
    let file = std::fs::read(fixture.dir.path().join("pg_xact/0000")).unwrap();
    assert_eq!(file.len(), 2 * 8192);
    assert_eq!((file[8191], file[8192]), (0b1001_0000, 0b0101));
    let reopened = Clog::new(fixture.aio.clone(), fixture.dir.path(), false);
    for (xid, outcome) in xids.iter().zip(expected) {
        assert_eq!(reopened.status(&mut backend.io, *xid).unwrap(), outcome);
    }
}

#[test]
fn a_full_cache_evicts_without_losing_changes() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let pages = 300;
    for page in 0..pages {
        fixture.clog.zero_page(i64::from(page));
        fixture.clog.set(&mut backend.io, page * 32_768 + 5, Outcome::Committed).unwrap();
        if page % 100 == 99 {
            fixture.clog.flush(&mut backend.io).unwrap();
        }
    }
    for page in (0..pages).rev() {
        assert_eq!(
            fixture.clog.status(&mut backend.io, page * 32_768 + 5).unwrap(),
            Outcome::Committed
        );
        assert_eq!(
            fixture.clog.status(&mut backend.io, page * 32_768 + 6).unwrap(),
            Outcome::InProgress
        );
    }
    assert!(fixture.dir.path().join("pg_xact/0009").exists());
}

#[test]
fn a_page_that_an_end_has_prepared_stays() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    // More than stay in memory.
    let pages = 1200;
    for page in 0..i64::from(pages) {
        fixture.clog.zero_page(page);
    }
    fixture.clog.flush(&mut backend.io).unwrap();
    let prepared = fixture.clog.prepare(&mut backend.io, 40_000).unwrap();
    // Other pages are loaded and evicted, and the file cannot be read any more.
    for page in 2..pages {
        fixture.clog.status(&mut backend.io, page * 32_768 + 1).unwrap();
    }
    std::fs::remove_file(fixture.dir.path().join("pg_xact/0000")).unwrap();
    prepared.set(Outcome::Committed);
    assert_eq!(fixture.clog.status(&mut backend.io, 40_000).unwrap(), Outcome::Committed);
    assert_eq!(sqlstate(fixture.clog.prepare(&mut backend.io, 5)), "58P01");
}

#[test]
fn a_missing_page_is_an_error_except_in_recovery() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    assert_eq!(sqlstate(fixture.clog.status(&mut backend.io, 5_000_000)), "58P01");
    assert_eq!(sqlstate(fixture.clog.status(&mut backend.io, 40_000)), "XX001");
    fixture.clog.set_recovering(true);
    assert_eq!(fixture.clog.status(&mut backend.io, 5_000_000).unwrap(), Outcome::InProgress);
    assert_eq!(fixture.clog.status(&mut backend.io, 40_000).unwrap(), Outcome::InProgress);
}

#[test]
fn trimming_forgets_ids_from_before_a_crash() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    for xid in [9, 10, 11, 32_767] {
        fixture.clog.set(&mut backend.io, xid, Outcome::Aborted).unwrap();
    }
    fixture.clog.trim(&mut backend.io, FullXid::new(0, 10)).unwrap();
    let mut status = |xid| fixture.clog.status(&mut backend.io, xid).unwrap();
    assert_eq!(status(9), Outcome::Aborted);
    assert_eq!([10, 11, 32_767].map(&mut status), [Outcome::InProgress; 3]);
    // At the beginning of a page there is nothing, not even the page.
    fixture.clog.trim(&mut backend.io, FullXid::new(0, 32_768)).unwrap();
}

#[test]
fn ids_stop_before_old_and_new_would_be_confused() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    fixture.clog.set_recovering(true);
    let wrap = 100 + (u32::MAX >> 1);
    let stop = wrap - 3_000_000;
    let xacts = manager_at(&fixture, FullXid::new(0, stop - 1), 100);
    let database = || DatabaseName { oid: 5, name: Some("app".into()) };
    let warning = xacts.set_limit(100, database()).expect("few ids are left");
    assert_eq!(warning.message, "database \"app\" must be vacuumed within 3000001 transactions");
    let mut tx = Transaction::new();
    xacts.assign(&mut backend.io, &mut tx).unwrap();
    let io = &mut backend.io;
    let refused = xacts.assign(io, &mut Transaction::new());
    let message = refused.as_ref().unwrap_err().to_string();
    assert!(message.ends_with("wraparound data loss in database \"app\""), "{message}");
    assert_eq!(sqlstate(refused), "54000");
    // Neither does a subtransaction get one.
    tx.begin_sub();
    assert_eq!(sqlstate(xacts.assign(io, &mut tx)), "54000");
    xacts.commit(io, &mut tx).unwrap();
    assert_eq!(tx.take_warnings().len(), 1, "warnings outlive their transaction");
    assert_eq!(tx.take_warnings(), []);

    // The limit moves with the oldest id.
    for oldest in [101, 1 << 30, stop] {
        assert_eq!(xacts.set_limit(oldest, database()).is_some(), oldest == 101);
        assert_eq!(xacts.oldest_xid(), (oldest, 5));
        xacts.assign(io, &mut tx).unwrap();
        xacts.commit(io, &mut tx).unwrap();
        assert_eq!(tx.take_warnings().len(), usize::from(oldest == 101));
    }
}

#[test]
fn each_of_the_last_ids_comes_with_a_warning() {
    let fixture = Fixture::new();
    let io = &mut fixture.backend().io;
    fixture.clog.set_recovering(true);
    let warn = 100 + (u32::MAX >> 1) - 40_000_000;
    let xacts = manager_at(&fixture, FullXid::new(0, warn - 1), 100);
    assert_eq!(xacts.set_limit(100, DatabaseName { oid: 7, name: None }), None);
    let mut tx = Transaction::new();
    xacts.assign(io, &mut tx).unwrap();
    assert_eq!(tx.take_warnings(), []);
    tx.begin_sub();
    tx.begin_sub();
    xacts.assign(io, &mut tx).unwrap();
    xacts.abort(io, &mut tx).unwrap();
    let messages: Vec<String> = tx.take_warnings().iter().map(|w| w.to_string()).collect();
    let left = |n: u32| format!("database with OID 7 must be vacuumed within {n} transactions");
    assert_eq!(messages, [left(40_000_000), left(39_999_999)]);
}
