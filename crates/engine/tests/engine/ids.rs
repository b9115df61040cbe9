//! Transaction ids and MultiXacts near their limits, and past the ends of the circle.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::*;
use forebay_aio::MethodKind;
use forebay_engine::{
    Engine, EngineError, FirstIds, FullXid, InitOptions, IoMethod, LockMode, LockStrength,
    OldestIds, RowWait, Session, ShutdownMode, VacuumOptions,
};
use forebay_format::control::{ControlFile, PATH};
use forebay_format::wal::xlog::CheckPoint;
use forebay_testkit::peer::Peer;

/// 2^31 - 1: how far ids may lie apart.
const HALF: u32 = u32::MAX >> 1;
/// Where an id that follows 3 after half of the circle is refused.
const STOP: u32 = 3 + HALF - 3_000_000;

/// A new directory whose ids begin somewhere. It has one database: ids of others do not advance.
pub fn dir_at(ids: FirstIds) -> (tempfile::TempDir, PathBuf) {
    let scratch = scratch();
    let dir = scratch.path().join("data");
    let options =
        InitOptions { wal_segment_size: 1 << 20, templates: false, ..InitOptions::default() };
    Engine::init_at(&dir, &options, ids, &io::open(MethodKind::Sync)).expect("init");
    (scratch, dir)
}

fn xid_at(xid: u32, oldest: u32) -> FirstIds {
    let ids = FirstIds::default();
    FirstIds { xid: FullXid::new(0, xid), oldest: OldestIds { xid: oldest, ..ids.oldest }, ..ids }
}

fn opened(dir: &Path) -> (Arc<Engine>, Session) {
    open_session(dir, &config(IoMethod::Sync, false))
}

/// The checkpoint in pg_control.
fn checkpoint_of(dir: &Path) -> CheckPoint {
    let bytes = std::fs::read(dir.join(PATH)).expect("pg_control");
    ControlFile::decode(&bytes).expect("decoded").checkpoint_copy
}

