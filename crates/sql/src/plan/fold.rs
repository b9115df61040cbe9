//! Constant expressions are computed once, when the plan is made; what they raise is raised then.

use super::catalog::Catalog;
use super::expr::{Expr, Function};
use super::tree::{InsertPlan, InsertSource, RowSource, SelectPlan};
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

/// Computes what is constant in an expression.
pub fn fold(e: Expr, catalog: &mut dyn Catalog) -> Result<Expr> {
    catalog.plan_step()?;
    match e {
        e @ (Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Aggregate(_)) => Ok(e),
        e if !e.any(&varies) => catalog.constant(&e).map(Expr::Const),
        // What these do not reach must not be computed.
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

fn fold_in_place(e: &mut Expr, catalog: &mut dyn Catalog) -> Result<()> {
    let taken = std::mem::replace(e, Expr::Const(Datum::Null));
    *e = fold(taken, catalog)?;
    Ok(())
}

impl SelectPlan {
    /// Computes what is constant in a query.
    pub(super) fn fold(mut self, catalog: &mut dyn Catalog) -> Result<SelectPlan> {
        match &mut self.source {
            RowSource::Series { args, .. } => {
                args.iter_mut().try_for_each(|e| fold_in_place(e, catalog))?
            }
            RowSource::Values(rows) => {
                rows.iter_mut().flatten().try_for_each(|e| fold_in_place(e, catalog))?
            }
            RowSource::Function(e) => fold_in_place(e, catalog)?,
            RowSource::Rows { args, .. } => {
                args.iter_mut().try_for_each(|e| fold_in_place(e, catalog))?
            }
            RowSource::One
            | RowSource::Table { .. }
            | RowSource::View(_)
            | RowSource::Subquery(_) => {}
        }
        if let Some(grouping) = &mut self.grouping {
            for call in &mut grouping.calls {
                call.arg
                    .iter_mut()
                    .chain(&mut call.filter)
                    .try_for_each(|e| fold_in_place(e, catalog))?;
            }
            grouping
                .keys
                .iter_mut()
                .chain(&mut grouping.having)
                .try_for_each(|e| fold_in_place(e, catalog))?;
        }
        let rest = self
            .output
            .iter_mut()
            .chain(&mut self.filter)
            .chain(&mut self.limit)
            .chain(&mut self.offset);
        for e in rest {
            fold_in_place(e, catalog)?;
        }
        Ok(self)
    }
}

impl InsertPlan {
    /// Computes what is constant in an INSERT.
    pub(super) fn fold(mut self, catalog: &mut dyn Catalog) -> Result<InsertPlan> {
        match &mut self.source {
            InsertSource::Values(rows) => {
                rows.iter_mut().flatten().try_for_each(|e| fold_in_place(e, catalog))?
            }
            InsertSource::Query(_, exprs) => {
                exprs.iter_mut().try_for_each(|e| fold_in_place(e, catalog))?
            }
        }
        Ok(self)
    }
}
