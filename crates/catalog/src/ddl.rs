//! Creates and drops tables.
//!
//! A new table's file is created before its creation is logged and its rows are written. It is
//! removed if the transaction aborts. A dropped table's file is removed once the transaction has
//! committed. The catalogs have no unique indexes yet: a lock on the name excludes a second
//! creation of the same name.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_access::form_row;
use forebay_access::heap::{Attempt, Author, Changer};
use forebay_format::wal::Rmgr;
use forebay_format::wal::invalidation::Invalidation;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::smgr::{CREATE, SmgrCreate};
use forebay_format::{Fork, ItemPointer, RelFileLocator, Xid};
use forebay_storage::{Backend, TempRelations};
use forebay_txn::Transaction;
use forebay_txn::locks::LockTag;
use forebay_types::{Datum, Oid, type_info};
use forebay_wal::Record;

use crate::database::Database;
use crate::error::CatalogError;
use crate::invalidate;
use crate::reader::Reader;
use crate::rows::{ClassRow, OWNER, OldestIds, namespace_datums, user_attributes};
use crate::schema::{PG_CATALOG, PG_CLASS, PG_TOAST, POSTGRES_DB, SYSTEM_COLUMNS};
use crate::table::{ColumnDef, Table};

/// Most bytes of a name.
const MAX_NAME: usize = 63;
/// Most columns of a table.
const MAX_COLUMNS: usize = 1600;

/// The lock of a name in a namespace. Names with the same hash share a lock.
pub fn name_lock(namespace: Oid, name: &str) -> LockTag {
    let mut hasher = DefaultHasher::new();
    (namespace, name).hash(&mut hasher);
    let object = hasher.finish() as u32;
    LockTag::Object { database: POSTGRES_DB, class: PG_CLASS.oid, object }
}

