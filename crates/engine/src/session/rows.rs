//! Inserting rows.

use std::sync::Arc;

use forebay_access::form_row;
use forebay_access::heap::{Author, Heap, TupleBatch};
use forebay_catalog::Table;
use forebay_format::ItemPointer;
use forebay_storage::{Backend, Strategy};
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, type_info};

use super::state::{Session, no_transaction};
use crate::error::EngineError;

/// A batch of at least this many bytes goes through a ring of buffers.
const BULK_BYTES: usize = 64 << 10;

/// Rows to be inserted into a table, already as tuples.
#[derive(Debug)]
pub struct RowBatch {
    table: Arc<Table>,
    tuples: TupleBatch,
    /// Whether a column was dropped: then rows have fewer values than the table has columns.
    has_dropped: bool,
}

impl RowBatch {
    /// An empty batch for a table.
    pub fn new(table: &Arc<Table>) -> RowBatch {
        RowBatch {
            table: Arc::clone(table),
            tuples: TupleBatch::new(),
            has_dropped: has_dropped(table),
        }
    }

    /// Lets its rows be frozen when they are inserted. [`Session::check_freezable`] must have
    /// allowed that.
    pub fn freeze(&mut self) {
        self.tuples.set_frozen(true);
    }

    /// Adds a row: a value for each column that is not dropped, of exactly the column's type.
    /// Checks NOT NULL (23502) and the row's size (54000). After an error the batch is as it was.
    pub fn push(&mut self, values: &[Datum<'_>]) -> Result<(), EngineError> {
        let RowBatch { table, tuples, has_dropped } = self;
        tuples.push_with(|out| form(table, *has_dropped, values, out))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.tuples.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.tuples.is_empty()
    }

    /// Bytes of the rows. A batch should be inserted at a few hundred kilobytes.
    pub fn bytes(&self) -> usize {
        self.tuples.bytes()
    }

    /// Removes the rows.
    pub fn clear(&mut self) {
        self.tuples.clear();
    }
}

/// Appends the tuple of a row to `out`: a value for each column that is not dropped. After an error
/// `out` is as it was.
pub(super) fn form_checked(
    table: &Table,
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    form(table, has_dropped(table), values, out)
}

fn has_dropped(table: &Table) -> bool {
    table.columns.iter().any(|column| column.dropped)
}

fn form(
    table: &Table,
    has_dropped: bool,
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<(), EngineError> {
    if !has_dropped {
        return form_all(table, values, out);
    }
    let mut given = values.iter();
    let mut all = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        all.push(if column.dropped {
            Datum::Null
        } else {
            given.next().ok_or_else(|| wrong_count(table))?.reborrow()
        });
    }
    match given.next() {
        None => form_all(table, &all, out),
        Some(_) => Err(wrong_count(table)),
    }
}

/// The same for a value for each column, NULL for dropped ones.
fn form_all(table: &Table, values: &[Datum<'_>], out: &mut Vec<u8>) -> Result<(), EngineError> {
    if values.len() != table.columns.len() {
        return Err(wrong_count(table));
    }
    for (value, column) in values.iter().zip(&table.columns) {
        if value.is_null() && column.not_null && !column.dropped {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, table.name
            );
            return Err(EngineError::statement("23502", message));
        }
        if !column.repr.accepts(value) {
            let name = type_info(column.type_oid).map_or("unknown", |t| t.name);
            let message = format!(
                "column \"{}\" is of type {name} but the value {value:?} is not",
                column.name
            );
            return Err(EngineError::statement("42804", message));
        }
    }
    form_row(&table.layouts, values, out)?;
    Ok(())
}

fn wrong_count(table: &Table) -> EngineError {
    EngineError::internal(format!(
        "a row for relation \"{}\" has the wrong number of values",
        table.name
    ))
}

impl Session {
    /// Fails (55000) unless new rows of the table can be frozen at once. If the subtransaction
    /// aborts, they must be gone with the table's file: so it must have made that.
    pub fn check_freezable(&mut self, table: &Table) -> Result<(), EngineError> {
        if self.running()?.tx.has_made(table.locator) {
            return Ok(());
        }
        let message = "cannot perform COPY FREEZE because the table was not created or truncated \
                       in the current subtransaction";
        Err(EngineError::statement("55000", message))
    }

    /// Inserts the rows of a batch and empties it. Returns the number of rows. The table must be
    /// locked in mode `RowExclusive`.
    pub fn insert_batch(&mut self, table: &Table, rows: &mut RowBatch) -> Result<u64, EngineError> {
        if rows.table.oid != table.oid || rows.table.locator != table.locator {
            return Err(EngineError::internal("the rows are for another table"));
        }
        check_insertable(table)?;
        if rows.is_empty() {
            return Ok(0);
        }
        self.inserting(table, |backend, heap, author| {
            let tuples = &rows.tuples;
            if tuples.len() == 1 && !tuples.is_frozen() {
                heap.insert(backend, author, tuples.get(0))?;
                return Ok(());
            }
            let bulk = tuples.bytes() >= BULK_BYTES;
            let strategy = if bulk { Strategy::BulkWrite } else { Strategy::Normal };
            Ok(heap.insert_batch(backend, author, tuples, strategy)?)
        })?;
        let count = rows.len() as u64;
        rows.clear();
        Ok(count)
    }

    /// Inserts a row: a value for each column that is not dropped, of exactly the column's type.
    /// Returns its place. Checks NOT NULL (23502) and the row's size (54000). The table must be
    /// locked in mode `RowExclusive`.
    pub fn insert_row(
        &mut self,
        table: &Table,
        values: &[Datum<'_>],
    ) -> Result<ItemPointer, EngineError> {
        check_insertable(table)?;
        let mut tuple = Vec::new();
        form_checked(table, values, &mut tuple)?;
        self.inserting(table, |backend, heap, author| Ok(heap.insert(backend, author, &tuple)?))
    }

    /// Inserts into a table in the name of the running command.
    fn inserting<T>(
        &mut self,
        table: &Table,
        insert: impl FnOnce(&mut Backend, &Heap, Author) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            let heap = session.heap(core, table)?;
            let Session { open: Some(open), backend, .. } = session else {
                return Err(no_transaction());
            };
            let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
            let author = Author { xid, command: open.tx.use_command() };
            let inserted = insert(backend, &heap, author)?;
            core.checkpointer.note_wal(core.wal.bytes_since_redo(), core.wal_trigger());
            Ok(inserted)
        })
    }
}

fn check_insertable(table: &Table) -> Result<(), EngineError> {
    if table.is_catalog() {
        let message = format!("permission denied: \"{}\" is a system catalog", table.name);
        return Err(EngineError::statement("42501", message));
    }
    Ok(table.check_insertable()?)
}
