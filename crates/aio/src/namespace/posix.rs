//! The operating system's namespace.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno as Sys;

use super::{DirEntry, FileKind, FileStat, Namespace};
use crate::direct::{DirectAlignment, probe_direct, refused_at_open};
use crate::error::{AioError, Errno};
use crate::file::{File, OpenOptions};
use crate::platform;
use crate::refusal::DirectRefusal;
use crate::sync::{Duration, SystemTime};

/// The operating system's files. Relative paths are relative to the process's working directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixNamespace;

impl PosixNamespace {
    /// The namespace.
    pub fn new() -> PosixNamespace {
        PosixNamespace
    }
}

/// The descriptor of a file, or EBADF if it belongs to another namespace.
fn descriptor(file: &File) -> Result<BorrowedFd<'_>, Errno> {
    file.borrow_fd().ok_or(Errno::BADF)
}

/// Repeats a call that a signal interrupted before it did anything.
fn retry<T>(mut call: impl FnMut() -> Result<T, Sys>) -> Result<T, Sys> {
    loop {
        match call() {
            Err(Sys::INTR) => {}
            done => return done,
        }
    }
}

fn kind_of(t: FileType) -> FileKind {
    match t {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

fn named(action: &'static str, path: &Path) -> impl FnOnce(Sys) -> AioError {
    move |e| AioError::os(action, path, e)
}

fn open_directory(path: &Path) -> Result<OwnedFd, AioError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retry(|| fs::open(path, flags, Mode::empty())).map_err(named("open directory", path))
}

fn open_flags(o: &OpenOptions) -> OFlags {
    let mut flags = match (o.read, o.write) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    flags |= OFlags::CLOEXEC | OFlags::NOCTTY;
    flags.set(OFlags::CREATE, o.create || o.create_new);
    flags.set(OFlags::EXCL, o.create_new);
    flags.set(OFlags::TRUNC, o.truncate);
    flags.set(OFlags::DSYNC, o.dsync);
    // O_SYNC includes O_DSYNC.
    flags |= if o.sync { OFlags::SYNC } else { OFlags::empty() };
    flags
}

impl Namespace for PosixNamespace {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<File, AioError> {
        let mode = Mode::RUSR | Mode::WUSR;
        let flags = open_flags(options) | platform::direct_flag(options.direct);
        let fd = match retry(|| fs::open(path, flags, mode)) {
            Ok(fd) => fd,
            Err(Sys::INVAL) if options.direct => {
                return Err(refused_at_open(path).into());
            }
            Err(e) => return Err(AioError::os("open file", path, e)),
        };
        if options.direct {
            platform::after_direct_open(&fd)
                .map_err(|e| AioError::os("set up direct I/O for file", path, e))?;
        }
        Ok(File::from_fd(path.to_path_buf(), options.flags(), fd))
    }

    fn mkdir(&self, path: &Path) -> Result<(), AioError> {
        fs::mkdir(path, Mode::RWXU).map_err(named("create directory", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        fs::rename(from, to).map_err(named("rename file", from))
    }

    fn rename_noreplace(&self, from: &Path, to: &Path) -> Result<(), AioError> {
        platform::rename_noreplace(from, to).map_err(|e| match e {
            Errno::EXIST => AioError::os("rename file (the new name exists)", to, e),
            e => AioError::os("rename file", from, e),
        })
    }

    fn unlink(&self, path: &Path) -> Result<(), AioError> {
        fs::unlink(path).map_err(named("remove file", path))
    }

    fn rmdir(&self, path: &Path) -> Result<(), AioError> {
        fs::rmdir(path).map_err(named("remove directory", path))
    }

    fn symlink(&self, target: &Path, path: &Path) -> Result<(), AioError> {
        fs::symlink(target, path).map_err(named("create symbolic link", path))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, AioError> {
        let target = fs::readlink(path, Vec::new()).map_err(named("read symbolic link", path))?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    fn link_count(&self, path: &Path) -> Result<u64, AioError> {
        let st = fs::stat(path).map_err(named("stat file", path))?;
        Ok(st.st_nlink as u64)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>, AioError> {
        let fail = |e| AioError::os("read directory", path, e);
        let fd = open_directory(path)?;
        let mut entries = Vec::new();
        for entry in fs::Dir::read_from(&fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(st) => kind_of(FileType::from_raw_mode(st.st_mode)),
                    Err(Sys::NOENT) => continue, // removed meanwhile
                    Err(e) => return Err(fail(e)),
                },
                t => kind_of(t),
            };
            let name = OsString::from_vec(name.to_bytes().to_vec());
            entries.push(DirEntry { name, kind });
        }
        Ok(entries)
    }

    fn stat(&self, path: &Path) -> Result<Option<FileStat>, AioError> {
        let st = match fs::statat(CWD, path, AtFlags::empty()) {
            Ok(st) => st,
            Err(Sys::NOENT | Sys::NOTDIR) => return Ok(None),
            Err(e) => return Err(AioError::os("stat file", path, e)),
        };
        let at = |seconds, nanoseconds| {
            SystemTime::UNIX_EPOCH + Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds)
        };
        Ok(Some(FileStat {
            kind: kind_of(FileType::from_raw_mode(st.st_mode)),
            len: st.st_size as u64,
            links: st.st_nlink as u64,
            mode: st.st_mode as u32 & 0o7777,
            uid: st.st_uid,
            modified: at(st.st_mtime, st.st_mtime_nsec as u32),
            changed: at(st.st_ctime, st.st_ctime_nsec as u32),
        }))
    }

    fn file_len(&self, file: &File) -> Result<u64, AioError> {
        let fail = |e: Errno| AioError::os("stat file", file.path(), e);
        let st = fs::fstat(descriptor(file).map_err(fail)?).map_err(|e| fail(e.into()))?;
        Ok(st.st_size as u64)
    }

    fn set_len(&self, file: &File, len: u64) -> Result<(), AioError> {
        let fail = |e: Errno| AioError::os("truncate file", file.path(), e);
        let fd = descriptor(file).map_err(fail)?;
        retry(|| fs::ftruncate(fd, len)).map_err(|e| fail(e.into()))
    }

    fn allocate(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        let fail = |e: Errno| AioError::os("allocate space in file", file.path(), e);
        let fd = descriptor(file).map_err(fail)?;
        retry(|| platform::allocate(fd, offset, len, false)).map_err(|e| fail(e.into()))
    }

    fn reserve(&self, file: &File, offset: u64, len: u64) -> Result<(), AioError> {
        let fail = |e: Errno| AioError::os("reserve space in file", file.path(), e);
        let fd = descriptor(file).map_err(fail)?;
        retry(|| platform::allocate(fd, offset, len, true)).map_err(|e| fail(e.into()))
    }

    fn sync_file(&self, file: &File) -> Result<(), AioError> {
        let fail = |e: Errno| AioError::os(AioError::SYNC_FILE, file.path(), e);
        platform::sync(descriptor(file).map_err(fail)?, false).map_err(fail)
    }

    fn forget_cached(&self, file: &File) -> Result<(), AioError> {
        let fail = |e: Errno| AioError::os("drop the cached pages of file", file.path(), e);
        let fd = descriptor(file).map_err(fail)?;
        retry(|| platform::forget_cached(fd)).map_err(|e| fail(e.into()))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), AioError> {
        let fd = open_directory(path)?;
        platform::sync(fd.as_fd(), false)
            .map_err(|e| AioError::os(AioError::SYNC_DIRECTORY, path, e))
    }

    #[cfg(target_os = "linux")]
    fn sync_file_system(&self, path: &Path) -> Result<(), AioError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd =
            retry(|| fs::open(path, flags, Mode::empty())).map_err(named("open file", path))?;
        fs::syncfs(fd).map_err(named("synchronize file system for file", path))
    }

    fn try_lock(&self, file: &File) -> Result<bool, AioError> {
        let fail = |e: Errno| AioError::os("lock file", file.path(), e);
        let fd = descriptor(file).map_err(fail)?;
        match retry(|| fs::flock(fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {
                file.set_locked();
                Ok(true)
            }
            Err(Sys::WOULDBLOCK) => Ok(false),
            Err(e) => Err(fail(e.into())),
        }
    }

    fn probe_direct(&self, dir: &Path) -> Result<DirectAlignment, DirectRefusal> {
        probe_direct(dir)
    }
}
