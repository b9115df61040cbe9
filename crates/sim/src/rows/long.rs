//! A table with long values, most of which lie in its TOAST table. Transactions insert, replace,
//! keep and delete them; some are rolled back, whole or in part, and some commits do not wait for
//! the log. A value that a row has is there, whole. A value that no row has is deleted.

use std::collections::{BTreeMap, BTreeSet};

use forebay_aio::sync::Arc;
use forebay_engine::types::oids;
use forebay_engine::{
    ColumnDef, ConstraintKind, Datum, Direction, EngineError, IndexDef, IndexKey, IndexScanOptions,
    Isolation, ItemPointer, LockMode, Part, RowBatch, RowOutcome, RowView, Session, Table,
    TableIndex,
};
use forebay_format::varlena::ToastPointer;
use forebay_testkit::Dice;

use super::committed::{Committed, Rows};
use super::life::create_indexes;
use crate::disk::SimDisk;
use crate::workload::{Life, disk_after};

pub(crate) const TABLE: &str = "long";
/// Its columns with indexes, if it has any.
const ID: i16 = 1;
const OF: i16 = 3;
/// Rows beyond which none are inserted.
const MOST_ROWS: usize = 12;

/// A row as it was found.
struct Found {
    id: i64,
    version: i64,
    /// The version whose text it has.
    of: i64,
    place: ItemPointer,
    /// The text, perhaps a pointer.
    text: Datum<'static>,
}

/// The text of a version. Half of them are compressible.
fn text_of(version: i64) -> String {
    let mut dice = Dice::new(version.unsigned_abs());
    let len = if dice.chance(700) { 2000 + dice.below(12_000) } else { dice.below(2000) };
    let noise = dice.chance(500);
    let char = |n| b' ' + (if noise { dice.below(90) } else { n / 300 % 90 }) as u8;
    (0..len).map(char).map(char::from).collect()
}

/// A disk with a new data directory and an empty table with a text column, all of it durable.
///
/// # Errors
/// As the engine.
pub fn long_values_disk() -> Result<SimDisk, EngineError> {
    disk_with(&[])
}

/// The same; the table has a primary key and an index on a column that half of the updates change.
///
/// # Errors
/// As the engine.
pub fn indexed_long_values_disk() -> Result<SimDisk, EngineError> {
    let index = |column| IndexDef { keys: vec![IndexKey::new(column)], ..IndexDef::default() };
    let primary = IndexDef { constraint: Some(ConstraintKind::Primary), ..index(ID) };
    disk_with(&[primary, index(OF)])
}

fn disk_with(indexes: &[IndexDef]) -> Result<SimDisk, EngineError> {
    disk_after(|session| {
        let number = |name| ColumnDef { not_null: true, ..ColumnDef::new(name, oids::INT8) };
        let text = ColumnDef::new("text", oids::TEXT);
        let columns = [number("id"), number("version"), number("of"), text];
        session.create_table(None, TABLE, &columns)?;
        create_indexes(session, TABLE, indexes)
    })
}

/// The table.
pub(crate) fn table_of(session: &mut Session) -> Result<Arc<Table>, String> {
    in_transaction(session, |_, table| Ok(Arc::clone(table)))
}

fn in_transaction<T>(
    session: &mut Session,
    body: impl FnOnce(&mut Session, &Arc<Table>) -> Result<T, EngineError>,
) -> Result<T, String> {
    let run = || -> Result<T, EngineError> {
        session.begin()?;
        session.start_command()?;
        let table = session.open_table(None, TABLE, LockMode::AccessShare)?;
        let done = body(session, &table)?;
        session.commit()?;
        Ok(done)
    };
    run().map_err(|error| error.to_string())
}

/// A row, unless its text is stored elsewhere and must be fetched.
fn decoded(row: RowView<'_>) -> Result<Found, EngineError> {
    let place = row.place();
    match &row.decode()?[..] {
        [Datum::Int8(id), Datum::Int8(version), Datum::Int8(of), text] => {
            let text = text.clone().into_owned();
            Ok(Found { id: *id, version: *version, of: *of, place, text })
        }
        other => panic!("a row that was never written: {other:?}"),
    }
}

