//! Subtransactions: what their rollback takes with it, and what outlives it.

use crate::common::*;
use crate::row_fixture::*;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, IoMethod, Isolation, LockMode, LockStrength, OnCommit, RowOutcome,
    RowWait, Session, ShutdownMode,
};

/// The relation files of the database that tables of users have.
fn files(engine: &Engine) -> usize {
    let names = std::fs::read_dir(engine.data_dir().join("base/5")).expect("directory");
    let names = names.map(|entry| entry.expect("entry").file_name().into_string().expect("name"));
    let number = |name: &String| name.rsplit('_').next().and_then(|n| n.parse::<u32>().ok());
    names.filter(|name| number(name).is_some_and(|number| number >= 16_384)).count()
}

/// Inserts a row in a new command.
fn add(session: &mut Session, id: i64) {
    let table = opened(session);
    session.insert_row(&table, &row(id, 10 * id)).expect("insert");
}

fn ids(session: &mut Session) -> Vec<i64> {
    let table = opened(session);
    seen(session, &table).into_keys().collect()
}

#[test]
fn a_rollback_takes_the_rows_of_its_subtransaction_and_of_those_within() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    make_table(&mut session, 1..=2);
    session.begin().expect("begin");
    assert_eq!(state(session.abort_subtransaction()), "XX000");
    assert_eq!(state(session.commit_subtransaction()), "XX000");
    add(&mut session, 3);
    session.begin_subtransaction().expect("begin");
    set(&mut session, 1, 11);
    delete(&mut session, 2).expect("delete");
    add(&mut session, 4);
    session.begin_subtransaction().expect("begin");
    add(&mut session, 5);
    assert_eq!(session.subtransaction_depth(), 2);
    session.commit_subtransaction().expect("release");
    assert_eq!(ids(&mut session), [1, 3, 4, 5]);
    session.abort_subtransaction().expect("rollback");
    assert_eq!(session.subtransaction_depth(), 0);
    assert_eq!(ids(&mut session), [1, 2, 3]);
    session.begin_subtransaction().expect("begin");
    // The version that was updated in vain is updated again.
    set(&mut session, 1, 12);
    session.commit_subtransaction().expect("release");
    session.begin_subtransaction().expect("begin");
    add(&mut session, 6);
    // What is open commits too.
    session.commit().expect("commit");
    let expected = [(1, 12), (2, 20), (3, 30), (6, 60)];
    assert_eq!(committed(&mut session), expected);
}

#[test]
fn a_rollback_releases_row_locks_to_those_who_wait() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    make_table(&mut first, 1..=2);
    set(&mut first, 2, 21);
    for within in [false, true] {
        first.begin_subtransaction().expect("begin");
        if within {
            first.begin_subtransaction().expect("begin");
        }
        set(&mut first, 1, 11);
        if within {
            first.commit_subtransaction().expect("release");
        }
        let second = engine.session().expect("session");
        let waiter = waiting(&engine, 1, second, |s| update(s, 1, 12));
        first.abort_subtransaction().expect("rollback");
        let (mut second, outcome) = joined(waiter);
        assert!(matches!(outcome, Ok(RowOutcome::Done(_))), "{outcome:?}");
        // What was changed before is still held.
        let table = opened(&mut second);
        let tid = place(&mut second, &table, 2);
        let held = second.lock_row(&table, tid, LockStrength::Share, RowWait::NoWait);
        assert!(matches!(held, Ok(RowOutcome::Held)), "{held:?}");
        second.abort().expect("abort");
    }
    first.commit().expect("commit");
    assert_eq!(committed(&mut first), [(1, 10), (2, 21)]);
}

#[test]
fn a_lock_of_a_row_goes_back_to_what_it_was() {
    let (_scratch, engine) = fresh();
    let mut first = engine.session().expect("session");
    let mut second = engine.session().expect("session");
    make_table(&mut first, 1..=1);
    let table = opened(&mut first);
    let tid = place(&mut first, &table, 1);
    first.lock_row(&table, tid, LockStrength::KeyShare, RowWait::Wait).expect("lock");
    first.begin_subtransaction().expect("begin");
    first.start_command().expect("command");
    first.lock_row(&table, tid, LockStrength::Exclusive, RowWait::Wait).expect("lock");
    for (strength, held) in [(LockStrength::Share, true), (LockStrength::Exclusive, true)] {
        let table = opened(&mut second);
        let outcome = second.lock_row(&table, tid, strength, RowWait::NoWait).expect("lock");
        assert_eq!(matches!(outcome, RowOutcome::Held), held, "{strength:?}");
        second.commit().expect("commit");
    }
    first.abort_subtransaction().expect("rollback");
    for (strength, held) in [(LockStrength::Share, false), (LockStrength::Exclusive, true)] {
        let table = opened(&mut second);
        let outcome = second.lock_row(&table, tid, strength, RowWait::NoWait).expect("lock");
        assert_eq!(matches!(outcome, RowOutcome::Held), held, "{strength:?}");
        second.commit().expect("commit");
    }
    first.commit().expect("commit");
}

