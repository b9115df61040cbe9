//! The batches of an index scan, one after the other.
//!
//! Once a leaf had to be waited for, the leaves behind it are read ahead, more with each wait. The
//! pages above the leaves say which they are. When rows are read ahead, so is the next leaf. For
//! scans of entries alone, each item is looked up in the visibility map while its leaf is pinned.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_format::{BlockNumber, ItemPointer, RelFileLocator, visibility_map as map};
use forebay_storage::{Backend, BufferPool, Prefetched};

use super::stats::ScanStats;
use crate::error::AccessError;
use crate::heap::ReadAhead;
use crate::nbtree::{Batch, Direction, IndexScan};
use crate::vm;

/// A batch, and which of its items lead to pages that are all-visible. Empty: nobody has asked.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) batch: Batch,
    visible: Vec<bool>,
}

impl Loaded {
    /// Whether the row of an item needs no look at the table.
    pub(super) fn is_visible(&self, item: usize) -> bool {
        self.visible.get(item) == Some(&true)
    }
}

/// An index scan that reads leaves ahead.
#[derive(Debug)]
pub struct Leaves {
    scan: IndexScan,
    /// The table whose visibility map is asked.
    map_of: Option<(Arc<BufferPool>, RelFileLocator)>,
    /// Leaves to be read ahead: 0 until one had to be waited for.
    distance: usize,
    most_ahead: usize,
    /// The next leaves, as far as they were read ahead.
    upcoming: VecDeque<BlockNumber>,
    pub(super) stats: ScanStats,
}

impl Leaves {
    /// The leaves of a scan.
    pub fn new(scan: IndexScan, ahead: ReadAhead) -> Leaves {
        Leaves {
            scan,
            map_of: None,
            distance: 0,
            most_ahead: ahead.io_concurrency.max(1) as usize,
            upcoming: VecDeque::new(),
            stats: ScanStats::default(),
        }
    }

    /// Looks items up in the visibility map of a table. The batches of the scan must come with
    /// their pins.
    pub(super) fn asking_map(self, pool: &Arc<BufferPool>, table: RelFileLocator) -> Leaves {
        Leaves { map_of: Some((Arc::clone(pool), table)), ..self }
    }

    /// What the scan has done so far.
    pub fn stats(&self) -> ScanStats {
        ScanStats { searches: self.scan.searches(), ..self.stats }
    }

    /// The scan.
    pub(super) fn scan(&self) -> &IndexScan {
        &self.scan
    }

    pub(super) fn scan_mut(&mut self) -> &mut IndexScan {
        &mut self.scan
    }

    /// The first batch.
    pub(super) fn first(
        &mut self,
        backend: &mut Backend,
        direction: Direction,
    ) -> Result<Option<Loaded>, AccessError> {
        let batch = self.scan.first(backend, direction)?;
        self.load(backend, batch)
    }

    /// The batch after another one. `ahead`: the caller reads ahead.
    pub(super) fn next(
        &mut self,
        backend: &mut Backend,
        batch: &Batch,
        direction: Direction,
        ahead: bool,
    ) -> Result<Option<Loaded>, AccessError> {
        if !batch.has_next(direction) {
            return Ok(None);
        }
        match batch.next_leaf(direction) {
            None => {}
            Some(leaf) if self.scan.index().is_cached(leaf) => {}
            Some(_) => self.distance = (2 * self.distance).clamp(1, self.most_ahead),
        }
        let mut next = self.scan.next(backend, batch, direction)?;
        if let Some(next) = &mut next {
            self.look_ahead(backend, next, direction, self.distance.max(usize::from(ahead)))?;
        }
        self.load(backend, next)
    }

    /// Starts to read the leaves behind a batch.
    fn look_ahead(
        &mut self,
        backend: &mut Backend,
        batch: &mut Batch,
        direction: Direction,
        distance: usize,
    ) -> Result<(), AccessError> {
        if self.upcoming.pop_front() != Some(batch.leaf()) {
            self.upcoming.clear();
        }
        let known = self.upcoming.len();
        if distance == 0 || known > distance / 2 {
            return Ok(());
        }
        let mut leaves: Vec<BlockNumber> = batch.next_leaf(direction).into_iter().collect();
        if distance > 1
            && let Some(above) = batch.parent()
            && !leaves.is_empty()
        {
            let index = self.scan.index();
            let behind = index.leaves_behind(backend, above, batch.leaf(), direction, distance)?;
            batch.set_parent(behind.0);
            if !behind.1.is_empty() {
                leaves = behind.1;
            }
        }
        backend.io.begin_batch();
        let started = self.prefetch(backend, leaves.get(known..).unwrap_or_default());
        backend.io.end_batch();
        if started? == 0 && known < leaves.len() {
            self.distance /= 2;
        }
        self.upcoming = leaves.into();
        Ok(())
    }

    /// Starts to read leaves. Returns how many are not in memory.
    fn prefetch(
        &mut self,
        backend: &mut Backend,
        leaves: &[BlockNumber],
    ) -> Result<usize, AccessError> {
        let mut started = 0;
        for &leaf in leaves {
            if let Prefetched::Started(_) = self.scan.index().prefetch(backend, leaf)? {
                started += 1;
            }
        }
        self.stats.leaves_ahead += started as u64;
        Ok(started)
    }

    /// Asks the visibility map, and gives up the leaf.
    fn load(
        &mut self,
        backend: &mut Backend,
        batch: Option<Batch>,
    ) -> Result<Option<Loaded>, AccessError> {
        let Some(mut batch) = batch else { return Ok(None) };
        self.stats.leaves += 1;
        let visible = match &self.map_of {
            Some((pool, table)) => look_up(pool, backend, *table, &batch)?,
            None => Vec::new(),
        };
        batch.unpin();
        Ok(Some(Loaded { batch, visible }))
    }

    /// Calls `found` for the rows of all items.
    pub fn for_each(
        &mut self,
        backend: &mut Backend,
        mut found: impl FnMut(ItemPointer),
    ) -> Result<u64, AccessError> {
        let direction = Direction::Forward;
        let (mut items, mut next) = (0, self.first(backend, direction)?);
        while let Some(Loaded { batch, .. }) = next {
            items += batch.items().len() as u64;
            batch.items().iter().for_each(|item| found(item.tid));
            next = self.next(backend, &batch, direction, false)?;
        }
        Ok(items)
    }
}

/// Which items of a batch lead to pages that are all-visible.
fn look_up(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    table: RelFileLocator,
    batch: &Batch,
) -> Result<Vec<bool>, AccessError> {
    let mut visible = Vec::with_capacity(batch.items().len());
    let block_of = |tid: ItemPointer| map::map_block(tid.block);
    for items in batch.items().chunk_by(|a, b| block_of(a.tid) == block_of(b.tid)) {
        let block: BlockNumber = items.first().map_or(0, |item| item.tid.block);
        let pin = vm::pin(pool, backend, table, block)?;
        let guard = pin.as_ref().map(|pin| pin.lock_shared());
        let page = guard.as_ref().map(|guard| guard.page()).filter(|page| !page.is_new());
        visible.extend(items.iter().map(|item| {
            page.is_some_and(|page| map::get(page, item.tid.block) & map::ALL_VISIBLE != 0)
        }));
    }
    Ok(visible)
}
