//! Notes about objects that all databases share, and about shared objects that others depend on:
//! pg_shdepend, pg_shdescription, pg_db_role_setting.
//!
//! pg_shdepend has no rows of pinned objects: those that initdb makes.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::ids::FIRST_UNPINNED_OID;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::SHARED_DEPENDENCIES;
use crate::error::CatalogError;
use crate::objects::Object;
use crate::reader::Rows;
use crate::row::Row;
use crate::schema::{
    CATALOGS, PG_AUTHID, PG_DB_ROLE_SETTING, PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX, PG_SHDEPEND,
    PG_SHDEPEND_DEPENDER_INDEX, PG_SHDEPEND_REFERENCE_INDEX, PG_SHDESCRIPTION_O_C_INDEX,
};
use crate::writer::{Found, Writer};

/// pg_shdepend.deptype of an object's owner, and of a role with privileges on it.
const OWNER: u8 = b'o';
const PRIVILEGE: u8 = b'a';

/// Whether the objects of a catalog belong to all databases.
fn is_shared(class: Oid) -> bool {
    CATALOGS.iter().any(|catalog| catalog.oid == class && catalog.shared)
}

/// A row of pg_shdepend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedDependency {
    /// The database of the object that depends; 0: all share it.
    pub(crate) database: Oid,
    pub(crate) object: Object,
    pub(crate) kind: u8,
}

impl Writer<'_> {
    /// The database that pg_shdepend names for objects of a catalog.
    fn database_of(&self, class: Oid) -> Oid {
        if is_shared(class) { 0 } else { self.database.oid }
    }

    /// Notes who owns a new object.
    pub(crate) fn note_owner(&mut self, object: Object, owner: Oid) -> Result<(), CatalogError> {
        let database = self.database_of(object.class);
        self.note_shared(database, object, (PG_AUTHID.oid, owner), OWNER)
    }

    /// Notes a role without which an object is nothing: who has granted a membership.
    pub(crate) fn note_privilege(&mut self, object: Object, role: Oid) -> Result<(), CatalogError> {
        let database = self.database_of(object.class);
        self.note_shared(database, object, (PG_AUTHID.oid, role), PRIVILEGE)
    }

    fn note_shared(
        &mut self,
        database: Oid,
        object: Object,
        (class, oid): (Oid, Oid),
        kind: u8,
    ) -> Result<(), CatalogError> {
        if oid < FIRST_UNPINNED_OID {
            return Ok(());
        }
        let row = [
            Datum::Oid(database),
            Datum::Oid(object.class),
            Datum::Oid(object.oid),
            Datum::Int4(object.column.into()),
            Datum::Oid(class),
            Datum::Oid(oid),
            Datum::Char(kind),
        ];
        self.insert(SHARED_DEPENDENCIES, &row)
    }

    /// Notes that an object has another owner, who as such depends on no privileges.
    pub(crate) fn change_owner(&mut self, object: Object, owner: Oid) -> Result<(), CatalogError> {
        let database = self.database_of(object.class);
        let key = [Datum::Oid(database), Datum::Oid(object.class), Datum::Oid(object.oid)];
        for found in self.rows((&PG_SHDEPEND_DEPENDER_INDEX, &key), 7)? {
            let row = Row(&found.values, PG_SHDEPEND.name);
            let is_gone = match row.char(6)? {
                OWNER => true,
                PRIVILEGE => row.oid(5)? == owner,
                _ => false,
            };
            if is_gone && row.oid(4)? == PG_AUTHID.oid {
                self.delete(SHARED_DEPENDENCIES, &found)?;
            }
        }
        self.note_owner(object, owner)
    }

    /// Deletes on whom a column of this database depends: roles with privileges on it.
    pub(crate) fn delete_column_sharing(&mut self, column: Object) -> Result<(), CatalogError> {
        let key = [
            Datum::Oid(self.database_of(column.class)),
            Datum::Oid(column.class),
            Datum::Oid(column.oid),
            Datum::Int4(column.column.into()),
        ];
        self.delete_all((&PG_SHDEPEND_DEPENDER_INDEX, &key), 7)
    }

    /// Deletes what is noted of an object that all databases share: on whom it depends, comments.
    pub(crate) fn delete_shared_notes(&mut self, object: Object) -> Result<(), CatalogError> {
        let (class, oid) = (Datum::Oid(object.class), Datum::Oid(object.oid));
        let key = [Datum::Oid(0), class.clone(), oid.clone()];
        self.delete_all((&PG_SHDEPEND_DEPENDER_INDEX, &key), 7)?;
        self.delete_all((&PG_SHDESCRIPTION_O_C_INDEX, &[oid, class]), 2)
    }

    /// What depends on a shared object.
    pub(crate) fn shared_dependents(
        &mut self,
        (class, oid): (Oid, Oid),
    ) -> Result<Vec<SharedDependency>, CatalogError> {
        let key = [Datum::Oid(class), Datum::Oid(oid)];
        let found = self.rows((&PG_SHDEPEND_REFERENCE_INDEX, &key), 7)?;
        let read = |row: Row<'_, '_>| {
            let column = i16::try_from(row.int4(3)?).unwrap_or(0);
            let object = Object { class: row.oid(1)?, oid: row.oid(2)?, column };
            Ok(SharedDependency { database: row.oid(0)?, object, kind: row.char(6)? })
        };
        found.iter().map(|found| read(Row(&found.values, PG_SHDEPEND.name))).collect()
    }

    /// Copies what is noted of the objects of a database for a copy of it.
    pub(crate) fn copy_shared_notes(&mut self, from: Oid, to: Oid) -> Result<(), CatalogError> {
        let key = [Datum::Oid(from)];
        for mut found in self.rows((&PG_SHDEPEND_DEPENDER_INDEX, &key), 7)? {
            if let Some(database) = found.values.first_mut() {
                *database = Datum::Oid(to);
            }
            self.insert(SHARED_DEPENDENCIES, &found.values)?;
        }
        Ok(())
    }

    /// Deletes what is noted of a database that goes, and of all its objects.
    pub(crate) fn delete_database_notes(&mut self, object: Object) -> Result<(), CatalogError> {
        self.delete_all((&PG_SHDEPEND_DEPENDER_INDEX, &[Datum::Oid(object.oid)]), 7)?;
        self.delete_shared_notes(object)
    }

    /// Deletes the settings of a database, of a role, or of both (0: of none).
    pub(crate) fn delete_settings(&mut self, database: Oid, role: Oid) -> Result<(), CatalogError> {
        let settings = &PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX;
        if database != 0 {
            return self.delete_all((settings, &[Datum::Oid(database)]), 2);
        }
        // No index leads to those of a role.
        let mut found = Vec::new();
        self.reader().read(Rows::All(&PG_DB_ROLE_SETTING), 2, &mut |tid, row, _| {
            let row = Row(row, PG_DB_ROLE_SETTING.name);
            if row.oid(1)? == role {
                let values = vec![Datum::Oid(row.oid(0)?), Datum::Oid(role)];
                found.push(Found { tid, values });
            }
            Ok(true)
        })?;
        found.iter().try_for_each(|found| self.delete(PG_DB_ROLE_SETTING.oid, found))
    }
}
