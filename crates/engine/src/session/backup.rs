//! The beginning and the end of a base backup: pg_backup_start and pg_backup_stop. The caller
//! copies the files in between.
//!
//! ```text
//!   start: log whole pages ── next segment ── checkpoint, whose redo pointer is the backup's start
//!   stop:  BACKUP_END record ── next segment ── backup history file ── wait for the archive
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::sync::{Duration, Instant};
use forebay_archive::backup::{BackupSource, Stopped};
use forebay_archive::{Kind, WalName};
use forebay_format::Lsn;
use forebay_format::backup_label::BackupLabel;
use forebay_format::wal::xlog;

use super::state::Session;
use crate::checkpointer::Causes;
use crate::clock::at_time;
use crate::clock::unix_seconds;
use crate::config::Background;
use crate::core::InDatabase;
use crate::error::EngineError;

/// Most bytes of a label.
const MOST_LABEL: usize = 1024;
/// How often a waiter checks the archive.
const LOOK: Duration = Duration::from_millis(50);

/// What a backup needs beside the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupEnd {
    /// The backup is consistent when the log is replayed up to here.
    pub lsn: Lsn,
    /// The contents of backup_label.
    pub label: String,
    /// Whether the log is archived. If not, the caller must save it.
    pub archived: bool,
}

impl Session {
    /// Begins a base backup, which belongs to this session. Returns where recovery from it begins.
    /// With `fast` the checkpoint is made at once, otherwise at its usual pace.
    pub fn start_backup(&mut self, label: &str, fast: bool) -> Result<Lsn, EngineError> {
        if self.backup.is_some() {
            return Err(EngineError::statement(
                "55000",
                "a backup is already in progress in this session",
            ));
        }
        if label.len() > MOST_LABEL {
            let message = format!("backup label too long (max {MOST_LABEL} bytes)");
            return Err(EngineError::statement("22023", message));
        }
        if label.contains(['\n', '\r']) {
            let message = "backup label can't contain a newline or carriage return";
            return Err(EngineError::statement("22023", message));
        }
        let core = Arc::clone(&self.core);
        core.backups.enter(&core.wal, core.config.full_page_writes);
        let begun = self.begin_backup(&core, label, fast);
        match begun {
            Ok(label) => {
                let start = label.start;
                self.backup = Some(label);
                Ok(start)
            }
            Err(error) => {
                core.backups.leave(&core.wal, core.config.full_page_writes);
                Err(error)
            }
        }
    }

    fn begin_backup(
        &mut self,
        core: &InDatabase,
        label: &str,
        fast: bool,
    ) -> Result<BackupLabel, EngineError> {
        // The log that recovery needs begins in a new segment.
        self.switch_wal()?;
        let size = core.wal.config().segment_size;
        // A checkpoint that is not fast is skipped on an idle system.
        let mut causes = if fast { Causes::DEMAND } else { Causes::TIME };
        loop {
            self.checkpoint_for(causes)?;
            let control = core.control.get();
            let point = control.checkpoint_copy;
            if !core.backups.take_start(point.redo) {
                causes = Causes::DEMAND;
                continue;
            }
            return Ok(BackupLabel {
                start: point.redo,
                start_file: size.file_name(point.timeline, size.number(point.redo)),
                checkpoint: control.checkpoint,
                method: "streamed".to_owned(),
                from: "primary".to_owned(),
                start_time: at_time(unix_seconds()),
                label: label.to_owned(),
                timeline: point.timeline,
            });
        }
    }

    /// Ends the backup. With `wait`, and if there is an archive, waits until that has all WAL which
    /// the backup needs. An interrupt ends the wait; the backup has ended anyway.
    pub fn stop_backup(&mut self, wait: bool) -> Result<BackupEnd, EngineError> {
        let Some(label) = self.backup.take() else {
            return Err(EngineError::statement("55000", "backup is not in progress")
                .with_hint("Did you call pg_backup_start()?"));
        };
        let core = Arc::clone(&self.core);
        let ended = self.end_backup(&core, &label);
        core.backups.leave(&core.wal, core.config.full_page_writes);
        let (lsn, names) = ended?;
        let archived = core.wal.is_archiving();
        let mut wait = wait && archived;
        forebay_aio::planted_bug!(core.aio, BackupDoesNotWaitForWal, wait = false);
        if wait {
            for name in &names {
                self.wait_until_archived(&core, name)?;
            }
        }
        Ok(BackupEnd { lsn, label: label.to_text(), archived })
    }

    /// Returns where the backup ends, and the files that the archive must have.
    fn end_backup(
        &mut self,
        core: &InDatabase,
        label: &BackupLabel,
    ) -> Result<(Lsn, [String; 2]), EngineError> {
        let _activity = core.activity.enter()?;
        core.check_running()?;
        let main = label.start.0.to_le_bytes();
        let end = core.fatal.watch("backup", || {
            let inserted = core.log(&mut self.backend.io, xlog::BACKUP_END, &main)?;
            core.wal.flush(&mut self.backend.io, inserted.end)?;
            core.wal.switch_segment(&mut self.backend.io)?;
            Ok(inserted.end)
        });
        let end: Lsn = end.map_err(|error: EngineError| core.fatal.check(error))?;
        let size = core.wal.config().segment_size;
        let last = size.file_name(core.wal.config().timeline, size.number_before(end));
        // Whether its name is durable does not matter.
        let history = self.write_history(core, label, end, &last);
        Ok((end, [last, history.map_err(|error| core.fatal.check(error))?]))
    }

