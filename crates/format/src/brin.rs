//! Pages of BRIN indexes, as far as redo changes them.
//!
//! ```text
//!   page header | line pointers -> |  hole  | <- summaries | special    regular page
//!   page header | magic u32, version u32, pages of a range u32, last map page u32 | special
//!   page header | 1360 item pointers                       | special    map of ranges
//!
//!   special:
//!   0       4       6      8
//!   +-------+-------+------+
//!   | 0     | flags | type |
//!   +-------+-------+------+
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{put, u16_field, u32_field},
    ids::{BLOCK_SIZE, BlockNumber, ItemPointer},
    index_page::{IndexPageError, bounds, mask_hints},
    page::{HEADER_SIZE, Page, PageBytes, PageMut},
};

/// Bytes of the special space.
pub const SPECIAL_SIZE: usize = 8;
/// Places in a page of the map.
pub const MAP_ITEMS: u32 = ((SPECIAL_AT - HEADER_SIZE) / ItemPointer::SIZE) as u32;

const MAGIC: u32 = 0xa810_9cfa;
const META_SIZE: usize = 16;
const SPECIAL_AT: usize = BLOCK_SIZE - SPECIAL_SIZE;
const FLAGS_AT: usize = SPECIAL_AT + 4;
const TYPE_AT: usize = SPECIAL_AT + 6;
const LAST_MAP_AT: usize = HEADER_SIZE + 12;
/// Flag: the page's summaries are being moved elsewhere (not logged).
const EVACUATE_PAGE: u16 = 1;

const _: () = assert!(MAP_ITEMS == 1360 && TYPE_AT + 2 == BLOCK_SIZE);

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// Block 0.
    Meta = 0xf091,
    /// Where each range's summary is.
    Map = 0xf092,
    /// Summaries.
    Regular = 0xf093,
}

impl Kind {
    /// That of a page, which must be a page of a BRIN index.
    pub fn of(page: Page<'_>) -> Result<Self, IndexPageError> {
        bounds(page)?;
        let bytes = page.special_bytes();
        let found = [Self::Meta, Self::Map, Self::Regular]
            .into_iter()
            .find(|&kind| bytes.len() == SPECIAL_SIZE && u16_field(bytes, 6) == kind as u16);
        found.ok_or(IndexPageError::Kind("page of a BRIN index"))
    }

    /// Fails if a page is of another kind.
    pub fn check(self, page: Page<'_>) -> Result<(), IndexPageError> {
        match Self::of(page)? == self {
            true => Ok(()),
            false => Err(IndexPageError::Kind("page of this kind of a BRIN index")),
        }
    }
}

/// Makes an empty page.
pub fn init_page(page: &mut PageMut<'_>, kind: Kind) {
    page.init(SPECIAL_SIZE);
    put(page.0, TYPE_AT, (kind as u16).to_le_bytes());
}

/// Makes the meta page of an index that has no page of the map yet.
pub fn init_meta(page: &mut PageMut<'_>, pages_per_range: u32, version: u16) {
    init_page(page, Kind::Meta);
    for (index, number) in [MAGIC, u32::from(version), pages_per_range].into_iter().enumerate() {
        put(page.0, HEADER_SIZE + 4 * index, number.to_le_bytes());
    }
    page.set_lower((HEADER_SIZE + META_SIZE) as u16);
}

/// Notes the last page of the map in the meta page.
pub fn set_last_map(page: &mut PageMut<'_>, block: BlockNumber) -> Result<(), IndexPageError> {
    Kind::Meta.check(page.page())?;
    if u32_field(&page.0[..], HEADER_SIZE) != MAGIC {
        return Err(IndexPageError::Kind("meta page of a BRIN index"));
    }
    put(page.0, LAST_MAP_AT, block.to_le_bytes());
    // PostgreSQL 10 left it as it was.
    page.set_lower((HEADER_SIZE + META_SIZE) as u16);
    Ok(())
}

