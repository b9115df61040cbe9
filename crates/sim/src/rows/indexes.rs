//! Checks the indexes of a table: the rows to which they lead, and their pages.

use std::cmp::Ordering;
use std::path::Path;

use forebay_aio::sync::Arc;
use forebay_engine::{
    Condition, Datum, Direction, EngineError, IndexRows, IndexScanOptions, LockMode, Operator,
    Session, Table, TableIndex,
};

use super::client::{TABLE, TEXT, decoded, text_of};
use super::life::in_transaction;
use super::tree_pages::check_tree;
use super::writer::Writer;
use crate::disk::SimDisk;
use crate::workload::Life;

/// The id and the version of a row.
type Row = (i64, i64);

/// Compares rows with those to which each index of the table leads a new transaction: in its order,
/// in the opposite one, and by the key of each row.
pub(crate) fn check_indexes(life: &mut Life, rows: &[Row]) -> Result<(), String> {
    let read = |session: &mut Session, table: &Arc<Table>| {
        for index in &table.indexes {
            if let Err(what) = check_index(session, table, index, rows)? {
                return Ok(Err(format!("index {} {what}", index.name)));
            }
        }
        Ok(Ok(()))
    };
    in_transaction(life.session(), read).map_err(|error| error.to_string())?
}

fn check_index(
    session: &mut Session,
    table: &Arc<Table>,
    index: &Arc<TableIndex>,
    rows: &[Row],
) -> Result<Result<(), String>, EngineError> {
    let column = index.columns[0];
    for direction in [Direction::Forward, Direction::Backward] {
        let mut found = scan(session, (table, index), Vec::new(), direction)?;
        if direction == Direction::Backward {
            found.reverse();
        }
        if !found.is_sorted_by(|a, b| order(column, a, b).is_le()) {
            return Ok(Err(format!("leads to {found:?} ({direction:?})")));
        }
        if let Err(difference) = same(found, rows) {
            return Ok(Err(format!("{difference} ({direction:?})")));
        }
    }
    let texts: Vec<String> = rows.iter().map(|row| text_of(row.1)).collect();
    let with_texts = rows.iter().zip(&texts);
    let keys: Vec<Datum<'_>> = with_texts
        .map(|(row, text)| match column {
            1 => Datum::Int8(row.0),
            TEXT => Datum::text(text),
            _ => Datum::Int8(row.1),
        })
        .collect();
    for (row, key) in rows.iter().zip(&keys) {
        let condition = Condition::new(&index.shape, 0, Operator::Equal, key)
            .expect("a value of the column's type");
        let found = scan(session, (table, index), vec![condition], Direction::Forward)?;
        let equal = rows.iter().zip(&keys).filter(|(_, other)| *other == key);
        let expected: Vec<Row> = equal.map(|(row, _)| *row).collect();
        if let Err(difference) = same(found, &expected) {
            return Ok(Err(format!("{difference} by the key of {row:?}")));
        }
    }
    Ok(Ok(()))
}

/// Orders rows as an index on a column does.
fn order(column: i16, a: &Row, b: &Row) -> Ordering {
    match column {
        1 => a.0.cmp(&b.0),
        TEXT => text_of(a.1).cmp(&text_of(b.1)),
        _ => a.1.cmp(&b.1),
    }
}

fn same(mut found: Vec<Row>, rows: &[Row]) -> Result<(), String> {
    let mut expected = rows.to_vec();
    expected.sort_unstable();
    found.sort_unstable();
    match found == expected {
        true => Ok(()),
        false => Err(format!("leads to {found:?}, and the rows are {expected:?}")),
    }
}

fn scan(
    session: &mut Session,
    (table, index): (&Arc<Table>, &Arc<TableIndex>),
    conditions: Vec<Condition>,
    direction: Direction,
) -> Result<Vec<Row>, EngineError> {
    let options = IndexScanOptions::default();
    let mut scan = session.index_scan(table, index, conditions, options)?;
    let mut rows = Vec::new();
    while let Some(row) = scan.next(session, direction)? {
        // A row that was never written differs from all others.
        rows.push(decoded(row)?.unwrap_or((-1, -1)));
    }
    Ok(rows)
}

/// A scan by the index on the text that stays open while rows change.
pub(crate) struct OpenScan {
    session: Session,
    scan: IndexRows,
    found: Vec<Row>,
    expected: Vec<Row>,
}

impl OpenScan {
    /// Begins it in a session of its own, and reads the first row.
    pub(crate) fn begin(writer: &Writer) -> Result<OpenScan, EngineError> {
        let mut session = writer.life.engine().session()?;
        session.begin()?;
        session.start_command()?;
        let table = session.open_table(None, TABLE, LockMode::AccessShare)?;
        let on_text = table.indexes.iter().find(|index| index.columns == [TEXT]);
        let index = on_text.expect("the table has that index");
        let scan = session.index_scan(&table, index, Vec::new(), IndexScanOptions::default())?;
        let expected = writer.committed.now().iter().map(|(id, version)| (*id, *version)).collect();
        let mut open = OpenScan { session, scan, found: Vec::new(), expected };
        open.read(1)?;
        Ok(open)
    }

    fn read(&mut self, most: usize) -> Result<(), EngineError> {
        for _ in 0..most {
            let Some(row) = self.scan.next(&mut self.session, Direction::Forward)? else { break };
            self.found.push(decoded(row)?.unwrap_or((-1, -1)));
        }
        Ok(())
    }

    /// Reads the other rows. Compares them all with those that were committed when it began.
    pub(crate) fn end(mut self) -> Result<Result<(), String>, EngineError> {
        self.read(usize::MAX)?;
        self.session.commit()?;
        Ok(same(self.found, &self.expected).map_err(|what| format!("an open scan {what}")))
    }
}

/// Checks the pages of all indexes of a table at rest, or after recovery.
///
/// # Errors
/// What is wrong, and where.
pub(crate) fn check_trees(disk: &SimDisk, dir: &Path, table: &Table) -> Result<(), String> {
    table.indexes.iter().try_for_each(|index| {
        check_tree(disk, dir, index.locator, table.locator)
            .map_err(|what| format!("index {}: {what}", index.name))
    })
}
