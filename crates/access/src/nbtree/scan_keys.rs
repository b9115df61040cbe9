//! The conditions of a scan: where it begins, which items it returns, where it goes on, and when it
//! ends.
//!
//! Each key column has a list of wanted values ([`Wanted`]); without a condition these are all. An
//! item is judged column by column. The first column whose value is not wanted tells what the scan
//! can leave out:
//!
//! | the value lies | the scan goes on |
//! |---|---|
//! | before a wanted one | at that one, with the same values in the columns before |
//! | behind all wanted ones | at the next value of the column before; behind its last, before that |
//!
//! So `a = ANY ('{1,5}') AND b = 7` jumps from (1, 8) to (5, 7). Without a condition on `a`, the
//! next value of `a` is not known: the scan goes on behind all items with the present one. That is
//! a skip scan. A jump within a leaf is a search there; further away it is a new descent.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;

use forebay_format::nbtree::Tuple;
use forebay_types::Datum;

use super::compare::{KeyError, SearchKey, Stored, readable, stored_value, values_of};
use super::order::KeyOrder;
use super::relation::{IndexShape, KeyColumn};
use super::wanted::{Direction, Interval, Place, Value, Wanted};
use crate::error::AccessError;

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

/// A condition on key columns.
#[derive(Debug, Clone)]
pub struct Condition(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Column(usize, Wanted),
    Row(RowCondition),
}

/// A comparison of rows: `(a, b) > (1, 2)`.
#[derive(Debug, Clone)]
struct RowCondition {
    /// At least two.
    columns: Vec<usize>,
    values: Vec<Vec<u8>>,
    /// The operator: lesser or greater rows, and whether an equal row satisfies it.
    less: bool,
    or_equal: bool,
    /// Whether the columns follow one another in the index, all in one order: then the condition
    /// bounds the scan.
    bounding: bool,
    /// Whether lower rows in the index's order satisfy it.
    low: bool,
}

