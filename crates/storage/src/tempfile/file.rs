//! A temporary file: its name, its size, its end.

use super::{TempFiles, TempOptions, TempReader, TempSpace};
use crate::error::StorageError;
use crate::smgr::file_error;
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::{AtomicU64, Ordering::Relaxed};
use forebay_aio::{AioError, Errno, File, OpenOptions, Target, VirtualFile};
use std::ops::Range;
use std::path::Path;

/// A file that is written. It is removed when it and all its readers are dropped.
#[derive(Debug, Clone)]
pub struct TempFile {
    stored: Arc<Stored>,
    len: u64,
}

impl TempFile {
    pub(super) fn new(stored: Arc<Stored>, len: u64) -> TempFile {
        TempFile { stored, len }
    }

    /// Bytes that were written into it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Was nothing written?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its name, relative to the data directory.
    pub fn name(&self) -> &str {
        &self.stored.name
    }

    /// Reads it from its beginning.
    pub fn reader(&self, options: TempOptions) -> TempReader {
        self.reader_of(0..self.len, options)
    }

    /// Reads a part of it, as if that were all. What of the part lies behind the end is left out.
    pub fn reader_of(&self, part: Range<u64>, options: TempOptions) -> TempReader {
        let end = part.end.min(self.len);
        TempReader::new(Arc::clone(&self.stored), part.start.min(end)..end, options)
    }
}

/// The file in the file system.
pub(super) struct Stored {
    files: Arc<TempFiles>,
    name: Arc<str>,
    file: VirtualFile,
    direct: bool,
    /// Bytes whose writes were started, and which the session's account has given.
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

    /// The open file: it may have been closed in favour of others.
    pub(super) fn open(&self) -> Result<File, StorageError> {
        self.file.open().map_err(|error| file_error("open", Path::new(&*self.name), &error))
    }

    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// What pg_aios shows.
    pub(super) fn target(&self) -> Target {
        Target::Other(Arc::clone(&self.name))
    }

    /// Takes bytes that are about to be written from the session's account.
    pub(super) fn take(&self, bytes: u64) -> Result<(), StorageError> {
        self.space.take(bytes)?;
        self.taken.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Waits for I/O of any backend that was submitted.
    pub(super) fn wait(&self, io: forebay_aio::WaitRef) {
        self.files.aio.wait_done(io);
    }

    pub(super) fn failed(
        &self,
        operation: &'static str,
        offset: u64,
        error: &AioError,
    ) -> StorageError {
        let errno = error.errno().unwrap_or(Errno::IO);
        StorageError::TempFile { operation, file: self.name.to_string(), offset, errno }
    }

    pub(super) fn short(&self, offset: u64, got: usize, wanted: usize) -> StorageError {
        StorageError::TempShort {
            file: self.name.to_string(),
            offset,
            got: got as u64,
            wanted: wanted as u64,
        }
    }

    /// Takes the file from the file system. The caller has waited for its writes.
    fn remove(&self) -> Result<(), AioError> {
        let names = self.files.aio.namespace();
        // An I/O handle that has not been used again keeps its last file open: emptied, the file
        // takes no space however long that lasts.
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
