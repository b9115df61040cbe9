//! Reads all pages, with several large reads in flight, and processes them in the order of files.

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_aio::{AioError, AlignedBuf, File, HugePages, IoBackend, OpenOptions, OwnedIo, Target};
use forebay_format::checksum::checksum_pages;
use forebay_format::ids::BLOCK_SIZE;
use forebay_format::page::{Page, PageMut, stored_checksum};

use super::options::{BadBlock, ChecksumCounts, ChecksumMode, ChecksumObserver, ChecksumOptions};
use super::walk::{PageFile, Tree};
use crate::error::EngineError;

/// Most reads and writes in flight. The scan waits for the oldest, so some are already complete:
/// this many keep a device as busy as 32 that are replaced in any order.
const DEPTH: usize = 48;
/// More reads are submitted, together, when this many slots are free.
const BATCH: usize = 8;

/// Neighbouring blocks of a file.
struct Chunk<'t> {
    of: &'t PageFile,
    index: usize,
    file: File,
    /// Within the file.
    first: u32,
    blocks: u32,
}

impl Chunk<'_> {
    fn offset(&self, block: u32) -> u64 {
        u64::from(self.first + block) * BLOCK_SIZE as u64
    }

    /// As pg_checksums words it; `block` counts from the chunk's first.
    fn describe(&self, action: &str, block: u32, error: AioError) -> EngineError {
        let what = format!(
            "could not {action} block {} in file \"{}\"",
            self.first as usize + block as usize,
            self.of.path.display()
        );
        match (error.errno(), error) {
            (Some(errno), _) => EngineError::statement("58030", format!("{what}: {errno}")),
            (None, AioError::Short { got, .. }) => EngineError::corrupt(format!(
                "{what}: {action} {} of {BLOCK_SIZE}",
                got % BLOCK_SIZE
            )),
            (None, other) => other.into(),
        }
    }
}

