//! How far new transaction ids and MultiXacts may go, and the removal of old status pages.
//!
//! ```text
//!   least relfrozenxid, relminmxid ─▶ pg_database ─▶ least of all databases
//!     ─▶ pg_xact and pg_multixact: logged, durable, then files go ─▶ limits of new ids
//! ```

use forebay_catalog::{Database, DatabaseIds, NextIds, OldestIds, Reader};
use forebay_format::ids::{xid_is_normal, xid_precedes};
use forebay_format::multixact::{INVALID_MULTI, multi_precedes};
use forebay_storage::Backend;
use forebay_txn::DatabaseName;

use crate::core::Core;
use crate::error::EngineError;
use crate::warning::Warning;

/// Sets the limits at a start, now that the databases which have the oldest ids can be named. Logs
/// if few ids are left.
pub(crate) fn set_at_start(core: &Core, backend: &mut Backend) -> Result<(), EngineError> {
    let databases = core.databases.shared_reader(backend).databases()?;
    let ((xid, xid_db), multis) = (core.xacts.oldest_xid(), core.multis.counters());
    let xids = core.xacts.set_limit(xid, named(&databases, xid_db));
    let database = named(&databases, multis.oldest_db);
    let multis = core.multis.set_limit(&mut backend.io, multis.oldest, database)?;
    for warning in xids.into_iter().chain(multis) {
        tracing::warn!("{warning}\nHINT:  {}", warning.hint);
    }
    Ok(())
}

fn named(databases: &[DatabaseIds], oid: u32) -> DatabaseName {
    let database = databases.iter().find(|database| database.oid == oid);
    DatabaseName { oid, name: database.map(|database| database.name.as_str().into()) }
}

/// The ids that come next: no row can have them, or later ones.
pub(crate) fn next_ids(core: &Core) -> NextIds {
    NextIds { xid: core.xacts.next_xid().xid(), multi: core.multis.counters().next }
}

/// Whether a table or database claims ids that do not exist yet. 0 claims nothing.
fn is_bogus(ids: OldestIds, next: NextIds) -> bool {
    xid_precedes(next.xid, ids.xid)
        || ids.multi != INVALID_MULTI && multi_precedes(next.multi, ids.multi)
}

/// The oldest ids of a database: those of its tables, or of running transactions.
/// None if a table's make no sense.
fn oldest_of_database(
    core: &Core,
    database: &Database,
    backend: &mut Backend,
) -> Result<Option<OldestIds>, EngineError> {
    let next = next_ids(core);
    let mut oldest =
        OldestIds { xid: core.xacts.procs().horizon(), multi: core.multis.oldest_in_use() };
    let snapshot = core.xacts.snapshot(&database.transaction());
    for table in Reader::new(database, backend, snapshot).oldest_of_tables()? {
        if is_bogus(table, next) {
            return Ok(None);
        }
        if xid_is_normal(table.xid) && xid_precedes(table.xid, oldest.xid) {
            oldest.xid = table.xid;
        }
        if table.multi != INVALID_MULTI && multi_precedes(table.multi, oldest.multi) {
            oldest.multi = table.multi;
        }
    }
    Ok(Some(oldest))
}

/// After a vacuum: moves the oldest ids of a database, and with them those of the cluster, as far
/// as its tables allow. Removes what is not needed any more of pg_xact and pg_multixact. Returns
/// the warnings for the client.
///
/// If the catalogs claim impossible ids, nothing happens.
pub(crate) fn advance(
    core: &Core,
    database: &Database,
    backend: &mut Backend,
) -> Result<Vec<Warning>, EngineError> {
    let _one = core.id_limits.lock();
    let Some(oldest) = oldest_of_database(core, database, backend)? else { return Ok(Vec::new()) };
    let ids = (oldest.xid, oldest.multi);
    database.update_database(backend, database.oid, ids, next_ids(core))?;
    let (next, databases) = (next_ids(core), core.databases.shared_reader(backend).databases()?);
    if databases.iter().any(|database| xid_precedes(next.xid, database.oldest.xid)) {
        let message = "some databases have not been vacuumed in over 2 billion transactions";
        let detail = "You might have already suffered transaction-wraparound data loss.";
        let warning = Warning { detail: Some(detail.to_owned()), ..Warning::new(message) };
        return Ok(vec![warning]);
    }
    let sane = |ids: OldestIds| {
        xid_is_normal(ids.xid) && ids.multi != INVALID_MULTI && !is_bogus(ids, next)
    };
    if !databases.iter().all(|database| sane(database.oldest)) {
        return Ok(Vec::new());
    }
    let older = |a: &DatabaseIds, b: &DatabaseIds| xid_precedes(a.oldest.xid, b.oldest.xid);
    let of_xid = databases.iter().reduce(|a, b| if older(b, a) { b } else { a });
    let older = |a: &DatabaseIds, b: &DatabaseIds| multi_precedes(a.oldest.multi, b.oldest.multi);
    let of_multi = databases.iter().reduce(|a, b| if older(b, a) { b } else { a });
    let (Some(of_xid), Some(of_multi)) = (of_xid, of_multi) else {
        return Err(EngineError::corrupt("pg_database has no row"));
    };
    let (xid, multi, io) = (of_xid.oldest.xid, of_multi.oldest.multi, &mut backend.io);
    core.xacts.clog().truncate(io, &core.wal, xid, of_xid.oid)?;
    core.multis.truncate(io, &core.xacts, multi, of_multi.oid)?;
    let xids = core.xacts.set_limit(xid, named(&databases, of_xid.oid));
    let multis = core.multis.set_limit(io, multi, named(&databases, of_multi.oid))?;
    Ok(xids.into_iter().chain(multis).map(Warning::from).collect())
}
