//! Reading a temporary file.
//!
//! ```text
//!   the file --> reads in flight --> current buffer --> read_exact() or fill() + consume()
//!                as many as waits that blocked have shown to be necessary
//! ```
//!
//! After an error the reader keeps its position, and the next call reads there again.

use super::options::TempOptions;
use super::stored::Stored;
use crate::error::StorageError;
use crate::stream::Distance;
use forebay_aio::sync::Arc;
use forebay_aio::{self as aio, AioError, AlignedBuf, Errno, IO_ALIGN, OwnedIo};
use forebay_format::BLOCK_SIZE;
use std::collections::VecDeque;
use std::ops::Range;

const ALIGN: u64 = IO_ALIGN as u64;
const BLOCK: u64 = BLOCK_SIZE as u64;

/// Reads a temporary file or a part of it. The file exists as long as the reader.
pub struct TempReader {
    stored: Arc<Stored>,
    options: TempOptions,
    /// The end of the part, in bytes.
    end: u64,
    /// The position of the next byte to be returned.
    at: u64,
    /// The position of the next read.
    next: u64,
    current: Option<Chunk>,
    /// Reads in flight or finished that were not taken; in file order, up to `next`.
    pending: VecDeque<Pending>,
    distance: Distance,
    free: Vec<AlignedBuf>,
}

/// A piece of the file in memory.
struct Chunk {
    buffer: AlignedBuf,
    offset: u64,
    len: usize,
}

struct Pending {
    io: OwnedIo,
    offset: u64,
    len: usize,
}

impl TempReader {
    pub(super) fn new(stored: Arc<Stored>, part: Range<u64>, options: TempOptions) -> TempReader {
        let combine = (options.bytes() / BLOCK_SIZE) as u32;
        // At least two blocks, since one would be no look-ahead.
        let ahead = combine.saturating_mul(options.depth).max(combine).max(2);
        TempReader {
            stored,
            options,
            end: part.end,
            at: part.start,
            next: part.start / ALIGN * ALIGN,
            current: None,
            pending: VecDeque::new(),
            distance: Distance::new(ahead, combine),
            free: Vec::new(),
        }
    }

    /// Returns the position of the next byte in the file.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Returns the number of bytes from here to the end.
    pub fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// Returns the next bytes without copying: as many as are in memory, and none only at the end.
    /// The same bytes are returned until [`Self::consume`] skips them.
    pub fn fill(&mut self, io: &mut aio::IoBackend) -> Result<&[u8], StorageError> {
        if self.in_memory().is_empty() && self.at < self.end {
            self.load(io)?;
        }
        Ok(self.in_memory())
    }

    /// Moves on by `n` bytes, which need not have been read.
    pub fn consume(&mut self, n: usize) {
        self.at = self.at.saturating_add(n as u64).min(self.end.max(self.at));
    }