/// A number for a column of a type that may be narrower.
enum Narrowed<'a> {
    Value(Cow<'a, Datum<'a>>),
    /// Less than all values of the column, of which this is the least.
    Below(Datum<'static>),
    /// Greater than all values of the column, of which this is the greatest.
    Above(Datum<'static>),
}

impl Condition {
    /// A condition on the key column with this index, from 0. The value has the column's type, or
    /// both are among int2, int4 and int8. It does not matter for IS NULL and IS NOT NULL.
    pub fn new(
        shape: &IndexShape,
        column: usize,
        operator: Operator,
        value: &Datum<'_>,
    ) -> Result<Condition, AccessError> {
        let key = key_column(shape, column)?;
        let wanted = match (operator, value) {
            (Operator::IsNull, _) => Wanted::points(key, vec![None]),
            (Operator::IsNotNull, _) => not_null(key),
            (_, Datum::Null) => Wanted::none(),
            _ => match narrow(&key.order, value) {
                Narrowed::Value(value) => compared(key, operator, stored(shape, column, &value)?),
                Narrowed::Below(_) => all_or_none(key, is_greater(operator)),
                Narrowed::Above(_) => all_or_none(key, is_less(operator)),
            },
        };
        Ok(Condition(Kind::Column(column, wanted)))
    }

    /// `column = ANY (values)`. NULLs among the values, and numbers that the column cannot hold,
    /// are equal to nothing.
    pub fn any_of<'a>(
        shape: &IndexShape,
        column: usize,
        values: impl IntoIterator<Item = &'a Datum<'a>>,
    ) -> Result<Condition, AccessError> {
        let key = key_column(shape, column)?;
        let mut points = Vec::new();
        for value in values {
            match narrow(&key.order, value) {
                Narrowed::Value(value) if !value.is_null() => {
                    points.push(stored(shape, column, &value)?);
                }
                _ => {}
            }
        }
        Ok(Condition(Kind::Column(column, Wanted::points(key, points))))
    }

    /// A comparison of rows, `(a, b) > (1, 2)`: columns and values in the order in which they are
    /// compared. Returns conditions that together say the same.
    ///
    /// # Panics
    /// If the operator does not order rows, or if the numbers of columns and values differ.
    pub fn row(
        shape: &IndexShape,
        columns: &[usize],
        operator: Operator,
        values: &[Datum<'_>],
    ) -> Result<Vec<Condition>, AccessError> {
        assert_eq!(columns.len(), values.len(), "a comparison of rows of different length");
        let (less, mut or_equal) = match operator {
            Operator::Less => (true, false),
            Operator::LessOrEqual => (true, true),
            Operator::GreaterOrEqual => (false, true),
            Operator::Greater => (false, false),
            _ => panic!("{operator:?} does not order rows"),
        };
        let mut used = Vec::new();
        for (&column, value) in columns.iter().zip(values) {
            let narrowed = narrow(&key_column(shape, column)?.order, value);
            let (value, goes_on) = match narrowed {
                Narrowed::Value(value) => (value, true),
                // With equal values before, what is compared here is true for all that the column
                // can hold.
                Narrowed::Below(least) if !less => (Cow::Owned(least), false),
                Narrowed::Above(greatest) if less => (Cow::Owned(greatest), false),
                // Or for none of it.
                Narrowed::Below(_) | Narrowed::Above(_) => (Cow::Owned(Datum::Null), false),
            };
            let Some(value) = stored(shape, column, &value)? else {
                or_equal = false;
                break;
            };
            used.push((column, value));
            if !goes_on {
                or_equal = true;
                break;
            }
        }
        row_of(shape, used, less, or_equal)
    }
}

/// The conditions that a comparison of rows without NULLs amounts to.
fn row_of(
    shape: &IndexShape,
    row: Vec<(usize, Vec<u8>)>,
    less: bool,
    or_equal: bool,
) -> Result<Vec<Condition>, AccessError> {
    let Some((first, value)) = row.first() else {
        return Ok(vec![Condition(Kind::Column(0, Wanted::none()))]);
    };
    let (first, key) = (*first, key_column(shape, *first)?);
    let operator = match (less, or_equal || row.len() > 1) {
        (true, true) => Operator::LessOrEqual,
        (true, false) => Operator::Less,
        (false, true) => Operator::GreaterOrEqual,
        (false, false) => Operator::Greater,
    };
    let of_first = compared(key, operator, Some(value.clone()));
    let mut conditions = vec![Condition(Kind::Column(first, of_first))];
    if row.len() > 1 {
        let (columns, values): (Vec<usize>, _) = row.into_iter().unzip();
        let follow = columns.iter().enumerate().all(|(n, &column)| column == first + n);
        let one_order = columns.iter().all(|&column| {
            shape.keys.get(column).map(|key| key.descending) == Some(key.descending)
        });
        let bounding = follow && one_order;
        let low = less != key.descending;
        let row = RowCondition { columns, values, less, or_equal, bounding, low };
        conditions.push(Condition(Kind::Row(row)));
    }
    Ok(conditions)
}

fn key_column(shape: &IndexShape, column: usize) -> Result<&KeyColumn, AccessError> {
    shape.keys.get(column).ok_or_else(|| {
        AccessError::Internal(format!("index \"{}\" has no key column {column}", shape.name))
    })
}

/// The stored form of a value, which can be compared with those of the column.
fn stored(shape: &IndexShape, column: usize, value: &Datum<'_>) -> Result<Value, AccessError> {
    let layout = shape.layouts.get(column).copied().ok_or_else(|| {
        AccessError::Internal(format!("index \"{}\" has no column {column}", shape.name))
    })?;
    let bytes = stored_value((layout, shape.encoding), value)?;
    key_column(shape, column)?.compare(bytes.as_deref(), bytes.as_deref()).map_err(|error| {
        AccessError::Internal(format!("a condition on index \"{}\": {error}", shape.name))
    })?;
    Ok(bytes)
}

/// All values but NULL.
fn not_null(key: &KeyColumn) -> Wanted {
    match key.nulls_first {
        true => Wanted::range(Bound::Excluded(None), Bound::Unbounded),
        false => Wanted::range(Bound::Unbounded, Bound::Excluded(None)),
    }
}

/// The values that compare to another one as an operator says.
fn compared(key: &KeyColumn, operator: Operator, with: Value) -> Wanted {
    if with.is_none() {
        return Wanted::none();
    }
    let (lower_end, bound) = match operator {
        Operator::Equal => return Wanted::points(key, vec![with]),
        Operator::Less => (true, Bound::Excluded(with)),
        Operator::LessOrEqual => (true, Bound::Included(with)),
        Operator::GreaterOrEqual => (false, Bound::Included(with)),
        Operator::Greater => (false, Bound::Excluded(with)),
        Operator::IsNull | Operator::IsNotNull => unreachable!("not a comparison"),
    };
    let range = match lower_end != key.descending {
        true => Wanted::range(Bound::Unbounded, bound),
        false => Wanted::range(bound, Bound::Unbounded),
    };
    range.and(key, &not_null(key))
}

fn all_or_none(key: &KeyColumn, all: bool) -> Wanted {
    if all { not_null(key) } else { Wanted::none() }
}

fn is_less(operator: Operator) -> bool {
    matches!(operator, Operator::Less | Operator::LessOrEqual)
}

fn is_greater(operator: Operator) -> bool {
    matches!(operator, Operator::Greater | Operator::GreaterOrEqual)
}

/// A whole number as a value of the type of a column, if both are whole numbers of different width.
fn narrow<'a>(order: &KeyOrder, value: &'a Datum<'a>) -> Narrowed<'a> {
    let number = match *value {
        Datum::Int2(number) => i64::from(number),
        Datum::Int4(number) => i64::from(number),
        Datum::Int8(number) => number,
        _ => return Narrowed::Value(Cow::Borrowed(value)),
    };
    let (least, greatest, same) = match order {
        KeyOrder::Int2 => (
            Datum::Int2(i16::MIN),
            Datum::Int2(i16::MAX),
            i16::try_from(number).ok().map(Datum::Int2),
        ),
        KeyOrder::Int4 => (
            Datum::Int4(i32::MIN),
            Datum::Int4(i32::MAX),
            i32::try_from(number).ok().map(Datum::Int4),
        ),
        KeyOrder::Int8 => return Narrowed::Value(Cow::Owned(Datum::Int8(number))),
        _ => return Narrowed::Value(Cow::Borrowed(value)),
    };
    match same {
        Some(same) => Narrowed::Value(Cow::Owned(same)),
        None if number < 0 => Narrowed::Below(least),
        None => Narrowed::Above(greatest),
    }
}

/// What the conditions say of an item.
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    /// It satisfies all of them.
    Found,
    /// It does not.
    PassedOver,
    /// It does not, and neither does any item before the one that this key leads to.
    Seek(SearchKey<'a>),
    /// It does not, and neither does any item behind it.
    End,
}

/// Where an item fails.
enum Failure {
    /// At this column: its value lies before the interval with this number.
    Before(usize, usize),
    /// At this column: its value lies behind all intervals, or what bounds it and further ones.
    Behind(usize),
    /// It lies before the row of this condition, which bounds the scan.
    BeforeRow(usize),
    /// In a way that tells nothing of other items.
    Only,
}

/// All conditions of a scan.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    /// The wanted values of the first columns, up to the last one with a condition.
    columns: Vec<Wanted>,
    rows: Vec<RowCondition>,
}

