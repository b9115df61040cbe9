//! The rows behind an index scan, in the index's order, or its entries alone.
//!
//! ```text
//!   leaves --> batches --> plan: chunks of one heap page --> read stream
//!                                                              |
//!   next() <-- rows of the chunk, copied <-- page, pinned <----+
//! ```
//!
//! Going on in the other direction, going back to a mark and beginning anew give up what was read
//! ahead. The stream with its settings, and all buffers, are kept.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;
use std::sync::Arc;

use forebay_format::nbtree::Tuple;
use forebay_format::{ItemPointer, OffsetNumber};
use forebay_storage::{Backend, Pinned};
use forebay_txn::locks::Interrupt;

use super::ahead::{Chunk, Plan};
use super::leaves::{Leaves, Loaded};
use super::stats::ScanStats;
use crate::error::AccessError;
use crate::heap::{Heap, PageRows, ReadAhead, RowReader};
use crate::nbtree::{BatchOptions, Condition, Direction, Index};

/// Batches that are held at most, that of the present row included.
const MOST_BATCHES: usize = 32;

/// How a scan reads.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Only the index's entries are wanted. Rows are looked at if the visibility map does not say
    /// that everybody sees them.
    pub entries_only: bool,
    /// How it reads ahead.
    pub ahead: ReadAhead,
    /// Rows that are wanted at most, as far as that is known: no more are read ahead.
    pub limit: Option<u64>,
    /// Ends the scan with an error.
    pub interrupt: Interrupt,
}

/// A row that a scan has found.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    /// The version's place; for entries alone, that to which the entry leads.
    pub tid: ItemPointer,
    /// The version; for entries alone, the index tuple.
    pub tuple: &'a [u8],
}

/// A batch with the items whose rows nobody sees any more.
#[derive(Debug)]
struct Held {
    loaded: Arc<Loaded>,
    gone: Vec<usize>,
}

/// A place: on an item of a batch, or beside its items.
#[derive(Debug, Clone)]
struct Mark {
    loaded: Option<Arc<Loaded>>,
    at: i64,
    begun: bool,
}

/// The chunk whose rows are returned.
#[derive(Debug, Default)]
struct Current {
    chunk: Option<Chunk>,
    /// The rows' line pointers.
    asked: Vec<OffsetNumber>,
    rows: PageRows,
    /// Index of the row that is returned next, or of the item if there are no rows to look at.
    next: usize,
}

/// A scan of rows, or of entries, in an index's order.
#[derive(Debug)]
pub struct IndexRows {
    leaves: Leaves,
    reader: RowReader,
    options: ScanOptions,
    direction: Direction,
    /// From that of the present place to the last one that was planned.
    batches: VecDeque<Held>,
    /// The number of the first of them.
    front: u64,
    /// Whether the scan has looked for its first batch.
    begun: bool,
    /// The item of the first batch that was looked at last. -1, or their number: beside them.
    at: i64,
    /// The item to be planned next, and the number of its batch.
    next: (u64, i64),
    /// Whether there is no batch behind the last one.
    ended: bool,
    plan: Plan,
    current: Current,
    mark: Option<Mark>,
}

impl IndexRows {
    /// Begins a scan of rows that satisfy the conditions and that `reader` sees.
    pub fn new(
        heap: &Heap,
        index: &Index,
        conditions: Vec<Condition>,
        reader: RowReader,
        options: ScanOptions,
    ) -> IndexRows {
        let only = options.entries_only;
        let scan = index
            .scan(conditions, BatchOptions { pin: only, tuples: only })
            .interruptible(options.interrupt.clone());
        let mut leaves = Leaves::new(scan, options.ahead);
        if only {
            leaves = leaves.asking_map(&heap.pool, heap.locator);
        }
        IndexRows {
            leaves,
            reader,
            direction: Direction::Forward,
            batches: VecDeque::new(),
            front: 0,
            begun: false,
            at: 0,
            next: (0, 0),
            ended: false,
            plan: Plan::new(heap, options.ahead),
            current: Current::default(),
            mark: None,
            options,
        }
    }

    /// Begins anew with other conditions, and perhaps another limit.
    pub fn rescan(
        &mut self,
        conditions: Vec<Condition>,
        limit: Option<u64>,
    ) -> Result<(), AccessError> {
        self.release_before(u64::MAX)?;
        self.leaves.scan_mut().set_conditions(conditions);
        self.options.limit = limit;
        self.plan.begin();
        self.current.chunk = None;
        (self.begun, self.at, self.ended, self.mark) = (false, 0, false, None);
        Ok(())
    }

