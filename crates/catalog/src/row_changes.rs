//! Rows of pg_class and pg_attribute that are to be changed.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::Datum;

use crate::error::CatalogError;
use crate::schema::{PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_CLASS};
use crate::table::Table;
use crate::writer::{Found, Writer};

/// Replaces a value of a row of pg_class.
pub(crate) fn set<'a>(row: &mut [Datum<'a>], name: &str, value: Datum<'a>) {
    let index = PG_CLASS.columns.iter().position(|column| column.name == name);
    let column = index.and_then(|index| row.get_mut(index));
    *column.expect("pg_class has this column") = value;
}

/// The first values of a column's row.
pub(crate) fn attribute(
    writer: &mut Writer<'_>,
    table: &Table,
    number: i16,
    columns: usize,
) -> Result<Found, CatalogError> {
    let key = [Datum::Oid(table.oid), Datum::Int2(number)];
    let found = writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), columns)?.pop();
    let missing = || format!("pg_attribute has no column {number} of \"{}\"", table.name);
    found.ok_or_else(|| CatalogError::corrupt(missing()))
}
