//! Rows of the shared catalogs: databases, roles, settings of both.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_types::{Datum, Encoding, Oid};

use crate::error::CatalogError;
use crate::lookup::Key;
use crate::options::settings_of;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{
    PG_AUTHID, PG_AUTHID_OID_INDEX, PG_AUTHID_ROLNAME_INDEX, PG_DATABASE,
    PG_DATABASE_DATNAME_INDEX, PG_DATABASE_OID_INDEX, PG_DB_ROLE_SETTING,
    PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX, PG_DEFAULT_ACL, PG_EVENT_TRIGGER,
};

/// pg_database.datconnlimit of a database whose DROP was cut short.
pub(crate) const INVALID: i32 = -2;

/// Number of columns of pg_database up to datcollversion.
const DATABASE_COLUMNS: usize = PG_DATABASE.place("datcollversion") + 1;
/// Number of columns of pg_authid up to rolconnlimit.
const ROLE_COLUMNS: usize = PG_AUTHID.place("rolconnlimit") + 1;

/// A database or a role, as a caller names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// By its name.
    Name(&'a str),
    /// By its OID.
    Oid(Oid),
}

/// A row of pg_database, without its ids and its access list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseRow {
    /// oid
    pub oid: Oid,
    /// datname
    pub name: String,
    /// datdba
    pub owner: Oid,
    /// encoding
    pub encoding: i32,
    /// datlocprovider
    pub provider: u8,
    /// datistemplate
    pub is_template: bool,
    /// datallowconn
    pub allows_connections: bool,
    /// dathasloginevt
    pub has_login_triggers: bool,
    /// datconnlimit
    pub connection_limit: i32,
    /// datfrozenxid
    pub frozen_xid: u32,
    /// datminmxid
    pub min_multi: u32,
    /// dattablespace
    pub tablespace: Oid,
    /// datcollate
    pub collate: String,
    /// datctype
    pub ctype: String,
    /// datlocale
    pub locale: Option<String>,
    /// daticurules
    pub icu_rules: Option<String>,
    /// datcollversion
    pub collation_version: Option<String>,
}

impl DatabaseRow {
    fn read(row: &Row<'_, '_>) -> Result<DatabaseRow, CatalogError> {
        let text = |index| Ok::<_, CatalogError>(row.text(index)?.map(str::to_owned));
        Ok(DatabaseRow {
            oid: row.oid(0)?,
            name: row.name(1)?.to_owned(),
            owner: row.oid(2)?,
            encoding: row.int4(3)?,
            provider: row.char(4)?,
            is_template: row.bool(5)?,
            allows_connections: row.bool(6)?,
            has_login_triggers: row.bool(7)?,
            connection_limit: row.int4(8)?,
            frozen_xid: row.xid(9)?,
            min_multi: row.xid(10)?,
            tablespace: row.oid(11)?,
            collate: row.name(12)?.to_owned(),
            ctype: row.name(13)?.to_owned(),
            locale: text(14)?,
            icu_rules: text(15)?,
            collation_version: text(16)?,
        })
    }

    /// The encoding of its texts. 0A000 if it is not supported.
    pub(crate) fn known_encoding(&self) -> Result<Encoding, CatalogError> {
        let DatabaseRow { name, encoding, .. } = self;
        Encoding::of(*encoding).ok_or_else(|| {
            let message =
                format!("the encoding of database \"{name}\" (number {encoding}) is not supported");
            let hint = "Encodings are UTF8 and SQL_ASCII here. Dump the database in PostgreSQL, \
                        and restore it into one of these.";
            CatalogError::refused("0A000", message).with_hint(hint)
        })
    }

    /// Whether a DROP DATABASE was cut short: nothing is left but to drop it.
    pub fn is_invalid(&self) -> bool {
        self.connection_limit == INVALID
    }
}

/// A row of pg_authid, without its password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRow {
    /// oid
    pub oid: Oid,
    /// rolname
    pub name: String,
    /// rolsuper
    pub superuser: bool,
    /// rolinherit
    pub inherits: bool,
    /// rolcreaterole
    pub creates_roles: bool,
    /// rolcreatedb
    pub creates_databases: bool,
    /// rolcanlogin
    pub can_login: bool,
    /// rolreplication
    pub replication: bool,
    /// rolbypassrls
    pub bypasses_row_security: bool,
    /// rolconnlimit
    pub connection_limit: i32,
}