fn files(dir: &Path, name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join(name)).expect(name);
    let mut names: Vec<String> =
        entries.map(|e| e.expect("entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort_unstable();
    names
}

/// Inserts a row with the next id, in a transaction of its own.
fn insert_next(session: &mut Session, next: &mut i64) {
    insert(session, "t", *next..*next + 1);
    *next += 1;
}

fn assert_rows(session: &mut Session, rows: i64) {
    assert_eq!(count_and_sum(session, "t"), (rows as u64, (0..rows).sum()));
}

/// Opens a directory twice, each time with one more row, and calls `check` after the stop.
fn opened_twice(dir: &Path, mut next: i64, check: impl Fn()) {
    for _ in 0..2 {
        let (engine, mut session) = opened(dir);
        assert_rows(&mut session, next);
        insert_next(&mut session, &mut next);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");
        check();
    }
}

#[test]
fn the_last_ids_come_with_warnings_and_then_none_are_assigned() {
    let (_scratch, dir) = dir_at(xid_at(STOP - 2, 3));
    let (engine, mut session) = opened(&dir);
    let database = "database \"postgres\"";
    let also = "You might also need to commit or roll back old prepared transactions, or drop \
                stale replication slots.";
    let warned = |session: &mut Session, left: u32| {
        let warnings = session.take_warnings();
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        let message = format!("{database} must be vacuumed within {left} transactions");
        assert_eq!((warning.sqlstate, &warning.message), ("01000", &message));
        let hint = "To avoid transaction ID assignment failures, execute a database-wide VACUUM \
                    in that database.";
        assert_eq!(warning.hint, Some(format!("{hint}\n{also}")));
    };
    create(&mut session, "t");
    warned(&mut session, 3_000_002);
    insert(&mut session, "t", 0..3);
    warned(&mut session, 3_000_001);
    let refused = transaction(&mut session, |s| {
        let table = s.open_table(None, "t", LockMode::RowExclusive)?;
        insert_open(s, &table, 3..4)
    })
    .expect_err("no ids are left");
    assert_eq!(refused.sqlstate(), "54000");
    let message = "database is not accepting commands that assign new transaction IDs to avoid \
                   wraparound data loss in";
    assert_eq!(refused.to_string(), format!("{message} {database}"));
    let hint = "Execute a database-wide VACUUM in that database.";
    assert_eq!(refused.hint(), Some(format!("{hint}\n{also}")));
    assert_eq!(session.take_warnings(), []);
    // What needs no id goes on.
    assert_rows(&mut session, 3);
    session.checkpoint().expect("checkpoint");
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    let point = checkpoint_of(&dir);
    assert_eq!(
        (point.next_xid, point.oldest_xid, point.oldest_xid_db),
        (FullXid::new(0, STOP), 3, 5)
    );
}

#[test]
fn ids_go_on_past_both_ends_of_the_circle() {
    for (first, epoch) in [((1 << 31) - 8, 0), (u32::MAX - 7, 1)] {
        let (_scratch, dir) = dir_at(xid_at(first, first - 1000));
        let (engine, mut session) = opened(&dir);
        create(&mut session, "t");
        let mut next = 0;
        // An old snapshot on this side of the end.
        let mut old = engine.session().expect("session");
        insert_next(&mut session, &mut next);
        start(&mut old);
        let table = old.open_table(None, "t", LockMode::AccessShare).expect("table");
        let mut scan = old.scan(&table).expect("scan");
        for _ in 0..12 {
            insert_next(&mut session, &mut next);
            session.begin().expect("begin");
            session.start_command().expect("command");
            let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
            session.begin_subtransaction().expect("savepoint");
            insert_open(&mut session, &table, 1000..1002).expect("insert");
            session.abort_subtransaction().expect("rollback");
            session.commit().expect("commit");
        }
        assert!(scan.next(&mut old).expect("row").is_some());
        assert!(scan.next(&mut old).expect("end").is_none(), "it sees one row");
        drop((scan, old));
        assert_rows(&mut session, next);
        session.checkpoint().expect("checkpoint");
        insert_next(&mut session, &mut next);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        // Twice: recovered, and after a clean stop.
        opened_twice(&dir, next, || assert_eq!(checkpoint_of(&dir).next_xid.epoch(), epoch));
    }
}

/// Lets two transactions lock the first row of `t`, so that a MultiXact is made.
fn share_first_row(one: &mut Session, two: &mut Session) -> Result<(), EngineError> {
    start(one);
    start(two);
    let mut result = Ok(());
    for session in [&mut *one, &mut *two] {
        let table = session.open_table(None, "t", LockMode::RowShare).expect("table");
        let mut scan = session.scan(&table).expect("scan");
        let place = scan.next(session).expect("scan").expect("row").place();
        drop(scan);
        let wait = RowWait::Wait;
        result = result.and(session.lock_row(&table, place, LockStrength::Share, wait).map(drop));
    }
    one.commit().expect("commit");
    match &result {
        Ok(()) => two.commit().expect("commit"),
        Err(_) => two.abort().expect("abort"),
    }
    result
}

#[test]
fn multixacts_go_on_past_the_end_of_their_circle() {
    let ids = FirstIds::default();
    let oldest = OldestIds { multi: u32::MAX - 3, ..ids.oldest };
    let (_scratch, dir) =
        dir_at(FirstIds { multi: u32::MAX - 3, member: u32::MAX - 3, oldest, ..ids });
    let (engine, mut one) = opened(&dir);
    let mut two = engine.session().expect("session");
    create(&mut one, "t");
    insert(&mut one, "t", 0..2);
    (0..6).for_each(|_| share_first_row(&mut one, &mut two).expect("shared"));
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((one, two, engine));
    let (engine, mut one) = opened(&dir);
    let mut two = engine.session().expect("session");
    share_first_row(&mut one, &mut two).expect("shared");
    assert_rows(&mut one, 2);
    drop((one, two));
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    let point = checkpoint_of(&dir);
    // 0 is skipped by both.
    assert_eq!((point.next_multi, point.next_multi_offset), (4, 11));
    assert_eq!((point.oldest_multi, point.oldest_multi_db), (u32::MAX - 3, 5));
}

#[test]
fn the_last_multixacts_come_with_warnings_and_then_none_are_made() {
    let ids = FirstIds::default();
    let stop = 1 + HALF - 3_000_000;
    let (_scratch, dir) = dir_at(FirstIds { multi: stop - 1, member: 77, ..ids });
    let (engine, mut one) = opened(&dir);
    let mut two = engine.session().expect("session");
    create(&mut one, "t");
    insert(&mut one, "t", 0..2);
    share_first_row(&mut one, &mut two).expect("shared");
    let warnings = two.take_warnings();
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(
        warning.message,
        "database \"postgres\" must be vacuumed before 3000001 more MultiXactIds are used"
    );
    let refused = share_first_row(&mut one, &mut two).expect_err("none are left");
    assert_eq!(refused.sqlstate(), "54000");
    let message = "database is not accepting commands that assign new MultiXactIds to avoid \
                   wraparound data loss in database \"postgres\"";
    assert_eq!(refused.to_string(), message);
    assert!(refused.hint().expect("hint").starts_with("Execute a database-wide VACUUM"));
    drop((one, two));
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
}

/// Stops the engine, lets pg_resetwal change the directory, and brings it back.
fn reset(peer: &Peer, dir: &Path, name: &str, options: &[&str]) {
    peer.adopt(dir, name);
    let inside = peer.inside(name);
    peer.run("pg_resetwal", &[options, &["-D", &inside]].concat());
    std::fs::remove_dir_all(dir).expect("removed");
    peer.take_back();
    peer.fetch(name, dir);
    std::fs::remove_dir_all(peer.outside(name)).expect("removed");
}

/// It moves the counters of MultiXacts, and makes no files.
#[test]
fn a_directory_without_the_oldest_multixact_is_served() {
    let Some(peer) = Peer::find("a_directory_without_the_oldest_multixact_is_served") else {
        return;
    };
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = opened(&dir);
    create(&mut session, "t");
    insert(&mut session, "t", 0..2);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    reset(&peer, &dir, "data", &["-m", "131072,65536"]);
    let (engine, mut one) = opened(&dir);
    let mut two = engine.session().expect("session");
    for _ in 0..3 {
        share_first_row(&mut one, &mut two).expect("shared");
    }
    assert_rows(&mut one, 2);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((one, two, engine));
    let (engine, mut session) = opened(&dir);
    assert_rows(&mut session, 2);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    let point = checkpoint_of(&dir);
    assert_eq!((point.next_multi, point.oldest_multi), (131_075, 65_536));
    assert_eq!(files(&dir, "pg_multixact/offsets"), ["0000", "0002"]);
}

/// VACUUM (FREEZE) of the whole database.
fn vacuum(session: &mut Session) {
    let options = VacuumOptions { freeze: true, ..VacuumOptions::default() };
    for table in transaction(session, |s| s.tables()).expect("tables") {
        session.vacuum(&table, &options, &mut Vec::new()).expect("vacuum");
    }
    session.advance_oldest_ids().expect("advanced");
}

#[test]
fn a_vacuum_removes_old_files_once_nobody_needs_them() {
    let [xids, multis, members] = [32 * 32_768, 32 * 2048, 32 * 1636];
    let oldest = OldestIds { multi: multis - 3, ..FirstIds::default().oldest };
    let xid = FullXid::new(0, xids - 9);
    let (_scratch, dir) = dir_at(FirstIds { xid, multi: multis - 3, member: members - 5, oldest });
    let (engine, mut session) = opened(&dir);
    let mut other = engine.session().expect("session");
    create(&mut session, "t");
    let mut next = 0;
    insert_next(&mut session, &mut next);
    insert_next(&mut session, &mut next);
    // It sees transactions of the first file as running.
    let mut old = engine.session().expect("session");
    start(&mut old);
    old.open_table(None, "t", LockMode::AccessShare).expect("table");
    let snapshot = old.statement_snapshot().expect("snapshot");
    (0..5).for_each(|_| share_first_row(&mut session, &mut other).expect("shared"));
    (0..8).for_each(|_| insert_next(&mut session, &mut next));
    session.checkpoint().expect("checkpoint");
    let found = || {
        ["pg_xact", "pg_multixact/offsets", "pg_multixact/members"].map(|name| files(&dir, name))
    };
    let both = || vec!["0000".to_owned(), "0001".to_owned()];
    assert_eq!(found(), [both(), both(), both()]);
    vacuum(&mut session);
    assert_eq!(found()[0], both(), "a snapshot needs them");
    drop((snapshot, old));
    vacuum(&mut session);
    let second = || vec!["0001".to_owned()];
    assert_eq!(found(), [second(), second(), second()]);
    assert_rows(&mut session, next);
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, other, engine));
    // Recovery knows it from the log, later starts from pg_control.
    opened_twice(&dir, next, || {
        let point = checkpoint_of(&dir);
        assert!((xids..xids + 100).contains(&point.oldest_xid), "{}", point.oldest_xid);
        assert_eq!((point.oldest_multi, point.next_multi), (multis + 2, multis + 2));
        assert_eq!(found(), [second(), second(), second()]);
    });
}