#[test]
fn a_rollback_takes_tables_and_releases_their_locks() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    make_table(&mut session, 1..=1);
    create(&mut session, "dropped");
    let columns = [ColumnDef::new("a", oids::INT4)];
    let before = files(&engine);
    start(&mut session);
    session.create_table(None, "outer", &columns).expect("create");
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    session.create_table(None, "inner", &columns).expect("create");
    session.create_temp_table("temporary", &columns, OnCommit::PreserveRows).expect("create");
    let dropped = session.open_table(None, "dropped", LockMode::AccessExclusive).expect("table");
    session.drop_table(&dropped).expect("drop");
    session.start_command().expect("command");
    let inner = session.open_table(None, "inner", LockMode::RowExclusive).expect("own table");
    session.insert_row(&inner, &[Datum::Int4(1)]).expect("insert");
    let temporary = session.open_table(None, "temporary", LockMode::RowExclusive).expect("own");
    session.insert_row(&temporary, &[Datum::Int4(1)]).expect("insert");
    assert!(session.table(None, "dropped").expect("look-up").is_none());
    assert_eq!(files(&engine), before + 3);
    session.abort_subtransaction().expect("rollback");
    assert_eq!(files(&engine), before + 1);
    session.start_command().expect("command");
    assert!(session.has_changed_catalogs());
    for (name, there) in
        [("outer", true), ("inner", false), ("temporary", false), ("dropped", true)]
    {
        assert_eq!(session.table(None, name).expect("look-up").is_some(), there, "{name}");
    }
    // Nobody waits for a table that was locked inside.
    assert_eq!(count(&mut other, "dropped").expect("count"), 0);
    transaction(&mut other, |s| s.create_table(None, "inner", &columns)).expect("the name is free");
    session.commit().expect("commit");
    assert_eq!(count(&mut other, "outer").expect("count"), 0);
    assert_eq!(files(&engine), before + 2);
}

#[test]
fn temporary_tables_come_and_go_with_subtransactions() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let columns = [ColumnDef::new("a", oids::INT4)];
    start(&mut session);
    session.begin_subtransaction().expect("begin");
    session.create_temp_table("kept", &columns, OnCommit::PreserveRows).expect("create");
    session.commit_subtransaction().expect("release");
    for _ in 0..2 {
        session.begin_subtransaction().expect("begin");
        session.start_command().expect("command");
        let kept = session.open_table(None, "kept", LockMode::AccessExclusive).expect("table");
        session.drop_table(&kept).expect("drop");
        session.start_command().expect("command");
        assert!(session.table(None, "kept").expect("look-up").is_none());
        session.create_temp_table("kept", &columns[..0], OnCommit::Drop).expect("create");
        session.abort_subtransaction().expect("rollback");
        session.start_command().expect("command");
        let kept = session.open_table(None, "kept", LockMode::RowExclusive).expect("table");
        session.insert_row(&kept, &[Datum::Int4(1)]).expect("insert");
    }
    session.commit().expect("commit");
    assert_eq!(count(&mut session, "kept").expect("count"), 2);
    assert_eq!(files(&engine), 1);
}

#[test]
fn scans_and_snapshots_outlive_the_rollback_of_what_began_later() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..2_000);
    start(&mut session);
    let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
    let mut outer = session.scan(&table).expect("scan");
    let snapshot = session.statement_snapshot().expect("snapshot");
    let mut found = outer.next_page(&mut session).expect("page").expect("rows");
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    insert_open(&mut session, &table, 2_000..2_100).expect("insert");
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    let mut inner = session.scan(&table).expect("scan");
    inner.next_page(&mut session).expect("page").expect("rows");
    let inner_snapshot = session.statement_snapshot().expect("snapshot");
    session.commit_subtransaction().expect("release");
    inner.next_page(&mut session).expect("page").expect("rows");
    session.abort_subtransaction().expect("rollback");
    assert_eq!(state(inner.next_page(&mut session)), "24000");
    session.start_command().expect("command");
    assert_eq!(state(session.use_snapshot(&inner_snapshot)), "24000");
    session.use_snapshot(&snapshot).expect("taken before");
    assert_eq!(session.count_rows(&table).expect("count"), 2_000);
    while let Some(rows) = outer.next_page(&mut session).expect("page") {
        found += rows;
    }
    assert_eq!(found, 2_000);
    // A scan lives as long as its snapshot, wherever it begins.
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    session.use_snapshot(&snapshot).expect("taken before");
    let mut late = session.scan(&table).expect("scan");
    let mut found = late.next_page(&mut session).expect("page").expect("rows");
    session.abort_subtransaction().expect("rollback");
    while let Some(rows) = late.next_page(&mut session).expect("page") {
        found += rows;
    }
    assert_eq!(found, 2_000);
    session.start_command().expect("command");
    assert_eq!(session.count_rows(&table).expect("count"), 2_000);
    session.commit().expect("commit");
}

