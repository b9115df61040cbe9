//! ALTER TABLE: columns, defaults, checks and names.
//!
//! As in PostgreSQL, the parts of a statement run in an order of their own: first what is dropped,
//! then new columns, NOT NULL, keys, and at last checks and defaults. New columns with a value for
//! each row of its own are filled by writing the rows anew, into new files.

use super::indexes::distinct_keys;
use super::sink::RowSink;
use super::state::Connection;
use super::table_columns::{ColumnSequence, NewParts};
use crate::analyze::{Scope, SystemColumn};
use crate::error::{Result, SqlError, state};
use crate::exec::{Host, Loader, Row, RowStore, complete, eval};
use crate::parse::{AlterAction, CheckClause, NewTableColumn, RenameAction, Source};
use crate::plan::{Catalog, Expr, ParamTypes, Planner, StoredColumn, live_columns};
use forebay_engine::{Column, Oid, Part, Table};
use forebay_types::Datum;
use std::sync::Arc;

/// Steps of an ALTER TABLE, in their order. Keys come between `NotNull` and `Conditions`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Drop,
    Add,
    NotNull,
    Conditions,
}

impl Connection {
    /// Runs the actions of a pass. As in PostgreSQL, errors point at no place in the statement.
    pub(super) fn alter_pass(
        &mut self,
        pass: Pass,
        of: (Oid, &[AlterAction]),
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        self.run_pass(pass, of, source, sink).map_err(SqlError::unplaced)
    }

