//! Gives relations new, empty files: TRUNCATE and REINDEX.
//!
//! The row of pg_class is updated as any row: others go on with the old file until the transaction
//! commits, which removes it. If it aborts the new file is removed.

use forebay_format::RelFileLocator;
use forebay_format::multixact::MultiXactId;
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::catalog_oids::CLASSES;
use crate::database::Database;
use crate::ddl::{Persistence, create_file};
use crate::error::CatalogError;
use crate::index_ddl::set;
use crate::schema::PG_CLASS_OID_INDEX;
use crate::table::Table;
use crate::writer::Writer;

/// Empties a table, whose lock the caller holds. No row has a MultiXact older than `min_multi`.
/// Returns the new file. Its indexes are for the caller to build anew.
pub fn truncate_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    persistence: Persistence<'_>,
    min_multi: MultiXactId,
) -> Result<RelFileLocator, CatalogError> {
    let oldest = (database.xacts.oldest_running().xid(), min_multi);
    let old = (table.oid, table.locator);
    new_file(&mut Writer::begin(database, backend, tx)?, old, persistence, oldest)
}

/// Gives an index a new file, in which it is to be built. Returns that.
pub fn empty_index(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    index: (Oid, RelFileLocator),
    persistence: Persistence<'_>,
) -> Result<RelFileLocator, CatalogError> {
    new_file(&mut Writer::begin(database, backend, tx)?, index, persistence, (0, 0))
}

fn new_file(
    writer: &mut Writer<'_>,
    (oid, old): (Oid, RelFileLocator),
    persistence: Persistence<'_>,
    (oldest, min_multi): (u32, MultiXactId),
) -> Result<RelFileLocator, CatalogError> {
    let locator = create_file(writer, persistence)?;
    let mut found = writer.row(&PG_CLASS_OID_INDEX, oid)?;
    for (name, value) in [
        ("relfilenode", Datum::Oid(locator.rel)),
        ("relpages", Datum::Int4(0)),
        ("reltuples", Datum::Float4(-1.0)),
        ("relallvisible", Datum::Int4(0)),
        ("relallfrozen", Datum::Int4(0)),
        ("relfrozenxid", Datum::Xid(oldest)),
        ("relminmxid", Datum::Xid(min_multi)),
    ] {
        set(writer.database, &mut found.values, name, value);
    }
    writer.update(CLASSES, found.tid, &found.values)?;
    // A session removes the files of its temporary tables itself.
    if let Persistence::Permanent = persistence {
        writer.tx.drop_at_commit(old);
    }
    writer.next_command()?;
    Ok(locator)
}
