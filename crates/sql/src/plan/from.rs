//! The FROM clause: one table, view, function or subquery, or nothing.

use super::expr::Expr;
use super::locks::Locking;
use super::planner::{Planner, Relation};
use super::rowsets::RowFunction;
use super::tree::{Node, TableRead};
use crate::analyze::{
    Context, FunctionCall, IN_FROM, NO_FUNCTION, NOT_UNIQUE, Scope, ScopeColumn, Typed, coerce,
    ident_name, qualified_name, type_name,
};
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::collation_of;
use forebay_types::{Datum, Oid, SqlType, oids};
use sqlparser::ast::{self, Spanned};
use std::sync::Arc;

/// The FROM clause, analyzed.
pub struct FromItem {
    /// Where rows come from.
    pub source: Node,
    /// The names it brings.
    pub scope: Scope,
}

pub(super) fn bind_from(
    planner: &mut Planner<'_>,
    from: &[ast::TableWithJoins],
    locks: &[Locking],
) -> Result<FromItem> {
    match from {
        [] => Ok(FromItem { source: Node::Result, scope: Scope::default() }),
        [ast::TableWithJoins { relation, joins }] if joins.is_empty() => {
            bind_item(planner, relation, locks)
        }
        _ => Err(SqlError::unsupported("a join")),
    }
}

/// A name in FROM, what is called if it is a function's, and the alias.
type Named<'a> =
    (&'a ast::ObjectName, Option<&'a ast::TableFunctionArgs>, Option<&'a ast::TableAlias>);

/// Takes a name in FROM apart; None for anything else.
pub(super) fn named(item: &ast::TableFactor) -> Result<Option<Named<'_>>> {
    let ast::TableFactor::Table {
        name,
        alias,
        args,
        with_hints,
        version,
        with_ordinality,
        partitions,
        json_path,
        sample,
        index_hints,
    } = item
    else {
        return Ok(None);
    };
    if sample.is_some() {
        return Err(SqlError::unsupported("TABLESAMPLE"));
    }
    let foreign = !with_hints.is_empty()
        || version.is_some()
        || *with_ordinality
        || !partitions.is_empty()
        || json_path.is_some()
        || !index_hints.is_empty();
    if foreign {
        return Err(SqlError::unsupported("this form of table reference"));
    }
    Ok(Some((name, args.as_ref(), alias.as_ref())))
}

fn bind_item(
    planner: &mut Planner<'_>,
    item: &ast::TableFactor,
    locks: &[Locking],
) -> Result<FromItem> {
    match named(item)? {
        Some((name, Some(args), alias)) if args.settings.is_none() => {
            return function(planner, name, &args.args, alias);
        }
        Some((_, Some(_), _)) => {
            return Err(SqlError::unsupported("this form of function in FROM"));
        }
        Some((name, None, alias)) => return relation(planner, name, alias, locks),
        None => {}
    }
    match item {
        ast::TableFactor::Function {
            lateral: false,
            name,
            args,
            with_ordinality: false,
            alias,
        } => function(planner, name, args, alias.as_ref()),
        ast::TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
            let plan = planner.subquery(subquery)?;
            if plan.root.locked().is_some() {
                return Err(SqlError::unsupported("a locking clause in a subquery"));
            }
            let columns = plan.columns.iter().enumerate();
            let columns = columns.map(|(n, column)| ScopeColumn::of_desc(column, n)).collect();
            let mut scope = Scope { columns, ..Scope::default() };
            apply_alias(&mut scope, "unnamed_subquery".to_owned(), alias.as_ref())?;
            Ok(FromItem { source: Arc::unwrap_or_clone(plan.root), scope })
        }
        _ => Err(SqlError::unsupported("this item in FROM")),
    }
}

fn relation(
    planner: &mut Planner<'_>,
    name: &ast::ObjectName,
    alias: Option<&ast::TableAlias>,
    locks: &[Locking],
) -> Result<FromItem> {
    let name = qualified_name(name, planner.source)?;
    let called = alias.map_or_else(|| name.name.clone(), |alias| ident_name(&alias.name));
    let mode = Locking::mode(locks, &called);
    let (source, mut scope) = match planner.relation(&name, mode)? {
        Relation::Table(table) => {
            let (scope, schema) = (Scope::of_table(&table), name.schema.clone());
            let alias = Some(called);
            let (decode, handed_on) = (Vec::new(), Vec::new());
            (Node::Scan(TableRead { table, schema, alias, mode, decode, handed_on }), scope)
        }
        Relation::View(view) => (Node::View(view), computed_scope(&view.columns())),
    };
    apply_alias(&mut scope, name.name, alias)?;
    Ok(FromItem { source, scope })
}

