//! Errors of this crate: each names the path, the operation and the system's error number.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::direct::DirectRefusal;
use crate::method::IoUringRefusal;
use crate::op::OpKind;

/// A system error number, shown as the system's own text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Input/output error.
    pub const IO: Errno = Errno(libc::EIO);
    /// No such file or directory.
    pub const NOENT: Errno = Errno(libc::ENOENT);
    /// Permission denied.
    pub const ACCES: Errno = Errno(libc::EACCES);
    /// Not a directory.
    pub const NOTDIR: Errno = Errno(libc::ENOTDIR);
    /// File exists.
    pub const EXIST: Errno = Errno(libc::EEXIST);
    /// Interrupted system call.
    pub const INTR: Errno = Errno(libc::EINTR);
    /// Resource temporarily unavailable.
    pub const AGAIN: Errno = Errno(libc::EAGAIN);
    /// Invalid argument.
    pub const INVAL: Errno = Errno(libc::EINVAL);
    /// Operation cancelled.
    pub const CANCELED: Errno = Errno(libc::ECANCELED);
    /// Bad file descriptor.
    pub const BADF: Errno = Errno(libc::EBADF);
    /// No space left on device.
    pub const NOSPC: Errno = Errno(libc::ENOSPC);
    /// Too many open files, in the whole system.
    pub const NFILE: Errno = Errno(libc::ENFILE);
    /// Too many open files.
    pub const MFILE: Errno = Errno(libc::EMFILE);
    /// Out of memory.
    pub const NOMEM: Errno = Errno(libc::ENOMEM);
    /// Function not implemented.
    pub const NOSYS: Errno = Errno(libc::ENOSYS);
    /// Operation not supported.
    pub const OPNOTSUPP: Errno = Errno(libc::EOPNOTSUPP);

    /// The error number of the last system call of this thread.
    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Errno {
        Errno(e.raw_os_error())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The standard library appends " (os error N)"; PostgreSQL's %m does not.
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        let end = text.rfind(" (os error").unwrap_or(text.len());
        f.write_str(&text[..end])
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({}: {self})", self.0)
    }
}

/// What can go wrong at the door to the disk.
#[derive(Debug, thiserror::Error)]
pub enum AioError {
    /// A call on a path or a file failed; `action` reads like "open file".
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
    /// Fewer bytes than asked for were there (end of file).
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
    /// The transfer succeeded, but its completion refused what was transferred (a checksum, say).
    #[error("{} of {target} completed with an error (detail {detail:#x})", op.verb())]
    Rejected {
        /// What was done.
        op: OpKind,
        /// The I/O's own description of its target.
        target: String,
        /// The file.
        path: PathBuf,
        /// The completion's own word on it.
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
    /// A resource other than a file was refused: memory, a thread.
    #[error("could not {action}: {errno}")]
    Resource {
        /// What was attempted: "map 1048576 bytes of I/O memory".
        action: String,
        /// The system's reason.
        errno: Errno,
    },
    /// A call out of its order: a mistake of the caller's.
    #[error("{0}")]
    Misuse(&'static str),
    /// A setting out of its range.
    #[error("{0}")]
    Config(String),
}

impl AioError {
    /// What a namespace attempts when it syncs a file that is open.
    pub const SYNC_FILE: &'static str = "fsync file";
    /// What a namespace attempts when it syncs a directory that it could open.
    pub const SYNC_DIRECTORY: &'static str = "fsync directory";

    /// The report of an I/O is gone: whoever asks will never know how it ended.
    pub(crate) fn lost_report() -> AioError {
        AioError::Resource { action: "learn how an I/O ended".to_owned(), errno: Errno::CANCELED }
    }

    /// A sync failed: what it was to make durable may be lost, and a second one would not tell. A
    /// file or directory that could not be opened for its sync is not meant: nothing was asked of
    /// the disk, and it can be tried again.
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

    /// The system's error number, where there is one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            AioError::Os { errno, .. }
            | AioError::Io { errno, .. }
            | AioError::Resource { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The path concerned, where there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            AioError::Os { path, .. }
            | AioError::Io { path, .. }
            | AioError::Short { path, .. }
            | AioError::Rejected { path, .. } => Some(path),
            _ => None,
        }
    }

    /// The file or directory was not there.
    pub fn is_not_found(&self) -> bool {
        self.errno() == Some(Errno::NOENT)
    }
}
