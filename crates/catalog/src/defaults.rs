//! Values that rows get where none is given: pg_attrdef.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{ATTRIBUTES, DEFAULTS};
use crate::database::Database;
use crate::error::CatalogError;
use crate::objects::{Dependency, Object};
use crate::reader::{Reader, Rows};
use crate::row::{Row, value_at};
use crate::row_changes::attribute;
use crate::schema::{PG_ATTRDEF, PG_ATTRDEF_ADRELID_ADNUM_INDEX, PG_ATTRIBUTE};
use crate::stored_expr::{StoredExpr, stored_tree, tree_text};
use crate::table::Table;
use crate::writer::Writer;

/// Index of adbin in pg_attrdef.
const TREE: usize = PG_ATTRDEF.place("adbin");
const HAS_DEFAULT: usize = PG_ATTRIBUTE.place("atthasdef");

/// A column's default. None: it is stored out of line.
pub(crate) type FoundDefault = (i16, Option<Arc<str>>);

impl Reader<'_> {
    /// The defaults of a table's columns, by their numbers.
    pub(crate) fn defaults(&mut self, table: Oid) -> Result<Vec<FoundDefault>, CatalogError> {
        let (mut found, key) = (Vec::new(), [Datum::Oid(table)]);
        let of_table = Rows::Of((&PG_ATTRDEF_ADRELID_ADNUM_INDEX, &key));
        let encoding = self.database().encoding;
        self.read(of_table, 3, &mut |_, row, tuple| {
            let number = Row(row, PG_ATTRDEF.name).int2(2)?;
            let tree = value_at(tuple, &PG_ATTRDEF, TREE)?;
            let missing = || CatalogError::corrupt("a row of pg_attrdef has no expression");
            found.push((number, tree_text(tree.ok_or_else(missing)?, encoding)?));
            Ok(true)
        })?;
        Ok(found)
    }
}

/// Inserts a column's default. What it refers to is noted. `generated`: the column is made of it.
pub(crate) fn insert_default(
    writer: &mut Writer<'_>,
    (table, column): (Oid, i16),
    default: &StoredExpr,
    generated: bool,
) -> Result<(), CatalogError> {
    let oid = writer.new_oid()?;
    let row = [
        Datum::Oid(oid),
        Datum::Oid(table),
        Datum::Int2(column),
        stored_tree(&default.tree, writer.database.encoding)?,
    ];
    writer.insert(DEFAULTS, &row)?;
    let object = Object::new(DEFAULTS, oid);
    let how = if generated { Dependency::Internal } else { Dependency::Auto };
    writer.depend(object, Object::column(table, column), how)?;
    writer.depend_on_expr(object, (default, table))
}

/// Deletes a column's default, if it has one. Returns whether it had.
pub(crate) fn delete_default(
    writer: &mut Writer<'_>,
    (table, column): (Oid, i16),
) -> Result<bool, CatalogError> {
    let key = [Datum::Oid(table), Datum::Int2(column)];
    let Some(found) = writer.rows((&PG_ATTRDEF_ADRELID_ADNUM_INDEX, &key), 3)?.pop() else {
        return Ok(false);
    };
    let oid = Row(&found.values, PG_ATTRDEF.name).oid(0)?;
    writer.delete(DEFAULTS, &found)?;
    writer.delete_notes(Object::new(DEFAULTS, oid))?;
    Ok(true)
}

/// Gives a column of a table, which the caller has locked, a default, or takes it away.
pub fn set_default(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, column): (&Table, i16),
    default: Option<&StoredExpr>,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let had = delete_default(&mut writer, (table.oid, column))?;
    if had {
        writer.next_command()?;
    }
    if let Some(default) = default {
        insert_default(&mut writer, (table.oid, column), default, false)?;
    }
    if had != default.is_some() {
        mark_default(&mut writer, table, column, default.is_some())?;
    }
    writer.next_command()
}

/// Stores in pg_attribute whether a column has a default.
pub(crate) fn mark_default(
    writer: &mut Writer<'_>,
    table: &Table,
    column: i16,
    has: bool,
) -> Result<(), CatalogError> {
    let mut found = attribute(writer, table, column, usize::MAX)?;
    if let Some(value) = found.values.get_mut(HAS_DEFAULT) {
        *value = Datum::Bool(has);
    }
    writer.update(ATTRIBUTES, found.tid, &found.values)
}
