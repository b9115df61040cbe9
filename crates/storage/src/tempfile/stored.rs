//! The file on disk: its name, its use of space, and its removal.

use super::files::TempFiles;
use super::space::TempSpace;
use crate::error::{StorageError, errno_of, file_error};
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicU64, Ordering::Relaxed};
use forebay_aio::{AioError, File, OpenOptions, Target, VirtualFile};
use std::path::Path;

/// The file on disk.
pub(super) struct Stored {
    files: Arc<TempFiles>,
    pub(super) name: Arc<str>,
    file: VirtualFile,
    direct: bool,
    /// Bytes whose writes were started, counted in the session's space.
    taken: AtomicU64,
    space: Arc<TempSpace>,
}

impl Stored {
    pub(super) fn new(
        files: Arc<TempFiles>,
        name: String,
        file: VirtualFile,
        space: Arc<TempSpace>,
    ) -> Arc<Stored> {
        let direct = file.get().map_or(files.direct.load(Relaxed), |file| file.is_direct());
        Arc::new(Stored { files, name: name.into(), file, direct, taken: AtomicU64::new(0), space })
    }

    /// Opens the file, which may have been closed in favour of others.
    pub(super) fn open(&self) -> Result<File, StorageError> {
        self.file.open().map_err(|error| file_error("open", Path::new(&*self.name), &error))
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Describes the file for pg_aios.
    pub(super) fn target(&self) -> Target {
        Target::Other(Arc::clone(&self.name))
    }

    /// Counts bytes that are about to be written in the session's space.
    pub(super) fn take(&self, bytes: u64) -> Result<(), StorageError> {
        self.space.take(bytes)?;
        self.taken.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Waits for a submitted I/O of any backend.
    pub(super) fn wait(&self, io: forebay_aio::WaitRef) {
        self.files.aio.wait_done(io);
    }

    pub(super) fn failed(
        &self,
        operation: &'static str,
        offset: u64,
        error: &AioError,
    ) -> StorageError {
        let (file, errno) = (self.name.to_string(), errno_of(error));
        StorageError::TempFile { operation, file, offset, errno }
    }

    pub(super) fn short(&self, offset: u64, got: usize, wanted: usize) -> StorageError {
        StorageError::TempShort {
            file: self.name.to_string(),
            offset,
            got: got as u64,
            wanted: wanted as u64,
        }
    }

    /// Removes the file. The caller has waited for its writes.
    fn remove(&self) -> Result<(), AioError> {
        let names = self.files.aio.namespace();
        // An idle I/O handle keeps its last file open. An empty file takes no space meanwhile.
        let emptied = match self.file.get() {
            Some(file) => names.set_len(&file, 0),
            None => names.open(self.file.path(), &OpenOptions::READ_WRITE.truncate()).map(drop),
        };
        self.file.forget();
        names.unlink(self.file.path()).and(emptied)
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let bytes = self.taken.load(Relaxed);
        self.space.give_back(bytes);
        self.files.count(bytes);
        if self.space.logs(bytes) {
            tracing::info!("temporary file: path \"{}\", size {bytes}", self.name);
        }
        let closed = self.files.closed.read();
        if !*closed && let Err(error) = self.remove() {
            tracing::warn!("{error}");
        }
    }
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stored").field("name", &self.name).finish_non_exhaustive()
    }
}
