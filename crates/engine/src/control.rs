//! global/pg_control: where recovery begins, and whether it is needed.
//!
//! The file is rewritten in place, in one write of all its 8 kB, then synced. What counts lies in
//! its first 296 bytes, within one sector, so that a crash leaves the old or the new state; its
//! checksum tells if not.

use std::path::{Path, PathBuf};

use forebay_aio::sync::Mutex;
use forebay_aio::{AioError, AlignedBuf, File, IoBackend, OpenOptions};
use forebay_format::Lsn;
use forebay_format::control::{ControlError, ControlFile, DbState, FILE_SIZE, PATH};
use forebay_format::wal::xlog::{CheckPoint, ParameterChange};
use forebay_txn::ReadBack;

use crate::clock::unix_seconds;
use crate::config::EngineConfig;
use crate::error::EngineError;
use crate::failure::Failure;
use crate::fatal::Fatal;

/// wal_level as stored: replica.
pub(crate) const WAL_LEVEL: i32 = 1;

/// The open control file and its contents.
#[derive(Debug)]
pub(crate) struct Control {
    path: PathBuf,
    file: File,
    read_back: ReadBack,
    current: Mutex<ControlFile>,
    fatal: std::sync::Arc<Fatal>,
}

impl Control {
    /// Reads a data directory's control file, or says why it cannot be used.
    pub(crate) fn open(
        io: &mut IoBackend,
        dir: &Path,
        config: &EngineConfig,
        fatal: std::sync::Arc<Fatal>,
    ) -> Result<Control, EngineError> {
        let path = dir.join(PATH);
        let bytes = io.read_file_if_there(&path)?.ok_or_else(|| {
            let detail = format!(
                "Expected to find it in the directory \"{}\", but could not open file \"{}\": \
                 No such file or directory",
                dir.display(),
                path.display()
            );
            EngineError::statement("58P01", "could not find the database system")
                .with_detail(detail)
        })?;
        let current = ControlFile::decode(&bytes).map_err(|error| unusable(&path, &error))?;
        if current.checksum_version > 1 {
            return Err(EngineError::statement(
                "F0001",
                format!(
                    "data checksum version {} in file \"{}\" is not supported",
                    current.checksum_version,
                    path.display()
                ),
            ));
        }
        let file = io.aio().namespace().open(&path, &OpenOptions::READ_WRITE)?;
        let read_back = ReadBack::open(config.verify_writes, io.aio().namespace().as_ref(), &path)?;
        Ok(Control { path, file, read_back, current: Mutex::new(current), fatal })
    }

    /// A copy of its contents.
    pub(crate) fn get(&self) -> ControlFile {
        self.current.lock().clone()
    }

    /// The last checkpoint's counters.
    pub(crate) fn checkpoint(&self) -> CheckPoint {
        self.current.lock().checkpoint_copy
    }

    /// Notes the state of the cluster.
    pub(crate) fn set_state(&self, io: &mut IoBackend, state: DbState) -> Result<(), EngineError> {
        self.update(io, |control| control.state = state)
    }

    /// Notes that recovery from an archive begins, or goes on, at a checkpoint; `change` may note
    /// more.
    pub(crate) fn begin_archive_recovery(
        &self,
        io: &mut IoBackend,
        record: Lsn,
        point: CheckPoint,
        change: impl FnOnce(&mut ControlFile),
    ) -> Result<(), EngineError> {
        self.update(io, |control| {
            control.checkpoint = record;
            control.checkpoint_copy = point;
            control.state = DbState::ArchiveRecovery;
            if control.min_recovery_point < point.redo {
                control.min_recovery_point = point.redo;
                control.min_recovery_timeline = point.timeline;
            }
            change(control);
        })
    }

    /// Notes that recovery, if it is begun again, begins at a later checkpoint: up to `reached`
    /// everything is durable.
    pub(crate) fn restart_point(
        &self,
        io: &mut IoBackend,
        record: Lsn,
        point: CheckPoint,
        reached: (Lsn, u32),
    ) -> Result<(), EngineError> {
        self.update(io, |control| {
            (control.checkpoint, control.checkpoint_copy) = (record, point);
            if control.min_recovery_point < reached.0 {
                (control.min_recovery_point, control.min_recovery_timeline) = reached;
            }
        })
    }

