//! [`ArchiveError`]: what can go wrong between a cluster and its archive.

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_aio::{AioError, Errno};
use forebay_format::Lsn;
use forebay_format::control::ControlError;
use forebay_format::timeline::HistoryError;
use forebay_format::wal::page_header::PageHeaderError;

use crate::digest::Digest;
use crate::shell::{Ended, PlaceholderError};

/// An error of this crate. Each names the file and the operation. A file of an archive is named as
/// the archive names it: by its path or its URL.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// A system call failed in the middle of a larger operation.
    #[error("could not {operation} \"{}\": {source}", .file.display())]
    Io {
        /// The larger operation: "archive", "store", "list".
        operation: &'static str,
        /// The file or directory.
        file: PathBuf,
        /// The failed call, with the path that it concerned.
        source: AioError,
    },
    /// A system call failed; the error itself names the file and the operation.
    #[error(transparent)]
    Aio(#[from] AioError),
    /// An object store, or archiverd's socket, refused an operation or could not be reached.
    #[error("could not {operation} \"{file}\": {reason}")]
    Store {
        /// The operation: "store", "read", "bind".
        operation: &'static str,
        /// The object or socket.
        file: String,
        /// The reason that was given.
        reason: String,
    },
    /// Compression or encryption failed.
    #[error("could not {operation}: {reason}")]
    Encode {
        /// The operation: "compress", "encrypt".
        operation: &'static str,
        /// The library's reason.
        reason: String,
    },
    /// The archive already has a file of this name, with other contents. Nothing was changed.
    #[error(
        "archive file \"{}\" already exists with different contents: {stored_len} bytes with \
         SHA-256 {stored} are stored, {offered_len} bytes with SHA-256 {offered} were to be \
         archived",
        .file.display()
    )]
    Different {
        /// The file in the archive.
        file: PathBuf,
        /// Hash of the stored contents.
        stored: Digest,
        /// Their length.
        stored_len: u64,
        /// Hash of the contents that were to be archived.
        offered: Digest,
        /// Their length.
        offered_len: u64,
    },
    /// The WAL file was recycled or removed.
    #[error("WAL file \"{}\" is gone", .file.display())]
    Vanished {
        /// The file.
        file: PathBuf,
    },
    /// The WAL file has several names, so it may be written to under another one.
    #[error(
        "WAL file \"{}\" has {links} links: it is not archived, because it may be changed under \
         another name",
        .file.display()
    )]
    Links {
        /// The file.
        file: PathBuf,
        /// How many names it has.
        links: u64,
    },
    /// The WAL file is a directory or a special file.
    #[error("\"{}\" is not a regular file", .file.display())]
    NotAFile {
        /// The file.
        file: PathBuf,
    },
    /// The WAL file has the wrong length.
    #[error("WAL file \"{}\" has {found} bytes, expected {expected}", .file.display())]
    Length {
        /// The file.
        file: PathBuf,
        /// The expected length.
        expected: u64,
        /// Its length.
        found: u64,
    },
    /// The first page of the WAL file does not belong to a file of this name.
    #[error("WAL file \"{}\" does not match its name: {source}", .file.display())]
    Header {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: PageHeaderError,
    },
    /// The WAL file belongs to another timeline than its name says.
    #[error(
        "WAL file \"{}\" does not match its name: it is of timeline {found}, not {expected}{note}",
        .file.display()
    )]
    Timeline {
        /// The file.
        file: PathBuf,
        /// The timeline of the name.
        expected: u32,
        /// The timeline of the first page.
        found: u32,
        /// A clause that explains it, or nothing.
        note: &'static str,
    },
    /// A history file can't be parsed.
    #[error("history file \"{}\" is damaged: {source}", .file.display())]
    History {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: HistoryError,
    },
    /// A file of the log has contents that its name does not announce.
    #[error("\"{}\" does not match its name: {reason}", .file.display())]
    Contents {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// This is not the name of a file of the log.
    #[error("\"{name}\" is not the name of a WAL file")]
    Name {
        /// The name.
        name: String,
    },
    /// The archive command failed or was killed.
    #[error("archive command {ended}; the failed archive command was: {command}")]
    Command {
        /// How it ended.
        ended: Ended,
        /// The command, with its placeholders replaced.
        command: String,
    },
    /// A command has an invalid placeholder.
    #[error(transparent)]
    Placeholder(#[from] PlaceholderError),
    /// The request or the configuration is invalid; nothing was done.
    #[error("{0}")]
    Refused(String),
    /// An archive module failed.
    #[error("module {module} could not archive \"{file}\": {reason}")]
    Module {
        /// The module's name.
        module: &'static str,
        /// The file.
        file: String,
        /// The module's reason.
        reason: String,
    },
    /// A stop interrupted the operation.
    #[error("{operation} \"{file}\" was interrupted by a stop")]
    Stopped {
        /// The operation: "archiving", "waiting for".
        operation: &'static str,
        /// The file.
        file: String,
    },
    /// The status files of archived segments could not be made durable. If a sync of
    /// `archive_status` failed, it is never retried and nothing more is acknowledged: the process
    /// must stop. After a restart, every file is archived again that is not known to be archived.
    #[error("could not make the archive status in \"{}\" durable: {source}", .dir.display())]
    Status {
        /// The directory.
        dir: PathBuf,
        /// The failed call.
        source: AioError,
    },
    /// A manifest, or an archive's marker file, can't be parsed.
    #[error("\"{file}\" is not a valid manifest: {source}")]
    Manifest {
        /// The file.
        file: String,
        /// What is wrong.
        source: ManifestError,
    },
    /// A stored file does not match its manifest or its name.
    #[error("file \"{file}\" is damaged: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The manifest is there, but its file is not.
    #[error("archive file \"{file}\" is missing, though its manifest is there")]
    Missing {
        /// The file.
        file: String,
    },
    /// There is no archive at this location, so nothing is known about what it holds.
    #[error("there is no archive at \"{location}\": {reason}")]
    NoArchive {
        /// The location.
        location: String,
        /// Why it is not an archive.
        reason: String,
    },
    /// The archive has another layout than the one that was asked for.
    #[error("the archive at \"{location}\" has the layout \"{found}\", not \"{wanted}\"")]
    OtherLayout {
        /// The location.
        location: String,
        /// The archive's layout.
        found: &'static str,
        /// The layout that was asked for.
        wanted: &'static str,
    },
    /// The archive holds the WAL of another cluster.
    #[error(
        "the archive at \"{location}\" holds the WAL of database system {expected}; \"{file}\" \
         is of {found}"
    )]
    OtherSystem {
        /// The location.
        location: String,
        /// System identifier of the archive.
        expected: u64,
        /// The file that was to be archived or restored.
        file: String,
        /// Its system identifier.
        found: u64,
    },
    /// The file is encrypted, and no key was given.
    #[error(
        "archive file \"{file}\" is encrypted{}, and no key was given",
        .key.as_ref().map_or_else(String::new, |key| format!(" with key {key}"))
    )]
    NoKey {
        /// The file.
        file: String,
        /// Id of the key that it needs, if known.
        key: Option<String>,
    },
    /// The file is encrypted or authenticated with another key.
    #[error("archive file \"{file}\" is encrypted with key {needed}, not {given}")]
    OtherKey {
        /// The file.
        file: String,
        /// Id of the key that it needs.
        needed: String,
        /// Id of the key that was given.
        given: String,
    },
    /// A key was given, but the file was stored without one.
    #[error(
        "archive file \"{file}\" is not {lacks}, though a key was given: anybody could have \
         stored it"
    )]
    Unsealed {
        /// The file.
        file: String,
        /// What it is not: "encrypted" or "authenticated".
        lacks: &'static str,
    },
    /// The authentication tag of a manifest does not match its contents.
    #[error("archive file \"{file}\" was forged or changed: its authentication does not match")]
    Forged {
        /// The file.
        file: String,
    },
    /// The WAL to be removed is needed by a base backup.
    #[error("WAL from {first} on is needed by base backup \"{backup}\": nothing was removed")]
    Needed {
        /// The first segment that the backup needs.
        first: String,
        /// The backup.
        backup: String,
    },
    /// pg_control can't be used.
    #[error("could not use file \"{}\": {source}", .file.display())]
    Control {
        /// The file.
        file: PathBuf,
        /// The reason.
        source: ControlError,
    },
    /// Pages are damaged, so the backup was discarded.
    #[error("{first} ({count} damaged pages in all)")]
    DamagedPages {
        /// The first of them.
        first: Box<DamagedPage>,
        /// How many there are.
        count: u64,
    },
    /// The server that is backed up reported an error.
    #[error("{operation} failed: {message}")]
    Server {
        /// The call or query.
        operation: &'static str,
        /// The server's message.
        message: String,
    },
    /// WAL that the backup needs is gone.
    #[error("WAL segment \"{}\", which the backup needs, is gone: {reason}", .file.display())]
    WalGone {
        /// The segment.
        file: PathBuf,
        /// What happened to it, or what could keep it.
        reason: &'static str,
    },
    /// A thread that copied files panicked.
    #[error("a thread that copied files ended unexpectedly")]
    Worker,
}

