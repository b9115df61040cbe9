//! Transactions and statements as types: wrong orders of calls do not compile.
//!
//! ```text
//! Session ─ transaction() ─▶ Transaction ─ statement() ─▶ Statement ─ scan() ─▶ Scan ─▶ RowView
//!                            commit(), abort(); dropped: aborted
//!                            │
//!                            └ savepoint() ─▶ Savepoint ─ statement() ─▶ …
//!                                             release(), rollback(); dropped: rolled back
//! ```
//!
//! Each borrows the one before. So there is one statement at a time, and no row, scan or statement
//! is left when the transaction or the savepoint ends. A statement that failed leaves nothing but
//! the abort of the transaction, or the rollback of a savepoint, as in PostgreSQL.

use std::sync::Arc;

use forebay_catalog::{ColumnDef, Table};
use forebay_format::ItemPointer;
use forebay_format::tuple::LockStrength;
use forebay_txn::locks::LockMode;
use forebay_types::{Datum, Oid};

use super::changes::{RowOutcome, RowWait};
use super::open::Isolation;
use super::rows::RowBatch;
use super::scan::HeapScan;
use super::state::Session;
use super::stored::{RowView, StoredRow};
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

/// A savepoint of a transaction: what is done from here on can be rolled back alone. Dropped, it is
/// rolled back.
///
/// ```
/// # use forebay_engine::types::oids;
/// # use forebay_engine::{
/// #     ColumnDef, Datum, Engine, EngineConfig, InitOptions, LockMode, RowBatch, RowOutcome,
/// # };
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().join("data");
/// # Engine::init(&dir, &InitOptions::default())?;
/// # let engine = Engine::open(&dir, EngineConfig::default())?;
/// # let mut session = engine.session()?;
/// let mut tx = session.transaction()?;
/// tx.statement()?.create_table(None, "t", &[ColumnDef::new("a", oids::INT4)])?;
/// let mut insert = tx.statement()?;
/// let table = insert.open_table(None, "t", LockMode::RowExclusive)?;
/// let place = insert.insert_row(&table, &[Datum::Int4(1)])?;
///
/// let mut savepoint = tx.savepoint()?;
/// let outcome = savepoint.statement()?.update_row(&table, place, &[Datum::Int4(2)])?;
/// assert!(matches!(outcome, RowOutcome::Done(_)));
/// savepoint.rollback()?;
///
/// let mut select = tx.statement()?;
/// let row = select.fetch_row(&table, place)?.ok_or("it is there")?;
/// assert_eq!(row.view().decode()?, [Datum::Int4(1)]);
/// tx.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Savepoint<'t> {
    session: &'t mut Session,
    /// A statement since the savepoint has failed.
    failed: bool,
    /// Whether it is open.
    open: bool,
    /// The transaction, or the savepoint around this one, has failed.
    around: &'t mut bool,
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

/// Starts a statement. 25P02 if an earlier one has failed.
fn statement<'t>(
    session: &'t mut Session,
    failed: &'t mut bool,
) -> Result<Statement<'t>, EngineError> {
    check_not_failed(*failed)?;
    session.end_command();
    session.start_command()?;
    Ok(Statement { session, failed })
}

/// Sets a savepoint. 25P02 if a statement has failed.
fn savepoint<'t>(
    session: &'t mut Session,
    around: &'t mut bool,
) -> Result<Savepoint<'t>, EngineError> {
    check_not_failed(*around)?;
    session.end_command();
    session.begin_subtransaction()?;
    Ok(Savepoint { session, failed: false, open: true, around })
}

fn check_not_failed(failed: bool) -> Result<(), EngineError> {
    if !failed {
        return Ok(());
    }
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    Err(EngineError::statement("25P02", message))
}