    /// Notes that recovery must get to `point` before the files are consistent, if it does not say
    /// so yet.
    pub(crate) fn raise_min_recovery(
        &self,
        io: &mut IoBackend,
        point: Lsn,
        timeline: u32,
    ) -> Result<(), EngineError> {
        if self.current.lock().min_recovery_point >= point {
            return Ok(());
        }
        self.update(io, |control| {
            if control.min_recovery_point < point {
                (control.min_recovery_point, control.min_recovery_timeline) = (point, timeline);
            }
        })
    }

    /// Notes that the backup that is recovered ended at `end`.
    pub(crate) fn end_backup(
        &self,
        io: &mut IoBackend,
        end: Lsn,
        timeline: u32,
    ) -> Result<(), EngineError> {
        self.update(io, |control| {
            if control.min_recovery_point < end {
                (control.min_recovery_point, control.min_recovery_timeline) = (end, timeline);
            }
            (control.backup_start, control.backup_end) = (Lsn::INVALID, Lsn::INVALID);
            control.backup_end_required = false;
        })
    }

    /// Notes settings that a record has changed.
    pub(crate) fn set_parameters(
        &self,
        io: &mut IoBackend,
        parameters: &ParameterChange,
    ) -> Result<(), EngineError> {
        self.update(io, |control| {
            control.max_connections = parameters.max_connections;
            control.max_worker_processes = parameters.max_worker_processes;
            control.max_wal_senders = parameters.max_wal_senders;
            control.max_prepared_transactions = parameters.max_prepared_transactions;
            control.max_locks_per_transaction = parameters.max_locks_per_transaction;
            control.wal_level = parameters.wal_level;
            control.wal_log_hints = parameters.wal_log_hints;
            control.track_commit_timestamp = parameters.track_commit_timestamp;
        })
    }

    /// Notes a checkpoint, whose record is durable: recovery will begin at its redo pointer.
    pub(crate) fn set_checkpoint(
        &self,
        io: &mut IoBackend,
        record: Lsn,
        point: CheckPoint,
        state: DbState,
    ) -> Result<(), EngineError> {
        self.update(io, |control| {
            control.checkpoint = record;
            control.checkpoint_copy = point;
            control.state = state;
            control.min_recovery_point = Lsn::INVALID;
            control.min_recovery_timeline = 0;
            (control.backup_start, control.backup_end) = (Lsn::INVALID, Lsn::INVALID);
            control.backup_end_required = false;
        })
    }

    /// Changes the file, unless the engine has stopped. A failure leaves its contents unknown, and
    /// so stops the engine.
    fn update(
        &self,
        io: &mut IoBackend,
        change: impl FnOnce(&mut ControlFile),
    ) -> Result<(), EngineError> {
        let mut current = self.current.lock();
        self.fatal.check_alive()?;
        let mut next = current.clone();
        change(&mut next);
        next.time = unix_seconds();
        let bytes = next.encode();
        let written = overwrite(io, &self.file, &bytes).map_err(EngineError::from);
        match written.and_then(|()| Ok(self.read_back.verify(io, 0, &bytes)?)) {
            Ok(()) => {
                *current = next;
                Ok(())
            }
            Err(error) => {
                let message = format!("could not update file \"{}\": {error}", self.path.display());
                self.fatal.stop(Failure::on_file(message, "update", &self.path));
                Err(error)
            }
        }
    }
}

/// Writes the whole file in place, in one write, and syncs it.
pub(crate) fn overwrite(
    io: &mut IoBackend,
    file: &File,
    bytes: &[u8; FILE_SIZE],
) -> Result<(), AioError> {
    io.write_all_at(file, 0, &AlignedBuf::copy_of(bytes)?)?;
    forebay_aio::planted_bug!(io.aio(), ControlFileNotSynced, return Ok(()));
    io.fsync(file)
}

fn unusable(path: &Path, error: &ControlError) -> EngineError {
    let file = format!("The file is \"{}\".", path.display());
    match error {
        ControlError::Incompatible { what, found, expected } => EngineError::statement(
            "F0001",
            "database files are incompatible with server",
        )
        .with_detail(format!(
            "The database cluster was initialized with {what} {found}, but the server needs \
                 {expected}. {file}"
        )),
        other => EngineError::statement("XX001", other.to_string()).with_detail(file).with_hint(
            "Nothing was changed. Bring the file back from a backup of the same state of this \
             directory, or restore the whole directory from a backup. As a last resort \
             PostgreSQL's pg_resetwal makes a new one, and gives up what was not checkpointed.",
        ),
    }
}
