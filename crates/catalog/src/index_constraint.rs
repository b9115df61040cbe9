//! ALTER TABLE ... ADD PRIMARY KEY or UNIQUE USING INDEX: an index becomes a constraint's.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{CLASSES, CONSTRAINTS, DEPENDENCIES, INDEXES};
use crate::database::Database;
use crate::error::CatalogError;
use crate::index::TableIndex;
use crate::index_ddl::{
    COLLATION, check_index, insert_constraint, make_not_null, operator_classes,
};
use crate::index_def::{ConstraintKind, IndexDef, IndexKey};
use crate::index_rows::{EXPRESSIONS, INDEX_COLUMNS, IndexRow, PREDICATE};
use crate::index_twin::{IS_PRIMARY, put};
use crate::objects::Object;
use crate::row::Row;
use crate::row_changes::attribute;
use crate::schema::{
    PG_CLASS_OID_INDEX, PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, PG_INDEX, PG_INDEX_INDEXRELID_INDEX,
};
use crate::table::Table;
use crate::writer::{Found, Writer};

/// A row of pg_depend: the other object's catalog, and how the object depends on it.
const ON_CLASS: usize = PG_DEPEND.place("refclassid");
const HOW: usize = PG_DEPEND.place("deptype");

/// Finds the index of a name that is to become a constraint's, and refuses what PostgreSQL refuses
/// of it. The caller has locked the table.
pub fn find_constraint_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    name: &str,
) -> Result<Arc<TableIndex>, CatalogError> {
    let refuse = |state, message: String| Err(CatalogError::refused(state, message));
    let mut writer = Writer::begin(database, backend, tx)?;
    let Some(class) = writer.reader().class_named(table.namespace, name)? else {
        return refuse("42704", format!("index \"{name}\" does not exist"));
    };
    if class.kind != b'i' {
        return refuse("42809", format!("\"{name}\" is not an index"));
    }
    let references = writer.references(Object::relation(class.oid))?;
    if references.iter().any(|depends| depends.on.class == CONSTRAINTS) {
        return refuse(
            "55000",
            format!("index \"{name}\" is already associated with a constraint"),
        );
    }
    let found = writer.row(&PG_INDEX_INDEXRELID_INDEX, class.oid)?;
    if Row(&found.values, PG_INDEX.name).oid(1)? != table.oid {
        let table = &table.name;
        return refuse("55000", format!("index \"{name}\" does not belong to table \"{table}\""));
    }
    let index = table.indexes.iter().find(|index| index.oid == class.oid && index.valid);
    let Some(index) = index else {
        return refuse("55000", format!("index \"{name}\" is not valid"));
    };
    check_form(&mut writer, table, index, &found)?;
    Ok(Arc::clone(index))
}

/// Refuses an index whose form is not that of a constraint's.
fn check_form(
    writer: &mut Writer<'_>,
    table: &Table,
    index: &TableIndex,
    found: &Found,
) -> Result<(), CatalogError> {
    let name = &index.name;
    let has = |place| found.values.get(place).is_some_and(|value| *value != Datum::Null);
    let message = if !index.unique {
        format!("\"{name}\" is not a unique index")
    } else if has(EXPRESSIONS) {
        format!("index \"{name}\" contains expressions")
    } else if has(PREDICATE) {
        format!("\"{name}\" is a partial index")
    } else {
        let row = found.values.get(..INDEX_COLUMNS).unwrap_or(&found.values);
        let row = IndexRow::read(&Row(row, PG_INDEX.name), 0, (None, None))?;
        match unusual_key(writer, table, &row)? {
            Some(number) => format!(
                "index \"{name}\" column number {number} does not have default sorting behavior"
            ),
            None => return check_known(index),
        }
    };
    Err(CatalogError::refused("42809", message)
        .with_detail("Cannot create a primary key or unique constraint using such an index."))
}

