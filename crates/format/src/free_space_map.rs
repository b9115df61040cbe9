//! Pages of a free-space map: how much space each block of a relation has, in 256 categories.
//!
//! ```text
//!   0      24          28                           28 + 4095          8192
//!   +------+-----------+----------------------------+------------------+
//!   | page | next slot | inner nodes, the root first| 4069 leaves      |
//!   |      | i32       | 4095 bytes                 | one byte each    |
//!   +------+-----------+----------------------------+------------------+
//!
//!                 0                node n has the children 2n+1 and 2n+2
//!             1       2            and the greater of their categories
//!           3   4   5   6
//! ```
//!
//! The leaves of a bottom page stand for blocks of the relation, in order. Pages form a tree of
//! three levels: a leaf of an upper page has the root of a page below. Pages lie in the file in the
//! order of a walk that visits a page before those below it: the root is block 0, the first page of
//! level 1 block 1, the first bottom page block 2.
//!
//! - category: free bytes divided by 32, rounded down; 255 is a block on which the largest tuple
//!   fits
//! - next slot: where a search begins, so that sessions spread over blocks; a hint
//!
//! The map is not logged, so that a page may be torn or old. A search that finds contradictions
//! says so, and [`rebuild`] computes the inner nodes again.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{put, u32_field},
    ids::{BLOCK_SIZE, BlockNumber, INVALID_BLOCK},
    page::{HEADER_SIZE, MAX_HEAP_TUPLE_SIZE, Page, PageMut},
};

const NEXT_SLOT_AT: usize = HEADER_SIZE;
const NODES_AT: usize = NEXT_SLOT_AT + 4;
const NODES: usize = BLOCK_SIZE - NODES_AT;
/// Inner nodes: all levels above the leaves, complete.
const INNER: usize = BLOCK_SIZE / 2 - 1;
/// Leaves of a page.
pub const SLOTS: u16 = (NODES - INNER) as u16;
/// Level of the root page; the bottom is 0.
pub const ROOT_LEVEL: u8 = 2;

const _: () = assert!(NODES == 8164 && INNER == 4095 && SLOTS == 4069);
const _: () = assert!((SLOTS as u64).pow(3) > u32::MAX as u64, "three levels are enough");

/// Bytes between two categories.
const STEP: usize = BLOCK_SIZE / 256;

/// The category of a block with some free bytes.
pub const fn category(free: usize) -> u8 {
    match free {
        MAX_HEAP_TUPLE_SIZE.. => 255,
        _ if free / STEP >= 254 => 254,
        _ => (free / STEP) as u8,
    }
}

/// The least free bytes of a block with a category.
pub const fn free_bytes(category: u8) -> usize {
    match category {
        255 => MAX_HEAP_TUPLE_SIZE,
        _ => category as usize * STEP,
    }
}

/// The least category of blocks that surely have some free bytes; `None` if no block has.
pub const fn needed_category(needed: usize) -> Option<u8> {
    match needed.div_ceil(STEP) {
        _ if needed > MAX_HEAP_TUPLE_SIZE => None,
        0 => Some(1),
        n if n >= 255 => Some(255),
        n => Some(n as u8),
    }
}

/// A page of the map: its level, and its number within the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MapPage {
    level: u8,
    number: u32,
}

impl MapPage {
    /// The page above all others.
    pub const ROOT: Self = Self { level: ROOT_LEVEL, number: 0 };

    /// The bottom page and slot of a relation's block.
    pub const fn of_block(block: BlockNumber) -> (Self, u16) {
        let number = block / SLOTS as u32;
        (Self { level: 0, number }, (block % SLOTS as u32) as u16)
    }

    /// Its level, 0 for the bottom.
    pub const fn level(self) -> u8 {
        self.level
    }

    /// The page above, and the slot there; `None` for the root.
    pub const fn parent(self) -> Option<(Self, u16)> {
        if self.level == ROOT_LEVEL {
            return None;
        }
        let parent = Self { level: self.level + 1, number: self.number / SLOTS as u32 };
        Some((parent, (self.number % SLOTS as u32) as u16))
    }