    /// Reads up to `into.len()` bytes; fewer only at the end.
    pub fn read(
        &mut self,
        io: &mut aio::IoBackend,
        into: &mut [u8],
    ) -> Result<usize, StorageError> {
        let from = self.at;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..)
            && !rest.is_empty()
        {
            let bytes = match self.fill(io) {
                Ok(_) => self.in_memory(),
                Err(error) => {
                    self.seek(io, from);
                    return Err(error);
                }
            };
            let n = bytes.len().min(rest.len());
            if n == 0 {
                break;
            }
            rest[..n].copy_from_slice(&bytes[..n]);
            self.consume(n);
            done += n;
        }
        Ok(done)
    }

    /// Reads `into.len()` bytes. If there are fewer, returns an error and reads none.
    pub fn read_exact(
        &mut self,
        io: &mut aio::IoBackend,
        into: &mut [u8],
    ) -> Result<(), StorageError> {
        if self.left() < into.len() as u64 {
            return Err(self.stored.short(self.at, self.left() as usize, into.len()));
        }
        self.read(io, into).map(drop)
    }

    /// Moves to a position in the file; beyond the reader's end there is nothing to read. Buffers
    /// that were read ahead are kept only if they cover the position.
    pub fn seek(&mut self, io: &mut aio::IoBackend, to: u64) {
        self.at = to;
        let within = |offset: u64, len: usize| (offset..offset + len as u64).contains(&to);
        if self.current.as_ref().is_some_and(|chunk| within(chunk.offset, chunk.len)) {
            return;
        }
        self.recycle();
        while self.pending.front().is_some_and(|first| !within(first.offset, first.len)) {
            if let Some(given_up) = self.pending.pop_front() {
                io.forget(given_up.io.wait_ref());
            }
        }
        if self.pending.is_empty() {
            self.next = to / ALIGN * ALIGN;
            self.distance.least();
        }
    }

    /// Returns the rest of the current buffer.
    fn in_memory(&self) -> &[u8] {
        let Some(chunk) = &self.current else { return &[] };
        let from = self.at.checked_sub(chunk.offset).and_then(|n| usize::try_from(n).ok());
        let len = chunk
            .len
            .min(usize::try_from(self.end.saturating_sub(chunk.offset)).unwrap_or(usize::MAX));
        from.and_then(|from| chunk.buffer.get(from..len)).unwrap_or(&[])
    }

    fn recycle(&mut self) {
        self.free.extend(self.current.take().map(|chunk| chunk.buffer));
    }

    /// Loads the piece of the file that contains the next byte.
    fn load(&mut self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        self.recycle();
        let begin = self
            .pending
            .front()
            .map_or((self.next, ALIGN), |first| (first.offset, first.len as u64));
        if !(begin.0..begin.0 + begin.1).contains(&self.at) {
            // Bytes were consumed without having been read.
            self.seek(io, self.at);
        }
        if self.pending.is_empty() {
            self.start(io)?;
        }
        let Some(Pending { io: read, offset, len }) = self.pending.pop_front() else {
            return Ok(());
        };
        if !io.is_done(read.wait_ref()) {
            self.distance.waited();
        }
        let (mut buffer, mut result) = io.finish_owned(read);
        if matches!(&result, Err(AioError::Resource { errno: Errno::CANCELED, .. })) {
            // The end of a transaction has discarded the result of a read ahead.
            (buffer, result) = self.read_again(io, buffer, offset, len)?;
        }
        match self.judge(offset, len, result) {
            Ok(()) => self.current = Some(Chunk { buffer, offset, len }),
            Err(error) => {
                self.free.push(buffer);
                self.pending.drain(..).for_each(|later| io.forget(later.io.wait_ref()));
                self.next = offset;
                return Err(error);
            }
        }
        self.look_ahead(io);
        Ok(())
    }

    fn read_again(
        &self,
        io: &mut aio::IoBackend,
        buffer: AlignedBuf,
        offset: u64,
        len: usize,
    ) -> Result<(AlignedBuf, Result<usize, AioError>), StorageError> {
        let file = self.stored.open()?;
        let again = io.start_read(&file, offset, buffer, 0..len, self.stored.target());
        Ok(io.finish_owned(again))
    }

    /// Checks that a read of `len` bytes returned all that belongs to the reader.
    fn judge(
        &self,
        offset: u64,
        len: usize,
        result: Result<usize, AioError>,
    ) -> Result<(), StorageError> {
        let wanted = self.end.saturating_sub(offset).min(len as u64) as usize;
        match result {
            Ok(got) | Err(AioError::Short { got, .. }) if got >= wanted => Ok(()),
            Ok(got) | Err(AioError::Short { got, .. }) => {
                Err(self.stored.short(offset, got, wanted))
            }
            Err(error) => Err(self.stored.failed("read from", offset, &error)),
        }
    }

    /// Starts reads until the distance is reached.
    fn look_ahead(&mut self, io: &mut aio::IoBackend) {
        let ahead = u64::from(self.distance.ahead());
        if ahead <= 1 || self.options.depth == 0 {
            return;
        }
        let begun = !io.in_batch();
        if begun {
            io.begin_batch();
        }
        while self.next < self.end && self.pending_bytes() < ahead * BLOCK {
            // A read that cannot be started now causes an error when its bytes are needed.
            if self.start(io).is_err() {
                break;
            }
        }
        if begun {
            io.end_batch();
        }
    }

    fn pending_bytes(&self) -> u64 {
        self.pending.front().map_or(0, |first| self.next - first.offset)
    }

    /// Starts the next read. The end is not reached yet.
    fn start(&mut self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        let most = u64::from(self.distance.combine()) * BLOCK;
        // A direct file ends with a whole aligned piece. Of a buffered file, and of a part, no more
        // is read than belongs to the reader.
        let mut len = most.min(self.end - self.next);
        if self.stored.is_direct() {
            len = len.next_multiple_of(ALIGN);
        }
        let len = len as usize;
        let file = self.stored.open()?;
        let buffer = match self.free.pop() {
            Some(buffer) => buffer,
            None => self.options.buffer()?,
        };
        let read = io.start_read(&file, self.next, buffer, 0..len, self.stored.target());
        self.pending.push_back(Pending { io: read, offset: self.next, len });
        self.next += len as u64;
        self.distance.read();
        Ok(())
    }
}

impl std::fmt::Debug for TempReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TempReader")
            .field("stored", &self.stored)
            .field("at", &self.at)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}