/// Gives a scope the alias, or else its own name.
pub(super) fn apply_alias(
    scope: &mut Scope,
    own: String,
    alias: Option<&ast::TableAlias>,
) -> Result<()> {
    let Some(ast::TableAlias { explicit: _, name, columns, at: None }) = alias else {
        if alias.is_some() {
            return Err(SqlError::unsupported("this form of alias"));
        }
        scope.alias = Some(own);
        return Ok(());
    };
    let name_text = ident_name(name);
    let available = scope.columns.len();
    if columns.len() > available {
        let message = format!(
            "table \"{name_text}\" has {available} columns available but {} columns specified",
            columns.len()
        );
        return Err(SqlError::new(state::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, given) in scope.columns.iter_mut().zip(columns) {
        if given.data_type.is_some() {
            return Err(SqlError::unsupported("a column definition list"));
        }
        column.name = ident_name(&given.name);
    }
    scope.alias = Some(own);
    scope.rename(name_text);
    Ok(())
}

/// A function in FROM: generate_series, or any function of one row.
fn function(
    planner: &mut Planner<'_>,
    name: &ast::ObjectName,
    args: &[ast::FunctionArg],
    alias: Option<&ast::TableAlias>,
) -> Result<FromItem> {
    let position = planner.source.position(name.span().start);
    let call = FunctionCall::in_from(name, args, position)?;
    let (source, ty, collation) = if call.name == "generate_series" && call.named.is_empty() {
        let (source, ty) = series(planner, &call, position)?;
        (source, ty, 0)
    } else {
        let scope = Scope::default();
        let typed = planner.binder(&scope, IN_FROM).call_in_from(&call, position)?;
        match planner.lower(&typed, &scope)? {
            Expr::Call(function, args) if function.builtin.rows.is_some() => {
                let function = function.builtin.rows.expect("it is one");
                return rows(function, args, call.name, alias);
            }
            expr => {
                let collation = collation_of(&planner.collated(typed.expr.clone())?);
                (Node::Function(Box::new(expr)), SqlType::of(typed.ty()), collation)
            }
        }
    };
    // A scalar function's column is named as the function, or as the alias.
    let column = alias.map_or_else(|| call.name.clone(), |a| ident_name(&a.name));
    let mut scope = Scope::default();
    scope.push_collated(column, ty, -1, collation);
    apply_alias(&mut scope, call.name, alias)?;
    Ok(FromItem { source, scope })
}

/// A function of rows with columns of its own.
fn rows(
    function: RowFunction,
    args: Vec<Expr>,
    name: String,
    alias: Option<&ast::TableAlias>,
) -> Result<FromItem> {
    let mut scope = computed_scope(&function.columns());
    apply_alias(&mut scope, name, alias)?;
    Ok(FromItem { source: Node::Rows { function, args }, scope })
}

/// The columns of a computed relation as names.
fn computed_scope(columns: &[(&str, SqlType)]) -> Scope {
    let mut scope = Scope::default();
    for (name, ty) in columns {
        scope.push((*name).to_owned(), *ty, -1);
    }
    scope
}

fn series(
    planner: &mut Planner<'_>,
    call: &FunctionCall<'_>,
    position: u32,
) -> Result<(Node, SqlType)> {
    let mut bound: Vec<Typed> = Vec::new();
    for arg in &call.args {
        bound.push(planner.bind_constant(arg, IN_FROM)?);
    }
    let types: Vec<Oid> = bound.iter().map(Typed::ty).collect();
    let integer = |t: &Oid| matches!(*t, oids::INT2 | oids::INT4 | oids::INT8 | oids::UNKNOWN);
    let known = types.iter().any(|t| *t != oids::UNKNOWN);
    if !(2..=3).contains(&types.len()) || !types.iter().all(integer) || !known {
        let of = [oids::NUMERIC, oids::TIMESTAMP, oids::TIMESTAMPTZ];
        let names = planner.catalog.names();
        if let Some(ty) = types.iter().find(|ty| of.contains(ty)).filter(|_| types.len() > 1) {
            let ty = type_name(names, *ty)?;
            return Err(SqlError::unsupported(format!("generate_series of {ty}")).at(position));
        }
        let shown = types.iter().map(|ty| type_name(names, *ty)).collect::<Result<Vec<_>>>()?;
        let (state, what, hint) = if known || types.len() < 2 {
            (state::UNDEFINED_FUNCTION, "does not exist", NO_FUNCTION)
        } else {
            (state::AMBIGUOUS_FUNCTION, "is not unique", NOT_UNIQUE)
        };
        let message = format!("function generate_series({}) {what}", shown.join(", "));
        return Err(SqlError::new(state, message).hint(hint).at(position));
    }
    let wide = types.contains(&oids::INT8);
    let ty = if wide { oids::INT8 } else { oids::INT4 };
    let one = if wide { Datum::Int8(1) } else { Datum::Int4(1) };
    let mut exprs = [Expr::Const(one.clone()), Expr::Const(one.clone()), Expr::Const(one)];
    for (slot, arg) in exprs.iter_mut().zip(bound) {
        let names = planner.catalog.names();
        if let Some(cast) = coerce(names, planner.params, arg, ty, Context::Implicit)? {
            *slot = planner.lower(&cast, &Scope::default())?;
        }
    }
    Ok((Node::Series { args: Box::new(exprs), wide }, SqlType::of(ty)))
}
