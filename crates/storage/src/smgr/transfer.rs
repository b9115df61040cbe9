//! Transfers: a relation's blocks read and written.
//!
//! [`Smgr::start_read`] and [`Smgr::start_write`] take any range of blocks in one call, over
//! segment borders, as I/Os that run side by side; they are for whoever moves pages past the buffer
//! pool. The pool places its I/O itself, each within one segment, and attaches what it needs.

use super::{BLOCK, RelFork, Smgr, SyncQueue, file_error};
use crate::error::StorageError;
use forebay_aio::{
    self as aio, Completed, Completion, Errno, File, Io, IoContext, IoFlags, IoMemory, IoObject,
    IoOp, IoReport, Op, OpenOptions, Outcome, SharedCompletion, Target, WaitRef,
};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use smallvec::SmallVec;
use std::sync::Arc;

/// Most blocks in one I/O of a transfer.
const PART: u32 = 128;

/// A read or write of a range of blocks, started. Unless it is finished by [`Smgr::finish`], its
/// result is lost, and its handles come back at the end of the statement.
#[must_use = "a transfer is over when `Smgr::finish` says so"]
#[derive(Debug)]
pub struct Transfer {
    rel: RelFileLocator,
    fork: Fork,
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

/// Which blocks, and as what.
#[derive(Clone, Copy)]
struct Range {
    rel: RelFileLocator,
    fork: Fork,
    first: BlockNumber,
    op: IoOp,
}

/// The end of a write past the pool: asks for a sync, also after a failure, which may have written
/// a part.
struct Written {
    sync: Arc<SyncQueue>,
    rel: RelFileLocator,
    fork: Fork,
    segment: u32,
}

impl SharedCompletion for Written {
    fn complete(&self, io: &Completed<'_>) -> Outcome {
        self.sync.request_segment(self.rel, self.fork, self.segment);
        io.outcome
    }
}

impl Smgr {
    // ---- any range

    /// Starts to read blocks from `first` on, as many as `memory` has room for. The memory belongs
    /// to the I/O until the transfer is finished. Panics if the memory is not made of whole blocks.
    pub fn start_read(
        &self,
        io: &mut aio::Backend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: &IoMemory,
    ) -> Result<Transfer, StorageError> {
        self.start_transfer(io, Range { rel, fork, first, op: IoOp::Read }, memory)
    }

    /// Starts to write blocks from `first` on, all below the fork's end. A sync of each segment is
    /// requested when its write has ended. Panics if the memory is not made of whole blocks.
    pub fn start_write(
        &self,
        io: &mut aio::Backend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: &IoMemory,
    ) -> Result<Transfer, StorageError> {
        self.start_transfer(io, Range { rel, fork, first, op: IoOp::Write }, memory)
    }

    /// Waits until a transfer is over; the first block that was not transferred is named.
    pub fn finish(&self, io: &mut aio::Backend, transfer: Transfer) -> Result<(), StorageError> {
        let mut result = Ok(());
        for part in &transfer.parts {
            let report = io.wait(part.wait).own().map_err(StorageError::from);
            result = result.and(report.and_then(|report| self.judge(&transfer, part, &report)));
        }
        result
    }

    /// Reads blocks: [`Self::start_read`] and [`Self::finish`].
    pub fn read_blocks(
        &self,
        io: &mut aio::Backend,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: &IoMemory,
    ) -> Result<(), StorageError> {
        let transfer = self.start_read(io, rel, fork, first, memory)?;
        self.finish(io, transfer)
    }

