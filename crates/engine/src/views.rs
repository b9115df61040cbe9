//! Rows of the statistics views.

use forebay_aio::IoObject;
use forebay_format::BLOCK_SIZE;

use crate::config::PoolSize;
use crate::core::Core;
use crate::counters::Counters;
use forebay_aio::sync::SystemTime;
use forebay_format::Oid;
use forebay_txn::locks::LockMode;
use forebay_types::Datum;

pub use forebay_access::analyze_progress as analyze;
pub use forebay_access::cluster_progress as cluster;
pub use forebay_access::progress as create_index;
pub use forebay_access::vacuum_progress as vacuum;
pub use forebay_archive::ArchiverStats;
pub use forebay_storage::progress::{Command, Counter, RunningCommand};
pub use forebay_txn::locks::LockTag;

pub use crate::relation_stats::{MaintenanceRuns, RelationStats};
pub use crate::sums::{BgwriterRow, CheckpointerRow, SharedStats, WalRow};
pub use forebay_aio::{
    BackendStatsRow as AioBackendRow, Counts, HandleInfo as AioRow, IoOp, IoStatsRow as IoStatRow,
};
pub use forebay_storage::{
    BufferInfo, BufferPage, ChecksumFailures, Dirtied, DirtyReport, EvictReport, Evicted,
    KernelCached, MemoryChecksums, PoolSummary, UsageCount,
};
pub use forebay_txn::CountedRelation;

/// The row of pg_stat_buffer_pool: the size of the buffer pool, and what it is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSizeRow {
    /// Blocks that it has.
    pub buffers: u64,
    /// Blocks that it has at least.
    pub least: u64,
    /// Blocks that it may have.
    pub most: u64,
    /// Blocks that it should have.
    pub target: u64,
    /// Whether it follows the machine's memory.
    pub automatic: bool,
    /// How often its size has changed.
    pub resizes: u64,
    /// How often memory was short, so that a smaller size was wanted.
    pub shortages: u64,
    /// Pages that were needed and in memory.
    pub hits: u64,
    /// Pages that were needed and not in memory, new ones included.
    pub misses: u64,
    /// Misses of pages that had been in memory not long ago.
    pub returned: u64,
    /// Those of them that a pool larger by a tenth would probably have kept.
    pub nearly_kept: u64,
}

/// What pg_stat_buffer_pool shows.
pub(crate) fn pool_size_row(core: &Core) -> PoolSizeRow {
    let (pool, stats, done) = (&core.pool, core.pool.stats(), core.sizing.done());
    let relations = core.aio.stats().snapshot();
    let relations = relations.iter().filter(|row| row.object == IoObject::Relation);
    let count = |buffers: usize| buffers as u64;
    PoolSizeRow {
        buffers: count(pool.buffers()),
        least: count(pool.min_buffers()),
        most: count(pool.max_buffers()),
        target: count(done.target.unwrap_or(pool.buffers())),
        automatic: core.sizing.wanted() == PoolSize::Automatic,
        resizes: done.resizes,
        shortages: done.shortages,
        hits: relations.map(|row| row.get(IoOp::Hit).count).sum(),
        misses: stats.allocated,
        returned: stats.returned,
        nearly_kept: stats.nearly_kept,
    }
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
    /// Parallel workers that statements wanted.
    pub workers_wanted: u64,
    /// Parallel workers that they got.
    pub workers_started: u64,
    /// Temporary files removed.
    pub temp_files: u64,
    /// Their bytes.
    pub temp_bytes: u64,
}

/// What was counted in a database, or in all. I/O is counted for the whole engine.
pub(crate) fn database_row(core: &Core, database: Option<Oid>) -> DatabaseRow {
    let counters = core.counters.read();
    let counted = |of: fn(&Counters) -> &crate::counters::Counter| {
        let here = counters.iter().filter(|(oid, _)| database.is_none_or(|only| only == **oid));
        here.map(|(_, counters)| of(counters).get()).sum::<u64>()
    };
    let rows = core.aio.stats().totals();
    let sum = |op: IoOp, of: &dyn Fn(Counts) -> u64| {
        rows.iter().filter(|r| r.object != IoObject::Wal).map(|r| of(r.get(op))).sum::<u64>()
    };
    let temp = core.temp_files.stats();
    DatabaseRow {
        backends: match database {
            Some(oid) => core.sessions.in_database(oid).len() as u64,
            None => core.sessions.len() as u64,
        },
        commits: counted(|c| &c.commits),
        rollbacks: counted(|c| &c.rollbacks),
        blocks_read: sum(IoOp::Read, &|c| c.bytes) / BLOCK_SIZE as u64,
        blocks_hit: sum(IoOp::Hit, &|c| c.count),
        read_time: sum(IoOp::Read, &|c| c.time_ns) as f64 / 1e6,
        write_time: sum(IoOp::Write, &|c| c.time_ns) as f64 / 1e6,
        deadlocks: counted(|c| &c.deadlocks),
        sessions: counted(|c| &c.sessions),
        workers_wanted: counted(|c| &c.workers_wanted),
        workers_started: counted(|c| &c.workers_started),
        temp_files: temp.files,
        temp_bytes: temp.bytes,
    }
}

