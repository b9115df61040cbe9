//! Collations: rows of pg_collation.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::{COLLATIONS, DEPENDENCIES, NAMESPACES};
use crate::database::Database;
use crate::dropping::{Dropped, drop_cascading};
use crate::error::CatalogError;
use crate::objects::{Dependency, Depends, Object};
use crate::row::Row;
use crate::schema::{
    PG_COLLATION, PG_COLLATION_NAME_ENC_NSP_INDEX, PG_COLLATION_OID_INDEX, PG_DEPEND,
    PG_DEPEND_DEPENDER_INDEX,
};
use crate::writer::Writer;

/// A new collation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCollation {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: Oid,
    /// Its owner.
    pub owner: Oid,
    /// collprovider
    pub provider: u8,
    /// collisdeterministic
    pub deterministic: bool,
    /// collencoding; -1: all encodings.
    pub encoding: i32,
    /// collcollate
    pub collate: Option<String>,
    /// collctype
    pub ctype: Option<String>,
    /// colllocale
    pub locale: Option<String>,
    /// collversion
    pub version: Option<String>,
}

impl NewCollation {
    /// Its row.
    pub(crate) fn datums(&self, oid: Oid) -> [Datum<'static>; 12] {
        let text = |text: &Option<String>| match text {
            Some(text) => Datum::string(text.clone()),
            None => Datum::Null,
        };
        [
            Datum::Oid(oid),
            Datum::string(self.name.clone()),
            Datum::Oid(self.namespace),
            Datum::Oid(self.owner),
            Datum::Char(self.provider),
            Datum::Bool(self.deterministic),
            Datum::Int4(self.encoding),
            text(&self.collate),
            text(&self.ctype),
            text(&self.locale),
            Datum::Null,
            text(&self.version),
        ]
    }
}

/// What changes of a collation.
#[derive(Clone, Copy, Debug)]
pub enum CollationChange<'a> {
    /// Its name.
    Name(&'a str),
    /// Its namespace.
    Namespace(Oid),
    /// Its owner.
    Owner(Oid),
    /// The version of its provider's data.
    Version(&'a str),
}

/// What came of creating a collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// Its OID.
    As(Oid),
    /// There is one of that name for the same encoding.
    Taken,
    /// There is one of that name for all encodings, or the new one would be for all.
    TakenByAnother,
}

/// Creates a collation, whose name is locked.
pub fn create_collation(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    new: &NewCollation,
) -> Result<Created, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    if is_taken(&mut writer, (&new.name, new.encoding, new.namespace))? {
        return Ok(Created::Taken);
    }
    // One for all encodings goes with none for the database's.
    let other = if new.encoding == -1 { database.encoding.number() } else { -1 };
    if is_taken(&mut writer, (&new.name, other, new.namespace))? {
        return Ok(Created::TakenByAnother);
    }
    let oid = writer.free_oid(&PG_COLLATION_OID_INDEX)?;
    writer.insert(COLLATIONS, &new.datums(oid))?;
    let object = Object::new(COLLATIONS, oid);
    writer.depend(object, Object::new(NAMESPACES, new.namespace), Dependency::Normal)?;
    writer.note_owner(object, new.owner)?;
    writer.next_command()?;
    Ok(Created::As(oid))
}

fn is_taken(
    writer: &mut Writer<'_>,
    (name, encoding, namespace): (&str, i32, Oid),
) -> Result<bool, CatalogError> {
    let key = [Datum::text(name), Datum::Int4(encoding), Datum::Oid(namespace)];
    writer.has((&PG_COLLATION_NAME_ENC_NSP_INDEX, &key))
}

/// Changes a collation, which is locked. If its new name is taken in its namespace, or its name in
/// the new one: the encoding of the other collation.
pub fn alter_collation(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    change: CollationChange<'_>,
) -> Result<Option<i32>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut found = writer.row(&PG_COLLATION_OID_INDEX, oid)?;
    let row = Row(&found.values, PG_COLLATION.name);
    let (name, namespace) = (row.name(1)?.to_owned(), row.oid(2)?);
    let wanted = match change {
        CollationChange::Name(name) => Some((name, namespace)),
        CollationChange::Namespace(namespace) => Some((name.as_str(), namespace)),
        _ => None,
    };
    if let Some((name, namespace)) = wanted {
        for encoding in [database.encoding.number(), -1] {
            if is_taken(&mut writer, (name, encoding, namespace))? {
                return Ok(Some(encoding));
            }
        }
    }
    let object = Object::new(COLLATIONS, oid);
    let (column, value) = match change {
        CollationChange::Name(name) => ("collname", Datum::string(name.to_owned())),
        CollationChange::Namespace(namespace) => {
            change_namespace(&mut writer, object, namespace)?;
            ("collnamespace", Datum::Oid(namespace))
        }
        CollationChange::Owner(owner) => {
            writer.change_owner(object, owner)?;
            ("collowner", Datum::Oid(owner))
        }
        CollationChange::Version(version) => ("collversion", Datum::string(version.to_owned())),
    };
    // Both names are out of date.
    writer.announce(COLLATIONS, &found.values);
    if let Some(place) = found.values.get_mut(PG_COLLATION.place(column)) {
        *place = value;
    }
    writer.update(COLLATIONS, found.tid, &found.values)?;
    writer.next_command()?;
    Ok(None)
}

/// Notes that an object is in another namespace.
fn change_namespace(
    writer: &mut Writer<'_>,
    object: Object,
    namespace: Oid,
) -> Result<(), CatalogError> {
    let key = [Datum::Oid(object.class), Datum::Oid(object.oid)];
    for found in writer.rows((&PG_DEPEND_DEPENDER_INDEX, &key), 7)? {
        if Depends::read(&Row(&found.values, PG_DEPEND.name))?.on.class == NAMESPACES {
            writer.delete(DEPENDENCIES, &found)?;
        }
    }
    writer.depend(object, Object::new(NAMESPACES, namespace), Dependency::Normal)
}

/// Drops collations, which are locked; with `cascade` what depends on them. Messages name what is
/// in a namespace of `path` without it. Returns what goes along, for a notice.
pub fn drop_collations(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (oids, path): (&[Oid], Vec<Oid>),
    cascade: bool,
) -> Result<Dropped, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    let objects: Vec<Object> = oids.iter().map(|oid| Object::new(COLLATIONS, *oid)).collect();
    let dropped = drop_cascading(&mut writer, &objects, cascade)?;
    writer.next_command()?;
    Ok(dropped)
}
