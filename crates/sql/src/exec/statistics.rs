//! Rows of the statistics views: pg_stat_archiver, pg_stat_bgwriter,
//! pg_stat_checkpointer, pg_stat_database, pg_stat_wal; and resetting them.

use super::host::Host;
use crate::error::{Result, SqlError, state};
use crate::plan::View;
use forebay_aio::sync::{Duration, SystemTime, UNIX_EPOCH};
use forebay_engine::LockMode;
use forebay_engine::views::{DatabaseRow, SharedStats};
use forebay_types::time::POSTGRES_EPOCH;
use forebay_types::{Datum, Numeric};

type RowOf = Vec<Datum<'static>>;

/// A moment of the system's clock.
pub(super) fn timestamp(at: SystemTime) -> Datum<'static> {
    let since_2000 = |at: SystemTime| {
        at.duration_since(UNIX_EPOCH + Duration::from_secs(POSTGRES_EPOCH.unsigned_abs()))
    };
    let micros = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    Datum::Timestamptz(match since_2000(at) {
        Ok(after) => micros(after),
        Err(before) => -micros(before.duration()),
    })
}

fn count(n: u64) -> Datum<'static> {
    Datum::Int8(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The row of pg_stat_bgwriter.
pub fn bgwriter(host: &mut Host) -> Result<Vec<RowOf>> {
    let r = host.session()?.engine().bgwriter_stats();
    let counts = [r.buffers_clean, r.maxwritten_clean, r.buffers_alloc].map(count);
    Ok(vec![counts.into_iter().chain([timestamp(r.stats_reset)]).collect()])
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
    let engine = host.session()?.engine();
    targets.iter().for_each(|target| engine.reset_stats(*target));
    Ok(Datum::text(""))
}

/// The row of pg_stat_archiver.
pub fn archiver(host: &mut Host) -> Result<Vec<RowOf>> {
    let r = host.session()?.engine().archiver_stats();
    let text = |name: Option<String>| name.map_or(Datum::Null, Datum::string);
    let time = |at: Option<SystemTime>| at.map_or(Datum::Null, timestamp);
    Ok(vec![vec![
        count(r.archived_count),
        text(r.last_archived_wal),
        time(r.last_archived_time),
        count(r.failed_count),
        text(r.last_failed_wal),
        time(r.last_failed_time),
        timestamp(r.stats_reset),
    ]])
}

/// The row of pg_stat_checkpointer. There is no standby, so there are no restart points.
pub fn checkpointer(host: &mut Host) -> Result<Vec<RowOf>> {
    let r = host.session()?.engine().checkpointer_stats();
    Ok(vec![vec![
        count(r.num_timed),
        count(r.num_requested),
        count(r.num_done),
        count(0),
        count(0),
        count(0),
        Datum::Float8(r.write_time),
        Datum::Float8(r.sync_time),
        count(r.buffers_written),
        count(r.slru_written),
        timestamp(r.stats_reset),
    ]])
}

/// The row of pg_stat_wal.
pub fn wal(host: &mut Host) -> Result<Vec<RowOf>> {
    let r = host.session()?.engine().wal_stats();
    Ok(vec![vec![
        count(r.wal_records),
        count(r.wal_fpi),
        Datum::numeric(Numeric::from_int(r.wal_bytes)),
        count(r.wal_buffers_full),
        timestamp(r.stats_reset),
    ]])
}

/// The rows of pg_stat_database: one for what belongs to no database, and one for each database.
/// What is not counted is NULL; a database that nobody can connect to has nothing to count.
pub fn databases(host: &mut Host) -> Result<Vec<RowOf>> {
    let own = host.identity.database.clone();
    let engine = host.session()?.engine();
    let counted = engine.database_stats();
    let failures = engine.checksum_failures();
    let failures = |oid: u32| match &failures {
        None => [Datum::Null, Datum::Null],
        Some(all) => match all.iter().find(|failures| failures.db == oid) {
            None => [count(0), Datum::Null],
            Some(failures) => [count(failures.count), timestamp(failures.last)],
        },
    };
    let mut rows = vec![database(0, None, None, failures(0))];
    for (oid, name) in names(host)? {
        let counted = if name == own { counted } else { DatabaseRow::default() };
        rows.push(database(oid, Some(name), Some(counted), failures(oid)));
    }
    Ok(rows)
}

/// OIDs and names of all databases.
fn names(host: &mut Host) -> Result<Vec<(u32, String)>> {
    const COLUMNS: usize = 2;
    let session = host.session()?;
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
}

/// A row. Counters that are not kept are NULL.
fn database(
    oid: u32,
    name: Option<String>,
    counted: Option<DatabaseRow>,
    [failures, last_failure]: [Datum<'static>; 2],
) -> RowOf {
    let shared = counted.is_none();
    let known =
        |of: fn(&DatabaseRow) -> u64| counted.as_ref().map_or(Datum::Null, |r| count(of(r)));
    let time = |of: fn(&DatabaseRow) -> f64| {
        counted.as_ref().map_or(Datum::Null, |r| Datum::Float8(of(r)))
    };
    let none = if shared { Datum::Null } else { count(0) };
    let value = |column: &str| match column {
        "datid" => Datum::Oid(oid),
        "datname" => name.clone().map_or(Datum::Null, Datum::string),
        "numbackends" => {
            let backends = counted.as_ref().map_or(0, |r| r.backends);
            Datum::Int4(i32::try_from(backends).unwrap_or(i32::MAX))
        }
        "xact_commit" => known(|r| r.commits),
        "xact_rollback" => known(|r| r.rollbacks),
        "blks_read" => known(|r| r.blocks_read),
        "blks_hit" => known(|r| r.blocks_hit),
        "deadlocks" => known(|r| r.deadlocks),
        "checksum_failures" => failures.clone(),
        "checksum_last_failure" => last_failure.clone(),
        "blk_read_time" => time(|r| r.read_time),
        "blk_write_time" => time(|r| r.write_time),
        "sessions" => known(|r| r.sessions),
        "temp_files" => known(|r| r.temp_files),
        "temp_bytes" => known(|r| r.temp_bytes),
        // There is no standby, and nothing runs in parallel.
        "conflicts" => none.clone(),
        "parallel_workers_to_launch" | "parallel_workers_launched" => none.clone(),
        _ => Datum::Null,
    };
    View::StatDatabase.columns().iter().map(|(column, _)| value(column)).collect()
}
