//! Conditions on ctid: they tell where the rows are.

use super::expr::{Comparison, Expr};

/// The places to which a condition limits the rows: expressions that read no row. None: it does
/// not, or not in a form that is known here. `ctid`: the index of that column.
pub fn places(condition: &Expr, ctid: usize) -> Option<Vec<Expr>> {
    let is_ctid = |e: &Expr| *e == Expr::Column(ctid);
    match condition {
        Expr::Compare(Comparison::Eq, pair) => {
            let (a, b) = &**pair;
            let place = if is_ctid(a) { b } else { a };
            let found = (is_ctid(a) || is_ctid(b)) && is_fixed(place);
            found.then(|| vec![place.clone()])
        }
        Expr::InList { expr, list, negated: false, .. }
            if is_ctid(expr) && list.iter().all(is_fixed) =>
        {
            Some(list.clone())
        }
        Expr::And(list) => list.iter().find_map(|e| places(e, ctid)),
        Expr::Or(list) => {
            let each: Option<Vec<Vec<Expr>>> = list.iter().map(|e| places(e, ctid)).collect();
            Some(each?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

/// Whether an expression has one value for all rows.
pub(super) fn is_fixed(e: &Expr) -> bool {
    let varies = |e: &Expr| match e {
        Expr::Column(_) | Expr::Aggregate(_) => true,
        Expr::Call(function, _) => !function.is_immutable(),
        _ => false,
    };
    !e.any(&varies)
}
