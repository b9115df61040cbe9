//! What goes wrong with base backups.

use std::path::{Path, PathBuf};

use forebay_aio::AioError;
use forebay_format::Lsn;
use forebay_format::control::ControlError;

/// A page whose checksum is not that of its bytes, and that nobody was writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPage {
    /// The file, relative to the data directory.
    pub path: PathBuf,
    /// The block's number in the relation.
    pub block: u32,
    /// The checksum of the bytes.
    pub calculated: u16,
    /// The checksum in the page.
    pub found: u16,
    /// The log position that the page bears.
    pub lsn: Lsn,
}

impl std::fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "checksum verification failed in file \"{}\", block {}: calculated {:X} but expected {:X}",
            self.path.display(),
            self.block,
            self.calculated,
            self.found
        )
    }
}

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The disk said no.
    #[error(transparent)]
    Io(#[from] AioError),
    /// A file can't be what it should be.
    #[error("file \"{}\" is damaged: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// pg_control can't be used.
    #[error("could not use file \"{}\": {source}", path.display())]
    Control {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: ControlError,
    },
    /// Pages are damaged, so the copy was thrown away.
    #[error("{first} ({count} damaged pages in all)")]
    DamagedPages {
        /// The first of them.
        first: Box<DamagedPage>,
        /// How many there are.
        count: u64,
    },
    /// What was stored is not what the manifest says.
    #[error("file \"{}\" of the backup has {what} {found}, but its manifest says {expected}", path.display())]
    Mismatch {
        /// The file, in the backup.
        path: PathBuf,
        /// Size or checksum.
        what: &'static str,
        /// What the file has.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// The server that is backed up said no.
    #[error("{operation} failed: {message}")]
    Server {
        /// What it was asked for.
        operation: &'static str,
        /// Its answer.
        message: String,
    },
    /// This can't be done, and nothing was done.
    #[error("{0}")]
    Refused(String),
    /// WAL that the backup needs is gone.
    #[error(
        "WAL segment \"{}\", which the backup needs, is not there any more: {why}", path.display()
    )]
    WalGone {
        /// The segment.
        path: PathBuf,
        /// What could keep it.
        why: &'static str,
    },
    /// A thread that copied files is gone.
    #[error("a thread that copied files ended unexpectedly")]
    Worker,
}

impl BackupError {
    pub(super) fn damaged(path: &Path, why: impl Into<String>) -> BackupError {
        BackupError::Damaged { path: path.to_path_buf(), why: why.into() }
    }

    pub(super) fn refused(why: impl Into<String>) -> BackupError {
        BackupError::Refused(why.into())
    }
}
