//! Creating and dropping tables.
//!
//! A new table's file is made before its creation is logged and its rows are written, and goes
//! again if the transaction aborts. A dropped table's file goes once the transaction has committed.
//! There are no unique indexes on the catalogs yet, so that two creations of one name are kept
//! apart by a lock on the name.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_format::wal::Rmgr;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::smgr::{CREATE, SmgrCreate};
use forebay_format::{Fork, RelFileLocator, Xid};
use forebay_storage::{Backend, TempRelations};
use forebay_wal::Record;

use super::bootstrap::{PG_CATALOG, PG_TOAST, POSTGRES_DB};
use super::reader::Reader;
use super::rows::{ClassRow, OWNER, namespace_datums, user_attributes};
use super::schema::SYSTEM_COLUMNS;
use crate::core::Core;
use crate::error::EngineError;
use crate::heap::{Author, DeleteOutcome};
use crate::locks::LockTag;
use crate::table::{ColumnDef, Table};
use crate::types::codec::form_row;
use crate::types::{Datum, Oid, type_info};
use crate::xact::Transaction;

/// The longest name, in bytes.
const MAX_NAME: usize = 63;
/// Columns a table may have.
const MAX_COLUMNS: usize = 1600;

/// The lock that stands for a name within a namespace. No database has the number it is filed
/// under.
pub(crate) fn name_lock(namespace: Oid, name: &str) -> LockTag {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    LockTag { database: Oid::MAX, relation: hasher.finish() as u32 }
}

