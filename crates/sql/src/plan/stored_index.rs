//! Expressions and predicates of new indexes, analyzed for the catalogs.

use super::planner::Planner;
use super::stored::{any, changes};
use crate::analyze::{ParamTypes, Scope, assign_collations, figured_name, type_name};
use crate::error::{Result, SqlError, state};
use forebay_engine::nodes::{Expr, collation_of, type_of, typmod_of};
use forebay_engine::{IndexExpression, StoredExpr, Table};
use forebay_types::Oid;
use sqlparser::ast;

/// What an expression that was given as a key is.
#[derive(Clone, Debug)]
pub enum AnalyzedKey {
    /// A column after all, by its number; with its collation.
    Column { number: i16, collation: Oid },
    /// An expression.
    Expression(IndexExpression),
}

impl Planner<'_> {
    /// An expression that is to be a key of an index.
    pub fn index_key(&mut self, e: &ast::Expr, table: &Table) -> Result<AnalyzedKey> {
        let scope = &Scope::of_table(table);
        let mut params = ParamTypes::default();
        let mut planner =
            Planner { source: self.source, catalog: &mut *self.catalog, params: &mut params };
        let mut binder = planner.binder(scope, "index expressions");
        let bound = binder.bind(e)?;
        if bound.is_unknown() {
            return Err(no_order_of_unknown());
        }
        let mut expr = binder.settle(bound)?.expr;
        let names = self.catalog.names();
        assign_collations(names, &mut expr)?;
        let collation = collation_of(&expr);
        // The index has the collation; the expression need not name it.
        while let Expr::Collate(node) = expr {
            expr = *node.arg;
        }
        check_columns(&expr, table)?;
        if let Expr::Var(var) = &expr {
            let number = i16::try_from(var.varattno).unwrap_or(0);
            return Ok(AnalyzedKey::Column { number, collation });
        }
        if changes(names, &expr)? {
            let message = "functions in index expression must be marked IMMUTABLE";
            return Err(SqlError::new("42P17", message));
        }
        let (type_oid, typmod) = (type_of(&expr), typmod_of(&expr));
        let ty = names.ty(type_oid)?;
        if ty.kind == b'p' {
            let name = type_name(names, type_oid)?;
            let message = format!("column \"expr\" has pseudo-type {name}");
            return Err(SqlError::new(state::INVALID_TABLE_DEFINITION, message));
        }
        let name = figured_name(names, e);
        let expr = StoredExpr::new(&expr);
        Ok(AnalyzedKey::Expression(IndexExpression { expr, type_oid, typmod, collation, name }))
    }

    /// The condition on the rows that an index is to have.
    pub fn index_predicate(&mut self, e: &ast::Expr, table: &Table) -> Result<StoredExpr> {
        let scope = &Scope::of_table(table);
        let mut params = ParamTypes::default();
        let mut planner =
            Planner { source: self.source, catalog: &mut *self.catalog, params: &mut params };
        let mut condition = planner.binder(scope, "index predicates").condition(e, "WHERE")?;
        let names = self.catalog.names();
        assign_collations(names, &mut condition)?;
        check_columns(&condition, table)?;
        if changes(names, &condition)? {
            let message = "functions in index predicate must be marked IMMUTABLE";
            return Err(SqlError::new("42P17", message));
        }
        Ok(StoredExpr::new(&condition))
    }
}

/// The error of a literal whose type nothing tells.
fn no_order_of_unknown() -> SqlError {
    let message = "data type unknown has no default operator class for access method \"btree\"";
    let hint = "You must specify an operator class for the index or define a default operator \
                class for the data type.";
    SqlError::new(state::UNDEFINED_OBJECT, message).hint(hint)
}

/// Refuses what no index is made of.
fn check_columns(expr: &Expr, table: &Table) -> Result<()> {
    let number = |node: &Expr| match node {
        Expr::Var(var) => Some(var.varattno),
        _ => None,
    };
    if any(expr, &mut |node| number(node).is_some_and(|number| number < 0)) {
        let message = "index creation on system columns is not supported";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    if any(expr, &mut |node| number(node) == Some(0)) {
        return Err(SqlError::unsupported("a whole-row reference in an index"));
    }
    let is_virtual = |number: i32| {
        let column = table.columns.iter().find(|column| i32::from(column.attnum) == number);
        column.is_some_and(|column| column.generated == b'v')
    };
    if any(expr, &mut |node| number(node).is_some_and(is_virtual)) {
        let message = "indexes on virtual generated columns are not supported";
        return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
    }
    Ok(())
}
