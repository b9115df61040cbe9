//! The place that is measured: a directory or a file of the user's, and private files and
//! directories in it.
//!
//! Nothing that exists is ever written to. A private file loses its name as soon as it is open, so
//! that nothing is left behind however the program ends; a private directory is removed at the end.

use std::path::{Path, PathBuf};

use forebay_aio::{AioError, Errno, File, FileKind, Namespace, OpenOptions, PosixNamespace};
use forebay_format::BLOCK_SIZE;

use crate::error::BenchError;

/// What a path names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A directory for private files.
    Directory(PathBuf),
    /// A file of so many whole blocks, which is only read.
    File(PathBuf, u64),
}

impl Target {
    /// Looks the path up, and refuses what is neither.
    pub(crate) fn find(path: &Path) -> Result<Target, BenchError> {
        let names = PosixNamespace::new();
        let stat = names.stat(path)?.ok_or_else(|| refuse(path, "does not exist"))?;
        match stat.kind {
            FileKind::Directory => Ok(Target::Directory(path.to_path_buf())),
            FileKind::File if stat.len < BLOCK_SIZE as u64 => {
                Err(refuse(path, &format!("is shorter than a page ({BLOCK_SIZE} bytes)")))
            }
            FileKind::File => Ok(Target::File(path.to_path_buf(), stat.len / BLOCK_SIZE as u64)),
            _ => Err(refuse(path, "is neither a directory nor a file")),
        }
    }

    /// Refuses what is not a directory with room for `size` bytes.
    pub(crate) fn check_directory(path: &Path, size: u64) -> Result<(), BenchError> {
        match Target::find(path)? {
            target @ Target::Directory(_) => target.check_space(size),
            Target::File(path, _) => Err(refuse(&path, "is not a directory")),
        }
    }

    pub(crate) fn is_private(&self) -> bool {
        matches!(self, Target::Directory(_))
    }

    /// The directory that decides whether direct I/O is possible.
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Target::Directory(dir) => dir,
            Target::File(file, _) => match file.parent() {
                Some(dir) if !dir.as_os_str().is_empty() => dir,
                _ => Path::new("."),
            },
        }
    }

    /// Refuses a directory in which a private file of `size` bytes would fill the disk.
    pub(crate) fn check_space(&self, size: u64) -> Result<(), BenchError> {
        let Target::Directory(dir) = self else { return Ok(()) };
        let found =
            rustix::fs::statvfs(dir).map_err(|e| AioError::os("look for free space in", dir, e))?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        // Something is left for others.
        let needed = size.saturating_add(size / 8).saturating_add(16 << 20);
        if free < needed {
            return Err(BenchError::NoSpace { dir: dir.clone(), needed, free });
        }
        Ok(())
    }
}

pub(crate) fn refuse(path: &Path, reason: &str) -> BenchError {
    BenchError::Path { path: path.to_path_buf(), reason: reason.to_owned() }
}

/// Makes a file under a name that nobody has.
pub(crate) fn make_file(dir: &Path) -> Result<(PathBuf, File), AioError> {
    let names = PosixNamespace::new();
    make_new(dir, |path| names.open(path, &OpenOptions::READ_WRITE.create_new()))
}

/// Tries names in `dir` until `make` finds one that is free.
fn make_new<T>(
    dir: &Path,
    make: impl Fn(&Path) -> Result<T, AioError>,
) -> Result<(PathBuf, T), AioError> {
    let mut n = 0_u32;
    loop {
        let path = dir.join(format!("forebay-bench-{}-{n}", std::process::id()));
        match make(&path) {
            Ok(made) => return Ok((path, made)),
            Err(error) if error.errno() == Some(Errno::EXIST) && n < 1000 => n += 1,
            Err(error) => return Err(error),
        }
    }
}

/// A private directory, removed with all that is in it.
pub(crate) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Makes it in `parent`, under a name that nobody has.
    pub(crate) fn make(parent: &Path) -> Result<Scratch, AioError> {
        let (dir, ()) = make_new(parent, |path| PosixNamespace::new().mkdir(path))?;
        Ok(Scratch { dir })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.dir) {
            tracing::warn!("could not remove directory \"{}\": {error}", self.dir.display());
        }
    }
}

fn remove(dir: &Path) -> Result<(), AioError> {
    let names = PosixNamespace::new();
    for entry in names.list(dir)? {
        let path = dir.join(&entry.name);
        if entry.kind == FileKind::Directory { remove(&path)? } else { names.unlink(&path)? }
    }
    names.rmdir(dir)
}
