//! [`Errno`]: the system's error numbers.

use std::fmt;

/// A system error number. It is shown as the system's text for it.
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

    /// The error number of this thread's last system call.
    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Whether the call may be repeated: it did nothing, as far as is known.
    pub(crate) fn is_repeatable(self) -> bool {
        matches!(self, Errno::INTR | Errno::AGAIN | Errno::CANCELED)
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
