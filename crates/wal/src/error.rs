//! The errors of the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{AioError, Errno};
use forebay_format::{Lsn, timeline::HistoryError, wal::Rmgr};

/// The failure that ended a log. Every later call on that log returns it.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "could not {operation} WAL file \"{}\" at offset {offset}, length {len}: {source}",
    .file.display()
)]
pub struct FatalError {
    /// The segment file, or the directory of a failed directory sync.
    pub file: PathBuf,
    /// "write", "sync", or "insert into".
    pub operation: &'static str,
    /// Offset in the file; 0 for a sync.
    pub offset: u64,
    /// Bytes of the failed operation; 0 for a sync.
    pub len: u64,
    /// The system's error.
    pub source: Arc<AioError>,
}

/// An error of the writing side of the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WalError {
    /// WAL could not be written or synced. It is unknown what is on disk since the last
    /// acknowledged flush, and nothing more is acknowledged: the process must stop and recover.
    #[error("{0}")]
    Fatal(Arc<FatalError>),
    /// The log's owner has stopped it ([`Wal::stop`](crate::Wal::stop)) after another failure after
    /// which nothing may become durable.
    #[error("the write-ahead log was stopped: {0}")]
    Stopped(Arc<str>),
    /// The disk has no room for another segment. Nothing was inserted; the operation can be
    /// repeated once there is room.
    #[error("could not create WAL segment \"{}\": no space left on device", .file.display())]
    NoSpace {
        /// The file that could not be made.
        file: PathBuf,
    },
    /// A segment could not be made, opened or recycled, for a reason other than room. Nothing was
    /// inserted.
    #[error("could not {operation} \"{}\": {source}", .file.display())]
    Segment {
        /// What failed: "open", "create", "remove" and the like.
        operation: &'static str,
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: Arc<AioError>,
    },
    /// A segment file is not as long as a segment.
    #[error("WAL segment \"{}\" has {found} bytes, expected {expected}", .file.display())]
    SegmentLength {
        /// The file.
        file: PathBuf,
        /// Bytes in a segment.
        expected: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// A record is too long or otherwise not valid in the format.
    #[error("WAL record of {rmgr} cannot be built: {reason}")]
    Record {
        /// Resource manager of the record.
        rmgr: Rmgr,
        /// What is wrong with it.
        reason: String,
    },
    /// A flush was requested beyond the end of the log: the page with this LSN is corrupt.
    #[error("WAL flush request {requested} is beyond the end of WAL at {end}")]
    BeyondEnd {
        /// The position requested.
        requested: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// The log cannot resume at the position: the position or the log around it is invalid.
    #[error("cannot resume WAL at {at}: {reason}")]
    Resume {
        /// The position.
        at: Lsn,
        /// What is wrong with it.
        reason: String,
    },
    /// A setting that this log cannot work with.
    #[error("{0}")]
    Config(String),
    /// Memory or I/O handles are exhausted.
    #[error("WAL needs I/O resources: {0}")]
    Resources(Arc<AioError>),
}

impl WalError {
    /// Whether the log has ended for this process, which must then stop.
    pub fn is_fatal(&self) -> bool {
        matches!(self, WalError::Fatal(_) | WalError::Stopped(_))
    }

    /// The system's error number, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            WalError::Fatal(fatal) => fatal.source.errno(),
            WalError::NoSpace { .. } => Some(Errno::NOSPC),
            WalError::Segment { source, .. } | WalError::Resources(source) => source.errno(),
            _ => None,
        }
    }

    /// An error while making or moving segment files: [`WalError::NoSpace`] if it says that.
    pub(crate) fn segment(operation: &'static str, file: &Path, source: AioError) -> WalError {
        if source.errno().is_some_and(|errno| errno == Errno::NOSPC || errno == QUOTA) {
            WalError::NoSpace { file: file.to_owned() }
        } else {
            WalError::Segment { operation, file: file.to_owned(), source: Arc::new(source) }
        }
    }
}

impl From<AioError> for WalError {
    /// For errors that concern no file of the log: memory, handles.
    fn from(source: AioError) -> WalError {
        WalError::Resources(Arc::new(source))
    }
}

/// EDQUOT: the owner's disk quota is used up.
const QUOTA: Errno = Errno(122);

/// Why a file could not be fetched. The archive may have it or not.
pub type FetchFailure = Box<dyn std::error::Error + Send + Sync>;

/// An error of the reading side: the log could not be read, or is not the log that was requested.
/// It says nothing about where the log ends.
#[derive(Debug, thiserror::Error)]
pub enum WalReadError {
    /// The system reported an error.
    #[error(
        "could not {operation} WAL file \"{}\" at offset {offset}, LSN {at}: {source}",
        .file.display()
    )]
    Io {
        /// "open", "examine", "read" or "list".
        operation: &'static str,
        /// The segment or history file, or the directory.
        file: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The position in the log.
        at: Lsn,
        /// The system's error.
        source: Box<AioError>,
    },
    /// A segment file is not as long as a segment.
    #[error(
        "WAL segment \"{}\" has {found} bytes, expected {expected}: \
         the log can't be read at LSN {at}",
        .file.display()
    )]
    Length {
        /// The file.
        file: PathBuf,
        /// Bytes in a segment.
        expected: u64,
        /// Bytes in the file.
        found: u64,
        /// Where the log was to be read.
        at: Lsn,
    },
    /// A segment of another cluster.
    #[error(
        "WAL segment \"{}\" is from a different database system: its identifier is {found}, \
         not {expected}; the log can't be read at LSN {at}",
        .file.display()
    )]
    ForeignSystem {
        /// The file.
        file: PathBuf,
        /// The cluster's identifier.
        expected: u64,
        /// The segment's.
        found: u64,
        /// Where the log was to be read.
        at: Lsn,
    },
    /// The log seems to end, but continues in a later segment.
    #[error(
        "WAL is damaged or missing at LSN {at} in file \"{}\": {reason}; \
         but the log goes on in \"{}\"",
        .file.display(), .later.display()
    )]
    Gap {
        /// Where nothing valid was found.
        at: Lsn,
        /// The segment that holds, or should hold, that position.
        file: PathBuf,
        /// What is wrong there.
        reason: String,
        /// The later segment, which was written to.
        later: PathBuf,
    },
    /// A segment could not be fetched, and it is not certain that it does not exist.
    #[error("could not get WAL file \"{}\", wanted at LSN {at}: {source}", .file.display())]
    Fetch {
        /// The file to be made from it.
        file: PathBuf,
        /// Where the log was to be read.
        at: Lsn,
        /// The reason.
        source: FetchFailure,
    },
    /// A history file is not valid.
    #[error("timeline history file \"{}\" is damaged: {source}", .file.display())]
    History {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: HistoryError,
    },
}

impl WalReadError {
    /// An error of the system at the position `at`.
    pub(crate) fn io(
        operation: &'static str,
        file: PathBuf,
        offset: u64,
        at: Lsn,
        source: AioError,
    ) -> WalReadError {
        WalReadError::Io { operation, file, offset, at, source: Box::new(source) }
    }

    /// True if the log is damaged; false if it could not be read.
    pub fn is_damage(&self) -> bool {
        !matches!(self, WalReadError::Io { .. } | WalReadError::Fetch { .. })
    }
}
