//! Whole files read or written from beginning to end, with several large transfers in flight.

use std::collections::VecDeque;
use std::path::Path;

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{
    Aio, AioError, AlignedBuf, Errno, File, IO_ALIGN, IoBackend, OpenOptions, OwnedIo, Target,
};

/// Length of a transfer, in bytes.
pub const CHUNK: usize = 512 << 10;
/// Transfers of one file that are in flight at a time, if nothing else is said.
const DEPTH: usize = 4;
/// How many unused buffers are kept.
const MOST_SPARE: usize = 64;

/// A pool of buffers of [`CHUNK`] bytes, so that not every file maps memory of its own.
#[derive(Clone, Debug)]
pub struct Buffers {
    spare: Arc<Mutex<Vec<AlignedBuf>>>,
    /// Most transfers in flight of a file that is read, or written, with them.
    depth: usize,
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers::with_depth(DEPTH)
    }
}

impl Buffers {
    /// An empty pool.
    pub fn new() -> Buffers {
        Buffers::default()
    }

    /// An empty pool, for files of which up to `depth` reads or writes are in flight.
    pub(crate) fn with_depth(depth: usize) -> Buffers {
        Buffers { spare: Arc::default(), depth }
    }

    /// A buffer with arbitrary contents.
    pub(crate) fn take(&self) -> Result<AlignedBuf, AioError> {
        let spare = self.spare.lock().pop();
        spare.map_or_else(|| AlignedBuf::zeroed(CHUNK), Ok)
    }

    /// Returns a buffer to the pool; one of another length is freed.
    pub fn give_back(&self, buf: AlignedBuf) {
        let mut spare = self.spare.lock();
        if buf.len() == CHUNK && spare.len() < MOST_SPARE {
            spare.push(buf);
        }
    }
}

/// A piece of a file. Its buffer may be longer.
#[derive(Debug)]
pub struct Piece {
    /// Where it begins in the file.
    pub offset: u64,
    /// The buffer.
    pub buf: AlignedBuf,
    /// How many bytes of the buffer belong to the piece.
    pub len: usize,
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.buf[..self.len]
    }
}

/// Reads a file.
#[derive(Debug)]
pub(crate) struct Reader {
    file: File,
    len: u64,
    /// Where the next read begins.
    next_read: u64,
    /// Where the next piece begins.
    next_piece: u64,
    /// The file may become shorter meanwhile, and then ends there.
    shrinks: bool,
    in_flight: VecDeque<(OwnedIo, usize)>,
    buffers: Buffers,
}

/// Opens a file for reading; with direct I/O if `direct` is set and the file system has it.
fn open(aio: &Aio, path: &Path, direct: bool) -> Result<File, AioError> {
    match aio.namespace().open(path, &OpenOptions::READ.direct(direct)) {
        Err(AioError::Direct(_)) if direct => aio.namespace().open(path, &OpenOptions::READ),
        opened => opened,
    }
}

impl Reader {
    /// Opens a file. Bytes that are appended later are not read.
    pub fn open(
        aio: &Aio,
        path: &Path,
        direct: bool,
        buffers: &Buffers,
    ) -> Result<Reader, AioError> {
        let file = open(aio, path, direct)?;
        let len = aio.namespace().file_len(&file)?;
        Ok(Reader { shrinks: false, ..Reader::of_changing(file, len, buffers) })
    }

    /// Reads the first `len` bytes of a file, or what there is of them.
    pub fn of_changing(file: File, len: u64, buffers: &Buffers) -> Reader {
        let (in_flight, buffers) = (VecDeque::new(), buffers.clone());
        Reader { file, len, next_read: 0, next_piece: 0, shrinks: true, in_flight, buffers }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Length of the file when it was opened.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The next piece; None at the end.
    pub fn next(&mut self, io: &mut IoBackend) -> Result<Option<Piece>, AioError> {
        self.read_ahead(io)?;
        let Some((read, len)) = self.in_flight.pop_front() else { return Ok(None) };
        let (buf, got) = io.finish_owned(read);
        // A direct read asks for whole blocks, so the last one may extend beyond the file.
        let got = match got {
            Err(AioError::Short { got, .. }) if got >= len || self.shrinks => got,
            other => other?,
        };
        if got < len {
            if !self.shrinks {
                return Err(AioError::os("read all of file", self.file.path(), Errno::IO));
            }
            self.close(io);
        }
        let piece = Piece { offset: self.next_piece, buf, len: got.min(len) };
        self.next_piece += len as u64;
        Ok(Some(piece))
    }

    fn read_ahead(&mut self, io: &mut IoBackend) -> Result<(), AioError> {
        while self.next_read < self.len && self.in_flight.len() < self.buffers.depth {
            let len = (self.len - self.next_read).min(CHUNK as u64) as usize;
            let asked = if self.file.is_direct() { len.next_multiple_of(IO_ALIGN) } else { len };
            let buf = self.buffers.take()?;
            let read = io.start_read(&self.file, self.next_read, buf, 0..asked, Target::File);
            self.in_flight.push_back((read, len));
            self.next_read += len as u64;
        }
        Ok(())
    }

    /// Waits for the reads in flight. Must be called if the file is not read to its end.
    pub fn close(&mut self, io: &mut IoBackend) {
        for (read, _) in self.in_flight.drain(..) {
            let (buf, _) = io.finish_owned(read);
            self.buffers.give_back(buf);
        }
        self.next_read = self.len;
    }
}

/// Writes a new file.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    /// Bytes in writes that were started.
    started: u64,
    /// A buffer that is not full yet, and the number of its bytes.
    partial: Option<(AlignedBuf, usize)>,
    in_flight: VecDeque<(OwnedIo, usize)>,
    /// The last direct write was extended to whole blocks, so the file must be cut.
    padded: bool,
    buffers: Buffers,
}

