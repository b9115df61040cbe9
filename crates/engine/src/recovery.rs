//! Startup: from a data directory to a log that goes on.
//!
//! | pg_control says | what happens |
//! |---|---|
//! | shut down | the checkpoint's record is read; the log goes on behind it |
//! | in production, shutting down, in crash recovery, starting up | crash recovery, as below |
//! | a standby's states | refused |
//!
//! Crash recovery: every file that may have been written without a sync is synced, so that what redo finds on the
//! pages stays there; the log is read past the kernel's cache where that can be done, and replayed from the
//! checkpoint's redo pointer to its end; pg_xact is cleared of what never reached the log. The caller then writes
//! everything and makes an end-of-recovery checkpoint.

use forebay_aio::sync::Instant;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{Aio, Errno, FileKind, Namespace, OpenOptions};
use forebay_format::control::{ControlFile, DbState};
use forebay_format::wal::Rmgr;
use forebay_format::wal::xlog::{self, CheckPoint};
use forebay_format::{FullXid, Lsn};
use forebay_storage::{Backend, BufferPool};
use forebay_wal::{ReaderConfig, Resume, WalReader, WalRecord};

use crate::config::EngineConfig;
use crate::control::Control;
use crate::error::EngineError;
use crate::redo::{Counters, RedoContext, RedoRecord, Registry};
use crate::xact::Clog;

/// How far recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryProgress {
    /// Where redo began.
    pub redo: Lsn,
    /// End of the record replayed last.
    pub at: Lsn,
    /// Records replayed.
    pub records: u64,
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
        let (record, checkpoint) = self.last_checkpoint(be, &control)?;
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
                Ok(Started { resume, counters, recovered: false, checkpoint_end: record.end })
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
                self.control.set_state(&mut be.io, DbState::CrashRecovery)?;
                self.replay(be, &control, &checkpoint, record.end)
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

    fn reader(&self, control: &ControlFile, start: Lsn) -> WalReader {
        let config = ReaderConfig {
            dir: self.dir.join("pg_wal"),
            segment_size: control.segment_size,
            timeline: control.checkpoint_copy.timeline,
            system_id: Some(control.system_id),
            direct: self.config.io_direct.wal || self.reads_direct(control),
        };
        WalReader::new(Arc::clone(self.aio), config, start)
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
    ) -> Result<(WalRecord, CheckPoint), EngineError> {
        let missing = |why: String| {
            let message = format!("could not locate a valid checkpoint record at {}", control.checkpoint);
            EngineError::statement("XX001", message).with_detail(why)
        };
        let mut reader = self.reader(control, control.checkpoint);
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

    /// Syncs all files: what the dead process wrote may be in the kernel's hands only, and redo leaves pages alone
    /// that look new enough.
    fn sync_everything(&self, be: &mut Backend) -> Result<(), EngineError> {
        let started = Instant::now();
        let namespace = Arc::clone(be.io.aio().namespace());
        let mut files = 0_u64;
        let mut left: Vec<PathBuf> = vec![self.dir.to_path_buf()];
        while let Some(dir) = left.pop() {
            for entry in namespace.list(&dir)? {
                let path = dir.join(&entry.name);
                match entry.kind {
                    FileKind::Directory => left.push(path),
                    FileKind::File => {
                        sync_one(self.aio, &path)?;
                        files += 1;
                    }
                    // pg_wal and tablespaces may lie elsewhere. A file linked here is not one of ours.
                    FileKind::Symlink if is_directory(namespace.as_ref(), &path)? => left.push(path),
                    FileKind::Symlink | FileKind::Other => {}
                }
            }
            namespace.sync_dir(&dir)?;
        }
        tracing::info!(
            "synced {files} files of the data directory in {:.2} s",
            started.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn replay(
        &self,
        be: &mut Backend,
        control: &ControlFile,
        checkpoint: &CheckPoint,
        checkpoint_end: Lsn,
    ) -> Result<Started, EngineError> {
        let redo = checkpoint.redo;
        let started = Instant::now();
        let registry = Registry::new();
        let mut reader = self.reader(control, redo);
        self.clog.set_recovering(true);
        let mut progress = RecoveryProgress { redo, at: redo, records: 0, done: false };
        let mut ctx = RedoContext::new(be, self.pool, self.clog, checkpoint);
        tracing::info!("redo starts at {redo}");
        while let Some(record) = reader.next(&mut ctx.be.io)? {
            redo_one(&registry, &record, &mut ctx)?;
            progress.at = record.end;
            progress.records += 1;
            if progress.records.is_multiple_of(REPORT_EVERY) {
                tracing::info!(
                    "redo in progress, elapsed time: {:.2} s, current LSN: {}",
                    started.elapsed().as_secs_f64(),
                    progress.at
                );
                self.report(&progress);
            }
        }
        let end = reader.end().cloned().ok_or_else(|| EngineError::internal("the log has no end"))?;
        if end.end < checkpoint_end {
            return Err(EngineError::corrupt(format!(
                "WAL ends at {} before the checkpoint record at {}: {}",
                end.end, control.checkpoint, end.reason
            )));
        }
        tracing::info!(
            "redo done at {}: {} ({} records, {:.2} s)",
            end.last_record,
            end.reason,
            progress.records,
            started.elapsed().as_secs_f64()
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
        Ok(Started { resume: end.resume(redo), counters, recovered: true, checkpoint_end })
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
    let decoded = record
        .decode()
        .map_err(|error| EngineError::corrupt(format!("WAL record at {}: {error}", record.start)))?;
    let redo = RedoRecord { start: record.start, end: record.end, record: &decoded };
    Ok(registry.redo(&redo, ctx)?)
}

fn is_directory(namespace: &dyn Namespace, path: &Path) -> Result<bool, EngineError> {
    Ok(namespace.stat(path)?.is_some_and(|stat| stat.kind == FileKind::Directory))
}

/// Syncs a file, and makes redo read it from the disk: if the dead process stopped because a sync failed, the kernel
/// still holds, as clean, pages that are not there. One that may only be read, or not even that, was not written by
/// this server.
fn sync_one(aio: &Aio, path: &Path) -> Result<(), EngineError> {
    let namespace = aio.namespace();
    const DENIED: Errno = Errno(13);
    let opened = match namespace.open(path, &OpenOptions::READ_WRITE) {
        Err(error) if error.errno() == Some(DENIED) => namespace.open(path, &OpenOptions::READ),
        opened => opened,
    };
    match opened {
        Ok(file) => {
            namespace.sync_file(&file)?;
            if !aio.has_bug("recovery: what the kernel has cached is trusted") {
                namespace.forget_cached(&file)?;
            }
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) if error.errno() == Some(DENIED) => {
            tracing::info!("could not sync: {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// A time as the log shows it: "2026-11-21 01:21:39 UTC".
fn at_time(seconds: i64) -> String {
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
