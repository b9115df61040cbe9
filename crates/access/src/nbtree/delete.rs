//! Making room on a leaf by removing items of rows that nobody sees any more.
//!
//! - Simple deletion: the leaf has killed items. Their table blocks are looked at anyway, so all
//!   items are that lead to the same blocks.
//! - Bottom-up deletion: nothing is killed, but there are duplicates, and the new item is that of a
//!   row whose update left the index's columns as they were. So some of the duplicates probably
//!   lead to old versions of rows. A few table blocks are looked at, those with the most such items
//!   first, as long as each gives some room.
//!
//! The record says how new the removed rows were: a standby server cancels queries that may still
//! see them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::cmp::Reverse;

use forebay_format::ids::{INVALID_XID, xid_precedes};
use forebay_format::nbtree::{self as nb, Tuple};
use forebay_format::page::ITEM_ID_SIZE;
use forebay_format::wal::nbtree::{BtreeDelete, DELETE, PostingUpdate};
use forebay_format::{BLOCK_SIZE, BlockNumber, ItemPointer, OffsetNumber, Page, Xid};

use super::compare::{KeyError, columns_to_tell_apart};
use super::inserter::{Inserter, Locked, aligned};
use super::log::{CHANGED, block, set_lsn};
use super::relation::{Index, IndexShape};
use super::rows::TableRows;
use crate::error::AccessError;
use crate::heap::{RemovalCandidate, critical};

/// Table blocks that a bottom-up deletion looks at, at most.
const MOST_BLOCKS: usize = 6;
/// Blocks whose numbers differ by no more count as neighbours: reading them costs less.
const NEAR: BlockNumber = 3;
/// Bytes that a bottom-up deletion wants to free.
const WANTED: usize = BLOCK_SIZE / 16;
/// Bytes that must be free afterwards, so that the leaf need not be changed in another way soon.
const ENOUGH: usize = BLOCK_SIZE / 24;

/// Adds an item to those that are removed: of its rows, `gone` go, given by their indexes.
pub(super) fn add_item(
    removal: &mut BtreeDelete,
    offset: OffsetNumber,
    rows: usize,
    gone: Vec<u16>,
) {
    match gone.len() {
        0 => {}
        all if all == rows => removal.deleted.push(offset),
        _ => removal.updated.push(PostingUpdate { offset, deleted: gone }),
    }
}

/// A row of an item.
#[derive(Debug, Clone, Copy)]
struct Entry {
    tid: ItemPointer,
    /// The item, and the index of the row in its list.
    at: (OffsetNumber, u16),
    gone: bool,
    /// Whether it probably leads to an old version.
    promising: bool,
    /// Bytes that its removal frees, at least.
    space: usize,
}

impl Inserter<'_> {
    /// Removes a leaf's killed items, and others that lead to the same table blocks, or to that of
    /// a new row, and can go.
    pub(super) fn delete_killed(
        &mut self,
        page: &mut Locked,
        rows: &mut dyn TableRows,
        new: ItemPointer,
    ) -> Result<(), AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let mut entries = index.entries(page.page(), tag)?;
        let mut blocks: Vec<BlockNumber> =
            entries.iter().filter(|entry| entry.gone).map(|entry| entry.tid.block).collect();
        if blocks.is_empty() {
            return Ok(());
        }
        blocks.push(new.block);
        blocks.sort_unstable();
        entries.retain(|entry| blocks.binary_search(&entry.tid.block).is_ok());
        entries.sort_by_key(|entry| entry.tid);
        let mut newest = INVALID_XID;
        for of_block in entries.chunk_by_mut(|a, b| a.tid.block == b.tid.block) {
            newest = later(newest, self.ask(rows, of_block)?);
        }
        self.delete(page, entries, newest)
    }

    /// Looks for versions of rows that nobody sees any more behind the duplicates of a leaf without
    /// killed items. Returns whether other ways to make room need not be tried: there is enough
    /// room now, or there are no duplicates.
    pub(super) fn delete_bottom_up(
        &mut self,
        page: &mut Locked,
        rows: &mut dyn TableRows,
        size: usize,
    ) -> Result<bool, AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let mut entries = index.entries(page.page(), tag)?;
        let duplicates = mark_promising(&index.shape, page.page(), &mut entries);
        let has_duplicates = duplicates.map_err(index.at(tag))?;
        let needed = aligned(size) + ITEM_ID_SIZE;
        let mut groups = by_promise(&mut entries);
        let mut favourable = neighbours_at_the_beginning(&groups);
        let (mut target, mut freed, mut newest) = (WANTED.max(needed), 0, INVALID_XID);
        for of_block in groups.iter_mut().take(MOST_BLOCKS) {
            // Do not hang on for long with a leaf that gives little.
            match favourable {
                0 => target /= 2,
                _ => favourable -= 1,
            }
            newest = later(newest, self.ask(rows, of_block)?);
            let gone = of_block.iter().filter(|entry| entry.gone);
            let space: usize = gone.map(|entry| entry.space).sum();
            freed += space;
            if space == 0 || freed >= target {
                break;
            }
        }
        self.delete(page, entries, newest)?;
        Ok(!has_duplicates || page.page().free_space() + ITEM_ID_SIZE >= ENOUGH.max(needed))
    }

    /// Finds out which rows of a table block are gone. Returns the newest transaction that deleted
    /// one of them.
    fn ask(
        &mut self,
        rows: &mut dyn TableRows,
        of_block: &mut [Entry],
    ) -> Result<Xid, AccessError> {
        let candidate = |entry: &Entry| RemovalCandidate { tid: entry.tid, gone: entry.gone };
        let mut candidates: Vec<_> = of_block.iter().map(candidate).collect();
        let newest = rows.removable(self.backend, &mut candidates)?;
        for (entry, candidate) in of_block.iter_mut().zip(candidates) {
            entry.gone = candidate.gone;
        }
        Ok(newest)
    }

    /// Removes those of some entries that are gone.
    fn delete(
        &mut self,
        page: &mut Locked,
        mut entries: Vec<Entry>,
        newest: Xid,
    ) -> Result<(), AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        entries.retain(|entry| entry.gone);
        if entries.is_empty() {
            return Ok(());
        }
        entries.sort_by_key(|entry| entry.at);
        let mut removal = BtreeDelete::default();
        for of_item in entries.chunk_by(|a, b| a.at.0 == b.at.0) {
            let Some(n) = of_item.first().map(|entry| entry.at.0) else { continue };
            let rows = index.tuple(page.page(), tag, n)?.heap_tid_count();
            add_item(&mut removal, n, rows, of_item.iter().map(|entry| entry.at.1).collect());
        }
        critical(index.failure.as_ref(), "could not remove items of an index", || {
            page.mark_dirty();
            let updated = removal.updated.iter().map(|list| (list.offset, &list.deleted[..]));
            nb::delete_rows(&mut page.page_mut(), &removal.deleted, updated)
                .map_err(|error| index.damaged(tag, &error))?;
            let mut data = Vec::new();
            let main = removal.encode_delete(newest, index.shape.of_catalog, &mut data);
            let blocks = [block(0, page, CHANGED, &data)];
            let lsn = index.log(self.backend, self.xid, DELETE, &main, &blocks)?;
            set_lsn(lsn, [page]);
            Ok(())
        })
    }
}

