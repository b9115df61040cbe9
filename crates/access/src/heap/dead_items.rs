//! Dead line pointers of a table: vacuum collects them in its first pass, looks them up for each
//! entry of the indexes, and makes them unused in its second pass.
//!
//! ```text
//!   segment:   blocks    | 7     | 9         | 12    |     up to 1024, in ascending order
//!              ends      | 2     | 13        | 14    |     where a block's bytes end
//!              bits      | 2     | 11        | 1     |     bytes: a bit for each line pointer
//! ```
//!
//! A block has as many bytes as its last dead line pointer needs: 5 to 50 with the 8 of its place,
//! however many there are. Segments have their room from the start, so that nothing is moved when
//! the store grows.

use forebay_format::{BlockNumber, ItemPointer, OffsetNumber};

/// Blocks of a segment.
const BLOCKS: usize = 1024;
/// Bytes of their places.
const PLACES: usize = BLOCKS * (size_of::<BlockNumber>() + size_of::<u32>());

/// Dead line pointers, up to a bound of memory.
#[derive(Debug)]
pub struct DeadItems {
    segments: Vec<Segment>,
    /// The first block of each segment.
    firsts: Vec<BlockNumber>,
    items: u64,
    /// Bytes of all segments.
    memory: usize,
    bound: usize,
}

#[derive(Debug)]
struct Segment {
    blocks: Vec<BlockNumber>,
    ends: Vec<u32>,
    bits: Vec<u8>,
}

impl Segment {
    fn new() -> Segment {
        let (blocks, ends) = (Vec::with_capacity(BLOCKS), Vec::with_capacity(BLOCKS));
        Segment { blocks, ends, bits: Vec::new() }
    }

    /// The bits of the block at an index.
    fn bits(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bits[start as usize..self.ends[index] as usize]
    }
}

const fn place(offset: OffsetNumber) -> (usize, u8) {
    (offset as usize / 8, 1 << (offset % 8))
}

impl DeadItems {
    /// None, with room for some bytes (`maintenance_work_mem`).
    pub fn new(bound: usize) -> DeadItems {
        DeadItems { segments: Vec::new(), firsts: Vec::new(), items: 0, memory: 0, bound }
    }

    /// Adds those of a block: at least one, in ascending order. The block is behind those before.
    pub(super) fn add(&mut self, block: BlockNumber, offsets: &[OffsetNumber]) {
        let last = self.segments.last().and_then(|segment| segment.blocks.last());
        assert!(last.is_none_or(|last| *last < block), "block {block} behind {last:?}");
        assert!(
            offsets.is_sorted_by(|a, b| a < b) && offsets.first() > Some(&0),
            "line pointers {offsets:?}"
        );
        if self.segments.last().is_none_or(|segment| segment.blocks.len() == BLOCKS) {
            self.segments.push(Segment::new());
            self.firsts.push(block);
            self.memory += PLACES;
        }
        let segment = self.segments.last_mut().expect("it was added");
        let before = segment.bits.capacity();
        let start = segment.bits.len();
        let greatest = offsets.last().expect("there is one");
        segment.bits.resize(start + place(*greatest).0 + 1, 0);
        for &offset in offsets {
            let (byte, bit) = place(offset);
            segment.bits[start + byte] |= bit;
        }
        segment.blocks.push(block);
        segment.ends.push(segment.bits.len() as u32);
        self.items += offsets.len() as u64;
        self.memory += segment.bits.capacity() - before;
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> DeadItems {
        let empty = DeadItems::new(self.bound);
        std::mem::replace(self, empty)
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.memory > self.bound
    }

    /// Bytes of memory that they take.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    /// Number of line pointers.
    pub fn len(&self) -> u64 {
        self.items
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Whether a line pointer is one of them.
    pub fn contains(&self, item: ItemPointer) -> bool {
        let Some(before) = self.firsts.partition_point(|first| *first <= item.block).checked_sub(1)
        else {
            return false;
        };
        let segment = &self.segments[before];
        let Ok(index) = segment.blocks.binary_search(&item.block) else { return false };
        let (byte, bit) = place(item.offset);
        segment.bits(index).get(byte).is_some_and(|byte| byte & bit != 0)
    }

    /// The blocks, each with its line pointers, in ascending order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (BlockNumber, Vec<OffsetNumber>)> + '_ {
        self.segments.iter().flat_map(|segment| {
            let blocks = segment.blocks.iter().enumerate();
            blocks.map(|(index, block)| {
                let bits = segment.bits(index);
                let is_dead =
                    |offset: &OffsetNumber| bits[place(*offset).0] & place(*offset).1 != 0;
                let offsets = 1..(bits.len() * 8) as OffsetNumber;
                (*block, offsets.filter(is_dead).collect())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn collected(items: &DeadItems) -> BTreeMap<BlockNumber, Vec<OffsetNumber>> {
        items.blocks().collect()
    }

    #[test]
    fn it_is_full_when_its_bound_is_passed_and_empty_when_all_are_taken() {
        let mut items = DeadItems::new(64 << 10);
        let mut block = 0;
        while !items.is_full() {
            items.add(block, &[1, 290]);
            block += 1;
        }
        // 37 bytes of bits and 8 of the block's place, and some that is not used yet.
        assert!((1024..1400).contains(&block), "{block}");
        assert!(items.memory() < (64 << 10) + 10_000);
        assert_eq!(items.len(), u64::from(block) * 2);
        assert_eq!(items.take().len(), u64::from(block) * 2);
        assert!(items.is_empty() && !items.is_full() && items.memory() == 0);
        assert!(!items.contains(ItemPointer::new(0, 1)) && collected(&items).is_empty());
        items.add(0, &[1]);
        assert!(items.contains(ItemPointer::new(0, 1)));
    }

    #[test]
    #[should_panic(expected = "block 5 behind Some(5)")]
    fn a_block_comes_once() {
        let mut items = DeadItems::new(1 << 20);
        items.add(5, &[1]);
        items.add(5, &[2]);
    }

    proptest! {
        #[test]
        fn it_has_what_was_added(
            blocks in proptest::collection::btree_map(
                prop_oneof![0..6000_u32, 0..u32::MAX],
                proptest::collection::btree_set(1..=2041_u16, 1..12),
                0..3000,
            ),
            others in proptest::collection::vec((0..6000_u32, 0..=2048_u16), 100),
        ) {
            let mut items = DeadItems::new(usize::MAX);
            for (block, offsets) in &blocks {
                items.add(*block, &offsets.iter().copied().collect::<Vec<_>>());
            }
            let all = blocks.iter().flat_map(|(block, offsets)| {
                offsets.iter().map(|offset| (*block, *offset))
            });
            let all: BTreeSet<_> = all.collect();
            prop_assert_eq!(items.len(), all.len() as u64);
            for place in all.iter().copied().chain(others) {
                let found = items.contains(ItemPointer::new(place.0, place.1));
                prop_assert_eq!(found, all.contains(&place), "{:?}", place);
            }
            let expected = blocks.iter().map(|(b, all)| (*b, all.iter().copied().collect()));
            prop_assert_eq!(collected(&items), expected.collect::<BTreeMap<_, Vec<_>>>());
        }
    }
}
