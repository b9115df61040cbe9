//! Rows of the computed views, and resetting the statistics that they show.

use super::host::Host;
use super::row::OwnedRow;
use crate::error::{Result, SqlError, state};
use crate::views::{self, Database, IndexStatsRow, Relations, TableRow, View, values};
use forebay_engine::views::{Command, DatabaseRow, RelationStats, SharedStats};
use forebay_engine::{LockMode, SequenceInfo, Session, Table, TableIndex};
use forebay_types::Datum;
use std::collections::HashMap;
use std::sync::Arc;

/// Computes a view.
pub fn rows(view: View, host: &mut Host) -> Result<Vec<OwnedRow>> {
    host.check_superuser(|| "a view of the system".to_owned())?;
    Ok(match view {
        View::Aios => values(views::AIOS, host.engine()?.aios()),
        View::StatIo => {
            let engine = host.engine()?;
            let since = engine.io_stats_reset_at();
            values(views::STAT_IO, engine.io_stats().into_iter().map(|r| (r, since)))
        }
        View::StatAioBackends => values(views::STAT_AIO_BACKENDS, host.engine()?.aio_backends()),
        View::StatArchiver => values(views::STAT_ARCHIVER, [host.engine()?.archiver_stats()]),
        View::StatBufferPool => values(views::STAT_BUFFER_POOL, [host.engine()?.pool_size()]),
        View::StatBgwriter => values(views::STAT_BGWRITER, [host.engine()?.bgwriter_stats()]),
        View::StatCheckpointer => {
            values(views::STAT_CHECKPOINTER, [host.engine()?.checkpointer_stats()])
        }
        View::StatDatabase => values(views::STAT_DATABASE, databases(host)?),
        View::StatWal => values(views::STAT_WAL, [host.engine()?.wal_stats()]),
        View::Locks => values(views::LOCKS, host.engine()?.locks()),
        View::BufferCache => values(views::BUFFERCACHE, host.engine()?.buffers()),
        View::Settings => values(views::SETTINGS, host.all_settings()),
        View::Progress(command) => progress(host, command)?,
        View::Cursors => values(views::CURSORS, host.cursors.iter().cloned()),
        View::StatTables(of) => values(views::STAT_TABLES, tables(host, of)?),
        View::StatIndexes(of) => values(views::STAT_INDEXES, indexes(host, of)?),
        View::Sequences => values(views::SEQUENCES, sequences(host)?),
        View::Stats => values(views::STATS, host.call(Session::column_stats)?),
    })
}

/// What pg_sequences shows. One that was dropped meanwhile is not there.
fn sequences(host: &mut Host) -> Result<Vec<(SequenceInfo, String, Option<i64>)>> {
    let mut rows = Vec::new();
    for sequence in host.call(Session::all_sequences)? {
        let oid = sequence.oid;
        let data = match host.call(|session| session.sequence_data(oid)) {
            Ok(data) => data,
            Err(error) if error.sqlstate == state::INTERNAL_ERROR => continue,
            Err(error) => return Err(error),
        };
        let last = data.is_called.then_some(data.last_value);
        rows.push((sequence, host.current_user().to_owned(), last));
    }
    Ok(rows)
}

/// A view pg_stat_progress_*.
fn progress(host: &mut Host, command: Command) -> Result<Vec<OwnedRow>> {
    let rows = host.engine()?.progress(command).into_iter();
    let columns = views::progress_columns(command);
    let databases: HashMap<u32, String> = names(host)?.into_iter().collect();
    let named = |database| databases.get(&database).cloned().unwrap_or_default();
    Ok(values(columns, rows.map(|row| (row, named(row.database)))))
}

/// pg_stat_reset_shared(target): sets statistics to zero; those of everything without a target, or
/// with NULL.
pub fn reset<'a>(args: &[Datum<'_>], host: &mut Host) -> Result<Datum<'a>> {
    use SharedStats::{Archiver, Bgwriter, Checkpointer, Io, Wal};
    let targets: &[SharedStats] = match args.first().and_then(Datum::as_str) {
        None => &[Archiver, Bgwriter, Checkpointer, Io, Wal],
        Some("archiver") => &[Archiver],
        Some("bgwriter") => &[Bgwriter],
        Some("checkpointer") => &[Checkpointer],
        Some("io") => &[Io],
        Some("wal") => &[Wal],
        // No view shows anything of these.
        Some("recovery_prefetch" | "slru") => &[],
        Some(other) => {
            let message = format!("unrecognized reset target: \"{other}\"");
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message).hint(
                "Target must be \"archiver\", \"bgwriter\", \"checkpointer\", \"io\", \
                 \"recovery_prefetch\", \"slru\", or \"wal\".",
            ));
        }
    };
    let engine = host.engine()?;
    targets.iter().for_each(|target| engine.reset_stats(*target));
    Ok(Datum::text(""))
}