/// A result of this crate.
pub type Result<T, E = ArchiveError> = std::result::Result<T, E>;

impl ArchiveError {
    /// For [`Result::map_err`]: the operation on `file` that a system call failed in.
    pub(crate) fn io(
        operation: &'static str,
        file: &Path,
    ) -> impl FnOnce(AioError) -> ArchiveError {
        move |source| ArchiveError::Io { operation, file: file.to_path_buf(), source }
    }

    /// A file is not what it should be. `file` is its path or URL.
    pub(crate) fn damaged(file: impl fmt::Display, reason: impl Into<String>) -> ArchiveError {
        ArchiveError::Damaged { file: file.to_string(), reason: reason.into() }
    }

    /// A request is invalid.
    pub(crate) fn refused(reason: impl Into<String>) -> ArchiveError {
        ArchiveError::Refused(reason.into())
    }

    /// A stop interrupted the archiving of `file`.
    pub(crate) fn stopped(file: &Path) -> ArchiveError {
        ArchiveError::Stopped { operation: "archiving", file: file.display().to_string() }
    }

    /// Whether the process must not go on, because durability is unknown.
    pub fn is_fatal(&self) -> bool {
        matches!(self, ArchiveError::Status { source, .. } if source.is_failed_sync())
    }

    /// Whether the archiver pauses and then starts anew, as PostgreSQL's process would exit and be
    /// restarted: a command was killed, or could not be run at all.
    pub(crate) fn ends_archiver(&self) -> bool {
        matches!(self, ArchiveError::Command { ended, .. } if ended.is_fatal())
    }

