//! Constant expressions are evaluated once, during planning, and raise their errors then.

use super::catalog::Catalog;
use super::expr::Expr;
use crate::error::Result;
use forebay_types::SqlType;

fn varies(e: &Expr) -> bool {
    match e {
        Expr::Column(_) | Expr::Param(_) | Expr::Aggregate(_) => true,
        Expr::Value(..) => true,
        Expr::Call(function, _) => !function.is_immutable(),
        // The text of a time depends on settings.
        Expr::Cast { from, to, .. } => is_time(*from) != is_time(*to),
        // It looks only at its own row.
        Expr::AnyOf { test, .. } | Expr::MapArray { element: test, .. } => {
            test.any(&|e| !matches!(e, Expr::Column(_)) && varies(e))
        }
        _ => false,
    }
}

/// Whether a type is of dates and times, between which casts are functions.
fn is_time(ty: SqlType) -> bool {
    use SqlType::{Date, Interval, Time, Timestamp, Timestamptz, Timetz};
    matches!(ty, Date | Time | Timetz | Timestamp | Timestamptz | Interval)
}

/// Replaces the constant parts of an expression by their values.
pub fn fold(e: &mut Expr, catalog: &mut dyn Catalog) -> Result<()> {
    catalog.step()?;
    if matches!(e, Expr::Const(_) | Expr::Column(_) | Expr::Param(_) | Expr::Aggregate(_)) {
        return Ok(());
    }
    if !e.any(&varies) {
        *e = Expr::Const(catalog.constant(e)?);
        return Ok(());
    }
    // Operands that are not reached at run time must not be evaluated.
    if matches!(e, Expr::Case { .. } | Expr::Coalesce(_)) {
        return Ok(());
    }
    let mut folded = Ok(());
    e.for_each_child_mut(&mut |child| {
        if folded.is_ok() {
            folded = fold(child, catalog);
        }
    });
    folded
}

/// Replaces the constant parts of several expressions by their values.
pub(super) fn fold_all<'e>(
    list: impl IntoIterator<Item = &'e mut Expr>,
    catalog: &mut dyn Catalog,
) -> Result<()> {
    list.into_iter().try_for_each(|e| fold(e, catalog))
}
