//! ALTER TABLE: identity columns, and what columns are generated of.

use super::alter_columns::{VIRTUAL_NOT_NULL, column_of};
use super::sink::RowSink;
use super::state::Connection;
use crate::analyze::Scope;
use crate::error::{Result, SqlError, state};
use crate::parse::{SequenceClauses, Source};
use crate::plan::{Catalog, ParamTypes, Planner, StoredColumn, live_columns};
use forebay_engine::{Column, Oid, SequenceOptions, SequencePersistence, Table};
use forebay_types::Datum;
use sqlparser::ast;

fn refused(table: &Table, column: &str, what: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{}\" {what}", table.name);
    SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

fn code(always: bool) -> u8 {
    if always { b'a' } else { b'd' }
}

impl Connection {
    /// ADD GENERATED ... AS IDENTITY.
    pub(super) fn add_identity(
        &mut self,
        table: Oid,
        name: &str,
        (always, clauses): (bool, &SequenceClauses),
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if !column.not_null {
            let what = "must be declared NOT NULL before identity can be added";
            return Err(refused(&table, name, what));
        }
        if column.is_identity {
            return Err(refused(&table, name, "is already an identity column"));
        }
        if column.has_default {
            return Err(refused(&table, name, "already has a default value"));
        }
        let number = column.attnum;
        let type_oid = clauses.options.type_oid.unwrap_or(column.type_oid);
        let options = SequenceOptions { type_oid: Some(type_oid), ..clauses.options.clone() };
        let schema = Some(table.schema.as_str());
        let persistence = SequencePersistence::of_table(table.place());
        self.host.call(|session| {
            let of = (table.name.as_str(), name);
            let sequence =
                session.create_column_sequence(schema, of, &options, (true, persistence))?;
            session.attach_sequence(sequence, (table.oid, number), true)?;
            session.set_identity(&table, number, code(always))
        })
    }

    /// SET GENERATED, SET and RESTART of an identity column.
    pub(super) fn change_identity(
        &mut self,
        table: Oid,
        name: &str,
        (always, clauses): (Option<bool>, &SequenceClauses),
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if !column.is_identity {
            return Err(refused(&table, name, "is not an identity column"));
        }
        let number = column.attnum;
        if !clauses.options.is_empty() {
            let sequence = self.host.owned_sequence(table.oid, number)?;
            let sequence = sequence.ok_or_else(|| {
                let message = format!("no owned sequence found for column \"{name}\"");
                SqlError::new(state::INTERNAL_ERROR, message)
            })?;
            self.host.call(|session| session.alter_sequence(sequence, &clauses.options))?;
        }
        match always {
            Some(always) => {
                self.host.call(|session| session.set_identity(&table, number, code(always)))
            }
            None => Ok(()),
        }
    }

    /// DROP IDENTITY.
    pub(super) fn drop_identity(
        &mut self,
        table: Oid,
        (name, if_exists): (&str, bool),
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if !column.is_identity {
            return absent(refused(&table, name, "is not an identity column"), if_exists, sink);
        }
        let number = column.attnum;
        self.host.call(|session| session.drop_identity(&table, number))
    }

    /// DROP EXPRESSION.
    pub(super) fn drop_expression(
        &mut self,
        table: Oid,
        (name, if_exists): (&str, bool),
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        match column.generated {
            0 => {
                let error = refused(&table, name, "is not a generated column");
                return absent(error, if_exists, sink);
            }
            b'v' => {
                let message = "ALTER TABLE / DROP EXPRESSION is not supported for virtual \
                               generated columns";
                return Err(virtual_column(&table, column, message));
            }
            _ => {}
        }
        let number = column.attnum;
        self.host.call(|session| session.drop_expression(&table, number))
    }

    /// SET EXPRESSION: the rows get new values.
    pub(super) fn set_expression(
        &mut self,
        table: Oid,
        (name, expr): (&str, &ast::Expr),
        source: &Source,
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if column.generated == 0 {
            return Err(refused(&table, name, "is not a generated column"));
        }
        let is_virtual = column.generated == b'v';
        if is_virtual && !table.checks.is_empty() {
            let message = "ALTER TABLE / SET EXPRESSION is not supported for virtual generated \
                           columns in tables with check constraints";
            return Err(virtual_column(&table, column, message));
        }
        if is_virtual && column.not_null {
            return Err(SqlError::unsupported(VIRTUAL_NOT_NULL));
        }
        let scope = Scope { system: Vec::new(), ..Scope::of_table(&table) };
        let of = StoredColumn { name, type_oid: column.type_oid, typmod: column.typmod };
        let generated: Vec<i16> =
            live_columns(&table).filter(|c| c.generated != 0).map(|c| c.attnum).collect();
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let stored = planner.stored_generation(expr, of, (&scope, generated.as_slice()))?;
        let number = column.attnum;
        self.host.call(|session| session.replace_default(&table, number, (&stored, true)))?;
        if is_virtual {
            return Ok(());
        }
        self.rewrite_rows(&table, source, &mut |row, _| Ok::<Vec<Datum<'_>>, _>(row.to_vec()))
    }
}

fn virtual_column(table: &Table, column: &Column, message: &str) -> SqlError {
    let detail = format!(
        "Column \"{}\" of relation \"{}\" is a virtual generated column.",
        column.name, table.name
    );
    SqlError::new(state::FEATURE_NOT_SUPPORTED, message).detail(detail)
}

/// With IF EXISTS a notice instead of the error.
fn absent(error: SqlError, if_exists: bool, sink: &mut dyn RowSink) -> Result<()> {
    if !if_exists {
        return Err(error);
    }
    let message = format!("{}, skipping", error.message);
    sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message))
}