/// A row of a view pg_stat_progress_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgressRow {
    /// The session.
    pub session: i32,
    /// The OID of its database.
    pub database: Oid,
    /// What it runs.
    pub running: RunningCommand,
}

/// The sessions that run a kind of command.
pub(crate) fn progress_rows(core: &Core, command: Command) -> Vec<ProgressRow> {
    let running = core.sessions.commands().into_iter();
    let row = |(session, database, running): (u32, Oid, RunningCommand)| ProgressRow {
        session: session.cast_signed(),
        database,
        running,
    };
    running.filter(|(.., running)| running.command == command).map(row).collect()
}

/// A row of pg_stats. Arrays are carried as they are stored, or NULL.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatsRow {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// Whether the rows of children were looked at too.
    pub inherited: bool,
    /// The part of the rows in which it is NULL.
    pub null_fraction: f32,
    /// Bytes of a value, on average.
    pub width: i32,
    /// The number of different values; below 0, their part of the number of rows.
    pub distinct: f32,
    /// The most common values.
    pub common_values: Datum<'static>,
    /// The part of the rows that has each of them.
    pub common_freqs: Datum<'static>,
    /// Bounds between parts of equal size of the other values.
    pub histogram: Datum<'static>,
    /// Between the order of the values and that of the rows.
    pub correlation: Option<f32>,
    /// The most common elements of arrays.
    pub common_elements: Datum<'static>,
    /// The part of the arrays that has each of them, then the least, the most and that of NULL.
    pub element_freqs: Datum<'static>,
    /// A histogram of the numbers of different elements, then their average.
    pub element_counts: Datum<'static>,
    /// A histogram of the lengths of ranges.
    pub range_lengths: Datum<'static>,
    /// The part of the ranges that is empty.
    pub empty_ranges: Option<f32>,
    /// A histogram of the bounds of ranges.
    pub range_bounds: Datum<'static>,
}

/// A row of pg_locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// The locked object.
    pub tag: LockTag,
    /// The session that holds it, or waits for it.
    pub session: i32,
    /// That session's transaction: its slot and the transaction's number. None if it has ended.
    pub virtual_transaction: Option<(u32, u32)>,
    /// How it is locked.
    pub mode: LockMode,
    /// Whether the session holds it.
    pub granted: bool,
    /// Whether it is in the session's list of weak locks, not in the table.
    pub fast: bool,
    /// Since when the session waits for it.
    pub wait_start: Option<SystemTime>,
}

/// All locks, those of transactions on their own ids included.
pub(crate) fn lock_rows(core: &Core) -> Vec<LockRow> {
    let running = core.sessions.transactions();
    let row = |tag, session: u32, mode, granted| LockRow {
        tag,
        session: session.cast_signed(),
        virtual_transaction: running.get(&session).copied(),
        mode,
        granted,
        fast: false,
        wait_start: None,
    };
    let own = |tag, session| row(tag, session, LockMode::Exclusive, true);
    let virtual_ids = running.iter().map(|(session, (backend, local))| {
        let tag = LockTag::VirtualTransaction { backend: *backend, local: *local };
        // Those that somebody waits for are in the table, too.
        LockRow { fast: true, ..own(tag, *session) }
    });
    let ids = core.xacts.procs().all_with_backends().into_iter();
    let ids = ids.map(|(xid, session)| own(LockTag::Transaction(xid), session));
    let listed = core.locks.list().into_iter().filter(|lock| {
        // The table also has the locks that somebody waits for.
        !(lock.granted
            && lock.mode == LockMode::Exclusive
            && matches!(lock.tag, LockTag::Transaction(_) | LockTag::VirtualTransaction { .. }))
    });
    let listed = listed.map(|lock| LockRow {
        fast: lock.fast,
        wait_start: lock.wait_start,
        ..row(lock.tag, lock.owner.0, lock.mode, lock.granted)
    });
    listed.chain(virtual_ids).chain(ids).collect()
}
