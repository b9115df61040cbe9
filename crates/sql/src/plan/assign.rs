//! Tables that are changed, and values on their way into their columns.

use super::expr::Expr;
use super::lower::{Columns, lower};
use super::planner::{Planner, Relation};
use crate::analyze::{Context, Typed, coerce_to_type, type_name};
use crate::error::{Result, SqlError, state};
use crate::parse::QualifiedName;
use forebay_engine::{Column, EngineError, Table};
use forebay_types::{Repr, SqlType};
use sqlparser::ast;
use std::sync::Arc;

/// What a statement does to a relation, in the words of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// COPY FROM.
    Copy,
}

impl Verb {
    /// `cannot ... relation`
    fn words(self) -> &'static str {
        match self {
            Verb::Insert => "insert into",
            Verb::Update => "update",
            Verb::Delete => "delete from",
            Verb::Copy => "copy to",
        }
    }

    /// What would make a view changeable.
    fn hint(self) -> Option<String> {
        let (doing, event) = match self {
            Verb::Insert => ("inserting into", "INSERT"),
            Verb::Update => ("updating", "UPDATE"),
            Verb::Delete => ("deleting from", "DELETE"),
            Verb::Copy => return None,
        };
        Some(format!(
            "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an \
             unconditional ON {event} DO INSTEAD rule."
        ))
    }
}

/// Checks that a relation's rows may be changed.
pub fn writable(relation: Relation, name: &QualifiedName, verb: Verb) -> Result<Arc<Table>> {
    let words = verb.words();
    match relation {
        Relation::View(_) => {
            let message = format!("cannot {words} view \"{}\"", name.name);
            let detail = "Views that do not select from a single table or view are not \
                          automatically updatable.";
            Err(SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
                .explained(Some(detail), verb.hint()))
        }
        Relation::Table(table) if table.is_catalog() => {
            let message = format!("permission denied: \"{}\" is a system catalog", table.name);
            Err(SqlError::new("42501", message))
        }
        Relation::Table(table) if table.kind == b'S' => {
            let verb = if verb == Verb::Copy { "copy to" } else { "change" };
            let message = format!("cannot {verb} sequence \"{}\"", table.name);
            Err(SqlError::new(state::WRONG_OBJECT_TYPE, message))
        }
        Relation::Table(table) if table.kind != b'r' => Err(SqlError::new(
            state::WRONG_OBJECT_TYPE,
            format!("cannot {words} relation \"{}\"", table.name),
        )),
        Relation::Table(table) => {
            let checked = match verb {
                Verb::Insert | Verb::Copy => table.check_insertable(),
                Verb::Update | Verb::Delete => table.check_changeable(words),
            };
            checked.map_err(EngineError::from)?;
            Ok(table)
        }
    }
}

/// A table's columns that are not dropped.
pub fn live_columns(table: &Table) -> impl Iterator<Item = &Column> {
    table.columns.iter().filter(|c| !c.dropped)
}

/// For each name its place among the live columns.
pub fn target_columns(table: &Table, names: &[(String, u32)]) -> Result<Vec<usize>> {
    let mut targets = Vec::with_capacity(names.len());
    for (name, position) in names {
        let Some(index) = live_columns(table).position(|c| c.name == *name) else {
            let message =
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
            return Err(SqlError::new(state::UNDEFINED_COLUMN, message).at(*position));
        };
        if targets.contains(&index) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(state::DUPLICATE_COLUMN, message).at(*position));
        }
        targets.push(index);
    }
    Ok(targets)
}

/// A live column's type, which must be one whose values can be made here.
pub fn stored_type(column: &Column) -> Result<SqlType> {
    match SqlType::from_oid(column.type_oid) {
        Some(ty) if !matches!(column.repr, Repr::Carried(_)) => Ok(ty),
        Some(ty) => {
            Err(SqlError::unsupported(format!("writing columns of type {}", ty.sql_name())))
        }
        None => Err(SqlError::unsupported(format!("the type with OID {}", column.type_oid))),
    }
}

/// Is a value the word DEFAULT?
pub(super) fn is_default(e: &ast::Expr) -> bool {
    matches!(e, ast::Expr::Identifier(i)
        if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"))
}

/// Casts a value to its column.
pub(super) fn assigned(
    planner: &mut Planner<'_>,
    column: &Column,
    value: Typed,
    columns: &dyn Columns,
) -> Result<Expr> {
    stored_type(column)?;
    let (from, position) = (value.ty(), value.position);
    let names = planner.catalog.names();
    let to = (column.type_oid, column.typmod);
    match coerce_to_type(names, planner.params, value, to, Context::Assignment)? {
        Some(cast) => {
            let expr = planner.collated(cast.expr)?;
            lower(&expr, columns, planner.catalog).map_err(|e| e.at(position))
        }
        None => {
            let message = format!(
                "column \"{}\" is of type {} but expression is of type {}",
                column.name,
                type_name(names, column.type_oid)?,
                type_name(names, from)?
            );
            let hint = "You will need to rewrite or cast the expression.";
            Err(SqlError::new(state::DATATYPE_MISMATCH, message).hint(hint).at(position))
        }
    }
}

/// The error (428C9) of a value for a generated column.
pub(super) fn generated(column: &Column, message: String) -> SqlError {
    let detail = format!("Column \"{}\" is a generated column.", column.name);
    SqlError::new("428C9", message).detail(detail)
}

/// The error (428C9) of a value for an identity column that takes none.
pub(super) fn always_identity(column: &Column, message: String) -> SqlError {
    let detail =
        format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name);
    SqlError::new("428C9", message).detail(detail)
}
