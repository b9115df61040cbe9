//! Startup: from a data directory to a log that goes on.
//!
//! | pg_control says | what happens |
//! |---|---|
//! | shut down | the checkpoint's record is read; the log goes on behind it |
//! | in production, shutting down, in crash recovery, starting up | crash recovery, as below |
//! | a standby's states | refused |
//!
//! Crash recovery:
//!
//! 1. every file that may have been written without a sync is synced, so that what redo finds on the pages stays there (`sync`);
//! 2. the log is read, past the kernel's cache where that can be done, from the checkpoint's redo pointer to its end: one that is
//!    damaged in the middle, or that redo can't do all of, is refused, and nothing has changed (`scan`, `timeline`);
//! 3. pg_control says "in crash recovery", and the log is replayed, its pages read ahead (`ahead`);
//! 4. pg_xact is cleared of what never reached the log;
//! 5. the caller writes everything and makes an end-of-recovery checkpoint.
//!
//! Until then the next start begins at the same redo pointer, so a recovery that crashes is begun again: a page that has been
//! brought further than a record is left alone by it.

mod ahead;
mod scan;
mod sync;
mod timeline;

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

use ahead::ReadAhead;
use scan::Scan;

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Where redo began.
    pub redo: Lsn,
    /// End of the record replayed last.
    pub at: Lsn,
    /// Where the log ends.
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
}

/// What startup works on.
pub(crate) struct Startup<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) config: &'a EngineConfig,
    pub(crate) aio: &'a Arc<Aio>,
    pub(crate) pool: &'a Arc<BufferPool>,
    pub(crate) clog: &'a Clog,
    pub(crate) control: &'a Control,
}

