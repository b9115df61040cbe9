//! Views whose rows are computed: pg_aios, pg_stat_io, pg_stat_aio_backends, pg_settings,
//! pg_buffercache, pg_cursors, pg_locks, pg_stat_archiver, pg_stat_bgwriter, pg_stat_checkpointer,
//! pg_stat_database, pg_stat_wal, pg_stat_all_tables, pg_stat_all_indexes, pg_stats, pg_sequences.
//! A column stands once, with what makes its value of a row.
//!
//! - `basics`: what all of them share
//! - `progress`: pg_stat_progress_*

mod basics;
mod progress;

pub use self::basics::{Columns, described, values};
use self::basics::{count, millis, opt, text};
pub use self::progress::columns as progress_columns;
use crate::settings::SettingRow;
use forebay_aio::sync::{Duration, SystemTime, UNIX_EPOCH};
use forebay_engine::views::{
    AioBackendRow, AioRow, ArchiverStats, BgwriterRow, BufferInfo, BufferPage, CheckpointerRow,
    ColumnStatsRow, Command, Counts, DatabaseRow, IoOp, IoStatRow, LockRow, LockTag,
    MaintenanceRuns, PoolSizeRow, RelationStats, WalRow,
};
use forebay_engine::{ItemPointer, SequenceInfo, Table};
use forebay_types::SqlType::{
    self, AnyArray, Bool, Float4, Float4Array, Float8, Int2, Int4, Int8, Int8Array, Name, Numeric,
    Oid, Text, TextArray, Timestamptz, Xid,
};
use forebay_types::time::POSTGRES_EPOCH;
use forebay_types::{Datum, Numeric as Number, to_text};
use std::sync::Arc;

/// A view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// I/O handles in use.
    Aios,
    /// I/O counters.
    StatIo,
    /// What each backend's I/O came to.
    StatAioBackends,
    /// Settings.
    Settings,
    /// The archiver.
    StatArchiver,
    /// Buffers of the pool.
    BufferCache,
    /// The background writer.
    StatBufferPool,
    StatBgwriter,
    /// Checkpoints.
    StatCheckpointer,
    /// Databases.
    StatDatabase,
    /// The write-ahead log.
    StatWal,
    /// Locks that are held or waited for.
    Locks,
    /// The session's cursors.
    Cursors,
    /// Statistics of columns.
    Stats,
    /// Sequences.
    Sequences,
    /// Long commands of a kind that run.
    Progress(Command),
    /// Tables.
    StatTables(Relations),
    /// Indexes.
    StatIndexes(Relations),
}

/// Which relations a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relations {
    /// All.
    All,
    /// Those of the system.
    System,
    /// Those of users.
    User,
}

impl Relations {
    /// Whether those of a schema are shown.
    pub fn has(self, schema: &str) -> bool {
        let known = ["pg_catalog", "information_schema"];
        let system = known.contains(&schema) || schema.starts_with("pg_toast");
        match self {
            Relations::All => true,
            Relations::System => system,
            Relations::User => !system,
        }
    }
}

impl View {
    /// The view of that name.
    pub fn by_name(name: &str) -> Option<View> {
        Some(match name {
            "pg_aios" => View::Aios,
            "pg_stat_io" => View::StatIo,
            "pg_stat_aio_backends" => View::StatAioBackends,
            "pg_settings" => View::Settings,
            "pg_buffercache" => View::BufferCache,
            "pg_stat_archiver" => View::StatArchiver,
            "pg_stat_buffer_pool" => View::StatBufferPool,
            "pg_stat_bgwriter" => View::StatBgwriter,
            "pg_stat_checkpointer" => View::StatCheckpointer,
            "pg_stat_database" => View::StatDatabase,
            "pg_stat_wal" => View::StatWal,
            "pg_locks" => View::Locks,
            "pg_cursors" => View::Cursors,
            "pg_stats" => View::Stats,
            "pg_sequences" => View::Sequences,
            "pg_stat_progress_analyze" => View::Progress(Command::Analyze),
            "pg_stat_progress_cluster" => View::Progress(Command::Cluster),
            "pg_stat_progress_create_index" => View::Progress(Command::CreateIndex),
            "pg_stat_progress_vacuum" => View::Progress(Command::Vacuum),
            "pg_stat_all_tables" => View::StatTables(Relations::All),
            "pg_stat_sys_tables" => View::StatTables(Relations::System),
            "pg_stat_user_tables" => View::StatTables(Relations::User),
            "pg_stat_all_indexes" => View::StatIndexes(Relations::All),
            "pg_stat_sys_indexes" => View::StatIndexes(Relations::System),
            "pg_stat_user_indexes" => View::StatIndexes(Relations::User),
            _ => return None,
        })
    }