#[test]
fn a_vacuum_lifts_the_refusal_of_ids() {
    let (_scratch, dir) = dir_at(xid_at(STOP - 3, 3));
    let (engine, mut session) = opened(&dir);
    create(&mut session, "t");
    let mut next = 0;
    insert_next(&mut session, &mut next);
    insert_next(&mut session, &mut next);
    let refused = transaction(&mut session, |s| s.create_table(None, "u", &columns()));
    assert_eq!(state(refused), "54000");
    vacuum(&mut session);
    // Of the ids, and of tables that old.
    session.take_warnings();
    (0..5).for_each(|_| insert_next(&mut session, &mut next));
    assert_eq!(session.take_warnings(), []);
    assert_rows(&mut session, next);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert_eq!(checkpoint_of(&dir).oldest_xid, STOP);
}

/// PostgreSQL's pg_resetwal moves the ids of a directory: to 3 million before 2^31, where none are
/// assigned before a vacuum; to the middle, half of the circle, and the end; and on past each.
#[test]
fn ids_never_run_out() {
    let Some(peer) = Peer::find("ids_never_run_out") else { return };
    let (_scratch, dir) = dir_at(FirstIds::default());
    let (engine, mut session) = opened(&dir);
    create(&mut session, "t");
    let mut next = 0;
    insert_next(&mut session, &mut next);
    drop(session);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    for (xid, epoch) in
        [((1 << 31) - 3_000_000, 0), ((1 << 31) - 6, 0), (3 << 30, 0), (u32::MAX - 5, 1)]
    {
        // As PostgreSQL's manual says, the file must exist.
        let file = dir.join(format!("pg_xact/{:04X}", xid / (32 * 32_768)));
        if !file.exists() {
            std::fs::write(file, vec![0; 32 * 8192]).expect("written");
        }
        reset(&peer, &dir, "data", &["-x", &xid.to_string()]);
        let (engine, mut session) = opened(&dir);
        assert_rows(&mut session, next);
        insert_next(&mut session, &mut next);
        insert_next(&mut session, &mut next);
        if xid == (1 << 31) - 3_000_000 {
            let refused = transaction(&mut session, |s| s.create_table(None, "u", &columns()));
            assert_eq!(state(refused), "54000");
        } else {
            (0..8).for_each(|_| insert_next(&mut session, &mut next));
        }
        assert_rows(&mut session, next);
        vacuum(&mut session);
        session.take_warnings();
        insert_next(&mut session, &mut next);
        assert_eq!(session.take_warnings(), []);
        engine.shutdown(ShutdownMode::Immediate).expect("stop");
        drop((session, engine));
        let (engine, mut session) = opened(&dir);
        assert_rows(&mut session, next);
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("shutdown");
        let point = checkpoint_of(&dir);
        assert_eq!(point.next_xid.epoch(), epoch);
        assert!(point.next_xid.xid().wrapping_sub(point.oldest_xid) < 5, "all is frozen");
    }
    peer.adopt(&dir, "end");
    let control = peer.run("pg_controldata", &["-D", &peer.inside("end")]);
    assert!(control.contains("Latest checkpoint's NextXID:          1:"), "{control}");
}
