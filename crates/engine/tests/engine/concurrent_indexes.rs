//! Indexes that are created and dropped beside writers: what each step waits for, what an error or
//! a crash in it leaves behind, and what mends that.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::common::*;
use crate::row_fixture::*;
use forebay_engine::views::create_index::{self, Phase};
use forebay_engine::views::{Command, RunningCommand};
use forebay_engine::{
    Engine, EngineConfig, EngineError, IndexCheckOptions, IndexDef, IndexKey, InterruptKind,
    IoMethod, Isolation, LockMode, Session, ShutdownMode,
};

/// An engine with the table `v`, rows 1 to 5. Row 2 was updated before.
pub fn with_table() -> (tempfile::TempDir, Arc<Engine>, Session) {
    let (scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    make_table(&mut session, 1..=5);
    set(&mut session, 2, 21);
    session.commit().expect("commit");
    (scratch, engine, session)
}

fn on_n(unique: bool) -> IndexDef {
    IndexDef { keys: vec![IndexKey::new(2)], unique, ..IndexDef::default() }
}

/// CREATE INDEX CONCURRENTLY ON v (n)
pub fn create_beside(session: &mut Session, unique: bool) -> Result<u32, EngineError> {
    let table = transaction(session, |s| s.open_table(None, "v", LockMode::AccessShare))?;
    session.create_index_concurrently(&table, &on_n(unique))
}

/// INSERT INTO v, in a new command of an open transaction.
pub fn insert_row(session: &mut Session, id: i64, n: i64) -> Result<(), EngineError> {
    let table = opened(session);
    session.insert_row(&table, &row(id, n)).map(drop)
}

/// The same, committed.
pub fn add(session: &mut Session, id: i64, n: i64) -> Result<(), EngineError> {
    let added = insert_row(session, id, n);
    match added {
        Ok(()) => session.commit(),
        Err(error) => {
            session.abort()?;
            Err(error)
        }
    }
}

/// indisvalid and indisready of the live indexes of `v`.
pub fn flags(session: &mut Session) -> Vec<(bool, bool)> {
    let table = transaction(session, |s| s.open_table(None, "v", LockMode::AccessShare));
    table.expect("v").indexes.iter().map(|index| (index.valid, index.ready)).collect()
}

/// Fails unless the index has each live row of the table.
pub fn check(session: &mut Session) {
    transaction(session, |s| {
        let oid = s.index_named(None, "v_n_idx")?.expect("the index");
        let all = IndexCheckOptions { parents: true, all_rows: true, distinct: true };
        s.check_index(oid, all)
    })
    .expect("checked");
}

/// What a command shows once it waits in a phase.
pub fn in_phase<T>(
    engine: &Engine,
    thread: &JoinHandle<T>,
    phase: Phase,
    locker: &Session,
) -> RunningCommand {
    loop {
        let rows = engine.progress(Command::CreateIndex);
        if let [row] = rows[..]
            && row.running.get(create_index::PHASE) == phase as u64
            && row.running.get(create_index::CURRENT_LOCKER) == locker.id() as u64
            && engine.lock_waits() == 1
        {
            return row.running;
        }
        assert!(!thread.is_finished(), "it did not wait in {phase:?}");
        std::thread::yield_now();
    }
}

/// A snapshot that is kept to the end of the transaction.
pub fn keep_snapshot(session: &mut Session) {
    session.begin().expect("begin");
    session.set_isolation(Isolation::RepeatableRead).expect("isolation");
    session.start_command().expect("command");
    session.statement_snapshot().expect("snapshot");
}

#[test]
fn each_step_waits_for_those_who_do_not_know_of_it_and_no_row_is_lost() {
    let (_scratch, engine, mut writer) = with_table();
    let session = || engine.session().expect("session");
    let (mut late, mut reader, mut other) = (session(), session(), session());
    insert_row(&mut writer, 10, 1).expect("row");
    let thread = waiting(&engine, 1, session(), |s| create_beside(s, false));
    let shown = in_phase(&engine, &thread, Phase::WaitForWriters, &writer);
    assert_eq!(shown.get(create_index::LOCKERS_TOTAL), 1);
    let statement = create_index::Statement::CreateIndexConcurrently as u64;
    assert_eq!(shown.get(create_index::STATEMENT), statement);
    assert_eq!(flags(&mut other), [(false, false)]);
    // Others go on, and hold the next step up.
    add(&mut other, 11, 2).expect("row");
    insert_row(&mut late, 12, 3).expect("row");
    update(&mut late, 1, 15).expect("update");
    writer.commit().expect("commit");
    in_phase(&engine, &thread, Phase::WaitForWritersAgain, &late);
    assert_eq!(flags(&mut other), [(false, true)]);
    add(&mut other, 13, 4).expect("row");
    update(&mut other, 3, 35).expect("update");
    other.commit().expect("commit");
    keep_snapshot(&mut reader);
    late.commit().expect("commit");
    in_phase(&engine, &thread, Phase::WaitForSnapshots, &reader);
    assert_eq!(flags(&mut other), [(false, true)], "the reader may see what it has not");
    add(&mut other, 14, 5).expect("row");
    reader.commit().expect("commit");
    let (_, made) = joined(thread);
    assert_eq!(shown.get(create_index::INDEX), u64::from(made.expect("made")));
    assert_eq!(flags(&mut other), [(true, true)]);
    assert!(engine.progress(Command::CreateIndex).is_empty());
    check(&mut other);
    // The lock is gone with the command.
    transaction(&mut other, |s| s.open_table(None, "v", LockMode::AccessExclusive).map(drop))
        .expect("lock");
}

#[test]
fn readers_and_idle_transactions_are_not_waited_for() {
    let (_scratch, engine, mut maker) = with_table();
    let mut reader = engine.session().expect("session");
    let table = opened(&mut reader);
    seen(&mut reader, &table);
    reader.commit().expect("commit");
    // Its statement is over, and with it the snapshot.
    reader.begin().expect("begin");
    reader.start_command().expect("command");
    let table = reader.open_table(None, "v", LockMode::AccessShare).expect("table");
    seen(&mut reader, &table);
    reader.end_command();
    let mut idle = engine.session().expect("session");
    idle.begin().expect("begin");
    create_beside(&mut maker, false).expect("nobody is in the way");
    reader.commit().expect("commit");
    check(&mut maker);
}

#[test]
fn equal_keys_leave_an_invalid_index_that_reindex_mends() {
    let (_scratch, engine, mut session) = with_table();
    let mut other = engine.session().expect("session");
    add(&mut session, 6, 50).expect("row");
    let error = create_beside(&mut session, true).expect_err("5 and 6");
    let message = "could not create unique index \"v_n_idx\"";
    assert_eq!((error.sqlstate(), &*error.to_string()), ("23505", message));
    assert_eq!(flags(&mut session), [(false, false)]);
    add(&mut session, 7, 50).expect("the index is not kept");
    let reindex = |s: &mut Session| transaction(s, |s| s.reindex_index(None, "v_n_idx"));
    assert_eq!(reindex(&mut session).expect_err("5 to 7").sqlstate(), "23505");
    for id in [6, 7] {
        delete(&mut session, id).expect("delete");
    }
    session.commit().expect("commit");
    reindex(&mut session).expect("reindex");
    assert_eq!(flags(&mut other), [(true, true)]);
    check(&mut session);
    assert_eq!(add(&mut session, 8, 50).expect_err("it is kept").sqlstate(), "23505");
}

/// Makes a unique index. A transaction inserts a row before the index is kept, and commits after it
/// was built and something else was done. Returns what came of it.
fn make_unique(
    engine: &Arc<Engine>,
    session: &mut Session,
    (id, n): (i64, i64),
    then: impl FnOnce(&mut Session),
) -> Result<u32, EngineError> {
    let mut late = engine.session().expect("session");
    insert_row(session, 6, 60).expect("row");
    let maker = engine.session().expect("session");
    let thread = waiting(engine, 1, maker, |s| create_beside(s, true));
    in_phase(engine, &thread, Phase::WaitForWriters, session);
    insert_row(&mut late, id, n).expect("the index is not ready");
    session.commit().expect("commit");
    in_phase(engine, &thread, Phase::WaitForWritersAgain, &late);
    then(&mut late);
    late.commit().expect("commit");
    joined(thread).1
}

#[test]
fn equal_keys_that_come_after_the_build_are_found() {
    let (_scratch, engine, mut session) = with_table();
    let made = make_unique(&engine, &mut session, (7, 10), |_| {});
    let error = made.expect_err("rows 1 and 7");
    let message = "duplicate key value violates unique constraint \"v_n_idx\"";
    assert_eq!((error.sqlstate(), &*error.to_string()), ("23505", message));
    assert_eq!(flags(&mut session), [(false, true)]);
    let refused = add(&mut session, 8, 21).expect_err("it is kept, and row 2 has the key");
    assert_eq!(refused.sqlstate(), "23505");
    transaction(&mut session, |s| s.drop_index(None, "v_n_idx")).expect("drop");
    add(&mut session, 8, 21).expect("row");
}

#[test]
fn a_row_whose_key_changes_in_time_is_no_violation() {
    let (_scratch, engine, mut session) = with_table();
    let made = make_unique(&engine, &mut session, (7, 10), |late| {
        update(late, 7, 70).expect("update");
    });
    made.expect("made");
    assert_eq!(flags(&mut session), [(true, true)]);
    check(&mut session);
}

#[test]
fn a_drop_waits_for_readers_and_can_be_cut_short() {
    let (_scratch, engine, mut session) = with_table();
    let mut reader = engine.session().expect("session");
    create_beside(&mut session, false).expect("made");
    opened(&mut reader);
    let dropper = engine.session().expect("session");
    let thread = waiting(&engine, 1, dropper, |s| s.drop_index_concurrently(None, "v_n_idx"));
    assert_eq!(flags(&mut session), [(false, true)], "not read any more, but kept");
    add(&mut session, 6, 60).expect("row");
    let mut second = engine.session().expect("session");
    opened(&mut second);
    reader.commit().expect("commit");
    while !flags(&mut session).is_empty() || engine.lock_waits() == 0 {
        std::thread::yield_now();
    }
    // It is dead now: nobody keeps it. The session is to give up.
    let dropper = engine.locks().into_iter().find(|lock| !lock.granted).expect("it waits");
    assert!(engine.interrupt_session(dropper.session, InterruptKind::Cancel));
    let (dropper, dropped) = joined(thread);
    assert_eq!(dropped.expect_err("cancelled").sqlstate(), "57014");
    drop(dropper);
    second.commit().expect("commit");
    let indexed = |s: &mut Session| transaction(s, |s| s.index_named(None, "v_n_idx"));
    assert!(indexed(&mut session).expect("name").is_some());
    let reindexed = transaction(&mut session, |s| s.reindex_index(None, "v_n_idx"));
    assert_eq!(reindexed.expect_err("it is dead").sqlstate(), "0A000");
    session.drop_index_concurrently(None, "v_n_idx").expect("dropped");
    assert_eq!(indexed(&mut session).expect("name"), None);
    let gone = session.drop_index_concurrently(None, "v_n_idx").expect_err("gone");
    assert_eq!(gone.sqlstate(), "42704");
    create_beside(&mut session, false).expect("made again");
    check(&mut session);
}

/// Crashes while the index is made, in the step that waits for these sessions.
fn crash_in(phase: Phase) -> (tempfile::TempDir, std::path::PathBuf) {
    let (scratch, engine, mut writer) = with_table();
    let session = || engine.session().expect("session");
    let (mut late, mut reader) = (session(), session());
    insert_row(&mut writer, 10, 1).expect("row");
    let thread = waiting(&engine, 1, session(), |s| create_beside(s, false));
    in_phase(&engine, &thread, Phase::WaitForWriters, &writer);
    if phase != Phase::WaitForWriters {
        insert_row(&mut late, 12, 3).expect("row");
        writer.commit().expect("commit");
        in_phase(&engine, &thread, Phase::WaitForWritersAgain, &late);
    }
    if phase == Phase::WaitForSnapshots {
        keep_snapshot(&mut reader);
        late.commit().expect("commit");
        in_phase(&engine, &thread, Phase::WaitForSnapshots, &reader);
    }
    let dir = engine.data_dir().to_path_buf();
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((writer, late, reader));
    joined(thread).1.expect_err("the engine stopped");
    (scratch, dir)
}

#[test]
fn a_crash_in_any_step_leaves_an_index_that_can_be_mended_or_dropped() {
    for (phase, left) in [
        (Phase::WaitForWriters, (false, false)),
        (Phase::WaitForWritersAgain, (false, true)),
        (Phase::WaitForSnapshots, (false, true)),
    ] {
        let (_scratch, dir) = crash_in(phase);
        let config: EngineConfig = config(IoMethod::Sync, false);
        let (engine, mut session) = open_session(&dir, &config);
        assert_eq!(flags(&mut session), [left], "{phase:?}");
        add(&mut session, 20, 200).expect("row");
        set(&mut session, 4, 45);
        session.commit().expect("commit");
        let rows = committed(&mut session);
        create_beside(&mut session, false).expect("another one");
        transaction(&mut session, |s| s.reindex_index(None, "v_n_idx")).expect("mended");
        assert_eq!(flags(&mut session), [(true, true); 2], "{phase:?}");
        check(&mut session);
        assert_eq!(committed(&mut session), rows);
        session.drop_index_concurrently(None, "v_n_idx1").expect("dropped");
        transaction(&mut session, |s| s.drop_index(None, "v_n_idx")).expect("dropped");
        assert!(flags(&mut session).is_empty());
        drop(session);
        engine.shutdown(ShutdownMode::Fast).expect("stop");
        assert_undamaged(&dir);
    }
}