    /// The schema it is in: where PostgreSQL's extension puts pg_buffercache, it is too.
    pub fn schema(self) -> &'static str {
        if self == View::BufferCache { "public" } else { "pg_catalog" }
    }

    /// Names and types of its columns, as PostgreSQL 18 has them; pg_stat_aio_backends and
    /// pg_stat_buffer_pool are Forebay's own.
    pub fn columns(self) -> Vec<(&'static str, SqlType)> {
        match self {
            View::Aios => described(AIOS),
            View::StatIo => described(STAT_IO),
            View::StatAioBackends => described(STAT_AIO_BACKENDS),
            View::StatArchiver => described(STAT_ARCHIVER),
            View::StatBufferPool => described(STAT_BUFFER_POOL),
            View::StatBgwriter => described(STAT_BGWRITER),
            View::StatCheckpointer => described(STAT_CHECKPOINTER),
            View::StatDatabase => described(STAT_DATABASE),
            View::StatWal => described(STAT_WAL),
            View::BufferCache => described(BUFFERCACHE),
            View::Settings => described(SETTINGS),
            View::Locks => described(LOCKS),
            View::Cursors => described(CURSORS),
            View::Stats => described(STATS),
            View::Sequences => described(SEQUENCES),
            View::Progress(command) => described(progress_columns(command)),
            View::StatTables(_) => described(STAT_TABLES),
            View::StatIndexes(_) => described(STAT_INDEXES),
        }
    }
}

fn int4(n: impl TryInto<i32>) -> Datum<'static> {
    Datum::Int4(n.try_into().unwrap_or(i32::MAX))
}

fn bytes(n: u64) -> Datum<'static> {
    Datum::numeric(Number::from_int(n))
}

/// A moment of the system's clock.
pub fn timestamp(at: SystemTime) -> Datum<'static> {
    let epoch = UNIX_EPOCH + Duration::from_secs(POSTGRES_EPOCH.unsigned_abs());
    let micros = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
    Datum::Timestamptz(match at.duration_since(epoch) {
        Ok(after) => micros(after),
        Err(before) => -micros(before.duration()),
    })
}

/// An array's text form.
fn array_text(values: &[String]) -> Datum<'static> {
    let plain = |v: &String| {
        !v.is_empty()
            && !v.eq_ignore_ascii_case("null")
            && !v.contains(|c: char| {
                matches!(c, '{' | '}' | ',' | '"' | '\\' | '\u{b}') || c.is_ascii_whitespace()
            })
    };
    let quoted = |v: &String| {
        if plain(v) {
            v.clone()
        } else {
            format!("\"{}\"", v.replace('\\', "\\\\").replace('"', "\\\""))
        }
    };
    let items: Vec<String> = values.iter().map(quoted).collect();
    Datum::string(format!("{{{}}}", items.join(",")))
}

