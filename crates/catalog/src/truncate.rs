//! Gives relations new files: TRUNCATE, REINDEX and VACUUM FULL.
//!
//! The row of pg_class is updated as any row: others go on with the old file until the transaction
//! commits, which removes it. If it aborts the new file is removed.

use forebay_format::RelFileLocator;
use forebay_format::multixact::MultiXactId;
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{ATTRIBUTES, CLASSES};
use crate::database::Database;
use crate::ddl::{NewFiles, Persistence, create_file};
use crate::error::CatalogError;
use crate::inplace::ClassFigures;
use crate::row_changes::{attribute, set};
use crate::schema::{PG_ATTRIBUTE, PG_CLASS, PG_CLASS_OID_INDEX};
use crate::table::Table;
use crate::writer::{Found, Writer};

/// Empties a table, whose lock the caller holds. No row has a MultiXact older than `min_multi`.
/// Returns the new file. Its indexes are for the caller to build anew.
pub fn truncate_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    files: NewFiles<'_>,
    min_multi: MultiXactId,
) -> Result<RelFileLocator, CatalogError> {
    let frozen_xid = database.xacts.oldest_running().xid();
    let old = (table.oid, table.locator);
    let figures = ClassFigures { frozen_xid, min_multi, ..EMPTY };
    new_file(&mut Writer::begin(database, backend, tx)?, old, files, &figures)
}

/// Creates a file to which a table is to be moved.
pub fn create_new_file(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    create_file(&mut Writer::begin(database, backend, tx)?, files)
}

/// Moves a table to a file that has all of its rows, with a value for each of its columns. The
/// caller holds its lock. Its indexes are for the caller to build anew.
pub fn move_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    (files, new): (NewFiles<'_>, RelFileLocator),
    figures: &ClassFigures,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    clear_missing(&mut writer, table)?;
    use_file(&mut writer, (table.oid, table.locator), (files, new), figures)
}

/// Notes that all rows of a table, which the caller has locked, have a value for each of its
/// columns.
pub fn complete_rows(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    clear_missing(&mut writer, table)?;
    writer.next_command()
}

fn clear_missing(writer: &mut Writer<'_>, table: &Table) -> Result<(), CatalogError> {
    for column in table.columns.iter().filter(|column| column.missing.is_some()) {
        let mut found = attribute(writer, table, column.attnum, usize::MAX)?;
        for (place, value) in [(HAS_MISSING, Datum::Bool(false)), (MISSING_VALUE, Datum::Null)] {
            *found.values.get_mut(place).expect("pg_attribute has this column") = value;
        }
        writer.update(ATTRIBUTES, found.tid, &found.values)?;
    }
    Ok(())
}

/// Index of relpersistence in pg_class.
const PERSISTENCE: usize = PG_CLASS.place("relpersistence");
/// Indexes of columns of pg_attribute.
const HAS_MISSING: usize = PG_ATTRIBUTE.place("atthasmissing");
const MISSING_VALUE: usize = PG_ATTRIBUTE.place("attmissingval");

/// What pg_class says of an empty file.
const EMPTY: ClassFigures = ClassFigures {
    pages: 0,
    tuples: -1.0,
    all_visible: 0,
    all_frozen: 0,
    frozen_xid: 0,
    min_multi: 0,
    toast: 0,
    indexed: false,
};

/// Gives an index a new file, in which it is to be built. Returns that.
pub fn empty_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    index: (Oid, RelFileLocator),
    files: NewFiles<'_>,
) -> Result<RelFileLocator, CatalogError> {
    new_file(&mut Writer::begin(database, backend, tx)?, index, files, &EMPTY)
}

fn new_file(
    writer: &mut Writer<'_>,
    old: (Oid, RelFileLocator),
    files: NewFiles<'_>,
    figures: &ClassFigures,
) -> Result<RelFileLocator, CatalogError> {
    let locator = create_file(writer, files)?;
    use_file(writer, old, (files, locator), figures)?;
    Ok(locator)
}

/// The relation's rows are in another file from now on.
pub(crate) fn use_file(
    writer: &mut Writer<'_>,
    (oid, old): (Oid, RelFileLocator),
    (files, locator): (NewFiles<'_>, RelFileLocator),
    figures: &ClassFigures,
) -> Result<(), CatalogError> {
    let mut found = writer.row(&PG_CLASS_OID_INDEX, oid)?;
    for (name, value) in [
        ("relpages", Datum::Int4(figures.pages.cast_signed())),
        ("reltuples", Datum::Float4(figures.tuples)),
        ("relallvisible", Datum::Int4(figures.all_visible.cast_signed())),
        ("relallfrozen", Datum::Int4(figures.all_frozen.cast_signed())),
        ("relfrozenxid", Datum::Xid(figures.frozen_xid)),
        ("relminmxid", Datum::Xid(figures.min_multi)),
    ] {
        set(&mut found.values, name, value);
    }
    at_file(writer, &mut found, (files, locator));
    writer.update(CLASSES, found.tid, &found.values)?;
    // A session removes the files of its temporary tables itself.
    if !matches!(files.persistence, Persistence::Temporary(_)) {
        writer.tx.drop_at_commit(old);
    }
    writer.next_command()
}

/// A relation has another file from now on, with all that is in the old one. The caller has locked
/// it. As in PostgreSQL, nothing is known of the rows of a table that becomes logged or unlogged.
pub fn replace_file(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (oid, old): (Oid, RelFileLocator),
    (files, new): (NewFiles<'_>, RelFileLocator),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_CLASS_OID_INDEX, oid)?;
    let before = found.values.get(PERSISTENCE).cloned();
    at_file(&writer, &mut found, (files, new));
    if found.values.get(PERSISTENCE) != before.as_ref() {
        for (name, value) in [
            ("relpages", Datum::Int4(0)),
            ("reltuples", Datum::Float4(-1.0)),
            ("relallvisible", Datum::Int4(0)),
            ("relallfrozen", Datum::Int4(0)),
        ] {
            set(&mut found.values, name, value);
        }
    }
    writer.update(CLASSES, found.tid, &found.values)?;
    if !matches!(files.persistence, Persistence::Temporary(_)) {
        writer.tx.drop_at_commit(old);
    }
    writer.next_command()
}

/// What a row of pg_class says of the relation's file.
fn at_file(writer: &Writer<'_>, found: &mut Found, (files, new): (NewFiles<'_>, RelFileLocator)) {
    for (name, value) in [
        ("relfilenode", Datum::Oid(new.rel)),
        ("reltablespace", Datum::Oid(files.class_tablespace(writer.database))),
        ("relpersistence", Datum::Char(files.persistence.code())),
    ] {
        set(&mut found.values, name, value);
    }
}
