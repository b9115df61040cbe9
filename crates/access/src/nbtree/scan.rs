//! Scans: the matching items of one leaf after the other, in both directions.
//!
//! A [`Batch`] is a copy of a leaf's matching items. Nothing stays locked between batches, so a
//! caller may keep several: to read the rows of later ones ahead, to mark a place and come back, to
//! turn around. A batch leads to the next one by the links that its page had when it was read:
//!
//! - to the right: what moved to a new page in a split is in the batch already;
//! - to the left: the page there may have been split, or deleted with this one's link changed. The
//!   page whose right link leads here is looked for, further right or through this page's new link.
//!
//! A row that a batch leads to may be removed, and its place used for another row, unless the batch
//! keeps its pin: vacuum waits for it before it removes index items. A scan by an MVCC snapshot
//! needs no pin, since it does not see a row that came later.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, DELETED, HAS_GARBAGE, HIGH_KEY, NO_SIBLING, Opaque, Tuple,
};
use forebay_format::{BlockNumber, ItemPointer, Lsn, OffsetNumber, Page, Xid};
use forebay_storage::{Backend, PageReadGuard, Pinned};

use super::relation::Index;
use super::scan_keys::{Condition, Conditions, Direction, Verdict};
use super::search::Moves;
use crate::error::AccessError;

/// Pages to the right of a left sibling that are looked at before its right neighbour is read
/// again.
const PAGES_TO_RIGHT: u32 = 4;

/// What a batch keeps beside the places of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchOptions {
    /// The pin of the leaf, so that no place in the batch is used for another row.
    pub pin: bool,
    /// The index tuples, for scans that need nothing else of a row. The leaf stays pinned: once
    /// vacuum has removed an item, the page of its row may be marked all-visible.
    pub tuples: bool,
}

/// A matching item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The row.
    pub tid: ItemPointer,
    /// Its item on the leaf.
    n: OffsetNumber,
    /// Where its tuple begins among those of the batch.
    tuple: u32,
}

/// The matching items of a leaf, in the index's order.
#[derive(Debug)]
pub struct Batch {
    block: BlockNumber,
    prev: BlockNumber,
    next: BlockNumber,
    lsn: Lsn,
    items: Vec<Item>,
    tuples: Vec<u8>,
    /// Whether there may be matching items on pages to the left, and to the right.
    more: (bool, bool),
    pin: Option<Pinned>,
}

impl Batch {
    /// The items, in the index's order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The index tuple of an item. None if the scan does not keep them.
    pub fn tuple(&self, item: &Item) -> Option<Tuple<'_>> {
        Tuple::new(self.tuples.get(item.tuple as usize..)?).ok()
    }

    /// The leaf that comes next, to be read ahead. None at the end.
    pub fn next_leaf(&self, direction: Direction) -> Option<BlockNumber> {
        let (more_left, more_right) = self.more;
        match direction {
            Direction::Forward => more_right.then_some(self.next),
            Direction::Backward => more_left.then_some(self.prev),
        }
    }

    /// Gives up the leaf's pin. To be called when all rows have been looked at.
    pub fn unpin(&mut self) {
        self.pin = None;
    }
}

/// A scan of an index.
#[derive(Debug, Clone)]
pub struct IndexScan {
    index: Index,
    conditions: Conditions,
    options: BatchOptions,
}

impl Index {
    /// A scan for the rows that satisfy all conditions.
    pub fn scan(&self, conditions: Vec<Condition>, options: BatchOptions) -> IndexScan {
        let conditions = Conditions::new(conditions);
        IndexScan { index: self.clone(), conditions, options }
    }
}

