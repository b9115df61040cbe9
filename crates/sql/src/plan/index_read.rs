//! A table that is read through an index: which conditions the index takes over, and whether its
//! order and its columns are those that are wanted.

use super::expr::{Comparison, Expr};
use super::tid::is_fixed;
use super::tree::IndexCondition;
use forebay_engine::TableIndex;
use forebay_types::{Datum, SqlType};

/// A column by which rows are to be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderColumn {
    /// Index into the table's columns.
    pub column: usize,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
}

/// The parts of a condition that must all hold.
pub(super) fn conjuncts(condition: Option<&Expr>) -> Vec<&Expr> {
    fn add<'e>(e: &'e Expr, found: &mut Vec<&'e Expr>) {
        match e {
            Expr::And(list) => list.iter().for_each(|e| add(e, found)),
            other => found.push(other),
        }
    }
    let mut found = Vec::new();
    condition.into_iter().for_each(|e| add(e, &mut found));
    found
}

/// The condition that all parts hold.
pub(super) fn all_of(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Expr::And(parts)),
    }
}

/// The column that an expression is; integers may be widened, which keeps their order.
pub(super) fn column_of(e: &Expr) -> Option<usize> {
    let integer = |ty: &SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
    match e {
        Expr::Column(column) => Some(*column),
        Expr::Cast { expr, from, to } if integer(from) && integer(to) => match **expr {
            Expr::Column(column) if from.info().len <= to.info().len => Some(column),
            _ => None,
        },
        _ => None,
    }
}

/// The comparison with its operands exchanged.
pub(super) fn exchanged(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        same @ (Comparison::Eq | Comparison::Ne) => same,
    }
}

/// What an index can do with a part of a condition.
pub(super) fn index_condition(e: &Expr, index: &TableIndex) -> Option<IndexCondition> {
    let key_of = |e: &Expr| {
        let column = column_of(e)?;
        index.key_columns().position(|key| key == column)
    };
    let is = |e: &Expr, value: bool| {
        let value = Expr::Const(Datum::Bool(value));
        let compare = |key| IndexCondition::Compare { key, comparison: Comparison::Eq, value };
        key_of(e).map(compare)
    };
    match e {
        Expr::Compare(comparison, pair) if *comparison != Comparison::Ne => {
            let (a, b) = &**pair;
            let (key, comparison, value) = match (key_of(a), key_of(b)) {
                (Some(key), _) if is_fixed(b) => (key, *comparison, b),
                (_, Some(key)) if is_fixed(a) => (key, exchanged(*comparison), a),
                _ => return None,
            };
            Some(IndexCondition::Compare { key, comparison, value: value.clone() })
        }
        Expr::InList { expr, list, negated: false } if list.iter().all(is_fixed) => {
            key_of(expr).map(|key| IndexCondition::AnyOf { key, values: list.clone() })
        }
        Expr::IsNull(e) => key_of(e).map(|key| IndexCondition::Null { key, is_null: true }),
        Expr::IsNotNull(e) => key_of(e).map(|key| IndexCondition::Null { key, is_null: false }),
        // As a condition of its own a column is a Boolean one.
        Expr::Column(_) => is(e, true),
        Expr::Not(inner) if matches!(**inner, Expr::Column(_)) => is(inner, false),
        _ => None,
    }
}

/// Whether rows in an index's order are in the order that is wanted, and if so, whether it must be
/// read backward.
pub(super) fn ordered(
    index: &TableIndex,
    conditions: &[IndexCondition],
    order: &[OrderColumn],
) -> Option<bool> {
    let columns: Vec<usize> = index.key_columns().collect();
    let fixed = |key: usize| conditions.iter().any(|c| c.key() == key && c.is_equality());
    let (mut key, mut backward) = (0, None);
    for wanted in order {
        if columns.iter().position(|column| *column == wanted.column).is_some_and(fixed) {
            continue;
        }
        while columns.get(key).is_some_and(|column| *column != wanted.column && fixed(key)) {
            key += 1;
        }
        if columns.get(key) != Some(&wanted.column) {
            return None;
        }
        let shape = index.shape.keys.get(key)?;
        let turned = wanted.descending != shape.descending;
        if (wanted.nulls_first != shape.nulls_first) != turned
            || backward.is_some_and(|backward| backward != turned)
        {
            return None;
        }
        backward = Some(turned);
        key += 1;
    }
    Some(backward.unwrap_or(false))
}
