//! REINDEX CONCURRENTLY: an index gets a twin, which takes its place.
//!
//! ```text
//!   copy:  the index's rows under another OID and name: neither ready nor valid, of no constraint
//!   swap:  the twin has the name, the constraint, the comment and what depends on the index;
//!          the index has a name to be dropped under, and is not read any more
//! ```
//!
//! The twin has the OID, and so the file, that it was created with.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{ATTRIBUTES, CLASSES, CONSTRAINTS, DEPENDENCIES, DESCRIPTIONS, INDEXES};
use crate::database::Database;
use crate::ddl::{NewFiles, create_file};
use crate::dropping::inherits;
use crate::error::CatalogError;
use crate::index::TableIndex;
use crate::index_ddl::{depend_on_columns, depend_on_trees, read_index};
use crate::index_rows::IS_LIVE;
use crate::index_state::{CHECK_XMIN, IS_CLUSTERED, IS_READY, IS_REPLICA_IDENTITY, IS_VALID};
use crate::lookup::Key;
use crate::objects::{Depends, Object};
use crate::row::Row;
use crate::row_changes::set;
use crate::schema::{
    PG_ATTRIBUTE_RELID_ATTNUM_INDEX, PG_CLASS_OID_INDEX, PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX,
    PG_DEPEND_DEPENDER_INDEX, PG_DEPEND_REFERENCE_INDEX, PG_DESCRIPTION_O_C_O_INDEX, PG_INDEX,
    PG_INDEX_INDEXRELID_INDEX,
};
use crate::stored_expr::StoredExpr;
use crate::table::Table;
use crate::writer::{Found, Writer};

pub(crate) const IS_PRIMARY: usize = PG_INDEX.place("indisprimary");
const IS_EXCLUSION: usize = PG_INDEX.place("indisexclusion");
const IS_IMMEDIATE: usize = PG_INDEX.place("indimmediate");
/// Index of conindid in pg_constraint.
const CONSTRAINT_INDEX: usize = PG_CONSTRAINT.place("conindid");
/// How many columns pg_depend has; its first three are the object, the next three the other.
const DEPENDENCY_COLUMNS: usize = 7;

/// A free name for an index's twin, with the label `ccnew`, or for the index that goes: `ccold`.
pub fn twin_name(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    (name, label): (&str, &str),
) -> Result<String, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.choose_index_name(table.namespace, (name, None, label), false)
}

/// Makes the twin of an index, which nobody uses yet. Its file is empty. The caller has locked the
/// table, and the name. Returns its OID.
pub fn copy_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, index): (&Table, &TableIndex),
    name: &str,
    files: NewFiles<'_>,
) -> Result<Oid, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    check_replaceable(&mut writer, index)?;
    let oid = create_file(&mut writer, files)?.rel;
    let mut class = writer.row(&PG_CLASS_OID_INDEX, index.oid)?.values;
    for (column, value) in [
        ("oid", Datum::Oid(oid)),
        ("relname", Datum::string(name.to_owned())),
        ("relfilenode", Datum::Oid(oid)),
        ("reltablespace", Datum::Oid(files.class_tablespace(database))),
        ("relpages", Datum::Int4(0)),
        ("reltuples", Datum::Float4(0.0)),
        ("relallvisible", Datum::Int4(0)),
        ("relallfrozen", Datum::Int4(0)),
    ] {
        set(&mut class, column, value);
    }
    writer.insert(CLASSES, &class)?;
    writer.tx.note_relation(oid, true);
    let key = [Datum::Oid(index.oid)];
    for mut column in writer.rows((&PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key), usize::MAX)? {
        put(&mut column, 0, Datum::Oid(oid));
        writer.insert(ATTRIBUTES, &column.values)?;
    }
    let mut row = writer.row(&PG_INDEX_INDEXRELID_INDEX, index.oid)?;
    put(&mut row, 0, Datum::Oid(oid));
    for place in [IS_PRIMARY, IS_EXCLUSION, IS_CLUSTERED, IS_VALID, CHECK_XMIN, IS_READY] {
        put(&mut row, place, Datum::Bool(false));
    }
    put(&mut row, IS_REPLICA_IDENTITY, Datum::Bool(false));
    put(&mut row, IS_LIVE, Datum::Bool(true));
    writer.insert(INDEXES, &row.values)?;
    depend_on_columns(&mut writer, oid, table, index.columns.iter().copied())?;
    let collations = Row(&row.values, "pg_index").vector(PG_INDEX.place("indcollation"))?;
    let collations: Vec<Oid> = collations.map(u32::from_le_bytes).collect();
    writer.depend_on_collations(Object::relation(oid), &collations)?;
    let expressions: Vec<StoredExpr> =
        index.trees.expressions.iter().map(StoredExpr::new).collect();
    let predicate = index.trees.predicate.as_ref().map(StoredExpr::new);
    let expressions: Vec<&StoredExpr> = expressions.iter().collect();
    depend_on_trees(&mut writer, oid, table, (&expressions, predicate.as_ref()))?;
    writer.next_command()?;
    read_index(&mut writer, table, oid).map(|twin| twin.oid)
}

/// Replaces a value of a row that was read whole.
pub(crate) fn put(found: &mut Found, place: usize, value: Datum<'static>) {
    *found.values.get_mut(place).expect("the whole row was read") = value;
}

