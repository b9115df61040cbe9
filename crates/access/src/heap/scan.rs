//! Sequential scan.
//!
//! Blocks come from a read stream, which reads ahead and combines neighbours. A table larger than a
//! quarter of the pool goes through a ring of buffers. Under a page's content lock, the scan finds
//! the visible tuples and copies them; it returns tuples of the copy. So it holds no lock and no
//! pin between calls, and may rest for as long as its reader likes. Counting needs no copy.

use std::sync::Arc;

use forebay_format::{
    BLOCK_SIZE, BlockNumber, Fork, ItemId, ItemPointer, OffsetNumber, Page, RelFileLocator,
    tuple::HeapTuple,
};
use forebay_storage::{
    Backend, BufferPool, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings,
};
use forebay_txn::Snapshot;
use forebay_txn::locks::Interrupt;

use super::prune::Pruner;
use super::relation::Heap;
use super::visibility::Visibility;
use crate::error::AccessError;

/// How a scan reads ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAhead {
    /// effective_io_concurrency.
    pub io_concurrency: u32,
    /// io_combine_limit, in blocks.
    pub combine_limit: u32,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead { io_concurrency: 16, combine_limit: 16 }
    }
}

/// Gives the stream its block numbers.
type NextBlock = Box<dyn FnMut() -> Option<BlockNumber> + Send>;

/// A visible tuple, by its bytes on the page.
#[derive(Debug, Clone, Copy)]
struct Visible {
    number: OffsetNumber,
    start: u16,
    len: u16,
}

/// A scan of the blocks that a table had when it began.
pub struct HeapScan {
    stream: ReadStream<NextBlock>,
    visibility: Visibility,
    pruner: Option<Pruner>,
    /// The current page from its first visible tuple to its end, and where that begins.
    tuples: Vec<u8>,
    first: u16,
    block: BlockNumber,
    visible: Vec<Visible>,
    /// Index of the tuple that [`HeapScan::next`] returns next.
    next: usize,
    blocks: BlockNumber,
}

impl Heap {
    /// Begins a scan of the tuples that `snapshot` sees.
    pub fn scan(&self, snapshot: Snapshot, ahead: ReadAhead) -> Result<HeapScan, AccessError> {
        let visibility = Visibility::new(snapshot, self.outcomes.clone());
        HeapScan::begin(&self.pool, self.locator, visibility, ahead)
    }
}

impl HeapScan {
    /// Begins a scan of the visible tuples of a relation in `pool`.
    pub fn begin(
        pool: &Arc<BufferPool>,
        locator: RelFileLocator,
        visibility: Visibility,
        ahead: ReadAhead,
    ) -> Result<HeapScan, AccessError> {
        let blocks = pool.nblocks(locator, Fork::Main)?;
        let large = blocks as usize > pool.buffers() / 4;
        let strategy = if large { Strategy::BulkRead } else { Strategy::Normal };
        let flags = if large { StreamFlags::FULL } else { StreamFlags::DEFAULT };
        let mut range = 0..blocks;
        let next_block: NextBlock = Box::new(move || range.next());
        let stream = ReadStream::new(
            pool,
            locator,
            Fork::Main,
            next_block,
            flags,
            strategy,
            StreamSettings::new(ahead.io_concurrency, ahead.combine_limit),
        );
        Ok(HeapScan {
            stream,
            visibility,
            pruner: None,
            tuples: Vec::new(),
            first: 0,
            block: 0,
            visible: Vec::new(),
            next: 0,
            blocks,
        })
    }

    /// The same scan, which prunes the pages that it comes by.
    #[must_use]
    pub fn pruning(self, pruner: Option<Pruner>) -> HeapScan {
        HeapScan { pruner, ..self }
    }

    /// The next page, pruned.
    fn next_pin(&mut self, backend: &mut Backend) -> Result<Option<Pinned>, AccessError> {
        let Some(pin) = self.stream.next(backend)? else { return Ok(None) };
        if let Some(pruner) = &mut self.pruner {
            pruner.prune(backend, &pin)?;
        }
        Ok(Some(pin))
    }

