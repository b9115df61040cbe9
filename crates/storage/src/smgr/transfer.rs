//! Transfers: reads and writes of a relation's blocks.
//!
//! [`Smgr::start_read`] and [`Smgr::start_write`] take any range of blocks, also across segment
//! borders, and start as many I/Os as it needs. They serve callers that move pages past the buffer
//! pool. The pool itself makes I/Os of one segment each and attaches its completions.

use super::fork::RelFork;
use super::manager::{BLOCK, Smgr};
use super::sync_queue::SyncQueue;
use crate::error::{StorageError, file_error};
use forebay_aio::{
    self as aio, Completed, Completion, Errno, File, Io, IoContext, IoFlags, IoMemory, IoObject,
    IoOp, IoReport, Op, OpenOptions, Outcome, SharedCompletion, Target, WaitRef,
};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use smallvec::SmallVec;
use std::sync::Arc;

/// The most blocks in one I/O of a transfer.
const PART: u32 = 128;

/// A read or write of a range of blocks that was started. Without [`Smgr::finish`] its result is
/// lost, and its handles are freed at the end of the statement.
#[must_use = "a transfer is over when `Smgr::finish` says so"]
#[derive(Debug)]
pub struct Transfer {
    first: PageTag,
    op: IoOp,
    parts: SmallVec<[Part; 4]>,
}

/// One I/O of a transfer.
#[derive(Debug)]
struct Part {
    wait: WaitRef,
    first: BlockNumber,
    count: u32,
}

/// The completion of a write past the pool. It requests a sync, also after a failure, which may
/// have written a part.
struct WriteDone {
    sync: Arc<SyncQueue>,
    /// The first page.
    page: PageTag,
}

impl SharedCompletion for WriteDone {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self.sync.request(&self.page);
        io.outcome
    }
}

impl Smgr {
    // ---- any range

    /// Starts to read as many blocks from `first` on as `memory` has room for. The memory belongs
    /// to the I/O until the transfer is finished. Panics unless it consists of whole blocks.
    pub fn start_read(
        &self,
        io: &mut aio::IoBackend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: &IoMemory,
    ) -> Result<Transfer, StorageError> {
        self.start_transfer(io, PageTag::new(rel, fork, first), IoOp::Read, memory)
    }

    /// Starts to write blocks from `first` on, all below the fork's end. When the write of a
    /// segment has ended, a sync is requested. Panics unless the memory consists of whole blocks.
    pub fn start_write(
        &self,
        io: &mut aio::IoBackend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: &IoMemory,
    ) -> Result<Transfer, StorageError> {
        self.start_transfer(io, PageTag::new(rel, fork, first), IoOp::Write, memory)
    }

    /// Waits for the end of a transfer. An error names the first block that was not transferred.
    pub fn finish(&self, io: &mut aio::IoBackend, transfer: Transfer) -> Result<(), StorageError> {
        let mut result = Ok(());
        for part in &transfer.parts {
            let report = io.wait(part.wait).own().map_err(StorageError::from);
            result = result.and(report.and_then(|report| self.judge(&transfer, part, &report)));
        }
        result
    }

    /// Writes blocks and waits: [`Self::start_write`] and [`Self::finish`].
    pub fn write_blocks(
        &self,
        io: &mut aio::IoBackend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: &IoMemory,
    ) -> Result<(), StorageError> {
        let transfer = self.start_write(io, rel, fork, first, memory)?;
        self.finish(io, transfer)
    }

