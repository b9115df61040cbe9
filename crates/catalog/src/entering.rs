//! Which database and role a session begins with: what PostgreSQL refuses, and what is not
//! understood here.
//!
//! Texts are UTF-8 and compare by their bytes. Privileges are not enforced, so only superusers get
//! in; limits on their connections and row security do not apply to them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::cluster_rows::{DatabaseRow, Named, RoleRow};
use crate::error::CatalogError;
use crate::reader::Reader;

/// pg_enc's number of UTF8.
pub(crate) const UTF8: i32 = 6;

fn refused(message: String) -> CatalogError {
    CatalogError::refused("0A000", message)
}

impl Reader<'_> {
    /// The role of a new session.
    pub fn role_to_log_in(&mut self, named: Named<'_>) -> Result<RoleRow, CatalogError> {
        let Some(role) = self.find_role(named)? else {
            let message = match named {
                Named::Name(name) => format!("role \"{name}\" does not exist"),
                Named::Oid(oid) => format!("role with OID {oid} does not exist"),
            };
            return Err(CatalogError::refused("28000", message));
        };
        let name = &role.name;
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
                Named::Name(name) => format!("database \"{name}\" does not exist"),
                Named::Oid(oid) => format!("database {oid} does not exist"),
            };
            return Err(CatalogError::refused("3D000", message));
        };
        let name = &database.name;
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
}

/// Refuses a database whose texts would mean something else here.
pub fn check_locale(database: &DatabaseRow) -> Result<(), CatalogError> {
    const HINT: &str = "Texts are UTF-8 here and compare by their bytes. Dump the database in \
        PostgreSQL, and restore it into a cluster made by initdb with -E UTF8 --no-locale.";
    let DatabaseRow { name, encoding, provider, collate, ctype, locale, .. } = database;
    if *encoding != UTF8 {
        let message =
            format!("the encoding of database \"{name}\" (number {encoding}) is not supported");
        return Err(refused(message).with_hint(HINT));
    }
    let by_bytes = |locale: &str| matches!(locale, "C" | "POSIX");
    let known = match provider {
        b'c' => by_bytes(collate) && by_bytes(ctype),
        b'b' => locale.as_deref() == Some("C"),
        _ => false,
    };
    if known {
        return Ok(());
    }
    let locale = if *provider == b'c' { Some(collate) } else { locale.as_ref() };
    let message = format!(
        "the collation of database \"{name}\" (locale \"{}\" of provider {}) is not supported",
        locale.map_or("", String::as_str),
        match provider {
            b'c' => "libc",
            b'i' => "icu",
            b'b' => "builtin",
            _ => "unknown",
        }
    );
    let detail = format!("LC_COLLATE is \"{collate}\", LC_CTYPE is \"{ctype}\".");
    Err(refused(message).with_detail(detail).with_hint(HINT))
}
