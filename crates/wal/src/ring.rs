//! WAL buffers: a ring of aligned blocks between one inserting end and one writing end.
//!
//! ```text
//!    slot = block number % blocks                                                       + 1 tail block
//!   +---------+---------+---------+---------+---------+---------+---------+---------+  +---------+
//!   |  free   | written | written | copied  | copied  | copied..|  free   |  free   |  |  tail   |
//!   +---------+---------+---------+---------+---------+---------+---------+---------+  +---------+
//!                       ^ written                     ^ copied
//! ```
//!
//! - Bytes before `copied` are final; the inserting end alone touches bytes from `copied` on.
//! - The writing end reads bytes between `written` and `copied` only. A block that is full up to there goes
//!   to the kernel where it lies; the last, partial one is first copied to the tail block, behind which zeros
//!   follow. So no byte under a write ever changes, and half a record is never written beside a whole one.
//! - A slot is free for its next block once `written` has passed the end of the block that it holds.
//!
//! Each end is one value that is not cloned, so that `&mut` is proof of being alone on that side.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};

use forebay_aio::{Aio, AioError, IoMemory, Region, sync::Arc};
use forebay_format::Lsn;

use crate::position::WAL_BLOCK;

const BLOCK: usize = WAL_BLOCK as usize;

/// What the two ends share.
#[derive(Debug)]
pub(crate) struct Ring {
    region: Arc<Region>,
    blocks: u64,
    copied: AtomicU64,
    written: AtomicU64,
}

impl Ring {
    /// A ring of `blocks` blocks for a log that goes on at `at`; and its two ends.
    pub fn new(aio: &Aio, blocks: usize, at: Lsn) -> Result<(Arc<Ring>, InsertEnd, WriteEnd), AioError> {
        let blocks = blocks.max(4);
        let region = Region::new((blocks + 1) * BLOCK)?;
        aio.register_memory(&region);
        let ring = Arc::new(Ring {
            region,
            blocks: blocks as u64,
            copied: AtomicU64::new(at.0),
            written: AtomicU64::new(at.0),
        });
        Ok((Arc::clone(&ring), InsertEnd { ring: Arc::clone(&ring) }, WriteEnd { ring }))
    }

    /// Everything before this is final.
    pub fn copied(&self) -> Lsn {
        Lsn(self.copied.load(Ordering::Acquire))
    }

    /// Everything before this was written to its file.
    pub fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    /// How far the log must be written for the slot of the block at `lsn` to be free.
    pub fn needs_written(&self, lsn: Lsn) -> Lsn {
        Lsn((lsn.page_start().0 + WAL_BLOCK).saturating_sub(self.blocks * WAL_BLOCK))
    }

    /// Offset in the region of the byte at `lsn`.
    fn offset(&self, lsn: Lsn) -> usize {
        (lsn.0 / WAL_BLOCK % self.blocks) as usize * BLOCK + lsn.page_offset()
    }

    fn tail_offset(&self) -> usize {
        self.blocks as usize * BLOCK
    }
}

/// The inserting end.
#[derive(Debug)]
pub(crate) struct InsertEnd {
    ring: Arc<Ring>,
}

impl InsertEnd {
    /// Makes the block at the page boundary `at` ready: `start` (a page header, or a page's first part) and zeros.
    pub fn open_block(&mut self, at: Lsn, start: &[u8]) {
        let ring = &*self.ring;
        assert!(at.page_offset() == 0 && start.len() <= BLOCK, "a block opens at its boundary");
        assert!(ring.written() >= ring.needs_written(at), "the slot of block {at} is still to be written");
        assert!(ring.copied().page_start() <= at, "block {at} is in use");
        let slot = ring.region.ptr(ring.offset(at));
        // SAFETY: the slot's BLOCK bytes are inside the region. They are ours alone: the block that they held
        // before is written (asserted), so the writing end has done with it, and it looks at the new one only
        // below `copied`, which this call does not move. `&mut self` excludes another inserter.
        unsafe {
            std::ptr::copy_nonoverlapping(start.as_ptr(), slot, start.len());
            std::ptr::write_bytes(slot.add(start.len()), 0, BLOCK - start.len());
        }
    }

    /// Copies `bytes` to `at`; they end in the same block, which is open.
    pub fn put(&mut self, at: Lsn, bytes: &[u8]) {
        let ring = &*self.ring;
        assert!(at.page_offset() + bytes.len() <= BLOCK, "a piece stays within its block");
        assert!(at >= ring.copied(), "bytes before {} are final", ring.copied());
        assert!(ring.written() >= ring.needs_written(at), "the slot of block {at} is still to be written");
        let to = ring.region.ptr(ring.offset(at));
        // SAFETY: inside one slot (asserted), hence inside the region; nobody reads bytes from `copied` on,
        // and `&mut self` excludes another inserter.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Declares everything before `upto` final.
    pub fn publish(&mut self, upto: Lsn) {
        let before = self.ring.copied.swap(upto.0, Ordering::Release);
        debug_assert!(before <= upto.0);
    }
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct WriteEnd {
    ring: Arc<Ring>,
}

/// Memory to write, and where it belongs.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Address of the first block.
    pub from: Lsn,
    /// Whole blocks.
    pub memory: IoMemory,
}

impl WriteEnd {
    /// The blocks from the one that holds `written` to the one that holds the byte before `upto`, the last of
    /// them padded with zeros. The memory may be used until the next call.
    pub fn gather(&mut self, upto: Lsn) -> Gathered {
        let ring = &*self.ring;
        assert!(upto <= ring.copied(), "bytes from {} on are not final", ring.copied());
        let from = ring.written().page_start();
        let mut memory = IoMemory::empty(Arc::clone(&ring.region));
        let mut at = from;
        while at < upto.page_start() {
            memory.push(ring.offset(at), BLOCK);
            at = at.add(WAL_BLOCK);
        }
        if at < upto {
            self.copy_tail(at, upto.page_offset());
            memory.push(self.ring.tail_offset(), BLOCK);
        }
        Gathered { from, memory }
    }

    /// Copies the first `len` bytes of the block at `at` to the tail block.
    fn copy_tail(&mut self, at: Lsn, len: usize) {
        let ring = &*self.ring;
        let (from, tail) = (ring.region.ptr(ring.offset(at)), ring.region.ptr(ring.tail_offset()));
        // SAFETY: both blocks are inside the region and distinct. The bytes read are before `copied` (asserted
        // by the caller), so nobody changes them; the tail block belongs to this end, and no write that uses
        // it is under way, since each is waited for before the next call.
        unsafe {
            std::ptr::copy_nonoverlapping(from, tail, len);
            std::ptr::write_bytes(tail.add(len), 0, BLOCK - len);
        }
    }

    /// Declares everything before `upto` written, which sets slots free.
    pub fn release(&mut self, upto: Lsn) {
        let before = self.ring.written.swap(upto.0, Ordering::AcqRel);
        debug_assert!(before <= upto.0);
    }
}
