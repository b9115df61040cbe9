//! Checking a table of a running cluster, as amcheck's `verify_heapam` does.
//!
//! Each page is copied under its lock, and checked by itself, beside readers and writers. What
//! transactions did that ran when the check began is not looked at: pages are newer than that. The
//! chunks of a value out of line are found by the index of the TOAST table.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::ops::Range;
use std::sync::Arc;

use forebay_aio::IoBackend;
use forebay_format::ids::xid_precedes;
use forebay_format::multixact::{Member, MultiXactId};
use forebay_format::visibility_map::{ALL_FROZEN, ALL_VISIBLE, BLOCKS_PER_PAGE, map_block};
use forebay_format::{BlockNumber, Fork, PageBytes, Xid};
use forebay_storage::{Backend, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings};
use forebay_txn::locks::Interrupt;
use forebay_txn::{MultiXacts, Outcome, Snapshot, XactManager};

use crate::check::{
    ChunkRow, Counters, Fate, Finding, HeapCheck, HeapTable, RunningTransactions, StoredValue,
    Transactions, ValueTaker, check_chunk, chunk_count,
};
use crate::error::AccessError;
use crate::heap::{Heap, ReadAhead, RowSets};
use crate::toast::ToastTable;
use crate::vm;

/// Which pages a check leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SkipPages {
    /// None.
    #[default]
    None,
    /// Blocks that are all-visible by the map.
    AllVisible,
    /// Blocks that are all-frozen by the map.
    AllFrozen,
}

/// What to check of a table.
pub struct TableCheck<'a> {
    /// The table, as the catalogs describe it.
    pub table: &'a HeapTable,
    /// Its rows.
    pub heap: &'a Heap,
    /// Where its values out of line are, if they are to be checked.
    pub toast: Option<&'a ToastTable>,
    /// The transactions.
    pub xacts: &'a XactManager,
    /// The MultiXacts.
    pub multis: &'a Arc<MultiXacts>,
    /// What had committed when the check began. Vacuum keeps what it sees.
    pub snapshot: &'a Snapshot,
    /// Which pages are left out.
    pub skip: SkipPages,
    /// The blocks to check.
    pub blocks: Range<BlockNumber>,
    /// End with the first block in which something is wrong.
    pub stop_on_error: bool,
    /// How far to read ahead.
    pub ahead: ReadAhead,
    /// Whether the check is to end.
    pub interrupt: &'a Interrupt,
}

