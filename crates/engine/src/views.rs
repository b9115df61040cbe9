//! Rows of the statistics views.

use forebay_aio::IoObject;
use forebay_format::BLOCK_SIZE;

use crate::core::Core;

pub use forebay_archive::ArchiverStats;

pub use crate::sums::{BgwriterRow, CheckpointerRow, SharedStats, WalRow};
pub use forebay_aio::{
    BackendStatsRow as AioBackendRow, Counts, HandleInfo as AioRow, IoOp, IoStatsRow as IoStatRow,
};
pub use forebay_storage::{
    BufferInfo, BufferPage, ChecksumFailures, Dirtied, DirtyReport, EvictReport, Evicted,
    KernelCached, MemoryChecksums, PoolSummary, UsageCount,
};

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