/// An array as it is stored. One of a type whose values are only carried can't be shown: it is
/// NULL, so that the other columns can.
fn array(value: &Datum<'static>) -> Datum<'static> {
    match to_text(value, SqlType::AnyArray) {
        Ok(_) => value.clone(),
        Err(_) => Datum::Null,
    }
}

/// pg_stats.
pub const STATS: Columns<ColumnStatsRow> = &[
    ("schemaname", Name, |r| text(&r.schema)),
    ("tablename", Name, |r| text(&r.table)),
    ("attname", Name, |r| text(&r.column)),
    ("inherited", Bool, |r| Datum::Bool(r.inherited)),
    ("null_frac", Float4, |r| Datum::Float4(r.null_fraction)),
    ("avg_width", Int4, |r| Datum::Int4(r.width)),
    ("n_distinct", Float4, |r| Datum::Float4(r.distinct)),
    ("most_common_vals", AnyArray, |r| array(&r.common_values)),
    ("most_common_freqs", Float4Array, |r| array(&r.common_freqs)),
    ("histogram_bounds", AnyArray, |r| array(&r.histogram)),
    ("correlation", Float4, |r| opt(r.correlation, Datum::Float4)),
    ("most_common_elems", AnyArray, |r| array(&r.common_elements)),
    ("most_common_elem_freqs", Float4Array, |r| array(&r.element_freqs)),
    ("elem_count_histogram", Float4Array, |r| array(&r.element_counts)),
    ("range_length_histogram", AnyArray, |r| array(&r.range_lengths)),
    ("range_empty_frac", Float4, |r| opt(r.empty_ranges, Datum::Float4)),
    ("range_bounds_histogram", AnyArray, |r| array(&r.range_bounds)),
];

/// pg_sequences: a sequence, its owner, and its last value if it has handed out one.
pub const SEQUENCES: Columns<(SequenceInfo, String, Option<i64>)> = &[
    ("schemaname", Name, |(r, ..)| text(&r.schema)),
    ("sequencename", Name, |(r, ..)| text(&r.name)),
    ("sequenceowner", Name, |(_, owner, _)| text(owner)),
    ("data_type", SqlType::Regtype, |(r, ..)| text(SqlType::of(r.def.type_oid).sql_name())),
    ("start_value", Int8, |(r, ..)| Datum::Int8(r.def.start)),
    ("min_value", Int8, |(r, ..)| Datum::Int8(r.def.rules.min)),
    ("max_value", Int8, |(r, ..)| Datum::Int8(r.def.rules.max)),
    ("increment_by", Int8, |(r, ..)| Datum::Int8(r.def.rules.increment)),
    ("cycle", Bool, |(r, ..)| Datum::Bool(r.def.rules.cycle)),
    ("cache_size", Int8, |(r, ..)| Datum::Int8(r.def.rules.cache)),
    ("last_value", Int8, |(.., last)| opt(*last, Datum::Int8)),
];

/// pg_aios.
pub const AIOS: Columns<AioRow> = &[
    ("pid", Int4, |r| Datum::Int4(r.backend_id)),
    ("io_id", Int4, |r| int4(r.io_id)),
    ("io_generation", Int8, |r| count(r.generation)),
    ("state", Text, |r| text(r.state.name())),
    ("operation", Text, |r| text(r.operation.name())),
    ("off", Int8, |r| opt(r.offset, count)),
    ("length", Int8, |r| opt(r.length, count)),
    ("target", Text, |r| opt(r.target, text)),
    ("handle_data_len", Int2, |r| {
        Datum::Int2(i16::try_from(r.handle_data_len).unwrap_or(i16::MAX))
    }),
    ("raw_result", Int4, |r| opt(r.raw_result, int4)),
    ("result", Text, |r| text(r.result)),
    ("target_desc", Text, |r| opt(r.target_desc.clone(), Datum::string)),
    ("f_sync", Bool, |r| Datum::Bool(r.f_sync)),
    ("f_localmem", Bool, |r| Datum::Bool(r.f_localmem)),
    ("f_buffered", Bool, |r| Datum::Bool(r.f_buffered)),
];

/// What pg_stat_io shows of an operation; NULL where there can't be any.
fn shown(r: &IoStatRow, op: IoOp, value: fn(Counts) -> Datum<'static>) -> Datum<'static> {
    opt(r.shown(op), value)
}

/// pg_stat_io: counters, and since when they count.
pub const STAT_IO: Columns<(IoStatRow, SystemTime)> = &[
    ("backend_type", Text, |(r, _)| text(r.backend_type.name())),
    ("object", Text, |(r, _)| text(r.object.name())),
    ("context", Text, |(r, _)| text(r.context.name())),
    ("reads", Int8, |(r, _)| shown(r, IoOp::Read, |c| count(c.count))),
    ("read_bytes", Numeric, |(r, _)| shown(r, IoOp::Read, |c| bytes(c.bytes))),
    ("read_time", Float8, |(r, _)| shown(r, IoOp::Read, |c| millis(c.time_ns))),
    ("writes", Int8, |(r, _)| shown(r, IoOp::Write, |c| count(c.count))),
    ("write_bytes", Numeric, |(r, _)| shown(r, IoOp::Write, |c| bytes(c.bytes))),
    ("write_time", Float8, |(r, _)| shown(r, IoOp::Write, |c| millis(c.time_ns))),
    ("writebacks", Int8, |(r, _)| shown(r, IoOp::Writeback, |c| count(c.count))),
    ("writeback_time", Float8, |(r, _)| shown(r, IoOp::Writeback, |c| millis(c.time_ns))),
    ("extends", Int8, |(r, _)| shown(r, IoOp::Extend, |c| count(c.count))),
    ("extend_bytes", Numeric, |(r, _)| shown(r, IoOp::Extend, |c| bytes(c.bytes))),
    ("extend_time", Float8, |(r, _)| shown(r, IoOp::Extend, |c| millis(c.time_ns))),
    ("hits", Int8, |(r, _)| shown(r, IoOp::Hit, |c| count(c.count))),
    ("evictions", Int8, |(r, _)| shown(r, IoOp::Evict, |c| count(c.count))),
    ("reuses", Int8, |(r, _)| shown(r, IoOp::Reuse, |c| count(c.count))),
    ("fsyncs", Int8, |(r, _)| shown(r, IoOp::Fsync, |c| count(c.count))),
    ("fsync_time", Float8, |(r, _)| shown(r, IoOp::Fsync, |c| millis(c.time_ns))),
    ("stats_reset", Timestamptz, |(_, since)| timestamp(*since)),
];

/// pg_stat_aio_backends.
pub const STAT_AIO_BACKENDS: Columns<AioBackendRow> = &[
    ("pid", Int4, |r| Datum::Int4(r.pid)),
    ("backend_type", Text, |r| text(r.backend_type.name())),
    ("io_method", Text, |r| text(r.io_method)),
    ("acquired", Int8, |r| count(r.acquired)),
    ("acquire_waits", Int8, |r| count(r.acquire_waits)),
    ("staged", Int8, |r| count(r.staged)),
    ("immediate", Int8, |r| count(r.immediate)),
    ("submissions", Int8, |r| count(r.submissions)),
    ("issued", Int8, |r| count(r.issued)),
    ("merged", Int8, |r| count(r.merged)),
    ("completed_self", Int8, |r| count(r.completed_self)),
    ("completed_other", Int8, |r| count(r.completed_other)),
    ("in_flight", Int8, |r| count(r.in_flight)),
    ("in_flight_max", Int8, |r| count(r.in_flight_max)),
    ("reads", Int8, |r| count(r.reads)),
    ("read_bytes", Numeric, |r| bytes(r.read_bytes)),
    ("writes", Int8, |r| count(r.writes)),
    ("write_bytes", Numeric, |r| bytes(r.write_bytes)),
    ("syncs", Int8, |r| count(r.syncs)),
    ("others", Int8, |r| count(r.others)),
    ("waits", Int8, |r| count(r.waits)),
    ("wait_time", Float8, |r| millis(r.wait_time)),
    ("latency_count", Int8, |r| count(r.latency_count)),
    ("latency_sum", Float8, |r| millis(r.latency_sum)),
    ("latency_max", Float8, |r| millis(r.latency_max)),
    ("latency_histogram", Int8Array, |r| array_text(&r.latency_histogram.map(|n| n.to_string()))),
    ("errors", Int8, |r| count(r.errors)),
    ("retries", Int8, |r| count(r.retries)),
    ("stats_reset", Timestamptz, |r| timestamp(r.stats_reset)),
];

/// pg_stat_archiver.
pub const STAT_ARCHIVER: Columns<ArchiverStats> = &[
    ("archived_count", Int8, |r| count(r.archived_count)),
    ("last_archived_wal", Text, |r| opt(r.last_archived_wal.clone(), Datum::string)),
    ("last_archived_time", Timestamptz, |r| opt(r.last_archived_time, timestamp)),
    ("failed_count", Int8, |r| count(r.failed_count)),
    ("last_failed_wal", Text, |r| opt(r.last_failed_wal.clone(), Datum::string)),
    ("last_failed_time", Timestamptz, |r| opt(r.last_failed_time, timestamp)),
    ("stats_reset", Timestamptz, |r| timestamp(r.stats_reset)),
];

/// pg_stat_bgwriter.
pub const STAT_BGWRITER: Columns<BgwriterRow> = &[
    ("buffers_clean", Int8, |r| count(r.buffers_clean)),
    ("maxwritten_clean", Int8, |r| count(r.maxwritten_clean)),
    ("buffers_alloc", Int8, |r| count(r.buffers_alloc)),
    ("stats_reset", Timestamptz, |r| timestamp(r.stats_reset)),
];

/// pg_stat_checkpointer. There is no standby, so there are no restart points.
pub const STAT_CHECKPOINTER: Columns<CheckpointerRow> = &[
    ("num_timed", Int8, |r| count(r.num_timed)),
    ("num_requested", Int8, |r| count(r.num_requested)),
    ("num_done", Int8, |r| count(r.num_done)),
    ("restartpoints_timed", Int8, |_| count(0)),
    ("restartpoints_req", Int8, |_| count(0)),
    ("restartpoints_done", Int8, |_| count(0)),
    ("write_time", Float8, |r| Datum::Float8(r.write_time)),
    ("sync_time", Float8, |r| Datum::Float8(r.sync_time)),
    ("buffers_written", Int8, |r| count(r.buffers_written)),
    ("slru_written", Int8, |r| count(r.slru_written)),
    ("stats_reset", Timestamptz, |r| timestamp(r.stats_reset)),
];

/// pg_stat_wal.
pub const STAT_WAL: Columns<WalRow> = &[
    ("wal_records", Int8, |r| count(r.wal_records)),
    ("wal_fpi", Int8, |r| count(r.wal_fpi)),
    ("wal_bytes", Numeric, |r| bytes(r.wal_bytes)),
    ("wal_buffers_full", Int8, |r| count(r.wal_buffers_full)),
    ("stats_reset", Timestamptz, |r| timestamp(r.stats_reset)),
];

/// pg_stat_buffer_pool.
pub const STAT_BUFFER_POOL: Columns<PoolSizeRow> = &[
    ("buffers", Int8, |r| count(r.buffers)),
    ("min_buffers", Int8, |r| count(r.least)),
    ("max_buffers", Int8, |r| count(r.most)),
    ("target_buffers", Int8, |r| count(r.target)),
    ("automatic", Bool, |r| Datum::Bool(r.automatic)),
    ("resizes", Int8, |r| count(r.resizes)),
    ("memory_shortages", Int8, |r| count(r.shortages)),
    ("hits", Int8, |r| count(r.hits)),
    ("misses", Int8, |r| count(r.misses)),
    ("ghost_misses", Int8, |r| count(r.returned)),
    ("near_misses", Int8, |r| count(r.nearly_kept)),
];

/// What a buffer's page tells; NULL if the buffer is empty.
fn page(r: &BufferInfo, value: impl Fn(&BufferPage) -> Datum<'static>) -> Datum<'static> {
    opt(r.page.as_ref().filter(|page| page.valid), value)
}

/// pg_buffercache. Buffers count from 1.
pub const BUFFERCACHE: Columns<BufferInfo> = &[
    ("bufferid", Int4, |r| Datum::Int4(i32::try_from(r.buffer + 1).unwrap_or(i32::MAX))),
    ("relfilenode", Oid, |r| page(r, |p| Datum::Oid(p.tag.rel.rel))),
    ("reltablespace", Oid, |r| page(r, |p| Datum::Oid(p.tag.rel.spc))),
    ("reldatabase", Oid, |r| page(r, |p| Datum::Oid(p.tag.rel.db))),
    ("relforknumber", Int2, |r| page(r, |p| Datum::Int2(i16::from(p.tag.fork.number())))),
    ("relblocknumber", Int8, |r| page(r, |p| Datum::Int8(i64::from(p.tag.block)))),
    ("isdirty", Bool, |r| page(r, |p| Datum::Bool(p.dirty))),
    ("usagecount", Int2, |r| page(r, |p| Datum::Int2(i16::from(p.usage)))),
    ("pinning_backends", Int4, |r| {
        page(r, |p| Datum::Int4(i32::try_from(p.pins).unwrap_or(i32::MAX)))
    }),
];

/// pg_settings.
pub const SETTINGS: Columns<SettingRow> = &[
    ("name", Text, |r| text(&r.name)),
    ("setting", Text, |r| text(&r.setting)),
    ("unit", Text, |r| opt(r.unit.clone(), Datum::string)),
    ("category", Text, |r| text(&r.category)),
    ("short_desc", Text, |r| text(&r.short_desc)),
    ("extra_desc", Text, |_| Datum::Null),
    ("context", Text, |r| text(&r.context)),
    ("vartype", Text, |r| text(&r.vartype)),
    ("source", Text, |r| text(&r.source)),
    ("min_val", Text, |r| opt(r.min_val.clone(), Datum::string)),
    ("max_val", Text, |r| opt(r.max_val.clone(), Datum::string)),
    ("enumvals", TextArray, |r| opt(r.enumvals.as_deref(), array_text)),
    ("boot_val", Text, |r| opt(r.boot_val.clone(), Datum::string)),
    ("reset_val", Text, |r| opt(r.reset_val.clone(), Datum::string)),
    ("sourcefile", Text, |_| Datum::Null),
    ("sourceline", Int4, |_| Datum::Null),
    ("pending_restart", Bool, |_| Datum::Bool(false)),
];

/// A database, or what belongs to none.
pub struct Database {
    /// Its OID, 0 for what belongs to no database.
    pub oid: u32,
    /// Its name, if it is a database.
    pub name: Option<String>,
    /// What is counted of it.
    pub counted: DatabaseRow,
    /// Checksum failures and the last one's time; None: checksums are off.
    pub failures: Option<(u64, Option<SystemTime>)>,
}

impl Database {
    /// NULL for what belongs to no database.
    fn of(&self, value: impl Fn(&DatabaseRow) -> Datum<'static>) -> Datum<'static> {
        opt(self.name.as_ref(), |_| value(&self.counted))
    }
}

/// pg_stat_database. Counters that are not kept are NULL. There is no standby.
pub const STAT_DATABASE: Columns<Database> = &[
    ("datid", Oid, |r| Datum::Oid(r.oid)),
    ("datname", Name, |r| opt(r.name.clone(), Datum::string)),
    ("numbackends", Int4, |r| Datum::Int4(i32::try_from(r.counted.backends).unwrap_or(i32::MAX))),
    ("xact_commit", Int8, |r| r.of(|c| count(c.commits))),
    ("xact_rollback", Int8, |r| r.of(|c| count(c.rollbacks))),
    ("blks_read", Int8, |r| r.of(|c| count(c.blocks_read))),
    ("blks_hit", Int8, |r| r.of(|c| count(c.blocks_hit))),
    ("tup_returned", Int8, |_| Datum::Null),
    ("tup_fetched", Int8, |_| Datum::Null),
    ("tup_inserted", Int8, |_| Datum::Null),
    ("tup_updated", Int8, |_| Datum::Null),
    ("tup_deleted", Int8, |_| Datum::Null),
    ("conflicts", Int8, |r| r.of(|_| count(0))),
    ("temp_files", Int8, |r| r.of(|c| count(c.temp_files))),
    ("temp_bytes", Int8, |r| r.of(|c| count(c.temp_bytes))),
    ("deadlocks", Int8, |r| r.of(|c| count(c.deadlocks))),
    ("checksum_failures", Int8, |r| opt(r.failures, |(n, _)| count(n))),
    ("checksum_last_failure", Timestamptz, |r| opt(r.failures.and_then(|(_, at)| at), timestamp)),
    ("blk_read_time", Float8, |r| r.of(|c| Datum::Float8(c.read_time))),
    ("blk_write_time", Float8, |r| r.of(|c| Datum::Float8(c.write_time))),
    ("session_time", Float8, |_| Datum::Null),
    ("active_time", Float8, |_| Datum::Null),
    ("idle_in_transaction_time", Float8, |_| Datum::Null),
    ("sessions", Int8, |r| r.of(|c| count(c.sessions))),
    ("sessions_abandoned", Int8, |_| Datum::Null),
    ("sessions_fatal", Int8, |_| Datum::Null),
    ("sessions_killed", Int8, |_| Datum::Null),
    ("parallel_workers_to_launch", Int8, |r| r.of(|c| count(c.workers_wanted))),
    ("parallel_workers_launched", Int8, |r| r.of(|c| count(c.workers_started))),
    ("stats_reset", Timestamptz, |_| Datum::Null),
];

/// A part of what is locked; NULL if what is locked has no such part.
fn part<T>(
    r: &LockRow,
    of: impl Fn(LockTag) -> Option<T>,
    make: impl Fn(T) -> Datum<'static>,
) -> Datum<'static> {
    opt(of(r.tag), make)
}

fn virtual_id((slot, number): (u32, u32)) -> Datum<'static> {
    Datum::string(format!("{slot}/{number}"))
}

/// The halves of an advisory lock's key.
fn halves(key: u64) -> (u32, u32) {
    ((key >> 32) as u32, key as u32)
}

/// pg_locks.
pub const LOCKS: Columns<LockRow> = &[
    ("locktype", Text, |r| text(r.tag.kind())),
    ("database", Oid, |r| {
        let database = |tag| match tag {
            LockTag::Relation { database, .. }
            | LockTag::Page { database, .. }
            | LockTag::Tuple { database, .. }
            | LockTag::Object { database, .. }
            | LockTag::Advisory { database, .. } => Some(database),
            LockTag::Transaction(_)
            | LockTag::Insertion { .. }
            | LockTag::VirtualTransaction { .. } => None,
        };
        part(r, database, Datum::Oid)
    }),
    ("relation", Oid, |r| {
        let relation = |tag| match tag {
            LockTag::Relation { relation, .. }
            | LockTag::Page { relation, .. }
            | LockTag::Tuple { relation, .. } => Some(relation),
            _ => None,
        };
        part(r, relation, Datum::Oid)
    }),
    ("page", Int4, |r| {
        let block = |tag| match tag {
            LockTag::Page { block, .. } | LockTag::Tuple { block, .. } => Some(block),
            _ => None,
        };
        part(r, block, |block| Datum::Int4(block.cast_signed()))
    }),
    ("tuple", Int2, |r| {
        let offset = |tag| match tag {
            LockTag::Tuple { offset, .. } => Some(offset),
            _ => None,
        };
        part(r, offset, |offset| Datum::Int2(offset.cast_signed()))
    }),
    ("virtualxid", Text, |r| {
        let id = |tag| match tag {
            LockTag::VirtualTransaction { backend, local } => Some((backend, local)),
            _ => None,
        };
        part(r, id, virtual_id)
    }),
    ("transactionid", Xid, |r| {
        let xid = |tag| match tag {
            LockTag::Transaction(xid) | LockTag::Insertion { xid, .. } => Some(xid),
            _ => None,
        };
        part(r, xid, Datum::Xid)
    }),
    ("classid", Oid, |r| {
        let class = |tag| match tag {
            LockTag::Object { class, .. } => Some(class),
            LockTag::Advisory { key, .. } => Some(halves(key).0),
            _ => None,
        };
        part(r, class, Datum::Oid)
    }),
    ("objid", Oid, |r| {
        let object = |tag| match tag {
            LockTag::Object { object, .. } => Some(object),
            LockTag::Insertion { token, .. } => Some(token),
            LockTag::Advisory { key, .. } => Some(halves(key).1),
            _ => None,
        };
        part(r, object, Datum::Oid)
    }),
    ("objsubid", Int2, |r| {
        let part_of = |tag| match tag {
            LockTag::Object { .. } => Some(0),
            LockTag::Advisory { two, .. } => Some(i16::from(two) + 1),
            _ => None,
        };
        part(r, part_of, Datum::Int2)
    }),
    ("virtualtransaction", Text, |r| opt(r.virtual_transaction, virtual_id)),
    ("pid", Int4, |r| Datum::Int4(r.session)),
    ("mode", Text, |r| text(r.mode.name())),
    ("granted", Bool, |r| Datum::Bool(r.granted)),
    ("fastpath", Bool, |r| Datum::Bool(r.fast)),
    ("waitstart", Timestamptz, |r| opt(r.wait_start, timestamp)),
];

/// A portal or cursor.
#[derive(Clone, Debug)]
pub struct CursorRow {
    /// Its name; empty for the unnamed portal.
    pub name: String,
    /// The query string that made it.
    pub statement: Option<Arc<str>>,
    /// WITH HOLD.
    pub holdable: bool,
    /// BINARY.
    pub binary: bool,
    /// Whether it can go backward.
    pub scrollable: bool,
    /// When it was made.
    pub created: SystemTime,
    /// Whether it is over a query.
    pub is_query: bool,
    /// Whether it is held from an earlier transaction.
    pub held: bool,
    /// Whether it locks the rows (FOR UPDATE).
    pub locks: bool,
    /// The table of which each row is a row, if the query locks that row or is simple.
    pub table: Option<u32>,
    /// The place of the row it is on.
    pub ctid: Option<ItemPointer>,
}

/// pg_cursors.
pub const CURSORS: Columns<CursorRow> = &[
    ("name", Text, |r| text(&r.name)),
    ("statement", Text, |r| opt(r.statement.as_deref(), text)),
    ("is_holdable", Bool, |r| Datum::Bool(r.holdable)),
    ("is_binary", Bool, |r| Datum::Bool(r.binary)),
    ("is_scrollable", Bool, |r| Datum::Bool(r.scrollable)),
    ("creation_time", Timestamptz, |r| timestamp(r.created)),
];

/// A table with what was counted of it.
pub struct TableRow {
    /// The table.
    pub table: Arc<Table>,
    /// What was counted of it.
    pub stats: RelationStats,
    /// What was counted of its indexes together: scans, when the last was, and rows fetched. None:
    /// it has no indexes.
    pub indexes: Option<(u64, Option<i64>, u64)>,
}

fn moment(micros: Option<i64>) -> Datum<'static> {
    opt(micros, Datum::Timestamptz)
}

fn total(runs: &MaintenanceRuns) -> Datum<'static> {
    Datum::Float8(runs.micros as f64 / 1e3)
}

