//! [`AioError`]: errors name the path, the operation and the system's error number.

use std::path::{Path, PathBuf};

pub use crate::errno::Errno;
use crate::op::OpKind;
use crate::refusal::{DirectRefusal, IoUringRefusal};

/// What can go wrong in the I/O layer.
#[derive(Debug, thiserror::Error)]
pub enum AioError {
    /// A call on a path or a file failed. `action` reads like "open file".
    #[error("could not {action} \"{}\": {errno}", path.display())]
    Os {
        /// What was attempted: "open file", "rename file", ...
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
    /// An asynchronous I/O failed.
    #[error("could not {} {target}: {errno}", op.verb())]
    Io {
        /// What was attempted.
        op: OpKind,
        /// The I/O's own description of its target.
        target: String,
        /// The file.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// Bytes concerned.
        len: u64,
        /// The system's reason.
        errno: Errno,
    },
    /// The file ended before all bytes were transferred.
    #[error("could not {} {target}: {} only {got} of {expected} bytes", op.verb(), op.past())]
    Short {
        /// What was attempted.
        op: OpKind,
        /// The I/O's own description of its target.
        target: String,
        /// The file.
        path: PathBuf,
        /// First byte.
        offset: u64,
        /// Bytes transferred.
        got: usize,
        /// Bytes asked for.
        expected: usize,
    },
    /// The transfer succeeded, but a completion rejected the bytes (for a checksum, say).
    #[error("{} of {target} completed with an error (detail {detail:#x})", op.verb())]
    Rejected {
        /// What was done.
        op: OpKind,
        /// The I/O's own description of its target.
        target: String,
        /// The file.
        path: PathBuf,
        /// Detail from the completion.
        detail: u64,
    },
    /// io_uring can't be used here.
    #[error("{0}")]
    IoUring(#[from] IoUringRefusal),
    /// Direct I/O can't be used here.
    #[error("{0}")]
    Direct(#[from] DirectRefusal),
    /// All backend slots are taken.
    #[error("too many backends do I/O already: the limit is {max}")]
    TooManyBackends {
        /// The limit.
        max: usize,
    },
    /// A resource other than a file was refused, such as memory or a thread.
    #[error("could not {action}: {errno}")]
    Resource {
        /// What was attempted: "map 1048576 bytes of I/O memory".
        action: String,
        /// The system's reason.
        errno: Errno,
    },
    /// A call out of order: a mistake of the caller.
    #[error("{0}")]
    Misuse(&'static str),
    /// A setting is out of its range.
    #[error("{0}")]
    Config(String),
}

impl AioError {
    /// The action of a failed sync of an open file.
    pub const SYNC_FILE: &'static str = "fsync file";
    /// The action of a failed sync of an open directory.
    pub const SYNC_DIRECTORY: &'static str = "fsync directory";

    /// Nobody knows how an I/O ended, because its report is gone.
    pub(crate) fn lost_report() -> AioError {
        AioError::Resource { action: "learn how an I/O ended".to_owned(), errno: Errno::CANCELED }
    }

    /// Whether a sync failed. What it was to make durable may be lost, and a second sync would not
    /// tell. A file that could not be opened for its sync is not meant: nothing was asked of the
    /// disk, and the caller may try again.
    pub fn is_failed_sync(&self) -> bool {
        match self {
            AioError::Os { action, .. } => {
                [AioError::SYNC_FILE, AioError::SYNC_DIRECTORY].contains(action)
            }
            AioError::Io { op, .. } => matches!(op, OpKind::Fsync | OpKind::Fdatasync),
            _ => false,
        }
    }

    /// A failed call on a path.
    pub fn os(action: &'static str, path: &Path, errno: impl Into<Errno>) -> AioError {
        AioError::Os { action, path: path.to_path_buf(), errno: errno.into() }
    }

    /// The system's error number, if there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            AioError::Os { errno, .. }
            | AioError::Io { errno, .. }
            | AioError::Resource { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The path concerned, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            AioError::Os { path, .. }
            | AioError::Io { path, .. }
            | AioError::Short { path, .. }
            | AioError::Rejected { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Whether the file or directory did not exist.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Some(Errno::NOENT)
    }
}

/// Looks for what may be missing.
pub trait IfFound<T> {
    /// None if the file or directory did not exist.
    fn if_found(self) -> Result<Option<T>, AioError>;
}

impl<T> IfFound<T> for Result<T, AioError> {
    fn if_found(self) -> Result<Option<T>, AioError> {
        match self {
            Err(error) if error.is_not_found() => Ok(None),
            done => done.map(Some),
        }
    }
}