    /// The page below a slot; `None` for a bottom page, and if no relation is as long.
    pub fn child(self, slot: u16) -> Option<Self> {
        let level = self.level.checked_sub(1)?;
        let child = Self { level, number: self.below(slot)? };
        // The first block of the relation that it is about must exist.
        let mut first = u64::from(child.number);
        (0..=level).for_each(|_| first *= u64::from(SLOTS));
        (first < u64::from(INVALID_BLOCK)).then_some(child)
    }

    /// The relation's block of a slot of a bottom page; `None` if no relation is as long.
    ///
    /// # Panics
    /// If it is not a bottom page.
    pub fn heap_block(self, slot: u16) -> Option<BlockNumber> {
        assert!(self.level == 0, "a page of level {} is not about blocks", self.level);
        self.below(slot).filter(|&block| block != INVALID_BLOCK)
    }

    fn below(self, slot: u16) -> Option<u32> {
        self.number.checked_mul(u32::from(SLOTS))?.checked_add(u32::from(slot))
    }

    /// Its block in the map's fork.
    pub const fn block(self) -> BlockNumber {
        // Pages that the walk visits before it: of each level all up to the one above it or below.
        let mut number = self.number;
        let mut level = self.level;
        while level > 0 {
            number *= SLOTS as u32;
            level -= 1;
        }
        let mut before = 0;
        while level <= ROOT_LEVEL {
            before += number + 1;
            number /= SLOTS as u32;
            level += 1;
        }
        before - self.level as u32 - 1
    }
}

/// A page whose inner nodes promise more than its leaves have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("page of the free-space map is torn at node {node}")]
pub struct TornMapPage {
    /// The inner node whose children have less.
    pub node: usize,
}

fn nodes<'a>(page: Page<'a>) -> &'a [u8; NODES] {
    let bytes = page.bytes(NODES_AT..BLOCK_SIZE).and_then(<[u8]>::as_array);
    bytes.expect("the nodes are on the page")
}

fn nodes_mut<'a>(page: &'a mut PageMut<'_>) -> &'a mut [u8; NODES] {
    page.0.last_chunk_mut().expect("the nodes are on the page")
}

/// The category of a node; 0 for leaves that a page has no space for.
fn node(nodes: &[u8; NODES], n: usize) -> u8 {
    nodes.get(n).copied().unwrap_or(0)
}

/// What an inner node should have.
fn greatest_child(nodes: &[u8; NODES], n: usize) -> u8 {
    node(nodes, 2 * n + 1).max(node(nodes, 2 * n + 2))
}

fn leaf(slot: u16) -> usize {
    assert!(slot < SLOTS, "slot {slot} of a page of the free-space map");
    INNER + usize::from(slot)
}

/// The greatest category of the page.
pub fn greatest(page: Page<'_>) -> u8 {
    node(nodes(page), 0)
}

/// The category of a slot.
///
/// # Panics
/// If the slot is not below [`SLOTS`].
pub fn get(page: Page<'_>, slot: u16) -> u8 {
    node(nodes(page), leaf(slot))
}

/// Sets the category of a slot and of the inner nodes above; returns whether that changed
/// something. Repairs the page if the root turns out to be too small.
///
/// # Panics
/// If the slot is not below [`SLOTS`].
pub fn set(page: &mut PageMut<'_>, slot: u16, category: u8) -> bool {
    let mut n = leaf(slot);
    let all = nodes_mut(page);
    if node(all, n) == category && category <= node(all, 0) {
        return false;
    }
    put(all, n, [category]);
    while n > 0 {
        n = (n - 1) / 2;
        let greatest = greatest_child(all, n);
        if node(all, n) == greatest {
            break;
        }
        put(all, n, [greatest]);
    }
    if category > node(all, 0) {
        rebuild(page);
    }
    true
}

