//! An engine's statistics.

use std::collections::HashMap;

use forebay_aio::sync::{Duration, SystemTime, UNIX_EPOCH};
use forebay_archive::ArchiverStats;
use forebay_format::control::{CATALOG_VERSION, CONTROL_VERSION};
use forebay_txn::CountedRelation;

use crate::backup::ControlSystem;
use crate::engine::Engine;
use crate::relation_stats::RelationStats;
use crate::sums::{BgwriterRow, CheckpointerRow, Mark, SharedStats, WalRow};

impl Engine {
    /// The row of pg_control_system.
    pub fn control_system(&self) -> ControlSystem {
        let control = self.core().control.get();
        ControlSystem {
            version: CONTROL_VERSION,
            catalog_version: CATALOG_VERSION,
            system_id: control.system_id,
            modified: UNIX_EPOCH + Duration::from_secs(control.time.unsigned_abs()),
        }
    }

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

    /// What is counted of tables and indexes: pg_stat_all_tables and pg_stat_all_indexes. Relations
    /// of which nothing was counted are not there.
    pub fn relation_stats(&self) -> HashMap<CountedRelation, RelationStats> {
        self.core().statistics.get()
    }

    /// When pg_stat_io was last reset.
    pub fn io_stats_reset_at(&self) -> SystemTime {
        self.core().aio.stats().reset_at()
    }

    /// Resets statistics.
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