    fn start_transfer(
        &self,
        io: &mut aio::IoBackend,
        first: PageTag,
        op: IoOp,
        memory: &IoMemory,
    ) -> Result<Transfer, StorageError> {
        let blocks = memory.len() as u64 / BLOCK;
        assert!(
            blocks > 0 && (memory.len() as u64).is_multiple_of(BLOCK),
            "a transfer is of whole blocks"
        );
        let end = u32::try_from(u64::from(first.block) + blocks)
            .map_err(|_| StorageError::TooManyBlocks { relation: first.rel.path(first.fork) })?;
        // Truncation and removal wait for transfers in flight, which therefore must not stay
        // staged.
        io.submit();
        let entry = self.fork(first.rel, first.fork);
        let mut transfer = Transfer { first, op, parts: SmallVec::new() };
        let (mut at, mut taken) = (first.block, 0);
        while at < end {
            let count = self.room_in_segment(at).min(PART).min(end - at);
            let part = cut(memory, taken, count as usize * BLOCK_SIZE);
            match self.start_part(io, &entry, at, op, part) {
                Ok(wait) => transfer.parts.push(Part { wait, first: at, count }),
                Err(error) => {
                    // The caller gets its memory back. The error that is returned came first.
                    let _ = self.finish(io, transfer);
                    return Err(error);
                }
            }
            (at, taken) = (at + count, taken + count as usize * BLOCK_SIZE);
        }
        Ok(transfer)
    }

    fn start_part(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        first: BlockNumber,
        op: IoOp,
        memory: IoMemory,
    ) -> Result<WaitRef, StorageError> {
        let end = first + (memory.len() / BLOCK_SIZE) as u32;
        loop {
            if op == IoOp::Write && entry.known_size().is_none() {
                // Before the start: a holder of the extension lock may wait for starting transfers.
                let _lock = entry.extending.lock();
                self.size_locked(entry).map_err(|error| self.with_block(error, entry, first))?;
            }
            let started = entry.transfers.start(&self.aio, || {
                if op == IoOp::Write {
                    match entry.known_size() {
                        None => return Err(None),
                        Some(size) if size < end => {
                            let block = size.max(first);
                            let file = self.file_name(&entry.page(block));
                            return Err(Some(StorageError::WritePastEnd { file, block, size }));
                        }
                        Some(_) => {}
                    }
                }
                self.launch(io, entry, first, op, memory.clone()).map_err(Some)
            });
            match started {
                Ok(wait) => return Ok(wait),
                Err(Some(error)) => return Err(error),
                // A failed truncation made the size unknown meanwhile: read it again.
                Err(None) => {}
            }
        }
    }

    fn launch(
        &self,
        io: &mut aio::IoBackend,
        entry: &RelFork,
        first: BlockNumber,
        op: IoOp,
        memory: IoMemory,
    ) -> Result<WaitRef, StorageError> {
        let count = (memory.len() / BLOCK_SIZE) as u32;
        let (file, offset, target) = self.place_in(entry, first, memory.len())?;
        let transfer = if op == IoOp::Write {
            self.written.remove(&entry.page(first), count);
            let done = WriteDone { sync: Arc::clone(&self.sync), page: entry.page(first) };
            Io::write(file, offset, memory, target).also(Completion::shared(Arc::new(done)))
        } else {
            Io::read(file, offset, memory, target)
        };
        let flags = IoFlags { local_memory: self.is_temporary(), ..IoFlags::default() };
        let wait = io.start(transfer.account(self.object(), IoContext::Normal, op).flags(flags));
        io.submit();
        Ok(wait)
    }

    /// The result of one I/O of a transfer.
    fn judge(
        &self,
        transfer: &Transfer,
        part: &Part,
        report: &IoReport,
    ) -> Result<(), StorageError> {
        let Some(error) = &report.error else { return Ok(()) };
        let whole = (report.transferred / BLOCK_SIZE) as u32;
        let block = part.first + whole.min(part.count - 1);
        let file = self.file_name(&PageTag { block, ..transfer.first });
        Err(match (transfer.op, error.errno()) {
            (IoOp::Read, None) => {
                let got = (report.transferred % BLOCK_SIZE) as u32;
                StorageError::ShortRead { file, block, got, wanted: BLOCK_SIZE as u32 }
            }
            (IoOp::Read, Some(errno)) => StorageError::Read { file, block, errno },
            (_, errno) => {
                let count = part.first + part.count - block;
                StorageError::Write { file, block, count, errno: errno.unwrap_or(Errno::IO) }
            }
        })
    }

    // ---- within one segment

