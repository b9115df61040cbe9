//! Totals for pg_stat_checkpointer, and PostgreSQL's log lines.

use forebay_aio::sync::{Duration, Mutex};
use forebay_format::Lsn;
use forebay_storage::{SyncReport, WriteReport};
use forebay_wal::OldSegments;

use super::requests::Causes;

/// Sums since the engine was opened. A checkpoint is added as a whole.
#[derive(Debug, Default)]
pub(crate) struct Totals(Mutex<Sums>);

/// Number of checkpoints, and what they did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) timed: u64,
    pub(crate) requested: u64,
    pub(crate) done: u64,
    pub(crate) write_micros: u64,
    pub(crate) sync_micros: u64,
    pub(crate) buffers: u64,
    pub(crate) slru: u64,
}

/// One checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) written: WriteReport,
    pub(crate) slru_pages: u64,
    pub(crate) synced: SyncReport,
    /// WAL segments made since the last checkpoint.
    pub(crate) added: u64,
    pub(crate) segments: OldSegments,
    pub(crate) write: Duration,
    pub(crate) sync: Duration,
    pub(crate) total: Duration,
    pub(crate) distance: u64,
    pub(crate) estimate: f64,
    pub(crate) lsn: Lsn,
    pub(crate) redo: Lsn,
}

impl Totals {
    /// The sums.
    pub(crate) fn get(&self) -> Sums {
        *self.0.lock()
    }

    /// Counts a checkpoint that begins.
    pub(crate) fn begin(&self, causes: Causes) {
        let mut sums = self.0.lock();
        if causes.time && !causes.demand && !causes.wal {
            sums.timed += 1;
        } else if !causes.shutdown && !causes.recovery {
            sums.requested += 1;
        }
    }

    /// Counts a checkpoint that is complete.
    pub(crate) fn end(&self, report: &Report) {
        let mut sums = self.0.lock();
        sums.done += 1;
        sums.write_micros += micros(report.write);
        sums.sync_micros += micros(report.sync);
        sums.buffers += report.written.buffers;
        sums.slru += report.slru_pages;
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Report {
    /// The line PostgreSQL logs.
    pub(crate) fn log(&self, pool_buffers: usize) {
        let share = self.written.buffers as f64 * 100.0 / pool_buffers.max(1) as f64;
        tracing::info!(
            "checkpoint complete: wrote {} buffers ({share:.1}%), wrote {} SLRU buffers; {} WAL \
             file(s) added, {} removed, {} recycled; write={:.3} s, sync={:.3} s, total={:.3} s; \
             sync files={}, longest={:.3} s, average={:.3} s; distance={} kB, estimate={} kB; \
             lsn={}, redo lsn={}",
            self.written.buffers,
            self.slru_pages,
            self.added,
            self.segments.removed,
            self.segments.recycled,
            self.write.as_secs_f64(),
            self.sync.as_secs_f64(),
            self.total.as_secs_f64(),
            self.synced.files,
            self.synced.longest.as_secs_f64(),
            self.synced.total.as_secs_f64() / self.synced.files.max(1) as f64,
            self.distance / 1024,
            (self.estimate / 1024.0) as u64,
            self.lsn,
            self.redo,
        );
    }
}
