//! [`Namespace`]: opens, creates, renames, unlinks, lists and syncs files and directories.
//!
//! [`PosixNamespace`] is the operating system's, and [`DirectIfPossible`] the same where direct I/O
//! is a wish. A simulated disk brings its own, together with its own method.

use crate::sync::SystemTime;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::direct::DirectAlignment;
use crate::error::{AioError, Errno};
use crate::file::{File, OpenOptions};
use crate::refusal::DirectRefusal;

mod direct_if_possible;
mod posix;

pub use direct_if_possible::DirectIfPossible;
pub use posix::PosixNamespace;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. Only [`Namespace::list`] shows it; [`Namespace::stat`] follows it.
    Symlink,
    /// Anything else.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name without the directory.
    pub name: OsString,
    /// What it is.
    pub kind: FileKind,
}

/// Properties of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// What it is.
    pub kind: FileKind,
    /// Length in bytes.
    pub len: u64,
    /// How many names it has.
    pub links: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Last modification.
    pub modified: SystemTime,
    /// Last change of contents, names or properties. Unlike `modified` it can't be set.
    pub changed: SystemTime,
}

/// Opens and names files. Calls are synchronous, and none is repeated after a failed sync.
///
/// # Errors
/// All calls: [`AioError::Os`] with the path and the system's error number.
pub trait Namespace: Send + Sync {
    /// Opens a file. A new file gets mode 0600.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError>;
    /// Creates a directory with mode 0700.
    fn mkdir(&self, path: &Path) -> Result<(), AioError>;
    /// Renames a file, and replaces one of the new name.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError>;
    /// Renames a file. EEXIST if the new name exists.
    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError>;
    /// Removes a file's name.
    fn unlink(&self, path: &Path) -> Result<(), AioError>;
    /// Removes an empty directory.
    fn rmdir(&self, path: &Path) -> Result<(), AioError>;
    /// Creates a symbolic link to `target`. EOPNOTSUPP if links are not supported.
    fn symlink(&self, target: &Path, path: &Path) -> Result<(), AioError> {
        let _ = target;
        Err(AioError::os("create symbolic link", path, Errno::OPNOTSUPP))
    }
    /// The target of a symbolic link. EOPNOTSUPP if links are not supported.
    fn read_link(&self, path: &Path) -> Result<PathBuf, AioError> {
        Err(AioError::os("read symbolic link", path, Errno::OPNOTSUPP))
    }
    /// How many names the file has.
    fn link_count(&self, path: &Path) -> Result<u64, AioError>;
    /// The entries of a directory, without "." and "..", in no order.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError>;
    /// The properties of a file; None if it does not exist.
    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError>;
    /// The length of an open file, in bytes.
    fn file_len(&self, file: &File) -> Result<u64, AioError>;
    /// Truncates a file, or extends it with a hole of zeros.
    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError>;
    /// Allocates blocks that read as zeros, and extends the file. EOPNOTSUPP if the file system
    /// can't.
    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError>;
    /// Reserves space without changing the file's length, so that [`Self::set_len`] can't run out
    /// of it. May do nothing.
    fn reserve(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        let _ = (file, offset, len);
        Ok(())
    }
    /// Makes a file's data and metadata durable.
    fn sync_file(&self, file: &File) -> Result<(), AioError>;
    /// Drops the kernel's cached pages of a synced file. After a failed sync the kernel may keep
    /// pages as clean that never reached the disk; after this call, reads come from the disk.
    fn forget_cached(&self, file: &File) -> Result<(), AioError> {
        let _ = file;
        Ok(())
    }
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> Result<(), AioError>;
    /// Syncs the file system that holds `path`. EOPNOTSUPP if the system has no such call.
    fn sync_file_system(&self, path: &Path) -> Result<(), AioError> {
        Err(AioError::os("synchronize file system for file", path, Errno::OPNOTSUPP))
    }
    /// Takes an exclusive advisory lock. It is held until this process closes the file, even if
    /// another process has inherited it. False if another process has it.
    fn try_lock(&self, file: &File) -> Result<bool, AioError>;
    /// Whether files of this directory can be opened for direct I/O, and with which alignment.
    fn probe_direct(&self, dir: &Path) -> Result<DirectAlignment, DirectRefusal>;

    /// Whether the file exists.
    fn exists(&self, path: &Path) -> Result<bool, AioError> {
        Ok(self.stat(path)?.is_some())
    }
}
