//! Constant expressions are evaluated once, during planning, and raise their errors then.

use super::catalog::Catalog;
use super::expr::{Expr, Function};
use super::query::Query;
use super::tree::{Grouping, Node};
use crate::error::Result;
use forebay_types::{Datum, SqlType};

/// Does a function always give the same result for the same arguments?
fn immutable(function: Function) -> bool {
    use Function as F;
    matches!(
        function,
        F::Abs
            | F::Ceil
            | F::CharLength
            | F::Concat
            | F::Floor
            | F::Left
            | F::Lower
            | F::OctetLength
            | F::PgSizePretty
            | F::Repeat
            | F::Replace
            | F::Right
            | F::Round
            | F::RoundTo
            | F::Sqrt
            | F::StartsWith
            | F::Strpos
            | F::Substr
            | F::Trim
            | F::Upper
    )
}

fn varies(e: &Expr) -> bool {
    match e {
        Expr::Column(_) | Expr::Param(_) | Expr::Aggregate(_) => true,
        Expr::Call(function, _) => !immutable(*function),
        Expr::Cast { to, .. } => *to == SqlType::Regclass,
        _ => false,
    }
}

/// Replaces the constant parts of an expression by their values.
pub fn fold(e: Expr, catalog: &mut dyn Catalog) -> Result<Expr> {
    catalog.plan_step()?;
    match e {
        e @ (Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Aggregate(_)) => Ok(e),
        e if !e.any(&varies) => catalog.constant(&e).map(Expr::Const),
        // Operands that are not reached at run time must not be evaluated.
        e @ (Expr::Case { .. } | Expr::Coalesce(_)) => Ok(e),
        e => {
            let mut failed = None;
            let folded = e.map_children(&mut |child| match &failed {
                None => fold(child, catalog).unwrap_or_else(|e| {
                    failed = Some(e);
                    Expr::Const(Datum::Null)
                }),
                Some(_) => child,
            });
            failed.map_or(Ok(folded), Err)
        }
    }
}

/// Replaces the constant parts of several expressions by their values.
pub(super) fn fold_all<'e>(
    list: impl IntoIterator<Item = &'e mut Expr>,
    catalog: &mut dyn Catalog,
) -> Result<()> {
    for e in list {
        let taken = std::mem::replace(e, Expr::Const(Datum::Null));
        *e = fold(taken, catalog)?;
    }
    Ok(())
}

impl Query {
    /// Folds the expressions of a query. Its subquery has been folded before.
    pub(super) fn fold(mut self, catalog: &mut dyn Catalog) -> Result<Query> {
        match &mut self.source {
            Node::Series { args, .. } => fold_all(args.iter_mut(), catalog)?,
            Node::Values(rows) => fold_all(rows.iter_mut().flatten(), catalog)?,
            Node::Function(e) => fold_all([&mut **e], catalog)?,
            Node::Rows { args, .. } => fold_all(args, catalog)?,
            Node::Result
            | Node::Scan { .. }
            | Node::View(_)
            | Node::Filter { .. }
            | Node::Project { .. }
            | Node::Aggregate { .. }
            | Node::Sort { .. }
            | Node::Limit { .. } => {}
        }
        if let Some(Grouping { keys, calls }) = &mut self.grouping {
            for call in calls {
                fold_all(call.arg.iter_mut().chain(&mut call.filter), catalog)?;
            }
            fold_all(keys, catalog)?;
        }
        let Query { having, output, filter, limit, offset, .. } = &mut self;
        let rest = having.iter_mut().chain(output).chain(filter).chain(limit).chain(offset);
        fold_all(rest, catalog)?;
        Ok(self)
    }
}
