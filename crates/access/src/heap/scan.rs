//! Sequential scan.
//!
//! Blocks come from a read stream, which reads ahead and combines neighbours. The scan of a table
//! larger than a quarter of the pool is a bulk read: it evicts only pages that are idle, or used
//! more rarely than its own. Such scans are synchronized: see `scan_place`.
//!
//! The scan copies a page under its content lock, and returns the visible tuples of the copy. So it
//! holds no lock and no pin between calls, and may rest for as long as its reader likes. A tuple
//! that must be looked up, which may read a file, is judged by the copy too, without the lock.
//! Counting copies only pages with such tuples.
//!
//! The page stays pinned until its tuples are judged: vacuum freezes rows only of a page that
//! nobody has pinned, so it cannot remove the outcomes of their transactions meanwhile.

use std::sync::Arc;

use forebay_format::{
    BLOCK_SIZE, BlockNumber, Fork, ItemId, ItemPointer, OffsetNumber, Page, PageTag,
    RelFileLocator, page::HEADER_SIZE, tuple as ht, tuple::HeapTuple,
};
use forebay_storage::{
    Backend, BufferPool, PageReadGuard, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings,
};
use forebay_txn::Snapshot;
use forebay_txn::locks::Interrupt;

use super::prune::Pruner;
use super::relation::Heap;
use super::shared_blocks::{BlocksTaken, SharedBlocks};
use super::space::RelationSpace;
use super::tuple_at::{damaged, located, stray};
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

/// A tuple that is visible, or may be, by its bytes on the page.
#[derive(Debug, Clone, Copy)]
struct Visible {
    number: OffsetNumber,
    start: u16,
    len: u16,
}

impl Visible {
    /// Its bytes in a copy of the page without the header.
    #[inline]
    fn of(self, copy: &[u8]) -> &[u8] {
        &copy[usize::from(self.start) - HEADER_SIZE..][..usize::from(self.len)]
    }
}

/// A scan of the blocks that a table had when it began.
pub struct HeapScan {
    stream: ReadStream<NextBlock>,
    visibility: Visibility,
    pruner: Option<Pruner>,
    /// The current page behind its header.
    copy: Vec<u8>,
    tag: PageTag,
    visible: Vec<Visible>,
    /// Index of the tuple that [`HeapScan::next`] returns next.
    next: usize,
    blocks: BlockNumber,
    synchronized: Option<Synchronized>,
}

/// What lets other scans of a table begin where a scan is.
struct Synchronized {
    /// Where it tells its place.
    space: Arc<RelationSpace>,
    /// Where it began.
    start: BlockNumber,
}

impl Heap {
    /// Begins a scan of the tuples that `snapshot` sees.
    pub fn scan(&self, snapshot: Snapshot, ahead: ReadAhead) -> Result<HeapScan, AccessError> {
        let visibility = Visibility::new(snapshot, self.outcomes.clone());
        HeapScan::begin(&self.pool, self.locator, visibility, ahead)
    }

    /// Returns the table's number of blocks, and the block at which a synchronized scan begins:
    /// where another scan is, or the first block of a small table.
    pub fn scan_start(&self) -> Result<(BlockNumber, BlockNumber), AccessError> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        let large = is_large(&self.pool, blocks);
        Ok((blocks, if large { self.space.scans.start(blocks) } else { 0 }))
    }
}

