//! What the log says of a transaction's end, for PostgreSQL's standbys: subtransactions, files and
//! statistics that go, what caches have to forget, exclusive locks.

use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use forebay_engine::types::oids;
use forebay_engine::{ColumnDef, IoMethod, LockMode, OnCommit, ShutdownMode};
use forebay_format::Xid;
use forebay_format::wal::invalidation::Invalidation;
use forebay_format::wal::standby::{self, StandbyLock};
use forebay_format::wal::xact::{self, XINFO_HAS_AE_LOCKS, XactEnd};
use forebay_format::wal::{Rmgr, rmgr::INFO_RMGR_MASK};
use forebay_testkit::peer::Peer;
use forebay_wal::{ReaderConfig, WalReader};

/// The notes in a transaction's end record.
#[derive(Debug, PartialEq)]
enum Told {
    Commit(Xid, XactEnd),
    Abort(Xid, XactEnd),
    Locks(Vec<StandbyLock>),
}

/// The notes in a stopped directory's log since its last checkpoint.
fn told(dir: &Path) -> Vec<Told> {
    let (aio, mut io) = log::backend();
    let control = log::control(dir);
    let config = ReaderConfig {
        dir: dir.join("pg_wal"),
        segment_size: control.segment_size,
        timeline: 1,
        system_id: Some(control.system_id),
        direct: false,
    };
    let redo = control.checkpoint_copy.redo;
    let mut reader = WalReader::new(Arc::clone(&aio), config, redo);
    let mut told = Vec::new();
    while let Some(record) = reader.next(&mut io).expect("readable") {
        let record = record.decode().expect("a record");
        let (info, xid) = (record.header.info, record.header.xid);
        let end = || XactEnd { time: 0, ..XactEnd::decode(info, record.main).expect("an end") };
        match (record.header.rmgr, info & xact::OPMASK) {
            (Rmgr::XACT, xact::COMMIT) => told.push(Told::Commit(xid, end())),
            (Rmgr::XACT, xact::ABORT) => told.push(Told::Abort(xid, end())),
            (Rmgr::STANDBY, _) if info & INFO_RMGR_MASK == standby::LOCK => {
                told.push(Told::Locks(standby::decode_locks(record.main).expect("locks")));
            }
            _ => {}
        }
    }
    told
}

/// The relation whose entry a message makes out of date.
fn relation(message: &[u8; 16]) -> Option<u32> {
    match Invalidation::decode(*message) {
        Some(Invalidation::Relation { db: 5, rel }) => Some(rel),
        _ => None,
    }
}

fn objects(end: &XactEnd) -> Vec<u64> {
    end.dropped_stats.iter().map(|stats| stats.object).collect()
}

/// Columns of a table without a TOAST table.
fn short_columns() -> [ColumnDef; 2] {
    let [id, _] = columns();
    [id, ColumnDef::new("n", oids::INT4)]
}

