//! Items of an index page. Their numbers are the order of their keys, so an item that comes between
//! moves the line pointers behind it.
//!
//! A killed item is one that a search found to point to a dead row. Its line pointer is marked
//! dead, as a hint without WAL, and keeps its tuple.
//!
//! Where tuples come to lie on the page is PostgreSQL's choice in all functions here, so that a
//! page after redo is byte for byte what it was before.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::{MAX_ITEMS, NbtreeError, OPAQUE_SIZE};
use crate::{
    bytes::max_align,
    ids::{BLOCK_SIZE, OffsetNumber},
    page::{HEADER_SIZE, ITEM_ID_SIZE, ItemId, ItemState, Page, PageBytes, PageMut},
};

/// The bytes of an item, which may be killed.
#[inline]
pub fn item<'a>(page: Page<'a>, n: OffsetNumber) -> Result<&'a [u8], NbtreeError> {
    let id = stored(page, n)?;
    let start = usize::from(id.offset);
    page.bytes(start..start + usize::from(id.len)).ok_or(NbtreeError::Item { item: n })
}

/// Whether an item is killed.
#[inline]
pub fn is_killed(page: Page<'_>, n: OffsetNumber) -> bool {
    page.item_id(n).is_some_and(|id| id.state == ItemState::Dead)
}

/// Marks an item as killed.
pub fn kill(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), NbtreeError> {
    let id = stored(page.page(), n)?;
    page.set_item_id(n, ItemId { state: ItemState::Dead, ..id });
    Ok(())
}

/// A line pointer with a tuple that lies among the page's items.
#[inline]
fn stored(page: Page<'_>, n: OffsetNumber) -> Result<ItemId, NbtreeError> {
    let id = page.item_id(n).filter(|id| {
        let start = usize::from(id.offset);
        let end = start + max_align(usize::from(id.len));
        let has_tuple = matches!(id.state, ItemState::Normal | ItemState::Dead) && id.len > 0;
        has_tuple && start % 8 == 0 && start >= page.upper() && end <= page.special()
    });
    id.ok_or(NbtreeError::Item { item: n })
}

/// The bounds of a page's parts, checked.
fn bounds(page: Page<'_>) -> Result<(usize, usize), NbtreeError> {
    let (lower, upper, special) = (page.lower(), page.upper(), page.special());
    if lower < HEADER_SIZE || !page.header_is_sane() || upper % 8 != 0 {
        return Err(NbtreeError::Header { lower, upper, special });
    }
    Ok((lower, upper))
}

/// Inserts an item before the one that has this number now, or as the last one.
pub fn insert_item(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    bytes: &[u8],
) -> Result<(), NbtreeError> {
    let (lower, upper) = bounds(page.page())?;
    let no_space = NbtreeError::NoSpace { item: n, len: bytes.len() };
    let count = page.page().item_count();
    let new_upper = upper.checked_sub(max_align(bytes.len())).ok_or(no_space.clone())?;
    let fits = lower + ITEM_ID_SIZE <= new_upper && usize::from(count) < MAX_ITEMS;
    if n == 0 || n > count + 1 || bytes.is_empty() || !fits {
        return Err(no_space);
    }
    let at = HEADER_SIZE + ITEM_ID_SIZE * (usize::from(n) - 1);
    page.0.copy_within(at..lower, at + ITEM_ID_SIZE);
    page.set_lower((lower + ITEM_ID_SIZE) as u16);
    page.set_upper(new_upper as u16);
    let room = page.0.get_mut(new_upper..new_upper + bytes.len()).expect("the hole was checked");
    room.copy_from_slice(bytes);
    let (offset, len) = (new_upper as u16, bytes.len() as u16);
    page.set_item_id(n, ItemId { offset, state: ItemState::Normal, len });
    Ok(())
}

/// Adds an item behind the last one.
pub fn push_item(page: &mut PageMut<'_>, bytes: &[u8]) -> Result<(), NbtreeError> {
    let n = page.page().item_count() + 1;
    insert_item(page, n, bytes)
}

