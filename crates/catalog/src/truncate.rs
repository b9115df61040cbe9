//! Gives a table a new, empty file: TRUNCATE.
//!
//! The row of pg_class is updated as any row: others go on with the old file until the transaction
//! commits, which removes it. If it aborts the new file is removed.

use forebay_access::form_row;
use forebay_access::heap::{Attempt, Author, Changer, Columns};
use forebay_format::multixact::MultiXactId;
use forebay_format::{ItemPointer, RelFileLocator};
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::{Datum, Oid};

use crate::database::Database;
use crate::ddl::{Persistence, announce, create_file};
use crate::error::CatalogError;
use crate::invalidate;
use crate::reader::Reader;
use crate::table::Table;

/// Empties a table, whose lock the caller holds. No row has a MultiXact older than `min_multi`.
/// Returns the new file.
pub fn truncate_table(
    database: &Database,
    backend: &mut Backend,
    tx: &mut Transaction,
    table: &Table,
    persistence: Persistence<'_>,
    min_multi: MultiXactId,
) -> Result<RelFileLocator, CatalogError> {
    let xid = database.xacts.assign(&mut backend.io, tx)?;
    tx.next_command()?;
    let locator = create_file(database, backend, tx, xid, persistence)?;
    let snapshot = database.xacts.snapshot(tx);
    let mut reader = Reader::new(database, backend, snapshot);
    let (tid, mut row) = class_row(&mut reader, &database.class, table.oid)?.ok_or_else(|| {
        CatalogError::refused("42P01", format!("relation \"{}\" does not exist", table.name))
    })?;
    for (name, value) in [
        ("relfilenode", Datum::Oid(locator.rel)),
        ("relpages", Datum::Int4(0)),
        ("reltuples", Datum::Float4(-1.0)),
        ("relallvisible", Datum::Int4(0)),
        ("relallfrozen", Datum::Int4(0)),
        ("relfrozenxid", Datum::Xid(database.xacts.oldest_running().xid())),
        ("relminmxid", Datum::Xid(min_multi)),
    ] {
        let column = database.class.column(name).and_then(|(index, _)| row.get_mut(index));
        *column.expect("pg_class has this column") = value;
    }
    let mut tuple = Vec::new();
    form_row(&database.class.layouts, &row, &mut tuple)?;
    let author = Author { xid, command: tx.use_command() };
    // Nobody locks rows of catalogs, so nobody makes this transaction a member of a MultiXact.
    let sets = &mut database.heaps.outcomes.sets();
    let mut changer = Changer { xacts: &database.xacts, tx, author, sets, queues: None };
    let columns = Columns { layouts: &database.class.layouts, keys: &[], indexed: &[] };
    let heap = database.heap(&database.class);
    match heap.update(backend, &mut changer, tid, &tuple, &columns)? {
        Attempt::Done(_) => {}
        Attempt::Refused(_) => {
            return Err(CatalogError::refused("XX000", "tuple concurrently updated"));
        }
    }
    announce(tx, invalidate::class(table.oid, &table.name, table.namespace, false));
    // A session removes the files of its temporary tables itself.
    if !table.is_temporary() {
        tx.drop_at_commit(table.locator);
    }
    tx.next_command()?;
    Ok(locator)
}

/// A relation's whole row of pg_class, with its place.
fn class_row(
    reader: &mut Reader<'_>,
    class: &Table,
    oid: Oid,
) -> Result<Option<(ItemPointer, Vec<Datum<'static>>)>, CatalogError> {
    let mut found = None;
    reader.scan(class, class.columns.len(), &mut |tid, row| {
        if row.first() == Some(&Datum::Oid(oid)) {
            let owned = |value: &Datum<'_>| value.clone().into_owned();
            found = Some((tid, row.iter().map(owned).collect()));
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}
