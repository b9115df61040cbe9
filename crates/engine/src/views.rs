//! Rows of the statistics views.

use forebay_aio::stats::{Counts, tracks};
use forebay_aio::{BackendType, HandleInfo, IoContext, IoObject, IoOp, IoStatsRow};
use forebay_format::BLOCK_SIZE;

use crate::core::Core;

pub use forebay_archive::ArchiverStats;

pub use crate::sums::{BgwriterRow, CheckpointerRow, SharedStats, WalRow};
pub use forebay_aio::BackendStatsRow as AioBackendRow;
pub use forebay_storage::{
    BufferInfo, BufferPage, ChecksumFailures, Dirtied, DirtyReport, EvictReport, Evicted,
    KernelCached, MemoryChecksums, PoolSummary, UsageCount,
};

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

/// The row of pg_stat_database, as far as it is counted, since the engine was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DatabaseRow {
    /// Current sessions.
    pub backends: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions rolled back.
    pub rollbacks: u64,
    /// Blocks of relations read into the pool.
    pub blocks_read: u64,
    /// Blocks of relations found in the pool.
    pub blocks_hit: u64,
    /// Milliseconds of reads, if timed.
    pub read_time: f64,
    /// Milliseconds of writes, if timed.
    pub write_time: f64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Temporary files removed.
    pub temp_files: u64,
    /// Their bytes.
    pub temp_bytes: u64,
}

pub(crate) fn database_row(core: &Core) -> DatabaseRow {
    let rows = core.aio.stats().totals();
    let sum = |op: IoOp, of: &dyn Fn(Counts) -> u64| {
        rows.iter().filter(|r| r.object != IoObject::Wal).map(|r| of(r.get(op))).sum::<u64>()
    };
    let (counters, temp) = (&core.counters, core.temp_files.stats());
    DatabaseRow {
        backends: core.sessions.len() as u64,
        commits: counters.commits.get(),
        rollbacks: counters.rollbacks.get(),
        blocks_read: sum(IoOp::Read, &|c| c.bytes) / BLOCK_SIZE as u64,
        blocks_hit: sum(IoOp::Hit, &|c| c.count),
        read_time: sum(IoOp::Read, &|c| c.time_ns) as f64 / 1e6,
        write_time: sum(IoOp::Write, &|c| c.time_ns) as f64 / 1e6,
        deadlocks: counters.deadlocks.get(),
        sessions: counters.sessions.get(),
        temp_files: temp.files,
        temp_bytes: temp.bytes,
    }
}

/// Which operations PostgreSQL counts for a row that it shows.
fn counts(who: BackendType, object: IoObject, context: IoContext, op: IoOp) -> bool {
    let ring = matches!(context, IoContext::BulkRead | IoContext::BulkWrite | IoContext::Vacuum);
    let temp = object == IoObject::TempRelation;
    let writer = matches!(who, BackendType::Checkpointer | BackendType::BackgroundWriter);
    if object == IoObject::Wal {
        return match op {
            IoOp::Write | IoOp::Fsync => true,
            IoOp::Read => context == IoContext::Normal && reads_wal(who),
            _ => false,
        };
    }
    match op {
        IoOp::Read | IoOp::Hit | IoOp::Evict => !writer,
        IoOp::Extend => {
            !writer && who != BackendType::AutovacuumLauncher && context != IoContext::BulkRead
        }
        IoOp::Reuse => ring,
        IoOp::Fsync => !ring && !temp,
        IoOp::Writeback => !temp,
        IoOp::Write => true,
    }
}

/// Backend types that may read WAL.
fn reads_wal(who: BackendType) -> bool {
    use BackendType as B;
    !matches!(
        who,
        B::AutovacuumLauncher
            | B::AutovacuumWorker
            | B::BackgroundWriter
            | B::WalReceiver
            | B::WalWriter
    )
}

/// Rows of pg_stat_io, in PostgreSQL's order.
pub(crate) fn io_rows(rows: &[IoStatsRow]) -> Vec<IoStatRow> {
    let shown = rows.iter().filter(|r| tracks(r.backend_type, r.object, r.context));
    shown.map(io_row).collect()
}

fn io_row(row: &IoStatsRow) -> IoStatRow {
    let get = |op: IoOp| -> Option<Counts> {
        counts(row.backend_type, row.object, row.context, op).then(|| row.get(op))
    };
    let count = |op| get(op).map(|c| c.count);
    let bytes = |op| get(op).map(|c| c.bytes);
    let time = |op| get(op).map(|c| c.time_ns as f64 / 1e6);
    IoStatRow {
        backend_type: row.backend_type.name(),
        object: row.object.name(),
        context: row.context.name(),
        reads: count(IoOp::Read),
        read_bytes: bytes(IoOp::Read),
        read_time: time(IoOp::Read),
        writes: count(IoOp::Write),
        write_bytes: bytes(IoOp::Write),
        write_time: time(IoOp::Write),
        writebacks: count(IoOp::Writeback),
        writeback_time: time(IoOp::Writeback),
        extends: count(IoOp::Extend),
        extend_bytes: bytes(IoOp::Extend),
        extend_time: time(IoOp::Extend),
        hits: count(IoOp::Hit),
        evictions: count(IoOp::Evict),
        reuses: count(IoOp::Reuse),
        fsyncs: count(IoOp::Fsync),
        fsync_time: time(IoOp::Fsync),
    }
}

/// A row of pg_aios.
pub(crate) fn aio_row(info: HandleInfo) -> AioRow {
    AioRow {
        pid: info.backend_id,
        io_id: i32::try_from(info.io_id).unwrap_or(i32::MAX),
        io_generation: i64::try_from(info.generation).unwrap_or(i64::MAX),
        state: info.state.name(),
        operation: info.operation.name(),
        off: info.offset.and_then(|v| i64::try_from(v).ok()),
        length: info.length.and_then(|v| i64::try_from(v).ok()),
        target: info.target.map(str::to_owned),
        handle_data_len: i16::try_from(info.handle_data_len).unwrap_or(i16::MAX),
        raw_result: info.raw_result.and_then(|v| i32::try_from(v).ok()),
        result: info.result,
        target_desc: info.target_desc,
        f_sync: info.f_sync,
        f_localmem: info.f_localmem,
        f_buffered: info.f_buffered,
    }
}
