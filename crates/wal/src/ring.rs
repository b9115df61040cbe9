//! WAL buffers: a ring of aligned blocks that inserters fill and committers write out.
//!
//! ```text
//!    buffer = block number % blocks                                          + 1 tail block
//!   +--------+--------+--------+--------+--------+--------+--------+--------+  +--------+
//!   |  free  | written| being written   | copied | being  | copied |  free  |  |  tail  |
//!   |        |        |                 |        | copied |        |        |  |        |
//!   +--------+--------+--------+--------+--------+--------+--------+--------+  +--------+
//!                     ^ written                  ^ copied          ^ reserved
//! ```
//!
//! - A byte behind `copied` belongs to the inserter that has reserved it: a [`ReservedBytes`]
//!   stands for that. A page header belongs to the first record that starts or continues on the
//!   page.
//! - Bytes before `copied` (see [`slots`](crate::slots)) do not change until `written` has passed
//!   the end of their block. Then the buffer is free for another block.
//! - Only bytes before `copied` are written. Full blocks are written from where they are. A last,
//!   partial block is first copied to the tail block and padded with zeros. So no byte changes
//!   while it is written, and no part of an unfinished record is written.
//! - One write with a partial block is in flight at a time (see [`pipeline`](crate::pipeline)), so
//!   one tail block is enough. It keeps its contents: when a block is written repeatedly as it
//!   fills, only the new bytes are copied.

use forebay_aio::{
    Aio, AioError, HugePages, IoMemory, Region,
    sync::{Arc, Mutex},
};
use forebay_format::Lsn;

use crate::{pipeline::Progress, position::WAL_BLOCK};

const BLOCK: usize = WAL_BLOCK as usize;

/// The buffers of one log.
#[derive(Debug)]
pub(crate) struct Ring {
    region: Arc<Region>,
    blocks: u64,
    /// The tail block has the bytes before this position of the block that holds them, and zeros
    /// behind. 0: it is empty.
    tail: Mutex<Lsn>,
    progress: Arc<Progress>,
}

/// Memory to write, and its address in the log.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Address of the first block.
    pub from: Lsn,
    /// Whole blocks.
    pub memory: IoMemory,
}

impl Ring {
    /// A ring of `blocks` blocks for a log that resumes where `progress` stands. `head` has the
    /// bytes before that position in its block.
    pub fn new(
        aio: &Aio,
        blocks: usize,
        progress: Arc<Progress>,
        head: &[u8],
    ) -> Result<Ring, AioError> {
        let at = progress.written();
        assert_eq!(head.len(), at.page_offset(), "the block before {at}");
        let blocks = blocks.max(4);
        // With huge pages, a write consists of fewer physical ranges.
        let region = Region::with_huge_pages((blocks + 1) * BLOCK, HugePages::Transparent)?;
        aio.register_memory(&region);
        let ring = Ring { region, blocks: blocks as u64, tail: Mutex::new(Lsn(0)), progress };
        let to = ring.region.ptr(ring.offset(at.page_start()));
        // SAFETY: less than a block (asserted) is copied to the start of a block inside the region,
        // which no other thread has access to yet.
        unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len()) };
        Ok(ring)
    }

    /// Everything before this was written to its file.
    pub fn written(&self) -> Lsn {
        self.progress.written()
    }

    /// How far the log must be written before the buffer of the block at `lsn` is free.
    pub fn needs_written(&self, lsn: Lsn) -> Lsn {
        Lsn((lsn.page_start().0 + WAL_BLOCK).saturating_sub(self.blocks * WAL_BLOCK))
    }

    /// The bytes from `from` to `upto`, for the inserter that has reserved them.
    ///
    /// # Safety
    /// They must be reserved for the caller: no other `ReservedBytes` has any of them, and none of
    /// them counts as copied before it was put.
    pub unsafe fn reserved_bytes(&self, from: Lsn, upto: Lsn) -> ReservedBytes<'_> {
        ReservedBytes { ring: self, from, upto }
    }

    /// The blocks from the one that holds `from` to the one that holds the byte before `upto`. The
    /// last one is padded with zeros.
    ///
    /// # Safety
    /// Everything before `upto` must have been copied, and `written` must not pass `from` while the
    /// returned memory is in use. If `upto` is in the middle of a block, no other returned memory
    /// with a partial block may be in use.
    pub unsafe fn gather(&self, from: Lsn, upto: Lsn) -> Gathered {
        let from = from.page_start();
        let mut memory = IoMemory::empty(Arc::clone(&self.region));
        let mut at = from;
        while at < upto.page_start() {
            memory.push(self.offset(at), BLOCK);
            at = at.add(WAL_BLOCK);
        }
        if at < upto {
            // SAFETY: the caller's promise.
            unsafe { self.copy_to_tail(at, upto) };
            memory.push(self.tail_offset(), BLOCK);
        }
        Gathered { from, memory }
    }

    /// Copies to the tail block what it lacks up to `upto`, which is in the middle of the block at
    /// `start`.
    ///
    /// # Safety
    /// Everything before `upto` must have been copied, and the tail block must not be in use.
    unsafe fn copy_to_tail(&self, start: Lsn, upto: Lsn) {
        let mut tail = self.tail.lock();
        let is_same = start < *tail && *tail < start.add(WAL_BLOCK);
        let (had, has) = (if is_same { tail.page_offset() } else { 0 }, upto.page_offset());
        assert!(had <= has, "the log goes on from {}, not from {upto}", *tail);
        let (from, to) = (self.region.ptr(self.offset(start)), self.region.ptr(self.tail_offset()));
        // SAFETY: both blocks are inside the region and distinct. By the caller's promise the bytes
        // read do not change, and no other thread uses the tail block.
        unsafe {
            std::ptr::copy_nonoverlapping(from.add(had), to.add(had), has - had);
            if !is_same {
                std::ptr::write_bytes(to.add(has), 0, BLOCK - has);
            }
        }
        *tail = upto;
    }

    /// Offset in the region of the byte at `lsn`.
    fn offset(&self, lsn: Lsn) -> usize {
        (lsn.0 / WAL_BLOCK % self.blocks) as usize * BLOCK + lsn.page_offset()
    }

    fn tail_offset(&self) -> usize {
        self.blocks as usize * BLOCK
    }
}

/// The reserved bytes of one record, which only their inserter may fill.
#[derive(Debug)]
pub(crate) struct ReservedBytes<'a> {
    ring: &'a Ring,
    from: Lsn,
    upto: Lsn,
}

impl ReservedBytes<'_> {
    /// Copies `bytes` to `at`. They must end in the same block, whose buffer must be free.
    pub fn put(&mut self, at: Lsn, bytes: &[u8]) {
        let ring = self.ring;
        let end = at.add(bytes.len() as u64);
        assert!(self.from <= at && end <= self.upto, "{at} to {end} was not reserved");
        assert!(at.page_offset() + bytes.len() <= BLOCK, "{at} to {end} crosses a block boundary");
        assert!(ring.written() >= ring.needs_written(at), "the buffer of block {at} is not free");
        let to = ring.region.ptr(ring.offset(at));
        // SAFETY: the bytes are inside one block (asserted), hence inside the region. They are
        // reserved for the holder of `self`, and `&mut self` excludes a second copy. The block that
        // used the buffer before is written (asserted), so nothing reads it any more. The new bytes
        // are not read before they count as copied.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}
