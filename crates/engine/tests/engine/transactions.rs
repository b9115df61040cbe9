//! Transactions as types, and what the interface below them refuses when it runs.

use std::sync::Arc;

use crate::common::*;
use forebay_engine::{
    Datum, EngineError, LockMode, RowBatch, Session, ShutdownMode, Statement, Table,
};

/// Opens a table in a new transaction and statement of the lower interface.
fn begin(session: &mut Session, mode: LockMode) -> Arc<Table> {
    start(session);
    session.open_table(None, "t", mode).expect("table")
}

#[test]
fn a_scan_ends_with_its_transaction() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..1_000);
    for commit in [true, false] {
        let table = begin(&mut session, LockMode::AccessShare);
        let mut scan = session.scan(&table).expect("scan");
        assert!(scan.next(&mut session).expect("row").is_some());
        let snapshot = session.statement_snapshot().expect("snapshot");
        // It is no other session's, even one in a transaction with the same number.
        begin(&mut other, LockMode::AccessShare);
        let refused = scan.next_page(&mut other).expect_err("another's").to_string();
        let expected = "a scan of relation \"t\" cannot be used after its transaction has ended";
        assert_eq!(refused, expected);
        assert_eq!(state(other.use_snapshot(&snapshot)), "24000");
        other.commit().expect("commit");
        // Another statement of the transaction may run in between.
        session.start_command().expect("command");
        session.use_snapshot(&snapshot).expect("the transaction's");
        assert!(scan.next_page(&mut session).expect("page").is_some());
        if commit {
            session.commit().expect("commit");
        } else {
            session.abort().expect("abort");
        }
        assert_eq!(state(scan.next_page(&mut session)), "24000");
        let table = begin(&mut session, LockMode::AccessShare);
        assert_eq!(state(scan.next(&mut session)), "24000");
        assert_eq!(state(session.use_snapshot(&snapshot)), "24000");
        assert_eq!(session.count_rows(&table).expect("count"), 1_000);
        session.commit().expect("commit");
    }
}

#[test]
fn a_table_is_used_only_while_it_is_locked() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    let mut other = engine.session().expect("session");
    create(&mut session, "t");
    insert(&mut session, "t", 0..10);
    let table = begin(&mut session, LockMode::AccessShare);
    let refused = insert_open(&mut session, &table, 10..11).expect_err("locked for reading only");
    let expected = "relation \"t\" is not locked in mode RowExclusiveLock by the transaction";
    assert_eq!((refused.sqlstate(), refused.to_string().as_str()), ("55000", expected));
    session.commit().expect("commit");
    // From here on it may be dropped, and the handle is of a table that was.
    transaction(&mut other, |s| {
        let table = s.open_table(None, "t", LockMode::AccessExclusive)?;
        s.drop_table(&table)
    })
    .expect("drop");
    create(&mut other, "t");
    start(&mut session);
    assert_eq!(state(session.scan(&table)), "55000");
    assert_eq!(state(session.count_rows(&table)), "55000");
    assert_eq!(state(insert_open(&mut session, &table, 10..11)), "55000");
    let now = session.open_table(None, "t", LockMode::RowExclusive).expect("the new one");
    assert_eq!(session.count_rows(&now).expect("count"), 0);
    assert_eq!(state(session.scan(&table)), "55000");
    session.commit().expect("commit");
}

fn insert_into(statement: &mut Statement<'_>, id: i64) -> Result<(), EngineError> {
    let table = statement.open_table(None, "t", LockMode::RowExclusive)?;
    let mut batch = RowBatch::new(&table);
    batch.push(&[Datum::Int8(id), Datum::Null])?;
    statement.insert_batch(&table, &mut batch).map(|_| ())
}

#[test]
fn a_transaction_that_is_dropped_is_aborted() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    for commit in [false, true] {
        let mut tx = session.transaction().expect("begin");
        insert_into(&mut tx.statement().expect("statement"), 1).expect("insert");
        let mut statement = tx.statement().expect("statement");
        let table = statement.open_table(None, "t", LockMode::AccessShare).expect("table");
        let mut scan = statement.scan(&table).expect("scan");
        assert_eq!(
            scan.next_row().expect("row").expect("own row").decode().expect("row")[0],
            Datum::Int8(1)
        );
        assert!(scan.next_row().expect("end").is_none());
        drop(scan);
        if commit {
            tx.commit().expect("commit");
        } else {
            drop(tx);
        }
        assert!(!session.in_transaction());
        assert_eq!(count(&mut session, "t").expect("count"), u64::from(commit));
    }
}

#[test]
fn a_transaction_with_a_failed_statement_can_only_be_aborted() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let mut tx = session.transaction().expect("begin");
    insert_into(&mut tx.statement().expect("statement"), 1).expect("insert");
    let mut failing = tx.statement().expect("statement");
    assert_eq!(state(failing.open_table(None, "nothing", LockMode::AccessShare)), "42P01");
    assert_eq!(state(tx.statement()), "25P02");
    assert_eq!(state(tx.commit()), "25P02");
    assert!(!session.in_transaction());
    assert_eq!(count(&mut session, "t").expect("count"), 0);
    engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    assert_eq!(state(session.transaction()), "57P01");
}

#[test]
fn a_failed_statement_costs_only_what_was_done_since_the_savepoint() {
    let (_scratch, engine) = fresh();
    let mut session = engine.session().expect("session");
    create(&mut session, "t");
    let fail = |statement: &mut Statement<'_>| {
        assert_eq!(state(statement.open_table(None, "nothing", LockMode::AccessShare)), "42P01");
    };
    let mut tx = session.transaction().expect("begin");
    insert_into(&mut tx.statement().expect("statement"), 1).expect("insert");
    let mut savepoint = tx.savepoint().expect("savepoint");
    insert_into(&mut savepoint.statement().expect("statement"), 2).expect("insert");
    let mut inner = savepoint.savepoint().expect("savepoint");
    insert_into(&mut inner.statement().expect("statement"), 3).expect("insert");
    fail(&mut inner.statement().expect("statement"));
    assert_eq!(state(inner.statement()), "25P02");
    assert_eq!(state(inner.savepoint()), "25P02");
    // It cannot be released any more, and is rolled back.
    assert_eq!(state(inner.release()), "25P02");
    let mut inner = savepoint.savepoint().expect("savepoint");
    fail(&mut inner.statement().expect("statement"));
    drop(inner);
    savepoint.release().expect("release");
    let mut savepoint = tx.savepoint().expect("savepoint");
    fail(&mut savepoint.statement().expect("statement"));
    savepoint.rollback().expect("rollback");
    tx.commit().expect("commit");
    assert_eq!(count(&mut session, "t").expect("count"), 2);
}
