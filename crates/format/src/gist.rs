//! Pages of GiST indexes, as far as redo changes them.
//!
//! ```text
//!   page header | line pointers -> |  hole  | <- index tuples | Opaque
//!   page header | deletion xid u64 |  hole                    | Opaque    deleted page
//!
//!   Opaque:
//!   0     8       12      14        16
//!   +-----+-------+-------+---------+
//!   | nsn | right | flags | page id |
//!   +-----+-------+-------+---------+
//! ```
//!
//! - nsn: a search that came from a parent with an older LSN visits the right sibling too. Stored
//!   as a page's LSN is, the high half first.
//! - right: the right sibling

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{field, put, u16_field, u32_field},
    ids::{BLOCK_SIZE, BlockNumber, FullXid, INVALID_BLOCK},
    index_page::{IndexPageError, bounds, mask_hints, mask_kills},
    lsn::Lsn,
    page::{HEADER_SIZE, Page, PageBytes, PageMut},
};

/// The block of the root.
pub const ROOT_BLOCK: BlockNumber = 0;
/// Bytes of the special space.
pub const OPAQUE_SIZE: usize = 16;
/// The page id of all pages.
pub const PAGE_ID: u16 = 0xff81;

/// Flag: a leaf.
pub const LEAF: u16 = 1;
/// Flag: deleted.
pub const DELETED: u16 = 1 << 1;
/// Flag: tuples were deleted from the page.
pub const TUPLES_DELETED: u16 = 1 << 2;
/// Flag: the parent does not lead to the right sibling yet.
pub const FOLLOW_RIGHT: u16 = 1 << 3;
/// Flag: some items are marked dead (a hint).
pub const HAS_GARBAGE: u16 = 1 << 4;

const OPAQUE_AT: usize = BLOCK_SIZE - OPAQUE_SIZE;
const DELETED_SIZE: usize = 8;

/// The special space of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opaque {
    /// When the page was split last.
    pub nsn: Lsn,
    /// The right sibling.
    pub right: BlockNumber,
    /// Flags.
    pub flags: u16,
}

impl Opaque {
    /// That of a new page with these flags.
    pub const fn new(flags: u16) -> Self {
        Self { nsn: Lsn(0), right: INVALID_BLOCK, flags }
    }

    /// That of a page, which must be a page of a GiST index.
    pub fn of(page: Page<'_>) -> Result<Self, IndexPageError> {
        bounds(page)?;
        let bytes = page.special_bytes();
        if bytes.len() != OPAQUE_SIZE || u16_field(bytes, 14) != PAGE_ID {
            return Err(IndexPageError::Kind("page of a GiST index"));
        }
        Ok(Self {
            nsn: Lsn(u64::from_le_bytes(field(bytes, 0)).rotate_left(32)),
            right: u32_field(bytes, 8),
            flags: u16_field(bytes, 12),
        })
    }

    /// Stores it in a page, whose special space must have this size.
    pub fn store(&self, page: &mut PageMut<'_>) {
        put(page.0, OPAQUE_AT, self.nsn.0.rotate_left(32).to_le_bytes());
        put(page.0, OPAQUE_AT + 8, self.right.to_le_bytes());
        put(page.0, OPAQUE_AT + 12, self.flags.to_le_bytes());
        put(page.0, OPAQUE_AT + 14, PAGE_ID.to_le_bytes());
    }

    /// Whether it is a leaf.
    pub const fn is_leaf(&self) -> bool {
        self.flags & LEAF != 0
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

/// Marks an empty page as deleted by a transaction, behind which it may be reused.
pub fn set_deleted(page: &mut PageMut<'_>, xid: FullXid) -> Result<(), IndexPageError> {
    if page.page().item_count() > 0 {
        return Err(IndexPageError::Damaged("a page with items can't be deleted"));
    }
    change_opaque(page, |opaque| opaque.flags |= DELETED)?;
    put(page.0, HEADER_SIZE, xid.0.to_le_bytes());
    page.set_lower((HEADER_SIZE + DELETED_SIZE) as u16);
    Ok(())
}

/// Sets to zero what redo or hints may have left different, as PostgreSQL does where it compares
/// pages. A page that is not one of a GiST index stays as it is.
pub fn mask(bytes: &mut PageBytes) {
    let mut page = PageMut::new(bytes);
    let Ok(opaque) = Opaque::of(page.page()) else { return };
    mask_hints(&mut page);
    if opaque.is_leaf() {
        mask_kills(&mut page);
    }
    let flags = opaque.flags & !(FOLLOW_RIGHT | HAS_GARBAGE);
    Opaque { nsn: Lsn(0), flags, ..opaque }.store(&mut page);
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::index_page::push_item;

    #[test]
    fn layout_of_the_special_space() {
        let mut bytes = [0xaa; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        let opaque = Opaque { nsn: Lsn(0x0102_0304_0506_0708), right: 9, flags: LEAF };
        init_page(&mut page, opaque);
        assert_eq!(Opaque::of(page.page()), Ok(opaque));
        let expected = [4, 3, 2, 1, 8, 7, 6, 5, 9, 0, 0, 0, 1, 0, 0x81, 0xff];
        assert_eq!(bytes[OPAQUE_AT..], expected);
        bytes[8190] = 0x80;
        assert!(Opaque::of(Page::new(&bytes)).is_err());
    }

    #[test]
    fn only_empty_pages_are_deleted() {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        init_page(&mut page, Opaque::new(LEAF));
        set_deleted(&mut page, FullXid(7)).unwrap();
        assert_eq!((page.page().lower(), page.0[24]), (32, 7));
        init_page(&mut page, Opaque::new(LEAF));
        push_item(&mut page, &[1; 16]).unwrap();
        assert!(set_deleted(&mut page, FullXid(7)).is_err());
    }
}
