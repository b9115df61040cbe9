//! A connection's context: transaction, statement, rows in and out.
//!
//! ```text
//! session.begin()?;                       // explicit or implicit: the caller's business
//! session.start_command()?;               // each statement: new snapshot, sees the statements before it
//! let t = session.open_table(None, "t", LockMode::AccessShare)?;
//! let mut scan = session.scan(&t)?;
//! while let Some(row) = scan.next(&mut session)? { ... }
//! session.commit()?;
//! ```

use std::sync::Arc;

use crate::config::SessionSettings;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::locks::{Interrupt, LockMode};
use crate::table::{ColumnDef, Table};
use crate::types::{Datum, Oid};

/// How much prewarm brings in: pg_prewarm's modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrewarmMode {
    /// Ask the kernel to read into its cache.
    Prefetch,
    /// Read, and forget.
    Read,
    /// Read into the buffer pool.
    Buffer,
}

/// A connection's context. Dropping it aborts its transaction.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// The engine it belongs to.
    pub fn engine(&self) -> &Arc<Engine> {
        todo!()
    }

    /// Its number, unique while it lives: what pg_backend_pid() shows.
    pub fn id(&self) -> i32 {
        todo!()
    }

    /// The settings it may change for itself.
    pub fn settings_mut(&mut self) -> &mut SessionSettings {
        todo!()
    }

    /// Through this another thread asks the session to stop what it does: `Cancel` makes the running statement fail
    /// with 57014 (the caller clears it with `clear_cancel` between statements), `Terminate` everything with 57P01.
    pub fn interrupt(&self) -> &Interrupt {
        todo!()
    }

    /// Fails with 57014 if a cancel was asked for, or 57P01 if the engine is stopping.
    pub fn check_cancel(&self) -> Result<(), EngineError> {
        todo!()
    }

    /// Starts a transaction. An error if one is running.
    pub fn begin(&mut self) -> Result<(), EngineError> {
        todo!()
    }

    /// Starts a statement of the transaction: what earlier ones wrote becomes visible, and a new snapshot is taken.
    pub fn start_command(&mut self) -> Result<(), EngineError> {
        todo!()
    }

    /// Commits: durable on return. If it fails the transaction is aborted.
    pub fn commit(&mut self) -> Result<(), EngineError> {
        todo!()
    }

    /// Aborts.
    pub fn abort(&mut self) -> Result<(), EngineError> {
        todo!()
    }

    /// Whether a transaction is running.
    pub fn in_transaction(&self) -> bool {
        todo!()
    }

    /// The transaction's id, if it has written.
    pub fn transaction_id(&self) -> Option<u32> {
        todo!()
    }

    /// Finds a table; without a schema in pg_catalog, then public. No lock is taken.
    pub fn table(&mut self, _schema: Option<&str>, _name: &str) -> Result<Option<Arc<Table>>, EngineError> {
        todo!()
    }

    /// Finds and locks a table (42P01 if there is none), seeing changes committed while waiting for the lock.
    pub fn open_table(
        &mut self,
        _schema: Option<&str>,
        _name: &str,
        _mode: LockMode,
    ) -> Result<Arc<Table>, EngineError> {
        todo!()
    }

    /// The tables of the database as the statement sees them, catalogs included.
    pub fn tables(&mut self) -> Result<Vec<Arc<Table>>, EngineError> {
        todo!()
    }

    /// Locks a table until the transaction ends.
    pub fn lock_table(&mut self, _table: &Table, _mode: LockMode) -> Result<(), EngineError> {
        todo!()
    }

    /// Creates a table (schema None: public). 42P07 if the name is taken.
    pub fn create_table(
        &mut self,
        _schema: Option<&str>,
        _name: &str,
        _columns: &[ColumnDef],
    ) -> Result<Oid, EngineError> {
        todo!()
    }

    /// Drops a table: its file goes when the transaction has committed.
    pub fn drop_table(&mut self, _table: &Table) -> Result<(), EngineError> {
        todo!()
    }

    /// Inserts the rows of a batch and empties it; the number of rows.
    pub fn insert_batch(&mut self, _table: &Table, _rows: &mut RowBatch) -> Result<u64, EngineError> {
        todo!()
    }

    /// Starts a scan of what the statement's snapshot sees.
    pub fn scan(&mut self, _table: &Arc<Table>) -> Result<HeapScan, EngineError> {
        todo!()
    }

    /// The number of rows a scan would return, without looking into them.
    pub fn count_rows(&mut self, _table: &Arc<Table>) -> Result<u64, EngineError> {
        todo!()
    }

    /// The blocks of a table's main fork.
    pub fn relation_blocks(&mut self, _table: &Table) -> Result<u32, EngineError> {
        todo!()
    }

    /// Brings a table's blocks in; the number of blocks.
    pub fn prewarm(&mut self, _table: &Table, _mode: PrewarmMode) -> Result<u64, EngineError> {
        todo!()
    }

    /// Makes a checkpoint and waits for it.
    pub fn checkpoint(&mut self) -> Result<(), EngineError> {
        todo!()
    }
}

/// Rows on their way into one table, already in their on-disk form.
#[derive(Debug)]
pub struct RowBatch {}

impl RowBatch {
    /// An empty batch for a table.
    pub fn new(_table: &Arc<Table>) -> RowBatch {
        todo!()
    }

    /// Adds a row: one value for each column that is not dropped, of exactly the column's type. Checks NOT NULL
    /// (23502) and the row's size (54000).
    pub fn push(&mut self, _values: &[Datum<'_>]) -> Result<(), EngineError> {
        todo!()
    }

    /// Rows in it.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        todo!()
    }

    /// Bytes of the rows in it: insert it when this passes a few hundred kilobytes.
    pub fn bytes(&self) -> usize {
        todo!()
    }

    /// Forgets the rows.
    pub fn clear(&mut self) {
        todo!()
    }
}

/// A scan of a table. It keeps its snapshot, and may rest between calls while other statements of the transaction
/// run. Drop it before the transaction ends.
#[derive(Debug)]
pub struct HeapScan {}

impl HeapScan {
    /// Moves to the next page that has visible rows: their number, or None at the end.
    pub fn next_page(&mut self, _session: &mut Session) -> Result<Option<usize>, EngineError> {
        todo!()
    }

    /// A row of the page moved to last.
    pub fn row(&self, _index: usize) -> RowView<'_> {
        todo!()
    }

    /// The next row, moving to the next page where needed.
    pub fn next(&mut self, _session: &mut Session) -> Result<Option<RowView<'_>>, EngineError> {
        todo!()
    }
}

/// A row of a scan's current page.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    _bytes: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Decodes the columns up to the one with index `upto - 1` into `out` (cleared first).
    pub fn decode_into(&self, _upto: usize, _out: &mut Vec<Datum<'a>>) -> Result<(), EngineError> {
        todo!()
    }

    /// All columns.
    pub fn decode(&self) -> Result<Vec<Datum<'a>>, EngineError> {
        todo!()
    }
}
