//! Startup: from a data directory to a log that goes on.
//!
//! | pg_control says | what happens |
//! |---|---|
//! | shut down | the checkpoint's record is read; the log goes on behind it |
//! | in production, shutting down, in crash recovery, starting up | crash recovery, as below |
//! | in archive recovery | it goes on, as in `archive` |
//!
//! Where a file asks for it (`request`), or one such recovery was begun before, a directory is
//! recovered from an archive, or as a base backup, whatever pg_control says: `archive`. Its parts
//! are `label` (backup_label), `restore` (restore_command), `source` (one of the embedder's),
//! `replay`, `target` (recovery_target settings, with the `clock`), `floor` (how far recovery must
//! get) and `branch` (the new timeline). `halt` ends any recovery in its midst.
//!
//! Crash recovery:
//!
//! 1. every file that may have been written without a sync is synced, so that what redo finds on
//!    the pages stays there (`sync`);
//! 2. the log is read, past the kernel's cache where that can be done, from the checkpoint's redo
//!    pointer to its end: one that is damaged in the middle, or that redo can't do all of, is
//!    refused, and nothing has changed (`scan`, `timeline`);
//! 3. pg_control says "in crash recovery", and the log is replayed, its pages read ahead (`ahead`);
//! 4. unlogged tables are emptied (`unlogged`), and pg_xact is cleared of what never reached the
//!    log;
//! 5. the caller writes everything and makes an end-of-recovery checkpoint.
//!
//! Until then the next start begins at the same redo pointer, so a recovery that crashes is begun
//! again: a page that has been brought further than a record is left alone by it.

mod ahead;
mod archive;
mod branch;
mod clock;
mod floor;
mod halt;
mod label;
mod replay;
mod request;
mod restore;
mod scan;
mod source;
mod sync;
mod target;
mod timeline;
mod unlogged;

use forebay_aio::sync::Instant;
use std::path::Path;
use std::sync::Arc;

use forebay_aio::Aio;
use forebay_format::control::{ControlFile, DbState};
use forebay_format::timeline::TimelineHistory;
use forebay_format::wal::Rmgr;
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_format::{FullXid, Lsn};
use forebay_storage::{Backend, BufferPool};
use forebay_wal::{ReaderConfig, Resume, WalReader, WalRecord, read_history};

use crate::config::EngineConfig;
use crate::control::Control;
use crate::error::EngineError;
use crate::redo::{Counters, RedoContext, RedoRecord, Registry};
use crate::xact::Clog;

pub use ahead::PrefetchStats;
pub use clock::parse_timestamp;
pub use halt::RecoveryStop;
pub use source::{RestoreFrom, RestoreSource};
pub use target::{RecoveryTarget, RestoreSettings, TargetAction, TargetTimeline};

pub(crate) use branch::{Ended, finish};
pub(crate) use clock::{at_time, now};
pub(crate) use floor::Floor;

use ahead::ReadAhead;
use request::{Request, refuse_under_way};
use scan::Scan;

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Where redo began.
    pub redo: Lsn,
    /// End of the record replayed last.
    pub at: Lsn,
    /// Where the log ends; where it is read once only, from an archive, the same as `at`.
    pub end: Lsn,
    /// Records replayed.
    pub records: u64,
    /// Pages read ahead of redo, and not.
    pub prefetch: PrefetchStats,
    /// Whether that was all.
    pub done: bool,
}

/// Records between two reports.
const REPORT_EVERY: u64 = 20_000;

/// What the log goes on with.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) resume: Resume,
    pub(crate) counters: Counters,
    /// Whether anything had to be recovered.
    pub(crate) recovered: bool,
    /// End of the last checkpoint's record.
    pub(crate) checkpoint_end: Lsn,
    /// The timeline that the log goes on with.
    pub(crate) timeline: u32,
    /// The timeline before that, or the same.
    pub(crate) came_from: u32,
    /// What the buffer pool has asked before it wrote pages, and goes on asking.
    pub(crate) floor: Option<Arc<Floor>>,
    /// What remains to be done once a new timeline has begun.
    pub(crate) ended: Option<Ended>,
}

/// A checkpoint's record.
#[derive(Debug)]
struct Checkpoint {
    start: Lsn,
    end: Lsn,
    /// What it says.
    point: CheckPoint,
}

