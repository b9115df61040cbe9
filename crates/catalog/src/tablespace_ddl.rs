//! Tablespaces: pg_tablespace.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::TABLESPACES;
use crate::database::Database;
use crate::describe::describe_dependents;
use crate::error::CatalogError;
use crate::objects::Object;
use crate::privileges::give_privileges;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{PG_TABLESPACE, PG_TABLESPACE_OID_INDEX, PG_TABLESPACE_SPCNAME_INDEX};
use crate::writer::Writer;

impl Reader<'_> {
    /// A tablespace by its name.
    pub fn tablespace(&mut self, name: &str) -> Result<Option<Oid>, CatalogError> {
        let mut found = None;
        let key = [Datum::text(name)];
        self.read(Rows::Of((&PG_TABLESPACE_SPCNAME_INDEX, &key)), 1, &mut |_, row, _| {
            found = Some(Row(row, PG_TABLESPACE.name).oid(0)?);
            Ok(false)
        })?;
        Ok(found)
    }
}

impl Reader<'_> {
    /// The name of a tablespace.
    pub fn tablespace_name(&mut self, oid: Oid) -> Result<Option<String>, CatalogError> {
        let mut found = None;
        let key = [Datum::Oid(oid)];
        self.read(Rows::Of((&PG_TABLESPACE_OID_INDEX, &key)), 2, &mut |_, row, _| {
            found = Some(Row(row, PG_TABLESPACE.name).name(1)?.to_owned());
            Ok(false)
        })?;
        Ok(found)
    }
}

/// Creates the row of a tablespace, whose name is free and locked. Returns its OID.
pub fn create_tablespace(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    name: &str,
    owner: Oid,
) -> Result<Oid, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let oid = writer.free_oid(&PG_TABLESPACE_OID_INDEX)?;
    let row = [Datum::Oid(oid), Datum::text(name), Datum::Oid(owner), Datum::Null, Datum::Null];
    writer.insert(TABLESPACES, &row)?;
    writer.note_owner(Object::new(TABLESPACES, oid), owner)?;
    writer.next_command()?;
    Ok(oid)
}

/// Gives a tablespace another name, which is free and locked, or another owner.
pub fn alter_tablespace(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    (name, owner): (Option<&str>, Option<Oid>),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_TABLESPACE_OID_INDEX, oid)?;
    if let Some(owner) = owner {
        let old = Row(&found.values, PG_TABLESPACE.name).oid(2)?;
        give_privileges(&mut found.values, PG_TABLESPACE.place("spcacl"), (old, owner))?;
    }
    let mut set = |at: usize, value: Datum<'static>| {
        if let Some(place) = found.values.get_mut(at) {
            *place = value;
        }
    };
    if let Some(name) = name {
        set(1, Datum::string(name.to_owned()));
    }
    if let Some(owner) = owner {
        set(2, Datum::Oid(owner));
        writer.change_owner(Object::new(TABLESPACES, oid), owner)?;
    }
    writer.update(TABLESPACES, found.tid, &found.values)?;
    writer.next_command()
}

/// Drops the row of a tablespace, and what is noted of it. 2BP01 if something depends on it;
/// messages name what is in a namespace of `path` without it.
pub fn drop_tablespace(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    path: Vec<Oid>,
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    let found = writer.row(&PG_TABLESPACE_OID_INDEX, oid)?;
    let dependents = writer.shared_dependents((TABLESPACES, oid))?;
    if !dependents.is_empty() {
        let detail = describe_dependents(&mut writer, dependents)?;
        let name = Row(&found.values, PG_TABLESPACE.name).name(1)?.to_owned();
        let message =
            format!("tablespace \"{name}\" cannot be dropped because some objects depend on it");
        return Err(CatalogError::refused("2BP01", message).with_detail(detail));
    }
    writer.delete_shared_notes(Object::new(TABLESPACES, oid))?;
    writer.delete(TABLESPACES, &found)?;
    writer.next_command()
}
