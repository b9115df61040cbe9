//! What startup works on, and the steps that all recoveries share.

use std::path::Path;
use std::sync::Arc;

use forebay_access::redo::Registry;
use forebay_aio::sync::Instant;
use forebay_aio::{Aio, IoBackend, IoDirect};
use forebay_format::Lsn;
use forebay_format::control::{ControlFile, DbState};
use forebay_format::timeline::TimelineHistory;
use forebay_format::wal::Rmgr;
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_storage::{Backend, BufferPool};
use forebay_txn::redo::{ClusterState, Counters, RedoContext, RedoRecord};
use forebay_txn::{Clog, MultiCounters, MultiXacts};
use forebay_wal::{ReaderConfig, Resume, WalReader, WalRecord};

use super::branch::Ended;
use super::floor::Floor;
use super::origins;
use super::scan;
use crate::config::{EngineConfig, RecoveryProgress};
use crate::control::Control;
use crate::error::EngineError;
use crate::orphans::MadeSince;
use crate::sync_tree::{Purpose, sync_tree};

/// Number of records between two reports.
const REPORT_EVERY: u64 = 20_000;

/// The result of recovery, with which the log goes on.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) resume: Resume,
    pub(crate) counters: Counters,
    /// Whether anything had to be recovered.
    pub(crate) recovered: bool,
    /// End of the last checkpoint's record.
    pub(crate) checkpoint_end: Lsn,
    /// The timeline of the log.
    pub(crate) timeline: u32,
    /// The timeline before that, or the same.
    pub(crate) came_from: u32,
    /// What the buffer pool calls before it writes pages.
    pub(crate) floor: Option<Arc<Floor>>,
    /// What recovery knows of things that were made meanwhile.
    pub(crate) made: MadeSince,
    /// What remains to be done if a new timeline was begun.
    pub(crate) ended: Option<Ended>,
}

impl Started {
    /// The log goes on where recovery, if there was one, found its end, on the same timeline.
    pub(super) fn new(
        resume: Resume,
        counters: Counters,
        recovered: bool,
        checkpoint: &Checkpoint,
        timeline: u32,
    ) -> Started {
        let (checkpoint_end, came_from) = (checkpoint.end, timeline);
        Started {
            resume,
            counters,
            recovered,
            checkpoint_end,
            timeline,
            came_from,
            floor: None,
            made: MadeSince::default(),
            ended: None,
        }
    }
}

/// A checkpoint's record.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) start: Lsn,
    pub(super) end: Lsn,
    /// What it says.
    pub(super) point: CheckPoint,
}

/// What startup works on.
pub(crate) struct Startup<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) config: &'a EngineConfig,
    /// The files that bypass the kernel's page cache.
    pub(crate) direct: IoDirect,
    pub(crate) aio: &'a Arc<Aio>,
    pub(crate) pool: &'a Arc<BufferPool>,
    pub(crate) clog: &'a Clog,
    pub(crate) multis: &'a MultiXacts,
    pub(crate) control: &'a Arc<Control>,
}

