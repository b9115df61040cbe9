//! A table that is read through an index: which conditions the index takes over, and whether its
//! order and its columns are those that are wanted.

use super::computed::{ComputedIndex, keys};
use super::expr::{Comparison, Expr, RowCollations, type_of};
use super::implied::implied;
use super::order::ValueOrder;
use super::tid::is_fixed;
use super::tree::{IndexCondition, IndexRead, Node};
use forebay_collation::Collation;
use forebay_engine::{EntrySource, TableIndex};
use forebay_types::{Datum, SqlType};
use std::sync::Arc;

impl IndexRead {
    /// The parts of the index's predicate.
    pub fn predicate(&self) -> &[Expr] {
        ComputedIndex::of(&self.index).map_or(&[], |computed| &computed.predicate)
    }

    /// What holds for the rows that it finds.
    pub fn all_tests(&self) -> Vec<&Expr> {
        self.with_predicate(self.tests.iter().collect())
    }

    /// Conditions, and the parts of the predicate that they do not imply.
    pub fn with_predicate<'s>(&'s self, conditions: Vec<&'s Expr>) -> Vec<&'s Expr> {
        let mut all = conditions;
        for part in self.predicate() {
            if !implied(&all, part) {
                all.push(part);
            }
        }
        all
    }
}

/// A value by which rows are to be ordered.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrderColumn {
    /// A column of the table, or another expression over its row.
    pub key: Expr,
    /// DESC
    pub descending: bool,
    /// NULLS FIRST
    pub nulls_first: bool,
    /// The order of its values.
    pub order: ValueOrder,
}

/// The condition that all parts hold.
pub(super) fn all_of(mut parts: Vec<Expr>) -> Option<Expr> {
    match parts.len() {
        0 | 1 => parts.pop(),
        _ => Some(Expr::And(parts)),
    }
}

/// The rows for which a condition is true, if there is one.
pub(super) fn filtered(input: Node, condition: Option<Expr>) -> Node {
    match condition {
        None => input,
        Some(condition) => Node::Filter { input: Box::new(input), condition },
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
        // Trailing blanks do not count in the order of an index, either.
        Expr::Cast { expr, from: SqlType::Bpchar, to: SqlType::Text } => match **expr {
            Expr::Column(column) => Some(column),
            _ => None,
        },
        _ => None,
    }
}

/// What an index can do with a part of a condition, and the same as an expression over the table's
/// row.
pub(super) fn index_condition(e: &Expr, index: &TableIndex) -> Option<(IndexCondition, Expr)> {
    if let Expr::CompareRows(comparison, pairs, collations) = e {
        return row_condition(*comparison, (pairs, collations), index);
    }
    if let Expr::Or(list) = e {
        return any_of(list, index);
    }
    column_condition(e, index).map(|condition| (condition, e.clone()))
}

/// The key column that an expression is.
pub(super) fn key_of(e: &Expr, index: &TableIndex) -> Option<usize> {
    if let Some(column) = column_of(e) {
        let mut keys = index.key_sources();
        return keys.position(|key| key == EntrySource::Column(column));
    }
    let computed = ComputedIndex::of(index)?;
    let e = unwidened(e);
    index.key_sources().position(|key| match key {
        EntrySource::Expression(n) => computed.expressions.get(n) == Some(e),
        EntrySource::Column(_) => false,
    })
}

/// Whether a comparison of an expression that is a key with values is one of the index's operator
/// family: whether trailing blanks count is the same for both.
fn compares_as_key<'e>(
    e: &Expr,
    key: usize,
    index: &TableIndex,
    values: impl IntoIterator<Item = &'e Expr>,
) -> bool {
    let padded = index.shape.keys.get(key).is_some_and(|key| key.order.is_padded());
    match (padded, is_unpadded(e)) {
        (false, false) => true,
        (true, true) => values.into_iter().all(|value| match value {
            Expr::Const(Datum::Text(text)) => !text.ends_with(' '),
            value => is_unpadded(value) || matches!(value, Expr::Const(Datum::Null)),
        }),
        _ => false,
    }
}

