//! Schemas: pg_namespace.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::NAMESPACES;
use crate::class::Class;
use crate::database::Database;
use crate::dropping::{Dropped, drop_cascading};
use crate::error::CatalogError;
use crate::objects::Object;
use crate::privileges::give_privileges;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::rows::namespace_datums;
use crate::schema::{
    PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNAM_INDEX, PG_NAMESPACE, PG_NAMESPACE_OID_INDEX,
};
use crate::writer::Writer;

impl Reader<'_> {
    /// Whether there is a namespace with this OID.
    pub fn has_namespace(&mut self, oid: Oid) -> Result<bool, CatalogError> {
        let mut found = false;
        let key = [Datum::Oid(oid)];
        self.read(Rows::Of((&PG_NAMESPACE_OID_INDEX, &key)), 1, &mut |_, _, _| {
            found = true;
            Ok(false)
        })?;
        Ok(found)
    }

    /// The number of a relation's column. None: it has no such column.
    pub fn column_number(
        &mut self,
        class: &Class,
        name: &str,
    ) -> Result<Option<i16>, CatalogError> {
        let mut found = None;
        let key = [Datum::Oid(class.oid), Datum::text(name)];
        self.read(Rows::Of((&PG_ATTRIBUTE_RELID_ATTNAM_INDEX, &key)), 5, &mut |_, row, _| {
            found = Some(Row(row, PG_ATTRIBUTE.name).int2(4)?);
            Ok(false)
        })?;
        Ok(found.filter(|number| *number > 0))
    }
}

/// Creates a schema, whose name is free and locked. Returns its OID.
pub fn create_schema(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    name: &str,
    owner: Oid,
) -> Result<Oid, CatalogError> {
    database.check_default_privileges((owner, 0, b'n'))?;
    let mut writer = Writer::begin(database, backend, tx)?;
    let oid = writer.free_oid(&PG_NAMESPACE_OID_INDEX)?;
    writer.insert(NAMESPACES, &namespace_datums(oid, name, owner))?;
    writer.note_owner(Object::new(NAMESPACES, oid), owner)?;
    writer.next_command()?;
    Ok(oid)
}

/// Gives a schema another name, which is free and locked, or another owner.
pub fn alter_schema(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    (name, owner): (Option<&str>, Option<Oid>),
) -> Result<(), CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_NAMESPACE_OID_INDEX, oid)?;
    if let Some(owner) = owner {
        let old = Row(&found.values, PG_NAMESPACE.name).oid(PG_NAMESPACE.place("nspowner"))?;
        give_privileges(&mut found.values, PG_NAMESPACE.place("nspacl"), (old, owner))?;
    }
    let mut set = |column: &str, value: Datum<'static>| {
        if let Some(place) = found.values.get_mut(PG_NAMESPACE.place(column)) {
            *place = value;
        }
    };
    if let Some(name) = name {
        set("nspname", Datum::string(name.to_owned()));
    }
    if let Some(owner) = owner {
        set("nspowner", Datum::Oid(owner));
        writer.change_owner(Object::new(NAMESPACES, oid), owner)?;
    }
    writer.update(NAMESPACES, found.tid, &found.values)?;
    writer.next_command()
}

/// Drops schemas; with `cascade` all that is in them. Messages name what is in a namespace of
/// `path` without it. Returns what goes along, for a notice.
pub fn drop_schemas(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (oids, path): (&[Oid], Vec<Oid>),
    cascade: bool,
) -> Result<Dropped, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    let objects: Vec<Object> = oids.iter().map(|oid| Object::new(NAMESPACES, *oid)).collect();
    let dropped = drop_cascading(&mut writer, &objects, cascade)?;
    writer.next_command()?;
    Ok(dropped)
}
