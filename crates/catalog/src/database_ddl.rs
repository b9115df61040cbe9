//! Rows of pg_database: made, changed, dropped. The directories are the caller's.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::RelFileLocator;
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_txn::locks::LockTag;
use forebay_types::{Datum, Oid};

use crate::cluster_rows::{DatabaseRow, INVALID};
use crate::database::Database;
use crate::error::CatalogError;
use crate::inplace::Advanced;
use crate::objects::Object;
use crate::privileges::give_privileges;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_CLASS, PG_DATABASE, PG_DATABASE_OID_INDEX};
use crate::writer::Writer;

/// The lock of a database's row: held by whoever replaces or overwrites it.
pub fn database_row_lock(oid: Oid) -> LockTag {
    LockTag::Object { database: 0, class: PG_DATABASE_OID_INDEX.oid, object: oid }
}

/// A column of pg_database with a new value.
pub type DatabaseChange = (&'static str, Datum<'static>);

fn datums(row: &DatabaseRow) -> Vec<Datum<'static>> {
    let text = |value: &Option<String>| value.clone().map_or(Datum::Null, Datum::string);
    vec![
        Datum::Oid(row.oid),
        Datum::string(row.name.clone()),
        Datum::Oid(row.owner),
        Datum::Int4(row.encoding),
        Datum::Char(row.provider),
        Datum::Bool(row.is_template),
        Datum::Bool(row.allows_connections),
        Datum::Bool(row.has_login_triggers),
        Datum::Int4(row.connection_limit),
        Datum::Xid(row.frozen_xid),
        Datum::Xid(row.min_multi),
        Datum::Oid(row.tablespace),
        Datum::string(row.collate.clone()),
        Datum::string(row.ctype.clone()),
        text(&row.locale),
        text(&row.icu_rules),
        text(&row.collation_version),
        Datum::Null, // datacl
    ]
}

/// Inserts the row of a new database, a copy of `source`. The caller holds the lock of its name.
pub fn insert_database(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    new: &DatabaseRow,
    source: Oid,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.insert(PG_DATABASE.oid, &datums(new))?;
    writer.note_owner(Object::new(PG_DATABASE.oid, new.oid), new.owner)?;
    writer.copy_shared_notes(source, new.oid)?;
    writer.next_command()
}

/// Changes values of a database's row. The caller holds the row's lock.
pub fn change_database(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    changes: &[DatabaseChange],
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_DATABASE_OID_INDEX, oid)?;
    for (name, value) in changes {
        if let ("datdba", Datum::Oid(owner)) = (*name, value) {
            let old = Row(&found.values, PG_DATABASE.name).oid(PG_DATABASE.place("datdba"))?;
            give_privileges(&mut found.values, PG_DATABASE.place("datacl"), (old, *owner))?;
            writer.change_owner(Object::new(PG_DATABASE.oid, oid), *owner)?;
        }
        if let Some(place) = found.values.get_mut(PG_DATABASE.place(name)) {
            *place = value.clone();
        }
    }
    writer.update(PG_DATABASE.oid, found.tid, &found.values)?;
    writer.next_command()
}

/// Deletes the row of a database, and what is noted of it.
pub fn delete_database(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.delete_settings(oid, 0)?;
    writer.delete_database_notes(Object::new(PG_DATABASE.oid, oid))?;
    let found = writer.row(&PG_DATABASE_OID_INDEX, oid)?;
    writer.delete(PG_DATABASE.oid, &found)?;
    writer.next_command()
}

impl Database {
    /// Marks a database as one whose files may be gone, in place: that stays, whatever becomes of
    /// the transaction. The caller makes it durable.
    pub fn mark_invalid(&self, backend: &mut Backend, oid: Oid) -> Result<(), CatalogError> {
        self.overwrite_database(backend, oid, |values| {
            values.set("datconnlimit", INVALID.cast_unsigned())?;
            Some(Advanced::default())
        })?;
        Ok(())
    }
}

/// A relation of a database that is to be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationFile {
    /// Where it is.
    pub locator: RelFileLocator,
    /// Whether its changes are logged.
    pub logged: bool,
}

impl Reader<'_> {
    /// The relations of the database that have files of their own: neither shared nor temporary.
    pub fn relation_files(&mut self) -> Result<Vec<RelationFile>, CatalogError> {
        let mut classes = self.classes(Rows::All(&PG_CLASS))?;
        classes.retain(|class| {
            let has_storage = matches!(class.kind, b'r' | b'i' | b'S' | b't' | b'm');
            has_storage && !class.is_shared() && !class.is_temporary()
        });
        let file = |class| {
            let locator = self.locator(class)?;
            Ok(RelationFile { locator, logged: class.persistence == b'p' })
        };
        classes.iter().map(file).collect()
    }
}
