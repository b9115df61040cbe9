//! A small table whose rows sessions change beside each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::common::*;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, Datum, Engine, EngineError, ItemPointer, LockMode, RowOutcome, Session, Table,
};

/// CREATE TABLE v (id int8, n int8), with rows of n = 10 * id.
pub fn make_table(session: &mut Session, ids: std::ops::RangeInclusive<i64>) {
    let columns = ["id", "n"].map(|name| ColumnDef::new(name, oids::INT8));
    transaction(session, |s| {
        s.create_table(None, "v", &columns)?;
        s.start_command()?;
        let table = s.open_table(None, "v", LockMode::RowExclusive)?;
        ids.into_iter().try_for_each(|id| s.insert_row(&table, &row(id, 10 * id)).map(drop))
    })
    .expect("table");
}

/// The values of a row.
pub fn row(id: i64, n: i64) -> [Datum<'static>; 2] {
    [Datum::Int8(id), Datum::Int8(n)]
}

/// Opens the table in a new command, of a new transaction if none is open.
pub fn opened(session: &mut Session) -> Arc<Table> {
    if !session.in_transaction() {
        session.begin().expect("begin");
    }
    session.start_command().expect("command");
    session.open_table(None, "v", LockMode::RowExclusive).expect("table")
}

/// n by id, as the running command sees the table.
pub fn seen(session: &mut Session, table: &Arc<Table>) -> BTreeMap<i64, (i64, ItemPointer)> {
    let mut scan = session.scan(table).expect("scan");
    let mut found = BTreeMap::new();
    while let Some(row) = scan.next(session).expect("row") {
        let values = row.decode().expect("values");
        let [Datum::Int8(id), Datum::Int8(n)] = values[..] else { panic!("{values:?}") };
        assert_eq!(found.insert(id, (n, row.place())), None, "row {id} twice");
    }
    found
}

/// n by id, as a transaction of its own sees the table.
pub fn committed(session: &mut Session) -> Vec<(i64, i64)> {
    let table = opened(session);
    let found = seen(session, &table);
    session.commit().expect("commit");
    found.into_iter().map(|(id, (n, _))| (id, n)).collect()
}

/// The place of a row, as the running command sees it.
pub fn place(session: &mut Session, table: &Arc<Table>, id: i64) -> ItemPointer {
    seen(session, table)[&id].1
}

/// UPDATE v SET n = … WHERE id = …, in a new command.
pub fn update(session: &mut Session, id: i64, n: i64) -> Result<RowOutcome, EngineError> {
    let table = opened(session);
    let tid = place(session, &table, id);
    session.update_row(&table, tid, &row(id, n))
}

/// The same, by a statement that nobody disturbs.
pub fn set(session: &mut Session, id: i64, n: i64) {
    let outcome = update(session, id, n).expect("update");
    assert!(matches!(outcome, RowOutcome::Done(_)), "{outcome:?}");
}

/// DELETE FROM v WHERE id = …, in a new command.
pub fn delete(session: &mut Session, id: i64) -> Result<RowOutcome, EngineError> {
    let table = opened(session);
    let tid = place(session, &table, id);
    session.delete_row(&table, tid)
}

/// Runs in another thread, and returns once that waits for a lock, as the `waits`th one.
pub fn waiting<T: Send + 'static>(
    engine: &Engine,
    waits: usize,
    mut session: Session,
    body: impl FnOnce(&mut Session) -> T + Send + 'static,
) -> JoinHandle<(Session, T)> {
    let thread = thread::spawn(move || {
        let value = body(&mut session);
        (session, value)
    });
    while engine.lock_waits() < waits && !thread.is_finished() {
        thread::yield_now();
    }
    thread
}

/// What such a thread returns.
pub fn joined<T>(thread: JoinHandle<(Session, T)>) -> (Session, T) {
    thread.join().expect("thread")
}
