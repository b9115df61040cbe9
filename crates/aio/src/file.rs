//! Open files.

use std::any::Any;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use crate::registration::Mark;
use crate::sync::Arc;
use crate::sync::atomic::Ordering::Relaxed;
use crate::sync::atomic::{AtomicBool, AtomicU32};

/// How to open a file. Descriptors are always close-on-exec; new files get mode 0600.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Create it if it does not exist.
    pub create: bool,
    /// Create it; an error if it exists.
    pub create_new: bool,
    /// Truncate it to no bytes.
    pub truncate: bool,
    /// Bypass the kernel's page cache.
    pub direct: bool,
    /// Each write is durable when it returns (O_DSYNC).
    pub dsync: bool,
    /// Each write is durable with all metadata when it returns (O_SYNC).
    pub sync: bool,
}

impl OpenOptions {
    /// Reading only.
    pub const READ: OpenOptions = OpenOptions {
        read: true,
        write: false,
        create: false,
        create_new: false,
        truncate: false,
        direct: false,
        dsync: false,
        sync: false,
    };
    /// Reading and writing.
    pub const READ_WRITE: OpenOptions = OpenOptions { write: true, ..OpenOptions::READ };

    /// With creation if it does not exist.
    pub const fn create(self) -> OpenOptions {
        OpenOptions { create: true, ..self }
    }
    /// With creation, failing if it exists.
    pub const fn create_new(self) -> OpenOptions {
        OpenOptions { create_new: true, ..self }
    }
    /// With truncation.
    pub const fn truncate(self) -> OpenOptions {
        OpenOptions { truncate: true, ..self }
    }
    /// Direct or not.
    pub const fn direct(self, direct: bool) -> OpenOptions {
        OpenOptions { direct, ..self }
    }
    /// O_DSYNC or not.
    pub const fn dsync(self, dsync: bool) -> OpenOptions {
        OpenOptions { dsync, ..self }
    }
    /// O_SYNC or not.
    pub const fn sync(self, sync: bool) -> OpenOptions {
        OpenOptions { sync, ..self }
    }
    /// The properties of the open file.
    pub const fn flags(self) -> FileFlags {
        FileFlags { direct: self.direct, dsync: self.dsync || self.sync }
    }
}

/// Properties of an open file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFlags {
    /// It bypasses the kernel's page cache.
    pub direct: bool,
    /// Each write is durable when it returns.
    pub dsync: bool,
}

enum Backing {
    Descriptor(OwnedFd),
    Object(Arc<dyn Any + Send + Sync>),
}

struct Inner {
    /// Dropped first, because a ring in which the file is registered would keep it open.
    mark: Mark,
    /// I/Os handed to a kernel that could register the file.
    uses: AtomicU32,
    /// An advisory lock is held through it.
    locked: AtomicBool,
    path: PathBuf,
    flags: FileFlags,
    backing: Backing,
}

impl Drop for Inner {
    /// Releases the lock with the file, even if a process that is being started has a copy of the
    /// descriptor.
    fn drop(&mut self) {
        if let (true, Backing::Descriptor(fd)) = (self.locked.load(Relaxed), &self.backing) {
            let _ = rustix::fs::flock(fd, rustix::fs::FlockOperation::Unlock);
        }
    }
}

/// An open file; a clone is the same open file. It closes when the last clone is dropped. An I/O in
/// flight holds a clone.
#[derive(Clone)]
pub struct File(Arc<Inner>);

impl File {
    fn new(path: PathBuf, flags: FileFlags, backing: Backing) -> File {
        let (uses, locked) = (AtomicU32::new(0), AtomicBool::new(false));
        File(Arc::new(Inner { mark: Mark::default(), uses, locked, path, flags, backing }))
    }

    /// Its registration with a method.
    #[cfg(target_os = "linux")]
    pub(crate) fn mark(&self) -> &Mark {
        &self.0.mark
    }

    /// Counts one use; returns the count before.
    #[cfg(target_os = "linux")]
    pub(crate) fn count_use(&self) -> u32 {
        self.0.uses.fetch_add(1, Relaxed)
    }

    /// An advisory lock was taken through it, to be released when it closes.
    pub(crate) fn set_locked(&self) {
        self.0.locked.store(true, Relaxed);
    }

    /// A file of the operating system.
    pub fn from_fd(path: PathBuf, flags: FileFlags, fd: OwnedFd) -> File {
        File::new(path, flags, Backing::Descriptor(fd))
    }

    /// A file of another namespace, such as a simulated disk. Only the method of that namespace can
    /// execute I/O on it.
    pub fn from_object(
        path: PathBuf,
        flags: FileFlags,
        object: Arc<dyn Any + Send + Sync>,
    ) -> File {
        File::new(path, flags, Backing::Object(object))
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether it was opened for direct I/O.
    pub fn is_direct(&self) -> bool {
        self.0.flags.direct
    }

    /// Whether it was opened with O_DSYNC or O_SYNC.
    pub fn is_dsync(&self) -> bool {
        self.0.flags.dsync
    }

    /// Whether both are the same open file, and not merely the same path.
    pub fn same(&self, other: &File) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// A number that identifies the open file.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// The descriptor, if it is a file of the operating system.
    pub fn raw_fd(&self) -> Option<RawFd> {
        match &self.0.backing {
            Backing::Descriptor(fd) => Some(fd.as_raw_fd()),
            Backing::Object(_) => None,
        }
    }

    /// The descriptor, borrowed, if it is a file of the operating system.
    pub fn borrow_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0.backing {
            Backing::Descriptor(fd) => Some(fd.as_fd()),
            Backing::Object(_) => None,
        }
    }

    /// The object, if it is a file of another namespace.
    pub fn object(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        match &self.0.backing {
            Backing::Descriptor(_) => None,
            Backing::Object(o) => Some(o),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.0.path)
            .field("flags", &self.0.flags)
            .field("fd", &self.raw_fd())
            .finish()
    }
}
