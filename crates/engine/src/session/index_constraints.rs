//! ALTER TABLE ... ADD PRIMARY KEY or UNIQUE USING INDEX.

use std::sync::Arc;

use forebay_catalog::ddl;
use forebay_catalog::{self as catalog, ConstraintKind, Table, TableIndex};
use forebay_txn::locks::LockMode;
use forebay_types::Datum;

use super::indexes::contains_null;
use super::state::Session;
use super::stored::RowView;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Finds the index of a table that is to become a constraint's. The transaction has locked the
    /// table in mode `AccessExclusive`.
    ///
    /// # Errors
    /// PostgreSQL's: 42704, 42809, 55000.
    pub fn index_to_constrain(
        &mut self,
        table: &Table,
        name: &str,
    ) -> Result<Arc<TableIndex>, EngineError> {
        self.call(|session, core| {
            session.check_own(table)?;
            session.check_locked(table, LockMode::AccessExclusive)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::find_constraint_index(&core.database, backend, tx, table, name)?)
        })
    }

    /// Makes a constraint of that index, which gets the constraint's name.
    ///
    /// # Errors
    /// PostgreSQL's: 42P07, 42P16, 23502, 23505.
    pub fn constrain_index(
        &mut self,
        table: &Arc<Table>,
        index: &TableIndex,
        (name, kind): (&str, ConstraintKind),
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_locked(table, LockMode::AccessExclusive)?;
            session.lock(
                core,
                ddl::name_lock(core.database.oid, table.namespace, name),
                LockMode::AccessExclusive,
            )?;
            let (tx, backend) = session.changing()?;
            let (of, what) = ((&**table, index), (name, kind));
            let not_null = catalog::constrain_index(&core.database, backend, tx, of, what)?;
            session.refuse_nulls(core, table, &not_null)
        })
    }

    /// Fails if a row has a NULL in one of these columns, by number.
    pub(super) fn refuse_nulls(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        columns: &[i16],
    ) -> Result<(), EngineError> {
        if columns.is_empty() {
            return Ok(());
        }
        // Nobody changes the table: what is committed now stays. The statement itself may have
        // written its rows anew.
        self.running()?.tx.next_command()?;
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let (ahead, heap) = (self.read_ahead(), self.heap(core, table)?);
        let wanted: Vec<bool> =
            table.columns.iter().map(|column| columns.contains(&column.attnum)).collect();
        let mut scan = heap.scan(snapshot, ahead)?;
        while let Some(rows) = scan.next_page(&mut self.backend)? {
            self.check_cancel()?;
            for row in 0..rows {
                let mut values = Vec::with_capacity(wanted.len());
                let view = RowView::new(table, scan.tuple(row), scan.tuple_id(row));
                view.decode_wanted(&wanted, &wanted, &mut values)?;
                let null = |(n, value): (usize, &Datum<'_>)| wanted[n] && *value == Datum::Null;
                if let Some(column) = values.iter().enumerate().position(null) {
                    return Err(contains_null(table, column));
                }
            }
        }
        Ok(())
    }
}
