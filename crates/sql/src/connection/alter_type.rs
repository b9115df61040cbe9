//! ALTER TABLE ... ALTER COLUMN ... TYPE.
//!
//! All columns of a statement change together, since what makes their values reads the rows as they
//! were. Rows are written anew if a stored value is another one under its new type.

use super::alter_columns::column_of;
use super::state::Connection;
use super::table_columns::stored_type_of;
use crate::analyze::{NamedType, Scope, collation_for};
use crate::error::{Result, SqlError, state};
use crate::exec::eval;
use crate::parse::{AlterAction, QualifiedName, Source, TypeName, parse_expression};
use crate::plan::{Catalog, Conversion, ParamTypes, Planner, live_columns, printed};
use forebay_engine::{Column, NewType, Oid, SequenceOptions, Table};
use forebay_types::{Datum, Repr, oids};
use sqlparser::ast;
use std::sync::Arc;

/// A column that gets another type.
struct Change {
    column: Column,
    new: NewType,
    conversion: Conversion,
}

/// A check that is analyzed anew: its OID, its name and its text.
type Followed = (Oid, String, String);

impl Connection {
    /// Runs the changes of types among the actions of a statement.
    pub(super) fn alter_types(
        &mut self,
        oid: Oid,
        actions: &[AlterAction],
        source: &Source,
    ) -> Result<()> {
        let old = self.table_now(oid)?;
        let mut changes: Vec<Change> = Vec::new();
        for action in actions {
            let AlterAction::ColumnType { column, ty, collation, using, position } = action else {
                continue;
            };
            let of = (column.as_str(), *position);
            let ty = (&**ty, collation.as_ref());
            let change = self.change_of(&old, of, (ty, using.as_ref()), source)?;
            if changes.iter().any(|other| other.new.column == change.new.column) {
                let message = format!("cannot alter type of column \"{column}\" twice");
                return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
            }
            changes.push(change);
        }
        if changes.is_empty() {
            return Ok(());
        }
        let rewrites = changes.iter().any(|change| change.conversion.rewrites);
        let checks = self.followed_checks(&old, &changes)?;
        for change in &changes {
            self.change_column(&old, change, rewrites)?;
        }
        let now = self.table_now(oid)?;
        let columns: Vec<i16> = changes.iter().map(|change| change.new.column).collect();
        let rebuilt = self.host.call(|session| session.follow_types(&old, &now, &columns))?;
        for (check, _, text) in &checks {
            self.follow_check(&now, *check, text)?;
        }
        if rewrites {
            return self.convert_rows(&old, &changes, source);
        }
        let now = self.table_now(oid)?;
        self.host.call(|session| session.ensure_toast_table(&now))?;
        let now = self.table_now(oid)?;
        self.host.call(|s| s.rebuild_indexes(&now, |index| rebuilt.contains(&index)))?;
        let holds = |name: &String| {
            now.checks.iter().any(|check| check.name == *name && check.enforced && check.validated)
        };
        for (_, name, _) in checks.iter().filter(|(_, name, _)| holds(name)) {
            self.test_rows(oid, name, source)?;
        }
        Ok(())
    }

    fn change_of(
        &mut self,
        table: &Arc<Table>,
        (name, position): (&str, u32),
        ((ty, collation), using): ((&TypeName, Option<&QualifiedName>), Option<&ast::Expr>),
        source: &Source,
    ) -> Result<Change> {
        let found = column_of(table, name).map_err(|error| match error.sqlstate {
            state::FEATURE_NOT_SUPPORTED => error.at(position),
            _ => error,
        });
        let column = found?.clone();
        if column.generated != 0 && using.is_some() {
            let message = "cannot specify USING when altering type of generated column";
            let detail = format!("Column \"{name}\" is a generated column.");
            return Err(SqlError::new("42611", message).detail(detail).at(position));
        }
        let NamedType { oid: type_oid, typmod } = stored_type_of(name, ty, self.host.names())?;
        let collation = match collation {
            None => self.host.names().ty(type_oid)?.collation,
            Some(QualifiedName { schema, name, position }) => {
                let named = (schema.as_deref(), name.as_str());
                collation_for(self.host.names(), named, type_oid, *position)?
            }
        };
        if column.is_identity && ![oids::INT2, oids::INT4, oids::INT8].contains(&type_oid) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let conversion = planner.conversion(table, &column, (type_oid, typmod), using)?;
        let new = NewType { column: column.attnum, type_oid, typmod, collation };
        Ok(Change { column, new, conversion })
    }

    /// The checks that read the columns, with their texts.
    fn followed_checks(&mut self, table: &Arc<Table>, changes: &[Change]) -> Result<Vec<Followed>> {
        let mut followed: Vec<Followed> = Vec::new();
        for Change { column, .. } in changes {
            for oid in self.host.call(|session| session.checks_to_follow(table, column))? {
                let check = table.checks.iter().find(|check| check.oid == oid);
                let Some(check) = check else { continue };
                if followed.iter().any(|(known, ..)| *known == oid) {
                    continue;
                }
                let what = format!("check \"{}\" of relation \"{}\"", check.name, table.name);
                let text = printed(self.host.names(), table, check.tree.as_ref(), &what)?;
                followed.push((oid, check.name.clone(), text));
            }
        }
        Ok(followed)
    }

    fn follow_check(&mut self, table: &Table, check: Oid, text: &str) -> Result<()> {
        let (expr, source) = parse_expression(text)?;
        let scope = Scope { system: Vec::new(), ..Scope::of_table(table) };
        let mut params = ParamTypes::default();
        let mut planner = Planner { source: &source, catalog: &mut self.host, params: &mut params };
        let condition = planner.stored_check(&expr, &scope).map_err(SqlError::unplaced)?;
        self.host.call(|session| session.set_check_condition(table, check, &condition))
    }

    fn change_column(&mut self, table: &Arc<Table>, change: &Change, rewrites: bool) -> Result<()> {
        let Change { column, new, conversion } = change;
        let missing = match &column.missing {
            Some(bytes) if !rewrites => Some(Repr::of(new.type_oid).decode(bytes, table.encoding)?),
            _ => None,
        };
        self.host.call(|session| session.set_column_type(table, *new, missing.as_ref()))?;
        if let Some(default) = &conversion.default {
            let value = (default, column.generated != 0);
            self.host.call(|session| session.replace_default(table, new.column, value))?;
        }
        if column.is_identity
            && column.type_oid != new.type_oid
            && let Some(sequence) = self.host.owned_sequence(table.oid, new.column)?
        {
            let options =
                SequenceOptions { type_oid: Some(new.type_oid), ..SequenceOptions::default() };
            self.host.call(|session| session.alter_sequence(sequence, &options))?;
        }
        Ok(())
    }

    fn convert_rows(
        &mut self,
        old: &Arc<Table>,
        changes: &[Change],
        source: &Source,
    ) -> Result<()> {
        let place = |number| live_columns(old).position(|column| column.attnum == number);
        let values: Vec<_> = changes
            .iter()
            .filter_map(|change| Some((place(change.new.column)?, &change.conversion.value)))
            .collect();
        self.rewrite_rows(old, source, &mut |row, host| {
            let mut new: Vec<Datum<'static>> = row.to_vec();
            for (place, value) in &values {
                let value = eval(value, row, &[], host)?.into_owned();
                if let Some(slot) = new.get_mut(*place) {
                    *slot = value;
                }
            }
            Ok(new)
        })
    }
}
