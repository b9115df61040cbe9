//! Rows of pg_class and pg_attribute that are to be changed.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Oid};

use crate::catalog_oids::ATTRIBUTES;
use crate::error::CatalogError;
use crate::objects::Object;
use crate::schema::{
    PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_CLASS, PG_STATISTIC_RELID_ATT_INH_INDEX,
};
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

/// Makes a column a dropped one, and deletes what is known of its values.
pub(crate) fn drop_column_row(
    writer: &mut Writer<'_>,
    table: Oid,
    number: i16,
) -> Result<(), CatalogError> {
    writer.delete_column_sharing(Object::column(table, number))?;
    let key = [Datum::Oid(table), Datum::Int2(number)];
    writer.delete_all((&PG_STATISTIC_RELID_ATT_INH_INDEX, &key), 3)?;
    let found = writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), usize::MAX)?.pop();
    let lost = || CatalogError::corrupt(format!("table {table} has no column {number}"));
    let mut found = found.ok_or_else(lost)?;
    writer.announce(ATTRIBUTES, &found.values);
    let mut put = |name, value| {
        if let Some(slot) = found.values.get_mut(PG_ATTRIBUTE.place(name)) {
            *slot = value;
        }
    };
    put("attname", Datum::string(format!("........pg.dropped.{number}........")));
    put("atttypid", Datum::Oid(0));
    for name in ["attnotnull", "atthasdef", "atthasmissing"] {
        put(name, Datum::Bool(false));
    }
    put("attisdropped", Datum::Bool(true));
    // As in PostgreSQL, attidentity stays.
    put("attgenerated", Datum::Char(0));
    for name in ["attstattarget", "attacl", "attoptions", "attfdwoptions", "attmissingval"] {
        put(name, Datum::Null);
    }
    writer.update(ATTRIBUTES, found.tid, &found.values)?;
    Ok(())
}