impl Conditions {
    pub(super) fn new(shape: &IndexShape, all: Vec<Condition>) -> Conditions {
        let mut conditions = Conditions::default();
        for Condition(kind) in all {
            match kind {
                Kind::Row(row) => conditions.rows.push(row),
                Kind::Column(column, wanted) => {
                    if conditions.columns.len() <= column {
                        conditions.columns.resize_with(column + 1, Wanted::all);
                    }
                    let known = conditions.columns.get_mut(column).expect("it was added");
                    let key = shape.keys.get(column).expect("checked when it was made");
                    *known = known.and(key, &wanted);
                }
            }
        }
        conditions
    }

    /// Whether no item can satisfy them.
    pub(super) fn are_never_true(&self) -> bool {
        self.columns.iter().any(Wanted::is_none)
    }

    /// Where a scan begins.
    pub(super) fn first_key(&self, direction: Direction) -> SearchKey<'_> {
        let first = self.columns.first().and_then(|wanted| wanted.first(direction));
        self.key_of(Vec::new(), first, direction)
    }

    /// The first place in a direction of wanted items that begin with these values, followed by one
    /// of an interval.
    fn key_of<'a>(
        &'a self,
        mut values: Vec<Stored<'a>>,
        mut interval: Option<&'a Interval>,
        direction: Direction,
    ) -> SearchKey<'a> {
        let mut inclusive = true;
        while let Some(next) = interval {
            let (value, included) = match next.near(direction) {
                Bound::Included(value) => (value.as_deref(), true),
                Bound::Excluded(value) => (value.as_deref(), false),
                Bound::Unbounded => break,
            };
            let begins = |row: &&RowCondition| row.begins_with(values.len(), value, direction);
            match self.rows.iter().find(begins).filter(|_| included) {
                Some(row) => {
                    values.extend(row.stored());
                    inclusive = row.or_equal;
                    break;
                }
                None => values.push(value.map(Cow::Borrowed)),
            }
            inclusive = included;
            if !included {
                break;
            }
            interval = self.columns.get(values.len()).and_then(|wanted| wanted.first(direction));
        }
        key(values, inclusive, direction)
    }

    /// Judges an item, or a high key: what it leaves out may satisfy everything.
    #[inline]
    pub(super) fn judge<'a>(
        &'a self,
        shape: &IndexShape,
        tuple: &Tuple<'a>,
        direction: Direction,
    ) -> Result<Verdict<'a>, KeyError> {
        match self.failure(shape, tuple, direction)? {
            None => Ok(Verdict::Found),
            Some(failure) => self.after(shape, tuple, failure, direction),
        }
    }

    /// The first condition that an item fails.
    #[inline]
    fn failure(
        &self,
        shape: &IndexShape,
        tuple: &Tuple<'_>,
        direction: Direction,
    ) -> Result<Option<Failure>, KeyError> {
        let columns = tuple.column_count(shape.layouts.len());
        let mut values = tuple.values(shape.layouts.len());
        let each = self.columns.iter().zip(shape.layouts.iter().zip(&shape.keys)).enumerate();
        for (column, (wanted, (layout, key))) in each.take(columns) {
            let value = readable(values.next(*layout)?, column)?;
            match wanted.locate(key, value.as_deref(), direction)? {
                (_, Place::Inside { .. }) => {}
                (number, Place::Before) => return Ok(Some(Failure::Before(column, number))),
                (_, Place::Behind) => return Ok(Some(Failure::Behind(column))),
            }
        }
        if self.rows.is_empty() {
            return Ok(None);
        }
        let values = values_of(&shape.layouts, tuple, shape.keys.len())?;
        for (number, row) in self.rows.iter().enumerate() {
            if let Some(failure) = row.failure(shape, &values, number, direction)? {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    /// Where a scan goes on behind an item that fails.
    #[cold]
    fn after<'a>(
        &'a self,
        shape: &IndexShape,
        tuple: &Tuple<'a>,
        failure: Failure,
        direction: Direction,
    ) -> Result<Verdict<'a>, KeyError> {
        let values = |count| values_of(&shape.layouts, tuple, count);
        let mut column = match failure {
            Failure::Only => return Ok(Verdict::PassedOver),
            Failure::Before(column, number) => {
                let next = self.columns.get(column).and_then(|wanted| wanted.interval(number));
                return Ok(Verdict::Seek(self.key_of(values(column)?, next, direction)));
            }
            Failure::BeforeRow(number) => {
                let Some(row) = self.rows.get(number) else { return Ok(Verdict::PassedOver) };
                let mut values = values(row.columns.first().copied().unwrap_or(0))?;
                values.extend(row.stored());
                return Ok(Verdict::Seek(key(values, row.or_equal, direction)));
            }
            Failure::Behind(column) => column,
        };
        let all = values(column)?;
        while let Some(before) = column.checked_sub(1) {
            column = before;
            let (Some(wanted), Some(key_column), Some(value)) =
                (self.columns.get(column), shape.keys.get(column), all.get(column))
            else {
                break;
            };
            let (number, place) = wanted.locate(key_column, value.as_deref(), direction)?;
            if place == (Place::Inside { last: false }) {
                return Ok(Verdict::Seek(key(values(column + 1)?, false, direction)));
            }
            let next = wanted.following(number, direction);
            if next.is_some() {
                return Ok(Verdict::Seek(self.key_of(values(column)?, next, direction)));
            }
        }
        Ok(Verdict::End)
    }
}

