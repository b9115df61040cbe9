//! Constraints of tables that are there: renamed; NOT NULL with a name, perhaps not yet valid.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{CLASSES, CONSTRAINTS};
use crate::checks::CheckedTable;
use crate::constraints::Constraint;
use crate::database::Database;
use crate::ddl::add_not_null;
use crate::error::CatalogError;
use crate::index_ddl::set_not_null;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{
    PG_CLASS, PG_CLASS_OID_INDEX, PG_CLASS_RELNAME_NSP_INDEX, PG_CONSTRAINT,
    PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, PG_CONSTRAINT_OID_INDEX,
};
use crate::table::Table;
use crate::writer::Writer;

/// Indexes of columns of pg_constraint.
const NAME: usize = PG_CONSTRAINT.place("conname");
const KIND: usize = PG_CONSTRAINT.place("contype");
const VALIDATED: usize = PG_CONSTRAINT.place("convalidated");
const INDEX: usize = PG_CONSTRAINT.place("conindid");
const COLUMNS: usize = PG_CONSTRAINT.place("conkey");

/// A NOT NULL constraint of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotNull {
    /// pg_constraint.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Whether all rows are known to hold it.
    pub validated: bool,
}

impl Reader<'_> {
    /// What lets a column of a table refuse NULL.
    pub fn not_null(&mut self, table: Oid, number: i16) -> Result<Option<NotNull>, CatalogError> {
        let key = [Datum::Oid(table), Datum::Oid(0)];
        let of_table = Rows::Of((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key));
        let mut found = None;
        self.read(of_table, COLUMNS + 1, &mut |_, row, _| {
            let row = Row(row, PG_CONSTRAINT.name);
            if row.char(KIND)? == b'n'
                && row.vector::<2>(COLUMNS)?.map(i16::from_le_bytes).next() == Some(number)
            {
                let (oid, name) = (row.oid(0)?, row.name(NAME)?.to_owned());
                found = Some(NotNull { oid, name, validated: row.bool(VALIDATED)? });
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }
}

fn put(row: &mut [Datum<'static>], place: usize, value: Datum<'static>) {
    if let Some(slot) = row.get_mut(place) {
        *slot = value;
    }
}

/// Renames a constraint of a table, which the caller has locked, with its index. The caller has
/// locked the new name.
pub fn rename_constraint(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    (name, to): (&str, &str),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let found = writer.reader().constraint(table.oid, name)?;
    let Some(Constraint { oid, kind, index, .. }) = found else {
        let of = &table.name;
        let message = format!("constraint \"{name}\" for table \"{of}\" does not exist");
        return Err(CatalogError::refused("42704", message));
    };
    if matches!(kind, b'p' | b'u' | b'x') && index != 0 {
        rename_class(&mut writer, index, to)?;
    }
    rename(&mut writer, (table.oid, &table.name), oid, to)?;
    writer.next_command()
}

/// Renames an index of a table, and the constraint that it is of. The caller has locked the index
/// and the new name.
pub fn rename_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (index, to): (Oid, &str),
    table: &Table,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    rename_class(&mut writer, index, to)?;
    let key = [Datum::Oid(table.oid), Datum::Oid(0)];
    let of_table = (&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key[..]);
    for found in writer.rows(of_table, INDEX + 1)? {
        let row = Row(&found.values, PG_CONSTRAINT.name);
        // A foreign key names the index that it refers to.
        if row.oid(INDEX)? == index && matches!(row.char(KIND)?, b'p' | b'u' | b'x') {
            let oid = row.oid(0)?;
            rename(&mut writer, (table.oid, &table.name), oid, to)?;
        }
    }
    writer.next_command()
}

fn rename_class(writer: &mut Writer<'_>, index: Oid, to: &str) -> Result<(), CatalogError> {
    let mut found = writer.row(&PG_CLASS_OID_INDEX, index)?;
    let namespace = Row(&found.values, PG_CLASS.name).oid(2)?;
    let key = [Datum::text(to), Datum::Oid(namespace)];
    if writer.has((&PG_CLASS_RELNAME_NSP_INDEX, &key))? {
        let message = format!("relation \"{to}\" already exists");
        return Err(CatalogError::refused("42P07", message));
    }
    writer.announce(CLASSES, &found.values);
    put(&mut found.values, 1, Datum::string(to.to_owned()));
    writer.update(CLASSES, found.tid, &found.values)
}

fn rename(
    writer: &mut Writer<'_>,
    (table, table_name): (Oid, &str),
    constraint: Oid,
    to: &str,
) -> Result<(), CatalogError> {
    refuse_taken(writer, (table, table_name), to)?;
    let mut found = writer.row(&PG_CONSTRAINT_OID_INDEX, constraint)?;
    put(&mut found.values, NAME, Datum::string(to.to_owned()));
    writer.update(CONSTRAINTS, found.tid, &found.values)
}

fn refuse_taken(
    writer: &mut Writer<'_>,
    (table, table_name): (Oid, &str),
    name: &str,
) -> Result<(), CatalogError> {
    let key = [Datum::Oid(table), Datum::Oid(0), Datum::text(name)];
    if !writer.has((&PG_CONSTRAINT_CONRELID_CONTYPID_CONNAME_INDEX, &key))? {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" for relation \"{table_name}\" already exists");
    Err(CatalogError::refused("42710", message))
}

/// Lets a column of a table, which the caller has locked, refuse NULL from now on. `valid`: all
/// rows are known to hold it.
pub fn add_named_not_null(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (table, number, column): (&Table, i16, &str),
    (name, valid): (Option<&str>, bool),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    if let Some(name) = name {
        refuse_taken(&mut writer, (table.oid, &table.name), name)?;
    }
    set_not_null(&mut writer, table, number, true)?;
    add_not_null(&mut writer, CheckedTable::of(table), (number, column), name)?;
    writer.next_command()?;
    if !valid && let Some(made) = writer.reader().not_null(table.oid, number)? {
        let mut found = writer.row(&PG_CONSTRAINT_OID_INDEX, made.oid)?;
        put(&mut found.values, VALIDATED, Datum::Bool(false));
        writer.update(CONSTRAINTS, found.tid, &found.values)?;
    }
    writer.next_command()
}
