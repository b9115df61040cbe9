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
//! Or by a key, if the conditions say that the next matching item is further away: by a new descent
//! ([`scan_keys`](super::scan_keys)). A scan steps to the neighbour all the same if it has met
//! several gaps on the leaf, since the next item then is mostly near.
//!
//! A row that a batch leads to may be removed, and its place used for another row, unless the batch
//! keeps its pin: vacuum waits for it before it removes index items. A scan by an MVCC snapshot
//! needs no pin to read rows, since it does not see a row that came later. It needs one to look
//! rows up in the visibility map: once vacuum has removed an item, the page of its row may be
//! marked all-visible. A pin is to be given up at once after that.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, DELETED, HAS_GARBAGE, HIGH_KEY, NO_SIBLING, Opaque, Tuple,
};
use forebay_format::{BlockNumber, ItemPointer, Lsn, OffsetNumber, Page};
use forebay_storage::{Backend, PageReadGuard, Pinned};
use forebay_txn::locks::Interrupt;
use std::cell::Cell;

use super::compare::SearchKey;
use super::relation::Index;
use super::scan_keys::{Condition, Conditions, Verdict};
use super::search::{Moves, Path};
use super::wanted::Direction;
use crate::error::AccessError;

/// Pages to the right of a left sibling that are looked at before its right neighbour is read
/// again.
const PAGES_TO_RIGHT: u32 = 4;
/// Gaps between matching items of a leaf from which on the next item is looked for on the
/// neighbour.
const MANY_GAPS: u32 = 2;

/// What a batch keeps beside the places of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchOptions {
    /// The pin of the leaf, so that no place in the batch is used for another row. A caller has at
    /// most one batch with a pin.
    pub pin: bool,
    /// The index tuples, for scans that need nothing else of a row.
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
    lsn: Lsn,
    items: Vec<Item>,
    tuples: Vec<u8>,
    left: Beyond,
    right: Beyond,
    /// The page above it, or one to the left or right of that one.
    parent: Option<BlockNumber>,
    pin: Option<Pinned>,
}