/// Whether the scan of a table of so many blocks is a bulk read.
fn is_large(pool: &BufferPool, blocks: BlockNumber) -> bool {
    blocks as usize > pool.buffers() / 4
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
        let mut range = 0..blocks;
        let next_block = Box::new(move || range.next());
        Ok(HeapScan::over(pool, locator, (blocks, next_block), visibility, ahead))
    }

    /// Begins a scan of a table's visible tuples that is synchronized with others.
    pub fn synchronized(
        heap: &Heap,
        visibility: Visibility,
        ahead: ReadAhead,
    ) -> Result<HeapScan, AccessError> {
        let (blocks, start) = heap.scan_start()?;
        let mut ranges = (start..blocks).chain(0..start);
        let next_block = Box::new(move || ranges.next());
        let of = (blocks, next_block as NextBlock);
        let scan = HeapScan::over(&heap.pool, heap.locator, of, visibility, ahead);
        Ok(scan.synchronized_from(heap, start))
    }

    /// The same scan, which began at `start`. If its table is large, it tells others its place.
    #[must_use]
    pub fn synchronized_from(self, heap: &Heap, start: BlockNumber) -> HeapScan {
        let synchronized = is_large(&heap.pool, self.blocks)
            .then(|| Synchronized { space: Arc::clone(&heap.space), start });
        HeapScan { synchronized, ..self }
    }

    /// Begins a scan of those blocks of a relation that it takes before others do.
    pub fn sharing(
        blocks: &Arc<SharedBlocks>,
        pool: &Arc<BufferPool>,
        locator: RelFileLocator,
        visibility: Visibility,
        ahead: ReadAhead,
    ) -> HeapScan {
        let mut taken = BlocksTaken::of(blocks);
        let next_block = Box::new(move || taken.next());
        HeapScan::over(pool, locator, (blocks.blocks(), next_block), visibility, ahead)
    }

    /// A scan of some of `blocks` blocks.
    fn over(
        pool: &Arc<BufferPool>,
        locator: RelFileLocator,
        (blocks, next_block): (BlockNumber, NextBlock),
        visibility: Visibility,
        ahead: ReadAhead,
    ) -> HeapScan {
        let large = is_large(pool, blocks);
        let strategy = if large { Strategy::Scan { blocks } } else { Strategy::Normal };
        let flags = if large { StreamFlags::FULL } else { StreamFlags::DEFAULT };
        let stream = ReadStream::new(
            pool,
            locator,
            Fork::Main,
            next_block,
            flags,
            strategy,
            StreamSettings::new(ahead.io_concurrency, ahead.combine_limit),
        );
        HeapScan {
            stream,
            visibility,
            pruner: None,
            copy: Vec::new(),
            tag: PageTag::new(locator, Fork::Main, 0),
            visible: Vec::new(),
            next: 0,
            blocks,
            synchronized: None,
        }
    }

    /// The same scan, which prunes the pages that it comes by.
    #[must_use]
    pub fn pruning(self, pruner: Option<Pruner>) -> HeapScan {
        HeapScan { pruner, ..self }
    }

    /// The next page, pruned.
    fn next_pin(&mut self, backend: &mut Backend) -> Result<Option<Pinned>, AccessError> {
        let pin = self.stream.next(backend)?;
        if let Some(Synchronized { space, start }) = &self.synchronized {
            match &pin {
                Some(pin) => space.scans.reach(pin.tag().block),
                None => space.scans.leave_at(*start),
            }
        }
        let Some(pin) = pin else { return Ok(None) };
        if let Some(pruner) = &mut self.pruner {
            pruner.prune(backend, &pin)?;
        }
        Ok(Some(pin))
    }

    /// Moves to the next page with visible tuples. Returns their number, or `None` at the end. A
    /// call after an error goes on behind the page that has it.
    pub fn next_page(&mut self, backend: &mut Backend) -> Result<Option<usize>, AccessError> {
        loop {
            self.visible.clear();
            self.next = 0;
            let Some(pin) = self.next_pin(backend)? else { return Ok(None) };
            self.tag = pin.tag();
            let found = self.copy_visible(backend, &pin);
            if found.is_err() {
                self.visible.clear();
            }
            found?;
            if !self.visible.is_empty() {
                return Ok(Some(self.visible.len()));
            }
        }
    }

    /// Copies a page, and finds its visible tuples.
    fn copy_visible(&mut self, backend: &mut Backend, pin: &Pinned) -> Result<(), AccessError> {
        let guard = pin.lock_shared();
        let HeapScan { visibility, visible, .. } = self;
        let mut unsure = false;
        each_tuple(visibility, guard.page(), guard.tag(), |tuple, seen| {
            visible.push(tuple);
            unsure |= !seen;
        })?;
        if visible.is_empty() {
            return Ok(());
        }
        self.copy(guard);
        if unsure { self.look_up(backend) } else { Ok(()) }
    }

    /// Copies a page, and unlocks it.
    fn copy(&mut self, guard: PageReadGuard<'_>) {
        let bytes = guard.page().bytes(HEADER_SIZE..BLOCK_SIZE).expect("a page is that long");
        self.copy.clear();
        self.copy.extend_from_slice(bytes);
    }

    /// Leaves only those of the found tuples that the snapshot sees.
    fn look_up(&mut self, backend: &mut Backend) -> Result<(), AccessError> {
        let mut kept = 0;
        for index in 0..self.visible.len() {
            let found = self.visible[index];
            let tuple = HeapTuple::new(found.of(&self.copy))?;
            let seen = self.visibility.sees(&mut backend.io, tuple);
            if seen.map_err(|error| located(self.tag, found.number, error))? {
                self.visible[kept] = found;
                kept += 1;
            }
        }
        self.visible.truncate(kept);
        Ok(())
    }

    /// A tuple of the current page, by its index among the visible ones.
    ///
    /// # Panics
    /// If the page has no visible tuple of this index.
    pub fn tuple(&self, index: usize) -> &[u8] {
        self.visible[index].of(&self.copy)
    }

    /// The place of a tuple of the current page.
    ///
    /// # Panics
    /// If the page has no visible tuple of this index.
    pub fn tuple_id(&self, index: usize) -> ItemPointer {
        ItemPointer::new(self.tag.block, self.visible[index].number)
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
            let counted = self.count_page(backend, &pin);
            self.visible.clear();
            count += counted?;
        }
        Ok(count)
    }

    fn count_page(&mut self, backend: &mut Backend, pin: &Pinned) -> Result<u64, AccessError> {
        self.tag = pin.tag();
        let guard = pin.lock_shared();
        let HeapScan { visibility, visible, .. } = self;
        let mut count = 0;
        each_tuple(visibility, guard.page(), guard.tag(), |tuple, seen| match seen {
            true => count += 1,
            false => visible.push(tuple),
        })?;
        if !self.visible.is_empty() {
            self.copy(guard);
            self.look_up(backend)?;
        }
        Ok(count + self.visible.len() as u64)
    }

    /// Number of blocks that the scan covers, together with those that share them.
    pub fn blocks(&self) -> BlockNumber {
        self.blocks
    }
}

