//! Reads and writes small files as a whole. Tells which links belong to a data directory.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{AlignedBuf, DirEntry, IoBackend, Namespace, OpenOptions};

use crate::error::EngineError;

/// Where the links to tablespaces are.
pub(crate) const TABLESPACES: &str = "pg_tblspc";
/// Where the log is.
pub(crate) const WAL: &str = "pg_wal";

/// Whether a walk through the data directory `dir` follows a link in `directory`. PostgreSQL's own
/// links lead to tablespaces and to pg_wal.
pub(crate) fn follows(dir: &Path, directory: &Path, entry: &DirEntry) -> bool {
    directory == dir.join(TABLESPACES) || (directory == dir && entry.name == *WAL)
}

/// A backend's I/O context, for files that are not relations and not WAL.
pub(crate) struct Disk<'a> {
    io: &'a mut IoBackend,
}

impl<'a> Disk<'a> {
    /// Uses a backend's I/O.
    pub(crate) fn new(io: &'a mut IoBackend) -> Disk<'a> {
        Disk { io }
    }

    /// The file system's names.
    pub(crate) fn namespace(&self) -> Arc<dyn Namespace> {
        Arc::clone(self.io.aio().namespace())
    }

    /// A file's bytes. None if there is no such file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Option<Vec<u8>>, EngineError> {
        match self.io.read_file(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file, which must not exist, and syncs it but not its directory.
    pub(crate) fn write_new(&mut self, path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
        self.write(path, &OpenOptions::READ_WRITE.create_new(), bytes)
    }

    /// Replaces a file's bytes in place. The new contents are never shorter, so a reader finds old
    /// or new lines.
    pub(crate) fn overwrite(&mut self, path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
        self.write(path, &OpenOptions::READ_WRITE, bytes)
    }

    /// Writes zeros from `from` to `to`, and syncs the file, so that its blocks are written and not
    /// merely allocated.
    pub(crate) fn write_zeros(
        &mut self,
        path: &Path,
        from: u64,
        to: u64,
    ) -> Result<(), EngineError> {
        const CHUNK: usize = 1 << 20;
        let file = self.namespace().open(path, &OpenOptions::READ_WRITE)?;
        let zeros = AlignedBuf::zeroed(CHUNK)?;
        let mut at = from;
        while at < to {
            let left = usize::try_from(to - at).unwrap_or(CHUNK).min(CHUNK);
            if left == CHUNK {
                self.io.write_all_at(&file, at, &zeros)?;
            } else {
                self.io.write_all_at(&file, at, &AlignedBuf::zeroed(left)?)?;
            }
            at += left as u64;
        }
        Ok(self.io.fsync(&file)?)
    }

    fn write(
        &mut self,
        path: &Path,
        options: &OpenOptions,
        bytes: &[u8],
    ) -> Result<(), EngineError> {
        let file = self.namespace().open(path, options)?;
        if !bytes.is_empty() {
            self.io.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        }
        Ok(self.io.fsync(&file)?)
    }
}