    /// Writes blocks: [`Self::start_write`] and [`Self::finish`].
    pub fn write_blocks(
        &self,
        io: &mut aio::Backend,
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
        io: &mut aio::Backend,
        range: Range,
        memory: &IoMemory,
    ) -> Result<Transfer, StorageError> {
        let Range { rel, fork, first, op } = range;
        let blocks = memory.len() as u64 / BLOCK;
        assert!(
            blocks > 0 && (memory.len() as u64).is_multiple_of(BLOCK),
            "a transfer is of whole blocks"
        );
        let end = u32::try_from(u64::from(first) + blocks)
            .map_err(|_| StorageError::TooManyBlocks { relation: rel.path(fork) })?;
        // What is in flight when a file is cut or removed is waited for, so it must not be staged
        // only.
        io.submit();
        let entry = self.fork(rel, fork);
        let mut transfer = Transfer { rel, fork, op, parts: SmallVec::new() };
        let (mut at, mut taken) = (first, 0);
        while at < end {
            let count = self.room_in_segment(at).min(PART).min(end - at);
            let part = cut(memory, taken, count as usize * BLOCK_SIZE);
            match self.start_part(io, &entry, Range { first: at, ..range }, part) {
                Ok(wait) => transfer.parts.push(Part { wait, first: at, count }),
                Err(error) => {
                    // The caller gets its memory back.
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
        io: &mut aio::Backend,
        entry: &RelFork,
        range: Range,
        memory: IoMemory,
    ) -> Result<WaitRef, StorageError> {
        let Range { rel, fork, first, op } = range;
        let end = first + (memory.len() / BLOCK_SIZE) as u32;
        loop {
            if op == IoOp::Write && entry.known_size().is_none() {
                // Not while one is being started: whoever has the extension lock may wait for that.
                let _lock = entry.extending.lock();
                self.size_locked(entry, rel, fork)
                    .map_err(|error| self.with_block(error, rel, fork, first))?;
            }
            let started = entry.transfers.start(&self.aio, || {
                if op == IoOp::Write {
                    match entry.known_size() {
                        None => return Err(None),
                        Some(size) if size < end => {
                            let block = size.max(first);
                            let file = self.file_name(rel, fork, block);
                            return Err(Some(StorageError::WritePastEnd { file, block, size }));
                        }
                        Some(_) => {}
                    }
                }
                self.launch(io, entry, range, memory.clone()).map_err(Some)
            });
            match started {
                Ok(wait) => return Ok(wait),
                Err(Some(error)) => return Err(error),
                // Cutting the fork failed meanwhile: its size is to be read again.
                Err(None) => {}
            }
        }
    }

    fn launch(
        &self,
        io: &mut aio::Backend,
        entry: &RelFork,
        range: Range,
        memory: IoMemory,
    ) -> Result<WaitRef, StorageError> {
        let Range { rel, fork, first, op } = range;
        let count = (memory.len() / BLOCK_SIZE) as u32;
        let (file, offset, target) = self.place_in(entry, rel, fork, first, memory.len())?;
        let transfer = if op == IoOp::Write {
            let (sync, segment) = (Arc::clone(&self.sync), self.segment_of(first));
            self.written.strike_off(&PageTag::new(rel, fork, first), count);
            let written = Written { sync, rel, fork, segment };
            Io::write(file, offset, memory, target).also(Completion::shared(Arc::new(written)))
        } else {
            Io::read(file, offset, memory, target)
        };
        let flags = IoFlags { local_memory: self.is_private(), ..IoFlags::default() };
        let wait = io.start(transfer.account(self.object(), IoContext::Normal, op).flags(flags));
        io.submit();
        Ok(wait)
    }

    fn judge(
        &self,
        transfer: &Transfer,
        part: &Part,
        report: &IoReport,
    ) -> Result<(), StorageError> {
        let Some(error) = &report.error else { return Ok(()) };
        let (rel, fork) = (transfer.rel, transfer.fork);
        let whole = (report.transferred / BLOCK_SIZE) as u32;
        let block = part.first + whole.min(part.count - 1);
        let file = self.file_name(rel, fork, block);
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

    /// A read of blocks that lie in one segment, ready to be given a completion and started.
    pub(crate) fn read_io(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: IoMemory,
    ) -> Result<Io, StorageError> {
        let (file, offset, target) = self.place(rel, fork, first, memory.len())?;
        Ok(Io::read(file, offset, memory, target))
    }

    /// A write of blocks that lie in one segment. Whoever starts it must see to a sync request when
    /// it has ended.
    pub(crate) fn write_io(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        memory: IoMemory,
    ) -> Result<Io, StorageError> {
        let (file, offset, target) = self.place(rel, fork, first, memory.len())?;
        Ok(Io::write(file, offset, memory, target))
    }

    /// The open file that holds a block, and where in it.
    pub(crate) fn file_at(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
    ) -> Result<(File, u64), StorageError> {
        let (file, offset, _) = self.place(rel, fork, block, BLOCK_SIZE)?;
        Ok((file, offset))
    }

    /// A hint to the kernel that it should write back blocks that were written. None if it would be
    /// of no use.
    pub(crate) fn writeback_io(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        first: BlockNumber,
        blocks: u32,
    ) -> Option<Io> {
        let len = blocks as usize * BLOCK_SIZE;
        // The file may be gone by now.
        let (file, offset, target) = self.place(rel, fork, first, len).ok()?;
        let hint = Op::SyncFileRange { offset, len: len as u64 };
        let flags = IoFlags { detached: true, ..IoFlags::default() };
        Some(Io::new(file, hint, target).flags(flags).account(
            IoObject::Relation,
            IoContext::Normal,
            IoOp::Writeback,
        ))
    }

    fn place(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
        len: usize,
    ) -> Result<(File, u64, Target), StorageError> {
        self.place_in(&self.fork(rel, fork), rel, fork, block, len)
    }

    fn place_in(
        &self,
        entry: &RelFork,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
        len: usize,
    ) -> Result<(File, u64, Target), StorageError> {
        let count = (len / BLOCK_SIZE) as u32;
        debug_assert!(
            count >= 1 && count <= self.room_in_segment(block) && len.is_multiple_of(BLOCK_SIZE)
        );
        let opened = self.open_segment(entry, rel, fork, self.segment_of(block), false);
        let (file, _) = opened.map_err(|error| self.with_block(error, rel, fork, block))?;
        Ok((file, self.offset_in_segment(block), self.target(rel, fork, block, count)))
    }

    /// A segment's file for reading, past the kernel's cache whatever the setting.
    pub(crate) fn open_past_cache(&self, page: &PageTag) -> Result<File, StorageError> {
        let path = self.segment_path(page.rel, page.fork, self.segment_of(page.block));
        let opened = self.aio.namespace().open(&path, &OpenOptions::READ.direct(true));
        opened.map_err(|e| file_error("open", &path, &e))
    }

    /// What messages and views say of an I/O.
    pub(crate) fn target(
        &self,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
        count: u32,
    ) -> Target {
        let RelFileLocator { spc, db, rel } = rel;
        Target::Smgr { spc, db, rel, fork: fork.suffix(), block, count, temp: self.is_private() }
    }

    /// Names the block for which a file should have been opened.
    fn with_block(
        &self,
        error: StorageError,
        rel: RelFileLocator,
        fork: Fork,
        block: BlockNumber,
    ) -> StorageError {
        match error {
            StorageError::File { errno, .. } => {
                StorageError::OpenSegment { file: self.file_name(rel, fork, block), block, errno }
            }
            other => other,
        }
    }
}

/// A part of an I/O's memory.
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