impl TableCheck<'_> {
    /// Checks the table, and shows what is wrong, block by block.
    pub fn run(
        &self,
        backend: &mut Backend,
        sets: &mut RowSets,
        sink: &mut dyn FnMut(Finding) -> Result<(), AccessError>,
    ) -> Result<(), AccessError> {
        let (mut map, mut first) = (Map::default(), self.blocks.start);
        while first < self.blocks.end {
            // The bits of these are on one page of the map.
            let end = (first / BLOCKS_PER_PAGE + 1).saturating_mul(BLOCKS_PER_PAGE);
            let end = end.min(self.blocks.end);
            let wanted = self.wanted(backend, &mut map, first..end)?;
            if !self.check_blocks(backend, sets, &mut map, wanted, sink)? {
                break;
            }
            first = end;
        }
        Ok(())
    }

    /// Checks blocks. Returns whether the check goes on.
    fn check_blocks(
        &self,
        backend: &mut Backend,
        sets: &mut RowSets,
        map: &mut Map,
        wanted: Vec<BlockNumber>,
        sink: &mut dyn FnMut(Finding) -> Result<(), AccessError>,
    ) -> Result<bool, AccessError> {
        let mut next = wanted.into_iter();
        let mut stream = ReadStream::new(
            &self.heap.pool,
            self.heap.locator,
            Fork::Main,
            move || next.next(),
            StreamFlags::FULL,
            Strategy::BulkRead,
            StreamSettings::new(self.ahead.io_concurrency, self.ahead.combine_limit),
        );
        while let Some(pin) = stream.next(backend)? {
            self.check_interrupt()?;
            let block = pin.tag().block;
            map.pin(self.heap, backend, block)?;
            let (page, bits) = {
                // The bits are cleared under the lock of the page.
                let guard = pin.lock_shared();
                (guard.copy(), map.bits(block))
            };
            drop(pin);
            let mut found = Vec::new();
            let values = self.page(backend, sets, (block, &page, bits), &mut found);
            for value in values {
                self.check_interrupt()?;
                self.value(backend, &value, &mut found)?;
            }
            let ends = self.stop_on_error && !found.is_empty();
            found.into_iter().try_for_each(&mut *sink)?;
            if ends {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The blocks that are not left out.
    fn wanted(
        &self,
        backend: &mut Backend,
        map: &mut Map,
        blocks: Range<BlockNumber>,
    ) -> Result<Vec<BlockNumber>, AccessError> {
        let left_out = match self.skip {
            SkipPages::None => return Ok(blocks.collect()),
            SkipPages::AllVisible => ALL_VISIBLE,
            SkipPages::AllFrozen => ALL_FROZEN,
        };
        let mut wanted = Vec::new();
        for block in blocks {
            map.pin(self.heap, backend, block)?;
            if map.bits(block) & left_out == 0 {
                wanted.push(block);
            }
        }
        Ok(wanted)
    }

    /// Checks a page. Returns the values out of line that are to be checked.
    fn page(
        &self,
        backend: &mut Backend,
        sets: &mut RowSets,
        (block, page, bits): (BlockNumber, &PageBytes, u8),
        found: &mut Vec<Finding>,
    ) -> Vec<StoredValue> {
        // The page has no ids that are newer than these.
        let (multis, oldest_xid) = (self.multis.counters(), self.xacts.oldest_xid().0);
        let counters = Counters {
            next_xid: self.xacts.next_xid(),
            oldest_xid,
            next_multi: multis.next,
            next_member: multis.next_offset,
            oldest_multi: multis.oldest,
        };
        let mut known = Known { check: self, io: &mut backend.io, sets };
        let mut transactions = Transactions::running(counters, &mut known);
        let mut values = Vec::new();
        let oldest = self.snapshot.xmin();
        let mut removable = |xid| xid_precedes(xid, oldest);
        // The pool has verified the checksum.
        let mut check = HeapCheck::new(self.table, false, &mut transactions);
        if self.toast.is_some() {
            let taker = ValueTaker { removable: &mut removable, values: &mut values };
            check = check.taking(taker);
        }
        check.page(block, page, bits, &mut |finding| found.push(finding));
        values
    }

    /// Checks the chunks of a value, in the order in which the index has them.
    fn value(
        &self,
        backend: &mut Backend,
        stored: &StoredValue,
        found: &mut Vec<Finding>,
    ) -> Result<(), AccessError> {
        let Some(toast) = self.toast else { return Ok(()) };
        let (pointer, value) = (stored.pointer, stored.pointer.value_id);
        let mut say = |message| found.push(stored.finding(message));
        let (mut expected, mut any) = (0_i64, false);
        toast.rows_of_value(backend, value, &mut |tuple| {
            any = true;
            let Some(row) = ChunkRow::read(tuple, true) else { return };
            if let Some(number) = row.number {
                if i64::from(number) != expected {
                    say(format!(
                        "toast value {value} index scan returned chunk {number} when expecting \
                         chunk {expected}"
                    ));
                }
                expected = i64::from(number) + 1;
            }
            match row.chunk.map(|chunk| check_chunk(pointer, chunk)) {
                Err(problem) | Ok(Err(problem) | Ok(Some(problem))) => say(problem),
                Ok(Ok(None)) => {}
            }
        })?;
        let last = i64::from(chunk_count(pointer)) - 1;
        if !any {
            say(format!("toast value {value} not found in toast table"));
        } else if expected <= last {
            say(format!(
                "toast value {value} was expected to end at chunk {last}, but ended while \
                 expecting chunk {expected}"
            ));
        }
        Ok(())
    }

    fn check_interrupt(&self) -> Result<(), AccessError> {
        match self.interrupt.pending() {
            Some(kind) => Err(AccessError::Interrupted(kind)),
            None => Ok(()),
        }
    }
}

/// The page of the visibility map that was needed last.
#[derive(Default)]
struct Map {
    number: Option<BlockNumber>,
    page: Option<Pinned>,
}

impl Map {
    fn pin(
        &mut self,
        heap: &Heap,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<(), AccessError> {
        let number = map_block(block);
        // A page that did not exist may have been made.
        if self.number != Some(number) || self.page.is_none() {
            self.page = vm::pin(&heap.pool, backend, heap.locator, block)?;
            self.number = Some(number);
        }
        Ok(())
    }

    fn bits(&self, block: BlockNumber) -> u8 {
        self.page.as_ref().map_or(0, |page| vm::bits(page, block))
    }
}

/// The fates of transactions, as the running server knows them.
struct Known<'a> {
    check: &'a TableCheck<'a>,
    io: &'a mut IoBackend,
    sets: &'a mut RowSets,
}

impl RunningTransactions for Known<'_> {
    fn fate(&mut self, xid: Xid) -> Option<Fate> {
        let TableCheck { xacts, snapshot, .. } = self.check;
        // Its own changes do not count as committed either.
        let runs = snapshot.is_own(xid)
            || !xid_precedes(xid, snapshot.xmax())
            || snapshot.is_running_in(self.io, xacts.subtrans(), xid).ok()?;
        if runs {
            return Some(Fate::Running);
        }
        match xacts.clog().status(self.io, xid) {
            Ok(Outcome::Committed) => Some(Fate::Committed),
            Ok(_) => Some(Fate::Aborted),
            // It was frozen since the page was copied, and its status removed.
            Err(_) if xid_precedes(xid, xacts.oldest_xid().0) => Some(Fate::Committed),
            Err(_) => None,
        }
    }

    fn members(&mut self, multi: MultiXactId) -> Result<Vec<Member>, String> {
        self.sets.members(self.io, multi, false).map_err(|error| error.to_string())
    }
}
