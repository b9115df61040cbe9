//! Replays a log from an archive, up to a target or to its end.
//!
//! ```text
//!   record ─▶ stop before it? ─▶ redo ─▶ end of the backup? consistent? ─▶ stop after it?
//!          ─▶ restart point?
//! ```
//!
//! A restart point is a checkpoint of recovery: after the record of a checkpoint everything is made
//! durable, and a repeated recovery begins there. It is made when a checkpoint would be due.

use std::sync::Arc;

use forebay_access::redo::Registry;
use forebay_aio::sync::Instant;
use forebay_format::Lsn;
use forebay_format::control::ControlFile;
use forebay_format::timeline::TimelineHistory;
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_format::wal::{DecodedRecord, Rmgr};
use forebay_storage::{Backend, FullSpeed, WriteOptions, WriteScope};
use forebay_txn::redo::{ClusterState, Counters, Made, RedoContext, RedoRecord};
use forebay_wal::{EndOfWal, WalRecord};

use super::ahead::ReadAhead;
use super::branch::run_command;
use super::floor::Floor;
use super::request::Request;
use super::restore::Restore;
use super::scan;
use super::startup::{Checkpoint, Startup, tell_done};
use super::target::{Stop, Stopper};
use super::timeline::Follower;
use crate::config::RecoveryProgress;
use crate::error::EngineError;

/// What replay works with.
pub(super) struct Course<'a> {
    pub(super) request: &'a Request,
    pub(super) restore: &'a Arc<Restore>,
    pub(super) history: &'a TimelineHistory,
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) registry: &'a Registry,
    pub(super) floor: &'a Arc<Floor>,
}

/// How replay has ended.
pub(super) struct Replayed {
    /// End of the record replayed last.
    pub(super) at: Lsn,
    /// Its start.
    pub(super) last: Lsn,
    /// The timeline there.
    pub(super) timeline: u32,
    pub(super) counters: Counters,
    pub(super) cluster: ClusterState,
    pub(super) made: Made,
    pub(super) end: End,
    /// The redo pointer at which a repeated recovery would begin.
    pub(super) redo: Lsn,
}

/// Where it has ended.
pub(super) enum End {
    /// At the target.
    Target(Stop),
    /// Where the log ends.
    Log(EndOfWal),
}

/// When the files are consistent.
struct Consistency {
    /// The log must be replayed up to here.
    needed: Lsn,
    /// The redo pointer of a backup whose end was not reached yet.
    backup_start: Lsn,
    reached: bool,
}

/// The restart point made last.
struct Restart {
    redo: Lsn,
    at: Instant,
}

/// Replay in progress.
struct Replay<'a, 's> {
    startup: &'s Startup<'a>,
    course: &'s Course<'s>,
    control: ControlFile,
    stopper: Stopper<'s>,
    follower: Follower<'s>,
    consistency: Consistency,
    progress: RecoveryProgress,
    last: Lsn,
    started: Instant,
    restart: Restart,
}

impl Startup<'_> {
    /// Replays the log up to the target, or to its end.
    pub(super) fn replay_to_target(
        &self,
        backend: &mut Backend,
        course: &Course<'_>,
    ) -> Result<Replayed, EngineError> {
        let control = self.control.get();
        let wanted = course.request.from_archive && course.request.begun.is_none();
        let target = if wanted { self.config.restore.target()? } else { None };
        let point = &course.checkpoint.point;
        let reader =
            self.reader(&control, course.history, point.redo).with_fetch(course.restore.clone());
        let mut ahead = ReadAhead::new(reader, self.pool, self.config.recovery);
        let mut ctx = self.redo_context(backend, point)?;
        let redo = point.redo;
        let mut replay = Replay {
            startup: self,
            course,
            stopper: Stopper::new(target, self.config.restore.inclusive),
            follower: Follower::new(course.history, course.history.at(point.redo)),
            consistency: Consistency::of(&control, course.checkpoint.end),
            control,
            progress: RecoveryProgress { redo, at: redo, end: redo, ..RecoveryProgress::default() },
            last: Lsn::INVALID,
            started: Instant::now(),
            restart: Restart { redo: point.redo, at: Instant::now() },
        };
        tracing::info!("redo starts at {}", point.redo);
        let end = loop {
            let Some(record) = ahead.next(ctx.backend)? else {
                break End::Log(ahead.check_end(ctx.backend)?);
            };
            self.config.recovery_stop.check()?;
            if let Some(stop) = replay.step(&record, &mut ctx)? {
                break End::Target(stop);
            }
            replay.progress.prefetch = ahead.stats();
            self.tell_progress(replay.started, &replay.progress);
        };
        replay.progress.prefetch = ahead.stats();
        replay.finish(end, target.is_some(), &ctx)
    }
}

