//! Views whose rows are computed: pg_aios, pg_stat_io, pg_stat_aio_backends, pg_settings,
//! pg_buffercache, pg_stat_archiver, pg_stat_bgwriter, pg_stat_checkpointer, pg_stat_database,
//! pg_stat_wal.

use forebay_types::SqlType::{
    self, Bool, Float8, Int2, Int4, Int8, Int8Array, Name, Numeric, Oid, Text, TextArray,
    Timestamptz,
};

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
    StatBgwriter,
    /// Checkpoints.
    StatCheckpointer,
    /// Databases.
    StatDatabase,
    /// The write-ahead log.
    StatWal,
}

/// Names and types of columns.
type Columns = &'static [(&'static str, SqlType)];

const AIOS: Columns = &[
    ("pid", Int4),
    ("io_id", Int4),
    ("io_generation", Int8),
    ("state", Text),
    ("operation", Text),
    ("off", Int8),
    ("length", Int8),
    ("target", Text),
    ("handle_data_len", Int2),
    ("raw_result", Int4),
    ("result", Text),
    ("target_desc", Text),
    ("f_sync", Bool),
    ("f_localmem", Bool),
    ("f_buffered", Bool),
];

const STAT_IO: Columns = &[
    ("backend_type", Text),
    ("object", Text),
    ("context", Text),
    ("reads", Int8),
    ("read_bytes", Numeric),
    ("read_time", Float8),
    ("writes", Int8),
    ("write_bytes", Numeric),
    ("write_time", Float8),
    ("writebacks", Int8),
    ("writeback_time", Float8),
    ("extends", Int8),
    ("extend_bytes", Numeric),
    ("extend_time", Float8),
    ("hits", Int8),
    ("evictions", Int8),
    ("reuses", Int8),
    ("fsyncs", Int8),
    ("fsync_time", Float8),
    ("stats_reset", Timestamptz),
];

const STAT_AIO_BACKENDS: Columns = &[
    ("pid", Int4),
    ("backend_type", Text),
    ("io_method", Text),
    ("acquired", Int8),
    ("acquire_waits", Int8),
    ("staged", Int8),
    ("immediate", Int8),
    ("submissions", Int8),
    ("issued", Int8),
    ("merged", Int8),
    ("completed_self", Int8),
    ("completed_other", Int8),
    ("in_flight", Int8),
    ("in_flight_max", Int8),
    ("reads", Int8),
    ("read_bytes", Numeric),
    ("writes", Int8),
    ("write_bytes", Numeric),
    ("syncs", Int8),
    ("others", Int8),
    ("waits", Int8),
    ("wait_time", Float8),
    ("latency_count", Int8),
    ("latency_sum", Float8),
    ("latency_max", Float8),
    ("latency_histogram", Int8Array),
    ("errors", Int8),
    ("retries", Int8),
    ("stats_reset", Timestamptz),
];

const STAT_ARCHIVER: Columns = &[
    ("archived_count", Int8),
    ("last_archived_wal", Text),
    ("last_archived_time", Timestamptz),
    ("failed_count", Int8),
    ("last_failed_wal", Text),
    ("last_failed_time", Timestamptz),
    ("stats_reset", Timestamptz),
];

const STAT_BGWRITER: Columns = &[
    ("buffers_clean", Int8),
    ("maxwritten_clean", Int8),
    ("buffers_alloc", Int8),
    ("stats_reset", Timestamptz),
];

const STAT_CHECKPOINTER: Columns = &[
    ("num_timed", Int8),
    ("num_requested", Int8),
    ("num_done", Int8),
    ("restartpoints_timed", Int8),
    ("restartpoints_req", Int8),
    ("restartpoints_done", Int8),
    ("write_time", Float8),
    ("sync_time", Float8),
    ("buffers_written", Int8),
    ("slru_written", Int8),
    ("stats_reset", Timestamptz),
];

