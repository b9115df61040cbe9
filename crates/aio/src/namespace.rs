//! Names: open, create, rename, unlink, list, stat, sync of a file or a directory.
//!
//! [`PosixNamespace`] is the operating system's. A simulated disk brings its own, together with its
//! own method.

use crate::sync::SystemTime;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::AioError;
use crate::file::{File, OpenOptions};

mod posix;

pub use posix::PosixNamespace;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link (only [`Namespace::list`] shows it; [`Namespace::stat`] follows it).
    Symlink,
    /// Anything else.
    Other,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Name without the directory.
    pub name: OsString,
    /// Kind.
    pub kind: FileKind,
}

/// Facts about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Kind.
    pub kind: FileKind,
    /// Bytes.
    pub len: u64,
    /// Names it has.
    pub links: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Last modification.
    pub modified: SystemTime,
    /// Last change of contents, names or properties; unlike `modified`, nobody can set it.
    pub changed: SystemTime,
}

/// The half of the door that deals in names. Calls are synchronous; none is retried after a failed
/// sync.
pub trait Namespace: Send + Sync {
    /// Opens a file; a new file gets mode 0600.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError>;
    /// Makes a directory with mode 0700.
    fn mkdir(&self, path: &Path) -> Result<(), AioError>;
    /// Renames, replacing what is there.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError>;
    /// Renames; fails with EEXIST where something is there.
    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError>;
    /// Removes a file's name.
    fn unlink(&self, path: &Path) -> Result<(), AioError>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &Path) -> Result<(), AioError>;
    /// Makes a symbolic link to `target`. EOPNOTSUPP where there are none.
    fn symlink(&self, target: &Path, path: &Path) -> Result<(), AioError> {
        let _ = target;
        Err(AioError::os("create symbolic link", path, crate::error::Errno::OPNOTSUPP))
    }
    /// Where a symbolic link leads. EOPNOTSUPP where there are none.
    fn read_link(&self, path: &Path) -> Result<PathBuf, AioError> {
        Err(AioError::os("read symbolic link", path, crate::error::Errno::OPNOTSUPP))
    }
    /// How many names the file has.
    fn link_count(&self, path: &Path) -> Result<u64, AioError>;
    /// The names in a directory, without "." and "..", in no order.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError>;
    /// Facts; None where nothing is there.
    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError>;
    /// Bytes in an open file.
    fn file_len(&self, file: &File) -> Result<u64, AioError>;
    /// Cuts or extends (with a hole of zeros).
    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError>;
    /// Allocates blocks that read as zeros, extending the file. EOPNOTSUPP where the file system
    /// can't.
    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError>;
    /// Sets space aside without changing the file's length, so that [`Self::set_len`] can't lack
    /// it. May do nothing.
    fn reserve(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        let _ = (file, offset, len);
        Ok(())
    }
    /// Makes a file's data and metadata durable.
    fn sync_file(&self, file: &File) -> Result<(), AioError>;
    /// Lets the kernel forget what it caches of a file. After a failed sync, pages stay there as
    /// clean that never reached the disk; what is read after this comes from the disk. Call it on
    /// synced files.
    fn forget_cached(&self, file: &File) -> Result<(), AioError> {
        let _ = file;
        Ok(())
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> Result<(), AioError>;
    /// Makes everything durable that is on the file system of this path. EOPNOTSUPP where the
    /// system has no such call.
    fn sync_file_system(&self, path: &Path) -> Result<(), AioError> {
        Err(AioError::os("synchronize file system for file", path, crate::error::Errno::OPNOTSUPP))
    }
    /// Takes an exclusive advisory lock, held until the file closes here, whoever has inherited it.
    /// False: someone else has it.
    fn try_lock(&self, file: &File) -> Result<bool, AioError>;
    /// Can files of this directory be opened for direct I/O, and at which alignment?
    fn probe_direct(
        &self,
        dir: &Path,
    ) -> Result<crate::direct::DirectAlignment, crate::direct::DirectRefusal>;

    /// Something is there.
    fn exists(&self, path: &Path) -> Result<bool, AioError> {
        Ok(self.stat(path)?.is_some())
    }
}
