//! Small files through the one door: read whole, write whole.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::{AlignedBuf, Backend, Namespace, OpenOptions};

use crate::error::EngineError;

/// A backend's I/O context, for files that are not relations and not WAL.
pub(crate) struct Disk<'a> {
    io: &'a mut Backend,
}

impl<'a> Disk<'a> {
    /// Works through a backend.
    pub(crate) fn new(io: &'a mut Backend) -> Disk<'a> {
        Disk { io }
    }

    /// The names.
    pub(crate) fn namespace(&self) -> Arc<dyn Namespace> {
        Arc::clone(self.io.aio().namespace())
    }

    /// A file's bytes, or None where there is none.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Option<Vec<u8>>, EngineError> {
        match self.io.read_file(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file that must not exist yet, and syncs it (not its directory).
    pub(crate) fn write_new(&mut self, path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
        self.write(path, &OpenOptions::READ_WRITE.create_new(), bytes)
    }

    /// Replaces a file's bytes in place: never shorter than before, so that a reader finds old or new lines.
    pub(crate) fn overwrite(&mut self, path: &Path, bytes: &[u8]) -> Result<(), EngineError> {
        self.write(path, &OpenOptions::READ_WRITE, bytes)
    }

    fn write(&mut self, path: &Path, options: &OpenOptions, bytes: &[u8]) -> Result<(), EngineError> {
        let file = self.namespace().open(path, options)?;
        if !bytes.is_empty() {
            self.io.write_all_at(&file, 0, &AlignedBuf::copy_of(bytes)?)?;
        }
        Ok(self.io.fsync(&file)?)
    }
}