impl Startup<'_> {
    pub(super) fn reader(
        &self,
        control: &ControlFile,
        history: &TimelineHistory,
        start: Lsn,
    ) -> WalReader {
        let config = ReaderConfig {
            dir: self.dir.join("pg_wal"),
            segment_size: control.segment_size,
            timeline: history.timeline(),
            system_id: Some(control.system_id),
            direct: self.direct.wal || self.reads_direct(control),
        };
        WalReader::new(Arc::clone(self.aio), config, start).with_history(history.clone())
    }

    /// Whether the log is read past the kernel's cache although io_direct does not ask for it.
    /// After a failed sync the cache may hold, as clean, pages that never reached the disk.
    pub(super) fn reads_direct(&self, control: &ControlFile) -> bool {
        control.state != DbState::ShutDown
            && self.aio.namespace().probe_direct(&self.dir.join("pg_wal")).is_ok()
    }

    /// The checkpoint whose record is at `at`, where the reader begins.
    pub(super) fn last_checkpoint(
        &self,
        backend: &mut Backend,
        mut reader: WalReader,
        at: Lsn,
    ) -> Result<Checkpoint, EngineError> {
        let missing = |why: String| {
            let message = format!("could not locate a valid checkpoint record at {at}");
            EngineError::statement("XX001", message).with_detail(why)
        };
        let Some(record) = reader.next(&mut backend.io)? else {
            return Err(missing(
                reader.end().map_or_else(String::new, |end| end.reason.to_string()),
            ));
        };
        let decoded = record.decode().map_err(|error| missing(error.to_string()))?;
        let kind = decoded.kind();
        let is_checkpoint = decoded.header.rmgr == Rmgr::XLOG
            && (kind == xlog::CHECKPOINT_SHUTDOWN || kind == xlog::CHECKPOINT_ONLINE);
        if record.start != at || !is_checkpoint {
            return Err(missing("The record there is of another kind.".to_owned()));
        }
        let point = CheckPoint::decode(decoded.main).map_err(|error| missing(error.to_string()))?;
        if point.redo > record.start
            || (kind == xlog::CHECKPOINT_SHUTDOWN && point.redo != record.start)
        {
            return Err(missing(format!("Its redo pointer {} is impossible.", point.redo)));
        }
        Ok(Checkpoint { start: record.start, end: record.end, point })
    }

    pub(super) fn sync_everything(&self, backend: &mut Backend) -> Result<(), EngineError> {
        forebay_aio::planted_bug!(self.aio, RecoveryFilesNotSyncedFirst, return Ok(()));
        let started = Instant::now();
        let files = sync_tree(&mut backend.io, self.dir, Purpose::Recovery)?;
        let elapsed = started.elapsed().as_secs_f64();
        tracing::info!("synced {files} files of the data directory in {elapsed:.2} s");
        Ok(())
    }

    /// The resource managers: the engine's own, and the embedding program's.
    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        for manager in &self.config.resource_managers.0 {
            registry.add(Arc::clone(manager));
        }
        registry
    }

    /// What redo works on, from a checkpoint on. Pages of pg_xact and pg_multixact that do not
    /// exist count as empty until [`Startup::end_redo`].
    pub(super) fn redo_context<'b>(
        &'b self,
        backend: &'b mut Backend,
        point: &CheckPoint,
    ) -> Result<RedoContext<'b>, EngineError> {
        self.keep_commit_times(backend, point)?;
        self.clog.set_recovering(true);
        self.multis.set_recovering(true);
        self.multis.redo_oldest(point.oldest_multi, point.oldest_multi_db);
        let origins = origins::read(&mut backend.io, self.dir)?;
        let mut ctx = RedoContext::new(backend, self.pool, self.clog, self.multis, point);
        ctx.cluster.origins = origins;
        Ok(ctx)
    }

    /// Goes on to keep the times of commits, if pg_control says that they are kept.
    pub(super) fn keep_commit_times(
        &self,
        backend: &mut Backend,
        point: &CheckPoint,
    ) -> Result<(), EngineError> {
        let times = self.clog.times();
        times.set_range(point.oldest_commit_ts_xid, point.newest_commit_ts_xid);
        if self.control.get().track_commit_timestamp {
            times.keep(&mut backend.io, point.next_xid)?;
        }
        Ok(())
    }

    /// Sets the counters of MultiXacts, and clears what lies beyond them.
    pub(super) fn trim_multis(
        &self,
        backend: &mut Backend,
        counters: &Counters,
    ) -> Result<(), EngineError> {
        let Counters { next_multi: next, next_multi_offset: next_offset, .. } = *counters;
        let found = MultiCounters { next, next_offset, ..self.multis.counters() };
        Ok(self.multis.finish_recovery(&mut backend.io, found)?)
    }

    /// Removes what is left of the times of commits where pg_control says that none are kept.
    /// PostgreSQL may have stopped to keep them after its last checkpoint.
    pub(super) fn discard_commit_times(&self) -> Result<(), EngineError> {
        let times = self.clog.times();
        if times.are_kept() { Ok(()) } else { Ok(times.discard()?) }
    }

    pub(super) fn report(&self, progress: &RecoveryProgress) {
        if let Some(callback) = &self.config.on_recovery {
            (callback.0)(progress);
        }
    }

    /// Logs and reports every so often how far redo is.
    pub(super) fn tell_progress(&self, started: Instant, progress: &RecoveryProgress) {
        if progress.records.is_multiple_of(REPORT_EVERY) {
            tracing::info!(
                "redo in progress, elapsed time: {:.2} s, current LSN: {}",
                started.elapsed().as_secs_f64(),
                progress.at
            );
            self.report(progress);
        }
    }

    /// Writes what redo found out that small files have.
    pub(super) fn write_state(
        &self,
        io: &mut IoBackend,
        cluster: &ClusterState,
    ) -> Result<(), EngineError> {
        origins::write(io, self.dir, &cluster.origins)?;
        match &cluster.parameters {
            Some(parameters) => self.control.set_parameters(io, parameters),
            None => Ok(()),
        }
    }

    /// What follows redo: empties unlogged tables, and clears pg_xact and pg_multixact of ids that
    /// the log does not know.
    pub(super) fn end_redo(
        &self,
        backend: &mut Backend,
        counters: &Counters,
        cluster: &ClusterState,
    ) -> Result<(), EngineError> {
        self.write_state(&mut backend.io, cluster)?;
        self.empty_unlogged(backend)?;
        self.clog.set_recovering(false);
        self.discard_commit_times()?;
        self.clog.trim(&mut backend.io, counters.next_xid)?;
        self.trim_multis(backend, counters)?;
        self.multis.set_recovering(false);
        Ok(())
    }
}

/// Logs that all is redone, up to the record at `last`.
pub(super) fn tell_done(
    started: Instant,
    last: Lsn,
    why: &dyn std::fmt::Display,
    progress: &RecoveryProgress,
) {
    tracing::info!(
        "redo done at {last}: {why} ({} records, {:.2} s; {} pages read ahead)",
        progress.records,
        started.elapsed().as_secs_f64(),
        progress.prefetch.prefetch
    );
}

pub(super) fn redo_one(
    registry: &Registry,
    record: &WalRecord,
    ctx: &mut RedoContext<'_>,
) -> Result<(), EngineError> {
    let decoded = scan::decode(record)?;
    let redo = RedoRecord { start: record.start, end: record.end, record: &decoded };
    Ok(registry.redo(&redo, ctx)?)
}
