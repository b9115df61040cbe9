//! ALTER TABLE: columns, defaults and checks of tables that are there.
//!
//! The transaction has locked the table in mode `AccessExclusive`. Each call finds the table as the
//! calls before have left it.

use std::sync::Arc;

use forebay_catalog::{self as catalog, CheckDef, ColumnDef, Going, Reader, StoredExpr, Table};
use forebay_types::{Datum, Oid};

use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Gives a column, by its number, a default, or takes it away.
    pub fn set_default(
        &mut self,
        table: &Table,
        column: i16,
        default: Option<&StoredExpr>,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_sequences_of(core, default.into_iter())?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::set_default(&core.database, backend, tx, (table, column), default)?)
        })
    }

    /// Adds a check. Whether the rows hold it is for the caller to see. Returns its name.
    pub fn add_check(&mut self, table: &Table, def: &CheckDef) -> Result<String, EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_sequences_of(core, [&def.condition].into_iter())?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::add_check(&core.database, backend, tx, table, def)?)
        })
    }

    /// Notes that all rows hold a constraint, by its OID.
    pub fn validate_constraint(
        &mut self,
        table: &Table,
        constraint: Oid,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_own_to("alter", table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::validate_constraint(&core.database, backend, tx, constraint)?)
        })
    }

    /// Lets a column refuse NULL. 23502 if a row has one.
    pub fn set_not_null(&mut self, table: &Arc<Table>, column: i16) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let name = column_name(table, column)?;
            session.refuse_nulls(core, table, &[column])?;
            let (tx, backend) = session.changing()?;
            let of = (&**table, column, name);
            Ok(catalog::add_not_null_constraint(&core.database, backend, tx, of, None)?)
        })
    }

    /// The name of the constraint that lets a column refuse NULL.
    pub fn not_null_constraint(
        &mut self,
        table: &Table,
        column: i16,
    ) -> Result<Option<String>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.not_null_constraint(table.oid, column)?)
        })
    }

    /// Adds a column. `missing`: the value of rows that are there. Returns its number.
    pub fn add_column(
        &mut self,
        table: &Table,
        def: &ColumnDef,
        missing: Option<&Datum<'_>>,
    ) -> Result<i16, EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_collations(core, def.collation.into_iter())?;
            session.lock_sequences_of(core, def.default.iter())?;
            let (tx, backend) = session.changing()?;
            let number = catalog::add_column(&core.database, backend, tx, (table, def), missing)?;
            if table.toasting.relation.is_none() {
                let columns = session.columns_of(core, table.oid)?;
                session.create_toast(core, (table.oid, table.place()), &columns, &[])?;
            }
            Ok(number)
        })
    }

    fn columns_of(&mut self, core: &InDatabase, table: Oid) -> Result<Vec<ColumnDef>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let table = Reader::new(&core.database, &mut self.backend, snapshot).table_by_oid(table)?;
        let table = table.ok_or_else(|| EngineError::internal("the table is gone"))?;
        self.column_defs(core, &table)
    }

    /// What follows in the statement sees what it has done so far.
    pub fn see_own_changes(&mut self) -> Result<(), EngineError> {
        let open = self.running()?;
        open.tx.next_command()?;
        open.snapshots.next_statement();
        open.forget_tables();
        Ok(())
    }

    /// Empties a table whose rows are to be written anew, with a value for each column.
    pub fn empty_to_rewrite(&mut self, table: &Table) -> Result<(), EngineError> {
        self.truncate(table)?;
        self.call(|session, core| {
            let (tx, backend) = session.changing()?;
            Ok(catalog::complete_rows(&core.database, backend, tx, table)?)
        })
    }

    /// Renames a column.
    pub fn rename_column(
        &mut self,
        table: &Table,
        column: i16,
        name: &str,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::rename_column(&core.database, backend, tx, (table, column), name)?)
        })
    }

    /// Drops a column, with what belongs to it; with `cascade` also what else depends on it.
    /// Returns what went along, in words.
    pub fn drop_column(
        &mut self,
        table: &Table,
        column: i16,
        cascade: bool,
    ) -> Result<Vec<String>, EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_what_goes(core, Going::Column(table.oid, column))?;
            let (tx, backend) = session.changing()?;
            let of = (table, column);
            let (gone, told) = catalog::drop_column(&core.database, backend, tx, of, cascade)?;
            gone.into_iter().for_each(|relation| session.note_temp_dropped(relation));
            Ok(told.0)
        })
    }

    /// Renames a table. 42P07 if the name is taken.
    pub fn rename_table(&mut self, table: &Table, name: &str) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_free_name(core, table.namespace, name)?;
            let (tx, backend) = session.changing()?;
            catalog::rename_relation(&core.database, backend, tx, (table.oid, name))?;
            session.note_temp_renamed(table.oid, name);
            Ok(())
        })
    }
}

fn column_name(table: &Table, number: i16) -> Result<&str, EngineError> {
    let column = table.columns.iter().find(|column| column.attnum == number);
    let column = column.ok_or_else(|| EngineError::internal("the column is gone"))?;
    Ok(&column.name)
}
