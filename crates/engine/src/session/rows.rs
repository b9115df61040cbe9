//! Inserting rows.

use std::sync::Arc;

use forebay_access::form_row;
use forebay_access::heap::{Author, TupleBatch};
use forebay_catalog::Table;
use forebay_storage::Strategy;
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, type_info};

use super::state::{Session, no_transaction};
use crate::core::Core;
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
            has_dropped: table.columns.iter().any(|c| c.dropped),
        }
    }

    /// Adds a row: a value for each column that is not dropped, of exactly the column's type.
    /// Checks NOT NULL (23502) and the row's size (54000). After an error the batch is as it was.
    pub fn push(&mut self, values: &[Datum<'_>]) -> Result<(), EngineError> {
        if !self.has_dropped {
            return self.push_all(values);
        }
        let mut given = values.iter();
        let mut all = Vec::with_capacity(self.table.columns.len());
        for column in &self.table.columns {
            all.push(if column.dropped {
                Datum::Null
            } else {
                given.next().ok_or_else(|| wrong_count(&self.table))?.reborrow()
            });
        }
        if given.next().is_some() {
            return Err(wrong_count(&self.table));
        }
        self.push_all(&all)
    }

    fn push_all(&mut self, values: &[Datum<'_>]) -> Result<(), EngineError> {
        let table = &self.table;
        if values.len() != table.columns.len() {
            return Err(wrong_count(table));
        }
        for (value, column) in values.iter().zip(&table.columns) {
            if value.is_null() && column.not_null && !column.dropped {
                return Err(EngineError::statement(
                    "23502",
                    format!(
                        "null value in column \"{}\" of relation \"{}\" violates not-null \
                         constraint",
                        column.name, table.name
                    ),
                ));
            }
            if !column.repr.accepts(value) {
                let name = type_info(column.type_oid).map_or("unknown", |t| t.name);
                return Err(EngineError::statement(
                    "42804",
                    format!(
                        "column \"{}\" is of type {name} but the value {value:?} is not",
                        column.name
                    ),
                ));
            }
        }
        self.tuples.push_with(|out| {
            form_row(&table.layouts, values, out)?;
            Ok::<(), EngineError>(())
        })
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

fn wrong_count(table: &Table) -> EngineError {
    EngineError::internal(format!(
        "a row for relation \"{}\" has the wrong number of values",
        table.name
    ))
}

impl Session {
    /// Inserts the rows of a batch and empties it. Returns the number of rows. The table must be
    /// locked in mode `RowExclusive`.
    pub fn insert_batch(&mut self, table: &Table, rows: &mut RowBatch) -> Result<u64, EngineError> {
        if rows.table.oid != table.oid || rows.table.locator != table.locator {
            return Err(EngineError::internal("the rows are for another table"));
        }
        if table.is_catalog() {
            let message = format!("permission denied: \"{}\" is a system catalog", table.name);
            return Err(EngineError::statement("42501", message));
        }
        table.check_insertable()?;
        if rows.is_empty() {
            return Ok(0);
        }
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            session.insert_tuples(core, table, &rows.tuples)?;
            core.checkpointer.note_wal(core.wal.bytes_since_redo(), core.wal_trigger());
            let count = rows.len() as u64;
            rows.clear();
            Ok(count)
        })
    }

    fn insert_tuples(
        &mut self,
        core: &Core,
        table: &Table,
        tuples: &TupleBatch,
    ) -> Result<(), EngineError> {
        let heap = self.heap(core, table)?;
        let Session { open: Some(open), backend, .. } = self else {
            return Err(no_transaction());
        };
        let xid = core.xacts.assign(&mut backend.io, &mut open.tx)?;
        let author = Author { xid, command: open.tx.use_command() };
        if tuples.len() == 1 {
            heap.insert(backend, author, tuples.get(0))?;
            return Ok(());
        }
        let strategy =
            if tuples.bytes() >= BULK_BYTES { Strategy::BulkWrite } else { Strategy::Normal };
        Ok(heap.insert_batch(backend, author, tuples, strategy)?)
    }
}