/// Whether an expression is a character(n) without its trailing blanks, as it is compared.
fn is_unpadded(e: &Expr) -> bool {
    matches!(e, Expr::Cast { from: SqlType::Bpchar, to: SqlType::Text, .. })
}

/// What was widened to be compared, if it is an integer.
fn unwidened(e: &Expr) -> &Expr {
    let integer = |ty: &SqlType| matches!(ty, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
    match e {
        Expr::Cast { expr, from, to }
            if integer(from) && integer(to) && from.info().len <= to.info().len =>
        {
            expr
        }
        _ => e,
    }
}

fn column_condition(e: &Expr, index: &TableIndex) -> Option<IndexCondition> {
    let found = comparison_condition(e, index);
    // The condition itself may be a Boolean key.
    found.or_else(|| {
        let (operand, value) = match e {
            Expr::Not(inner) => (&**inner, false),
            other => (other, true),
        };
        let value = Expr::Const(Datum::Bool(value));
        let compare = |key| IndexCondition::Compare { key, comparison: Comparison::Eq, value };
        let computed = !matches!(operand, Expr::Column(_));
        key_of(operand, index).filter(|_| computed).map(compare)
    })
}

fn comparison_condition(e: &Expr, index: &TableIndex) -> Option<IndexCondition> {
    let key_of = |e: &Expr| key_of(e, index);
    let is = |e: &Expr, value: bool| {
        let value = Expr::Const(Datum::Bool(value));
        let compare = |key| IndexCondition::Compare { key, comparison: Comparison::Eq, value };
        key_of(e).map(compare)
    };
    match e {
        Expr::Compare(comparison, pair) if *comparison != Comparison::Ne => {
            comparison_of((*comparison, pair, None), index)
        }
        Expr::Collated(comparison, collation, pair) => {
            comparison_of((*comparison, pair, Some(collation)), index)
        }
        Expr::InList { expr, list, negated: false, .. } if list.iter().all(is_fixed) => {
            let key = key_of(expr).filter(|key| compares_as_key(expr, *key, index, list))?;
            Some(IndexCondition::AnyOf { key, values: list.clone() })
        }
        Expr::InArray { expr, array, elements, negated: false } if is_fixed(array) => {
            // The elements are compared as text or as character(n).
            let same = is_unpadded(expr) == (elements.1 == SqlType::Bpchar);
            let fits = |key: &usize| same && compares_as_key(expr, *key, index, []);
            let key = key_of(expr).filter(fits)?;
            Some(IndexCondition::AnyOfArray { key, array: (**array).clone(), elements: *elements })
        }
        Expr::IsNull(e) => key_of(e).map(|key| IndexCondition::Null { key, is_null: true }),
        Expr::IsNotNull(e) => key_of(e).map(|key| IndexCondition::Null { key, is_null: false }),
        // As a condition of its own a column is a Boolean one.
        Expr::Column(_) => is(e, true),
        Expr::Not(inner) if matches!(**inner, Expr::Column(_)) => is(inner, false),
        _ => None,
    }
}

/// A comparison of a key with a value. Texts that are equal are so by each collation; the order of
/// others is the index's only if the collation is.
fn comparison_of(
    (comparison, pair, collation): (Comparison, &(Expr, Expr), Option<&Collation>),
    index: &TableIndex,
) -> Option<IndexCondition> {
    let (a, b) = pair;
    let (operand, key, comparison, value) = match (key_of(a, index), key_of(b, index)) {
        (Some(key), _) if is_fixed(b) => (a, key, comparison, b),
        (_, Some(key)) if is_fixed(a) => (b, key, comparison.exchanged(), a),
        _ => return None,
    };
    let fits = (comparison == Comparison::Eq || has_collation(index, key, collation))
        && compares_as_key(operand, key, index, [value]);
    fits.then(|| IndexCondition::Compare { key, comparison, value: value.clone() })
}

/// Whether a key column orders texts by a collation; None: by their bytes.
fn has_collation(index: &TableIndex, key: usize, collation: Option<&Collation>) -> bool {
    index.shape.keys.get(key).is_some_and(|column| column.order.collation() == collation)
}

/// A column that is equal to one value or another, as one that is equal to one of a list.
fn any_of(list: &[Expr], index: &TableIndex) -> Option<(IndexCondition, Expr)> {
    let mut found = None;
    let mut values = Vec::with_capacity(list.len());
    for e in list {
        let Expr::Compare(Comparison::Eq, pair) = e else { return None };
        let IndexCondition::Compare { key, value, .. } = column_condition(e, index)? else {
            return None;
        };
        let operand = if key_of(&pair.0, index) == Some(key) { &pair.0 } else { &pair.1 };
        if *found.get_or_insert((key, operand)) != (key, operand) {
            return None;
        }
        values.push(value);
    }
    let (key, operand) = found?;
    let (expr, element) = (Box::new(operand.clone()), listed_type(&values));
    let test = Expr::InList { expr, list: values.clone(), element, negated: false };
    Some((IndexCondition::AnyOf { key, values }, test))
}

/// The type that values of a list were given in.
fn listed_type(values: &[Expr]) -> SqlType {
    let constants = || {
        values.iter().filter_map(|e| match e {
            Expr::Const(value) if !value.is_null() => Some(value),
            _ => None,
        })
    };
    // int8 constants come from int4 ones, mostly.
    let small = |value| matches!(value, &Datum::Int8(n) if i32::try_from(n).is_ok());
    match constants().next().map_or(SqlType::Text, type_of) {
        SqlType::Int8 if constants().all(small) => SqlType::Int4,
        ty => ty,
    }
}

/// A comparison of rows, as far as its first columns are keys of the index.
fn row_condition(
    comparison: Comparison,
    (pairs, collations): (&[(Expr, Expr)], &RowCollations),
    index: &TableIndex,
) -> Option<(IndexCondition, Expr)> {
    let turned = key_of(&pairs.first()?.0, index).is_none();
    let comparison = if turned { comparison.exchanged() } else { comparison };
    let (mut keys, mut values, mut used) = (Vec::new(), Vec::new(), Vec::new());
    for ((a, b), collation) in pairs.iter().zip(collations) {
        let (operand, value) = if turned { (b, a) } else { (a, b) };
        let fits = |key: &usize| {
            is_fixed(value)
                && has_collation(index, *key, collation.as_deref())
                && compares_as_key(operand, *key, index, [value])
        };
        let Some(key) = key_of(operand, index).filter(fits) else { break };
        keys.push(key);
        values.push(value.clone());
        used.push((operand.clone(), value.clone()));
    }
    let whole = used.len() == pairs.len();
    // Rows that are equal as far as the index knows may satisfy it or not.
    let comparison = match comparison {
        Comparison::Lt if !whole => Comparison::Le,
        Comparison::Gt if !whole => Comparison::Ge,
        same => same,
    };
    let test = match used.len() {
        0 => return None,
        1 => match collations.first() {
            Some(Some(by)) => Expr::Collated(comparison, Arc::clone(by), Box::new(used.remove(0))),
            _ => Expr::Compare(comparison, Box::new(used.remove(0))),
        },
        count => {
            Expr::CompareRows(comparison, used, collations.iter().take(count).cloned().collect())
        }
    };
    Some((IndexCondition::Row { keys, comparison, values, whole }, test))
}

/// Whether rows in an index's order are in the order that is wanted, and if so, whether it must be
/// read backward.
pub(super) fn ordered(
    index: &TableIndex,
    conditions: &[IndexCondition],
    order: &[OrderColumn],
) -> Option<bool> {
    let columns = keys(index);
    let fixed = |key: usize| conditions.iter().any(|c| c.key() == key && c.is_equality());
    let (mut key, mut backward) = (0, None);
    for wanted in order {
        if columns.iter().position(|column| *column == wanted.key).is_some_and(fixed) {
            continue;
        }
        while columns.get(key).is_some_and(|column| *column != wanted.key && fixed(key)) {
            key += 1;
        }
        if columns.get(key) != Some(&wanted.key) {
            return None;
        }
        let shape = index.shape.keys.get(key)?;
        let turned = wanted.descending != shape.descending;
        if shape.order.collation() != wanted.order.collation() {
            return None;
        }
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
