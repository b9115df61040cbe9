//! A file read once, from its beginning to its end, with several large reads in flight.

use std::collections::VecDeque;
use std::path::Path;

use forebay_aio::sync::{Arc, Mutex};
use forebay_aio::{
    Aio, AioError, AlignedBuf, Backend, Errno, File, IO_ALIGN, OpenOptions, OwnedIo, Target,
};

/// Bytes of one transfer.
pub const CHUNK: usize = 512 << 10;
/// Transfers in flight, reading or writing.
pub(crate) const DEPTH: usize = 4;
/// Buffers kept for later.
const MOST_SPARE: usize = 64;

/// Buffers of [`CHUNK`] bytes that go from hand to hand, so that not each file maps memory of its
/// own.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Mutex<Vec<AlignedBuf>>>);

impl Buffers {
    /// None yet.
    pub fn new() -> Buffers {
        Buffers::default()
    }

    /// One, whatever is in it.
    pub fn take(&self) -> Result<AlignedBuf, AioError> {
        let spare = self.0.lock().pop();
        spare.map_or_else(|| AlignedBuf::zeroed(CHUNK), Ok)
    }

    /// It is not needed any more.
    pub fn give_back(&self, buf: AlignedBuf) {
        let mut spare = self.0.lock();
        if buf.len() == CHUNK && spare.len() < MOST_SPARE {
            spare.push(buf);
        }
    }
}

/// A part of a file. Its buffer may be longer.
#[derive(Debug)]
pub struct Piece {
    /// Where it begins in the file.
    pub offset: u64,
    /// The buffer.
    pub buf: AlignedBuf,
    /// Bytes of it.
    pub len: usize,
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

/// Reads a file.
#[derive(Debug)]
pub struct Reader {
    file: File,
    len: u64,
    /// The next byte to ask for, and to give.
    ask: u64,
    give: u64,
    flying: VecDeque<(OwnedIo, usize)>,
    buffers: Buffers,
}

/// Opens to be read, past the kernel's cache where that is asked for and possible.
fn open(aio: &Aio, path: &Path, direct: bool) -> Result<File, AioError> {
    match aio.namespace().open(path, &OpenOptions::READ.direct(direct)) {
        Err(AioError::Direct(_)) if direct => aio.namespace().open(path, &OpenOptions::READ),
        opened => opened,
    }
}

impl Reader {
    /// Opens a file, as long as it is now.
    pub fn open(
        aio: &Aio,
        path: &Path,
        direct: bool,
        buffers: &Buffers,
    ) -> Result<Reader, AioError> {
        let file = open(aio, path, direct)?;
        let len = aio.namespace().file_len(&file)?;
        Ok(Reader { file, len, ask: 0, give: 0, flying: VecDeque::new(), buffers: buffers.clone() })
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next piece; None at the end.
    pub fn next(&mut self, io: &mut Backend) -> Result<Option<Piece>, AioError> {
        self.read_ahead(io)?;
        let Some((read, len)) = self.flying.pop_front() else { return Ok(None) };
        let (buf, got) = io.finish_owned(read);
        // What is read past the cache is asked for in whole blocks, of which the last may end
        // beyond the file.
        let got = match got {
            Err(AioError::Short { got, .. }) if got >= len => got,
            other => other?,
        };
        if got < len {
            return Err(AioError::os("read all of file", self.file.path(), Errno::IO));
        }
        let piece = Piece { offset: self.give, buf, len };
        self.give += len as u64;
        Ok(Some(piece))
    }

    fn read_ahead(&mut self, io: &mut Backend) -> Result<(), AioError> {
        while self.ask < self.len && self.flying.len() < DEPTH {
            let len = usize::try_from(self.len - self.ask).unwrap_or(CHUNK).min(CHUNK);
            let asked = if self.file.is_direct() { len.next_multiple_of(IO_ALIGN) } else { len };
            let buf = self.buffers.take()?;
            let read = io.start_read(&self.file, self.ask, buf, 0..asked, Target::File);
            self.flying.push_back((read, len));
            self.ask += len as u64;
        }
        Ok(())
    }

    /// Waits for what is in flight. To be called when a file is not read to its end.
    pub fn close(&mut self, io: &mut Backend) {
        for (read, _) in self.flying.drain(..) {
            let (buf, _) = io.finish_owned(read);
            self.buffers.give_back(buf);
        }
        self.ask = self.len;
    }
}
