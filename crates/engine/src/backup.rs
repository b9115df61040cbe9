//! Base backups of a cluster, at rest or running, into an archive, and their restore. The archive
//! crate copies the files. This module opens the I/O layer and locks the data directory.
//!
//! A session begins and ends a backup by `start_backup` and `stop_backup`.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::sync::SystemTime;
use forebay_aio::{Aio, BackendType, IoBackend};
use forebay_archive::ArchiveError;
use forebay_archive::backup::{
    self as archive, About, Backup, BackupObserver, BackupOptions, BackupSource, Origin,
    RestoreOptions, Restored,
};

use crate::config::IoMethod;
use crate::error::EngineError;
use crate::io;
use crate::lockfile;

pub use crate::lockfile::RunningServer;

/// Backends beside the threads that copy.
const OTHER_BACKENDS: usize = 2;

/// The error of a backup or restore.
fn backup_error(error: ArchiveError) -> EngineError {
    let sqlstate = match &error {
        ArchiveError::Damaged { .. }
        | ArchiveError::DamagedPages { .. }
        | ArchiveError::Manifest { .. }
        | ArchiveError::Control { .. } => "XX001",
        ArchiveError::Server { .. } | ArchiveError::Refused(_) => "55000",
        ArchiveError::WalGone { .. } => "58P01",
        _ => "58030",
    };
    EngineError::statement(sqlstate, error.to_string())
}

/// The row of pg_control_system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSystem {
    /// Of pg_control's layout.
    pub version: u32,
    /// Of the catalogs.
    pub catalog_version: u32,
    /// The cluster.
    pub system_id: u64,
    /// When pg_control was written.
    pub modified: SystemTime,
}

fn open(io_method: IoMethod, threads: usize) -> Result<Arc<Aio>, EngineError> {
    io::standalone(io_method, threads.max(1) + OTHER_BACKENDS)
}

fn small(io_method: IoMethod) -> Result<IoBackend, EngineError> {
    Ok(open(io_method, 0)?.backend(BackendType::Standalone)?)
}

/// The server that runs on a data directory, Forebay or PostgreSQL, if one does.
pub fn running_server(data: &Path) -> Result<Option<RunningServer>, EngineError> {
    lockfile::running(&mut small(IoMethod::Sync)?, data)
}

/// Copies a data directory into an archive: that of the running `server`, or of none. A cluster at
/// rest is locked meanwhile.
pub fn backup(
    data: &Path,
    directory: &Path,
    server: Option<&mut dyn BackupSource>,
    options: &BackupOptions,
    io_method: IoMethod,
    observer: &mut dyn BackupObserver,
) -> Result<About, EngineError> {
    let aio = open(io_method, options.jobs)?;
    let Some(server) = server else {
        let mut io = aio.backend(BackendType::Standalone)?;
        let _still = lockfile::hold_still(&mut io, data)?;
        return archive::backup(&aio, data, directory, Origin::Still, options, observer)
            .map_err(backup_error);
    };
    archive::backup(&aio, data, directory, Origin::Live(server), options, observer)
        .map_err(backup_error)
}

/// Restores a backup into a directory that is empty or not there.
pub fn restore(
    directory: &Path,
    to: &Path,
    options: &RestoreOptions,
    io_method: IoMethod,
    observer: &mut dyn BackupObserver,
) -> Result<Restored, EngineError> {
    let aio = open(io_method, options.jobs)?;
    archive::restore(&aio, directory, to, options, observer).map_err(backup_error)
}

/// All backups of an archive, the oldest first.
pub fn list(directory: &Path) -> Result<Vec<Backup>, EngineError> {
    archive::list(&mut small(IoMethod::Sync)?, directory).map_err(backup_error)
}
