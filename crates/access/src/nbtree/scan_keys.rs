//! The conditions of a scan: where it begins, which items it returns, and when it ends.
//!
//! Conditions on the first columns bound the scan, as long as the columns before are bound to one
//! value each. Going forward, `a = 1 AND b > 5 AND c = 7` begins behind (1, 5), and ends at the
//! first item with another `a`; items with another `c` are passed over.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::cmp::Ordering;

use forebay_format::nbtree::Tuple;
use forebay_types::Datum;

use super::compare::{KeyError, SearchKey, readable, stored_value};
use super::relation::{IndexShape, KeyColumn};
use crate::error::AccessError;

/// The direction of a scan, in the index's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first item on.
    Forward,
    /// From the last item on.
    Backward,
}

/// What a condition compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are the operators")]
pub enum Operator {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
    IsNull,
    IsNotNull,
}

impl Operator {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Equal => order.is_eq(),
            Operator::GreaterOrEqual => order.is_ge(),
            Operator::Greater => order.is_gt(),
            Operator::IsNull | Operator::IsNotNull => unreachable!("not a comparison"),
        }
    }
}

/// A condition on a key column.
#[derive(Debug, Clone)]
pub struct Condition {
    column: usize,
    operator: Operator,
    /// What the column is compared with. None: NULL, or nothing.
    value: Option<Vec<u8>>,
}

impl Condition {
    /// A condition on the key column with this index, from 0. The value has the column's type; it
    /// does not matter for IS NULL and IS NOT NULL.
    pub fn new(
        shape: &IndexShape,
        column: usize,
        operator: Operator,
        value: &Datum<'_>,
    ) -> Result<Condition, AccessError> {
        let layout = shape.layouts.get(column).filter(|_| column < shape.keys.len());
        let layout = *layout.ok_or_else(|| {
            AccessError::Internal(format!("index \"{}\" has no key column {column}", shape.name))
        })?;
        let value = match operator {
            Operator::IsNull | Operator::IsNotNull => None,
            _ => stored_value(layout, value)?,
        };
        Ok(Condition { column, operator, value })
    }

    /// Whether it is a comparison with NULL, which is never true.
    fn is_never_true(&self) -> bool {
        !matches!(self.operator, Operator::IsNull | Operator::IsNotNull) && self.value.is_none()
    }

    fn binds_to_one_value(&self) -> bool {
        matches!(self.operator, Operator::Equal | Operator::IsNull)
    }

    /// The end of a column's order that the condition cuts off, in the index's order: the one that
    /// it bounds the scan at. None if it binds to one value.
    fn bounds(&self, key: &KeyColumn) -> Option<Direction> {
        let up = match self.operator {
            Operator::Equal | Operator::IsNull => return None,
            Operator::Less | Operator::LessOrEqual => !key.descending,
            Operator::Greater | Operator::GreaterOrEqual => key.descending,
            Operator::IsNotNull => !key.nulls_first,
        };
        Some(if up { Direction::Forward } else { Direction::Backward })
    }

    /// Whether a value satisfies the condition.
    fn holds(&self, key: &KeyColumn, value: Option<&[u8]>) -> Result<bool, KeyError> {
        Ok(match (self.operator, value, &self.value) {
            (Operator::IsNull, value, _) => value.is_none(),
            (Operator::IsNotNull, value, _) => value.is_some(),
            (_, None, _) | (_, _, None) => false,
            (operator, Some(value), Some(with)) => {
                operator.accepts(key.order.compare(value, with)?)
            }
        })
    }
}

/// What the conditions say of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It satisfies all of them.
    Found,
    /// It does not.
    PassedOver,
    /// It does not, and neither does any item behind it.
    End,
}

/// All conditions of a scan.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    /// By column.
    all: Vec<Condition>,
    /// Columns before this one are each bound to one value.
    bound: usize,
    never_true: bool,
}

impl Conditions {
    pub(super) fn new(mut all: Vec<Condition>) -> Conditions {
        all.sort_by_key(|condition| condition.column);
        let never_true = all.iter().any(Condition::is_never_true);
        let is_bound =
            |&column: &usize| all.iter().any(|c| c.column == column && c.binds_to_one_value());
        let bound = (0..).take_while(is_bound).count();
        Conditions { all, bound, never_true }
    }