    /// Writes the backup history file into pg_wal, for the archive.
    fn write_history(
        &mut self,
        core: &InDatabase,
        label: &BackupLabel,
        end: Lsn,
        last: &str,
    ) -> Result<String, EngineError> {
        let size = core.wal.config().segment_size;
        let name = label.history_file_name(size.offset(label.start));
        let wal = core.dir.join("pg_wal");
        let text = history(label, end, last, core.wal.config().timeline);
        self.backend.io.write_new_file(&wal.join(&name), text.as_bytes())?;
        core.aio.namespace().sync_dir(&wal)?;
        core.wal.announce(&name);
        self.remove_old_histories(core, &name)?;
        Ok(name)
    }

    /// Removes history files of earlier backups that the archive has.
    fn remove_old_histories(&mut self, core: &InDatabase, newest: &str) -> Result<(), EngineError> {
        let names = Arc::clone(core.aio.namespace());
        let wal = core.dir.join("pg_wal");
        for entry in names.list(&wal)? {
            let name = entry.name.to_string_lossy();
            if name != newest && is_history(&name) && self.is_archived(core, &name)? {
                names.unlink(&wal.join(&*name))?;
                if core.wal.is_archiving() {
                    core.wal.forget_archived(&name);
                }
            }
        }
        Ok(())
    }

    fn wait_until_archived(&mut self, core: &InDatabase, name: &str) -> Result<(), EngineError> {
        let mut told = false;
        while !self.is_archived(core, name)? {
            if core.config.background == Background::Stepped {
                // Without threads the waiter does their work.
                core.archiving.step(&mut self.backend).map_err(|error| core.fatal.check(error))?;
                if self.is_archived(core, name)? {
                    break;
                }
            }
            if !std::mem::replace(&mut told, true) {
                tracing::info!(
                    "base backup done, waiting for required WAL segments to be archived"
                );
            }
            self.sleep_until(Instant::now() + LOOK)?;
        }
        Ok(())
    }

    /// Whether the archive has a file of pg_wal, or there is no archive.
    fn is_archived(&self, core: &InDatabase, name: &str) -> Result<bool, EngineError> {
        if !core.wal.is_archiving() {
            return Ok(true);
        }
        let names = core.aio.namespace();
        let wal = core.dir.join("pg_wal");
        let mark =
            |mark: &str| -> PathBuf { wal.join("archive_status").join(format!("{name}.{mark}")) };
        if names.exists(&mark("done"))? {
            return Ok(true);
        }
        // A segment is removed, with its marks, only when the archive has it.
        Ok(!names.exists(&mark("ready"))? && !names.exists(&wal.join(name))?)
    }

    /// Ends the session's backup with the session: no other session can end it.
    pub(super) fn leave_backup(&mut self) {
        if self.backup.take().is_some() {
            tracing::warn!(
                "aborting backup due to backend exiting before pg_backup_stop was called"
            );
            self.core.backups.leave(&self.core.wal, self.core.config.full_page_writes);
        }
    }
}

fn history(label: &BackupLabel, end: Lsn, last: &str, timeline: u32) -> String {
    let text = label.to_text();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    format!(
        "{first}\nSTOP WAL LOCATION: {end} (file {last})\n{rest}STOP TIME: {}\nSTOP TIMELINE: \
         {timeline}\n",
        at_time(unix_seconds())
    )
}

/// "000000010000000000000002.00000028.backup"
fn is_history(name: &str) -> bool {
    WalName::parse(name).is_some_and(|name| name.kind() == Kind::Backup)
}

/// For [`crate::backup::backup`]: a session begins and ends the backup of its own engine.
impl BackupSource for Session {
    fn start(&mut self, label: &str, fast: bool) -> Result<Lsn, String> {
        self.start_backup(label, fast).map_err(|error| error.to_string())
    }

    fn stop(&mut self, wait: bool) -> Result<Stopped, String> {
        let end = self.stop_backup(wait).map_err(|error| error.to_string())?;
        Ok(Stopped { lsn: end.lsn, label: end.label })
    }

    fn is_archiving(&mut self) -> Result<bool, String> {
        Ok(self.core.wal.is_archiving())
    }

    fn system_id(&mut self) -> Result<Option<u64>, String> {
        Ok(Some(self.engine().system_identifier()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backup_history_files() {
        assert!(is_history("000000010000000000000002.00000028.backup"));
        for other in
            ["000000010000000000000002", "000000010000000000000002.backup", "x.00000028.backup"]
        {
            assert!(!is_history(other), "{other}");
        }
    }

    #[test]
    fn a_history_file_has_postgresqls_lines() {
        let label = BackupLabel {
            start: Lsn(0x200_0028),
            start_file: "000000010000000000000002".to_owned(),
            checkpoint: Lsn(0x200_0080),
            method: "streamed".to_owned(),
            from: "primary".to_owned(),
            start_time: "2026-11-21 01:21:39 UTC".to_owned(),
            label: "nightly".to_owned(),
            timeline: 1,
        };
        let text = history(&label, Lsn(0x200_0120), "000000010000000000000002", 1);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines.get(1),
            Some(&"STOP WAL LOCATION: 0/2000120 (file 000000010000000000000002)")
        );
        assert_eq!(lines.get(2), Some(&"CHECKPOINT LOCATION: 0/2000080"));
        assert_eq!(lines.last(), Some(&"STOP TIMELINE: 1"));
        assert_eq!(lines.len(), 10);
        let again = BackupLabel::parse(&text).expect("a label too");
        assert_eq!(again, label);
    }
}