/// The key of the first item with these values in a direction, or of the first one behind them.
fn key(values: Vec<Stored<'_>>, inclusive: bool, direction: Direction) -> SearchKey<'_> {
    let backward = direction == Direction::Backward;
    SearchKey { after_equal: inclusive == backward, backward, ..SearchKey::of_values(values) }
}

impl RowCondition {
    /// Its values as those of a key.
    fn stored(&self) -> impl Iterator<Item = Stored<'_>> {
        self.values.iter().map(|value| Some(Cow::Borrowed(&value[..])))
    }

    /// Whether a scan comes to its row before what satisfies it.
    fn is_near(&self, direction: Direction) -> bool {
        self.low == (direction == Direction::Backward)
    }

    /// Whether a scan that begins at a value of this column begins at the condition's row.
    fn begins_with(&self, column: usize, value: Option<&[u8]>, direction: Direction) -> bool {
        self.bounding
            && self.is_near(direction)
            && self.columns.first() == Some(&column)
            && self.values.first().map(Vec::as_slice) == value
    }

    /// How an item with these key columns fails. None if it satisfies the condition, or may do so
    /// in columns that it leaves out. The conditions on the first column hold, one of which is
    /// that of the condition's first value.
    fn failure(
        &self,
        shape: &IndexShape,
        values: &[Stored<'_>],
        number: usize,
        direction: Direction,
    ) -> Result<Option<Failure>, KeyError> {
        for (&column, with) in self.columns.iter().zip(&self.values) {
            let (Some(value), Some(key)) = (values.get(column), shape.keys.get(column)) else {
                return Ok(None);
            };
            let Some(value) = value else { return Ok(Some(Failure::Only)) };
            match key.order.compare(value, with)? {
                Ordering::Equal => {}
                order if order.is_lt() == self.less => return Ok(None),
                _ => return Ok(Some(self.how_it_fails(number, direction))),
            }
        }
        Ok((!self.or_equal).then(|| self.how_it_fails(number, direction)))
    }

    fn how_it_fails(&self, number: usize, direction: Direction) -> Failure {
        match self.columns.first() {
            Some(&first) if self.bounding && !self.is_near(direction) => Failure::Behind(first),
            Some(_) if self.bounding => Failure::BeforeRow(number),
            _ => Failure::Only,
        }
    }
}