/// The rows of the table. Nothing that lies elsewhere is fetched.
fn rows(session: &mut Session, table: &Arc<Table>) -> Result<Vec<Found>, EngineError> {
    let (mut scan, mut rows) = (session.scan(table)?, Vec::new());
    while let Some(row) = scan.next(session)? {
        rows.push(decoded(row)?);
    }
    Ok(rows)
}

/// Whether the TOAST table may have values that no row has. A rewrite leaves those of versions that
/// only an older snapshot sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Orphans {
    None,
    Some,
}

/// Compares the rows with those that are committed.
pub(crate) fn compare(
    session: &mut Session,
    committed: &Committed,
    orphans: Orphans,
) -> Result<(), String> {
    same(&found(session, orphans)?, committed.now())
}

/// Compares rows that were found with others.
pub(crate) fn same(found: &[(i64, i64)], expected: &Rows) -> Result<(), String> {
    match found.len() == expected.len()
        && found.iter().copied().collect::<BTreeMap<_, _>>() == *expected
    {
        true => Ok(()),
        false => Err(format!("found {found:?} instead of {expected:?}")),
    }
}

/// The versions of the rows that a new transaction sees.
pub(crate) fn found(session: &mut Session, orphans: Orphans) -> Result<Vec<(i64, i64)>, String> {
    in_transaction(session, |session, table| read(session, table, orphans))?
}

/// The versions of the rows. Their texts are compared with them, the values in the TOAST table with
/// those that rows have, and the rows with those to which indexes lead.
fn read(
    session: &mut Session,
    table: &Arc<Table>,
    orphans: Orphans,
) -> Result<Result<Vec<(i64, i64)>, String>, EngineError> {
    let (mut found, mut stored) = (Vec::new(), BTreeSet::new());
    for Found { id, version, of, text, .. } in rows(session, table)? {
        let text = match &text {
            Datum::Toasted(bytes) => {
                stored.extend(ToastPointer::decode(bytes).map(|pointer| pointer.value_id));
                session.fetch_value(&text, table.columns[3].repr, Part::Whole)?
            }
            _ => text,
        };
        if text != Datum::string(text_of(of)) {
            return Ok(Err(format!("row {id} does not have the text of version {of}")));
        }
        found.push((id, version));
    }
    let name = format!("pg_toast_{}", table.oid);
    let toast = session.open_table(Some("pg_toast"), &name, LockMode::AccessShare)?;
    let mut scan = session.scan(&toast)?;
    while let Some(chunk) = scan.next(session)? {
        if let Datum::Oid(value) = chunk.decode()?[0]
            && orphans == Orphans::None
            && !stored.contains(&value)
        {
            return Ok(Err(format!("no row has value {value} of the TOAST table")));
        }
    }
    for index in &table.indexes {
        if let Err(what) = compare_index(session, (table, index), &found)? {
            return Ok(Err(format!("index {} {what}", index.name)));
        }
    }
    Ok(Ok(found))
}

/// Compares rows with those to which an index leads, in both directions.
fn compare_index(
    session: &mut Session,
    (table, index): (&Arc<Table>, &Arc<TableIndex>),
    expected: &[(i64, i64)],
) -> Result<Result<(), String>, EngineError> {
    let expected: BTreeMap<i64, i64> = expected.iter().copied().collect();
    for direction in [Direction::Forward, Direction::Backward] {
        let options = IndexScanOptions::default();
        let mut scan = session.index_scan(table, index, Vec::new(), options)?;
        let (mut keys, mut rows) = (Vec::new(), Vec::new());
        while let Some(row) = scan.next(session, direction)? {
            let row = decoded(row)?;
            keys.push(if index.columns[0] == OF { row.of } else { row.id });
            rows.push((row.id, row.version));
        }
        if direction == Direction::Backward {
            keys.reverse();
        }
        let sorted =
            if keys.is_sorted() { same(&rows, &expected) } else { Err(format!("{keys:?}")) };
        if let Err(what) = sorted {
            return Ok(Err(format!("({direction:?}): {what}")));
        }
    }
    Ok(Ok(()))
}