impl Replay<'_, '_> {
    /// Redoes a record. Some: recovery stops, before or after it.
    fn step(
        &mut self,
        record: &WalRecord,
        ctx: &mut RedoContext<'_>,
    ) -> Result<Option<Stop>, EngineError> {
        let decoded = scan::decode(record)?;
        let redo = RedoRecord { start: record.start, end: record.end, record: &decoded };
        if let Some(stop) = self.stopper.before(&redo, self.consistency.reached)? {
            return Ok(Some(stop));
        }
        self.course.registry.check(&redo)?;
        self.follower.follow(&redo)?;
        self.course.registry.redo(&redo, ctx)?;
        self.leave_segments(ctx, record.start);
        self.last = record.start;
        (self.progress.at, self.progress.end) = (record.end, record.end);
        self.progress.records += 1;
        self.course.floor.replayed(record.end, self.follower.timeline());
        self.note_consistency(&redo, ctx)?;
        if let Some(stop) = self.stopper.after(&redo)? {
            return Ok(Some(stop));
        }
        self.restart_point(record, &decoded, ctx)?;
        Ok(None)
    }

    /// Removes segments before the last record. The last one before it is kept, since the log may
    /// go on in it.
    fn leave_segments(&self, ctx: &RedoContext<'_>, start: Lsn) {
        let number = |lsn| self.control.segment_size.number(lsn);
        if self.last.is_valid() && number(start) != number(self.last) {
            self.course.restore.remove_before(&ctx.backend.io, number(self.last));
        }
    }

    /// Notes whether the files are consistent now.
    fn note_consistency(
        &mut self,
        record: &RedoRecord<'_>,
        ctx: &mut RedoContext<'_>,
    ) -> Result<(), EngineError> {
        let consistency = &mut self.consistency;
        if consistency.reached {
            return Ok(());
        }
        if consistency.backup_start.is_valid() && consistency.ends_backup(record)? {
            let timeline = self.follower.timeline();
            self.startup.control.end_backup(&mut ctx.backend.io, record.end, timeline)?;
            tracing::info!(
                "completed backup recovery with redo LSN {} and end LSN {}",
                consistency.backup_start,
                record.end
            );
            consistency.backup_start = Lsn::INVALID;
        }
        if !consistency.backup_start.is_valid() && record.end >= consistency.needed {
            ctx.check_missing()?;
            consistency.reached = true;
            tracing::info!("consistent recovery state reached at {}", record.end);
        }
        Ok(())
    }

    /// Makes a restart point after the record of a checkpoint, if one is due.
    fn restart_point(
        &mut self,
        record: &WalRecord,
        decoded: &DecodedRecord<'_>,
        ctx: &mut RedoContext<'_>,
    ) -> Result<(), EngineError> {
        let is_checkpoint = decoded.header.rmgr == Rmgr::XLOG
            && matches!(decoded.kind(), xlog::CHECKPOINT_ONLINE | xlog::CHECKPOINT_SHUTDOWN);
        if !is_checkpoint || !self.course.request.from_archive {
            return Ok(());
        }
        let point = CheckPoint::decode(decoded.main).map_err(|error| {
            EngineError::corrupt(format!("WAL record at {}: {error}", record.start))
        })?;
        let writing = &self.startup.config.writing;
        let due = point.redo.since(self.restart.redo) >= writing.max_wal_size
            || self.restart.at.elapsed() >= writing.checkpoint_timeout;
        // A later recovery would begin after the records of missing pages.
        if !due || point.redo <= self.restart.redo || ctx.check_missing().is_err() {
            return Ok(());
        }
        let (pool, io) = (self.startup.pool, &mut *ctx.backend);
        // Pages of pg_xact have no LSN: they contain the outcomes of all records so far.
        self.startup.clog.flush_behind(&mut io.io, |io| {
            forebay_aio::planted_bug!(io.aio(), RecoveryWritesClogEarly, return Ok(()));
            self.course.floor.raise(io, record.end)
        })?;
        self.startup.multis.flush(&mut io.io)?;
        self.startup.write_state(&mut io.io, &ctx.cluster)?;
        pool.write_paced(io, WriteScope::All, WriteOptions::checkpoint(pool), &mut FullSpeed)?;
        pool.sync_pending(io)?;
        let timeline = self.follower.timeline();
        self.startup.control.restart_point(
            &mut io.io,
            record.start,
            point,
            (record.end, timeline),
        )?;
        self.restart = Restart { redo: point.redo, at: Instant::now() };
        tracing::info!("recovery restart point at {}", point.redo);
        let oldest = self.course.restore.set_oldest(timeline, point.redo);
        let cleanup = &self.startup.config.restore.archive_cleanup_command;
        if !cleanup.is_empty() {
            ctx.backend.io.quiesce(); // as for the restore command
            run_command(self.startup.dir, "archive_cleanup_command", cleanup, &oldest);
        }
        Ok(())
    }

