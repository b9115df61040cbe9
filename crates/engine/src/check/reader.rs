//! Reads pieces with several large reads in flight, and hands them on in their order.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use forebay_aio::{AioError, AlignedBuf, File, HugePages, IoBackend, OpenOptions, OwnedIo, Target};
use forebay_format::{BLOCK_SIZE, PageBytes};

use super::files::Piece;
use crate::error::EngineError;

/// Most reads in flight, and how many are submitted together.
const DEPTH: usize = 48;
const BATCH: usize = 8;

/// Neighbouring blocks that are read at once.
pub(super) struct Chunk {
    pub piece: Arc<Piece>,
    file: File,
    /// From the piece's first block.
    pub from: u32,
    pub blocks: u32,
}

impl Chunk {
    fn offset(&self, block: u32) -> u64 {
        u64::from(self.piece.in_file + self.from + block) * BLOCK_SIZE as u64
    }

    /// The first block's number in the fork.
    pub(super) fn first(&self) -> u32 {
        self.piece.first + self.from
    }
}

/// Reads ahead through pieces that `next` hands out.
pub(super) struct Reader<'n> {
    io: IoBackend,
    direct: bool,
    combine: u32,
    next: &'n mut (dyn FnMut() -> Option<Piece> + 'n),
    /// The rest of the piece whose reads are being started.
    rest: Option<Chunk>,
    flights: VecDeque<(Chunk, OwnedIo)>,
    spare: Vec<AlignedBuf>,
}

impl<'n> Reader<'n> {
    pub(super) fn new(
        io: IoBackend,
        direct: bool,
        combine: u32,
        next: &'n mut (dyn FnMut() -> Option<Piece> + 'n),
    ) -> Result<Reader<'n>, EngineError> {
        let spare = AlignedBuf::several(DEPTH + 1, combine as usize * BLOCK_SIZE, HugePages::Try)?;
        if let Some(buf) = spare.first() {
            // If that is refused, the I/O works without it.
            io.aio().register_buffer(buf);
        }
        let flights = VecDeque::with_capacity(DEPTH);
        Ok(Reader { io, direct, combine, next, rest: None, flights, spare })
    }

    /// The next pages, or `None` at the end. A file that can't be opened and a block that can't be
    /// read are told, and left out.
    pub(super) fn chunk(
        &mut self,
        say: &mut dyn FnMut(&Path, &str),
        each: &mut dyn FnMut(&Chunk, u32, &PageBytes),
    ) -> Result<Option<Chunk>, EngineError> {
        self.start_reads(say)?;
        let Some((chunk, io)) = self.flights.pop_front() else { return Ok(None) };
        let (buf, result) = self.io.finish_owned(io);
        // The device gets its next work before this is looked at.
        self.start_reads(say)?;
        let buf = match result {
            Ok(_) => {
                let (pages, _) = buf.as_chunks::<BLOCK_SIZE>();
                (0..chunk.blocks).zip(pages).for_each(|(n, page)| each(&chunk, n, page));
                buf
            }
            Err(AioError::Io { .. } | AioError::Short { .. }) => {
                self.one_by_one(&chunk, buf, say, each)?
            }
            Err(error) => return Err(error.into()),
        };
        self.spare.push(buf);
        Ok(Some(chunk))
    }

    fn one_by_one(
        &mut self,
        chunk: &Chunk,
        mut buf: AlignedBuf,
        say: &mut dyn FnMut(&Path, &str),
        each: &mut dyn FnMut(&Chunk, u32, &PageBytes),
    ) -> Result<AlignedBuf, EngineError> {
        for n in 0..chunk.blocks {
            let part = 0..BLOCK_SIZE;
            let read = self.io.start_read(&chunk.file, chunk.offset(n), buf, part, Target::File);
            let (back, result) = self.io.finish_owned(read);
            buf = back;
            match (result, buf.first_chunk()) {
                (Ok(_), Some(page)) => each(chunk, n, page),
                (Err(error @ (AioError::Io { .. } | AioError::Short { .. })), _) => {
                    let block = chunk.piece.in_file + chunk.from + n;
                    say(&chunk.piece.path, &format!("could not read block {block}: {error}"));
                }
                (Err(error), _) => return Err(error.into()),
                (Ok(_), None) => unreachable!("a buffer holds a page"),
            }
        }
        Ok(buf)
    }

    fn start_reads(&mut self, say: &mut dyn FnMut(&Path, &str)) -> Result<(), EngineError> {
        if DEPTH.saturating_sub(self.flights.len()) < BATCH {
            return Ok(());
        }
        self.io.begin_batch();
        let started = self.start_all(say);
        self.io.end_batch();
        started
    }

    fn start_all(&mut self, say: &mut dyn FnMut(&Path, &str)) -> Result<(), EngineError> {
        while self.flights.len() < DEPTH && !self.spare.is_empty() {
            let Some(chunk) = self.next_chunk(say)? else { break };
            let Some(buf) = self.spare.pop() else { break };
            let part = 0..chunk.blocks as usize * BLOCK_SIZE;
            let read = self.io.start_read(&chunk.file, chunk.offset(0), buf, part, Target::File);
            self.flights.push_back((chunk, read));
        }
        Ok(())
    }

    /// The next piece whose file can be opened.
    fn next_piece(
        &mut self,
        say: &mut dyn FnMut(&Path, &str),
    ) -> Result<Option<Chunk>, EngineError> {
        while let Some(piece) = (self.next)() {
            match self.open(&piece.path) {
                Ok(file) => {
                    let blocks = piece.blocks;
                    return Ok(Some(Chunk { file, from: 0, blocks, piece: Arc::new(piece) }));
                }
                // The first piece of a file tells it for all of them.
                Err(AioError::Os { .. }) if piece.in_file > 0 => {}
                Err(error @ AioError::Os { .. }) => say(&piece.path, &error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// A tablespace may be in a file system without direct I/O.
    fn open(&self, path: &Path) -> Result<File, AioError> {
        let names = self.io.aio().namespace();
        match names.open(path, &OpenOptions::READ.direct(self.direct)) {
            Err(AioError::Direct(_)) => names.open(path, &OpenOptions::READ),
            opened => opened,
        }
    }

    fn next_chunk(
        &mut self,
        say: &mut dyn FnMut(&Path, &str),
    ) -> Result<Option<Chunk>, EngineError> {
        let mut rest = match self.rest.take() {
            Some(rest) => rest,
            None => match self.next_piece(say)? {
                Some(chunk) => chunk,
                None => return Ok(None),
            },
        };
        let blocks = rest.blocks.min(self.combine);
        let chunk = Chunk {
            piece: Arc::clone(&rest.piece),
            file: rest.file.clone(),
            from: rest.from,
            blocks,
        };
        rest.from += blocks;
        rest.blocks -= blocks;
        self.rest = (rest.blocks > 0).then_some(rest);
        Ok(Some(chunk))
    }
}