    /// What it has done so far, rescans included.
    pub fn stats(&self) -> ScanStats {
        ScanStats { heap: self.plan.stream_stats(), ..self.leaves.stats() }
    }

    /// The next row in a direction. None behind the last one. A call in the other direction returns
    /// the row before the last one returned, or after None the last one.
    pub fn next(
        &mut self,
        backend: &mut Backend,
        direction: Direction,
    ) -> Result<Option<RowRef<'_>>, AccessError> {
        if direction != self.direction {
            self.direction = direction;
            self.look_ahead_from_here();
        }
        loop {
            if let Some(found) = self.take() {
                return Ok(Some(self.row(found)));
            }
            if let Some(kind) = self.options.interrupt.pending() {
                return Err(AccessError::Interrupted(kind));
            }
            let filled = self.fill(backend);
            if filled.is_err() {
                self.look_ahead_from_here();
            }
            if !filled? {
                return Ok(None);
            }
        }
    }

    /// The same if it takes no look at any page: the row was copied with the one before it.
    pub fn next_copied(&mut self, direction: Direction) -> Option<RowRef<'_>> {
        if direction != self.direction {
            return None;
        }
        let found = self.take()?;
        Some(self.row(found))
    }

    /// Whether [`IndexRows::next_copied`] would return a row.
    pub fn has_copied(&self, direction: Direction) -> bool {
        let Current { chunk: Some(chunk), rows, next, .. } = &self.current else { return false };
        let count = if chunk.block.is_some() { rows.rows().len() } else { chunk.count };
        direction == self.direction && *next < count
    }

    /// Remembers the place of the last row returned.
    pub fn set_mark(&mut self) {
        let loaded = self.batches.front().map(|held| Arc::clone(&held.loaded));
        self.mark = Some(Mark { loaded, at: self.at, begun: self.begun });
    }

    /// Goes back to the marked place.
    ///
    /// # Panics
    /// If there is none.
    pub fn go_to_mark(&mut self) -> Result<(), AccessError> {
        let Mark { loaded, at, begun } = self.mark.clone().expect("a place was marked");
        self.release_before(u64::MAX)?;
        self.batches.extend(loaded.map(|loaded| Held { loaded, gone: Vec::new() }));
        (self.at, self.begun) = (at, begun);
        self.look_ahead_from_here();
        Ok(())
    }

    /// Forgets what comes, and plans it anew from the present place on.
    fn look_ahead_from_here(&mut self) {
        self.current.chunk = None;
        self.plan.forget();
        self.batches.truncate(1);
        self.ended = false;
        self.next = (self.front, self.beside(self.at));
    }

    /// The place of the next item.
    fn beside(&self, at: i64) -> i64 {
        match self.direction {
            Direction::Forward => at + 1,
            Direction::Backward => at - 1,
        }
    }

    /// The place before the first item of a batch.
    fn outside(&self, loaded: &Loaded, direction: Direction) -> i64 {
        match direction {
            Direction::Forward => -1,
            Direction::Backward => loaded.batch.items().len() as i64,
        }
    }

    /// Gives up batches before one, by number. Items that lead to nothing are killed.
    fn release_before(&mut self, number: u64) -> Result<(), AccessError> {
        while self.front < number
            && let Some(Held { loaded, gone }) = self.batches.pop_front()
        {
            self.front += 1;
            self.leaves.scan().kill(&loaded.batch, &gone)?;
        }
        Ok(())
    }

    /// Moves to the next row of the current chunk: its index, and that of its item.
    fn take(&mut self) -> Option<(usize, usize)> {
        let chunk = self.current.chunk?;
        let next = self.current.next;
        let n = match chunk.block {
            Some(_) => self.current.rows.rows().get(next)?.asked,
            None => Some(next).filter(|&n| n < chunk.count)?,
        };
        self.current.next += 1;
        let item = chunk.item(n, self.direction);
        self.at = item as i64;
        Some((next, item))
    }

    /// A row of the current chunk.
    fn row(&self, (row, item): (usize, usize)) -> RowRef<'_> {
        let rows = &self.current.rows;
        if !self.options.entries_only
            && let Some(row) = rows.rows().get(row)
        {
            return RowRef { tid: row.tid, tuple: rows.tuple(row) };
        }
        let batch = &self.batches.front().expect("that of the present row is held").loaded.batch;
        let item = batch.items().get(item).expect("an item of the chunk");
        let tuple = batch.tuple(item).as_ref().map_or(&[][..], Tuple::bytes);
        RowRef { tid: item.tid, tuple }
    }

    /// Reads the rows of the next chunk. Returns false at the end.
    fn fill(&mut self, backend: &mut Backend) -> Result<bool, AccessError> {
        if let Some(chunk) = self.current.chunk.take() {
            // None of the rest was seen.
            self.at = chunk.item(chunk.count - 1, self.direction) as i64;
        }
        while self.plan.is_empty() || self.plan.wants_more() && !self.has_enough() {
            if !self.plan_chunk(backend)? {
                break;
            }
        }
        let Some((chunk, pin)) = self.plan.next(backend)? else {
            self.stand_behind()?;
            return Ok(false);
        };
        self.release_before(chunk.batch)?;
        // Until a row is found the place is beside the chunk.
        self.at = 2 * chunk.first as i64 - self.beside(chunk.first as i64);
        match pin {
            Some(pin) => self.read_rows(backend, &chunk, &pin)?,
            None => self.leaves.stats.all_visible += chunk.count as u64,
        }
        self.current.next = 0;
        self.current.chunk = Some(chunk);
        Ok(true)
    }

    /// Whether as many items are planned as are wanted.
    fn has_enough(&self) -> bool {
        self.options.limit.is_some_and(|limit| self.plan.planned() >= limit)
            || self.batches.len() >= MOST_BATCHES
    }

    /// Stands behind the last item.
    fn stand_behind(&mut self) -> Result<(), AccessError> {
        let last = (self.front + self.batches.len() as u64).saturating_sub(1);
        self.release_before(last)?;
        if let Some(held) = self.batches.front() {
            self.at = self.outside(&held.loaded, self.direction.reversed());
        }
        Ok(())
    }

    /// Plans a chunk. Returns false if there is no further item.
    fn plan_chunk(&mut self, backend: &mut Backend) -> Result<bool, AccessError> {
        if !self.begun {
            let first = self.leaves.first(backend, self.direction)?;
            self.begun = true;
            if let Some(first) = first {
                self.at = self.outside(&first, self.direction);
                self.batches.push_back(Held { loaded: Arc::new(first), gone: Vec::new() });
            }
            self.next = (self.front, self.beside(self.at));
        }
        loop {
            let (number, item) = self.next;
            let held = self.batches.get((number - self.front) as usize);
            let Some(held) = held else { return Ok(false) };
            if let Some(first) =
                usize::try_from(item).ok().filter(|&item| item < held.loaded.batch.items().len())
            {
                let count = self.plan.add(&held.loaded, number, first, self.direction) as i64;
                let backward = self.direction == Direction::Backward;
                self.next.1 = if backward { item - count } else { item + count };
                return Ok(true);
            }
            let is_last = number - self.front + 1 == self.batches.len() as u64;
            if is_last && (self.ended || !self.load_next(backend)?) {
                return Ok(false);
            }
            let following = self.batches.get((number + 1 - self.front) as usize);
            let Some(following) = following else { return Ok(false) };
            self.next = (number + 1, self.beside(self.outside(&following.loaded, self.direction)));
        }
    }

    /// Loads the batch behind the last one. Returns false if there is none.
    fn load_next(&mut self, backend: &mut Backend) -> Result<bool, AccessError> {
        let Some(last) = self.batches.back() else { return Ok(false) };
        let ahead = self.plan.reads_ahead();
        let next = self.leaves.next(backend, &last.loaded.batch, self.direction, ahead)?;
        self.ended = next.is_none();
        self.batches.extend(next.map(|next| Held { loaded: Arc::new(next), gone: Vec::new() }));
        Ok(!self.ended)
    }

    /// Copies the rows of a chunk that are seen, and notes which nobody sees any more.
    fn read_rows(
        &mut self,
        backend: &mut Backend,
        chunk: &Chunk,
        pin: &Pinned,
    ) -> Result<(), AccessError> {
        let Current { asked, rows, .. } = &mut self.current;
        let held = self.batches.front_mut().expect("that of the chunk is held");
        let items = held.loaded.batch.items();
        let item_of = |n| items.get(chunk.item(n, self.direction)).expect("an item of the chunk");
        asked.clear();
        asked.extend((0..chunk.count).map(|n| item_of(n).tid.offset));
        self.reader.read(backend, pin, asked, rows)?;
        let before = held.gone.len();
        if self.leaves.scan().index().logged {
            self.reader.find_gone(backend, pin, asked, rows, &mut held.gone)?;
        }
        for gone in held.gone.iter_mut().skip(before) {
            *gone = chunk.item(*gone, self.direction);
        }
        Ok(())
    }
}

impl Drop for IndexRows {
    /// Kills what was found to be gone. An error is left to the next scan.
    fn drop(&mut self) {
        let _ = self.release_before(u64::MAX);
    }
}
