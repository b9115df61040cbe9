//! What can go wrong in the log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{AioError, Errno};
use forebay_format::{Lsn, timeline::HistoryError, wal::Rmgr};

/// The failure that ended a log. Every later call on that log returns it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("could not {operation} WAL file \"{}\" at offset {offset}, length {len}: {source}", .file.display())]
pub struct FatalError {
    /// The segment file, or the directory of a failed directory sync.
    pub file: PathBuf,
    /// "write", "sync", or "insert into".
    pub operation: &'static str,
    /// Offset in the file; 0 for a sync.
    pub offset: u64,
    /// Bytes of the failed operation; 0 for a sync.
    pub len: u64,
    /// What the system said.
    pub source: Arc<AioError>,
}

/// An error of the writing side of the log.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WalError {
    /// WAL could not be written or synced. Nothing since the last acknowledged flush may be trusted
    /// to be on disk, and nothing is acknowledged any more: the process must stop and recover.
    #[error("{0}")]
    Fatal(Arc<FatalError>),
    /// Whoever the log belongs to has stopped it: something else has failed after which nothing may
    /// become durable.
    #[error("the write-ahead log was stopped: {0}")]
    Stopped(Arc<str>),
    /// There is no room for another segment. Nothing was inserted; the log goes on once there is
    /// room.
    #[error("could not create WAL segment \"{}\": no space left on device", .file.display())]
    NoSpace {
        /// The file that was being made.
        file: PathBuf,
    },
    /// A segment could not be made, opened or recycled for another reason than room. Nothing was
    /// inserted.
    #[error("could not {operation} \"{}\": {source}", .file.display())]
    Segment {
        /// What was tried.
        operation: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
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
    /// A record that is longer than the format allows, or that the format cannot express.
    #[error("WAL record of {rmgr} cannot be built: {reason}")]
    Record {
        /// Resource manager of the record.
        rmgr: Rmgr,
        /// What is wrong with it.
        reason: String,
    },
    /// A flush was asked for beyond the end of the log: the page that carries this LSN is corrupt.
    #[error("WAL flush request {requested} is beyond the end of WAL at {end}")]
    BeyondEnd {
        /// What was asked for.
        requested: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// The position to go on from is impossible, or the log around it is not what it should be.
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
    /// Memory or I/O handles were not to be had.
    #[error("WAL needs I/O resources: {0}")]
    Resources(Arc<AioError>),
}

impl WalError {
    /// True if the log is lost to this process, which must stop.
    pub fn is_fatal(&self) -> bool {
        matches!(self, WalError::Fatal(_) | WalError::Stopped(_))
    }

    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            WalError::Fatal(fatal) => fatal.source.errno(),
            WalError::NoSpace { .. } => Some(Errno::NOSPC),
            WalError::Segment { source, .. } | WalError::Resources(source) => source.errno(),
            _ => None,
        }
    }

    /// An error while making or moving segment files: room is told from the rest.
    pub(crate) fn segment(operation: &'static str, file: &Path, source: AioError) -> WalError {
        if source.errno().is_some_and(|errno| errno == Errno::NOSPC || errno == QUOTA) {
            WalError::NoSpace { file: file.to_owned() }
        } else {
            WalError::Segment { operation, file: file.to_owned(), source: Arc::new(source) }
        }
    }
}

impl From<AioError> for WalError {
    /// For what is not about a file of the log: memory, handles.
    fn from(source: AioError) -> WalError {
        WalError::Resources(Arc::new(source))
    }
}

/// EDQUOT: the owner's quota is used up, which is a want of room too.
const QUOTA: Errno = Errno(122);

/// An error of the reading side: the log could not be read, or is not the log that was asked for.
/// It says nothing about where the log ends.
#[derive(Debug, thiserror::Error)]
pub enum WalReadError {
    /// The system refused.
    #[error("could not {operation} WAL file \"{}\" at offset {offset}, LSN {at}: {source}", .file.display())]
    Io {
        /// "open", "examine", "read" or "list".
        operation: &'static str,
        /// The segment or history file, or the directory.
        file: PathBuf,
        /// Offset in the file.
        offset: u64,
        /// The position in the log.
        at: Lsn,
        /// What the system said.
        source: Box<AioError>,
    },
    /// A segment file is not as long as a segment.
    #[error("WAL segment \"{}\" has {found} bytes, expected {expected}: the log can't be read at LSN {at}", .file.display())]
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
        "WAL segment \"{}\" is from a different database system: its identifier is {found}, not {expected}; the log can't be \
         read at LSN {at}",
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
    /// The log goes on in later segments than the one where it seems to end.
    #[error(
        "WAL is damaged or missing at LSN {at} in file \"{}\": {reason}; but the log goes on in \"{}\"",
        .file.display(), .later.display()
    )]
    Gap {
        /// Where nothing valid was found.
        at: Lsn,
        /// The segment that holds, or should hold, that position.
        file: PathBuf,
        /// What is wrong there.
        reason: String,
        /// A later segment that was written to.
        later: PathBuf,
    },
    /// A segment could not be brought from where it is kept: that it is not there has not been
    /// proven.
    #[error("could not get WAL file \"{}\", wanted at LSN {at}: {source}", .file.display())]
    Fetch {
        /// Where it was to be put.
        file: PathBuf,
        /// Where the log was to be read.
        at: Lsn,
        /// What was in the way.
        source: crate::reader::FetchFailure,
    },
    /// A history file makes no sense.
    #[error("timeline history file \"{}\" is damaged: {source}", .file.display())]
    History {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: HistoryError,
    },
}

impl WalReadError {
    /// True if what was read is wrong; false if it could not be read.
    pub fn is_damage(&self) -> bool {
        !matches!(self, WalReadError::Io { .. } | WalReadError::Fetch { .. })
    }
}
