//! Aggregates in the plan, and rewriting expressions to run over groups.

use super::expr::Expr;
use super::order::ValueOrder;
use crate::analyze::Scope;
use crate::error::{Result, SqlError, state};
use forebay_types::SqlType;

/// What an aggregate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AggregateKind {
    CountStar,
    Count,
    /// sum(int2), sum(int4): bigint
    SumInt,
    /// sum(int8): numeric
    SumBigint,
    SumNumeric,
    SumFloat4,
    SumFloat8,
    /// avg of integers: numeric
    AvgInt,
    AvgNumeric,
    AvgFloat,
    Min,
    Max,
    BoolAnd,
    BoolOr,
}

/// An aggregate call.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// What it computes.
    pub kind: AggregateKind,
    /// Its argument.
    pub arg: Option<Expr>,
    /// FILTER.
    pub filter: Option<Expr>,
    /// Type of its result.
    pub result: SqlType,
    /// The order of its inputs, for min and max.
    pub order: ValueOrder,
}

/// Rewrites an expression over input rows and aggregates into one over group rows: the group's
/// keys, then the aggregates' results.
pub fn over_groups(
    mut expr: Expr,
    keys: &[Expr],
    scope: &Scope,
    bare_columns: &[(usize, u32)],
) -> Result<Expr> {
    let mut ungrouped = None;
    rewrite(&mut expr, keys, &mut ungrouped);
    match ungrouped {
        None => Ok(expr),
        Some(index) => {
            let column = scope.at(index).map_or("?", |c| c.name.as_str());
            let table = scope.alias.as_deref().unwrap_or_default();
            let message = format!(
                "column \"{table}.{column}\" must appear in the GROUP BY clause or be used in an \
                 aggregate function"
            );
            let place = bare_columns.iter().find(|(i, _)| *i == index);
            Err(SqlError::new(state::GROUPING_ERROR, message).at(place.map_or(0, |(_, p)| *p)))
        }
    }
}

fn rewrite(expr: &mut Expr, keys: &[Expr], ungrouped: &mut Option<usize>) {
    if let Some(i) = keys.iter().position(|k| k == expr) {
        *expr = Expr::Column(i);
        return;
    }
    match expr {
        Expr::Aggregate(i) => *expr = Expr::Column(keys.len() + *i),
        Expr::Column(i) => {
            ungrouped.get_or_insert(*i);
        }
        other => other.for_each_child_mut(&mut |child| rewrite(child, keys, ungrouped)),
    }
}
