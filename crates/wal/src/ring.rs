//! WAL buffers: a ring of aligned blocks that many fill and many write out.
//!
//! ```text
//!    place = block number % blocks                                                      + 1 tail block
//!   +---------+---------+---------+---------+---------+---------+---------+---------+  +---------+
//!   |  free   | written | being written     | copied  | being   | copied  |  free   |  |  tail   |
//!   |         |         |                   |         | copied  |         |         |  |         |
//!   +---------+---------+---------+---------+---------+---------+---------+---------+  +---------+
//!                       ^ written                     ^ copied            ^ reserved
//! ```
//!
//! - A byte from `copied` on belongs to who has reserved it, and to nobody else: a [`Place`] stands
//!   for that. Page headers belong to whose record goes first on, or on to, the page.
//! - Bytes before `copied` (see [`slots`](crate::slots)) are final until `written` has passed the
//!   end of their block: then it is free for the next block that goes there.
//! - What is written is before `copied`. Blocks that are full up to there go to the kernel where
//!   they lie; a last, partial one is first copied to the tail block, behind which zeros follow. So
//!   no byte under a write ever changes, and half a record is never written beside a whole one. One
//!   write with a partial block is under way at a time (see [`flight`](crate::flight)), so one tail
//!   block is enough. It keeps what it has: of a block that is written again and again as it fills,
//!   only what is new is copied.

use forebay_aio::{
    Aio, AioError, HugePages, IoMemory, Region,
    sync::{Arc, Mutex},
};
use forebay_format::Lsn;

use crate::{flight::Progress, position::WAL_BLOCK};

const BLOCK: usize = WAL_BLOCK as usize;

/// The buffers of one log.
#[derive(Debug)]
pub(crate) struct Ring {
    region: Arc<Region>,
    blocks: u64,
    /// Up to where the tail block has the block that holds the byte before; zeros follow. 0: it has
    /// none.
    tail: Mutex<Lsn>,
    progress: Arc<Progress>,
}

/// Memory to write, and where it belongs.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Address of the first block.
    pub from: Lsn,
    /// Whole blocks.
    pub memory: IoMemory,
}

impl Ring {
    /// A ring of `blocks` blocks for a log that goes on where `progress` stands, in a block that
    /// begins with `head`.
    pub fn new(
        aio: &Aio,
        blocks: usize,
        progress: Arc<Progress>,
        head: &[u8],
    ) -> Result<Ring, AioError> {
        let at = progress.written();
        assert_eq!(head.len(), at.page_offset(), "the block before {at}");
        let blocks = blocks.max(4);
        // In huge pages, a device needs to be told of fewer pieces of memory.
        let region = Region::with_huge_pages((blocks + 1) * BLOCK, HugePages::Transparent)?;
        aio.register_memory(&region);
        let ring = Ring { region, blocks: blocks as u64, tail: Mutex::new(Lsn(0)), progress };
        let to = ring.region.ptr(ring.offset(at.page_start()));
        // SAFETY: less than a block (asserted), at the start of a block inside the region, which
        // nobody else knows yet.
        unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), to, head.len()) };
        Ok(ring)
    }

    /// Everything before this was written to its file.
    pub fn written(&self) -> Lsn {
        self.progress.written()
    }

    /// How far the log must be written for the block at `lsn` to have its place.
    pub fn needs_written(&self, lsn: Lsn) -> Lsn {
        Lsn((lsn.page_start().0 + WAL_BLOCK).saturating_sub(self.blocks * WAL_BLOCK))
    }

    /// The bytes from `from` to `upto`.
    ///
    /// # Safety
    /// They were reserved for the caller: no other place has any of them, and nobody takes them for
    /// copied before the returned value is gone.
    pub unsafe fn place(&self, from: Lsn, upto: Lsn) -> Place<'_> {
        Place { ring: self, from, upto }
    }

    /// The blocks from the one that holds `from` to the one that holds the byte before `upto`, the
    /// last of them padded with zeros.
    ///
    /// # Safety
    /// Everything before `upto` has been copied, and `written` does not pass `from` before the
    /// returned memory is done with. If `upto` is in the middle of a block, no other memory with a
    /// partial block is in use.
    pub unsafe fn gather(&self, from: Lsn, upto: Lsn) -> Gathered {
        let from = from.page_start();
        let mut memory = IoMemory::empty(Arc::clone(&self.region));
        let mut at = from;
        while at < upto.page_start() {
            memory.push(self.offset(at), BLOCK);
            at = at.add(WAL_BLOCK);
        }
        if at < upto {
            // SAFETY: as the caller promises.
            unsafe { self.copy_to_tail(at, upto) };
            memory.push(self.tail_offset(), BLOCK);
        }
        Gathered { from, memory }
    }

    /// Brings the tail block up to `upto`, which is in the middle of the block at `start`.
    ///
    /// # Safety
    /// Everything before `upto` has been copied, and nobody uses the tail block.
    unsafe fn copy_to_tail(&self, start: Lsn, upto: Lsn) {
        let mut tail = self.tail.lock();
        let is_same = start < *tail && *tail < start.add(WAL_BLOCK);
        let (had, has) = (if is_same { tail.page_offset() } else { 0 }, upto.page_offset());
        assert!(had <= has, "the log goes on from {}, not from {upto}", *tail);
        let (from, to) = (self.region.ptr(self.offset(start)), self.region.ptr(self.tail_offset()));
        // SAFETY: both blocks are inside the region and distinct. By the caller's promise the bytes
        // read are final, and the tail block is nobody else's.
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

/// Reserved bytes of the log, for the one who fills them.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    ring: &'a Ring,
    from: Lsn,
    upto: Lsn,
}

impl Place<'_> {
    /// Copies `bytes` to `at`; they end in the same block, whose place in the ring is free for it.
    pub fn put(&mut self, at: Lsn, bytes: &[u8]) {
        let ring = self.ring;
        let end = at.add(bytes.len() as u64);
        assert!(self.from <= at && end <= self.upto, "{at} to {end} was not reserved");
        assert!(at.page_offset() + bytes.len() <= BLOCK, "a piece stays within its block");
        assert!(
            ring.written() >= ring.needs_written(at),
            "the place of block {at} is still to be written"
        );
        let to = ring.region.ptr(ring.offset(at));
        // SAFETY: inside one block (asserted), hence inside the region. The bytes were reserved for
        // who has this place, and `&mut self` excludes a second copy; the block that was there
        // before is written (asserted), so nobody reads it any more; of the new one nothing from
        // here on is read before it counts as copied.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}