const STAT_WAL: Columns = &[
    ("wal_records", Int8),
    ("wal_fpi", Int8),
    ("wal_bytes", Numeric),
    ("wal_buffers_full", Int8),
    ("stats_reset", Timestamptz),
];

const BUFFERCACHE: Columns = &[
    ("bufferid", Int4),
    ("relfilenode", Oid),
    ("reltablespace", Oid),
    ("reldatabase", Oid),
    ("relforknumber", Int2),
    ("relblocknumber", Int8),
    ("isdirty", Bool),
    ("usagecount", Int2),
    ("pinning_backends", Int4),
];

const SETTINGS: Columns = &[
    ("name", Text),
    ("setting", Text),
    ("unit", Text),
    ("category", Text),
    ("short_desc", Text),
    ("extra_desc", Text),
    ("context", Text),
    ("vartype", Text),
    ("source", Text),
    ("min_val", Text),
    ("max_val", Text),
    ("enumvals", TextArray),
    ("boot_val", Text),
    ("reset_val", Text),
    ("sourcefile", Text),
    ("sourceline", Int4),
    ("pending_restart", Bool),
];

const STAT_DATABASE: Columns = &[
    ("datid", Oid),
    ("datname", Name),
    ("numbackends", Int4),
    ("xact_commit", Int8),
    ("xact_rollback", Int8),
    ("blks_read", Int8),
    ("blks_hit", Int8),
    ("tup_returned", Int8),
    ("tup_fetched", Int8),
    ("tup_inserted", Int8),
    ("tup_updated", Int8),
    ("tup_deleted", Int8),
    ("conflicts", Int8),
    ("temp_files", Int8),
    ("temp_bytes", Int8),
    ("deadlocks", Int8),
    ("checksum_failures", Int8),
    ("checksum_last_failure", Timestamptz),
    ("blk_read_time", Float8),
    ("blk_write_time", Float8),
    ("session_time", Float8),
    ("active_time", Float8),
    ("idle_in_transaction_time", Float8),
    ("sessions", Int8),
    ("sessions_abandoned", Int8),
    ("sessions_fatal", Int8),
    ("sessions_killed", Int8),
    ("parallel_workers_to_launch", Int8),
    ("parallel_workers_launched", Int8),
    ("stats_reset", Timestamptz),
];

impl View {
    /// The view of that name.
    pub fn by_name(name: &str) -> Option<View> {
        match name {
            "pg_aios" => Some(View::Aios),
            "pg_stat_io" => Some(View::StatIo),
            "pg_stat_aio_backends" => Some(View::StatAioBackends),
            "pg_settings" => Some(View::Settings),
            "pg_buffercache" => Some(View::BufferCache),
            "pg_stat_archiver" => Some(View::StatArchiver),
            "pg_stat_bgwriter" => Some(View::StatBgwriter),
            "pg_stat_checkpointer" => Some(View::StatCheckpointer),
            "pg_stat_database" => Some(View::StatDatabase),
            "pg_stat_wal" => Some(View::StatWal),
            _ => None,
        }
    }

    /// The schema it is in: where PostgreSQL's extension puts pg_buffercache, it is too.
    pub fn schema(self) -> &'static str {
        if self == View::BufferCache { "public" } else { "pg_catalog" }
    }

    /// Its columns, as PostgreSQL 18 has them; pg_stat_aio_backends is Forebay's own.
    pub fn columns(self) -> Columns {
        match self {
            View::Aios => AIOS,
            View::StatIo => STAT_IO,
            View::StatAioBackends => STAT_AIO_BACKENDS,
            View::StatArchiver => STAT_ARCHIVER,
            View::StatBgwriter => STAT_BGWRITER,
            View::StatCheckpointer => STAT_CHECKPOINTER,
            View::StatDatabase => STAT_DATABASE,
            View::StatWal => STAT_WAL,
            View::BufferCache => BUFFERCACHE,
            View::Settings => SETTINGS,
        }
    }
}