    /// Moves to the next page with visible tuples. Returns their number, or `None` at the end.
    pub fn next_page(&mut self, backend: &mut Backend) -> Result<Option<usize>, AccessError> {
        loop {
            self.visible.clear();
            self.next = 0;
            let Some(pin) = self.next_pin(backend)? else { return Ok(None) };
            self.block = pin.tag().block;
            let guard = pin.lock_shared();
            let HeapScan { visibility, visible, block, .. } = self;
            each_visible(visibility, backend, guard.page(), *block, |found| visible.push(found))
                .inspect_err(|_| visible.clear())?;
            if let Some(first) = visible.iter().map(|tuple| tuple.start).min() {
                let tuples = guard.page().bytes(usize::from(first)..BLOCK_SIZE);
                self.tuples.clear();
                self.tuples.extend_from_slice(tuples.expect("visible tuples are on the page"));
                self.first = first;
                return Ok(Some(self.visible.len()));
            }
        }
    }

    /// A tuple of the current page, by its index among the visible ones.
    ///
    /// # Panics
    /// If the page has no visible tuple of this index.
    pub fn tuple(&self, index: usize) -> &[u8] {
        let Visible { start, len, .. } = self.visible[index];
        &self.tuples[usize::from(start - self.first)..][..usize::from(len)]
    }

    /// The place of a tuple of the current page.
    ///
    /// # Panics
    /// If the page has no visible tuple of this index.
    pub fn tuple_id(&self, index: usize) -> ItemPointer {
        ItemPointer::new(self.block, self.visible[index].number)
    }

    /// The next visible tuple with its place, from page to page.
    pub fn next(
        &mut self,
        backend: &mut Backend,
    ) -> Result<Option<(ItemPointer, &[u8])>, AccessError> {
        if self.next >= self.visible.len() && self.next_page(backend)?.is_none() {
            return Ok(None);
        }
        let index = self.next;
        self.next += 1;
        Ok(Some((self.tuple_id(index), self.tuple(index))))
    }

    /// Counts the visible tuples of all pages not yet visited. A request to `interrupt` ends it
    /// with an error.
    pub fn count(
        &mut self,
        backend: &mut Backend,
        interrupt: &Interrupt,
    ) -> Result<u64, AccessError> {
        self.visible.clear();
        let mut count = 0;
        while let Some(pin) = self.next_pin(backend)? {
            if let Some(kind) = interrupt.pending() {
                return Err(AccessError::Interrupted(kind));
            }
            let guard = pin.lock_shared();
            each_visible(&mut self.visibility, backend, guard.page(), pin.tag().block, |_| {
                count += 1
            })?;
        }
        Ok(count)
    }

    /// Number of blocks that the scan covers.
    pub fn blocks(&self) -> BlockNumber {
        self.blocks
    }
}

/// Finds the visible tuples of a page.
#[inline]
fn each_visible(
    visibility: &mut Visibility,
    backend: &mut Backend,
    page: Page<'_>,
    block: BlockNumber,
    mut found: impl FnMut(Visible),
) -> Result<(), AccessError> {
    let all_visible = page.is_all_visible();
    for (number, pointer) in (1..).zip(page.line_pointers()) {
        let id = ItemId::from_bits(u32::from_le_bytes(*pointer));
        if !id.is_normal() {
            continue;
        }
        let item = page.bytes(usize::from(id.offset)..usize::from(id.offset) + usize::from(id.len));
        let item = item.ok_or_else(|| stray(block, number))?;
        let known = item.first_chunk().and_then(|header| visibility.sees_at_once(header));
        let seen = match known {
            Some(seen) => seen,
            None => all_visible || visibility.sees(&mut backend.io, HeapTuple::new(item)?)?,
        };
        if seen || all_visible {
            found(Visible { number, start: id.offset, len: id.len });
        }
    }
    Ok(())
}

#[cold]
fn stray(block: BlockNumber, number: OffsetNumber) -> AccessError {
    AccessError::Corrupt(format!("line pointer {number} of block {block} leads out of the page"))
}

impl std::fmt::Debug for HeapScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeapScan")
            .field("block", &self.block)
            .field("blocks", &self.blocks)
            .finish_non_exhaustive()
    }
}
