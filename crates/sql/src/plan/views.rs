//! Views whose rows are computed: pg_aios, pg_stat_io, pg_stat_aio_backends, pg_settings, pg_buffercache.

use crate::value::SqlType::{
    self, Bool, Float8, Int2, Int4, Int8, Int8Array, Numeric, Oid, Text, TextArray, Timestamptz,
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
    /// Buffers of the pool.
    BufferCache,
}

impl View {
    /// The view of that name.
    pub fn by_name(name: &str) -> Option<View> {
        match name {
            "pg_aios" => Some(View::Aios),
            "pg_stat_io" => Some(View::StatIo),
            "pg_stat_aio_backends" => Some(View::StatAioBackends),
            "pg_settings" => Some(View::Settings),
            "pg_buffercache" => Some(View::BufferCache),
            _ => None,
        }
    }

    /// The schema it is in: where PostgreSQL's extension puts pg_buffercache, it is too.
    pub fn schema(self) -> &'static str {
        if self == View::BufferCache { "public" } else { "pg_catalog" }
    }

    /// Its columns, as PostgreSQL 18 has them; pg_stat_aio_backends is Forebay's own.
    pub fn columns(self) -> &'static [(&'static str, SqlType)] {
        match self {
            View::Aios => &[
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
            ],
            View::StatIo => &[
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
            ],
            View::StatAioBackends => &[
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
            ],
            View::BufferCache => &[
                ("bufferid", Int4),
                ("relfilenode", Oid),
                ("reltablespace", Oid),
                ("reldatabase", Oid),
                ("relforknumber", Int2),
                ("relblocknumber", Int8),
                ("isdirty", Bool),
                ("usagecount", Int2),
                ("pinning_backends", Int4),
            ],
            View::Settings => &[
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
            ],
        }
    }
}
