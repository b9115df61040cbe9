//! Making room on a leaf by merging tuples with equal keys into posting lists.
//!
//! A list grows up to a sixth of a page. On a page full of one value the sixth list stays smaller,
//! and what follows stays as it is: the page will be split behind them, and its left half is full.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, MAX_ITEM_SIZE, OPAQUE_SIZE, Opaque, SINGLE_VALUE_FILL_FACTOR, Tuple,
};
use forebay_format::page::{HEADER_SIZE, ITEM_ID_SIZE};
use forebay_format::wal::nbtree::{BtreeDedup, DEDUP, DedupInterval};
use forebay_format::{BLOCK_SIZE, ItemPointer, OffsetNumber, Page};

use super::compare::{KeyError, columns_to_tell_apart};
use super::inserter::{Inserter, Locked, aligned};
use super::log::{CHANGED, block, set_lsn};
use super::relation::IndexShape;
use crate::error::AccessError;
use crate::heap::critical;

/// Lists of so many rows count as large.
const LARGE_LIST: usize = 50;
/// Large lists on a page full of one value; the last one is smaller.
const LARGE_LISTS: usize = 6;

impl Inserter<'_> {
    /// Merges equal tuples of a leaf, whose killed items have been removed, to make room for a new
    /// tuple. `versions`: equal tuples are probably versions of rows, which will be gone; so the
    /// page need not be prepared for a split.
    pub(super) fn deduplicate(
        &mut self,
        page: &mut Locked,
        new: &Tuple<'_>,
        versions: bool,
    ) -> Result<(), AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let opaque = index.opaque(page.page(), tag)?;
        let mut lists =
            lists(&index.shape, page.page(), opaque, new, versions).map_err(index.at(tag))?;
        if lists.intervals.is_empty() {
            return Ok(());
        }
        let merged = lists.intervals.iter().map(|interval| (interval.base, interval.items));
        let merged = nb::dedup(page.page(), merged).map_err(|error| index.damaged(tag, &error))?;
        critical(index.failure.as_ref(), "could not deduplicate a page of an index", || {
            page.mark_dirty();
            page.copy_from_slice(&merged);
            let aio = self.backend.io.aio();
            forebay_aio::planted_bug!(aio, DeduplicationLoggedShort, lists.intervals.pop());
            let mut data = Vec::new();
            let main = lists.encode(&mut data);
            let blocks = [block(0, page, CHANGED, &data)];
            let lsn = index.log(self.backend, self.xid, DEDUP, &main, &blocks)?;
            set_lsn(lsn, [page]);
            Ok(())
        })
    }
}

/// The items of a leaf that become posting lists.
fn lists(
    shape: &IndexShape,
    page: Page<'_>,
    opaque: Opaque,
    new: &Tuple<'_>,
    versions: bool,
) -> Result<BtreeDedup, KeyError> {
    let (first, count) = (opaque.first_data_item(), page.item_count());
    let mut single_value = !versions && count >= first && is_single_value(shape, page, first, new)?;
    let mut found = Lists { dedup: BtreeDedup::default(), most: MAX_ITEM_SIZE / 2, large: 0 };
    let mut merging = true;
    let mut pending: Option<Pending<'_>> = None;
    for n in first..=count {
        let tuple = Tuple::new(nb::item(page, n)?)?;
        if let Some(pending) = pending.as_mut().filter(|_| merging)
            && columns_to_tell_apart(shape, &pending.base, &tuple)? > shape.keys.len()
            && found.take(pending, &tuple)
        {
            continue;
        }
        if let Some(done) = pending.replace(Pending::of(tuple, n)) {
            found.finish(&done);
        }
        if single_value && found.large == LARGE_LISTS - 1 {
            found.lower_most(new);
        } else if single_value && found.large == LARGE_LISTS {
            (merging, single_value) = (false, false);
        }
    }
    if let Some(last) = pending {
        found.finish(&last);
    }
    Ok(found.dedup)
}

/// Whether all items of a page have the value of a new one, which probably is not the last.
fn is_single_value(
    shape: &IndexShape,
    page: Page<'_>,
    first: OffsetNumber,
    new: &Tuple<'_>,
) -> Result<bool, KeyError> {
    for n in [first, page.item_count()] {
        let tuple = Tuple::new(nb::item(page, n)?)?;
        if columns_to_tell_apart(shape, new, &tuple)? <= shape.keys.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tuples that become one.
struct Pending<'a> {
    base: Tuple<'a>,
    interval: DedupInterval,
    /// Rows of all of them.
    rows: usize,
}

impl<'a> Pending<'a> {
    fn of(base: Tuple<'a>, n: OffsetNumber) -> Pending<'a> {
        let interval = DedupInterval { base: n, items: 1 };
        Pending { base, interval, rows: base.heap_tid_count() }
    }
}

/// The lists found so far.
struct Lists {
    dedup: BtreeDedup,
    /// The most bytes of a tuple with a list.
    most: usize,
    /// Number of large lists that took no more.
    large: usize,
}

impl Lists {
    /// Adds a tuple to the pending ones, if the list does not become too large.
    fn take(&mut self, pending: &mut Pending<'_>, tuple: &Tuple<'_>) -> bool {
        let rows = pending.rows + tuple.heap_tid_count();
        if aligned(pending.base.key_size() + rows * ItemPointer::SIZE) > self.most {
            self.large += usize::from(pending.rows > LARGE_LIST);
            return false;
        }
        pending.rows = rows;
        pending.interval.items += 1;
        true
    }

    fn finish(&mut self, pending: &Pending<'_>) {
        if pending.interval.items > 1 {
            self.dedup.intervals.push(pending.interval);
        }
    }

    /// Leaves so much room on the left half of the split to come as the fill factor says.
    fn lower_most(&mut self, new: &Tuple<'_>) {
        let high_key = new.size() + ITEM_ID_SIZE + aligned(ItemPointer::SIZE);
        let left_free = (BLOCK_SIZE - HEADER_SIZE - OPAQUE_SIZE).saturating_sub(high_key);
        let free = left_free * (100 - SINGLE_VALUE_FILL_FACTOR) / 100;
        self.most = self.most.saturating_sub(free);
    }
}