#[test]
fn ends_of_transactions_name_what_goes_with_them() {
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    start(&mut session);
    let kept = session.create_table(None, "kept", &short_columns()).expect("create");
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    let inner = session.create_table(None, "inner", &short_columns()).expect("create");
    session.abort_subtransaction().expect("rollback");
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    let temporary =
        session.create_temp_table("temporary", &short_columns(), OnCommit::Drop).expect("create");
    session.commit_subtransaction().expect("release");
    session.commit().expect("commit");
    start(&mut session);
    session.create_table(None, "lost", &short_columns()).expect("create");
    session.abort().expect("abort");
    start(&mut session);
    let table = session.open_table(None, "kept", LockMode::AccessExclusive).expect("table");
    // Only the first lock is told of.
    session.drop_table(&table).expect("drop");
    session.commit().expect("commit");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));

    let mut told = told(&dir).into_iter();
    let mut next = || told.next().expect("a record");
    let Told::Locks(lock) = next() else { panic!("the lock of the new table") };
    let outer = lock[0].xid;
    assert_eq!(lock, [StandbyLock { xid: outer, db: 5, rel: kept }]);
    let Told::Locks(lock) = next() else { panic!("the lock of the inner table") };
    assert_eq!(lock, [StandbyLock { xid: outer + 1, db: 5, rel: inner }]);
    let Told::Abort(xid, end) = next() else { panic!("the rollback") };
    assert_eq!((xid, end.rels[0].rel, objects(&end)), (outer + 1, inner, vec![u64::from(inner)]));
    assert!(end.rels.len() == 1 && end.invalidations.is_empty());
    let Told::Locks(lock) = next() else { panic!("the lock of the temporary table") };
    assert_eq!(lock, [StandbyLock { xid: outer + 2, db: 5, rel: temporary }]);
    let Told::Commit(xid, end) = next() else { panic!("the commit") };
    assert_eq!((xid, &end.subxacts[..], end.flags), (outer, &[outer + 2][..], XINFO_HAS_AE_LOCKS));
    // Its files are the session's; its statistics are everybody's.
    assert_eq!((end.rels.len(), objects(&end)), (0, vec![u64::from(temporary)]));
    let relations: Vec<u32> = end.invalidations.iter().filter_map(relation).collect();
    assert_eq!(relations, [kept, temporary]);
    assert_eq!(end.db, Some((5, 1663)));
    let Told::Locks(lock) = next() else { panic!("the lock of the lost table") };
    let Told::Abort(xid, end) = next() else { panic!("the abort") };
    assert_eq!((xid, objects(&end)), (lock[0].xid, vec![u64::from(lock[0].rel)]));
    let Told::Locks(lock) = next() else { panic!("the lock of the table to be dropped") };
    let Told::Commit(xid, end) = next() else { panic!("the drop") };
    assert_eq!(lock, [StandbyLock { xid, db: 5, rel: kept }]);
    assert_eq!((end.rels[0].rel, objects(&end)), (kept, vec![u64::from(kept)]));
    // As many as in PostgreSQL: two columns and six system columns, the table and its two types, by
    // name and by number; a constraint; the table itself; four of pg_depend.
    assert_eq!(end.invalidations.len(), 2 * (8 + 1 + 2) + 1 + 1 + 4);
    assert_eq!(told.next(), None);
}

#[test]
fn ends_of_transactions_are_read_by_postgresql() {
    let Some(peer) = Peer::find("ends_of_transactions_are_read_by_postgresql") else { return };
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    transaction(&mut session, |s| s.create_table(None, "t", &short_columns())).expect("create");
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::AccessExclusive).expect("table");
    session.drop_table(&table).expect("drop");
    session.commit().expect("commit");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, engine));
    peer.adopt(&dir, "data");
    let first = format!("{}/pg_wal/000000010000000000000001", peer.inside("data"));
    // It fails at the end of a crashed log.
    let output = peer.command("pg_waldump").arg(&first).output().expect("pg_waldump");
    let dump = String::from_utf8(output.stdout).expect("text");
    for told in [
        " db 5 rel 16384",
        // What depends on the table goes first: its constraint, and the types of its rows.
        "rels: base/5/16384; dropped stats: 2/5/16384; inval msgs: catcache 19 catcache 82",
        "catcache 81 catcache 57 catcache 56 catcache 7 catcache 6",
        "catcache 6 relcache 16384 snapshot 2608",
    ] {
        assert!(dump.contains(told), "no {told} in\n{dump}");
    }
}

#[test]
fn a_checkpoint_lists_the_exclusive_locks_of_those_who_run() {
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let mut other = engine.session().expect("session");
    create(&mut session, "t");
    create(&mut session, "u");
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::AccessExclusive).expect("table");
    session.open_table(None, "u", LockMode::Exclusive).expect("table");
    let xid = session.transaction_id().expect("assigned for the lock");
    other.checkpoint().expect("checkpoint");
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, other, engine));
    let lock = StandbyLock { xid, db: 5, rel: table.oid };
    assert_eq!(told(&dir), [Told::Locks(vec![lock])]);
}