impl Transaction<'_> {
    /// Sets the isolation level: READ COMMITTED at first. 25001 after the first read.
    pub fn set_isolation(&mut self, level: Isolation) -> Result<(), EngineError> {
        self.session.set_isolation(level)
    }

    /// Starts a statement. 25P02 if an earlier one has failed.
    pub fn statement(&mut self) -> Result<Statement<'_>, EngineError> {
        statement(self.session, &mut self.failed)
    }

    /// Sets a savepoint. 25P02 if a statement has failed.
    pub fn savepoint(&mut self) -> Result<Savepoint<'_>, EngineError> {
        savepoint(self.session, &mut self.failed)
    }

    /// Commits: durable on return. A transaction with a failed statement is aborted instead
    /// (25P02).
    pub fn commit(self) -> Result<(), EngineError> {
        check_not_failed(self.failed)?;
        self.session.commit()
    }

    /// Aborts.
    pub fn abort(self) -> Result<(), EngineError> {
        self.session.abort()
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

impl Savepoint<'_> {
    /// Starts a statement. 25P02 if one since the savepoint has failed.
    pub fn statement(&mut self) -> Result<Statement<'_>, EngineError> {
        statement(self.session, &mut self.failed)
    }

    /// Sets a savepoint within this one. 25P02 if a statement has failed.
    pub fn savepoint(&mut self) -> Result<Savepoint<'_>, EngineError> {
        savepoint(self.session, &mut self.failed)
    }

    /// Ends the savepoint: what was done since is the transaction's, and commits or aborts with it.
    /// Rolled back instead, with 25P02, if a statement has failed.
    pub fn release(mut self) -> Result<(), EngineError> {
        check_not_failed(self.failed)?;
        self.open = false;
        noting(self.around, self.session.commit_subtransaction())
    }

    /// Undoes what was done since the savepoint: rows, tables, locks.
    pub fn rollback(mut self) -> Result<(), EngineError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), EngineError> {
        self.open = false;
        noting(self.around, self.session.abort_subtransaction())
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if self.open
            && let Err(error) = self.undo()
        {
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

    /// Empties a table. It must be locked in mode `AccessExclusive`.
    pub fn truncate(&mut self, table: &Table) -> Result<(), EngineError> {
        noting(self.failed, self.session.truncate(table))
    }

    /// Inserts the rows of a batch and empties it; the number of rows. The table must be locked in
    /// mode `RowExclusive`.
    pub fn insert_batch(&mut self, table: &Table, rows: &mut RowBatch) -> Result<u64, EngineError> {
        noting(self.failed, self.session.insert_batch(table, rows))
    }

    /// Inserts a row, and returns its place. The table must be locked in mode `RowExclusive`.
    pub fn insert_row(
        &mut self,
        table: &Arc<Table>,
        values: &[Datum<'_>],
    ) -> Result<ItemPointer, EngineError> {
        noting(self.failed, self.session.insert_row(table, values))
    }

    /// Replaces a version of a row that the statement sees, waiting for whoever holds it. The table
    /// must be locked in mode `RowExclusive`.
    pub fn update_row(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
        values: &[Datum<'_>],
    ) -> Result<RowOutcome, EngineError> {
        noting(self.failed, self.session.update_row(table, place, values))
    }

    /// Deletes a version of a row that the statement sees, waiting for whoever holds it. The table
    /// must be locked in mode `RowExclusive`.
    pub fn delete_row(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
    ) -> Result<RowOutcome, EngineError> {
        noting(self.failed, self.session.delete_row(table, place))
    }

    /// Locks a version of a row that the statement sees, to the end of the transaction. The table
    /// must be locked in mode `RowShare`.
    pub fn lock_row(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
        strength: LockStrength,
        wait: RowWait,
    ) -> Result<RowOutcome, EngineError> {
        noting(self.failed, self.session.lock_row(table, place, strength, wait))
    }

    /// The version of a row at a place, if the statement sees it. The table must be locked.
    pub fn fetch_row(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
    ) -> Result<Option<StoredRow>, EngineError> {
        noting(self.failed, self.session.fetch_row(table, place))
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

    /// The statement, to change rows that the scan has found. It does not find their new versions.
    pub fn statement(&mut self) -> Statement<'_> {
        Statement { session: self.session, failed: self.failed }
    }
}
