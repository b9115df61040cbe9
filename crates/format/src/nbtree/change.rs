//! Changes of whole pages, as they are made first and repeated by redo.
//!
//! Functions that return a page leave the old one as it is. What they build has the LSN and special
//! space of the old page; the caller changes flags and siblings.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{
    HAS_GARBAGE, HIGH_KEY, MAX_ITEM_SIZE, NbtreeError, Opaque, Tuple, delete_item, delete_items,
    empty_copy, form_posting, half_dead_high_key, init_page, insert_item, item, push_item,
    replace_item, set_down_link, split_posting, update_posting,
};
use crate::{
    bytes::max_align,
    ids::{BlockNumber, OffsetNumber},
    index_page::IndexPageError,
    index_tuple::IndexTuple,
    page::{Page, PageBytes, PageMut},
};

/// Inserts a tuple whose heap TID belongs into the posting list before item `n`, before the heap
/// TID at `index`. On an error the page is as before.
pub fn insert_and_split_posting(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    new: &[u8],
    index: usize,
) -> Result<(), NbtreeError> {
    let before = n.wrapping_sub(1);
    let posting = Tuple::new(item(page.page(), before)?)?;
    let (list, new) = split_posting(&posting, &Tuple::new(new)?, index)?;
    insert_item(page, n, &new)?;
    Ok(replace_item(page, before, &list)?)
}

/// The left half of a page that is split.
#[derive(Debug, Clone, Copy)]
pub struct LeftHalf<'a> {
    /// The first item of the original page that goes to the right half.
    pub first_right: OffsetNumber,
    /// The new high key.
    pub high_key: &'a [u8],
    /// A new tuple, and the item of the original page before which it goes.
    pub new: Option<(OffsetNumber, &'a [u8])>,
    /// A tuple that takes an item's place.
    pub replaced: Option<(OffsetNumber, &'a [u8])>,
}

impl LeftHalf<'_> {
    /// Builds it from the original page.
    pub fn build(&self, page: Page<'_>) -> Result<PageBytes, NbtreeError> {
        let first = Opaque::of(page)?.first_data_item();
        let mut bytes = empty_copy(page)?;
        let mut left = PageMut::new(&mut bytes);
        push_item(&mut left, self.high_key)?;
        let new_at = |n| self.new.filter(|&(before, _)| before == n);
        for n in first..self.first_right {
            if let Some((_, new)) = new_at(n) {
                push_item(&mut left, new)?;
            }
            match self.replaced.filter(|&(replaced, _)| replaced == n) {
                Some((_, tuple)) => push_item(&mut left, tuple)?,
                None => push_item(&mut left, item(page, n)?)?,
            }
        }
        match new_at(self.first_right) {
            Some((_, new)) => push_item(&mut left, new)?,
            None => assert_new_is_placed(self.new, first, self.first_right)?,
        }
        Ok(bytes)
    }
}

/// An error if a new tuple goes before none of the items.
fn assert_new_is_placed(
    new: Option<(OffsetNumber, &[u8])>,
    first: OffsetNumber,
    end: OffsetNumber,
) -> Result<(), NbtreeError> {
    match new {
        Some((item, tuple)) if !(first..end).contains(&item) => {
            Err(IndexPageError::NoSpace { item, len: tuple.len() }.into())
        }
        _ => Ok(()),
    }
}

/// Fills an empty page with tuples that lie one behind the other, the last item first. That is how
/// records store the right half of a split page, and a root: the bytes between the page's `upper`
/// and `special`, if its items were added in order.
pub fn restore_items(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), NbtreeError> {
    let mut tuples = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let size = max_align(IndexTuple::new(rest)?.size()).min(rest.len());
        let (tuple, behind) = rest.split_at(size);
        tuples.push(tuple);
        rest = behind;
    }
    Ok(tuples.into_iter().rev().try_for_each(|tuple| push_item(page, tuple))?)
}

/// Puts consecutive items in posting lists: for each list the first item, and how many. Ascending.
pub fn dedup(
    page: Page<'_>,
    intervals: impl IntoIterator<Item = (OffsetNumber, u16)>,
) -> Result<PageBytes, NbtreeError> {
    let opaque = Opaque::of(page)?;
    let first = opaque.first_data_item();
    let mut bytes = empty_copy(page)?;
    let mut new = PageMut::new(&mut bytes);
    let mut n = HIGH_KEY;
    for (base, items) in intervals {
        let end = u32::from(base) + u32::from(items);
        let bad = base < n.max(first) || items < 2 || end > u32::from(page.item_count()) + 1;
        if bad {
            return Err(IndexPageError::Item { item: base }.into());
        }
        (n..base).try_for_each(|n| push_item(&mut new, item(page, n)?))?;
        n = base + items;
        let mut tids = Vec::new();
        for merged in base..n {
            tids.extend(Tuple::new(item(page, merged)?)?.heap_tids());
        }
        let list = form_posting(&Tuple::new(item(page, base)?)?, &tids)?;
        if list.len() > MAX_ITEM_SIZE {
            return Err(IndexPageError::NoSpace { item: base, len: list.len() }.into());
        }
        push_item(&mut new, &list)?;
    }
    (n..=page.item_count()).try_for_each(|n| push_item(&mut new, item(page, n)?))?;
    Opaque { flags: opaque.flags & !HAS_GARBAGE, ..opaque }.store(&mut new);
    Ok(bytes)
}

/// Removes items of a leaf, whose numbers must ascend, and rows from posting lists: for each item
/// the indexes of its heap TIDs that go. After an error the page may be half changed.
pub fn delete_rows<'u>(
    page: &mut PageMut<'_>,
    deleted: &[OffsetNumber],
    updated: impl IntoIterator<Item = (OffsetNumber, &'u [u16])>,
) -> Result<(), NbtreeError> {
    let opaque = Opaque::of(page.page())?;
    for (n, gone) in updated {
        let list = update_posting(&Tuple::new(item(page.page(), n)?)?, gone)?;
        replace_item(page, n, &list)?;
    }
    delete_items(page, deleted)?;
    Opaque { flags: opaque.flags & !HAS_GARBAGE, ..opaque }.store(page);
    Ok(())
}

/// Removes the way to a child from its parent: item `n` then leads where the next one led, which
/// is removed. So the keys of the child's right sibling begin where the child's began.
pub fn remove_child(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), NbtreeError> {
    let next = n.checked_add(1).ok_or(IndexPageError::Item { item: n })?;
    let right = IndexTuple::new(item(page.page(), next)?)?.tid().block;
    IndexTuple::new(item(page.page(), n)?)?;
    set_down_link(page.item_mut(n).ok_or(IndexPageError::Item { item: n })?, right);
    Ok(delete_item(page, next)?)
}

/// Makes a half-dead leaf. `top_parent` is the highest page of the branch that is being deleted, or
/// none if that is the leaf itself.
pub fn init_half_dead(
    page: &mut PageMut<'_>,
    left: BlockNumber,
    right: BlockNumber,
    top_parent: Option<BlockNumber>,
) {
    let flags = super::HALF_DEAD | super::LEAF;
    init_page(page, Opaque { prev: left, next: right, flags, ..Opaque::default() });
    push_item(page, &half_dead_high_key(top_parent)).expect("an empty page has space");
}