/// Notes in a page of the map where the summary of a table's block is.
pub fn set_place(
    page: &mut PageMut<'_>,
    pages_per_range: u32,
    heap_block: BlockNumber,
    place: ItemPointer,
) -> Result<(), IndexPageError> {
    Kind::Map.check(page.page())?;
    let range = heap_block.checked_div(pages_per_range);
    let index = range.ok_or(IndexPageError::Damaged("ranges of no pages"))? % MAP_ITEMS;
    put(page.0, HEADER_SIZE + ItemPointer::SIZE * index as usize, place.encode());
    Ok(())
}

/// Sets to zero what redo or hints may have left different, as PostgreSQL does where it compares
/// pages. A page that is not one of a BRIN index stays as it is.
pub fn mask(bytes: &mut PageBytes) {
    let mut page = PageMut::new(bytes);
    let Ok(kind) = Kind::of(page.page()) else { return };
    let (lower, upper) = (page.page().lower(), page.page().upper());
    if kind == Kind::Map || (kind == Kind::Meta && lower <= HEADER_SIZE) {
        // Its bounds do not tell what is in use.
        page.set_lower(upper as u16);
    }
    mask_hints(&mut page);
    page.set_lower(lower as u16);
    let flags = u16_field(&page.0[..], FLAGS_AT) & !EVACUATE_PAGE;
    put(page.0, FLAGS_AT, flags.to_le_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::index_page::{item, put_item, vacate_item};

    #[test]
    fn the_map() {
        let mut bytes = [0xaa; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        init_page(&mut page, Kind::Map);
        let place = ItemPointer::new(0x1_0002, 3);
        set_place(&mut page, 4, 4 * (MAP_ITEMS + 1) + 3, place).unwrap();
        assert_eq!(page.0[HEADER_SIZE + 6..][..6], [1, 0, 2, 0, 3, 0]);
        assert!(set_place(&mut page, 0, 1, place).is_err());
        assert!(set_last_map(&mut page, 1).is_err());
        set_place(&mut page, 1, MAP_ITEMS - 1, place).unwrap();
        let masked = |mut bytes: PageBytes| {
            mask(&mut bytes);
            bytes
        };
        let other = masked(bytes);
        bytes[HEADER_SIZE + 100] ^= 1;
        assert_ne!(masked(bytes), other, "what the map says counts");
    }

    #[test]
    fn the_meta_page() {
        let mut bytes = [0xaa; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        init_meta(&mut page, 128, 1);
        set_last_map(&mut page, 2).unwrap();
        let meta = [0xfa, 0x9c, 0x10, 0xa8, 1, 0, 0, 0, 128, 0, 0, 0, 2, 0, 0, 0];
        assert_eq!(page.0[HEADER_SIZE..HEADER_SIZE + META_SIZE], meta);
        assert!(set_place(&mut page, 1, 1, ItemPointer::INVALID).is_err());
    }

    #[test]
    fn summaries_keep_their_numbers() {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut::new(&mut bytes);
        init_page(&mut page, Kind::Regular);
        (1..=3).for_each(|n| put_item(&mut page, n, &[n as u8; 24]).unwrap());
        assert!(put_item(&mut page, 2, &[9; 8]).is_err());
        assert!(put_item(&mut page, 5, &[9; 8]).is_err());
        vacate_item(&mut page, 2).unwrap();
        assert!(vacate_item(&mut page, 2).is_err());
        assert_eq!((page.page().item_count(), item(page.page(), 3)), (3, Ok(&[3; 24][..])));
        put_item(&mut page, 2, &[9; 8]).unwrap();
        assert_eq!(
            (item(page.page(), 2), item(page.page(), 1)),
            (Ok(&[9; 8][..]), Ok(&[1; 24][..]))
        );
        vacate_item(&mut page, 3).unwrap();
        assert_eq!(page.page().item_count(), 2);
        let full = (3..).find(|&n| put_item(&mut page, n, &[0; 8]).is_err());
        assert!(full.unwrap() > 600, "more small summaries than MAX_ITEMS");
    }
}
