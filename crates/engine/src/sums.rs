//! Statistics that can be reset: checkpoints, buffers, the log. The counters only grow. A reset
//! stores a mark, and views show the difference to the mark.

use forebay_aio::sync::{Mutex, SystemTime};
use forebay_storage::PoolStats;
use forebay_wal::WalStats;

use crate::checkpointer::Sums;

/// Statistics that can be reset: the targets of pg_stat_reset_shared.
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
    /// When they were last reset.
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
    /// When they were last reset.
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
    /// When they were last reset.
    pub stats_reset: SystemTime,
}

/// Sums at their last reset.
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

/// The last resets.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) bgwriter: Mutex<Mark<PoolStats>>,
    pub(crate) checkpointer: Mutex<Mark<Sums>>,
    pub(crate) wal: Mutex<Mark<WalStats>>,
}
