//! Which database and role a session begins with: what PostgreSQL refuses, and what is not
//! understood here.
//!
//! Texts are in UTF8 or SQL_ASCII and compare as the database's collation says. Privileges are not
//! enforced, so only superusers get in; limits on their connections and row security do not apply
//! to them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::cluster_rows::{DatabaseRow, Named, RoleRow};
use crate::error::CatalogError;
use crate::open_collations::collations_of;
use crate::reader::Reader;

fn refused(message: String) -> CatalogError {
    CatalogError::refused("0A000", message)
}

impl Reader<'_> {
    /// The role of a new session.
    pub fn role_to_log_in(&mut self, named: Named<'_>) -> Result<RoleRow, CatalogError> {
        let Some(role) = self.find_role(named)? else {
            let message = match named {
                Named::Name(name) => format!("role \"{}\" does not exist", self.shown(name)),
                Named::Oid(oid) => format!("role with OID {oid} does not exist"),
            };
            return Err(CatalogError::refused("28000", message));
        };
        let name = self.shown(&role.name);
        if !role.can_login {
            let message = format!("role \"{name}\" is not permitted to log in");
            return Err(CatalogError::refused("28000", message));
        }
        if !role.superuser {
            let message = format!("role \"{name}\" is no superuser: privileges are not supported");
            return Err(refused(message));
        }
        Ok(role)
    }

    /// The database of a new session.
    pub fn database_to_enter(&mut self, named: Named<'_>) -> Result<DatabaseRow, CatalogError> {
        let Some(database) = self.find_database(named)? else {
            let message = match named {
                Named::Name(name) => format!("database \"{}\" does not exist", self.shown(name)),
                Named::Oid(oid) => format!("database {oid} does not exist"),
            };
            return Err(CatalogError::refused("3D000", message));
        };
        let name = self.shown(&database.name);
        if database.is_invalid() {
            let message = format!("cannot connect to invalid database \"{name}\"");
            let error = CatalogError::refused("55000", message);
            return Err(error.with_hint("Use DROP DATABASE to drop invalid databases."));
        }
        if !database.allows_connections {
            let message = format!("database \"{name}\" is not currently accepting connections");
            return Err(CatalogError::refused("55000", message));
        }
        if database.has_login_triggers {
            let message = format!("login event triggers of database \"{name}\" are not supported");
            return Err(refused(message));
        }
        check_locale(&database)?;
        Ok(database)
    }

    /// A name for an error of a client that is in no database yet.
    fn shown(&self, name: &str) -> String {
        self.database().encoding.shown(name)
    }
}

/// Refuses a database whose texts would mean something else here, or whose collation is not known.
pub fn check_locale(database: &DatabaseRow) -> Result<(), CatalogError> {
    let name = &database.name;
    database.known_encoding()?;
    collations_of(database).map(drop).map_err(|error| {
        let sqlstate = error.sqlstate();
        let message = format!("the collation of database \"{name}\" cannot be used");
        CatalogError::refused(sqlstate, message).with_detail(error.to_string())
    })
}
