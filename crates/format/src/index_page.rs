//! Items of index pages, of all kinds of indexes. Their numbers are their order, so an item that
//! comes between moves the line pointers behind it.
//!
//! A killed item is one that a search found to point to a dead row. Its line pointer is marked
//! dead, as a hint without WAL, and keeps its tuple.
//!
//! Where tuples come to lie on the page is PostgreSQL's choice in all functions here, so that a
//! page after redo is byte for byte what it was before.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::max_align,
    ids::{BLOCK_SIZE, INVALID_XID, OffsetNumber},
    index_tuple::{IndexTuple, IndexTupleError},
    lsn::Lsn,
    page::{HEADER_SIZE, ITEM_ID_SIZE, ItemId, ItemState, Page, PageBytes, PageMut},
};

/// Most items that an index page can have. BRIN, whose items may be smaller, is an exception.
pub const MAX_ITEMS: usize = (BLOCK_SIZE - HEADER_SIZE) / (max_align(8 + 1) + ITEM_ID_SIZE);

const _: () = assert!(MAX_ITEMS == 408);

/// Why an index page is not valid, or can't be changed as told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexPageError {
    /// The bounds in the page's header contradict each other.
    #[error("page header is damaged: lower {lower}, upper {upper}, special {special}")]
    Header {
        /// End of the line pointers.
        lower: usize,
        /// Start of the items.
        upper: usize,
        /// End of the items.
        special: usize,
    },
    /// The page is not one of this kind.
    #[error("not a {0}")]
    Kind(&'static str),
    /// There is no item with this number, or it is not on the page.
    #[error("item {item} does not exist, or is damaged")]
    Item {
        /// The item.
        item: OffsetNumber,
    },
    /// The page has no space for an item, or no place with this number.
    #[error("no space for {len} bytes as item {item}")]
    NoSpace {
        /// Where it was to go.
        item: OffsetNumber,
        /// Its length.
        len: usize,
    },
    /// Something on the page, or in the change, is impossible.
    #[error("{0}")]
    Damaged(&'static str),
    /// A tuple's header is damaged.
    #[error(transparent)]
    Tuple(#[from] IndexTupleError),
}

/// The bytes of an item, which may be killed.
#[inline]
pub fn item<'a>(page: Page<'a>, n: OffsetNumber) -> Result<&'a [u8], IndexPageError> {
    let id = stored(page, n)?;
    let start = usize::from(id.offset);
    page.bytes(start..start + usize::from(id.len)).ok_or(IndexPageError::Item { item: n })
}

/// Whether an item is killed.
#[inline]
pub fn is_killed(page: Page<'_>, n: OffsetNumber) -> bool {
    page.item_id(n).is_some_and(|id| id.state == ItemState::Dead)
}

/// Marks an item as killed.
pub fn kill(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), IndexPageError> {
    let id = stored(page.page(), n)?;
    page.set_item_id(n, ItemId { state: ItemState::Dead, ..id });
    Ok(())
}

/// A line pointer with a tuple that lies among the page's items.
#[inline]
fn stored(page: Page<'_>, n: OffsetNumber) -> Result<ItemId, IndexPageError> {
    let id = page.item_id(n).filter(|id| {
        let start = usize::from(id.offset);
        let end = start + max_align(usize::from(id.len));
        let has_tuple = matches!(id.state, ItemState::Normal | ItemState::Dead) && id.len > 0;
        has_tuple && start % 8 == 0 && start >= page.upper() && end <= page.special()
    });
    id.ok_or(IndexPageError::Item { item: n })
}

/// The bounds of a page's parts, checked.
pub(crate) fn bounds(page: Page<'_>) -> Result<(usize, usize), IndexPageError> {
    let (lower, upper, special) = (page.lower(), page.upper(), page.special());
    if lower < HEADER_SIZE || !page.header_is_sane() || upper % 8 != 0 {
        return Err(IndexPageError::Header { lower, upper, special });
    }
    Ok((lower, upper))
}