enum Flight<'t> {
    Read(Chunk<'t>, OwnedIo),
    Write(Chunk<'t>, u32, OwnedIo),
}

pub(super) struct Scan<'a, 't> {
    io: &'a mut IoBackend,
    options: &'a ChecksumOptions,
    observer: &'a mut dyn ChecksumObserver,
    counts: &'a mut ChecksumCounts,
    files: std::iter::Enumerate<std::slice::Iter<'t, PageFile>>,
    /// The rest of the file whose reads are being started.
    rest: Option<Chunk<'t>>,
    flights: VecDeque<Flight<'t>>,
    /// One more than can be in flight: the one that is processed.
    spare: Vec<AlignedBuf>,
    /// The checksums of the pages processed.
    sums: Vec<u16>,
    last_written: Option<usize>,
    total: u64,
}

impl<'a, 't> Scan<'a, 't> {
    pub(super) fn new(
        io: &'a mut IoBackend,
        tree: &'t Tree,
        options: &'a ChecksumOptions,
        observer: &'a mut dyn ChecksumObserver,
        counts: &'a mut ChecksumCounts,
    ) -> Result<Scan<'a, 't>, EngineError> {
        let chunk = options.io_combine_limit as usize * BLOCK_SIZE;
        let spare = AlignedBuf::several(DEPTH + 1, chunk, HugePages::Try)?;
        if let Some(buf) = spare.first() {
            // If that is refused, the I/O works without it.
            io.aio().register_buffer(buf);
        }
        Ok(Scan {
            io,
            options,
            observer,
            counts,
            files: tree.files.iter().enumerate(),
            rest: None,
            flights: VecDeque::with_capacity(DEPTH),
            spare,
            sums: vec![0; options.io_combine_limit as usize],
            last_written: None,
            total: tree.bytes(),
        })
    }

    pub(super) fn run(mut self) -> Result<(), EngineError> {
        self.observer.progress(0, self.total);
        loop {
            self.start_reads()?;
            match self.flights.pop_front() {
                Some(Flight::Read(chunk, io)) => {
                    let buf = self.finish_read(&chunk, io)?;
                    // The device gets its next work before this is processed.
                    self.start_reads()?;
                    self.look_at(chunk, buf);
                }
                Some(Flight::Write(chunk, block, io)) => {
                    let (buf, result) = self.io.finish_owned(io);
                    result.map_err(|error| chunk.describe("write", block, error))?;
                    self.spare.push(buf);
                }
                None => return Ok(()),
            }
        }
    }

    fn start_reads(&mut self) -> Result<(), EngineError> {
        if DEPTH.saturating_sub(self.flights.len()) < BATCH {
            return Ok(());
        }
        self.io.begin_batch();
        let started = self.start_all();
        self.io.end_batch();
        started
    }

    fn start_all(&mut self) -> Result<(), EngineError> {
        while self.flights.len() < DEPTH {
            let Some(buf) = self.spare.pop() else { break };
            let Some(chunk) = self.next_chunk()? else {
                self.spare.push(buf);
                break;
            };
            let part = 0..chunk.blocks as usize * BLOCK_SIZE;
            let read = self.io.start_read(&chunk.file, chunk.offset(0), buf, part, Target::File);
            self.flights.push_back(Flight::Read(chunk, read));
        }
        Ok(())
    }

    /// The pages of a chunk. If they cannot be read together they are read one by one, to find the
    /// damaged block.
    fn finish_read(&mut self, chunk: &Chunk<'t>, io: OwnedIo) -> Result<AlignedBuf, EngineError> {
        let (mut buf, result) = self.io.finish_owned(io);
        match result {
            Ok(_) => return Ok(buf),
            Err(error @ AioError::Short { got, .. }) => {
                return Err(chunk.describe("read", (got / BLOCK_SIZE) as u32, error));
            }
            Err(AioError::Io { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        for block in 0..chunk.blocks {
            let from = block as usize * BLOCK_SIZE;
            let part = from..from + BLOCK_SIZE;
            let read =
                self.io.start_read(&chunk.file, chunk.offset(block), buf, part, Target::File);
            let (back, result) = self.io.finish_owned(read);
            result.map_err(|error| chunk.describe("read", block, error))?;
            buf = back;
        }
        Ok(buf)
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk<'t>>, EngineError> {
        let mut rest = match self.rest.take() {
            Some(rest) => rest,
            None => match self.next_file()? {
                Some(rest) => rest,
                None => return Ok(None),
            },
        };
        let blocks = rest.blocks.min(self.options.io_combine_limit);
        let chunk = Chunk { blocks, file: rest.file.clone(), ..rest };
        rest.first += blocks;
        rest.blocks -= blocks;
        self.rest = (rest.blocks > 0).then_some(rest);
        Ok(Some(chunk))
    }

    /// Opens the next file that has pages.
    fn next_file(&mut self) -> Result<Option<Chunk<'t>>, EngineError> {
        let options = match self.options.mode {
            ChecksumMode::Enable => OpenOptions::READ_WRITE,
            ChecksumMode::Check | ChecksumMode::Disable => OpenOptions::READ,
        };
        let names = Arc::clone(self.io.aio().namespace());
        for (index, of) in self.files.by_ref() {
            let file = names.open(&of.path, &options.direct(self.options.direct))?;
            self.counts.files_scanned += 1;
            if of.blocks > 0 {
                return Ok(Some(Chunk { of, index, file, first: 0, blocks: of.blocks }));
            }
            self.observer.file_done(&of.path);
        }
        Ok(None)
    }

    fn look_at(&mut self, chunk: Chunk<'t>, mut buf: AlignedBuf) {
        let first = chunk.of.first_block + chunk.first;
        let (pages, _) = buf.as_chunks_mut::<BLOCK_SIZE>();
        let mut changed: Option<(u32, u32)> = None;
        let pages = &mut pages[..chunk.blocks as usize];
        let sums = &mut self.sums[..pages.len()];
        // All at once, so that memory is prefetched while a page is summed.
        checksum_pages(pages, first, sums);
        for ((n, page), calculated) in (0..chunk.blocks).zip(pages).zip(sums) {
            let (calculated, found) = (*calculated, stored_checksum(page));
            if calculated == found || Page::new(page).is_new() {
                continue;
            }
            if self.options.mode == ChecksumMode::Enable {
                PageMut(page).set_checksum(calculated);
                self.counts.blocks_written += 1;
                changed = Some((changed.map_or(n, |(from, _)| from), n + 1));
            } else {
                self.counts.bad_blocks += 1;
                let path = chunk.of.path.clone();
                self.observer.bad_block(&BadBlock {
                    path,
                    block: chunk.first + n,
                    calculated,
                    found,
                });
            }
        }
        self.counts.blocks_scanned += u64::from(chunk.blocks);
        self.observer.progress(self.counts.blocks_scanned * BLOCK_SIZE as u64, self.total);
        if chunk.first + chunk.blocks == chunk.of.blocks {
            self.observer.file_done(&chunk.of.path);
        }
        match changed {
            Some(blocks) => self.write(chunk, buf, blocks),
            None => self.spare.push(buf),
        }
    }

    /// Writes from the first changed page to the last, including unchanged ones between them.
    fn write(&mut self, chunk: Chunk<'t>, buf: AlignedBuf, (from, to): (u32, u32)) {
        if self.last_written != Some(chunk.index) {
            self.last_written = Some(chunk.index);
            self.counts.files_written += 1;
        }
        let part = from as usize * BLOCK_SIZE..to as usize * BLOCK_SIZE;
        let write = self.io.start_write(&chunk.file, chunk.offset(from), buf, part, Target::File);
        self.flights.push_back(Flight::Write(chunk, from, write));
    }
}