#[test]
fn repeatable_read_keeps_its_snapshot_over_savepoints() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    make_table(&mut session, 1..=1);
    session.begin().expect("begin");
    session.begin_subtransaction().expect("begin");
    assert_eq!(state(session.set_isolation(Isolation::RepeatableRead)), "25001");
    session.commit_subtransaction().expect("release");
    session.set_isolation(Isolation::RepeatableRead).expect("nothing was read");
    assert_eq!(ids(&mut session), [1]);
    add(&mut other, 2);
    other.commit().expect("commit");
    session.begin_subtransaction().expect("begin");
    add(&mut session, 3);
    assert_eq!(ids(&mut session), [1, 3]);
    session.abort_subtransaction().expect("rollback");
    assert_eq!(ids(&mut session), [1]);
    session.commit().expect("commit");
    assert_eq!(ids(&mut session), [1, 2]);
}

/// A transaction with more subtransactions than a snapshot lists, open.
fn many(session: &mut Session) {
    for id in 100..200 {
        session.begin_subtransaction().expect("begin");
        add(session, id);
        match id % 3 {
            0 => session.abort_subtransaction().expect("rollback"),
            _ => session.commit_subtransaction().expect("release"),
        }
    }
}

#[test]
fn nobody_sees_subtransactions_that_snapshots_do_not_list() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    make_table(&mut session, 1..=1);
    session.begin().expect("begin");
    many(&mut session);
    let expected: Vec<i64> = [1].into_iter().chain((100..200).filter(|id| id % 3 != 0)).collect();
    assert_eq!(ids(&mut session), expected);
    assert_eq!(ids(&mut other), [1]);
    // Nor are the catalogs, which have rows of such a transaction, misread.
    session.begin_subtransaction().expect("begin");
    session.start_command().expect("command");
    session.create_table(None, "unseen", &columns()).expect("create");
    assert!(other.table(None, "unseen").expect("look-up").is_none());
    other.commit().expect("commit");
    session.commit().expect("commit");
    assert_eq!(ids(&mut other), expected);
    assert!(other.table(None, "unseen").expect("look-up").is_some());
}

#[test]
fn recovery_knows_which_subtransactions_committed() {
    let (_scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    let mut lost = engine.session().expect("session");
    make_table(&mut session, 1..=3);
    session.begin().expect("begin");
    many(&mut session);
    session.begin_subtransaction().expect("begin");
    set(&mut session, 1, 11);
    session.begin_subtransaction().expect("begin");
    delete(&mut session, 2).expect("delete");
    session.abort_subtransaction().expect("rollback");
    session.begin_subtransaction().expect("begin");
    set(&mut session, 3, 31);
    // Never committed.
    lost.begin().expect("begin");
    lost.begin_subtransaction().expect("begin");
    add(&mut lost, 7);
    lost.commit_subtransaction().expect("release");
    session.commit().expect("commit");
    let expected = committed(&mut session);
    assert_eq!(expected[..3], [(1, 11), (2, 20), (3, 31)]);
    assert_eq!(expected.len(), 3 + (100..200).filter(|id| id % 3 != 0).count());
    engine.shutdown(ShutdownMode::Immediate).expect("stop");
    drop((session, lost, engine));
    let (_engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    assert_eq!(committed(&mut session), expected);
}

#[test]
fn a_scan_reads_on_after_the_rollback_of_what_began_later() {
    for (way, config) in ways() {
        let (_scratch, dir) = new_dir();
        let (_engine, mut session) = open_session(&dir, &config);
        create(&mut session, "t");
        insert(&mut session, "t", 0..50_000);
        session.checkpoint().expect("checkpoint");
        session.evict_all().expect("evict");
        start(&mut session);
        let table = session.open_table(None, "t", LockMode::RowExclusive).expect("table");
        let mut scan = session.scan(&table).expect("scan");
        let (mut found, mut pages) = (0, 0);
        while let Some(rows) = scan.next_page(&mut session).expect("page") {
            (found, pages) = (found + rows, pages + 1);
            // Its reads are in flight.
            if pages % 16 == 1 {
                session.begin_subtransaction().expect("begin");
                session.start_command().expect("command");
                insert_open(&mut session, &table, 0..10).expect("insert");
                session.abort_subtransaction().expect("rollback");
            }
        }
        assert!(found == 50_000 && pages > 200, "{way}: {found} rows on {pages} pages");
        session.commit().expect("commit");
        assert_eq!(count(&mut session, "t").expect("count"), 50_000, "{way}");
        assert!(session.take_warnings().is_empty(), "{way}");
    }
}

#[test]
fn a_transaction_that_asks_for_its_id_in_a_subtransaction_gets_none_for_that() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    make_table(&mut session, 1..=1);
    session.begin().expect("begin");
    session.begin_subtransaction().expect("begin");
    session.begin_subtransaction().expect("begin");
    let id = session.assign_transaction_id().expect("id");
    assert_eq!(session.assign_transaction_id().expect("id"), id);
    assert_eq!(session.full_transaction_id(), Some(id));
    session.abort_subtransaction().expect("rollback");
    let table = opened(&mut session);
    let place = session.insert_row(&table, &row(2, 20)).expect("insert");
    session.start_command().expect("command");
    let stored = session.fetch_row(&table, place).expect("fetch").expect("it is there");
    assert_eq!(u64::from(stored.view().xmin()), id + 1, "that of the subtransaction");
    session.abort().expect("abort");
}
