//! What can go wrong between a WAL file and its copy in the archive.

use std::path::{Path, PathBuf};

use forebay_aio::{AioError, Errno};
use forebay_format::{timeline::HistoryError, wal::page_header::PageHeaderError};

use crate::digest::Digest;
use crate::shell::{Ended, PlaceholderError};
use crate::store::StoreError;

/// An error of this crate. Each names the file, and what was tried with it.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The system refused something.
    #[error("could not {operation} \"{}\": {source}", .file.display())]
    Io {
        /// What was tried: "archive", "store", "list".
        operation: &'static str,
        /// The file or directory.
        file: PathBuf,
        /// What the system said.
        source: AioError,
    },
    /// The archive has a file of this name, and it is another one. Nothing was changed.
    #[error(
        "archive file \"{}\" already exists with different contents: {stored_len} bytes with SHA-256 {stored} are stored, \
         {offered_len} bytes with SHA-256 {offered} were to be archived",
        .file.display()
    )]
    Different {
        /// The file in the archive.
        file: PathBuf,
        /// Hash of its contents.
        stored: Digest,
        /// Its length.
        stored_len: u64,
        /// Hash of what was to be archived.
        offered: Digest,
        /// Its length.
        offered_len: u64,
    },
    /// The WAL file is gone: recycled or removed.
    #[error("WAL file \"{}\" is gone", .file.display())]
    Vanished {
        /// The file.
        file: PathBuf,
    },
    /// The WAL file has other names beside its own, under which it may be written to.
    #[error("WAL file \"{}\" has {links} links: it is not archived, because what is written under another name would show in it", .file.display())]
    Links {
        /// The file.
        file: PathBuf,
        /// Names it has.
        links: u64,
    },
    /// It is a directory or the like.
    #[error("\"{}\" is not a regular file", .file.display())]
    NotAFile {
        /// The file.
        file: PathBuf,
    },
    /// The WAL file has not the length it should have.
    #[error("WAL file \"{}\" has {found} bytes, expected {expected}", .file.display())]
    Length {
        /// The file.
        file: PathBuf,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// The WAL file's first page is not what its name says.
    #[error("WAL file \"{}\" is not what its name says: {source}", .file.display())]
    Header {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: PageHeaderError,
    },
    /// The WAL file belongs to another timeline than its name says.
    #[error("WAL file \"{}\" is not what its name says: it is of timeline {found}, not {expected}{note}", .file.display())]
    Timeline {
        /// The file.
        file: PathBuf,
        /// The name's timeline.
        expected: u32,
        /// The first page's.
        found: u32,
        /// More on it.
        note: &'static str,
    },
    /// A history file that is none.
    #[error("history file \"{}\" is damaged: {source}", .file.display())]
    History {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: HistoryError,
    },
    /// A small text file (history, backup) that is none.
    #[error("\"{}\" is not what its name says: {reason}", .file.display())]
    Contents {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// A name that no file of the log has.
    #[error("\"{name}\" is not the name of a WAL file")]
    Name {
        /// The name.
        name: String,
    },
    /// A command failed, or was ended.
    #[error("archive command {ended}; the failed archive command was: {command}")]
    Command {
        /// How it ended.
        ended: Ended,
        /// The command, as it was run.
        command: String,
    },
    /// A command could not be built.
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    /// The archive can't be used as it is set up.
    #[error("{0}")]
    Configuration(String),
    /// A module's own reason.
    #[error("module {module} could not archive \"{file}\": {reason}")]
    Module {
        /// Its name.
        module: &'static str,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
    /// Something is wrong with an archive.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was told to stop in the midst of it.
    #[error("archiving \"{}\" was interrupted by a stop", .file.display())]
    Stopped {
        /// The file.
        file: PathBuf,
    },
    /// The marks of archived files could not be made durable. If a sync of `archive_status` failed
    /// it is not tried again, and nothing more is acknowledged: the process must stop, and archives
    /// again what is not known to be archived.
    #[error("could not make the archive status in \"{}\" durable: {source}", .dir.display())]
    Status {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: AioError,
    },
}

/// Results of this crate.
pub type Result<T, E = ArchiveError> = std::result::Result<T, E>;

impl ArchiveError {
    /// For [`Result::map_err`]: a refusal by the system.
    pub fn io(operation: &'static str, file: &Path) -> impl FnOnce(AioError) -> ArchiveError {
        move |source| ArchiveError::Io { operation, file: file.to_path_buf(), source }
    }

    /// The process must not go on: durability is unknown.
    pub fn is_fatal(&self) -> bool {
        matches!(self, ArchiveError::Status { source, .. } if source.is_failed_sync())
    }

    /// The archiver takes a rest and begins anew, as PostgreSQL's process would end and be started
    /// again: a command was killed, or could not be run at all.
    pub fn ends_archiver(&self) -> bool {
        matches!(self, ArchiveError::Command { ended, .. } if ended.is_fatal())
    }

    /// There is no room, or no more of it for us.
    pub fn is_full(&self) -> bool {
        let full: [Errno; 2] = [Errno::NOSPC, rustix::io::Errno::DQUOT.into()];
        matches!(self, ArchiveError::Io { source, .. } if source.errno().is_some_and(|e| full.contains(&e)))
    }

    /// It was interrupted; it is no failure.
    pub fn is_stop(&self) -> bool {
        matches!(
            self,
            ArchiveError::Stopped { .. } | ArchiveError::Store(StoreError::Stopped { .. })
        )
    }
}