/// A transaction that keeps an old snapshot of the table, and no lock.
pub(crate) struct OldReader {
    session: Session,
    expected: Rows,
}

impl OldReader {
    /// Takes the snapshot.
    pub(crate) fn begin(life: &Life, committed: &Committed) -> Result<OldReader, EngineError> {
        let mut session = life.engine().session()?;
        session.begin()?;
        session.set_isolation(Isolation::RepeatableRead)?;
        session.start_command()?;
        let other = session.open_table(Some("pg_catalog"), "pg_am", LockMode::AccessShare)?;
        let mut scan = session.scan(&other)?;
        while scan.next(&mut session)?.is_some() {}
        Ok(OldReader { session, expected: committed.now().clone() })
    }

    /// Reads the table by the old snapshot.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let mut look = || {
            self.session.start_command()?;
            let table = self.session.open_table(None, TABLE, LockMode::AccessShare)?;
            let found = read(&mut self.session, &table, Orphans::Some)?;
            self.session.commit()?;
            Ok(found)
        };
        let found = look().map_err(|error: EngineError| error.to_string())?;
        found
            .and_then(|found| same(&found, &self.expected))
            .map_err(|what| format!("by an old snapshot: {what}"))
    }
}

/// A transaction that changes rows.
pub(crate) fn change(
    session: &mut Session,
    committed: &mut Committed,
    dice: &mut Dice,
) -> Result<(), EngineError> {
    session.begin()?;
    session.start_command()?;
    let table = session.open_table(None, TABLE, LockMode::RowExclusive)?;
    let found = rows(session, &table)?;
    let room = MOST_ROWS.saturating_sub(found.len());
    let mut changes = BTreeMap::new();
    for Found { id, of, place, text, .. } in found {
        let version = committed.fresh();
        let (new, done) = match dice.below(8) {
            0 => (None, session.delete_row(&table, place)?),
            1 | 2 => {
                let text = Datum::string(text_of(version));
                let row = values(id, version, version, text);
                (Some(version), session.update_row(&table, place, &row)?)
            }
            3 => {
                let row = values(id, version, of, text);
                (Some(version), session.update_row(&table, place, &row)?)
            }
            _ => continue,
        };
        assert!(matches!(done, RowOutcome::Done(_)), "nobody else changes rows: {done:?}");
        changes.insert(id, new);
    }
    if dice.chance(200) {
        session.begin_subtransaction()?;
        session.start_command()?;
        insert(session, &table, committed)?;
        session.abort_subtransaction()?;
        session.start_command()?;
    }
    for _ in 0..room.min(dice.below(4) as usize) {
        let id = insert(session, &table, committed)?;
        changes.insert(id, Some(id));
    }
    if dice.chance(150) {
        return session.abort();
    }
    let waits = dice.chance(600);
    session.settings_mut().synchronous_commit = waits;
    committed.commit(changes);
    session.commit()?;
    if waits {
        committed.durable(committed.commits());
    }
    Ok(())
}

/// Inserts a row, whose id is its version. Returns that.
fn insert(
    session: &mut Session,
    table: &Arc<Table>,
    committed: &mut Committed,
) -> Result<i64, EngineError> {
    let id = committed.fresh();
    let mut batch = RowBatch::new(table);
    batch.push(&values(id, id, id, Datum::string(text_of(id))))?;
    session.insert_batch(table, &mut batch)?;
    Ok(id)
}

fn values(id: i64, version: i64, of: i64, text: Datum<'static>) -> [Datum<'static>; 4] {
    [Datum::Int8(id), Datum::Int8(version), Datum::Int8(of), text]
}