    /// The end of replay, if it may end there.
    fn finish(
        mut self,
        end: End,
        wanted: bool,
        ctx: &RedoContext<'_>,
    ) -> Result<Replayed, EngineError> {
        let why = match &end {
            End::Target(stop) => {
                tracing::info!("{}", stop.message);
                "the target is reached".to_owned()
            }
            End::Log(end) => end.reason.to_string(),
        };
        tell_done(self.started, self.last, &why, &self.progress);
        self.consistency.check(&end, self.progress.at)?;
        if let (true, End::Log(end)) = (wanted, &end) {
            let message = "recovery ended before configured recovery target was reached";
            let why = format!("The log ends at {}: {}.", end.end, end.reason);
            return Err(EngineError::statement("F0000", message).with_detail(why));
        }
        ctx.check_missing()?;
        self.progress.done = true;
        self.startup.report(&self.progress);
        Ok(Replayed {
            at: self.progress.at,
            last: self.last,
            timeline: self.follower.timeline(),
            counters: ctx.counters,
            cluster: ctx.cluster.clone(),
            made: ctx.made.clone(),
            end,
            redo: self.restart.redo,
        })
    }
}

impl Consistency {
    fn of(control: &ControlFile, checkpoint_end: Lsn) -> Consistency {
        Consistency {
            needed: control.min_recovery_point.max(control.backup_end).max(checkpoint_end),
            // For a backup of a standby, pg_control says where it ended.
            backup_start: if control.backup_end.is_valid() {
                Lsn::INVALID
            } else {
                control.backup_start
            },
            reached: false,
        }
    }

    /// Whether the record says that the backup ended there.
    fn ends_backup(&self, record: &RedoRecord<'_>) -> Result<bool, EngineError> {
        if record.record.header.rmgr != Rmgr::XLOG || record.kind() != xlog::BACKUP_END {
            return Ok(false);
        }
        let start = xlog::decode_backup_end(record.record.main);
        Ok(start.map_err(|error| record.damaged(error.to_string()))? == self.backup_start)
    }

    /// Fails if recovery has ended too early.
    fn check(&self, end: &End, at: Lsn) -> Result<(), EngineError> {
        if self.reached {
            return Ok(());
        }
        let backup = self.backup_start.is_valid();
        let End::Log(end) = end else {
            let message = "requested recovery stop point is before consistent recovery point";
            let detail = match backup {
                true => format!(
                    "Recovery got to {at}; the record of the backup's end lies behind that."
                ),
                false => format!(
                    "Recovery got to {at}; the files are consistent from {} on.",
                    self.needed
                ),
            };
            return Err(EngineError::statement("F0000", message).with_detail(detail));
        };
        let detail = format!("The log ends at {at}: {}.", end.reason);
        if backup {
            let hint =
                "All WAL generated while online backup was taken must be available at recovery.";
            let message = "WAL ends before end of online backup";
            return Err(EngineError::statement("55000", message)
                .with_detail(detail)
                .with_hint(hint));
        }
        let message = "WAL ends before consistent recovery point";
        let detail = format!("{detail} It must be replayed up to {}.", self.needed);
        Err(EngineError::statement("55000", message).with_detail(detail))
    }
}
