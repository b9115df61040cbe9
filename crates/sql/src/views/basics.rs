//! What all views share: lists of columns, and common values.

use forebay_types::{Datum, SqlType};

/// Columns over rows of a type: name, type, and what makes the value.
pub type Columns<R> = &'static [(&'static str, SqlType, fn(&R) -> Datum<'static>)];

/// Names and types.
pub fn described<R>(columns: Columns<R>) -> Vec<(&'static str, SqlType)> {
    columns.iter().map(|(name, ty, _)| (*name, *ty)).collect()
}

/// The values of rows.
pub fn values<R>(
    columns: Columns<R>,
    rows: impl IntoIterator<Item = R>,
) -> Vec<Vec<Datum<'static>>> {
    rows.into_iter().map(|row| columns.iter().map(|(.., value)| value(&row)).collect()).collect()
}

pub(super) fn opt<T>(value: Option<T>, make: impl Fn(T) -> Datum<'static>) -> Datum<'static> {
    value.map_or(Datum::Null, make)
}

pub(super) fn text(value: &str) -> Datum<'static> {
    Datum::string(value.to_owned())
}

pub(super) fn count(n: u64) -> Datum<'static> {
    Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX))
}

pub(super) fn millis(nanos: u64) -> Datum<'static> {
    Datum::Float8(nanos as f64 / 1e6)
}