/// pg_stat_all_tables.
pub const STAT_TABLES: Columns<TableRow> = &[
    ("relid", Oid, |r| Datum::Oid(r.table.oid)),
    ("schemaname", Name, |r| text(&r.table.schema)),
    ("relname", Name, |r| text(&r.table.name)),
    ("seq_scan", Int8, |r| count(r.stats.scans)),
    ("last_seq_scan", Timestamptz, |r| moment(r.stats.last_scan)),
    ("seq_tup_read", Int8, |r| count(r.stats.returned)),
    ("idx_scan", Int8, |r| opt(r.indexes, |(scans, ..)| count(scans))),
    ("last_idx_scan", Timestamptz, |r| moment(r.indexes.and_then(|(_, last, _)| last))),
    ("idx_tup_fetch", Int8, |r| opt(r.indexes, |(.., rows)| count(rows + r.stats.fetched))),
    ("n_tup_ins", Int8, |r| count(r.stats.inserted)),
    ("n_tup_upd", Int8, |r| count(r.stats.updated)),
    ("n_tup_del", Int8, |r| count(r.stats.deleted)),
    ("n_tup_hot_upd", Int8, |r| count(r.stats.hot_updated)),
    ("n_tup_newpage_upd", Int8, |r| count(r.stats.newpage_updated)),
    ("n_live_tup", Int8, |r| count(r.stats.live)),
    ("n_dead_tup", Int8, |r| count(r.stats.dead)),
    ("n_mod_since_analyze", Int8, |r| count(r.stats.changed_since_analyze)),
    ("n_ins_since_vacuum", Int8, |r| count(r.stats.inserted_since_vacuum)),
    ("last_vacuum", Timestamptz, |r| moment(r.stats.vacuums.last)),
    ("last_autovacuum", Timestamptz, |r| moment(r.stats.autovacuums.last)),
    ("last_analyze", Timestamptz, |r| moment(r.stats.analyzes.last)),
    ("last_autoanalyze", Timestamptz, |r| moment(r.stats.autoanalyzes.last)),
    ("vacuum_count", Int8, |r| count(r.stats.vacuums.count)),
    ("autovacuum_count", Int8, |r| count(r.stats.autovacuums.count)),
    ("analyze_count", Int8, |r| count(r.stats.analyzes.count)),
    ("autoanalyze_count", Int8, |r| count(r.stats.autoanalyzes.count)),
    ("total_vacuum_time", Float8, |r| total(&r.stats.vacuums)),
    ("total_autovacuum_time", Float8, |r| total(&r.stats.autovacuums)),
    ("total_analyze_time", Float8, |r| total(&r.stats.analyzes)),
    ("total_autoanalyze_time", Float8, |r| total(&r.stats.autoanalyzes)),
];

/// An index with what was counted of it.
pub struct IndexStatsRow {
    /// Its table.
    pub table: Arc<Table>,
    /// Which of the table's indexes it is.
    pub number: usize,
    /// What was counted of it.
    pub stats: RelationStats,
}

/// pg_stat_all_indexes.
pub const STAT_INDEXES: Columns<IndexStatsRow> = &[
    ("relid", Oid, |r| Datum::Oid(r.table.oid)),
    ("indexrelid", Oid, |r| Datum::Oid(r.table.indexes[r.number].oid)),
    ("schemaname", Name, |r| text(&r.table.schema)),
    ("relname", Name, |r| text(&r.table.name)),
    ("indexrelname", Name, |r| text(&r.table.indexes[r.number].name)),
    ("idx_scan", Int8, |r| count(r.stats.scans)),
    ("last_idx_scan", Timestamptz, |r| moment(r.stats.last_scan)),
    ("idx_tup_read", Int8, |r| count(r.stats.returned)),
    ("idx_tup_fetch", Int8, |r| count(r.stats.fetched)),
];