impl RoleRow {
    fn read(row: &Row<'_, '_>) -> Result<RoleRow, CatalogError> {
        Ok(RoleRow {
            oid: row.oid(0)?,
            name: row.name(1)?.to_owned(),
            superuser: row.bool(2)?,
            inherits: row.bool(3)?,
            creates_roles: row.bool(4)?,
            creates_databases: row.bool(5)?,
            can_login: row.bool(6)?,
            replication: row.bool(7)?,
            bypasses_row_security: row.bool(8)?,
            connection_limit: row.int4(9)?,
        })
    }
}

impl Reader<'_> {
    fn database_rows(&mut self, rows: Rows<'_>) -> Result<Vec<DatabaseRow>, CatalogError> {
        let mut found = Vec::new();
        self.read(rows, DATABASE_COLUMNS, &mut |_, row, _| {
            found.push(DatabaseRow::read(&Row(row, PG_DATABASE.name))?);
            Ok(true)
        })?;
        Ok(found)
    }

    /// All databases, also those whose DROP was cut short.
    pub fn all_databases(&mut self) -> Result<Vec<DatabaseRow>, CatalogError> {
        self.database_rows(Rows::All(&PG_DATABASE))
    }

    /// A database.
    pub fn find_database(&mut self, named: Named<'_>) -> Result<Option<DatabaseRow>, CatalogError> {
        let found = match named {
            Named::Name(name) => {
                self.database_rows(Rows::Of((&PG_DATABASE_DATNAME_INDEX, &[Datum::text(name)])))?
            }
            Named::Oid(oid) => {
                self.database_rows(Rows::Of((&PG_DATABASE_OID_INDEX, &[Datum::Oid(oid)])))?
            }
        };
        Ok(found.into_iter().next())
    }

    /// A role.
    pub fn find_role(&mut self, named: Named<'_>) -> Result<Option<RoleRow>, CatalogError> {
        let mut found = None;
        let mut look = |reader: &mut Self, key: Key<'_>| {
            reader.read(Rows::Of(key), ROLE_COLUMNS, &mut |_, row, _| {
                found = Some(RoleRow::read(&Row(row, PG_AUTHID.name))?);
                Ok(false)
            })
        };
        match named {
            Named::Name(name) => look(self, (&PG_AUTHID_ROLNAME_INDEX, &[Datum::text(name)]))?,
            Named::Oid(oid) => look(self, (&PG_AUTHID_OID_INDEX, &[Datum::Oid(oid)]))?,
        }
        Ok(found)
    }

    /// Whether the database has event triggers that are not disabled.
    pub(crate) fn has_event_triggers(&mut self) -> Result<bool, CatalogError> {
        const ENABLED: usize = PG_EVENT_TRIGGER.place("evtenabled");
        let mut found = false;
        self.read(Rows::All(&PG_EVENT_TRIGGER), ENABLED + 1, &mut |_, row, _| {
            found |= Row(row, PG_EVENT_TRIGGER.name).char(ENABLED)? != b'D';
            Ok(!found)
        })?;
        Ok(found)
    }

    /// Roles with default privileges, the namespaces (0: all), and the kinds of objects.
    pub(crate) fn default_privileges(&mut self) -> Result<Vec<(Oid, Oid, u8)>, CatalogError> {
        let mut found = Vec::new();
        self.read(Rows::All(&PG_DEFAULT_ACL), 4, &mut |_, row, _| {
            let row = Row(row, PG_DEFAULT_ACL.name);
            found.push((row.oid(1)?, row.oid(2)?, row.char(3)?));
            Ok(true)
        })?;
        Ok(found)
    }

    /// The settings of a database, of a role, or of a role in a database (pg_db_role_setting), as
    /// `name=value`. 0 stands for any database, and for any role.
    pub fn stored_settings(
        &mut self,
        database: Oid,
        role: Oid,
    ) -> Result<Vec<String>, CatalogError> {
        let key = [Datum::Oid(database), Datum::Oid(role)];
        let rows = Rows::Of((&PG_DB_ROLE_SETTING_DATABASEID_ROL_INDEX, &key));
        let mut found = Vec::new();
        self.read(rows, PG_DB_ROLE_SETTING.columns.len(), &mut |_, row, _| {
            found = row.get(2).map(settings_of).transpose()?.unwrap_or_default();
            Ok(false)
        })?;
        Ok(found)
    }
}