/// Replaces an item by one of another size. Line pointers keep their state.
pub fn replace_item(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    bytes: &[u8],
) -> Result<(), NbtreeError> {
    let (lower, upper) = bounds(page.page())?;
    let id = stored(page.page(), n)?;
    let (old, new) = (max_align(usize::from(id.len)), max_align(bytes.len()));
    if bytes.is_empty() || new > old + (upper - lower) {
        return Err(NbtreeError::NoSpace { item: n, len: bytes.len() });
    }
    let start = usize::from(id.offset) + old - new;
    move_items(page, usize::from(id.offset), usize::from(id.offset), start);
    let room = page.0.get_mut(start..start + bytes.len()).expect("bounds of items");
    room.copy_from_slice(bytes);
    page.set_item_id(n, ItemId { offset: start as u16, len: bytes.len() as u16, ..id });
    Ok(())
}

/// Removes an item.
pub fn delete_item(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), NbtreeError> {
    let (lower, _) = bounds(page.page())?;
    let id = stored(page.page(), n)?;
    let start = usize::from(id.offset);
    let at = HEADER_SIZE + ITEM_ID_SIZE * (usize::from(n) - 1);
    page.0.copy_within(at + ITEM_ID_SIZE..lower, at);
    page.set_lower((lower - ITEM_ID_SIZE) as u16);
    move_items(page, start, start, start + max_align(usize::from(id.len)));
    Ok(())
}

/// Moves all items that begin at `end` at most, so that the bytes before `end` end at `new_end`.
/// Where line pointers point to follows, the start of the items too.
fn move_items(page: &mut PageMut<'_>, last: usize, end: usize, new_end: usize) {
    if end == new_end {
        return;
    }
    let upper = page.page().upper();
    let moved = |at: usize| (at + new_end).wrapping_sub(end);
    page.0.copy_within(upper..end, moved(upper));
    page.set_upper(moved(upper) as u16);
    for n in 1..=page.page().item_count() {
        let id = page.page().item_id(n).expect("a line pointer of the page");
        let offset = usize::from(id.offset);
        if id.len > 0 && (upper..=last).contains(&offset) {
            page.set_item_id(n, ItemId { offset: moved(offset) as u16, ..id });
        }
    }
}

/// Removes items, whose numbers must ascend. On an error the page is as before.
pub fn delete_items(page: &mut PageMut<'_>, numbers: &[OffsetNumber]) -> Result<(), NbtreeError> {
    bounds(page.page())?;
    if let Some(pair) = numbers.array_windows::<2>().find(|[a, b]| a >= b) {
        return Err(NbtreeError::Item { item: pair[1] });
    }
    let view = page.page();
    numbers.iter().try_for_each(|&n| stored(view, n).map(drop))?;
    if numbers.len() <= 2 {
        // The others keep their order on the page.
        return numbers.iter().rev().try_for_each(|&n| delete_item(page, n));
    }
    let mut copy = empty_copy(view)?;
    let mut kept = PageMut(&mut copy);
    let mut doomed = numbers.iter().copied().peekable();
    for n in 1..=view.item_count() {
        if doomed.next_if_eq(&n).is_none() {
            push_item(&mut kept, item(view, n)?)?;
            if is_killed(view, n) {
                let last = kept.page().item_count();
                kill(&mut kept, last)?;
            }
        }
    }
    take_items(page, kept.page());
    Ok(())
}

/// An empty page with the header and the special space of another one, to build its new contents.
pub fn empty_copy(page: Page<'_>) -> Result<PageBytes, NbtreeError> {
    bounds(page)?;
    let special = page.special_bytes();
    let mut copy = [0; BLOCK_SIZE];
    let mut new = PageMut(&mut copy);
    new.init(special.len().max(OPAQUE_SIZE));
    let end = new.page().special();
    let space = new.0.get_mut(end..).filter(|space| space.len() == special.len());
    space.ok_or(NbtreeError::SpecialSize { len: special.len() })?.copy_from_slice(special);
    new.set_lsn(page.lsn());
    new.set_flags(page.flags());
    new.set_prune_xid(page.prune_xid());
    Ok(copy)
}

/// Takes over the line pointers and items of another page.
fn take_items(page: &mut PageMut<'_>, from: Page<'_>) {
    for range in [HEADER_SIZE..from.lower(), from.upper()..from.special()] {
        let (to, bytes) = (page.0.get_mut(range.clone()), from.bytes(range));
        to.zip(bytes).map(|(to, bytes)| to.copy_from_slice(bytes)).expect("parts of the page");
    }
    page.set_lower(from.lower() as u16);
    page.set_upper(from.upper() as u16);
}
