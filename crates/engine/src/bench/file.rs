//! The file that is read and written.
//!
//! A private one has no name while it is used: it is unlinked as soon as it is open, so that
//! nothing is left behind however the program ends. Nothing that exists is ever written to: the
//! name must be new, and a file of the user's is opened for reading only.

use std::path::{Path, PathBuf};

use forebay_aio::{AioError, Errno, File, FileKind, Namespace, OpenOptions, PosixNamespace};
use forebay_format::BLOCK_SIZE;

use super::BenchError;

/// Where it is, and what may be done with it.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A directory for a private file.
    Directory(PathBuf),
    /// A file of the user's, of so many blocks.
    File(PathBuf, u64),
}

impl Place {
    pub(super) fn find(path: &Path) -> Result<Place, BenchError> {
        let names = PosixNamespace::new();
        let refuse =
            |reason: &str| BenchError::Path { path: path.to_path_buf(), reason: reason.to_owned() };
        let stat = names.stat(path)?.ok_or_else(|| refuse("does not exist"))?;
        match stat.kind {
            FileKind::Directory => Ok(Place::Directory(path.to_path_buf())),
            FileKind::File if stat.len < BLOCK_SIZE as u64 => {
                Err(refuse(&format!("is shorter than a page ({BLOCK_SIZE} bytes)")))
            }
            FileKind::File => Ok(Place::File(path.to_path_buf(), stat.len / BLOCK_SIZE as u64)),
            _ => Err(refuse("is neither a directory nor a file")),
        }
    }

    pub(super) fn is_private(&self) -> bool {
        matches!(self, Place::Directory(_))
    }

    /// The directory that direct I/O is asked about.
    pub(super) fn directory(&self) -> &Path {
        match self {
            Place::Directory(dir) => dir,
            Place::File(file, _) => match file.parent() {
                Some(dir) if !dir.as_os_str().is_empty() => dir,
                _ => Path::new("."),
            },
        }
    }

    /// Refuses where a file of `size` bytes would fill the disk.
    pub(super) fn check_space(&self, size: u64) -> Result<(), BenchError> {
        let Place::Directory(dir) = self else { return Ok(()) };
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

/// One open file, both ways.
pub(super) struct Opened {
    pub buffered: File,
    pub direct: Option<File>,
}

impl Opened {
    pub(super) fn get(&self, direct: bool) -> &File {
        match &self.direct {
            Some(file) if direct => file,
            _ => &self.buffered,
        }
    }
}

/// Opens the place's file through each of these namespaces; a private file is made first, and has
/// no name afterwards.
pub(super) fn open<'n>(
    place: &Place,
    direct: bool,
    namespaces: impl Iterator<Item = &'n dyn Namespace>,
) -> Result<Vec<Opened>, BenchError> {
    let (path, options, made) = match place {
        Place::Directory(dir) => {
            let (path, file) = make(dir)?;
            (path, OpenOptions::READ_WRITE, Some(file))
        }
        Place::File(path, _) => (path.clone(), OpenOptions::READ, None),
    };
    let opened: Result<Vec<Opened>, AioError> = namespaces
        .map(|names| {
            let direct = direct.then(|| names.open(&path, &options.direct(true))).transpose()?;
            Ok(Opened { buffered: names.open(&path, &options)?, direct })
        })
        .collect();
    if made.is_some() {
        PosixNamespace::new().unlink(&path)?;
    }
    Ok(opened?)
}

/// A new file under a name that nobody has.
fn make(dir: &Path) -> Result<(PathBuf, File), BenchError> {
    let names = PosixNamespace::new();
    let mut n = 0_u32;
    loop {
        let path = dir.join(format!("forebay-bench-{}-{n}", std::process::id()));
        match names.open(&path, &OpenOptions::READ_WRITE.create_new()) {
            Ok(file) => return Ok((path, file)),
            Err(AioError::Os { errno: Errno::EXIST, .. }) if n < 1000 => n += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
