//! Pages of a visibility map: two bits for each block of a heap.
//!
//! ```text
//!   0      24                                                          8192
//!   +------+-----------------------------------------------------------+
//!   | page | bytes, 4 blocks each: block 4n in the lowest two bits     |
//!   +------+-----------------------------------------------------------+
//! ```
//!
//! The lower bit: all tuples of the block are visible to all transactions. The upper: and frozen. A
//! set bit is never wrong; a clear one says nothing.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    ids::{BLOCK_SIZE, BlockNumber},
    page::{HEADER_SIZE, Page, PageMut},
};

/// All tuples of a block are visible to all transactions.
pub const ALL_VISIBLE: u8 = 1;
/// All tuples of a block are frozen.
pub const ALL_FROZEN: u8 = 2;
/// Both bits of a block.
pub const VALID_BITS: u8 = ALL_VISIBLE | ALL_FROZEN;
/// In a record's flags, beside the bits: the heap is a catalog.
pub const CATALOG_REL: u8 = 4;

const BLOCKS_PER_BYTE: u32 = 4;
/// Heap blocks in a page of the map.
pub const BLOCKS_PER_PAGE: u32 = (BLOCK_SIZE - HEADER_SIZE) as u32 * BLOCKS_PER_BYTE;
const _: () = assert!(BLOCKS_PER_PAGE == 32_672);

/// The block of the map that holds the bits of a heap's block.
pub const fn map_block(block: BlockNumber) -> BlockNumber {
    block / BLOCKS_PER_PAGE
}

/// Offset in the map's page, and shift in that byte.
const fn position(block: BlockNumber) -> (usize, u32) {
    let index = block % BLOCKS_PER_PAGE;
    (HEADER_SIZE + (index / BLOCKS_PER_BYTE) as usize, index % BLOCKS_PER_BYTE * 2)
}

/// The bits of a heap's block, from its page of the map.
pub fn get(page: Page<'_>, block: BlockNumber) -> u8 {
    let (at, shift) = position(block);
    let [byte] = page.bytes(at..at + 1).and_then(<[u8]>::as_array).expect("bytes of the page");
    byte >> shift & VALID_BITS
}

/// Sets bits of a heap's block; returns whether that changed something.
///
/// # Panics
/// If only all-frozen would be set.
pub fn set(page: &mut PageMut<'_>, block: BlockNumber, bits: u8) -> bool {
    let all = get(page.page(), block) | bits & VALID_BITS;
    assert!(all != ALL_FROZEN, "block {block} can't be all-frozen without being all-visible");
    store(page, block, all)
}

/// Clears bits of a heap's block; returns whether that changed something.
///
/// # Panics
/// If only all-visible would be cleared.
pub fn clear(page: &mut PageMut<'_>, block: BlockNumber, bits: u8) -> bool {
    let visible_only = bits & VALID_BITS == ALL_VISIBLE;
    assert!(!visible_only, "block {block} can't stay all-frozen without being all-visible");
    store(page, block, get(page.page(), block) & !bits)
}

fn store(page: &mut PageMut<'_>, block: BlockNumber, bits: u8) -> bool {
    let (at, shift) = position(block);
    let byte = page.0.get_mut(at).expect("an offset in the page");
    let before = *byte;
    *byte = before & !(VALID_BITS << shift) | bits << shift;
    *byte != before
}

/// Clears the bits of the first heap block that a truncation removes, and of all behind it in its
/// page of the map.
pub fn truncate(page: &mut PageMut<'_>, first: BlockNumber) {
    let (at, shift) = position(first);
    let mut bytes = page.0.iter_mut().skip(at);
    if let Some(byte) = bytes.next() {
        *byte &= (1_u8 << shift) - 1;
    }
    bytes.for_each(|byte| *byte = 0);
}

/// Numbers of all-visible and of all-frozen blocks in a page of the map.
pub fn count(page: Page<'_>) -> (u32, u32) {
    let bytes = page.bytes(HEADER_SIZE..BLOCK_SIZE).unwrap_or_default();
    let ones = |mask: u8| bytes.iter().map(|byte| (byte & mask).count_ones()).sum();
    (ones(0x55), ones(0xaa))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!((position(0), position(5), position(32_671)), ((24, 0), (25, 2), (8191, 6)));
        assert_eq!((map_block(32_671), map_block(32_672), position(32_672)), (0, 1, (24, 0)));
    }

    #[test]
    fn bits_are_set_cleared_counted_and_cut_off() {
        let mut bytes = [0; BLOCK_SIZE];
        let mut page = PageMut(&mut bytes);
        page.init(0);
        assert!(set(&mut page, 6, VALID_BITS) && !set(&mut page, 6, ALL_VISIBLE));
        assert!(set(&mut page, 7, ALL_VISIBLE) && set(&mut page, 9, VALID_BITS));
        assert_eq!((page.0[25], count(page.page())), (0x70, (3, 2)));
        assert!(clear(&mut page, 6, ALL_FROZEN) && !clear(&mut page, 6, ALL_FROZEN));
        assert_eq!((get(page.page(), 6), get(page.page(), 7)), (1, 1));
        truncate(&mut page, 7);
        assert_eq!((count(page.page()), get(page.page(), 6)), ((1, 0), 1));
        truncate(&mut page, 0);
        assert_eq!(count(page.page()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "all-frozen")]
    fn frozen_needs_visible() {
        let mut bytes = [0; BLOCK_SIZE];
        set(&mut PageMut(&mut bytes), 3, ALL_FROZEN);
    }

    #[test]
    #[should_panic(expected = "can't stay all-frozen")]
    fn visible_goes_with_frozen() {
        let mut bytes = [0; BLOCK_SIZE];
        clear(&mut PageMut(&mut bytes), 3, ALL_VISIBLE);
    }
}
