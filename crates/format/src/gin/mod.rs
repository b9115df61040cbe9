//! Pages of GIN indexes, as far as redo changes them.
//!
//! ```text
//!   page header | line pointers -> |  hole  | <- index tuples    | Opaque   entries, pending list
//!   page header | bound, 8 bytes | posting lists ->  |  hole     | Opaque   leaf of a posting tree
//!   page header | bound, 8 bytes | posting items ->  |  hole     | Opaque   page above such leaves
//!   page header | meta, 56 bytes |  hole                         | Opaque   block 0
//!
//!   Opaque:                           posting item:
//!   0       4       6       8         0       4     10
//!   +-------+-------+-------+         +-------+-----+
//!   | right | count | flags |         | child | key |
//!   +-------+-------+-------+         +-------+-----+
//! ```
//!
//! - right: the right sibling
//! - count: posting items; in the pending list, rows of the table that end on the page
//! - child: its high half first; key: the greatest row that the child can have
//!
//! - `lists`: compressed lists of rows, and how a leaf's lists change

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

mod lists;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;

pub use lists::recompress;

use crate::{
    bytes::{put, u16_field, u32_field},
    ids::{BLOCK_SIZE, BlockNumber, INVALID_BLOCK, ItemPointer, OffsetNumber, Xid},
    index_page::{
        IndexPageError, bounds, delete_item, insert_item, item, mask_contents, mask_hints,
    },
    index_tuple::{self, IndexTuple},
    page::{HEADER_SIZE, Page, PageBytes, PageMut},
};

/// Bytes of the special space.
pub const OPAQUE_SIZE: usize = 8;
/// Bytes of the meta page's contents.
pub const META_SIZE: usize = 56;

/// Flag: a page of a posting tree.
pub const DATA: u16 = 1;
/// Flag: a leaf.
pub const LEAF: u16 = 1 << 1;
/// Flag: deleted.
pub const DELETED: u16 = 1 << 2;
/// Flag: the meta page.
pub const META: u16 = 1 << 3;
/// Flag: a page of the pending list.
pub const LIST: u16 = 1 << 4;
/// Flag: no row goes on from this page of the pending list to the next.
pub const LIST_FULL_ROW: u16 = 1 << 5;
/// Flag: the parent does not lead to the right sibling yet.
pub const INCOMPLETE_SPLIT: u16 = 1 << 6;
/// Flag: a leaf of a posting tree with compressed lists, as all since PostgreSQL 9.4.
pub const COMPRESSED: u16 = 1 << 7;

const OPAQUE_AT: usize = BLOCK_SIZE - OPAQUE_SIZE;
/// Where a posting tree's page has its lists or items.
const DATA_AT: usize = HEADER_SIZE + 8;
const DATA_ROOM: usize = OPAQUE_AT - DATA_AT;
/// Bytes of an item of a page above the leaves of a posting tree.
pub const POSTING_ITEM_SIZE: usize = 4 + ItemPointer::SIZE;

const _: () = assert!(POSTING_ITEM_SIZE == 10 && DATA_ROOM == 8152);

/// The special space of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque {
    /// The right sibling.
    pub right: BlockNumber,
    /// See the module's description.
    pub count: u16,
    /// Flags.
    pub flags: u16,
}

impl Opaque {
    /// That of a new page with these flags.
    pub const fn new(flags: u16) -> Self {
        Self { right: INVALID_BLOCK, count: 0, flags }
    }

    /// That of a page, which must be a page of a GIN index. There is no page id: unknown flags tell
    /// pages of other indexes.
    pub fn of(page: Page<'_>) -> Result<Self, IndexPageError> {
        bounds(page)?;
        let bytes = page.special_bytes();
        if bytes.len() != OPAQUE_SIZE || u16_field(bytes, 6) > 0xff {
            return Err(IndexPageError::Kind("page of a GIN index"));
        }
        Ok(Self {
            right: u32_field(bytes, 0),
            count: u16_field(bytes, 4),
            flags: u16_field(bytes, 6),
        })
    }

    /// Stores it in a page, whose special space must have this size.
    pub fn store(&self, page: &mut PageMut<'_>) {
        put(page.0, OPAQUE_AT, self.right.to_le_bytes());
        put(page.0, OPAQUE_AT + 4, self.count.to_le_bytes());
        put(page.0, OPAQUE_AT + 6, self.flags.to_le_bytes());
    }

    /// Whether all of some flags are set.
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// That of a page of entries; `leaf` tells whether it has to be a leaf.
    fn of_entries(page: Page<'_>, leaf: bool) -> Result<Self, IndexPageError> {
        let opaque = Self::of(page)?;
        match !opaque.has(DATA) && opaque.has(LEAF) == leaf {
            true => Ok(opaque),
            false => Err(IndexPageError::Kind("page of entries of a GIN index, of this level")),
        }
    }

    /// The same for a posting tree.
    fn of_data(page: Page<'_>, leaf: bool) -> Result<Self, IndexPageError> {
        let opaque = Self::of(page)?;
        match opaque.has(DATA) && opaque.has(LEAF) == leaf {
            true => Ok(opaque),
            false => Err(IndexPageError::Kind("page of a posting tree, of this level")),
        }
    }
}

/// Changes the special space of a page.
pub fn change_opaque(
    page: &mut PageMut<'_>,
    change: impl FnOnce(&mut Opaque),
) -> Result<(), IndexPageError> {
    let mut opaque = Opaque::of(page.page())?;
    change(&mut opaque);
    opaque.store(page);
    Ok(())
}

/// Makes an empty page with this special space.
pub fn init_page(page: &mut PageMut<'_>, opaque: Opaque) {
    page.init(OPAQUE_SIZE);
    opaque.store(page);
}