/// Refuses what PostgreSQL refuses of a table's definition.
pub fn check_definition(
    namespace: Oid,
    name: &str,
    columns: &[ColumnDef],
) -> Result<(), CatalogError> {
    let refuse = |state, message: String| Err(CatalogError::refused(state, message));
    if namespace == PG_CATALOG || namespace == PG_TOAST {
        let schema = if namespace == PG_CATALOG { "pg_catalog" } else { "pg_toast" };
        let error = CatalogError::refused(
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

/// Who can use a new table.
#[derive(Clone, Copy, Debug)]
pub enum Persistence<'a> {
    /// All sessions. Its changes are logged.
    Permanent,
    /// The session that creates it, in its own pool. Its changes are not logged.
    Temporary(&'a TempRelations),
}

/// Creates a table. The caller holds the lock of its name and knows that the name is free. Returns
/// the table's file.
pub fn create_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    namespace: Oid,
    name: &str,
    columns: &[ColumnDef],
    persistence: Persistence<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let xid = database.xacts.assign(&mut backend.io, tx)?;
    let author = Author { xid, command: tx.use_command() };
    let locator = create_file(database, backend, tx, xid, persistence)?;
    let oid = locator.rel;
    let persistence = match persistence {
        Persistence::Permanent => b'p',
        Persistence::Temporary(_) => b't',
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
        columns: i16::try_from(columns.len()).expect("check_definition allows 1600"),
        replica_identity: b'd',
        oldest: OldestIds {
            xid: database.xacts.oldest_running().xid(),
            multi: database.heaps.outcomes.oldest_multi(),
        },
    };
    insert_row(database, backend, author, &database.class, &class.datums())?;
    tx.note_relation(oid, true);
    announce(tx, invalidate::class(oid, name, namespace, false));
    for attribute in user_attributes(oid, columns)? {
        insert_row(database, backend, author, &database.attribute, &attribute.datums())?;
        announce(tx, invalidate::attribute(oid, attribute.name, attribute.number));
    }
    tx.next_command()?;
    Ok(locator)
}

/// The commit record says what is out of date.
pub(crate) fn announce(tx: &mut Transaction, messages: impl IntoIterator<Item = Invalidation>) {
    messages.into_iter().for_each(|message| tx.invalidate(message));
}

/// Creates a new table's file.
pub(crate) fn create_file(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    xid: Xid,
    persistence: Persistence<'_>,
) -> Result<RelFileLocator, CatalogError> {
    let locator = free_file(database, backend)?;
    match persistence {
        Persistence::Permanent => {
            database.xacts.drop_at_abort(tx, locator);
            database.heaps.pool.smgr().create(locator, Fork::Main, false)?;
            log_file(database, backend, locator, xid)?;
        }
        Persistence::Temporary(pool) => pool.create(backend, locator)?,
    }
    Ok(locator)
}

/// Logs that a table's file was created.
fn log_file(
    database: &Database,
    backend: &mut Backend,
    locator: RelFileLocator,
    xid: Xid,
) -> Result<(), CatalogError> {
    let main = SmgrCreate { rel: locator, fork: Fork::Main }.encode();
    let record = Record {
        rmgr: Rmgr::SMGR,
        info: CREATE | INFO_SPECIAL_REL_UPDATE,
        xid,
        main: &main,
        blocks: &[],
    };
    database.heaps.wal.insert(&mut backend.io, &record)?;
    Ok(())
}

/// Creates a namespace. Its name is free, and no other session creates it. Returns its OID.
pub fn create_namespace(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    name: &str,
) -> Result<Oid, CatalogError> {
    let xid = database.xacts.assign(&mut backend.io, tx)?;
    let author = Author { xid, command: tx.use_command() };
    let oid = database.oids.allocate(&mut backend.io, &database.heaps.wal)?;
    let snapshot = database.xacts.snapshot(tx);
    let catalog = Reader::new(database, backend, snapshot).namespaces()?;
    insert_row(database, backend, author, &catalog, &namespace_datums(oid, name, OWNER))?;
    announce(tx, invalidate::namespace(oid, name));
    tx.next_command()?;
    Ok(oid)
}

/// A new OID for which there is no file: a crash may have left one behind.
fn free_file(database: &Database, backend: &mut Backend) -> Result<RelFileLocator, CatalogError> {
    loop {
        let oid = database.oids.allocate(&mut backend.io, &database.heaps.wal)?;
        let locator = RelFileLocator::in_default(POSTGRES_DB, oid);
        if !database.heaps.pool.smgr().exists(locator, Fork::Main)? {
            return Ok(locator);
        }
    }
}

fn insert_row(
    database: &Database,
    backend: &mut Backend,
    author: Author,
    catalog: &Table,
    row: &[Datum<'_>],
) -> Result<(), CatalogError> {
    let mut tuple = Vec::new();
    form_row(&catalog.layouts, row, &mut tuple)?;
    database.heap(catalog).insert(backend, author, &tuple)?;
    Ok(())
}

/// Drops a table. The caller holds its lock.
pub fn drop_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
) -> Result<(), CatalogError> {
    if table.namespace == PG_CATALOG || table.namespace == PG_TOAST {
        return Err(CatalogError::refused(
            "42501",
            format!("permission denied: \"{}\" is a system catalog", table.name),
        ));
    }
    drop_rows(database, backend, tx, table.oid, &table.name)?;
    // A session removes the files of its temporary tables itself.
    if !table.is_temporary() {
        tx.drop_at_commit(table.locator);
    }
    Ok(())
}

/// Removes a table from the catalogs.
pub fn drop_rows(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    oid: Oid,
    name: &str,
) -> Result<(), CatalogError> {
    let xid = database.xacts.assign(&mut backend.io, tx)?;
    tx.next_command()?;
    let snapshot = database.xacts.snapshot(tx);
    let mut reader = Reader::new(database, backend, snapshot);
    let gone = || CatalogError::refused("42P01", format!("relation \"{name}\" does not exist"));
    let class = reader.class(oid)?.ok_or_else(gone)?;
    let (_, attributes) = reader.attributes(&class)?;
    let author = Author { xid, command: tx.use_command() };
    delete_row(database, backend, tx, author, &database.class, class.tid)?;
    tx.note_relation(oid, false);
    announce(tx, invalidate::class(oid, &class.name, class.namespace, false));
    for row in attributes {
        delete_row(database, backend, tx, author, &database.attribute, row.tid)?;
        announce(tx, invalidate::attribute(oid, &row.name, row.number));
    }
    Ok(tx.next_command()?)
}

fn delete_row(
    database: &Database,
    backend: &mut Backend,
    tx: &Transaction,
    author: Author,
    catalog: &Table,
    tid: ItemPointer,
) -> Result<(), CatalogError> {
    // Nobody locks rows of catalogs, so nobody makes this transaction a member of a MultiXact.
    let sets = &mut database.heaps.outcomes.sets();
    let mut changer = Changer { xacts: &database.xacts, tx, author, sets, queues: None };
    match database.heap(catalog).delete(backend, &mut changer, tid)? {
        Attempt::Done(()) => Ok(()),
        Attempt::Refused(_) => Err(CatalogError::refused("XX000", "tuple concurrently deleted")),
    }
}

impl Database {
    /// Removes temporary tables from the catalogs, at a start: their sessions are gone.
    pub fn drop_stale_temporary(&self, backend: &mut Backend) -> Result<(), CatalogError> {
        let mut tx = Transaction::in_database(POSTGRES_DB);
        let snapshot = self.xacts.snapshot(&tx);
        let mut reader = Reader::new(self, backend, snapshot);
        // PostgreSQL, whose catalogs have indexes, removes them itself.
        if reader.refuse_indexed_catalogs().is_err() {
            return Ok(());
        }
        let stale = reader.temporary()?;
        for class in &stale {
            drop_rows(self, backend, &mut tx, class.oid, &class.name)?;
        }
        // Without any the transaction has no id, and its commit writes nothing.
        self.xacts.commit(&mut backend.io, &mut tx)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_types::oids;

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
