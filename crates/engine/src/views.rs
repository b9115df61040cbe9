//! Rows of the statistics views, free of the lower layers' types.

/// A row of pg_stat_io. None where PostgreSQL shows NULL (the combination cannot happen).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IoStatRow {
    /// "client backend", "checkpointer", ...
    pub backend_type: &'static str,
    /// "relation", "temp relation", "wal"
    pub object: &'static str,
    /// "bulkread", "bulkwrite", "init", "normal", "vacuum"
    pub context: &'static str,
    /// Read operations.
    pub reads: Option<u64>,
    /// Their bytes.
    pub read_bytes: Option<u64>,
    /// Their time in milliseconds.
    pub read_time: Option<f64>,
    /// Write operations.
    pub writes: Option<u64>,
    /// Their bytes.
    pub write_bytes: Option<u64>,
    /// Their time in milliseconds.
    pub write_time: Option<f64>,
    /// Hints to the kernel to write back.
    pub writebacks: Option<u64>,
    /// Their time in milliseconds.
    pub writeback_time: Option<f64>,
    /// Relation extensions.
    pub extends: Option<u64>,
    /// Their bytes.
    pub extend_bytes: Option<u64>,
    /// Their time in milliseconds.
    pub extend_time: Option<f64>,
    /// Blocks found in the buffer pool.
    pub hits: Option<u64>,
    /// Blocks evicted to make room.
    pub evictions: Option<u64>,
    /// Ring buffers reused.
    pub reuses: Option<u64>,
    /// Syncs.
    pub fsyncs: Option<u64>,
    /// Their time in milliseconds.
    pub fsync_time: Option<f64>,
}

/// A row of pg_aios.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AioRow {
    /// The owning backend's number.
    pub pid: i32,
    /// The handle's number.
    pub io_id: i32,
    /// How often the handle was used.
    pub io_generation: i64,
    /// HANDED_OUT ... COMPLETED_LOCAL
    pub state: &'static str,
    /// readv, writev, ... or invalid
    pub operation: &'static str,
    /// Offset in the file.
    pub off: Option<i64>,
    /// Bytes.
    pub length: Option<i64>,
    /// What is read or written: "smgr", "wal", ...
    pub target: Option<String>,
    /// How many values the I/O carries for its completion.
    pub handle_data_len: i16,
    /// Bytes transferred, or a negative error number.
    pub raw_result: Option<i32>,
    /// UNKNOWN, OK, PARTIAL, WARNING, ERROR
    pub result: &'static str,
    /// "blocks 7..22 in file "base/5/16384""
    pub target_desc: Option<String>,
    /// Executed synchronously.
    pub f_sync: bool,
    /// On memory of one backend only.
    pub f_localmem: bool,
    /// Through the page cache.
    pub f_buffered: bool,
}