impl IndexScan {
    /// Sets other conditions. Batches of the old ones must not lead on.
    pub fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.conditions = Conditions::new(conditions);
    }

    /// The first batch in a direction. None if there is no matching row.
    pub fn first(
        &self,
        backend: &mut Backend,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        if self.conditions.are_never_true() {
            return Ok(None);
        }
        let shape = &self.index.shape;
        let key = self.conditions.first_key(shape, direction);
        let key = key.map_err(|error| AccessError::Internal(error.to_string()))?;
        let first = self.index.find_leaf(backend, &key, |pin, guard, opaque| {
            let block = pin.tag().block;
            let n = key.first_not_behind(shape, guard.page(), &opaque);
            let n = n.map_err(self.index.at(block))?;
            let (n, more) = match direction {
                Direction::Forward => (n, (false, true)),
                Direction::Backward => (n - 1, (true, false)),
            };
            self.read_page(pin, guard, &opaque, direction, n, more)
        })?;
        first.map_or(Ok(None), |batch| self.not_empty(backend, batch, direction))
    }

    /// The batch that follows another one in a direction. None if there is no further row.
    pub fn next(
        &self,
        backend: &mut Backend,
        batch: &Batch,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        match self.neighbour(backend, batch, direction)? {
            Some(batch) => self.not_empty(backend, batch, direction),
            None => Ok(None),
        }
    }

    /// Goes on to the first batch with items.
    fn not_empty(
        &self,
        backend: &mut Backend,
        mut batch: Batch,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        while batch.items.is_empty() {
            match self.neighbour(backend, &batch, direction)? {
                Some(next) => batch = next,
                None => return Ok(None),
            }
        }
        Ok(Some(batch))
    }

    fn neighbour(
        &self,
        backend: &mut Backend,
        batch: &Batch,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        let Some(block) = batch.next_leaf(direction) else { return Ok(None) };
        match direction {
            Direction::Forward => self.read_right(backend, block),
            Direction::Backward => self.read_left(backend, block, batch.block),
        }
    }

    fn read_right(
        &self,
        backend: &mut Backend,
        mut block: BlockNumber,
    ) -> Result<Option<Batch>, AccessError> {
        let mut moves = Moves::default();
        while block != NO_SIBLING {
            let pin = self.index.read(backend, block)?;
            let guard = pin.lock_shared();
            let opaque = self.index.opaque(guard.page(), block)?;
            if !opaque.is_ignored() {
                let (first, more) = (opaque.first_data_item(), (true, true));
                let direction = Direction::Forward;
                return self.read_page(&pin, guard, &opaque, direction, first, more).map(Some);
            }
            moves.next(&self.index, block)?;
            block = opaque.next;
        }
        Ok(None)
    }

    /// Reads the page to the left of `right`, which was `left` once.
    fn read_left(
        &self,
        backend: &mut Backend,
        mut left: BlockNumber,
        mut right: BlockNumber,
    ) -> Result<Option<Batch>, AccessError> {
        let mut moves = Moves::default();
        while left != NO_SIBLING {
            moves.next(&self.index, left)?;
            let mut block = left;
            let mut half_dead = None;
            for _ in 0..=PAGES_TO_RIGHT {
                let pin = self.index.read(backend, block)?;
                let guard = pin.lock_shared();
                let opaque = self.index.opaque(guard.page(), block)?;
                if opaque.next == right && !opaque.has(DELETED) {
                    if !opaque.is_ignored() {
                        let (last, more) = (guard.page().item_count(), (true, true));
                        let direction = Direction::Backward;
                        let batch = self.read_page(&pin, guard, &opaque, direction, last, more)?;
                        return Ok(Some(batch));
                    }
                    half_dead = Some((opaque.prev, block));
                    break;
                }
                if opaque.is_rightmost() {
                    break;
                }
                block = opaque.next;
            }
            (left, right) = match half_dead {
                Some(beyond) => beyond,
                None => self.new_left_link(backend, left, right)?,
            };
        }
        Ok(None)
    }

    /// The left link of a page, after the page that it led to was not found. If the page itself is
    /// gone, that of the next one that is not.
    fn new_left_link(
        &self,
        backend: &mut Backend,
        left: BlockNumber,
        right: BlockNumber,
    ) -> Result<(BlockNumber, BlockNumber), AccessError> {
        let mut moves = Moves::default();
        let mut block = right;
        loop {
            let pin = self.index.read(backend, block)?;
            let guard = pin.lock_shared();
            let opaque = self.index.opaque(guard.page(), block)?;
            if !opaque.has(DELETED) {
                if block == right && opaque.prev == left {
                    let name = &self.index.shape.name;
                    return Err(AccessError::CorruptIndex(format!(
                        "could not find left sibling of block {block} in index \"{name}\""
                    )));
                }
                return Ok((opaque.prev, block));
            }
            if opaque.is_rightmost() {
                return Err(self.index.fell_off());
            }
            moves.next(&self.index, block)?;
            block = opaque.next;
        }
    }

    /// Copies the matching items of a leaf, from item `n` on. `more`: whether there are pages with
    /// matching items on both sides, as far as is known before.
    fn read_page(
        &self,
        pin: &Pinned,
        guard: PageReadGuard<'_>,
        opaque: &Opaque,
        direction: Direction,
        n: OffsetNumber,
        more: (bool, bool),
    ) -> Result<Batch, AccessError> {
        let (page, block) = (guard.page(), pin.tag().block);
        let mut batch = Batch {
            block,
            prev: opaque.prev,
            next: opaque.next,
            lsn: page.lsn(),
            items: Vec::new(),
            tuples: Vec::new(),
            more: (more.0 && !opaque.is_leftmost(), more.1 && !opaque.is_rightmost()),
            pin: None,
        };
        let (first, count) = (opaque.first_data_item(), page.item_count());
        match direction {
            Direction::Forward => {
                let ended = self.collect(&mut batch, page, n..=count, direction)?;
                if ended || self.ends_before_next(page, opaque, block)? {
                    batch.more.1 = false;
                }
            }
            Direction::Backward => {
                if self.collect(&mut batch, page, (first..=n).rev(), direction)? {
                    batch.more.0 = false;
                }
                batch.items.reverse();
            }
        }
        let BatchOptions { pin: keeps, tuples } = self.options;
        if (keeps || tuples) && !batch.items.is_empty() {
            batch.pin = Some(pin.clone());
        }
        Ok(batch)
    }

    /// Copies matching items. Returns whether there are none behind the last one.
    fn collect(
        &self,
        batch: &mut Batch,
        page: Page<'_>,
        items: impl Iterator<Item = OffsetNumber>,
        direction: Direction,
    ) -> Result<bool, AccessError> {
        for n in items {
            if nb::is_killed(page, n) {
                continue;
            }
            let tuple = self.index.tuple(page, batch.block, n)?;
            let verdict = self.conditions.judge(&self.index.shape, &tuple, direction);
            match verdict.map_err(self.index.at(batch.block))? {
                Verdict::PassedOver => continue,
                Verdict::End => return Ok(true),
                Verdict::Found => {}
            }
            let at = batch.tuples.len() as u32;
            if self.options.tuples {
                batch.tuples.extend_from_slice(tuple.bytes());
            }
            let item = |tid| Item { tid, n, tuple: at };
            match direction {
                Direction::Forward => batch.items.extend(tuple.heap_tids().map(item)),
                Direction::Backward => batch.items.extend(tuple.heap_tids().rev().map(item)),
            }
        }
        Ok(false)
    }

    /// Whether the high key of a page tells that no item of the next one matches.
    fn ends_before_next(
        &self,
        page: Page<'_>,
        opaque: &Opaque,
        block: BlockNumber,
    ) -> Result<bool, AccessError> {
        if opaque.is_rightmost() {
            return Ok(true);
        }
        let high_key = self.index.tuple(page, block, HIGH_KEY)?;
        let verdict = self.conditions.judge(&self.index.shape, &high_key, Direction::Forward);
        Ok(verdict.map_err(self.index.at(block))? == Verdict::End)
    }

    /// Notes on the leaf that nobody sees the rows of some items any more, given by their indexes
    /// in the batch. `newest` is at least as new as those who deleted them. Nothing is noted if the
    /// leaf has changed since.
    ///
    /// This is a hint without a record. So it is left out on a clean page, which need not be
    /// written then, and for an index without a log, whose pages do not tell whether they have
    /// changed.
    pub fn kill(
        &self,
        backend: &mut Backend,
        batch: &Batch,
        gone: &[usize],
        newest: Xid,
    ) -> Result<(), AccessError> {
        if gone.is_empty() || !self.index.logged {
            return Ok(());
        }
        let mut page = self.index.lock(backend, batch.block)?;
        if page.page().lsn() != batch.lsn || !page.is_dirty() {
            return Ok(());
        }
        let mut gone: Vec<Item> =
            gone.iter().filter_map(|&n| batch.items.get(n).copied()).collect();
        gone.sort_by_key(|item| (item.n, item.tid));
        gone.dedup();
        let mut killed = false;
        for rows in gone.chunk_by(|a, b| a.n == b.n) {
            let Some(&Item { n, .. }) = rows.first() else { continue };
            let whole = self.index.tuple(page.page(), batch.block, n)?.heap_tid_count();
            if rows.len() == whole {
                self.index.known.note_gone(newest);
                nb::kill(&mut page.page_mut(), n)
                    .map_err(|error| self.index.damaged(batch.block, &error))?;
                killed = true;
            }
        }
        if killed {
            let opaque = self.index.opaque(page.page(), batch.block)?;
            let flags = opaque.flags | HAS_GARBAGE;
            Opaque { flags, ..opaque }.store(&mut page.page_mut());
        }
        Ok(())
    }
}
