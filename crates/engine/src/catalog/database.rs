//! Whether the database is one that is understood: its encoding and collation, who may connect, and
//! with which settings.
//!
//! Texts compare by their bytes and are UTF-8. The one role is a superuser, so limits on
//! connections, row security and privileges, which superusers pass by, need nothing.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::RelFileLocator;
use forebay_storage::Backend;

use super::bootstrap::POSTGRES_DB;
use super::catalog_table;
use super::reader::{Reader, Row};
use super::schema::{CatalogColumn, CatalogTable, PG_DATABASE};
use crate::core::Core;
use crate::error::EngineError;
use crate::types::{Oid, oids};
use crate::xact::Transaction;

/// The one database and the one role.
const NAME: &str = "postgres";
/// pg_enc's number of UTF8.
const UTF8: i32 = 6;
/// pg_database.datconnlimit of a database whose DROP was cut short.
const INVALID: i32 = -2;

const fn c(name: &'static str, type_oid: Oid) -> CatalogColumn {
    CatalogColumn { name, type_oid, not_null: true }
}

/// pg_authid, as far as it is looked at. Only PostgreSQL makes it.
static PG_AUTHID: CatalogTable = CatalogTable {
    oid: 1260,
    name: "pg_authid",
    row_type: 2842,
    shared: true,
    mapped: true,
    columns: &[
        c("oid", oids::OID),
        c("rolname", oids::NAME),
        c("rolsuper", oids::BOOL),
        c("rolinherit", oids::BOOL),
        c("rolcreaterole", oids::BOOL),
        c("rolcreatedb", oids::BOOL),
        c("rolcanlogin", oids::BOOL),
    ],
};

/// pg_db_role_setting, as far as it is looked at. Only PostgreSQL makes it.
static PG_DB_ROLE_SETTING: CatalogTable = CatalogTable {
    oid: 2964,
    name: "pg_db_role_setting",
    row_type: 0,
    shared: true,
    mapped: true,
    columns: &[c("setdatabase", oids::OID), c("setrole", oids::OID)],
};

/// Refuses a database in which statements would mean something else than in PostgreSQL. Changes
/// nothing.
pub(crate) fn check(core: &Core, be: &mut Backend) -> Result<(), EngineError> {
    let tx = Transaction::new();
    let mut reader = Reader::new(core, be, core.xacts.snapshot(&tx));
    check_database(core, &mut reader)?;
    match check_role(core, &mut reader)? {
        Some(role) => check_settings(core, &mut reader, role),
        None => Ok(()),
    }
}

fn refused(message: String) -> EngineError {
    EngineError::statement("0A000", message)
}

/// Shows each row of a shared catalog; false if there is no such catalog.
fn scan(
    core: &Core,
    reader: &mut Reader<'_>,
    catalog: &'static CatalogTable,
    see: &mut dyn FnMut(&Row<'_, '_>) -> Result<(), EngineError>,
) -> Result<bool, EngineError> {
    let Some(filenode) = core.catalogs.shared.get(catalog.oid) else { return Ok(false) };
    let table = catalog_table(catalog, RelFileLocator::shared(filenode))?;
    reader.scan(&table, catalog.columns.len().min(15), &mut |_, row| {
        see(&Row(row, catalog.name))?;
        Ok(true)
    })?;
    Ok(true)
}

