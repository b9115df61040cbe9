//! CREATE TABLE (LIKE ...): what a table's indexes and comments are, and comments for a copy.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{CLASSES, CONSTRAINTS, DESCRIPTIONS};
use crate::database::Database;
use crate::error::CatalogError;
use crate::index_def::{ConstraintKind, IndexDef, IndexKey};
use crate::index_rows::{DESCENDING, EXPRESSIONS, NULLS_FIRST, PREDICATE};
use crate::objects::Object;
use crate::options::texts_of;
use crate::row::Row;
use crate::schema::{
    BTREE_AM, PG_CLASS, PG_CLASS_OID_INDEX, PG_CONSTRAINT,
    PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, PG_DESCRIPTION_O_C_O_INDEX, PG_INDEX,
    PG_INDEX_INDEXRELID_INDEX, PG_STATISTIC_EXT,
};
use crate::table::Table;
use crate::writer::Writer;

/// What the valid indexes of a table are, by OID and without names. Columns are the table's.
pub fn index_definitions(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
) -> Result<Vec<(Oid, IndexDef)>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = Vec::new();
    for index in table.indexes.iter().filter(|index| index.valid) {
        let refused = |why: &str| {
            let message = format!("cannot copy index \"{}\": {why}", index.name);
            Err(CatalogError::refused("0A000", message))
        };
        let row = writer.row(&PG_INDEX_INDEXRELID_INDEX, index.oid)?;
        let class = writer.row(&PG_CLASS_OID_INDEX, index.oid)?;
        let has = |place: usize| row.values.get(place).is_some_and(|v| *v != Datum::Null);
        if has(EXPRESSIONS) || has(PREDICATE) {
            return refused("it has expressions or a predicate");
        }
        if class.values.get(PG_CLASS.place("relam")) != Some(&Datum::Oid(BTREE_AM)) {
            return refused("its access method is not supported");
        }
        if index.exclusion || index.unique && !index.immediate {
            return refused("its constraint is not supported");
        }
        let options = class.values.get(PG_CLASS.place("reloptions"));
        let options = options.map(texts_of).transpose()?.unwrap_or_default();
        let constraint = constraint_kind(&mut writer, table.oid, index.oid)?;
        let row = Row(&row.values, PG_INDEX.name);
        let tablespace = Row(&class.values, PG_CLASS.name).oid(PG_CLASS.place("reltablespace"))?;
        let tablespace = Some(tablespace).filter(|oid| *oid != 0);
        let def = IndexDef { constraint, tablespace, ..definition(&row)? };
        let Some(def) = with_options(def, &options) else {
            return refused("a storage parameter of it is not supported");
        };
        found.push((index.oid, def));
    }
    Ok(found)
}

/// What a row of pg_index says.
fn definition(row: &Row<'_, '_>) -> Result<IndexDef, CatalogError> {
    let shorts = |name| row.vector(PG_INDEX.place(name)).map(|all| all.map(i16::from_le_bytes));
    let classes: Vec<Oid> =
        row.vector(PG_INDEX.place("indclass"))?.map(u32::from_le_bytes).collect();
    let collations = row.vector(PG_INDEX.place("indcollation"))?.map(u32::from_le_bytes);
    let options: Vec<i16> = shorts("indoption")?.collect();
    let columns: Vec<i16> = shorts("indkey")?.collect();
    let (keys, included) = columns.split_at(classes.len().min(columns.len()));
    let of_keys = classes.iter().zip(collations).zip(&options);
    let keys = keys.iter().zip(of_keys).map(|(attnum, ((class, collation), options))| IndexKey {
        attnum: *attnum,
        collation: Some(collation),
        opclass: Some(*class),
        descending: options & DESCENDING != 0,
        nulls_first: options & NULLS_FIRST != 0,
    });
    Ok(IndexDef {
        keys: keys.collect(),
        included: included.to_vec(),
        unique: row.bool(PG_INDEX.place("indisunique"))?,
        nulls_not_distinct: row.bool(PG_INDEX.place("indnullsnotdistinct"))?,
        ..IndexDef::default()
    })
}

/// A definition with storage parameters. None: one of them is not known.
fn with_options(mut def: IndexDef, options: &[String]) -> Option<IndexDef> {
    for text in options {
        match text.split_once('=')? {
            ("fillfactor", value) => def.fill_factor = Some(value.parse().ok()?),
            ("deduplicate_items", value) => def.deduplicate = Some(matches!(value, "on" | "true")),
            _ => return None,
        }
    }
    Some(def)
}

/// Of which kind of constraint an index is.
fn constraint_kind(
    writer: &mut Writer<'_>,
    table: Oid,
    index: Oid,
) -> Result<Option<ConstraintKind>, CatalogError> {
    let key = [Datum::Oid(table), Datum::Oid(0)];
    let of_table = (&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key[..]);
    let place = PG_CONSTRAINT.place("conindid");
    for found in writer.rows(of_table, place + 1)? {
        let row = Row(&found.values, PG_CONSTRAINT.name);
        if row.oid(place)? != index {
            continue;
        }
        match row.char(PG_CONSTRAINT.place("contype"))? {
            b'p' => return Ok(Some(ConstraintKind::Primary)),
            b'u' => return Ok(Some(ConstraintKind::Unique)),
            _ => {}
        }
    }
    Ok(None)
}

/// Whether a table has extended statistics.
pub fn has_extended_statistics(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: Oid,
) -> Result<bool, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let dependents = writer.dependents(Object::relation(table))?;
    Ok(dependents.iter().any(|depends| depends.object.class == PG_STATISTIC_EXT.oid))
}

/// A part of a table with a comment of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentedPart {
    /// A column, by its number in the one and in the other table.
    Column(i16, i16),
    /// A constraint, by its name in both.
    Constraint(String),
    /// An index, by its OID.
    Index(Oid, Oid),
}

/// Gives the parts of a table the comments of those of another one.
pub fn copy_comments(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (from, to): (Oid, Oid),
    parts: &[CommentedPart],
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    for part in parts {
        let of = match part {
            CommentedPart::Column(old, new) => {
                Some((Object::column(from, *old), Object::column(to, *new)))
            }
            CommentedPart::Index(old, new) => {
                Some((Object::relation(*old), Object::relation(*new)))
            }
            CommentedPart::Constraint(name) => {
                let old = writer.reader().constraint(from, name)?;
                let new = writer.reader().constraint(to, name)?;
                old.zip(new).map(|(old, new)| {
                    (Object::new(CONSTRAINTS, old.oid), Object::new(CONSTRAINTS, new.oid))
                })
            }
        };
        let Some((old, new)) = of else { continue };
        debug_assert!(matches!(old.class, CLASSES | CONSTRAINTS));
        let key = [Datum::Oid(old.oid), Datum::Oid(old.class), Datum::Int4(old.column.into())];
        for found in writer.rows((&PG_DESCRIPTION_O_C_O_INDEX, &key), usize::MAX)? {
            let Some(text) = found.values.get(3) else { continue };
            let row = [
                Datum::Oid(new.oid),
                Datum::Oid(new.class),
                Datum::Int4(new.column.into()),
                text.clone(),
            ];
            writer.insert(DESCRIPTIONS, &row)?;
        }
    }
    writer.next_command()
}
