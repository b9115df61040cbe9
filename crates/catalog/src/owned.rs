//! What roles own: REASSIGN OWNED, DROP OWNED.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::Oid;

use crate::catalog_oids::{
    CLASSES, COLLATIONS, DATABASES, MEMBERSHIPS, NAMESPACES, ROLES, TABLESPACES,
};
use crate::collation_ddl::{CollationChange, alter_collation};
use crate::database::Database;
use crate::describe::describe;
use crate::dropping::{Dropped, drop_cascading};
use crate::error::CatalogError;
use crate::membership::drop_grant;
use crate::objects::Object;
use crate::relation_ddl::set_relation_owner;
use crate::schema_ddl::alter_schema;
use crate::tablespace_ddl::alter_tablespace;
use crate::writer::Writer;

/// pg_shdepend.deptype of an owner, and of a privilege.
const OWNER: u8 = b'o';
const PRIVILEGE: u8 = b'a';

/// Something that a role owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// A relation of the database.
    Relation(Oid),
    /// A database.
    Database(Oid),
    /// A schema, a collation or a tablespace: its catalog and its OID.
    Other(Oid, Oid),
}

/// What roles own in a database, and of what all databases share. Refuses (0A000) what is not
/// understood.
pub fn owned_by(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    roles: &[Oid],
) -> Result<Vec<Owned>, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    let mut owned = Vec::new();
    for role in roles {
        for found in writer.shared_dependents((ROLES, *role))? {
            if found.kind != OWNER || ![0, database.oid].contains(&found.database) {
                continue;
            }
            let Object { class, oid, .. } = found.object;
            owned.push(match class {
                CLASSES => Owned::Relation(oid),
                DATABASES => Owned::Database(oid),
                NAMESPACES | COLLATIONS | TABLESPACES => Owned::Other(class, oid),
                _ => {
                    let what = describe(&mut writer, found.object)?;
                    let message = format!("changing the owner of {what} is not supported");
                    return Err(CatalogError::refused("0A000", message));
                }
            });
        }
    }
    Ok(owned)
}

/// Gives something another owner; a database is for the caller to change.
pub fn change_owner(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    owned: Owned,
    owner: Oid,
) -> Result<(), CatalogError> {
    match owned {
        Owned::Relation(oid) => set_relation_owner(database, backend, tx, (oid, owner)),
        Owned::Other(NAMESPACES, oid) => {
            alter_schema(database, backend, tx, oid, (None, Some(owner)))
        }
        Owned::Other(TABLESPACES, oid) => {
            alter_tablespace(database, backend, tx, oid, (None, Some(owner)))
        }
        Owned::Other(_, oid) => {
            let change = CollationChange::Owner(owner);
            alter_collation(database, backend, tx, oid, change).map(drop)
        }
        Owned::Database(_) => Ok(()),
    }
}

/// Drops what roles own in a database, which is locked; with `cascade` what depends on it. Messages
/// name what is in a namespace of `path` without it. Returns what goes along, for a notice.
pub fn drop_owned(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    (roles, path): (&[Oid], Vec<Oid>),
    cascade: bool,
) -> Result<Dropped, CatalogError> {
    let mut writer = Writer::begin(database, backend, tx)?;
    writer.path = path;
    let (mut objects, mut grants) = (Vec::<Object>::new(), Vec::new());
    for role in roles {
        for found in writer.shared_dependents((ROLES, *role))? {
            if ![0, database.oid].contains(&found.database) {
                continue;
            }
            match found.kind {
                OWNER if found.database == database.oid => objects.push(found.object),
                // What all databases share stays.
                OWNER => {}
                PRIVILEGE if found.object.class == MEMBERSHIPS => grants.push(found.object.oid),
                PRIVILEGE => {
                    let what = describe(&mut writer, found.object)?;
                    let message = format!("revoking privileges on {what} is not supported");
                    return Err(CatalogError::refused("0A000", message));
                }
                _ => {
                    let what = describe(&mut writer, found.object)?;
                    let message =
                        format!("DROP OWNED of a role that {what} names is not supported");
                    return Err(CatalogError::refused("0A000", message));
                }
            }
        }
    }
    objects.sort_by_key(|object| std::cmp::Reverse(object.oid));
    objects.dedup();
    let dropped = drop_cascading(&mut writer, &objects, cascade)?;
    grants.into_iter().try_for_each(|grant| drop_grant(&mut writer, grant))?;
    writer.next_command()?;
    Ok(dropped)
}