fn check_database(core: &Core, reader: &mut Reader<'_>) -> Result<(), EngineError> {
    let mut found = false;
    scan(core, reader, &PG_DATABASE, &mut |row| {
        if row.oid(0)? != POSTGRES_DB {
            return Ok(());
        }
        found = true;
        check_locale(row)?;
        if row.name(1)? != NAME {
            let message = format!(
                "the database \"{}\" in base/{POSTGRES_DB} is not \"{NAME}\"",
                row.name(1)?
            );
            return Err(refused(message));
        }
        if row.int4(8)? == INVALID {
            let error = EngineError::statement(
                "55000",
                format!("cannot connect to invalid database \"{NAME}\""),
            );
            return Err(error.with_hint("Use DROP DATABASE to drop invalid databases."));
        }
        if !row.bool(6)? {
            let message = format!("database \"{NAME}\" is not currently accepting connections");
            return Err(EngineError::statement("55000", message));
        }
        if row.bool(7)? {
            return Err(refused(format!(
                "login event triggers of database \"{NAME}\" are not supported"
            )));
        }
        Ok(())
    })?;
    if found {
        Ok(())
    } else {
        Err(EngineError::statement("3D000", format!("database \"{NAME}\" does not exist")))
    }
}

fn check_locale(row: &Row<'_, '_>) -> Result<(), EngineError> {
    const HINT: &str = "Texts are UTF-8 here and compare by their bytes. Dump the database in PostgreSQL, and restore \
        it into a cluster made by initdb with -E UTF8 --no-locale.";
    let encoding = row.int4(3)?;
    if encoding != UTF8 {
        let message =
            format!("the encoding of database \"{NAME}\" (number {encoding}) is not supported");
        return Err(refused(message).with_hint(HINT));
    }
    let by_bytes = |locale: &str| matches!(locale, "C" | "POSIX");
    let (provider, collate, ctype, locale) =
        (row.char(4)?, row.text(12)?, row.text(13)?, row.text(14)?);
    let known = match provider {
        b'c' => by_bytes(collate.unwrap_or_default()) && by_bytes(ctype.unwrap_or_default()),
        b'b' => locale == Some("C"),
        _ => false,
    };
    if known {
        return Ok(());
    }
    let locale = if provider == b'c' { collate } else { locale };
    let message = format!(
        "the collation of database \"{NAME}\" (locale \"{}\" of provider {}) is not supported",
        locale.unwrap_or_default(),
        match provider {
            b'c' => "libc",
            b'i' => "icu",
            b'b' => "builtin",
            _ => "unknown",
        }
    );
    let detail = format!(
        "LC_COLLATE is \"{}\", LC_CTYPE is \"{}\".",
        collate.unwrap_or_default(),
        ctype.unwrap_or_default()
    );
    Err(refused(message).with_detail(detail).with_hint(HINT))
}

/// The role that connects must be what it is taken for. Its OID; None where there are no roles in
/// the catalogs.
fn check_role(core: &Core, reader: &mut Reader<'_>) -> Result<Option<Oid>, EngineError> {
    let mut role = None;
    let exists = scan(core, reader, &PG_AUTHID, &mut |row| {
        if row.name(1)? != NAME {
            return Ok(());
        }
        role = Some(row.oid(0)?);
        if !row.bool(6)? {
            let message = format!("role \"{NAME}\" is not permitted to log in");
            return Err(EngineError::statement("28000", message));
        }
        if !row.bool(2)? {
            return Err(refused(format!(
                "role \"{NAME}\" is no superuser: privileges are not supported"
            )));
        }
        Ok(())
    })?;
    if exists && role.is_none() {
        return Err(EngineError::statement("28000", format!("role \"{NAME}\" does not exist"))
            .with_hint("It is the only role that can connect."));
    }
    Ok(role)
}

fn check_settings(core: &Core, reader: &mut Reader<'_>, role: Oid) -> Result<(), EngineError> {
    scan(core, reader, &PG_DB_ROLE_SETTING, &mut |row| {
        let (database, of) = (row.oid(0)?, row.oid(1)?);
        if [0, POSTGRES_DB].contains(&database) && [0, role].contains(&of) {
            let message = format!(
                "settings of database or role \"{NAME}\" (pg_db_role_setting) are not supported"
            );
            let hint = "Take them back in PostgreSQL: ALTER DATABASE or ALTER ROLE ... RESET ALL.";
            return Err(refused(message).with_hint(hint));
        }
        Ok(())
    })?;
    Ok(())
}