/// What startup works on.
pub(crate) struct Startup<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) config: &'a EngineConfig,
    pub(crate) aio: &'a Arc<Aio>,
    pub(crate) pool: &'a Arc<BufferPool>,
    pub(crate) clog: &'a Clog,
    pub(crate) control: &'a Arc<Control>,
}

impl Startup<'_> {
    /// Brings the directory to where its log goes on.
    pub(crate) fn run(&self, be: &mut Backend) -> Result<Started, EngineError> {
        self.bring(be).map_err(|error| self.config.recovery_stop.judge(error))
    }

    fn bring(&self, be: &mut Backend) -> Result<Started, EngineError> {
        // Two of them are a mistake, whatever is recovered.
        self.config.restore.target()?;
        refuse_under_way(&be.io, self.dir)?;
        let control = self.control.get();
        if let Some(request) =
            Request::find(&mut be.io, self.dir, control.state, control.segment_size)?
        {
            return self.recover_backup(be, &request);
        }
        let timeline = control.checkpoint_copy.timeline.max(control.min_recovery_timeline);
        let history = read_history(&mut be.io, &self.dir.join("pg_wal"), timeline)?;
        let reader = self.reader(&control, &history, control.checkpoint);
        let checkpoint = self.last_checkpoint(be, reader, control.checkpoint)?;
        match control.state {
            DbState::ShutDown => {
                tracing::info!("database system was shut down at {}", at_time(control.time));
                let resume = Resume {
                    insert_at: checkpoint.end,
                    prev: checkpoint.start,
                    redo: checkpoint.point.redo,
                    aborted: None,
                };
                let counters = Counters::at(&checkpoint.point);
                let timeline = checkpoint.point.timeline;
                Ok(Started {
                    resume,
                    counters,
                    recovered: false,
                    checkpoint_end: checkpoint.end,
                    timeline,
                    came_from: timeline,
                    floor: None,
                    ended: None,
                })
            }
            // Those of a recovery from an archive, which is always gone on with.
            DbState::ShutDownInRecovery | DbState::ArchiveRecovery => {
                Err(EngineError::internal("archive recovery that nobody goes on with"))
            }
            DbState::Startup
            | DbState::ShuttingDown
            | DbState::CrashRecovery
            | DbState::Production => {
                tracing::info!(
                    "database system was not properly shut down; automatic recovery in progress"
                );
                self.sync_everything(be)?;
                let registry = self.registry();
                let scan = self.scan(be, &control, &history, &checkpoint, &registry)?;
                self.control.set_state(&mut be.io, DbState::CrashRecovery)?;
                self.replay(be, &control, &history, &checkpoint, &scan, &registry)
            }
        }
    }

    fn reader(&self, control: &ControlFile, history: &TimelineHistory, start: Lsn) -> WalReader {
        let config = ReaderConfig {
            dir: self.dir.join("pg_wal"),
            segment_size: control.segment_size,
            timeline: history.timeline(),
            system_id: Some(control.system_id),
            direct: self.config.io_direct.wal || self.reads_direct(control),
        };
        WalReader::new(Arc::clone(self.aio), config, start).with_history(history.clone())
    }

    /// Whether the log is read past the kernel's cache although its setting does not ask for that:
    /// after a failed sync the cache holds, as clean pages, what never reached the disk. Only where
    /// the file system can.
    fn reads_direct(&self, control: &ControlFile) -> bool {
        control.state != DbState::ShutDown
            && self.aio.namespace().probe_direct(&self.dir.join("pg_wal")).is_ok()
    }

    /// The checkpoint whose record is at `at`, where the reader begins.
    fn last_checkpoint(
        &self,
        be: &mut Backend,
        mut reader: WalReader,
        at: Lsn,
    ) -> Result<Checkpoint, EngineError> {
        let missing = |why: String| {
            let message = format!("could not locate a valid checkpoint record at {at}");
            EngineError::statement("XX001", message).with_detail(why)
        };
        let Some(record) = reader.next(&mut be.io)? else {
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

    fn sync_everything(&self, be: &mut Backend) -> Result<(), EngineError> {
        forebay_aio::planted_bug!(self.aio, RecoveryFilesNotSyncedFirst, return Ok(()));
        let started = Instant::now();
        let files = sync::sync_everything(&mut be.io, self.dir)?;
        let elapsed = started.elapsed().as_secs_f64();
        tracing::info!("synced {files} files of the data directory in {elapsed:.2} s");
        Ok(())
    }

    /// Those who redo: the engine's own, and the embedder's.
    fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        for manager in &self.config.resource_managers.0 {
            registry.add(Arc::clone(manager));
        }
        registry
    }

    /// Looks through the log that is to be replayed.
    fn scan(
        &self,
        be: &mut Backend,
        control: &ControlFile,
        history: &TimelineHistory,
        checkpoint: &Checkpoint,
        registry: &Registry,
    ) -> Result<Scan, EngineError> {
        let started = Instant::now();
        let point = &checkpoint.point;
        let reader = self.reader(control, history, point.redo);
        let needed = if control.min_recovery_point > checkpoint.end {
            (control.min_recovery_point, "the minimum recovery point")
        } else {
            (checkpoint.end, "the end of the checkpoint record")
        };
        let stop = &self.config.recovery_stop;
        let scan = scan::scan(&mut be.io, reader, registry, history, point.timeline, needed, stop)?;
        tracing::info!(
            "WAL from {} to {} holds {} records ({:.2} s)",
            point.redo,
            scan.end.end,
            scan.records,
            started.elapsed().as_secs_f64()
        );
        Ok(scan)
    }

    fn replay(
        &self,
        be: &mut Backend,
        control: &ControlFile,
        history: &TimelineHistory,
        checkpoint: &Checkpoint,
        scan: &Scan,
        registry: &Registry,
    ) -> Result<Started, EngineError> {
        let redo = checkpoint.point.redo;
        let started = Instant::now();
        let reader = self.reader(control, history, redo);
        let mut ahead = ReadAhead::new(reader, self.pool, self.config.recovery);
        self.clog.set_recovering(true);
        let prefetch = PrefetchStats::default();
        let mut progress = RecoveryProgress {
            redo,
            at: redo,
            end: scan.end.end,
            records: 0,
            prefetch,
            done: false,
        };
        let mut ctx = RedoContext::new(be, self.pool, self.clog, &checkpoint.point);
        tracing::info!("redo starts at {redo}");
        while let Some(record) = ahead.next(ctx.be)? {
            self.config.recovery_stop.check()?;
            redo_one(registry, &record, &mut ctx)?;
            progress.at = record.end;
            progress.records += 1;
            progress.prefetch = ahead.stats();
            if progress.records.is_multiple_of(REPORT_EVERY) {
                tracing::info!(
                    "redo in progress, elapsed time: {:.2} s, current LSN: {}",
                    started.elapsed().as_secs_f64(),
                    progress.at
                );
                self.report(&progress);
            }
        }
        let end =
            ahead.end().cloned().ok_or_else(|| EngineError::internal("the log has no end"))?;
        if end.end != scan.end.end {
            let message = format!(
                "WAL ended at {} and now ends at {}: {}",
                scan.end.end, end.end, end.reason
            );
            return Err(EngineError::corrupt(message)
                .with_hint("Somebody else writes to it, or the disk fails."));
        }
        tracing::info!(
            "redo done at {}: {} ({} records, {:.2} s; {} pages read ahead)",
            end.last_record,
            end.reason,
            progress.records,
            started.elapsed().as_secs_f64(),
            ahead.stats().prefetch
        );
        ctx.check_missing()?;
        let mut counters = ctx.counters;
        forebay_aio::planted_bug!(self.aio, RecoveryReusesTransactionIds, {
            counters.next_xid = checkpoint.point.next_xid
        });
        self.empty_unlogged(be)?;
        self.clog.set_recovering(false);
        self.clog.trim(&mut be.io, next_xid(&counters))?;
        progress.done = true;
        self.report(&progress);
        let timeline = scan.timeline;
        Ok(Started {
            resume: end.resume(redo),
            counters,
            recovered: true,
            checkpoint_end: checkpoint.end,
            timeline,
            came_from: timeline,
            floor: None,
            ended: None,
        })
    }

    fn report(&self, progress: &RecoveryProgress) {
        if let Some(callback) = &self.config.on_recovery {
            (callback.0)(progress);
        }
    }
}

fn next_xid(counters: &Counters) -> FullXid {
    counters.next_xid
}

fn redo_one(
    registry: &Registry,
    record: &WalRecord,
    ctx: &mut RedoContext<'_>,
) -> Result<(), EngineError> {
    let decoded = scan::decode(record)?;
    let redo = RedoRecord { start: record.start, end: record.end, record: &decoded };
    Ok(registry.redo(&redo, ctx)?)
}