/// Refuses what PostgreSQL refuses of a table's definition.
pub(crate) fn check_definition(
    namespace: Oid,
    name: &str,
    columns: &[ColumnDef],
) -> Result<(), EngineError> {
    let refuse = |state, message: String| Err(EngineError::statement(state, message));
    if namespace == PG_CATALOG || namespace == PG_TOAST {
        let schema = if namespace == PG_CATALOG { "pg_catalog" } else { "pg_toast" };
        let error = EngineError::statement(
            "42501",
            format!("permission denied to create \"{schema}.{name}\""),
        );
        return Err(error.with_detail("System catalog modifications are currently disallowed."));
    }
    if columns.len() > MAX_COLUMNS {
        return refuse("54011", format!("tables can have at most {MAX_COLUMNS} columns"));
    }
    let mut seen = HashSet::new();
    for text in columns.iter().map(|c| c.name.as_str()).chain([name]) {
        if text.len() > MAX_NAME {
            return refuse("42622", format!("identifier \"{text}\" is too long"));
        }
        if text.is_empty() {
            return refuse("42601", "zero-length delimited identifier".to_owned());
        }
    }
    for column in columns {
        let name = &column.name;
        if SYSTEM_COLUMNS.iter().any(|(system, ..)| system == name) {
            return refuse(
                "42701",
                format!("column name \"{name}\" conflicts with a system column name"),
            );
        }
        if !seen.insert(name.as_str()) {
            return refuse("42701", format!("column \"{name}\" specified more than once"));
        }
        match type_info(column.type_oid) {
            None => {
                return refuse(
                    "42704",
                    format!("type with OID {} does not exist", column.type_oid),
                );
            }
            Some(t) if t.kind == b'p' => {
                return refuse("42P16", format!("column \"{name}\" has pseudo-type {}", t.name));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Whose a new table is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Persistence<'a> {
    /// Everyone's, and its changes are logged.
    Permanent,
    /// The session's that makes it, in a pool of its own, and its changes are not logged.
    Temporary(&'a TempRelations),
}

/// Makes a table; the caller holds its name's lock and knows that the name is free. Its file's
/// place.
pub(crate) fn create_table(
    core: &Core,
    be: &mut Backend,
    tx: &mut Transaction,
    namespace: Oid,
    name: &str,
    columns: &[ColumnDef],
    persistence: Persistence<'_>,
) -> Result<RelFileLocator, EngineError> {
    let xid = core.xacts.assign(&mut be.io, tx)?;
    let author = Author { xid, command: tx.use_command() };
    let locator = free_file(core, be)?;
    let oid = locator.rel;
    let persistence = match persistence {
        Persistence::Permanent => {
            core.xacts.drop_at_abort(tx, locator);
            core.smgr.create(locator, Fork::Main, false)?;
            log_file(core, be, locator, xid)?;
            b'p'
        }
        Persistence::Temporary(pool) => {
            pool.create(be, locator)?;
            b't'
        }
    };
    let class = ClassRow {
        oid,
        name,
        namespace,
        row_type: 0,
        filenode: oid,
        tablespace: 0,
        shared: false,
        persistence,
        columns: i16::try_from(columns.len()).unwrap_or(i16::MAX),
        replica_identity: b'd',
        frozen_xid: core.xacts.oldest_running().xid(),
    };
    insert_row(core, be, author, &core.catalogs.class, &class.datums())?;
    for attribute in user_attributes(oid, columns)? {
        insert_row(core, be, author, &core.catalogs.attribute, &attribute.datums())?;
    }
    tx.next_command()?;
    Ok(locator)
}

/// Logs that a table's file was made.
fn log_file(
    core: &Core,
    be: &mut Backend,
    locator: RelFileLocator,
    xid: Xid,
) -> Result<(), EngineError> {
    let main = SmgrCreate { rel: locator, fork: Fork::Main }.encode();
    let record = Record {
        rmgr: Rmgr::SMGR,
        info: CREATE | INFO_SPECIAL_REL_UPDATE,
        xid,
        main: &main,
        blocks: &[],
    };
    core.wal.insert(&mut be.io, &record)?;
    Ok(())
}

/// Makes a namespace, of a name that is free and nobody else's to make; its OID.
pub(crate) fn create_namespace(
    core: &Core,
    be: &mut Backend,
    tx: &mut Transaction,
    name: &str,
) -> Result<Oid, EngineError> {
    let xid = core.xacts.assign(&mut be.io, tx)?;
    let author = Author { xid, command: tx.use_command() };
    let oid = core.oids.allocate(&mut be.io, &core.wal)?;
    let snapshot = core.xacts.snapshot(tx);
    let catalog = Reader::new(core, be, snapshot).namespaces()?;
    insert_row(core, be, author, &catalog, &namespace_datums(oid, name, OWNER))?;
    tx.next_command()?;
    Ok(oid)
}

/// An OID under which there is no file yet: a crash may have left one behind.
fn free_file(core: &Core, be: &mut Backend) -> Result<RelFileLocator, EngineError> {
    loop {
        let oid = core.oids.allocate(&mut be.io, &core.wal)?;
        let locator = RelFileLocator::in_default(POSTGRES_DB, oid);
        if !core.smgr.exists(locator, Fork::Main)? {
            return Ok(locator);
        }
    }
}

fn insert_row(
    core: &Core,
    be: &mut Backend,
    author: Author,
    catalog: &Table,
    row: &[Datum<'_>],
) -> Result<(), EngineError> {
    let mut tuple = Vec::new();
    form_row(&catalog.layouts, row, &mut tuple)?;
    core.heap(catalog).insert(be, author, &tuple)?;
    Ok(())
}

/// Drops a table; the caller holds its lock.
pub(crate) fn drop_table(
    core: &Core,
    be: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
) -> Result<(), EngineError> {
    if table.namespace == PG_CATALOG || table.namespace == PG_TOAST {
        return Err(EngineError::statement(
            "42501",
            format!("permission denied: \"{}\" is a system catalog", table.name),
        ));
    }
    drop_rows(core, be, tx, table.oid, &table.name)?;
    // The files of a temporary one are its session's to remove.
    if !table.is_temporary() {
        tx.drop_at_commit(table.locator);
    }
    Ok(())
}

/// Takes a table out of the catalogs.
pub(crate) fn drop_rows(
    core: &Core,
    be: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    name: &str,
) -> Result<(), EngineError> {
    let xid = core.xacts.assign(&mut be.io, tx)?;
    tx.next_command()?;
    let snapshot = core.xacts.snapshot(tx);
    let mut reader = Reader::new(core, be, snapshot);
    let gone = || EngineError::UndefinedTable { name: name.to_owned() };
    let class = reader.class(oid)?.ok_or_else(gone)?;
    let (_, attributes) = reader.attributes(oid)?;
    let author = Author { xid, command: tx.use_command() };
    let rows = [(&core.catalogs.class, class.tid)]
        .into_iter()
        .chain(attributes.into_iter().map(|tid| (&core.catalogs.attribute, tid)));
    for (catalog, tid) in rows {
        let outcome = core.heap(catalog).delete(be, &core.xacts, author, tx.combos(), tid)?;
        if outcome != DeleteOutcome::Deleted {
            return Err(EngineError::statement("XX000", "tuple concurrently deleted"));
        }
    }
    tx.next_command()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::oids;

    fn refusal(name: &str, columns: &[ColumnDef]) -> (&'static str, String) {
        let error = check_definition(2200, name, columns).expect_err("refused");
        (error.sqlstate(), error.to_string())
    }

    #[test]
    fn definitions_are_refused_as_postgresql_refuses_them() {
        let int = |name: &str| ColumnDef::new(name, oids::INT4);
        check_definition(2200, "t", &[int("a"), int("b")]).expect("fine");
        check_definition(2200, "t", &[]).expect("no columns are fine");
        assert_eq!(
            refusal("t", &[int("a"), int("a")]),
            ("42701", "column \"a\" specified more than once".to_owned())
        );
        assert_eq!(
            refusal("t", &[int("ctid")]),
            ("42701", "column name \"ctid\" conflicts with a system column name".to_owned())
        );
        assert_eq!(
            refusal("t", &[ColumnDef::new("a", oids::ANYARRAY)]),
            ("42P16", "column \"a\" has pseudo-type anyarray".to_owned())
        );
        let many: Vec<ColumnDef> = (0..1601).map(|n| int(&format!("c{n}"))).collect();
        assert_eq!(
            refusal("t", &many),
            ("54011", "tables can have at most 1600 columns".to_owned())
        );
        let error = check_definition(11, "t", &[]).expect_err("catalog");
        assert_eq!(error.sqlstate(), "42501");
    }
}