/// Finds a slot with at least a category: the first one from the next slot on, and then, in
/// growing distance, those around.
pub fn search(page: Page<'_>, least: u8) -> Result<Option<u16>, TornMapPage> {
    let all = nodes(page);
    if node(all, 0) < least {
        return Ok(None);
    }
    let mut n = INNER + usize::from(next_slot(page));
    while n > 0 && node(all, n) < least {
        n += 1;
        // Behind the last node of a level follows its first.
        n = if (n + 1).is_power_of_two() { (n - 1) / 2 } else { n };
        n = (n - 1) / 2;
    }
    while n < INNER {
        let left = 2 * n + 1;
        let child =
            [left, left + 1].into_iter().find(|&child| child < NODES && node(all, child) >= least);
        n = child.ok_or(TornMapPage { node: n })?;
    }
    Ok(Some((n - INNER) as u16))
}

/// Where the next search begins; 0 if what is stored is not a slot.
pub fn next_slot(page: Page<'_>) -> u16 {
    let stored = page.bytes(NEXT_SLOT_AT..NODES_AT).map_or(0, |bytes| u32_field(bytes, 0));
    u16::try_from(stored).ok().filter(|&slot| slot < SLOTS).unwrap_or(0)
}

/// Sets where the next search begins: at the slot that was found, or behind it. [`SLOTS`] stands
/// for the first slot.
pub fn set_next_slot(page: &mut PageMut<'_>, slot: u16) {
    put(page.0, NEXT_SLOT_AT, u32::from(slot).to_le_bytes());
}

/// Sets slots from one on to 0; returns whether that changed something.
pub fn truncate(page: &mut PageMut<'_>, first: u16) -> bool {
    let mut changed = false;
    for byte in nodes_mut(page).iter_mut().skip(INNER + usize::from(first)) {
        changed |= *byte != 0;
        *byte = 0;
    }
    if changed {
        rebuild(page);
    }
    changed
}

