//! Aggregates in the plan: which there are, and rewriting expressions to run over groups.

use super::expr::Expr;
use super::resolve::category;
use super::scope::Scope;
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
}

impl AggregateCall {
    /// count(*)
    pub fn count_star() -> AggregateCall {
        AggregateCall {
            kind: AggregateKind::CountStar,
            arg: None,
            filter: None,
            result: SqlType::Int8,
        }
    }
}

/// Is it an aggregate's name?
pub fn is_aggregate(name: &str) -> bool {
    matches!(name, "count" | "sum" | "avg" | "min" | "max" | "bool_and" | "bool_or" | "every")
}

/// An aggregate chosen by its argument's type.
pub struct Chosen {
    /// What it computes.
    pub kind: AggregateKind,
    /// The type its argument is cast to.
    pub argument: SqlType,
    /// The type of its result.
    pub result: SqlType,
}

/// Chooses the aggregate of that name for an argument type. Err(true): ambiguous; Err(false): there
/// is none.
pub fn choose(name: &str, ty: SqlType) -> std::result::Result<Chosen, bool> {
    use AggregateKind as K;
    use SqlType as T;
    let (kind, argument, result) = match (name, ty) {
        ("count", ty) => (K::Count, ty, T::Int8),
        ("sum", T::Int2 | T::Int4) => (K::SumInt, ty, T::Int8),
        ("sum", T::Int8) => (K::SumBigint, ty, T::Numeric),
        ("sum", T::Numeric) => (K::SumNumeric, ty, T::Numeric),
        ("sum", T::Float4) => (K::SumFloat4, ty, T::Float4),
        ("sum", T::Float8) => (K::SumFloat8, ty, T::Float8),
        ("avg", T::Int2 | T::Int4 | T::Int8) => (K::AvgInt, ty, T::Numeric),
        ("avg", T::Numeric) => (K::AvgNumeric, ty, T::Numeric),
        ("avg", T::Float4 | T::Float8) => (K::AvgFloat, T::Float8, T::Float8),
        ("sum" | "avg", T::Unknown) => return Err(true),
        ("bool_and" | "every", T::Bool | T::Unknown) => (K::BoolAnd, T::Bool, T::Bool),
        ("bool_or", T::Bool | T::Unknown) => (K::BoolOr, T::Bool, T::Bool),
        ("min" | "max", ty) => {
            let kind = if name == "min" { K::Min } else { K::Max };
            let argument = match ty {
                T::Unknown => T::Text,
                T::Bpchar => T::Bpchar,
                _ if category(ty).0 == b'S' => T::Text,
                T::Regclass | T::Regproc | T::Regtype => T::Oid,
                T::Int2 | T::Int4 | T::Int8 | T::Float4 | T::Float8 | T::Numeric => ty,
                T::Oid | T::Tid | T::Bytea | T::Timestamptz | T::PgLsn => ty,
                _ => return Err(false),
            };
            (kind, argument, argument)
        }
        _ => return Err(false),
    };
    Ok(Chosen { kind, argument, result })
}

/// Aggregates of a query, each once.
#[derive(Clone, Debug, Default)]
pub struct Aggregates {
    /// The calls.
    pub calls: Vec<AggregateCall>,
    /// Columns named outside of aggregates, and where.
    pub bare_columns: Vec<(usize, u32)>,
}

impl Aggregates {
    /// Adds a call, or finds it; its index.
    pub fn add(&mut self, call: AggregateCall) -> usize {
        match self.calls.iter().position(|c| *c == call) {
            Some(i) => i,
            None => {
                self.calls.push(call);
                self.calls.len() - 1
            }
        }
    }
}

/// Rewrites an expression over input rows and aggregates into one over group rows: the group's
/// keys, then the aggregates' results.
pub fn over_groups(
    mut expr: Expr,
    keys: &[Expr],
    scope: &Scope,
    aggregates: &Aggregates,
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
            let place = aggregates.bare_columns.iter().find(|(i, _)| *i == index);
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