/// Where a scan goes on beyond a leaf.
#[derive(Debug, Clone)]
enum Beyond {
    /// There are no matching items.
    Nothing,
    /// At the neighbour.
    Page(BlockNumber),
    /// At the first item of this key.
    Key(SearchKey<'static>),
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

    /// The leaf that comes next, to be read ahead. None if it is not known, and at the end.
    pub fn next_leaf(&self, direction: Direction) -> Option<BlockNumber> {
        match self.beyond(direction) {
            Beyond::Page(block) => Some(*block),
            Beyond::Nothing | Beyond::Key(_) => None,
        }
    }

    /// The leaf.
    pub fn leaf(&self) -> BlockNumber {
        self.block
    }

    /// A page above the leaf, or near that one. None if the leaf is the root.
    pub(crate) fn parent(&self) -> Option<BlockNumber> {
        self.parent
    }

    /// Moves to the page above that was found to have the leaf.
    pub(crate) fn set_parent(&mut self, parent: BlockNumber) {
        self.parent = Some(parent);
    }

    /// Whether there may be further items.
    pub fn has_next(&self, direction: Direction) -> bool {
        !matches!(self.beyond(direction), Beyond::Nothing)
    }

    fn beyond(&self, direction: Direction) -> &Beyond {
        match direction {
            Direction::Forward => &self.right,
            Direction::Backward => &self.left,
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
    interrupt: Option<Interrupt>,
    /// Descents from the root so far.
    searches: Cell<u64>,
}

impl Index {
    /// A scan for the rows that satisfy all conditions.
    pub fn scan(&self, conditions: Vec<Condition>, options: BatchOptions) -> IndexScan {
        let conditions = Conditions::new(&self.shape, conditions);
        let searches = Cell::new(0);
        IndexScan { index: self.clone(), conditions, options, interrupt: None, searches }
    }
}

impl IndexScan {
    /// The same scan, which a request to `interrupt` ends with an error.
    #[must_use]
    pub fn interruptible(self, interrupt: Interrupt) -> IndexScan {
        IndexScan { interrupt: Some(interrupt), ..self }
    }

    /// The same scan, whose batches keep no pins.
    #[must_use]
    pub(super) fn without_pins(mut self) -> IndexScan {
        self.options.pin = false;
        self
    }

    /// The index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Descents from the root so far.
    pub(crate) fn searches(&self) -> u64 {
        self.searches.get()
    }

    /// Sets other conditions. Batches of the old ones must not lead on.
    pub fn set_conditions(&mut self, conditions: Vec<Condition>) {
        self.conditions = Conditions::new(&self.index.shape, conditions);
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
        let key = self.conditions.first_key(direction);
        match self.seek(backend, &key, direction)? {
            Some(mut batch) => {
                match direction {
                    Direction::Forward => batch.left = Beyond::Nothing,
                    Direction::Backward => batch.right = Beyond::Nothing,
                }
                self.not_empty(backend, batch, direction)
            }
            None => Ok(None),
        }
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

    /// The items from a key on.
    fn seek(
        &self,
        backend: &mut Backend,
        key: &SearchKey<'_>,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        self.searches.set(self.searches.get() + 1);
        let shape = &self.index.shape;
        let mut path = Path::new();
        let batch = self.index.find_leaf(backend, key, &mut path, |pin, guard, opaque| {
            let block = pin.tag().block;
            let n = key.first_not_behind(shape, guard.page(), &opaque);
            let n = n.map_err(self.index.at(block))?;
            let n = if direction == Direction::Forward { n } else { n - 1 };
            self.read_page(pin, guard, &opaque, direction, n)
        })?;
        let parent = path.last().map(|step| step.block);
        Ok(batch.map(|batch| Batch { parent, ..batch }))
    }

    /// Goes on to the first batch with items.
    fn not_empty(
        &self,
        backend: &mut Backend,
        mut batch: Batch,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        loop {
            if let Some(kind) = self.interrupt.as_ref().and_then(Interrupt::pending) {
                return Err(AccessError::Interrupted(kind));
            }
            if !batch.items.is_empty() {
                return Ok(Some(batch));
            }
            match self.neighbour(backend, &batch, direction)? {
                Some(next) => batch = next,
                None => return Ok(None),
            }
        }
    }

    fn neighbour(
        &self,
        backend: &mut Backend,
        batch: &Batch,
        direction: Direction,
    ) -> Result<Option<Batch>, AccessError> {
        let next = match (batch.beyond(direction), direction) {
            (Beyond::Nothing, _) => return Ok(None),
            (Beyond::Key(key), _) => return self.seek(backend, key, direction),
            (Beyond::Page(block), Direction::Forward) => self.read_right(backend, *block)?,
            (Beyond::Page(block), Direction::Backward) => {
                self.read_left(backend, *block, batch.block)?
            }
        };
        Ok(next.map(|next| Batch { parent: batch.parent, ..next }))
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
                let (first, direction) = (opaque.first_data_item(), Direction::Forward);
                return self.read_page(&pin, guard, &opaque, direction, first).map(Some);
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
                        let (last, direction) = (guard.page().item_count(), Direction::Backward);
                        return self.read_page(&pin, guard, &opaque, direction, last).map(Some);
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

    /// Copies the matching items of a leaf, from item `n` on.
    fn read_page(
        &self,
        pin: &Pinned,
        guard: PageReadGuard<'_>,
        opaque: &Opaque,
        direction: Direction,
        n: OffsetNumber,
    ) -> Result<Batch, AccessError> {
        let (page, block) = (guard.page(), pin.tag().block);
        let (first, last) = (opaque.is_leftmost(), opaque.is_rightmost());
        let mut batch = Batch {
            block,
            lsn: page.lsn(),
            items: Vec::new(),
            tuples: Vec::new(),
            left: if first { Beyond::Nothing } else { Beyond::Page(opaque.prev) },
            right: if last { Beyond::Nothing } else { Beyond::Page(opaque.next) },
            parent: None,
            pin: None,
        };
        let beyond = self.collect(&mut batch, page, opaque, direction, n)?;
        match direction {
            Direction::Forward if !last => batch.right = beyond,
            Direction::Backward if !first => batch.left = beyond,
            _ => {}
        }
        if direction == Direction::Backward {
            batch.items.reverse();
        }
        if self.options.pin && !batch.items.is_empty() {
            batch.pin = Some(pin.clone());
        }
        Ok(batch)
    }

    /// Copies matching items. Returns where the scan goes on if the leaf has neighbours.
    fn collect(
        &self,
        batch: &mut Batch,
        page: Page<'_>,
        opaque: &Opaque,
        direction: Direction,
        mut n: OffsetNumber,
    ) -> Result<Beyond, AccessError> {
        let shape = &self.index.shape;
        let (block, items) = (batch.block, opaque.first_data_item()..=page.item_count());
        let following = |n| if direction == Direction::Forward { n + 1 } else { n - 1 };
        let (mut gaps, mut beyond) = (0, None);
        while items.contains(&n) {
            if nb::is_killed(page, n) {
                n = following(n);
                continue;
            }
            let tuple = self.index.tuple(page, block, n)?;
            let verdict = self.conditions.judge(shape, &tuple, direction);
            beyond = None;
            match verdict.map_err(self.index.at(block))? {
                Verdict::Found => self.copy(batch, &tuple, n, direction),
                Verdict::PassedOver => {}
                Verdict::End => return Ok(Beyond::Nothing),
                Verdict::Seek(key) => {
                    gaps += 1;
                    n = key
                        .seek(shape, page, opaque, following(n))
                        .map_err(self.index.at(block))?;
                    beyond = Some(key);
                    continue;
                }
            }
            n = following(n);
        }
        let neighbour = match direction {
            Direction::Backward => opaque.prev,
            Direction::Forward if opaque.is_rightmost() => return Ok(Beyond::Nothing),
            Direction::Forward => {
                let high_key = self.index.tuple(page, block, HIGH_KEY)?;
                let verdict = self.conditions.judge(shape, &high_key, direction);
                beyond = match verdict.map_err(self.index.at(block))? {
                    Verdict::End => return Ok(Beyond::Nothing),
                    Verdict::Seek(key) => Some(key),
                    Verdict::Found | Verdict::PassedOver => None,
                };
                opaque.next
            }
        };
        Ok(match beyond {
            Some(key) if gaps < MANY_GAPS => Beyond::Key(key.into_owned()),
            _ => Beyond::Page(neighbour),
        })
    }

    /// Copies an item.
    fn copy(&self, batch: &mut Batch, tuple: &Tuple<'_>, n: OffsetNumber, direction: Direction) {
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

    /// Notes on the leaf that nobody sees the rows of some items any more, given by their indexes
    /// in the batch. Nothing is noted if the leaf has changed since.
    ///
    /// This is a hint without a record. So it is left out on a clean page, which need not be
    /// written then, and for an index without a log, whose pages do not tell whether they have
    /// changed.
    pub fn kill(&self, batch: &Batch, gone: &[usize]) -> Result<(), AccessError> {
        if gone.is_empty() || !self.index.logged || !self.index.may_kill() {
            return Ok(());
        }
        let Some(pin) = self.index.pool.lookup(&self.index.tag(batch.block)) else {
            return Ok(());
        };
        if !pin.is_dirty() {
            return Ok(());
        }
        let mut page = pin.into_exclusive();
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
