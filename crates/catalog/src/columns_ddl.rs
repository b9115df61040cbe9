//! Columns of tables that are there: added, renamed, dropped.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_access::form_row;
use forebay_format::tuple::{HeapTuple, deform};
use forebay_format::varlena::long_header;
use forebay_format::{Align, AttrLayout};
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Encoding, Oid};

use crate::arrays::array_of_stored;
use crate::catalog_oids::{ATTRIBUTES, CLASSES, CONSTRAINTS};
use crate::checks::{CheckedTable, count_checks};
use crate::database::Database;
use crate::ddl::add_not_null;
use crate::defaults::insert_default;
use crate::dropping::{ColumnParts, Dropped, drop_dependents};
use crate::error::CatalogError;
use crate::index_ddl::set_not_null;
use crate::layout::layout_of;
use crate::objects::Object;
use crate::row::Row;
use crate::row_changes::{attribute, drop_column_row, set};
use crate::rows::user_attribute;
use crate::schema::{PG_ATTRIBUTE, PG_CLASS, PG_CLASS_OID_INDEX, PG_CONSTRAINT_OID_INDEX};
use crate::table::{ColumnDef, Table};
use crate::writer::Writer;

/// Most columns of a table.
const MOST_COLUMNS: i16 = 1600;

fn put(row: &mut [Datum<'static>], name: &str, value: Datum<'static>) {
    if let Some(slot) = row.get_mut(PG_ATTRIBUTE.place(name)) {
        *slot = value;
    }
}

/// An array of one value, as attmissingval of a database with an encoding has it.
pub(crate) fn missing_array(
    type_oid: Oid,
    value: &Datum<'_>,
    encoding: Encoding,
) -> Result<Datum<'static>, CatalogError> {
    let layout = layout_of(type_oid)?;
    let plain = [AttrLayout { align: Align::Char, plain: true, ..layout }];
    let (mut tuple, mut bytes) = (Vec::new(), [None]);
    form_row(&plain, std::slice::from_ref(value), encoding, &mut tuple)?;
    deform(HeapTuple::new(&tuple)?, &plain, &mut bytes)?;
    let [bytes] = bytes;
    let bytes = bytes.unwrap_or_default();
    let mut stored = match layout.len {
        -1 => [&long_header(bytes.len())[..], bytes].concat(),
        -2 => [bytes, &[0]].concat(),
        _ => bytes.to_vec(),
    };
    stored.resize(layout.align.up(stored.len()), 0);
    Ok(array_of_stored(type_oid, [stored].into_iter()))
}

/// Adds a column to a table, which the caller has locked; no column has its name. `missing`: the
/// value that rows have which are there. Returns its number.
pub fn add_column(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, def): (&Table, &ColumnDef),
    missing: Option<&Datum<'_>>,
) -> Result<i16, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut class = writer.row(&PG_CLASS_OID_INDEX, table.oid)?;
    let count = Row(&class.values, PG_CLASS.name).int2(PG_CLASS.place("relnatts"))?;
    let number = count.checked_add(1).filter(|number| *number <= MOST_COLUMNS);
    let number = number.ok_or_else(|| {
        CatalogError::refused("54011", format!("tables can have at most {MOST_COLUMNS} columns"))
    })?;
    let mut row = user_attribute(table.oid, number, def)?.datums();
    if let Some(value) = missing {
        let (has, array) =
            (PG_ATTRIBUTE.place("atthasmissing"), PG_ATTRIBUTE.place("attmissingval"));
        for (place, value) in [
            (has, Datum::Bool(true)),
            (array, missing_array(def.type_oid, value, database.encoding)?),
        ] {
            if let Some(slot) = row.get_mut(place) {
                *slot = value;
            }
        }
    }
    writer.insert(ATTRIBUTES, &row)?;
    set(&mut class.values, "relnatts", Datum::Int2(number));
    writer.update(CLASSES, class.tid, &class.values)?;
    if let Some(collation) = def.collation {
        writer.depend_on_collation(Object::column(table.oid, number), collation)?;
    }
    writer.next_command()?;
    if let Some(default) = &def.default {
        insert_default(&mut writer, (table.oid, number), default, def.generated != 0)?;
    }
    if def.not_null {
        let name = def.not_null_name.as_deref();
        add_not_null(&mut writer, CheckedTable::of(table), (number, &def.name), name)?;
    }
    writer.next_command()?;
    Ok(number)
}

/// Renames a column of a table, which the caller has locked; no column has the name.
pub fn rename_column(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, number): (&Table, i16),
    name: &str,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = attribute(&mut writer, table, number, usize::MAX)?;
    writer.announce(ATTRIBUTES, &found.values);
    put(&mut found.values, "attname", Datum::string(name.to_owned()));
    writer.update(ATTRIBUTES, found.tid, &found.values)?;
    writer.next_command()
}

/// Lets a column of a table, which the caller has locked, refuse NULL from now on.
pub fn add_not_null_constraint(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, number, column): (&Table, i16, &str),
    name: Option<&str>,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    set_not_null(&mut writer, table, number, true)?;
    add_not_null(&mut writer, CheckedTable::of(table), (number, column), name)?;
    writer.next_command()
}

/// Drops a column of a table, which the caller has locked, with what belongs to it: its default,
/// constraints, indexes and sequences; with `cascade` also what else depends on it, which is 2BP01
/// otherwise. Returns the relations that went with it, and what went by CASCADE, in words.
pub fn drop_column(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, number): (&Table, i16),
    cascade: bool,
) -> Result<(Vec<Oid>, Dropped), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let (mut gone, mut told) = (Vec::new(), Dropped::default());
    // No column is generated of one that is generated itself: this ends with the second round.
    let mut columns = vec![number];
    while let Some(number) = columns.pop() {
        let parts = drop_one(&mut writer, table, number, cascade)?;
        columns.extend(parts.generated.iter().map(|column| column.column));
        told.0.extend(parts.told);
        let relations = parts.dropped.iter().filter(|object| object.class == CLASSES);
        gone.extend(relations.map(|object| object.oid));
    }
    Ok((gone, told))
}

fn drop_one(
    writer: &mut Writer<'_>,
    table: &Table,
    number: i16,
    cascade: bool,
) -> Result<ColumnParts, CatalogError> {
    let mut checks = 0;
    let column = Object::column(table.oid, number);
    let parts = drop_dependents(writer, column, cascade, |writer, object| {
        if object.class == CONSTRAINTS {
            let found = writer.row(&PG_CONSTRAINT_OID_INDEX, object.oid)?;
            checks += i16::from(Row(&found.values, "pg_constraint").char(3)? == b'c');
        }
        Ok(())
    })?;
    writer.next_command()?;
    if checks > 0 {
        count_checks(writer, table.oid, -checks)?;
    }
    writer.delete_column_notes(column)?;
    drop_column_row(writer, table.oid, number)?;
    writer.next_command()?;
    Ok(parts)
}
