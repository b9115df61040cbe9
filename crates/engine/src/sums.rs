//! Statistics of the server as a whole that are sums: checkpoints, the replacement of buffers, the
//! log. What counts only ever adds; who sets a sum to zero has it shown from where it stands.

use forebay_aio::sync::{Mutex, SystemTime};
use forebay_storage::PoolStats;
use forebay_wal::WalStats;

use crate::checkpoint::report::Sums;

/// A kind of statistics that can be set to zero: pg_stat_reset_shared's targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedStats {
    /// pg_stat_archiver.
    Archiver,
    /// pg_stat_bgwriter.
    Bgwriter,
    /// pg_stat_checkpointer.
    Checkpointer,
    /// pg_stat_io, and pg_stat_aio_backends with it.
    Io,
    /// pg_stat_wal.
    Wal,
}

/// The row of pg_stat_bgwriter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BgwriterRow {
    /// Buffers that the background writer wrote.
    pub buffers_clean: u64,
    /// Its rounds that ended at their limit.
    pub maxwritten_clean: u64,
    /// Buffers that were asked for to hold another page.
    pub buffers_alloc: u64,
    /// Since when they count.
    pub stats_reset: SystemTime,
}

/// The row of pg_stat_checkpointer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckpointerRow {
    /// Checkpoints made because time was up.
    pub num_timed: u64,
    /// Checkpoints made because someone, or the log's size, asked.
    pub num_requested: u64,
    /// Checkpoints completed.
    pub num_done: u64,
    /// Milliseconds of writing.
    pub write_time: f64,
    /// Milliseconds of syncing.
    pub sync_time: f64,
    /// Buffers written.
    pub buffers_written: u64,
    /// Pages of pg_xact written.
    pub slru_written: u64,
    /// Since when they count.
    pub stats_reset: SystemTime,
}

/// The row of pg_stat_wal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalRow {
    /// Records inserted.
    pub wal_records: u64,
    /// Full-page images in them.
    pub wal_fpi: u64,
    /// Their bytes.
    pub wal_bytes: u64,
    /// Times that buffers were written because there was no free one.
    pub wal_buffers_full: u64,
    /// Since when they count.
    pub stats_reset: SystemTime,
}

/// Sums as they stood when they were last set to zero.
#[derive(Debug)]
pub(crate) struct Mark<T> {
    pub(crate) sums: T,
    pub(crate) at: SystemTime,
}

impl<T: Default> Default for Mark<T> {
    fn default() -> Mark<T> {
        Mark { sums: T::default(), at: SystemTime::now() }
    }
}

/// When sums were last set to zero, and where they stood.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) bgwriter: Mutex<Mark<PoolStats>>,
    pub(crate) checkpointer: Mutex<Mark<Sums>>,
    pub(crate) wal: Mutex<Mark<WalStats>>,
}
