//! Checks whether the database is understood: its encoding, its collation, its role, its settings.
//!
//! Texts are UTF-8 and compare by their bytes. The one role is a superuser. Limits on connections,
//! row security and privileges do not apply to superusers, so they are not checked.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::Oid;

use crate::database::Database;
use crate::error::CatalogError;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{CatalogTable, PG_AUTHID, PG_DATABASE, PG_DB_ROLE_SETTING, POSTGRES_DB};

/// Name of the one database, and of the one role.
const NAME: &str = "postgres";
/// pg_enc's number of UTF8.
const UTF8: i32 = 6;
/// pg_database.datconnlimit of a database whose DROP was cut short.
pub(crate) const INVALID: i32 = -2;

/// Number of columns of pg_database up to datlocale.
pub(crate) const DATABASE_COLUMNS: usize = PG_DATABASE.place("datlocale") + 1;

/// Refuses a database in which statements would mean something else than in PostgreSQL. Changes
/// nothing.
pub fn check(database: &Database, backend: &mut Backend) -> Result<(), CatalogError> {
    let tx = Transaction::new();
    let mut reader = Reader::new(database, backend, database.xacts.snapshot(&tx));
    check_database(&mut reader)?;
    let role = check_role(&mut reader)?;
    check_settings(&mut reader, role)
}

fn refused(message: String) -> CatalogError {
    CatalogError::refused("0A000", message)
}

/// Shows the first columns of each row of a catalog to `see`.
fn scan(
    reader: &mut Reader<'_>,
    (catalog, columns): (&'static CatalogTable, usize),
    see: &mut dyn FnMut(&Row<'_, '_>) -> Result<(), CatalogError>,
) -> Result<(), CatalogError> {
    reader.read(Rows::All(catalog), columns, &mut |_, row, _| {
        see(&Row(row, catalog.name))?;
        Ok(true)
    })
}

fn check_database(reader: &mut Reader<'_>) -> Result<(), CatalogError> {
    let mut found = false;
    scan(reader, (&PG_DATABASE, DATABASE_COLUMNS), &mut |row| {
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
            let error = CatalogError::refused(
                "55000",
                format!("cannot connect to invalid database \"{NAME}\""),
            );
            return Err(error.with_hint("Use DROP DATABASE to drop invalid databases."));
        }
        if !row.bool(6)? {
            let message = format!("database \"{NAME}\" is not currently accepting connections");
            return Err(CatalogError::refused("55000", message));
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
        Err(CatalogError::refused("3D000", format!("database \"{NAME}\" does not exist")))
    }
}

fn check_locale(row: &Row<'_, '_>) -> Result<(), CatalogError> {
    const HINT: &str = "Texts are UTF-8 here and compare by their bytes. Dump the database in \
        PostgreSQL, and restore it into a cluster made by initdb with -E UTF8 --no-locale.";
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

/// Checks the role that connects. Returns its OID.
fn check_role(reader: &mut Reader<'_>) -> Result<Oid, CatalogError> {
    let mut role = None;
    scan(reader, (&PG_AUTHID, 7), &mut |row| {
        if row.name(1)? != NAME {
            return Ok(());
        }
        role = Some(row.oid(0)?);
        if !row.bool(6)? {
            let message = format!("role \"{NAME}\" is not permitted to log in");
            return Err(CatalogError::refused("28000", message));
        }
        if !row.bool(2)? {
            return Err(refused(format!(
                "role \"{NAME}\" is no superuser: privileges are not supported"
            )));
        }
        Ok(())
    })?;
    role.ok_or_else(|| {
        CatalogError::refused("28000", format!("role \"{NAME}\" does not exist"))
            .with_hint("It is the only role that can connect.")
    })
}

fn check_settings(reader: &mut Reader<'_>, role: Oid) -> Result<(), CatalogError> {
    scan(reader, (&PG_DB_ROLE_SETTING, 2), &mut |row| {
        let (database, of) = (row.oid(0)?, row.oid(1)?);
        if [0, POSTGRES_DB].contains(&database) && [0, role].contains(&of) {
            let message = format!(
                "settings of database or role \"{NAME}\" (pg_db_role_setting) are not supported"
            );
            let hint = "Take them back in PostgreSQL: ALTER DATABASE or ALTER ROLE ... RESET ALL.";
            return Err(refused(message).with_hint(hint));
        }
        Ok(())
    })
}