/// Calls `found` for the tuples of a locked page that the snapshot may see, and says whether it
/// surely does. The others are known to be invisible.
#[inline]
fn each_tuple(
    visibility: &mut Visibility,
    page: Page<'_>,
    tag: PageTag,
    mut found: impl FnMut(Visible, bool),
) -> Result<(), AccessError> {
    let all_visible = page.is_all_visible();
    let mut multis = false;
    for (number, pointer) in (1..).zip(page.line_pointers()) {
        let id = ItemId::from_bits(u32::from_le_bytes(*pointer));
        if !id.is_normal() {
            continue;
        }
        let (start, end) = (usize::from(id.offset), usize::from(id.offset) + usize::from(id.len));
        let item = page.bytes(start..end).filter(|_| start >= HEADER_SIZE);
        let item = item.ok_or_else(|| stray(tag, number))?;
        let tuple = HeapTuple::new(item).map_err(|error| damaged(tag, number, error))?;
        let known = item.first_chunk().and_then(|header| visibility.sees_at_once(header));
        if known == Some(false) && !all_visible {
            continue;
        }
        let seen = all_visible || known.is_some();
        multis |= !seen && tuple.infomask() & ht::HEAP_XMAX_IS_MULTI != 0;
        found(Visible { number, start: id.offset, len: id.len }, seen);
    }
    if multis {
        visibility.keep_multis();
    }
    Ok(())
}

impl std::fmt::Debug for HeapScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeapScan")
            .field("tag", &self.tag)
            .field("blocks", &self.blocks)
            .finish_non_exhaustive()
    }
}