/// Makes the meta page with these contents, as stored.
pub fn init_meta(page: &mut PageMut<'_>, contents: &[u8; META_SIZE]) {
    init_page(page, Opaque::new(META));
    put(page.0, HEADER_SIZE, *contents);
    page.set_lower((HEADER_SIZE + META_SIZE) as u16);
}

/// Makes a posting tree of one leaf, with these lists.
pub fn init_posting_tree(page: &mut PageMut<'_>, lists: &[u8]) -> Result<(), IndexPageError> {
    init_page(page, Opaque::new(DATA | LEAF | COMPRESSED));
    set_data(page, lists)
}

/// Sets the lists or items of a posting tree's page.
fn set_data(page: &mut PageMut<'_>, data: &[u8]) -> Result<(), IndexPageError> {
    let room = page.0.get_mut(DATA_AT..OPAQUE_AT).and_then(|room| room.get_mut(..data.len()));
    let room = room.ok_or(IndexPageError::Damaged("posting lists do not fit a page"))?;
    room.copy_from_slice(data);
    page.set_lower((DATA_AT + data.len()) as u16);
    Ok(())
}

/// Inserts an entry's tuple before item `n`, or in its place. Above the leaves that item leads to
/// `right_child` from now on, the new one to its left sibling.
pub fn insert_entry(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    tuple: &[u8],
    replaces: bool,
    right_child: Option<BlockNumber>,
) -> Result<(), IndexPageError> {
    Opaque::of_entries(page.page(), right_child.is_none())?;
    let tuple = IndexTuple::new(tuple)?;
    if let Some(right) = right_child {
        IndexTuple::new(item(page.page(), n)?)?;
        let item = page.item_mut(n).ok_or(IndexPageError::Item { item: n })?;
        index_tuple::set_tid(item, ItemPointer::new(right, 0));
    }
    if replaces {
        delete_item(page, n)?;
    }
    insert_item(page, n, tuple.bytes())
}

/// Inserts an item above the leaves of a posting tree before item `n`, which leads to `right_child`
/// from now on.
pub fn insert_posting_item(
    page: &mut PageMut<'_>,
    n: OffsetNumber,
    new: [u8; POSTING_ITEM_SIZE],
    right_child: BlockNumber,
) -> Result<(), IndexPageError> {
    let (opaque, mut items) = posting_items(page.page())?;
    let at = usize::from(n).checked_sub(1).filter(|&at| at < items.len());
    let at = at.ok_or(IndexPageError::Item { item: n })?;
    if let Some(next) = items.get_mut(at) {
        put(next, 0, ((right_child >> 16) as u16).to_le_bytes());
        put(next, 2, (right_child as u16).to_le_bytes());
    }
    items.insert(at, new);
    set_posting_items(page, opaque, &items)
}

/// Removes an item above the leaves of a posting tree.
pub fn delete_posting_item(page: &mut PageMut<'_>, n: OffsetNumber) -> Result<(), IndexPageError> {
    let (opaque, mut items) = posting_items(page.page())?;
    let at = usize::from(n).checked_sub(1).filter(|&at| at < items.len());
    items.remove(at.ok_or(IndexPageError::Item { item: n })?);
    set_posting_items(page, opaque, &items)
}

type PostingItems = Vec<[u8; POSTING_ITEM_SIZE]>;

fn posting_items(page: Page<'_>) -> Result<(Opaque, PostingItems), IndexPageError> {
    let opaque = Opaque::of_data(page, false)?;
    let data = page.bytes(DATA_AT..OPAQUE_AT).expect("a part of the page");
    let (items, _) = data.as_chunks();
    let items = items.get(..usize::from(opaque.count));
    let items = items.ok_or(IndexPageError::Damaged("posting items do not fit a page"))?;
    Ok((opaque, items.to_vec()))
}

fn set_posting_items(
    page: &mut PageMut<'_>,
    opaque: Opaque,
    items: &PostingItems,
) -> Result<(), IndexPageError> {
    set_data(page, items.as_flattened())?;
    Opaque { count: items.len() as u16, ..opaque }.store(page);
    Ok(())
}

/// Marks a page of a posting tree as deleted by a transaction, behind which it may be reused.
pub fn set_deleted(page: &mut PageMut<'_>, xid: Xid) -> Result<(), IndexPageError> {
    check_data(page.page())?;
    change_opaque(page, |opaque| opaque.flags |= DELETED)?;
    page.set_prune_xid(xid);
    Ok(())
}

/// Sets the right sibling of a page of a posting tree.
pub fn set_data_right(page: &mut PageMut<'_>, right: BlockNumber) -> Result<(), IndexPageError> {
    check_data(page.page())?;
    change_opaque(page, |opaque| opaque.right = right)
}

fn check_data(page: Page<'_>) -> Result<(), IndexPageError> {
    match Opaque::of(page)?.has(DATA) {
        true => Ok(()),
        false => Err(IndexPageError::Kind("page of a posting tree")),
    }
}

/// Sets to zero what redo or hints may have left different, as PostgreSQL does where it compares
/// pages. A page that is not one of a GIN index stays as it is.
pub fn mask(bytes: &mut PageBytes) {
    let mut page = PageMut::new(bytes);
    let Ok(opaque) = Opaque::of(page.page()) else { return };
    let (lower, upper) = (page.page().lower(), page.page().upper());
    if lower <= HEADER_SIZE {
        // Before 9.4 a posting tree's page did not tell its end.
        page.set_lower(upper as u16);
    }
    mask_hints(&mut page);
    page.set_lower(lower as u16);
    if opaque.has(DELETED) {
        mask_contents(&mut page);
    }
}