/// Refuses an index of which more than is known here would have to follow its twin. Nothing but
/// its table's columns may have to do with it, so that it can be dropped once it is replaced.
fn check_replaceable(writer: &mut Writer<'_>, index: &TableIndex) -> Result<(), CatalogError> {
    if index.exclusion {
        let message = "concurrent index creation for exclusion constraints is not supported";
        return Err(CatalogError::refused("0A000", message));
    }
    let why = if let Some(why) = &index.unknown {
        why.as_str()
    } else if !index.immediate {
        "its constraint is deferrable"
    } else if inherits(writer, index.oid)? {
        "inheritance is not supported"
    } else if writer.dependents(Object::relation(index.oid))?.is_empty() {
        return Ok(());
    } else {
        "a foreign key, or another object, depends on it"
    };
    let message = format!("cannot reindex index \"{}\" concurrently: {why}", index.name);
    Err(CatalogError::refused("0A000", message))
}

/// Puts the twin of an index of a table, which has all rows, in the index's place. The index keeps
/// its entries under another name, and is not read any more. The caller has locked the table, and
/// that name.
pub fn swap_indexes(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (old, new): (Oid, Oid),
    old_name: &str,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    swap_names(&mut writer, (old, new), old_name)?;
    swap_flags(&mut writer, (old, new))?;
    move_constraint(&mut writer, (old, new))?;
    move_comment(&mut writer, (old, new))?;
    swap_dependencies(&mut writer, (old, new))?;
    writer.next_command()
}

fn swap_names(
    writer: &mut Writer<'_>,
    (old, new): (Oid, Oid),
    old_name: &str,
) -> Result<(), CatalogError> {
    let [mut of_old, mut of_new] =
        [writer.row(&PG_CLASS_OID_INDEX, old)?, writer.row(&PG_CLASS_OID_INDEX, new)?];
    writer.announce(CLASSES, &of_new.values);
    let name = of_old.values.get(1).cloned().expect("the whole row was read");
    put(&mut of_new, 1, name);
    put(&mut of_old, 1, Datum::string(old_name.to_owned()));
    // The name is free before it is taken.
    writer.update(CLASSES, of_old.tid, &of_old.values)?;
    writer.update(CLASSES, of_new.tid, &of_new.values)
}

fn swap_flags(writer: &mut Writer<'_>, (old, new): (Oid, Oid)) -> Result<(), CatalogError> {
    let mut of_old = writer.row(&PG_INDEX_INDEXRELID_INDEX, old)?;
    let mut of_new = writer.row(&PG_INDEX_INDEXRELID_INDEX, new)?;
    for (place, left) in [
        (IS_PRIMARY, false),
        (IS_EXCLUSION, false),
        (IS_IMMEDIATE, true),
        (IS_CLUSTERED, false),
        (IS_REPLICA_IDENTITY, false),
    ] {
        let flag = of_old.values.get(place).cloned().expect("the whole row was read");
        put(&mut of_new, place, flag);
        put(&mut of_old, place, Datum::Bool(left));
    }
    put(&mut of_new, IS_VALID, Datum::Bool(true));
    put(&mut of_old, IS_VALID, Datum::Bool(false));
    writer.update(INDEXES, of_old.tid, &of_old.values)?;
    writer.update(INDEXES, of_new.tid, &of_new.values)
}

/// The constraint that an index is of, if any, is the twin's.
fn move_constraint(writer: &mut Writer<'_>, (old, new): (Oid, Oid)) -> Result<(), CatalogError> {
    for Depends { on, .. } in writer.references(Object::relation(old))? {
        if on.class == CONSTRAINTS {
            let mut found = writer.row(&PG_CONSTRAINT_OID_INDEX, on.oid)?;
            put(&mut found, CONSTRAINT_INDEX, Datum::Oid(new));
            writer.update(CONSTRAINTS, found.tid, &found.values)?;
        }
    }
    Ok(())
}

fn move_comment(writer: &mut Writer<'_>, (old, new): (Oid, Oid)) -> Result<(), CatalogError> {
    let key = [Datum::Oid(old), Datum::Oid(CLASSES), Datum::Int4(0)];
    for mut found in writer.rows((&PG_DESCRIPTION_O_C_O_INDEX, &key), usize::MAX)? {
        put(&mut found, 0, Datum::Oid(new));
        writer.update(DESCRIPTIONS, found.tid, &found.values)?;
    }
    Ok(())
}

/// What each of two indexes depends on, and what depends on it, is the other's from now on.
fn swap_dependencies(writer: &mut Writer<'_>, (old, new): (Oid, Oid)) -> Result<(), CatalogError> {
    let mut changes = Vec::new();
    for (from, to) in [(old, new), (new, old)] {
        let relation = [Datum::Oid(CLASSES), Datum::Oid(from)];
        let of_it: [(Key<'_>, usize); 2] = [
            ((&PG_DEPEND_DEPENDER_INDEX, &relation), 1),
            ((&PG_DEPEND_REFERENCE_INDEX, &relation), 4),
        ];
        for (key, place) in of_it {
            for mut found in writer.rows(key, DEPENDENCY_COLUMNS)? {
                put(&mut found, place, Datum::Oid(to));
                changes.push(found);
            }
        }
    }
    changes.iter().try_for_each(|row| writer.update(DEPENDENCIES, row.tid, &row.values))
}
