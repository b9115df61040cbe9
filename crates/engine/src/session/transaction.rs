//! Transactions and statements as types: wrong orders of calls do not compile.
//!
//! ```text
//! Session ─ transaction() ─▶ Transaction ─ statement() ─▶ Statement ─ scan() ─▶ Scan ─▶ RowView
//!                            commit(), abort(); dropped: aborted
//! ```
//!
//! Each borrows the one before. So there is one statement at a time, and no row, scan or statement
//! is left when the transaction ends. A statement that failed leaves nothing but the abort, as in
//! PostgreSQL.

use std::sync::Arc;

use forebay_catalog::{ColumnDef, Table};
use forebay_txn::locks::LockMode;
use forebay_types::Oid;

use super::rows::RowBatch;
use super::scan::{HeapScan, RowView};
use super::state::Session;
use super::temp_tables::OnCommit;
use crate::error::EngineError;

/// A running transaction. Dropped, it is aborted.
///
/// ```
/// use forebay_engine::types::oids;
/// use forebay_engine::{
///     ColumnDef, Datum, Engine, EngineConfig, InitOptions, LockMode, RowBatch, ShutdownMode,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().join("data");
/// Engine::init(&dir, &InitOptions::default())?;
/// let engine = Engine::open(&dir, EngineConfig::default())?;
/// let mut session = engine.session()?;
///
/// let mut tx = session.transaction()?;
/// tx.statement()?.create_table(None, "t", &[ColumnDef::new("a", oids::INT4)])?;
/// let mut insert = tx.statement()?;
/// let table = insert.open_table(None, "t", LockMode::RowExclusive)?;
/// let mut rows = RowBatch::new(&table);
/// rows.push(&[Datum::Int4(42)])?;
/// insert.insert_batch(&table, &mut rows)?;
/// tx.commit()?; // durable
///
/// let mut tx = session.transaction()?;
/// let mut select = tx.statement()?;
/// // Locked until the transaction ends.
/// let table = select.open_table(None, "t", LockMode::AccessShare)?;
/// // Sees what was committed until now.
/// let mut scan = select.scan(&table)?;
/// while let Some(row) = scan.next_row()? {
///     assert_eq!(row.decode()?, [Datum::Int4(42)]);
/// }
/// drop(scan);
/// tx.commit()?;
/// # drop(session);
/// engine.shutdown(ShutdownMode::Fast)?;
/// # Ok(())
/// # }
/// ```
///
/// Nothing of a transaction can be used after its end:
///
/// ```compile_fail,E0505
/// # use forebay_engine::{EngineError, LockMode, Session};
/// # fn f(session: &mut Session) -> Result<(), EngineError> {
/// let mut tx = session.transaction()?;
/// let mut select = tx.statement()?;
/// let table = select.open_table(None, "t", LockMode::AccessShare)?;
/// let mut scan = select.scan(&table)?;
/// tx.commit()?;
/// scan.next_row()?; // the scan is the transaction's
/// # Ok(())
/// # }
/// ```
///
/// Nor can the session be used past it:
///
/// ```compile_fail,E0499
/// # use forebay_engine::{EngineError, Session};
/// # fn f(session: &mut Session) -> Result<(), EngineError> {
/// let mut tx = session.transaction()?;
/// session.begin()?; // the session is lent to the transaction
/// tx.commit()
/// # }
/// ```
#[derive(Debug)]
pub struct Transaction<'s> {
    session: &'s mut Session,
    /// A statement has failed.
    failed: bool,
}

/// A statement of a transaction: it sees what earlier ones did. Each table is locked before it is
/// used.
#[derive(Debug)]
pub struct Statement<'t> {
    session: &'t mut Session,
    failed: &'t mut bool,
}

/// A scan of a table by a statement.
#[derive(Debug)]
pub struct Scan<'t> {
    scan: HeapScan,
    session: &'t mut Session,
    failed: &'t mut bool,
}

impl Session {
    /// Starts a transaction. An error if the lower interface has left one open.
    pub fn transaction(&mut self) -> Result<Transaction<'_>, EngineError> {
        self.begin()?;
        Ok(Transaction { session: self, failed: false })
    }
}

impl Transaction<'_> {
    /// Starts a statement. 25P02 if an earlier one has failed.
    pub fn statement(&mut self) -> Result<Statement<'_>, EngineError> {
        self.check_not_failed()?;
        self.session.end_command();
        self.session.start_command()?;
        Ok(Statement { session: self.session, failed: &mut self.failed })
    }

    /// Commits: durable on return. A transaction with a failed statement is aborted instead
    /// (25P02).
    pub fn commit(self) -> Result<(), EngineError> {
        self.check_not_failed()?;
        self.session.commit()
    }

    /// Aborts.
    pub fn abort(self) -> Result<(), EngineError> {
        self.session.abort()
    }

    fn check_not_failed(&self) -> Result<(), EngineError> {
        if !self.failed {
            return Ok(());
        }
        let message =
            "current transaction is aborted, commands ignored until end of transaction block";
        Err(EngineError::statement("25P02", message))
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // After commit and abort there is none.
        if let Err(error) = self.session.abort() {
            tracing::warn!("{error}");
        }
    }
}

/// Marks the transaction failed if a call has.
fn noting<T>(failed: &mut bool, result: Result<T, EngineError>) -> Result<T, EngineError> {
    *failed |= result.is_err();
    result
}

impl Statement<'_> {
    /// Finds and locks a table (42P01 if there is none), seeing changes committed while waiting for
    /// the lock.
    pub fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Arc<Table>, EngineError> {
        noting(self.failed, self.session.open_table(schema, name, mode))
    }

    /// The tables of the database, catalogs included.
    pub fn tables(&mut self) -> Result<Vec<Arc<Table>>, EngineError> {
        noting(self.failed, self.session.tables())
    }

    /// Creates a table (schema None: public). 42P07 if the name is taken.
    pub fn create_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        columns: &[ColumnDef],
    ) -> Result<Oid, EngineError> {
        noting(self.failed, self.session.create_table(schema, name, columns))
    }

    /// Creates a temporary table. 42P07 if the session has one of that name.
    pub fn create_temp_table(
        &mut self,
        name: &str,
        columns: &[ColumnDef],
        on_commit: OnCommit,
    ) -> Result<Oid, EngineError> {
        noting(self.failed, self.session.create_temp_table(name, columns, on_commit))
    }

    /// Drops a table.
    pub fn drop_table(&mut self, table: &Table) -> Result<(), EngineError> {
        noting(self.failed, self.session.drop_table(table))
    }

    /// Inserts the rows of a batch and empties it; the number of rows. The table must be locked in
    /// mode `RowExclusive`.
    pub fn insert_batch(&mut self, table: &Table, rows: &mut RowBatch) -> Result<u64, EngineError> {
        noting(self.failed, self.session.insert_batch(table, rows))
    }

    /// The number of rows a scan would return, without looking into them.
    pub fn count_rows(&mut self, table: &Table) -> Result<u64, EngineError> {
        noting(self.failed, self.session.count_rows(table))
    }

    /// Starts a scan of what the statement sees. The table must be locked.
    pub fn scan(&mut self, table: &Arc<Table>) -> Result<Scan<'_>, EngineError> {
        let scan = noting(self.failed, self.session.scan(table))?;
        Ok(Scan { scan, session: self.session, failed: self.failed })
    }
}

impl Scan<'_> {
    /// The next row.
    pub fn next_row(&mut self) -> Result<Option<RowView<'_>>, EngineError> {
        noting(self.failed, self.scan.next(self.session))
    }
}