/// Computes all inner nodes from the leaves; returns whether that changed something.
pub fn rebuild(page: &mut PageMut<'_>) -> bool {
    let all = nodes_mut(page);
    let mut changed = false;
    for n in (0..INNER).rev() {
        let greatest = greatest_child(all, n);
        changed |= node(all, n) != greatest;
        put(all, n, [greatest]);
    }
    changed
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::page::PageBytes;
    use proptest::prelude::*;

    fn empty() -> PageBytes {
        let mut bytes = [0; BLOCK_SIZE];
        PageMut(&mut bytes).init(0);
        bytes
    }

    #[test]
    fn categories() {
        assert_eq!(
            [0, 31, 32, 8127, 8128, 8159, 8160, 8192].map(category),
            [0, 0, 1, 253, 254, 254, 255, 255]
        );
        assert_eq!([0, 1, 254, 255].map(free_bytes), [0, 32, 8128, 8160]);
        assert_eq!(
            [0, 1, 32, 33, 8128, 8129, 8160].map(needed_category),
            [Some(1), Some(1), Some(1), Some(2), Some(254), Some(255), Some(255)]
        );
        assert_eq!(needed_category(8161), None);
        for needed in 1..=MAX_HEAP_TUPLE_SIZE {
            assert!(free_bytes(needed_category(needed).unwrap()) >= needed);
        }
    }

    #[test]
    fn pages_lie_in_the_order_of_a_walk() {
        let bottom = |block| MapPage::of_block(block).0;
        assert_eq!([0, 4068, 4069, 2 * 4069].map(|block| bottom(block).block()), [2, 2, 3, 4]);
        let parent = |page: MapPage| page.parent().unwrap().0;
        assert_eq!(MapPage::ROOT.block(), 0);
        assert_eq!(parent(bottom(0)).block(), 1);
        // The last bottom page below the first page of level 1, and what follows.
        let second = 4069 * 4069;
        assert_eq!(bottom(second - 1).block(), 1 + 4069);
        assert_eq!(parent(bottom(second)).block(), 1 + 4069 + 1);
        assert_eq!(bottom(second).block(), 1 + 4069 + 2);
        assert_eq!(MapPage::ROOT.parent(), None);
    }

    #[test]
    fn blocks_are_found_from_the_root() {
        for block in [0, 1, 4068, 4069, 16_556_761, 3_000_000_000, u32::MAX - 1] {
            let (page, slot) = MapPage::of_block(block);
            let (middle, upper_slot) = page.parent().unwrap();
            let (root, root_slot) = middle.parent().unwrap();
            assert_eq!(root, MapPage::ROOT);
            assert_eq!(root.child(root_slot), Some(middle));
            assert_eq!(middle.child(upper_slot), Some(page));
            assert_eq!((page.child(slot), page.heap_block(slot)), (None, Some(block)));
        }
        assert_eq!(MapPage::ROOT.child(260), None);
        let (last, slot) = MapPage::of_block(u32::MAX);
        assert_eq!((last.heap_block(slot), last.heap_block(slot + 1)), (None, None));
    }

    #[test]
    fn a_search_begins_at_the_next_slot_and_wraps_around() {
        let mut bytes = empty();
        let mut page = PageMut(&mut bytes);
        for slot in [3, 700, SLOTS - 1] {
            assert!(set(&mut page, slot, 9) && !set(&mut page, slot, 9));
        }
        for (from, found) in [(0, 3), (4, 700), (701, SLOTS - 1), (SLOTS - 1, SLOTS - 1)] {
            set_next_slot(&mut page, from);
            assert_eq!(search(page.page(), 9), Ok(Some(found)), "from {from}");
        }
        set_next_slot(&mut page, SLOTS);
        assert_eq!((next_slot(page.page()), search(page.page(), 1)), (0, Ok(Some(3))));
        assert_eq!(search(page.page(), 10), Ok(None));
        assert!(truncate(&mut page, 700) && !truncate(&mut page, 700));
        assert_eq!((get(page.page(), 3), greatest(page.page())), (9, 9));
        assert!(truncate(&mut page, 0));
        assert_eq!(greatest(page.page()), 0);
    }

    #[test]
    fn torn_pages_are_noticed_and_rebuilt() {
        let mut bytes = empty();
        let mut page = PageMut(&mut bytes);
        set(&mut page, 9, 50);
        page.0[NODES_AT + leaf(9)] = 0;
        assert!(search(page.page(), 50).is_err());
        assert!(rebuild(&mut page) && !rebuild(&mut page));
        assert_eq!(search(page.page(), 1), Ok(None));
        // Inner nodes that are too small are repaired by the next change.
        page.0[NODES_AT + leaf(4000)] = 70;
        assert!(set(&mut page, 4000, 70));
        assert_eq!(search(page.page(), 70), Ok(Some(4000)));
    }

    proptest! {
        #[test]
        fn changes_keep_the_tree(
            changes in proptest::collection::vec((0..SLOTS, any::<u8>()), 1..80),
            from in 0..SLOTS,
            least: u8,
        ) {
            let mut bytes = empty();
            let mut page = PageMut(&mut bytes);
            for &(slot, category) in &changes {
                set(&mut page, slot, category);
                prop_assert_eq!(get(page.page(), slot), category);
            }
            prop_assert!(!rebuild(&mut page));
            set_next_slot(&mut page, from);
            match search(page.page(), least).unwrap() {
                Some(slot) => prop_assert!(get(page.page(), slot) >= least),
                None => prop_assert!(greatest(page.page()) < least),
            }
        }

        #[test]
        fn arbitrary_nodes_never_panic(nodes in proptest::collection::vec(any::<u8>(), 8168)) {
            let mut bytes = empty();
            bytes[24..].copy_from_slice(&nodes);
            let mut page = PageMut(&mut bytes);
            for least in [0, 1, 100, 255] {
                if search(page.page(), least).is_err() {
                    prop_assert!(rebuild(&mut page));
                    prop_assert!(search(page.page(), least).is_ok());
                }
            }
        }
    }
}
