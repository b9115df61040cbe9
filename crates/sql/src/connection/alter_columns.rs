//! ALTER TABLE: columns, defaults, checks and names.
//!
//! As in PostgreSQL, the parts of a statement run in an order of their own: first what is dropped,
//! then types, new columns, NOT NULL, keys, checks and defaults, and at last the rest. New columns
//! with a value for each row of its own are filled by writing the rows anew, into new files.

use super::indexes::distinct_keys;
use super::objects::cascades;
use super::sink::RowSink;
use super::state::Connection;
use super::table_columns::{ColumnSequence, NewParts};
use crate::analyze::{Scope, SystemColumn};
use crate::error::{Result, SqlError, state};
use crate::exec::eval;
use crate::parse::{AlterAction, CheckClause, NewTableColumn, RenameAction, Source};
use crate::plan::{Catalog, Expr, ParamTypes, Planner, StoredColumn, live_columns};
use forebay_engine::{Column, Oid, Table};
use forebay_types::Datum;
use std::sync::Arc;

/// Steps of an ALTER TABLE, in their order. Keys come between `NotNull` and `Conditions`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    Drop,
    Type,
    Add,
    Expression,
    NotNull,
    Conditions,
    Misc,
}

/// What is refused: the rows would have to be tested.
pub(super) const VIRTUAL_NOT_NULL: &str = "NOT NULL of a virtual generated column in ALTER TABLE";

impl Connection {
    /// Runs the actions of a pass. As in PostgreSQL, errors point at no place in the statement, but
    /// for those of types.
    pub(super) fn alter_pass(
        &mut self,
        pass: Pass,
        of: (Oid, &[AlterAction]),
        source: &Source,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        if pass == Pass::Type {
            return self.alter_types(of.0, of.1, source);
        }
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
                (Pass::Drop, AlterAction::DropColumn { column, if_exists, cascade }) => {
                    self.drop_column(table, column, (*if_exists, *cascade), sink)?;
                }
                (Pass::Drop, AlterAction::DropIdentity { column, if_exists }) => {
                    self.drop_identity(table, (column, *if_exists), sink)?;
                }
                (Pass::Drop, AlterAction::DropExpression { column, if_exists }) => {
                    self.drop_expression(table, (column, *if_exists), sink)?;
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
                (Pass::Expression, AlterAction::SetExpression { column, expr }) => {
                    self.set_expression(table, (column, expr), source)?;
                }
                (Pass::NotNull, AlterAction::SetNotNull { column, on: true }) => {
                    self.set_not_null(table, column)?;
                }
                (Pass::NotNull, AlterAction::AddNotNull { name, column, valid }) => {
                    self.add_not_null(table, column, (name.as_deref(), *valid))?;
                }
                (Pass::NotNull, AlterAction::SetIdentity { column, always, clauses }) => {
                    self.change_identity(table, column, (*always, clauses))?;
                }
                (Pass::Conditions, AlterAction::AddCheck(check)) => {
                    self.add_check(table, check, source)?;
                }
                (Pass::Conditions, AlterAction::SetDefault { column, default: Some(e) }) => {
                    self.set_column_default(table, column, Some(e), source)?;
                }
                (Pass::Conditions, AlterAction::AddIdentity { column, always, clauses }) => {
                    self.add_identity(table, column, (*always, clauses))?;
                }
                (Pass::Misc, AlterAction::Validate(name)) => {
                    self.validate_constraint(table, name)?;
                }
                (Pass::Misc, AlterAction::Owner(owner)) => self.table_owner(table, owner)?,
                (Pass::Misc, AlterAction::ReplicaIdentity(identity)) => {
                    self.replica_identity(table, identity)?;
                }
                (Pass::Misc, AlterAction::Cluster(index)) => {
                    self.cluster_on(table, index.as_deref())?;
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
        (if_exists, cascade): (bool, bool),
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
        let told = self.host.call(|session| session.drop_column(&table, number, cascade))?;
        cascades(sink, &told)
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
        let number = column.attnum;
        if column.generated == b'v' && !column.not_null {
            return Err(SqlError::unsupported(VIRTUAL_NOT_NULL));
        }
        if column.not_null {
            return self.validate_not_null(&table, None, [number].into_iter()).map(drop);
        }
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
            let instead = match (column.is_identity, default) {
                (true, None) => Some("DROP IDENTITY"),
                (false, Some(_)) => Some("SET EXPRESSION"),
                (false, None) if column.generated == b's' => Some("DROP EXPRESSION"),
                _ => None,
            };
            let hint = |how| format!("Use ALTER TABLE ... ALTER COLUMN ... {how} instead.");
            let error = SqlError::new(state::SYNTAX_ERROR, message);
            return Err(error.explained(None::<String>, instead.map(hint)));
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
            let columns = live_columns(&table).filter(|c| c.not_null).map(|c| c.attnum);
            if self.validate_not_null(&table, Some(name), columns)? {
                return Ok(());
            }
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
        self.test_rows(table.oid, name, &Source::printed(""))?;
        self.host.call(|session| session.validate_constraint(&table, oid))
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
        let filled = sequence.is_some() || def.generated == b's' || changes;
        let missing = match &def.default {
            Some(_) if !filled && def.generated == 0 => {
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
        self.rewrite_rows(&table, source, &mut |row, host| {
            let mut values: Vec<Datum<'static>> = row.to_vec();
            let value = eval(&default, &[], &[], host)?.into_owned();
            if let Some(slot) = values.get_mut(place) {
                *slot = value;
            }
            Ok(values)
        })
    }

    /// Runs ALTER TABLE ... RENAME of a table or a column.
    pub(super) fn rename(&mut self, table: &Arc<Table>, rename: &RenameAction) -> Result<()> {
        match rename {
            RenameAction::Constraint { name, to } => {
                self.host.call(|session| session.rename_constraint(table, name, to))
            }
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

/// The error of a name that no column has.
fn no_column(table: &Table, name: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
    SqlError::new(state::UNDEFINED_COLUMN, message)
}

/// The column of a name, which is no system column.
pub(super) fn column_of<'t>(table: &'t Table, name: &str) -> Result<&'t Column> {
    match table.column(name) {
        Some((_, column)) => Ok(column),
        None if SystemColumn::named(name).is_some() => {
            let message = format!("cannot alter system column \"{name}\"");
            Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message))
        }
        None => Err(no_column(table, name)),
    }
}