    /// Makes a read of blocks of one segment. The caller adds a completion and starts it.
    pub(crate) fn read_io(&self, first: &PageTag, memory: IoMemory) -> Result<Io, StorageError> {
        let (file, offset, target) = self.place(first, memory.len())?;
        Ok(Io::read(file, offset, memory, target))
    }

    /// Makes a write of blocks of one segment. The caller adds a completion, which must request a
    /// sync, and starts it.
    pub(crate) fn write_io(&self, first: &PageTag, memory: IoMemory) -> Result<Io, StorageError> {
        let (file, offset, target) = self.place(first, memory.len())?;
        Ok(Io::write(file, offset, memory, target))
    }

    /// Returns the open file that contains a page, and the page's offset in it.
    pub(crate) fn file_at(&self, page: &PageTag) -> Result<(File, u64), StorageError> {
        let (file, offset, _) = self.place(page, BLOCK_SIZE)?;
        Ok((file, offset))
    }

    /// Makes a hint to the kernel to write back blocks that were written. None if the file cannot
    /// be opened: the hint is of no use then.
    pub(crate) fn writeback_io(&self, first: &PageTag, blocks: u32) -> Option<Io> {
        let len = blocks as usize * BLOCK_SIZE;
        // It may have been removed meanwhile.
        let (file, offset, target) = self.place(first, len).ok()?;
        let hint = Op::SyncFileRange { offset, len: len as u64 };
        let flags = IoFlags { detached: true, ..IoFlags::default() };
        Some(Io::new(file, hint, target).flags(flags).account(
            IoObject::Relation,
            IoContext::Normal,
            IoOp::Writeback,
        ))
    }

    fn place(&self, first: &PageTag, len: usize) -> Result<(File, u64, Target), StorageError> {
        self.place_in(&self.fork(first.rel, first.fork), first.block, len)
    }

    fn place_in(
        &self,
        entry: &RelFork,
        block: BlockNumber,
        len: usize,
    ) -> Result<(File, u64, Target), StorageError> {
        let count = (len / BLOCK_SIZE) as u32;
        debug_assert!(
            count >= 1 && count <= self.room_in_segment(block) && len.is_multiple_of(BLOCK_SIZE)
        );
        let opened = self.open_segment(entry, self.segment_of(block), false);
        let (file, _) = opened.map_err(|error| self.with_block(error, entry, block))?;
        Ok((file, self.offset_in_segment(block), self.target(&entry.page(block), count)))
    }

    /// Opens a segment's file for reading past the kernel's cache, whatever the setting.
    pub(crate) fn open_past_cache(&self, page: &PageTag) -> Result<File, StorageError> {
        let path = self.segment_path(page.rel, page.fork, self.segment_of(page.block));
        let opened = self.aio.namespace().open(&path, &OpenOptions::READ.direct(true));
        opened.map_err(|e| file_error("open", &path, &e))
    }

    /// Describes an I/O for messages and views.
    pub(crate) fn target(&self, first: &PageTag, count: u32) -> Target {
        let RelFileLocator { spc, db, rel } = first.rel;
        let (fork, block) = (first.fork.suffix(), first.block);
        Target::Smgr { spc, db, rel, fork, block, count, temp: self.is_temporary() }
    }

    /// Turns an error about a file into one that names the block to be accessed.
    fn with_block(&self, error: StorageError, entry: &RelFork, block: BlockNumber) -> StorageError {
        match error {
            StorageError::File { errno, .. } => {
                StorageError::OpenSegment { file: self.file_name(&entry.page(block)), block, errno }
            }
            other => other,
        }
    }
}

/// Returns a part of an I/O's memory.
fn cut(memory: &IoMemory, mut from: usize, mut len: usize) -> IoMemory {
    let mut part = IoMemory::empty(Arc::clone(&memory.region));
    for slice in &memory.slices {
        if from >= slice.len {
            from -= slice.len;
            continue;
        }
        let n = (slice.len - from).min(len);
        if n > 0 {
            part.push(slice.offset + from, n);
        }
        (from, len) = (0, len - n);
    }
    part
}