impl Startup<'_> {
    /// Brings the directory to where its log goes on.
    pub(crate) fn run(&self, be: &mut Backend) -> Result<Started, EngineError> {
        self.refuse_backups(be)?;
        let control = self.control.get();
        let timeline = control.checkpoint_copy.timeline.max(control.min_recovery_timeline);
        let history = read_history(&mut be.io, &self.dir.join("pg_wal"), timeline)?;
        let (record, checkpoint) = self.last_checkpoint(be, &control, &history)?;
        match control.state {
            DbState::ShutDown => {
                tracing::info!("database system was shut down at {}", at_time(control.time));
                let resume = Resume {
                    insert_at: record.end,
                    prev: record.start,
                    redo: checkpoint.redo,
                    aborted: None,
                };
                let counters = Counters::at(&checkpoint);
                let timeline = checkpoint.timeline;
                Ok(Started { resume, counters, recovered: false, checkpoint_end: record.end, timeline })
            }
            DbState::ShutDownInRecovery | DbState::ArchiveRecovery => Err(EngineError::statement(
                "0A000",
                format!("the database system is {}: standbys are not supported", control.state.name()),
            )),
            DbState::Startup | DbState::ShuttingDown | DbState::CrashRecovery | DbState::Production => {
                tracing::info!("database system was not properly shut down; automatic recovery in progress");
                if !self.aio.has_bug("recovery: files are not synced first") {
                    self.sync_everything(be)?;
                }
                let registry = self.registry();
                let scan = self.scan(be, &control, &history, &checkpoint, record.end, &registry)?;
                self.control.set_state(&mut be.io, DbState::CrashRecovery)?;
                self.replay(be, &control, &history, &checkpoint, record.end, &scan, &registry)
            }
        }
    }

    /// A base backup begins elsewhere than pg_control says.
    fn refuse_backups(&self, be: &mut Backend) -> Result<(), EngineError> {
        for name in ["backup_label", "recovery.signal", "standby.signal"] {
            let path = self.dir.join(name);
            if be.io.aio().namespace().exists(&path)? {
                return Err(EngineError::statement(
                    "0A000",
                    format!(
                        "recovery from a base backup or as a standby is not supported: found \"{}\"",
                        path.display()
                    ),
                ));
            }
        }
        Ok(())
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

    /// Whether the log is read past the kernel's cache although its setting does not ask for that: after a failed sync
    /// the cache holds, as clean pages, what never reached the disk. Only where the file system can.
    fn reads_direct(&self, control: &ControlFile) -> bool {
        control.state != DbState::ShutDown
            && self.aio.namespace().probe_direct(&self.dir.join("pg_wal")).is_ok()
    }

    /// The record that pg_control points to.
    fn last_checkpoint(
        &self,
        be: &mut Backend,
        control: &ControlFile,
        history: &TimelineHistory,
    ) -> Result<(WalRecord, CheckPoint), EngineError> {
        let missing = |why: String| {
            let message = format!("could not locate a valid checkpoint record at {}", control.checkpoint);
            EngineError::statement("XX001", message).with_detail(why)
        };
        let mut reader = self.reader(control, history, control.checkpoint);
        let Some(record) = reader.next(&mut be.io)? else {
            return Err(missing(reader.end().map_or_else(String::new, |end| end.reason.to_string())));
        };
        let decoded = record.decode().map_err(|error| missing(error.to_string()))?;
        let kind = decoded.kind();
        let is_checkpoint = decoded.header.rmgr == Rmgr::XLOG
            && (kind == xlog::CHECKPOINT_SHUTDOWN || kind == xlog::CHECKPOINT_ONLINE);
        if record.start != control.checkpoint || !is_checkpoint {
            return Err(missing("The record there is of another kind.".to_owned()));
        }
        let checkpoint = CheckPoint::decode(decoded.main).map_err(|error| missing(error.to_string()))?;
        if checkpoint.redo > record.start
            || (kind == xlog::CHECKPOINT_SHUTDOWN && checkpoint.redo != record.start)
        {
            return Err(missing(format!("Its redo pointer {} is impossible.", checkpoint.redo)));
        }
        Ok((record, checkpoint))
    }

    fn sync_everything(&self, be: &mut Backend) -> Result<(), EngineError> {
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
        checkpoint: &CheckPoint,
        checkpoint_end: Lsn,
        registry: &Registry,
    ) -> Result<Scan, EngineError> {
        let started = Instant::now();
        let reader = self.reader(control, history, checkpoint.redo);
        let needed = if control.min_recovery_point > checkpoint_end {
            (control.min_recovery_point, "the minimum recovery point")
        } else {
            (checkpoint_end, "the end of the checkpoint record")
        };
        let scan = scan::scan(&mut be.io, reader, registry, history, checkpoint.timeline, needed)?;
        tracing::info!(
            "WAL from {} to {} holds {} records ({:.2} s)",
            checkpoint.redo,
            scan.end.end,
            scan.records,
            started.elapsed().as_secs_f64()
        );
        Ok(scan)
    }

    #[expect(clippy::too_many_arguments, reason = "what startup has found out so far")]
    fn replay(
        &self,
        be: &mut Backend,
        control: &ControlFile,
        history: &TimelineHistory,
        checkpoint: &CheckPoint,
        checkpoint_end: Lsn,
        scan: &Scan,
        registry: &Registry,
    ) -> Result<Started, EngineError> {
        let redo = checkpoint.redo;
        let started = Instant::now();
        let reader = self.reader(control, history, redo);
        let mut ahead = ReadAhead::new(reader, self.pool, self.config.recovery);
        self.clog.set_recovering(true);
        let prefetch = PrefetchStats::default();
        let mut progress =
            RecoveryProgress { redo, at: redo, end: scan.end.end, records: 0, prefetch, done: false };
        let mut ctx = RedoContext::new(be, self.pool, self.clog, checkpoint);
        tracing::info!("redo starts at {redo}");
        while let Some(record) = ahead.next(ctx.be)? {
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
        let end = ahead.end().cloned().ok_or_else(|| EngineError::internal("the log has no end"))?;
        if end.end != scan.end.end {
            let message =
                format!("WAL ended at {} and now ends at {}: {}", scan.end.end, end.end, end.reason);
            return Err(
                EngineError::corrupt(message).with_hint("Somebody else writes to it, or the disk fails.")
            );
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
        if self.aio.has_bug("recovery: transaction ids begin again at the checkpoint's") {
            counters.next_xid = checkpoint.next_xid;
        }
        self.clog.set_recovering(false);
        self.clog.trim(&mut be.io, next_xid(&counters))?;
        progress.done = true;
        self.report(&progress);
        let timeline = scan.timeline;
        Ok(Started { resume: end.resume(redo), counters, recovered: true, checkpoint_end, timeline })
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

fn redo_one(registry: &Registry, record: &WalRecord, ctx: &mut RedoContext<'_>) -> Result<(), EngineError> {
    let decoded = scan::decode(record)?;
    let redo = RedoRecord { start: record.start, end: record.end, record: &decoded };
    Ok(registry.redo(&redo, ctx)?)
}

/// A time as the log shows it: "2026-11-21 01:21:39 UTC".
pub(crate) fn at_time(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Eras of 400 years that begin on the first of March, so that leap days come last.
    let z = days + 719_468;
    let (era, in_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * in_year + 2) / 153;
    let day = in_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_postgresql_shows_them() {
        assert_eq!(at_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at_time(951_868_799), "2000-02-29 23:59:59 UTC");
        assert_eq!(at_time(1_795_224_099), "2026-11-21 01:21:39 UTC");
    }
}