/// What pg_stat_database shows: what belongs to no database, and each database. One that nobody can
/// connect to has nothing to count.
fn databases(host: &mut Host) -> Result<Vec<Database>> {
    let engine = Arc::clone(host.engine()?);
    let failures = engine.checksum_failures();
    let failures = |oid: u32| {
        let of = failures.as_ref()?.iter().find(|failures| failures.db == oid);
        Some(of.map_or((0, None), |failures| (failures.count, Some(failures.last))))
    };
    let none = DatabaseRow::default();
    let mut rows = vec![Database { oid: 0, name: None, counted: none, failures: failures(0) }];
    for (oid, name) in names(host)? {
        let counted = engine.database_stats_of(oid);
        rows.push(Database { oid, name: Some(name), counted, failures: failures(oid) });
    }
    Ok(rows)
}

/// What was counted of all relations, and the tables of the database that a view shows.
fn counted(host: &mut Host, of: Relations) -> Result<(Vec<Arc<Table>>, StatsByOid)> {
    let mut tables = host.call(Session::tables)?;
    tables.retain(|table| matches!(table.kind, b'r' | b't' | b'm') && of.has(&table.schema));
    let (database, stats) = (host.session()?.database(), host.engine()?.relation_stats());
    let here = stats.into_iter().filter(|(of, _)| [0, database].contains(&of.db));
    Ok((tables, here.map(|(of, stats)| (of.rel, stats)).collect()))
}

/// What pg_stat_all_tables shows.
fn tables(host: &mut Host, of: Relations) -> Result<Vec<TableRow>> {
    let (tables, all) = counted(host, of)?;
    let row = |table: Arc<Table>| {
        let of_index = |index: &Arc<TableIndex>| {
            let RelationStats { scans, last_scan, fetched, .. } = of_relation(&all, index.oid);
            (scans, last_scan, fetched)
        };
        let sum = |a: Sums, b: Sums| (a.0 + b.0, a.1.max(b.1), a.2 + b.2);
        let indexes = table.indexes.iter().map(of_index).reduce(sum);
        TableRow { stats: of_relation(&all, table.oid), indexes, table }
    };
    Ok(tables.into_iter().map(row).collect())
}

/// What pg_stat_all_indexes shows.
fn indexes(host: &mut Host, of: Relations) -> Result<Vec<IndexStatsRow>> {
    let (tables, all) = counted(host, of)?;
    let of_table = |table: Arc<Table>| {
        let stats = table.indexes.iter().map(|index| of_relation(&all, index.oid));
        let row = |(number, stats)| IndexStatsRow { table: Arc::clone(&table), number, stats };
        stats.enumerate().map(row).collect::<Vec<_>>()
    };
    Ok(tables.into_iter().flat_map(of_table).collect())
}

/// Scans of indexes, when the last was, and rows fetched.
type Sums = (u64, Option<i64>, u64);
type StatsByOid = HashMap<u32, RelationStats>;

fn of_relation(all: &StatsByOid, oid: u32) -> RelationStats {
    all.get(&oid).copied().unwrap_or_default()
}

/// OIDs and names of all databases.
fn names(host: &mut Host) -> Result<Vec<(u32, String)>> {
    const COLUMNS: usize = 2;
    host.call(|session| {
        let table = session.open_table(Some("pg_catalog"), "pg_database", LockMode::AccessShare)?;
        let mut scan = session.scan(&table)?;
        let mut found = Vec::new();
        while let Some(row) = scan.next(session)? {
            let mut values = Vec::new();
            row.decode_into(COLUMNS, &mut values)?;
            let [Datum::Oid(oid), Datum::Text(name)] = values.as_slice() else {
                let message = "a row of pg_database has no OID or name";
                return Err(SqlError::new(state::DATA_CORRUPTED, message));
            };
            found.push((*oid, name.to_string()));
        }
        Ok(found)
    })
}