/// Inserts an item before the one that has this number now, or as the last one.
pub fn insert_item(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    bytes: &[u8],
) -> Result<(), IndexPageError> {
    let (lower, upper) = bounds(page.page())?;
    let no_space = IndexPageError::NoSpace { item: n, len: bytes.len() };
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
pub fn push_item(page: &mut PageMut<'_>, bytes: &[u8]) -> Result<(), IndexPageError> {
    let n = page.page().item_count() + 1;
    insert_item(page, n, bytes)
}

/// Adds index tuples that lie one behind the other as last items, each as long as its header says.
/// Returns how many there are.
pub fn push_tuples(page: &mut PageMut<'_>, mut tuples: &[u8]) -> Result<usize, IndexPageError> {
    let mut count = 0;
    while !tuples.is_empty() {
        let tuple = IndexTuple::new(tuples)?;
        push_item(page, tuple.bytes())?;
        tuples = tuples.get(tuple.size()..).unwrap_or_default();
        count += 1;
    }
    Ok(count)
}

/// Adds an item with a number that is unused, or the next behind the last one. Other items keep
/// their numbers.
pub fn put_item(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    bytes: &[u8],
) -> Result<(), IndexPageError> {
    let (lower, upper) = bounds(page.page())?;
    let is_last = n == page.page().item_count() + 1;
    let is_free = page.page().item_id(n).is_some_and(|id| id.is_unused() && id.len == 0);
    let new_lower = if is_last { lower + ITEM_ID_SIZE } else { lower };
    let new_upper = upper.checked_sub(max_align(bytes.len())).filter(|&upper| new_lower <= upper);
    let no_space = IndexPageError::NoSpace { item: n, len: bytes.len() };
    let new_upper = new_upper.filter(|_| is_last || is_free).ok_or(no_space)?;
    let room = page.0.get_mut(new_upper..new_upper + bytes.len()).expect("the hole was checked");
    room.copy_from_slice(bytes);
    page.set_lower(new_lower as u16);
    page.set_upper(new_upper as u16);
    let (offset, len) = (new_upper as u16, bytes.len() as u16);
    page.set_item_id(n, ItemId { offset, state: ItemState::Normal, len });
    Ok(())
}

/// Removes an item and leaves its number unused, unless it is the last one. Other items keep their
/// numbers.
pub fn vacate_item(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), IndexPageError> {
    let (lower, _) = bounds(page.page())?;
    let id = stored(page.page(), n)?;
    if n == page.page().item_count() {
        page.set_lower((lower - ITEM_ID_SIZE) as u16);
    } else {
        page.set_item_id(n, ItemId::UNUSED);
    }
    let start = usize::from(id.offset);
    move_items(page, start, start, start + max_align(usize::from(id.len)));
    Ok(())
}

/// Replaces an item by one of another size. Line pointers keep their state.
pub fn replace_item(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    bytes: &[u8],
) -> Result<(), IndexPageError> {
    let (lower, upper) = bounds(page.page())?;
    let id = stored(page.page(), n)?;
    let (old, new) = (max_align(usize::from(id.len)), max_align(bytes.len()));
    if bytes.is_empty() || new > old + (upper - lower) {
        return Err(IndexPageError::NoSpace { item: n, len: bytes.len() });
    }
    let start = usize::from(id.offset) + old - new;
    move_items(page, usize::from(id.offset), usize::from(id.offset), start);
    let room = page.0.get_mut(start..start + bytes.len()).expect("bounds of items");
    room.copy_from_slice(bytes);
    page.set_item_id(n, ItemId { offset: start as u16, len: bytes.len() as u16, ..id });
    Ok(())
}

/// Removes an item.
pub fn delete_item(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), IndexPageError> {
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
pub fn delete_items(
    page: &mut PageMut<'_>,
    numbers: &[OffsetNumber],
) -> Result<(), IndexPageError> {
    bounds(page.page())?;
    if let Some(pair) = numbers.array_windows::<2>().find(|[a, b]| a >= b) {
        return Err(IndexPageError::Item { item: pair[1] });
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
pub fn empty_copy(page: Page<'_>) -> Result<PageBytes, IndexPageError> {
    bounds(page)?;
    let special = page.special_bytes();
    let mut copy = [0; BLOCK_SIZE];
    let mut new = PageMut(&mut copy);
    new.init(special.len());
    let end = new.page().special();
    new.0.get_mut(end..).expect("as long as the other's").copy_from_slice(special);
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

/// Sets to zero what may differ between pages with the same contents: LSN, checksum, the header's
/// hints, and the hole. The page's header must be good.
pub(crate) fn mask_hints(page: &mut PageMut<'_>) {
    page.set_lsn(Lsn(0));
    page.set_checksum(0);
    page.set_prune_xid(INVALID_XID);
    page.set_flags(0);
    let hole = page.page().lower()..page.page().upper();
    page.0.get_mut(hole).unwrap_or_default().fill(0);
}

/// Sets the state of all line pointers to unused: a search may have killed an item.
pub(crate) fn mask_kills(page: &mut PageMut<'_>) {
    for n in 1..=page.page().item_count() {
        let id = page.page().item_id(n).expect("a line pointer of the page");
        page.set_item_id(n, ItemId { state: ItemState::Unused, ..id });
    }
}

/// Sets all to zero behind the page's header, and its bounds: the contents have no meaning.
pub(crate) fn mask_contents(page: &mut PageMut<'_>) {
    page.0.get_mut(HEADER_SIZE..).unwrap_or_default().fill(0);
    page.set_lower(0);
    page.set_upper(0);
}
