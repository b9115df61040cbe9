//! Rows on their way into a table.

use super::host::Host;
use crate::error::{ColumnName, Result, SqlError, state};
use crate::plan::live_columns;
use forebay_engine::{RowBatch, Table};
use forebay_types::{Datum, SqlType, to_text};
use std::sync::Arc;

/// A batch is inserted when it has so many bytes.
const BATCH_BYTES: usize = 512 * 1024;

/// Rows on their way into a table.
pub struct Loader {
    table: Arc<Table>,
    batch: RowBatch,
    inserted: u64,
}

impl Loader {
    /// For a table that is locked.
    pub fn new(table: &Arc<Table>) -> Loader {
        Loader { table: Arc::clone(table), batch: RowBatch::new(table), inserted: 0 }
    }

    /// For a table whose own rows are written anew: nothing that keys have to look at.
    pub fn rewriting(table: &Arc<Table>) -> Loader {
        let mut loader = Loader::new(table);
        loader.batch.leave_keys();
        loader
    }

    /// Freezes the rows when they are inserted.
    pub fn freeze(&mut self) {
        self.batch.freeze();
    }

    /// Adds a row of the table's live columns.
    pub fn push(&mut self, row: &[Datum<'_>]) -> Result<()> {
        self.batch.push(row).map_err(|e| described(&self.table, row, e.into()))
    }

    /// Is there enough to be inserted?
    pub fn is_full(&self) -> bool {
        self.batch.bytes() >= BATCH_BYTES
    }

    /// Inserts what there is.
    pub fn flush(&mut self, host: &mut Host) -> Result<()> {
        if !self.batch.is_empty() {
            self.inserted += host.call(|s| s.insert_batch(&self.table, &mut self.batch))?;
        }
        Ok(())
    }

    /// The row, of those that it holds, for which the last [`Loader::flush`] failed.
    pub fn refused(&self) -> Option<usize> {
        self.batch.failed_row()
    }

    /// Rows inserted.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }
}

/// Adds to the error of a row that breaks NOT NULL what the row is: a value for each live column.
pub(super) fn described(table: &Table, row: &[Datum<'_>], error: SqlError) -> SqlError {
    if error.sqlstate != state::NOT_NULL_VIOLATION || error.detail.is_some() {
        return error;
    }
    let error = match failing_row(table, row) {
        Ok(detail) => error.detail(detail),
        Err(error) => return error,
    };
    let mut columns = row.iter().zip(live_columns(table));
    match columns.find(|(value, column)| value.is_null() && column.not_null) {
        None => error,
        Some((_, column)) => error.column(ColumnName {
            schema: table.schema.clone(),
            table: table.name.clone(),
            column: column.name.clone(),
        }),
    }
}

/// `Failing row contains (...)`, each value shortened to 64 bytes.
pub(super) fn failing_row(table: &Table, row: &[Datum<'_>]) -> Result<String> {
    const SHOWN_BYTES: usize = 64;
    let mut shown = Vec::new();
    for (value, column) in row.iter().zip(live_columns(table)) {
        if column.generated == b'v' {
            shown.push("virtual".to_owned());
            continue;
        }
        if value.is_null() {
            shown.push("null".to_owned());
            continue;
        }
        let ty = SqlType::of(column.type_oid);
        let mut text = to_text(value, ty)?;
        if text.len() > SHOWN_BYTES {
            text.truncate(text.floor_char_boundary(SHOWN_BYTES));
            text.push_str("...");
        }
        shown.push(text);
    }
    Ok(format!("Failing row contains ({}).", shown.join(", ")))
}
