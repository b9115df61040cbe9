//! Splitting a full page in two.
//!
//! The left half keeps the block, and gets the first key of the right half as its high key: on a
//! leaf only as much of it as tells the halves apart. The right half is a new page. One record
//! covers both, the page to the right, whose left link changes, and the child that is complete now.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::nbtree::{
    self as nb, HAS_GARBAGE, HIGH_KEY, INCOMPLETE_SPLIT, LeftHalf, Opaque, ROOT, SPLIT_END, Tuple,
};
use forebay_format::page::PageBytes;
use forebay_format::wal::nbtree::{
    BtreeSplit, SPLIT_CHILD_BLOCK, SPLIT_L, SPLIT_NEXT_BLOCK, SPLIT_R, SPLIT_RIGHT_BLOCK,
};
use forebay_format::{BLOCK_SIZE, BlockNumber, PageMut};

use super::compare::{KeyError, columns_to_separate};
use super::inserter::{Inserter, Locked, NewItem, aligned, complete};
use super::log::{CHANGED, block, items_of, made, set_lsn};
use super::relation::IndexShape;
use super::split_point::{FullPage, SplitPoint};
use crate::error::AccessError;
use crate::heap::critical;

/// The halves of a page before they are put in place.
struct Halves {
    at: SplitPoint,
    left: Box<PageBytes>,
    right: Box<PageBytes>,
    high_key: Vec<u8>,
}

impl Halves {
    /// Notes which vacuum runs. It follows the links to the right from the left half as far as
    /// pages have its id, so the right half is the last one if its sibling, which had the id
    /// `next`, was not split during this vacuum.
    fn stamp(&mut self, cycle_id: u16, next: Option<u16>) {
        let ends = next.is_some_and(|next| next != cycle_id);
        for (half, flag) in [(&mut self.left, 0), (&mut self.right, SPLIT_END)] {
            let mut page = PageMut(half);
            let opaque = Opaque::of(page.page()).expect("the half was just made");
            let flags = opaque.flags | if ends { flag } else { 0 };
            Opaque { flags, cycle_id, ..opaque }.store(&mut page);
        }
    }
}

impl Inserter<'_> {
    /// Splits a page and puts an item on its half. Returns the right half. `child` is unlocked.
    pub(super) fn split(
        &mut self,
        page: &mut Locked,
        mut child: Option<Locked>,
        item: &NewItem,
    ) -> Result<Locked, AccessError> {
        let index = self.index;
        let tag = page.tag().block;
        let opaque = index.opaque(page.page(), tag)?;
        let at = self.split_point(page, opaque, item)?;
        let mut right = index.new_page(self.backend)?;
        let mut halves = halves(&index.shape, page, opaque, item, at, right.tag().block)
            .map_err(index.at(tag))?;
        let mut sibling = self.right_sibling(tag, &opaque)?;
        let next = sibling.as_ref().map(|(_, opaque)| opaque.cycle_id);
        halves.stamp(index.shared.cycle_of(index.locator), next);
        critical(index.failure.as_ref(), "could not split a page of an index", || {
            page.mark_dirty();
            right.mark_dirty();
            page.copy_from_slice(&halves.left[..]);
            right.copy_from_slice(&halves.right[..]);
            if let Some((sibling, opaque)) = &mut sibling {
                sibling.mark_dirty();
                opaque.prev = right.tag().block;
                opaque.store(&mut sibling.page_mut());
            }
            child.as_mut().map(complete);
            self.log_split(page, &mut right, sibling.map(|found| found.0), child, &halves, item)
        })?;
        Ok(right)
    }

    fn split_point(
        &self,
        page: &Locked,
        opaque: Opaque,
        item: &NewItem,
    ) -> Result<SplitPoint, AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let new = Tuple::new(&item.bytes).map_err(|error| index.damaged(tag, &error))?;
        let full = FullPage { shape: &index.shape, page: page.page(), opaque, new, n: item.n };
        full.split_point().map_err(index.at(tag))?.ok_or_else(|| {
            let name = &index.shape.name;
            let problem = format!("could not find a feasible split point for index \"{name}\"");
            AccessError::Internal(problem)
        })
    }

    /// Locks the page to the right of one that is split.
    fn right_sibling(
        &mut self,
        tag: BlockNumber,
        opaque: &Opaque,
    ) -> Result<Option<(Locked, Opaque)>, AccessError> {
        if opaque.is_rightmost() {
            return Ok(None);
        }
        let sibling = self.index.lock(self.backend, opaque.next)?;
        let found = self.index.opaque(sibling.page(), opaque.next)?;
        if found.prev != tag {
            let name = &self.index.shape.name;
            return Err(AccessError::CorruptIndex(format!(
                "right sibling's left-link doesn't match: block {} links to {} instead of \
                 expected {tag} in index \"{name}\"",
                opaque.next, found.prev
            )));
        }
        Ok(Some((sibling, found)))
    }

    fn log_split(
        &mut self,
        page: &mut Locked,
        right: &mut Locked,
        mut sibling: Option<Locked>,
        mut child: Option<Locked>,
        halves: &Halves,
        item: &NewItem,
    ) -> Result<(), AccessError> {
        let SplitPoint { first_right, new_on_left } = halves.at;
        let on_left = item.n < first_right || new_on_left;
        // The list is on the right half, which is logged whole, unless it is before the split.
        let list = item.posting.as_ref().filter(|_| item.n - 1 < first_right);
        let mut data = Vec::new();
        match list {
            Some(split) => data.extend_from_slice(&split.original),
            None if on_left => data.extend_from_slice(&item.bytes),
            None => {}
        }
        data.extend_from_slice(&halves.high_key);
        data.resize(data.len() - halves.high_key.len() + aligned(halves.high_key.len()), 0);
        let main = BtreeSplit {
            level: Opaque::of(page.page()).expect("the page was just made").level,
            first_right,
            new_item: item.n,
            posting: list.map_or(0, |split| split.index),
        };
        let mut blocks = vec![
            block(0, page, CHANGED, &data),
            block(SPLIT_RIGHT_BLOCK, right, made(), items_of(right)),
        ];
        let changed = |id| move |page| block(id, page, CHANGED, &[]);
        let aio = self.backend.io.aio();
        forebay_aio::planted_bug!(aio, SplitNeighbourNotLogged, sibling = None);
        blocks.extend(sibling.as_ref().map(changed(SPLIT_NEXT_BLOCK)));
        blocks.extend(child.as_ref().map(changed(SPLIT_CHILD_BLOCK)));
        let (info, main) = (if on_left { SPLIT_L } else { SPLIT_R }, main.encode());
        let lsn = self.index.log(self.backend, self.xid, info, &main, &blocks)?;
        set_lsn(lsn, [page, right].into_iter().chain(&mut sibling).chain(&mut child));
        Ok(())
    }
}