    /// Whether no item can satisfy them.
    pub(super) fn are_never_true(&self) -> bool {
        self.never_true
    }

    /// Where a scan begins.
    pub(super) fn first_key(
        &self,
        shape: &IndexShape,
        direction: Direction,
    ) -> Result<SearchKey<'_>, KeyError> {
        let backward = direction == Direction::Backward;
        let mut key = SearchKey::of_values(Vec::new());
        (key.backward, key.after_equal) = (backward, backward);
        for column in 0..self.bound {
            let binding = self.of(column).find(|condition| condition.binds_to_one_value());
            let value = binding.and_then(|condition| condition.value.as_deref());
            key.values.push(value.map(Cow::Borrowed));
        }
        let Some(column) = shape.keys.get(self.bound) else { return Ok(key) };
        if let Some(condition) = self.tightest(column, direction)? {
            key.values.push(condition.value.as_deref().map(Cow::Borrowed));
            let inclusive =
                matches!(condition.operator, Operator::LessOrEqual | Operator::GreaterOrEqual);
            key.after_equal = inclusive == backward;
        } else if self.of(self.bound).next().is_some() && column.nulls_first != backward {
            // No NULL satisfies a condition, and they come first.
            key.values.push(None);
            key.after_equal = !backward;
        }
        Ok(key)
    }

    fn of(&self, column: usize) -> impl Iterator<Item = &Condition> {
        self.all.iter().filter(move |condition| condition.column == column)
    }

    /// The comparison on the first column not bound to one value at which a scan begins last.
    fn tightest(
        &self,
        column: &KeyColumn,
        direction: Direction,
    ) -> Result<Option<&Condition>, KeyError> {
        let mut tightest: Option<&Condition> = None;
        let others = self.of(self.bound).filter(|condition| {
            condition.operator != Operator::IsNotNull
                && condition.bounds(column).is_some_and(|end| end != direction)
        });
        for condition in others {
            let Some(best) = tightest else {
                tightest = Some(condition);
                continue;
            };
            let order = column.compare(condition.value.as_deref(), best.value.as_deref())?;
            let order = if direction == Direction::Forward { order } else { order.reverse() };
            let is_strict = matches!(condition.operator, Operator::Less | Operator::Greater);
            if order.is_gt() || order.is_eq() && is_strict {
                tightest = Some(condition);
            }
        }
        Ok(tightest)
    }

    /// Judges an item, or a high key, whose missing columns satisfy everything.
    pub(super) fn judge(
        &self,
        shape: &IndexShape,
        tuple: &Tuple<'_>,
        direction: Direction,
    ) -> Result<Verdict, KeyError> {
        let columns = tuple.column_count(shape.layouts.len());
        let mut values = tuple.values(shape.layouts.len());
        let mut rest = shape.layouts.iter().zip(&shape.keys).enumerate().take(columns);
        let mut value = None;
        let mut at = None;
        for condition in &self.all {
            while at.is_none_or(|(column, _)| column < condition.column) {
                let Some((column, (layout, key))) = rest.next() else {
                    return Ok(Verdict::Found);
                };
                value = readable(values.next(*layout)?, column)?;
                at = Some((column, key));
            }
            let Some((_, key)) = at else { unreachable!("a column was read") };
            if !condition.holds(key, value.as_deref())? {
                let ends = self.ends_at(condition, key, value.is_none(), direction);
                return Ok(if ends { Verdict::End } else { Verdict::PassedOver });
            }
        }
        Ok(Verdict::Found)
    }

    /// Whether no item behind one that fails a condition can satisfy it.
    fn ends_at(
        &self,
        condition: &Condition,
        key: &KeyColumn,
        is_null: bool,
        direction: Direction,
    ) -> bool {
        if condition.column > self.bound {
            return false;
        }
        if is_null && condition.operator != Operator::IsNull {
            // Behind the first NULL of a group there are only NULLs if they come last.
            return key.nulls_first == (direction == Direction::Backward);
        }
        match condition.bounds(key) {
            None => condition.column < self.bound,
            Some(end) => end == direction,
        }
    }
}
