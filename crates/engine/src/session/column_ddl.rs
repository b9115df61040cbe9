//! ALTER TABLE: columns get another type, become identity columns, change what they are generated
//! of.

use std::sync::Arc;

use forebay_catalog::{self as catalog, Column, NewType, StoredExpr, Table};
use forebay_txn::locks::{LockMode, LockTag};
use forebay_types::{Datum, Oid};

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// The checks that read a column whose type is to change, by OID. 0A000 if something depends on
    /// it that cannot follow.
    pub fn checks_to_follow(
        &mut self,
        table: &Table,
        column: &Column,
    ) -> Result<Vec<Oid>, EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::checks_to_follow(&core.database, backend, tx, table, column)?)
        })
    }

    /// Gives a column another type. `missing`: the value of rows that are older than the column, if
    /// they stay as they are.
    pub fn set_column_type(
        &mut self,
        table: &Table,
        new: NewType,
        missing: Option<&Datum<'_>>,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::set_column_type(&core.database, backend, tx, (table, new), missing)?)
        })
    }

    /// Lets the indexes of a table follow the types of its columns. `old`: the table before.
    /// Returns those whose entries have to be made anew, by OID.
    pub fn follow_types(
        &mut self,
        old: &Table,
        new: &Table,
        columns: &[i16],
    ) -> Result<Vec<Oid>, EngineError> {
        self.call(|session, core| {
            session.check_altered(new)?;
            for index in &old.indexes {
                let tag = LockTag::Relation { database: core.database.oid, relation: index.oid };
                session.lock(core, tag, LockMode::AccessExclusive)?;
            }
            let (tx, backend) = session.changing()?;
            Ok(catalog::follow_types(&core.database, backend, tx, (old, new), columns)?)
        })
    }

    /// Builds indexes of a table, by OID, anew. The table has been written anew, or their keys have
    /// other types.
    pub fn rebuild_indexes(
        &mut self,
        table: &Arc<Table>,
        wanted: impl Fn(Oid) -> bool,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            for index in table.indexes.iter().filter(|index| wanted(index.oid)) {
                session.rebuild(core, table, index)?;
            }
            Ok(())
        })
    }

    /// Gives a table that may need one now a TOAST table.
    pub fn ensure_toast_table(&mut self, table: &Table) -> Result<(), EngineError> {
        self.call(|session, core| {
            if table.toasting.relation.is_some() {
                return Ok(());
            }
            let columns = session.column_defs(core, table)?;
            session.create_toast(core, (table.oid, table.place()), &columns, &[])
        })
    }

    /// Replaces the condition of a check, by its OID.
    pub fn set_check_condition(
        &mut self,
        table: &Table,
        check: Oid,
        condition: &StoredExpr,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            let of = (table, check);
            Ok(catalog::set_check_condition(&core.database, backend, tx, of, condition)?)
        })
    }

    /// Replaces a column's default or, by `generated`, what it is generated of.
    pub fn replace_default(
        &mut self,
        table: &Table,
        column: i16,
        value: (&StoredExpr, bool),
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            session.lock_sequences_of(core, [value.0].into_iter())?;
            let (tx, backend) = session.changing()?;
            let of = (table, column);
            Ok(catalog::replace_default(&core.database, backend, tx, of, value)?)
        })
    }

    /// Makes a column an identity column (a: always, d: by default).
    pub fn set_identity(
        &mut self,
        table: &Table,
        column: i16,
        identity: u8,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::set_identity(&core.database, backend, tx, (table, column), identity)?)
        })
    }

    /// Makes an identity column a plain one. Its sequence goes.
    pub fn drop_identity(&mut self, table: &Table, column: i16) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let sequences = session.sequences_of(core, table.oid)?;
            let (tx, backend) = session.changing()?;
            catalog::set_identity(&core.database, backend, tx, (table, column), 0)?;
            for (sequence, _) in sequences.into_iter().filter(|(_, of)| *of == column) {
                let info = session.lock_sequence(core, sequence, LockMode::AccessExclusive)?;
                let (tx, backend) = session.changing()?;
                let database = &core.database;
                catalog::set_sequence_owner(database, backend, tx, sequence, None)?;
                let of = (sequence, info.name.as_str());
                catalog::drop_sequence(database, backend, tx, of, false)?;
                session.note_temp_dropped(sequence);
            }
            Ok(())
        })
    }

    /// Makes a generated column a plain one. Its values stay.
    pub fn drop_expression(&mut self, table: &Table, column: i16) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.check_altered(table)?;
            let (tx, backend) = session.changing()?;
            Ok(catalog::drop_expression(&core.database, backend, tx, (table, column))?)
        })
    }
}