    /// Whether the file system or a quota is full.
    pub fn is_full(&self) -> bool {
        let full: [Errno; 2] = [Errno::NOSPC, rustix::io::Errno::DQUOT.into()];
        match self {
            ArchiveError::Io { source, .. } | ArchiveError::Aio(source) => {
                source.errno().is_some_and(|errno| full.contains(&errno))
            }
            _ => false,
        }
    }

    /// Whether a stop caused it, so that it is no failure.
    pub fn is_stop(&self) -> bool {
        matches!(self, ArchiveError::Stopped { .. })
    }
}

/// Why a manifest can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It begins with something else.
    #[error("it does not begin with \"{0}\"")]
    OtherKind(&'static str),
    /// Its own checksum is missing or wrong.
    #[error("its checksum does not match: it is cut off or damaged")]
    Check,
    /// A line has no colon.
    #[error("line {0} says nothing")]
    Line(usize),
    /// A required entry is missing.
    #[error("it does not say its \"{0}\"")]
    Missing(&'static str),
    /// An entry has an invalid value.
    #[error("it has the invalid {word} \"{value}\"")]
    Invalid {
        /// The entry.
        word: &'static str,
        /// Its value.
        value: String,
    },
    /// It is not the JSON text that it should be.
    #[error("{0}")]
    Syntax(String),
}

impl ManifestError {
    pub(crate) fn syntax(reason: impl Into<String>) -> ManifestError {
        ManifestError::Syntax(reason.into())
    }
}

/// A page with a wrong checksum that nobody was writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPage {
    /// The file, relative to the data directory.
    pub path: PathBuf,
    /// The block number in the relation.
    pub block: u32,
    /// The checksum that its bytes have.
    pub calculated: u16,
    /// The checksum that is stored in it.
    pub found: u16,
    /// The page's LSN.
    pub lsn: Lsn,
}

impl fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, block) = (self.path.display(), self.block);
        write!(
            f,
            "checksum verification failed in file \"{path}\", block {block}: calculated {:X} \
             but expected {:X}",
            self.calculated, self.found
        )
    }
}