/// Builds both halves of a page.
fn halves(
    shape: &IndexShape,
    page: &Locked,
    opaque: Opaque,
    item: &NewItem,
    at: SplitPoint,
    right_block: BlockNumber,
) -> Result<Halves, KeyError> {
    let view = page.page();
    let (first, count) = (opaque.first_data_item(), view.item_count());
    let mut items = Vec::with_capacity(usize::from(count) + 1);
    for n in first..=count + 1 {
        if n == item.n {
            items.push(&item.bytes[..]);
        }
        let list = item.posting.as_ref().filter(|_| n + 1 == item.n);
        match list {
            Some(split) => items.push(&split.list),
            None if n <= count => items.push(nb::item(view, n)?),
            None => {}
        }
    }
    let new_is_left = item.n < at.first_right || at.new_on_left;
    let on_left = usize::from(at.first_right - first) + usize::from(new_is_left);
    let (left_items, right_items) = items.split_at(on_left);
    let high_key = high_key(shape, &opaque, left_items, right_items)?;

    let kept_flags = opaque.flags & !(ROOT | SPLIT_END | HAS_GARBAGE);
    let left_opaque =
        Opaque { next: right_block, flags: kept_flags | INCOMPLETE_SPLIT, cycle_id: 0, ..opaque };
    let right_opaque = Opaque { prev: page.tag().block, flags: kept_flags, cycle_id: 0, ..opaque };
    let half = LeftHalf {
        first_right: at.first_right,
        high_key: &high_key,
        new: new_is_left.then_some((item.n, &item.bytes[..])),
        replaced: item.posting.as_ref().map(|split| (item.n - 1, &split.list[..])),
    };
    let mut left = Box::new(half.build(view)?);
    left_opaque.store(&mut PageMut(&mut left));

    let mut right = Box::new([0; BLOCK_SIZE]);
    let mut half = PageMut(&mut right);
    nb::init_page(&mut half, right_opaque);
    if !opaque.is_rightmost() {
        nb::push_item(&mut half, nb::item(view, HIGH_KEY)?)?;
    }
    let mut rest = right_items;
    if let Some((first, others)) = right_items.split_first().filter(|_| !opaque.is_leaf()) {
        nb::push_item(&mut half, &nb::minus_infinity(Tuple::new(first)?.down_link()))?;
        rest = others;
    }
    rest.iter().try_for_each(|item| nb::push_item(&mut half, item))?;
    Ok(Halves { at, left, right, high_key })
}

/// The high key of the left half.
fn high_key(
    shape: &IndexShape,
    opaque: &Opaque,
    left: &[&[u8]],
    right: &[&[u8]],
) -> Result<Vec<u8>, KeyError> {
    let (Some(last_left), Some(first_right)) = (left.last(), right.first()) else {
        unreachable!("no half of a split is empty");
    };
    if !opaque.is_leaf() {
        return Ok(first_right.to_vec());
    }
    let (last_left, first_right) = (Tuple::new(last_left)?, Tuple::new(first_right)?);
    let keys = shape.keys.len();
    let columns = columns_to_separate(shape, &last_left, &first_right)?;
    let tid = last_left.max_heap_tid().filter(|_| columns > keys);
    Ok(nb::form_pivot(&first_right, &shape.layouts, columns.min(keys), tid)?)
}