impl Index {
    /// All rows of a leaf, in its order. Those of killed items are gone.
    fn entries(&self, page: Page<'_>, tag: BlockNumber) -> Result<Vec<Entry>, AccessError> {
        let first = self.opaque(page, tag)?.first_data_item();
        let mut entries = Vec::new();
        for n in first..=page.item_count() {
            let tuple = self.tuple(page, tag, n)?;
            let gone = nb::is_killed(page, n);
            let space = match tuple.is_posting() {
                true => ItemPointer::SIZE,
                false => aligned(tuple.size()) + ITEM_ID_SIZE,
            };
            let tids = (0..).zip(tuple.heap_tids());
            let entry = |(at, tid)| Entry { tid, at: (n, at), gone, promising: false, space };
            entries.extend(tids.map(entry));
        }
        Ok(entries)
    }
}

fn later(a: Xid, b: Xid) -> Xid {
    if xid_precedes(a, b) { b } else { a }
}

/// Marks entries that probably lead to old versions: items with equal keys. Lists are made of what
/// nobody could remove before, so of a list among duplicates only one row is marked, if most of its
/// rows are in one table block. Returns whether there are duplicates.
fn mark_promising(
    shape: &IndexShape,
    page: Page<'_>,
    entries: &mut [Entry],
) -> Result<bool, KeyError> {
    let mut items: Vec<&mut [Entry]> = entries.chunk_by_mut(|a, b| a.at.0 == b.at.0).collect();
    let tuple = |item: &[Entry]| Tuple::new(nb::item(page, item.first().map_or(0, |e| e.at.0))?);
    let mut equal_to_next = Vec::with_capacity(items.len());
    for pair in items.windows(2) {
        let [a, b] = pair else { unreachable!("windows of two") };
        let columns = columns_to_tell_apart(shape, &tuple(a)?, &tuple(b)?)?;
        equal_to_next.push(columns > shape.keys.len());
    }
    let before = std::iter::once(false).chain(equal_to_next.iter().copied());
    let after = equal_to_next.iter().copied().chain([false]);
    for ((item, before), after) in items.iter_mut().zip(before).zip(after) {
        if !before && !after {
            continue;
        }
        let blocks = [0, item.len() / 2, item.len() - 1];
        let blocks = blocks.map(|at| item.get(at).map(|entry| entry.tid.block));
        let marked = match blocks {
            [first, middle, _] if first == middle => item.first_mut(),
            [_, middle, last] if middle == last => item.last_mut(),
            _ => None,
        };
        if let Some(marked) = marked {
            marked.promising = true;
        }
    }
    Ok(equal_to_next.contains(&true))
}

/// Entries by table block, the most promising blocks first. Small differences do not count: then
/// the order of blocks is better.
fn by_promise(entries: &mut [Entry]) -> Vec<&mut [Entry]> {
    entries.sort_by_key(|entry| entry.tid);
    let mut groups: Vec<_> = entries.chunk_by_mut(|a, b| a.tid.block == b.tid.block).collect();
    let rounded = |count: usize| count.next_power_of_two().max(4);
    groups.sort_by_cached_key(|group| {
        let promising = group.iter().filter(|entry| entry.promising).count();
        let block = group.first().map(|entry| entry.tid.block);
        (Reverse(rounded(promising)), Reverse(rounded(group.len())), block)
    });
    groups
}

/// How many of the first groups, at least one, lie side by side in the table.
fn neighbours_at_the_beginning(groups: &[&mut [Entry]]) -> usize {
    let blocks: Vec<_> =
        groups.iter().filter_map(|group| group.first()).map(|entry| entry.tid.block).collect();
    let near = |pair: &[BlockNumber]| match pair {
        [a, b] => a.abs_diff(*b) <= NEAR,
        _ => false,
    };
    1 + blocks.windows(2).take(MOST_BLOCKS - 1).take_while(|pair| near(pair)).count()
}
