//! Making room on a leaf by merging tuples with equal keys into posting lists.
//!
//! A list grows up to a sixth of a page. On a page full of one value the sixth list stays smaller,
//! and what follows stays as it is: the page will be split behind them, and its left half is full.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, HAS_GARBAGE, HIGH_KEY, MAX_ITEM_SIZE, OPAQUE_SIZE, Opaque,
    SINGLE_VALUE_FILL_FACTOR, Tuple,
};
use forebay_format::page::{HEADER_SIZE, ITEM_ID_SIZE, PageBytes};
use forebay_format::{BLOCK_SIZE, ItemPointer, OffsetNumber, Page, PageMut};
use forebay_wal::BlockFlags;

use super::compare::{KeyError, columns_to_tell_apart};
use super::inserter::{Inserter, Locked, aligned};
use super::log::{self, block, set_lsn};
use super::relation::IndexShape;
use crate::error::AccessError;
use crate::heap::critical;

/// Lists of so many rows count as large.
const LARGE_LIST: usize = 50;
/// Large lists on a page full of one value; the last one is smaller.
const LARGE_LISTS: usize = 6;

/// Neighbouring items that were merged: the first, and how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) first: OffsetNumber,
    pub(super) items: u16,
}

/// A page's items, merged.
pub(super) struct Merged {
    pub(super) page: Box<PageBytes>,
    pub(super) intervals: Vec<Interval>,
}

impl Inserter<'_> {
    /// Merges equal tuples of a leaf, whose killed items have been removed, to make room for a new
    /// tuple.
    pub(super) fn deduplicate(
        &mut self,
        page: &mut Locked,
        new: &Tuple<'_>,
    ) -> Result<(), AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let opaque = index.opaque(page.page(), tag)?;
        let merged = merge(&index.shape, page.page(), opaque, new).map_err(index.at(tag))?;
        if merged.intervals.is_empty() {
            return Ok(());
        }
        critical(index.failure.as_ref(), "could not deduplicate a page of an index", || {
            page.mark_dirty();
            page.copy_from_slice(&merged.page[..]);
            let data: Vec<u8> = merged
                .intervals
                .iter()
                .flat_map(|interval| [interval.first, interval.items])
                .flat_map(u16::to_le_bytes)
                .collect();
            let main = (merged.intervals.len() as u16).to_le_bytes();
            let blocks = [block(0, page, BlockFlags::STANDARD, &data)];
            let lsn = index.log(self.backend, self.xid, log::DEDUP, &main, &blocks)?;
            set_lsn(lsn, [page]);
            Ok(())
        })
    }
}

/// Merges the equal tuples of a leaf.
pub(super) fn merge(
    shape: &IndexShape,
    page: Page<'_>,
    opaque: Opaque,
    new: &Tuple<'_>,
) -> Result<Merged, KeyError> {
    let (first, count) = (opaque.first_data_item(), page.item_count());
    let mut single_value = count >= first && is_single_value(shape, page, first, new)?;
    let mut into = Merging {
        page: Box::new(nb::empty_copy(page)?),
        intervals: Vec::new(),
        most: MAX_ITEM_SIZE / 2,
        large: 0,
    };
    let flags = opaque.flags & !HAS_GARBAGE;
    Opaque { flags, ..opaque }.store(&mut PageMut(&mut into.page));
    if !opaque.is_rightmost() {
        into.push(nb::item(page, HIGH_KEY)?)?;
    }
    let mut merging = true;
    let mut pending: Option<Pending<'_>> = None;
    for n in first..=count {
        let tuple = Tuple::new(nb::item(page, n)?)?;
        if let Some(pending) = pending.as_mut().filter(|_| merging)
            && columns_to_tell_apart(shape, &pending.base, &tuple)? > shape.keys.len()
            && into.take(pending, &tuple)
        {
            continue;
        }
        if let Some(done) = pending.replace(Pending::of(tuple, n)) {
            into.finish(&done)?;
        }
        if single_value && into.large == LARGE_LISTS - 1 {
            into.lower_most(new);
        } else if single_value && into.large == LARGE_LISTS {
            (merging, single_value) = (false, false);
        }
    }
    if let Some(last) = pending {
        into.finish(&last)?;
    }
    Ok(Merged { page: into.page, intervals: into.intervals })
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
    first: OffsetNumber,
    items: u16,
    tids: Vec<ItemPointer>,
}

impl<'a> Pending<'a> {
    fn of(base: Tuple<'a>, first: OffsetNumber) -> Pending<'a> {
        Pending { base, first, items: 1, tids: base.heap_tids().collect() }
    }
}

/// The new page as it grows.
struct Merging {
    page: Box<PageBytes>,
    intervals: Vec<Interval>,
    /// The most bytes of a tuple with a list.
    most: usize,
    /// Number of large lists that took no more.
    large: usize,
}

impl Merging {
    fn push(&mut self, item: &[u8]) -> Result<(), KeyError> {
        Ok(nb::push_item(&mut PageMut(&mut self.page), item)?)
    }

    /// Adds a tuple's rows to the pending ones, if the list does not become too large.
    fn take(&mut self, pending: &mut Pending<'_>, tuple: &Tuple<'_>) -> bool {
        let tids = pending.tids.len() + tuple.heap_tid_count();
        if aligned(pending.base.key_size() + tids * ItemPointer::SIZE) > self.most {
            self.large += usize::from(pending.tids.len() > LARGE_LIST);
            return false;
        }
        pending.tids.extend(tuple.heap_tids());
        pending.items += 1;
        true
    }

    /// Adds the pending tuple to the page.
    fn finish(&mut self, pending: &Pending<'_>) -> Result<(), KeyError> {
        if pending.items == 1 {
            return self.push(pending.base.bytes());
        }
        self.intervals.push(Interval { first: pending.first, items: pending.items });
        self.push(&nb::form_posting(&pending.base, &pending.tids)?)
    }

    /// Leaves so much room on the left half of the split to come as the fill factor says.
    fn lower_most(&mut self, new: &Tuple<'_>) {
        let high_key = new.size() + ITEM_ID_SIZE + aligned(ItemPointer::SIZE);
        let left_free = (BLOCK_SIZE - HEADER_SIZE - OPAQUE_SIZE).saturating_sub(high_key);
        let free = left_free * (100 - SINGLE_VALUE_FILL_FACTOR) / 100;
        self.most = self.most.saturating_sub(free);
    }
}