/// Refuses an index that cannot be written here.
fn check_known(index: &TableIndex) -> Result<(), CatalogError> {
    let why = match &index.unknown {
        Some(why) => why,
        None if !index.immediate => "it is deferrable",
        None => return Ok(()),
    };
    let message = format!("cannot use index \"{}\" for a constraint: {why}", index.name);
    Err(CatalogError::refused("0A000", message))
}

/// The number of the first key, from 1, that does not order values as its type does by default.
fn unusual_key(
    writer: &mut Writer<'_>,
    table: &Table,
    row: &IndexRow,
) -> Result<Option<usize>, CatalogError> {
    let keys = row.columns.iter().take(row.classes.len());
    let keys = keys.map(|number| IndexKey::new(*number)).collect();
    let usual = operator_classes(writer, table, &IndexDef { keys, ..IndexDef::default() })?;
    let orders = row.classes.iter().zip(&row.collations).zip(&row.options);
    for (n, ((class, usual), number)) in orders.zip(usual).zip(&row.columns).enumerate() {
        let ((class, collation), options) = class;
        let column = attribute(writer, table, *number, COLLATION + 1)?.values;
        let of_column = Row(&column, "pg_attribute").oid(COLLATION)?;
        if *class != usual.oid || *collation != of_column || *options != 0 {
            return Ok(Some(n + 1));
        }
    }
    Ok(None)
}

/// Makes a constraint of an index that [`find_constraint_index`] has found. The index gets the
/// constraint's name, which the caller has locked if it is another. Returns the columns that have
/// to be checked for NULLs, by number: a primary key's.
pub fn constrain_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, index): (&Table, &TableIndex),
    (name, kind): (&str, ConstraintKind),
) -> Result<Vec<i16>, CatalogError> {
    let (keys, included) = index.columns.split_at(index.shape.keys.len().min(index.columns.len()));
    let def = IndexDef {
        keys: keys.iter().map(|number| IndexKey::new(*number)).collect(),
        included: included.to_vec(),
        constraint: Some(kind),
        ..IndexDef::default()
    };
    let mut writer = Writer::begin(database, backend, tx)?;
    if name != index.name {
        rename(&mut writer, table, index.oid, name)?;
    }
    check_index(table, &def)?;
    if def.is_primary() && index.shape.nulls_are_equal {
        let message = "primary keys cannot use NULLS NOT DISTINCT indexes";
        return Err(CatalogError::refused("42P16", message));
    }
    let not_null = match def.is_primary() {
        true => make_not_null(&mut writer, table, &def, true)?,
        false => Vec::new(),
    };
    // It goes with its constraint from now on.
    let key = [Datum::Oid(CLASSES), Datum::Oid(index.oid)];
    for found in writer.rows((&PG_DEPEND_DEPENDER_INDEX, &key), PG_DEPEND.columns.len())? {
        let row = Row(&found.values, PG_DEPEND.name);
        if row.oid(ON_CLASS)? == CLASSES && row.char(HOW)? == b'a' {
            writer.delete(DEPENDENCIES, &found)?;
        }
    }
    insert_constraint(&mut writer, table, &def, (index.oid, name), kind)?;
    if def.is_primary() {
        let mut found = writer.row(&PG_INDEX_INDEXRELID_INDEX, index.oid)?;
        put(&mut found, IS_PRIMARY, Datum::Bool(true));
        writer.update(INDEXES, found.tid, &found.values)?;
    }
    writer.next_command()?;
    Ok(not_null)
}

fn rename(
    writer: &mut Writer<'_>,
    table: &Table,
    index: Oid,
    name: &str,
) -> Result<(), CatalogError> {
    if writer.has_relation(table.namespace, name)? {
        let message = format!("relation \"{name}\" already exists");
        return Err(CatalogError::refused("42P07", message));
    }
    let mut found = writer.row(&PG_CLASS_OID_INDEX, index)?;
    writer.announce(CLASSES, &found.values);
    put(&mut found, 1, Datum::string(name.to_owned()));
    writer.update(CLASSES, found.tid, &found.values)
}