    fn run_pass(
        &mut self,
        pass: Pass,
        (table, actions): (Oid, &[AlterAction]),
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        for action in actions {
            match (pass, action) {
                (Pass::Drop, AlterAction::DropColumn { column, if_exists }) => {
                    self.drop_column(table, column, *if_exists, sink)?;
                }
                (Pass::Drop, AlterAction::SetNotNull { column, on: false }) => {
                    self.drop_not_null(table, column)?;
                }
                (Pass::Drop, AlterAction::SetDefault { column, default: None }) => {
                    self.set_column_default(table, column, None, source)?;
                }
                (Pass::Add, AlterAction::AddColumn { column, if_not_exists }) => {
                    self.add_column(table, column, *if_not_exists, source, sink)?;
                }
                (Pass::NotNull, AlterAction::SetNotNull { column, on: true }) => {
                    self.set_not_null(table, column)?;
                }
                (Pass::Conditions, AlterAction::AddCheck(check)) => {
                    self.add_check(table, check, source)?;
                }
                (Pass::Conditions, AlterAction::SetDefault { column, default: Some(e) }) => {
                    self.set_column_default(table, column, Some(e), source)?;
                }
                (Pass::Conditions, AlterAction::Validate(name)) => {
                    self.validate_constraint(table, name)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn drop_column(
        &mut self,
        table: Oid,
        name: &str,
        if_exists: bool,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.table_now(table)?;
        if table.column(name).is_none() {
            if SystemColumn::named(name).is_some() {
                let message = format!("cannot drop system column \"{name}\"");
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            let missing = no_column(&table, name);
            if !if_exists {
                return Err(missing);
            }
            let message = format!("{}, skipping", missing.message);
            return sink.notice(&SqlError::notice(state::SUCCESSFUL_COMPLETION, message));
        }
        let number = column_of(&table, name)?.attnum;
        self.host.call(|session| session.drop_column(&table, number))
    }

    fn drop_not_null(&mut self, table: Oid, name: &str) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if column.is_identity {
            let message =
                format!("column \"{name}\" of relation \"{}\" is an identity column", table.name);
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        if !column.not_null {
            return Ok(());
        }
        let number = column.attnum;
        let constraint = self.host.call(|session| session.not_null_constraint(&table, number))?;
        let constraint = constraint.ok_or_else(|| {
            let message = format!(
                "could not find not-null constraint on column \"{name}\", relation \"{}\"",
                table.name
            );
            SqlError::new(state::INTERNAL_ERROR, message)
        })?;
        self.host.call(|session| session.drop_constraint(&table, &constraint, false)).map(drop)
    }

    fn set_not_null(&mut self, table: Oid, name: &str) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if column.not_null {
            return Ok(());
        }
        let number = column.attnum;
        self.host.call(|session| session.set_not_null(&table, number))
    }

    fn set_column_default(
        &mut self,
        table: Oid,
        name: &str,
        default: Option<&sqlparser::ast::Expr>,
        source: &Source,
    ) -> Result<()> {
        let table = self.table_now(table)?;
        let column = column_of(&table, name)?;
        if column.is_identity || column.generated != 0 {
            let what = if column.is_identity { "an identity" } else { "a generated" };
            let message =
                format!("column \"{name}\" of relation \"{}\" is {what} column", table.name);
            return Err(SqlError::new(state::SYNTAX_ERROR, message));
        }
        let of = StoredColumn { name, type_oid: column.type_oid, typmod: column.typmod };
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let scope = Scope::of_table(&table);
        let stored = default.map(|e| planner.stored_default(e, of, &scope)).transpose()?.flatten();
        let number = column.attnum;
        self.host.call(|session| session.set_default(&table, number, stored.as_ref()))
    }

    fn add_check(&mut self, table: Oid, clause: &CheckClause, source: &Source) -> Result<()> {
        let table = self.table_now(table)?;
        let scope = Scope { system: Vec::new(), ..Scope::of_table(&table) };
        let def = self.check_def(clause, &scope, source, false)?;
        let name = self.host.call(|session| session.add_check(&table, &def))?;
        match def.validated {
            true => self.test_rows(table.oid, &name, source),
            false => Ok(()),
        }
    }

    fn validate_constraint(&mut self, table: Oid, name: &str) -> Result<()> {
        let table = self.table_now(table)?;
        if self.validate_foreign_key(&table, name)? {
            return Ok(());
        }
        let Some(check) = table.checks.iter().find(|check| check.name == name) else {
            if self.host.constraint_index(&table, name)?.is_some() {
                let message = format!(
                    "constraint \"{name}\" of relation \"{}\" is not a foreign key, check, or \
                     not-null constraint",
                    table.name
                );
                return Err(SqlError::new(state::WRONG_OBJECT_TYPE, message));
            }
            let message =
                format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
        };
        if !check.enforced {
            let message = "cannot validate NOT ENFORCED constraint";
            return Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        if check.validated {
            return Ok(());
        }
        let oid = check.oid;
        self.test_rows(table.oid, name, &Source::new("", None))?;
        self.host.call(|session| session.validate_constraint(&table, oid))
    }

    /// Tests a check, by its name, for all rows. 23514 if one breaks it.
    fn test_rows(&mut self, table: Oid, name: &str, source: &Source) -> Result<()> {
        let table = self.table_now(table)?;
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let rules = planner.row_rules(&table)?;
        let check = rules.as_ref().and_then(|rules| {
            rules.checks.iter().find(|(check, _)| check == name).map(|(_, check)| check)
        });
        let Some(check) = check else { return Ok(()) };
        each_row(&mut self.host, &table, &mut |row, host| match eval(check, row, &[], host)? {
            Datum::Bool(false) => {
                let message = format!(
                    "check constraint \"{name}\" of relation \"{}\" is violated by some row",
                    table.name
                );
                Err(SqlError::new("23514", message))
            }
            _ => Ok(()),
        })
    }

    fn add_column(
        &mut self,
        oid: Oid,
        new: &NewTableColumn,
        if_not_exists: bool,
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.table_now(oid)?;
        let name = &new.column.name;
        if table.column(name).is_some() {
            let message =
                format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if !if_not_exists {
                return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
            }
            let message = format!("{message}, skipping");
            return sink.notice(&SqlError::notice(state::DUPLICATE_COLUMN, message));
        }
        if SystemColumn::named(name).is_some() {
            let message = format!("column name \"{name}\" conflicts with a system column name");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
        }
        let NewParts { mut def, sequence, changes } = self.new_column_parts(&table, new, source)?;
        let refuses_null = std::mem::replace(&mut def.not_null, false);
        let filled = sequence.is_some() || def.generated != 0 || changes;
        let missing = match &def.default {
            Some(_) if !filled => {
                let mut params = ParamTypes::default();
                let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
                let value = planner.value_of_default(&def)?;
                let value = eval(&value, &[], &[], &mut self.host)?.into_owned();
                (!value.is_null()).then_some(value)
            }
            _ => None,
        };
        let number = self.host.call(|s| s.add_column(&table, &def, missing.as_ref()))?;
        if let Some(ColumnSequence { sequence, identity, .. }) = sequence {
            self.host.call(|s| s.attach_sequence(sequence, (oid, number), identity))?;
        }
        if filled {
            self.fill_column(oid, number, source)?;
        }
        if refuses_null {
            self.set_not_null(oid, name)?;
        }
        for key in distinct_keys(&new.keys) {
            self.add_key(&table, &key)?;
        }
        new.checks.iter().try_for_each(|check| self.add_check(oid, check, source))?;
        new.column.foreign_keys.iter().try_for_each(|key| self.add_foreign_key(oid, key, false))
    }

    /// Writes all rows of a table anew, with the values of a new column.
    fn fill_column(&mut self, table: Oid, number: i16, source: &Source) -> Result<()> {
        let table = self.table_now(table)?;
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let place = live_columns(&table).position(|column| column.attnum == number);
        let place = place.ok_or_else(|| no_column(&table, ""))?;
        let column = live_columns(&table).nth(place).ok_or_else(|| no_column(&table, ""))?;
        let default: Expr = planner.default_of(&table, column)?;
        let rules = planner.row_rules(&table)?;
        let mut rows = RowStore::new(&self.host);
        each_row(&mut self.host, &table, &mut |row, host| {
            rows.push(Row { values: row, ctid: None }, host)
        })?;
        if rows.len() == 0 {
            return Ok(());
        }
        rows.finish(&mut self.host)?;
        self.host.call(|session| session.empty_to_rewrite(&table))?;
        let table = self.table_now(table.oid)?;
        let mut loader = Loader::rewriting(&table);
        let mut index = 0;
        loop {
            let found = rows.get(index, &mut self.host)?;
            let Some(row) = found else { break };
            let mut values: Vec<Datum<'static>> =
                row.values.iter().map(|value| value.clone().into_owned()).collect();
            index += 1;
            let value = eval(&default, &[], &[], &mut self.host)?.into_owned();
            if let Some(slot) = values.get_mut(place) {
                *slot = value;
            }
            match &rules {
                Some(rules) => {
                    let values = complete(rules, &table, &values, &[], &mut self.host)?;
                    loader.push(&values)?;
                }
                None => loader.push(&values)?,
            }
            if loader.is_full() {
                loader.flush(&mut self.host)?;
            }
        }
        loader.flush(&mut self.host)
    }

    /// Runs ALTER TABLE ... RENAME of a table or a column.
    pub(super) fn rename(&mut self, table: &Arc<Table>, rename: &RenameAction) -> Result<()> {
        match rename {
            RenameAction::Table(name) => {
                self.host.call(|session| session.rename_table(table, name))
            }
            RenameAction::Column { column, to } => {
                if SystemColumn::named(column).is_some() {
                    let message = format!("cannot rename system column \"{column}\"");
                    return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
                }
                let found = table.column(column).map(|(_, column)| column.attnum);
                let number = found.ok_or_else(|| {
                    let message = format!("column \"{column}\" does not exist");
                    SqlError::new(state::UNDEFINED_COLUMN, message)
                })?;
                if table.column(to).is_some() {
                    let message =
                        format!("column \"{to}\" of relation \"{}\" already exists", table.name);
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                if SystemColumn::named(to).is_some() {
                    let message =
                        format!("column name \"{to}\" conflicts with a system column name");
                    return Err(SqlError::new(state::DUPLICATE_COLUMN, message));
                }
                self.host.call(|session| session.rename_column(table, number, to))
            }
        }
    }
}

/// Shows the values of the live columns of each row, none of them stored elsewhere.
fn each_row(
    host: &mut Host,
    table: &Arc<Table>,
    row: &mut dyn FnMut(&[Datum<'static>], &mut Host) -> Result<()>,
) -> Result<()> {
    let mut scan = host.call(|session| {
        session.see_own_changes()?;
        session.scan(table)
    })?;
    loop {
        let values = host.call(|session| -> Result<_> {
            let Some(found) = scan.next(session)? else { return Ok(None) };
            let values: Vec<Datum<'static>> =
                found.decode()?.into_iter().map(Datum::into_owned).collect();
            Ok(Some(values))
        })?;
        let Some(values) = values else { return Ok(()) };
        let mut live = Vec::with_capacity(values.len());
        for (value, column) in values.into_iter().zip(&table.columns).filter(|(_, c)| !c.dropped) {
            live.push(match value {
                Datum::Toasted(_) => host.fetch_value(&value, column.repr, Part::Whole)?,
                value => value,
            });
        }
        row(&live, host)?;
    }
}

/// The error of a name that no column has.
fn no_column(table: &Table, name: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
    SqlError::new(state::UNDEFINED_COLUMN, message)
}

fn column_of<'t>(table: &'t Table, name: &str) -> Result<&'t Column> {
    match table.column(name) {
        Some((_, column)) => Ok(column),
        None if SystemColumn::named(name).is_some() => {
            let message = format!("cannot alter system column \"{name}\"");
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
        }
        None => Err(no_column(table, name)),
    }
}
