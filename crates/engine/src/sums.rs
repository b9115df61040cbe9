//! Statistics of the server as a whole that are sums: checkpoints, the replacement of buffers, the
//! log. What counts only ever adds; who sets a sum to zero has it shown from where it stands.

use forebay_aio::sync::{Mutex, SystemTime};
use forebay_archive::ArchiverStats;
use forebay_storage::PoolStats;
use forebay_wal::WalStats;

use crate::checkpoint::report::Sums;
use crate::engine::Engine;

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
struct Mark<T> {
    sums: T,
    at: SystemTime,
}

impl<T: Default> Default for Mark<T> {
    fn default() -> Mark<T> {
        Mark { sums: T::default(), at: SystemTime::now() }
    }
}

/// When sums were last set to zero, and where they stood.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    bgwriter: Mutex<Mark<PoolStats>>,
    checkpointer: Mutex<Mark<Sums>>,
    wal: Mutex<Mark<WalStats>>,
}

impl Engine {
    /// The row of pg_stat_archiver.
    pub fn archiver_stats(&self) -> ArchiverStats {
        self.core().archiving.stats()
    }

    /// The row of pg_stat_bgwriter.
    pub fn bgwriter_stats(&self) -> BgwriterRow {
        let core = self.core();
        let mark = core.marks.bgwriter.lock();
        let now = core.pool.stats();
        BgwriterRow {
            buffers_clean: now.cleaned - mark.sums.cleaned,
            maxwritten_clean: now.clean_limited - mark.sums.clean_limited,
            buffers_alloc: now.allocated - mark.sums.allocated,
            stats_reset: mark.at,
        }
    }

    /// The row of pg_stat_checkpointer.
    pub fn checkpointer_stats(&self) -> CheckpointerRow {
        let core = self.core();
        let mark = core.marks.checkpointer.lock();
        let now = core.checkpointer.totals.get();
        CheckpointerRow {
            num_timed: now.timed - mark.sums.timed,
            num_requested: now.requested - mark.sums.requested,
            num_done: now.done - mark.sums.done,
            write_time: (now.write_micros - mark.sums.write_micros) as f64 / 1000.0,
            sync_time: (now.sync_micros - mark.sums.sync_micros) as f64 / 1000.0,
            buffers_written: now.buffers - mark.sums.buffers,
            slru_written: now.slru - mark.sums.slru,
            stats_reset: mark.at,
        }
    }

    /// The row of pg_stat_wal.
    pub fn wal_stats(&self) -> WalRow {
        let core = self.core();
        let mark = core.marks.wal.lock();
        let now = core.wal.stats();
        WalRow {
            wal_records: now.records - mark.sums.records,
            wal_fpi: now.full_page_images - mark.sums.full_page_images,
            wal_bytes: now.bytes - mark.sums.bytes,
            wal_buffers_full: now.buffers_full - mark.sums.buffers_full,
            stats_reset: mark.at,
        }
    }

    /// When pg_stat_io's counters were last set to zero.
    pub fn io_stats_reset_at(&self) -> SystemTime {
        self.core().aio.stats().reset_at()
    }

    /// Sets statistics to zero.
    pub fn reset_stats(&self, what: SharedStats) {
        let core = self.core();
        match what {
            SharedStats::Archiver => core.archiving.reset_stats(),
            SharedStats::Bgwriter => {
                let mut mark = core.marks.bgwriter.lock();
                *mark = Mark { sums: core.pool.stats(), at: SystemTime::now() };
            }
            SharedStats::Checkpointer => {
                let mut mark = core.marks.checkpointer.lock();
                *mark = Mark { sums: core.checkpointer.totals.get(), at: SystemTime::now() };
            }
            SharedStats::Io => {
                core.aio.stats().reset();
                core.aio.reset_backend_stats();
            }
            SharedStats::Wal => {
                let mut mark = core.marks.wal.lock();
                *mark = Mark { sums: core.wal.stats(), at: SystemTime::now() };
            }
        }
    }
}
