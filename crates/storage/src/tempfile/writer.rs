//! Writing a temporary file.
//!
//! ```text
//!   write_all(), or room() + advance()
//!     --> current buffer --> writes in flight, at most `depth` --> the file
//!              ^---------- buffers of finished writes ----------+
//! ```
//!
//! After an error the writer returns that error from every call. If it is dropped before
//! [`TempWriter::finish`], the file is removed.

use super::file::TempFile;
use super::files::{DIRECTORY, PREFIX, TempFiles};
use super::options::TempOptions;
use super::space::TempSpace;
use super::stored::Stored;
use crate::error::{StorageError, file_error};
use forebay_aio::sync::Arc;
use forebay_aio::sync::atomic::Ordering::Relaxed;
use forebay_aio::{self as aio, AlignedBuf, Errno, IO_ALIGN, OwnedIo};
use std::collections::VecDeque;
use std::path::Path;

/// Appends to a temporary file.
pub struct TempWriter {
    stored: Arc<Stored>,
    options: TempOptions,
    /// The current buffer, and how many of its bytes are filled.
    filling: Option<AlignedBuf>,
    filled: usize,
    /// The position of the current buffer in the file.
    offset: u64,
    /// The oldest first.
    in_flight: VecDeque<InFlight>,
    free: Vec<AlignedBuf>,
    failed: Option<StorageError>,
}

struct InFlight {
    io: OwnedIo,
    offset: u64,
}

impl TempFiles {
    /// Creates an empty file for the session `owner`.
    pub fn create(
        self: &Arc<Self>,
        owner: i32,
        space: &Arc<TempSpace>,
        options: TempOptions,
    ) -> Result<TempWriter, StorageError> {
        loop {
            let n = self.next.fetch_add(1, Relaxed);
            let name = format!("base/{DIRECTORY}/{PREFIX}{owner}.{n}");
            match self.make(&name) {
                Ok(file) => {
                    let stored = Stored::new(Arc::clone(self), name, file, Arc::clone(space));
                    return Ok(TempWriter::new(stored, options));
                }
                // A leftover of a crash that could not be removed at the start.
                Err(error) if error.errno() == Some(Errno::EXIST) => {}
                Err(error) => return Err(file_error("create", Path::new(&name), &error)),
            }
        }
    }
}

impl TempWriter {
    pub(super) fn new(stored: Arc<Stored>, options: TempOptions) -> TempWriter {
        TempWriter {
            stored,
            options,
            filling: None,
            filled: 0,
            offset: 0,
            in_flight: VecDeque::new(),
            free: Vec::new(),
            failed: None,
        }
    }

    /// Returns the number of bytes taken so far.
    pub fn len(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// Whether no bytes were taken yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes.
    pub fn write_all(
        &mut self,
        io: &mut aio::IoBackend,
        mut bytes: &[u8],
    ) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let room = self.room(io)?;
            let n = room.len().min(bytes.len());
            let (now, later) = bytes.split_at(n);
            room[..n].copy_from_slice(now);
            self.advance(io, n)?;
            bytes = later;
        }
        Ok(())
    }

    /// Returns memory of at least one byte, to be filled from its start without a copy. Its
    /// contents count after [`Self::advance`].
    pub fn room(&mut self, io: &mut aio::IoBackend) -> Result<&mut [u8], StorageError> {
        self.check()?;
        let buffer = match self.filling.take() {
            Some(buffer) => buffer,
            None => {
                self.filled = 0;
                self.free_buffer(io)?
            }
        };
        Ok(&mut self.filling.insert(buffer)[self.filled..])
    }

    /// Takes the first `n` bytes of [`Self::room`]. Panics if it is smaller.
    pub fn advance(&mut self, io: &mut aio::IoBackend, n: usize) -> Result<(), StorageError> {
        let size = self.filling.as_ref().map_or(0, |buffer| buffer.len());
        assert!(n <= size - self.filled.min(size), "{n} bytes are more than there was room for");
        self.filled += n;
        if self.filled == size && size > 0 { self.start(io, size) } else { Ok(()) }
    }

    /// Waits for the writes in flight and frees their memory, as no bytes will come for a while.
    pub fn rest(&mut self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        self.check()?;
        while !self.in_flight.is_empty() {
            self.finish_oldest(io)?;
        }
        self.free.clear();
        Ok(())
    }

    /// Writes the remaining bytes, and waits for all writes.
    pub fn finish(mut self, io: &mut aio::IoBackend) -> Result<TempFile, StorageError> {
        self.check()?;
        let len = self.len();
        if self.filled > 0 {
            let mut size = self.filled;
            if self.stored.is_direct()
                && let Some(buffer) = &mut self.filling
            {
                size = size.next_multiple_of(IO_ALIGN).min(buffer.len());
                buffer[self.filled..size].fill(0);
            }
            self.start(io, size)?;
        }
        self.rest(io)?;
        Ok(TempFile::new(Arc::clone(&self.stored), len))
    }

    fn check(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn fail<T>(&mut self, error: StorageError) -> Result<T, StorageError> {
        self.failed.get_or_insert(error.clone());
        Err(error)
    }

    /// Returns a free buffer. It may have to wait for the oldest write.
    fn free_buffer(&mut self, io: &mut aio::IoBackend) -> Result<AlignedBuf, StorageError> {
        if self.free.is_empty() && self.in_flight.len() >= self.depth() {
            self.finish_oldest(io)?;
        }
        match self.free.pop() {
            Some(buffer) => Ok(buffer),
            None => self.options.buffer().or_else(|error| self.fail(error)),
        }
    }

    /// Returns the number of writes that may be in flight while a buffer is filled.
    fn depth(&self) -> usize {
        self.options.depth.max(1) as usize
    }

    /// Starts to write the first `size` bytes of the current buffer, padding included.
    fn start(&mut self, io: &mut aio::IoBackend, size: usize) -> Result<(), StorageError> {
        let Some(buffer) = self.filling.take() else { return Ok(()) };
        let bytes = std::mem::take(&mut self.filled) as u64;
        let file = match self.stored.take(bytes).and_then(|()| self.stored.open()) {
            Ok(file) => file,
            Err(error) => return self.fail(error),
        };
        let write = io.start_write(&file, self.offset, buffer, 0..size, self.stored.target());
        // Submitted at once: dropping the writer waits for its writes and cannot submit them.
        io.submit();
        self.in_flight.push_back(InFlight { io: write, offset: self.offset });
        self.offset += bytes;
        if self.options.depth == 0 {
            return self.finish_oldest(io);
        }
        Ok(())
    }

    fn finish_oldest(&mut self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        let Some(InFlight { io: write, offset }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let (buffer, result) = io.finish_owned(write);
        self.free.push(buffer);
        match result {
            Ok(_) => Ok(()),
            Err(error) => self.fail(self.stored.failed("write to", offset, &error)),
        }
    }
}

impl Drop for TempWriter {
    fn drop(&mut self) {
        // The file may be removed now. A write after that would make it grow again.
        for write in &self.in_flight {
            self.stored.wait(write.io.wait_ref());
        }
    }
}

impl std::fmt::Debug for TempWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TempWriter")
            .field("stored", &self.stored)
            .field("len", &self.len())
            .field("in_flight", &self.in_flight.len())
            .finish_non_exhaustive()
    }
}