impl Writer {
    /// Writes an empty file.
    pub fn new(file: File, buffers: &Buffers) -> Writer {
        let (in_flight, buffers) = (VecDeque::new(), buffers.clone());
        Writer { file, started: 0, partial: None, in_flight, padded: false, buffers }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes taken so far.
    pub fn len(&self) -> u64 {
        self.started + self.partial.as_ref().map_or(0, |(_, used)| *used as u64)
    }

    /// Appends the first `len` bytes of `buf` without copying them. Whatever precedes them must be
    /// whole blocks of 4096 bytes.
    pub fn put(&mut self, io: &mut IoBackend, buf: AlignedBuf, len: usize) -> Result<(), AioError> {
        let aligned = self.partial.is_none() && self.started.is_multiple_of(IO_ALIGN as u64);
        if self.padded || !aligned {
            return Err(AioError::Misuse("a buffer follows a part of a block"));
        }
        self.start_write(io, buf, len)
    }

    /// Appends a copy of `bytes`.
    pub fn write(&mut self, io: &mut IoBackend, mut bytes: &[u8]) -> Result<(), AioError> {
        while !bytes.is_empty() {
            let (mut buf, used) = match self.partial.take() {
                Some(partial) => partial,
                None => (self.buffers.take()?, 0),
            };
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - used));
            let end = used + now.len();
            buf[used..end].copy_from_slice(now);
            bytes = later;
            if end == CHUNK {
                self.start_write(io, buf, end)?;
            } else {
                self.partial = Some((buf, end));
            }
        }
        Ok(())
    }

    fn start_write(
        &mut self,
        io: &mut IoBackend,
        mut buf: AlignedBuf,
        len: usize,
    ) -> Result<(), AioError> {
        if len == 0 {
            self.buffers.give_back(buf);
            return Ok(());
        }
        let mut end = len;
        if self.file.is_direct() && !len.is_multiple_of(IO_ALIGN) {
            end = len.next_multiple_of(IO_ALIGN);
            buf[len..end].fill(0);
            self.padded = true;
        }
        if self.in_flight.len() >= self.buffers.depth {
            self.finish_oldest(io)?;
        }
        let write = io.start_write(&self.file, self.started, buf, 0..end, Target::File);
        self.in_flight.push_back((write, end));
        self.started += len as u64;
        Ok(())
    }

    fn finish_oldest(&mut self, io: &mut IoBackend) -> Result<(), AioError> {
        let Some((write, len)) = self.in_flight.pop_front() else { return Ok(()) };
        let (buf, written) = io.finish_owned(write);
        self.buffers.give_back(buf);
        if written? < len {
            return Err(AioError::os("write all of file", self.file.path(), Errno::NOSPC));
        }
        Ok(())
    }

    /// Writes the rest and waits for all writes. The file then has its length, and is not synced.
    pub fn finish(&mut self, io: &mut IoBackend) -> Result<(), AioError> {
        if let Some((buf, used)) = self.partial.take() {
            self.start_write(io, buf, used)?;
        }
        while !self.in_flight.is_empty() {
            self.finish_oldest(io)?;
        }
        if self.padded {
            io.aio().namespace().set_len(&self.file, self.started)?;
        }
        Ok(())
    }

    /// Waits for the writes in flight, whatever they come to.
    pub fn abandon(&mut self, io: &mut IoBackend) {
        for (write, _) in self.in_flight.drain(..) {
            let (buf, _) = io.finish_owned(write);
            self.buffers.give_back(buf);
        }
    }
}
