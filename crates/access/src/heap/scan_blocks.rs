//! Which blocks of a table a vacuum reads.
//!
//! ```text
//!   map      . F F V F … F V .      F: all-frozen, V: all-visible, .: neither
//!   read     *                *      a run of 32 or more is skipped
//!   eagerly  *     *       *  *      V is read although it could be skipped
//! ```
//!
//! Pages that the map says are all-visible have nothing to prune. They are skipped in runs of 32 or
//! more: shorter gaps would only disturb reading ahead. Only those that are all-frozen are known to
//! have no old ids, so an aggressive vacuum skips no others. The last page is always read: it tells
//! whether the table's end can be cut off.
//!
//! Another vacuum of a large table reads some of the others eagerly, to freeze them before an
//! aggressive one has to read them all. It gives up in a region of 4096 blocks when too many could
//! not be frozen (vacuum_max_eager_freeze_failure_rate), and in the whole table when a fifth of
//! them were.

use forebay_format::BlockNumber;
use forebay_format::visibility_map::{ALL_VISIBLE, VALID_BITS};
use forebay_storage::BlockSource;

/// Pages in a row that are worth skipping.
const WORTH_SKIPPING: u32 = 32;
/// Blocks of a region, in which pages that are read eagerly may fail to be frozen.
const REGION: BlockNumber = 4096;
/// The part of the pages that are not frozen after whose success nothing more is read eagerly.
const ENOUGH: f64 = 0.2;
/// Bits of a block in the map.
const BITS: u32 = 2;

/// Pages that are read eagerly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Eager {
    /// Pages that may fail in this region.
    failures: u32,
    /// The same at the beginning of a region.
    failures_each: u32,
    /// Pages that were frozen, and how many are enough.
    frozen: u32,
    enough: u32,
    /// Where the next region begins. None: nothing is read eagerly.
    next_region: Option<BlockNumber>,
}

impl Eager {
    /// For a table of so many blocks, of which some are visible and not frozen. The first region
    /// ends at a place that `seed` chooses.
    fn new(
        blocks: BlockNumber,
        (visible, frozen): (u32, u32),
        failure_rate: f64,
        seed: u32,
    ) -> Eager {
        let enough = (f64::from(visible.saturating_sub(frozen)) * ENOUGH) as u32;
        if failure_rate <= 0.0 || blocks < 2 * REGION || enough == 0 {
            return Eager::default();
        }
        let first = seed.wrapping_mul(0x9e37_79b1) % REGION;
        let failures_each = (failure_rate * f64::from(REGION)) as u32;
        let part = 1.0 - f64::from(first) / f64::from(REGION);
        let failures = (f64::from(failures_each) * part) as u32;
        Eager { failures, failures_each, frozen: 0, enough, next_region: Some(first) }
    }

    /// Comes to a block.
    fn reach(&mut self, block: BlockNumber) {
        if let Some(next) = self.next_region.filter(|next| block >= *next) {
            self.failures = self.failures_each;
            self.next_region = Some(next.saturating_add(REGION));
        }
    }

    /// A page that was read eagerly was frozen, or not. At the end: how many were.
    fn note(&mut self, frozen: bool) -> Option<u32> {
        if !frozen {
            self.failures = self.failures.saturating_sub(1);
            return None;
        }
        self.frozen += 1;
        let ends = self.frozen == self.enough && self.next_region.is_some();
        ends.then(|| std::mem::take(self).frozen)
    }
}

/// The blocks that are read, with whether each is read eagerly.
#[derive(Debug, Default)]
pub(super) struct ScanBlocks {
    /// The bits of the map when the vacuum began: four blocks a byte.
    bits: Vec<u8>,
    blocks: BlockNumber,
    /// Whether pages may be skipped, and whether only those that are frozen.
    skip: (bool, bool),
    next: BlockNumber,
    /// The next block that must be read, and whether that is done eagerly.
    must: Option<(BlockNumber, bool)>,
    eager: Eager,
    /// Whether a skipped page may have ids that are not frozen.
    pub(super) skips_visible: bool,
}

impl ScanBlocks {
    /// None yet. Pages may be skipped, or not; an aggressive vacuum skips only frozen ones.
    pub(super) fn new(may_skip: bool, aggressive: bool) -> ScanBlocks {
        ScanBlocks { skip: (may_skip, aggressive), ..ScanBlocks::default() }
    }

    /// All have been added, and some are to be read eagerly. `seed` chooses where the first region
    /// ends.
    pub(super) fn read_eagerly(&mut self, failure_rate: f64, seed: u32) {
        self.eager = Eager::new(self.blocks, self.marked(), failure_rate, seed);
    }

    /// A page that was read eagerly was frozen, or not. At the end: how many were.
    pub(super) fn note_eager(&mut self, frozen: bool) -> Option<u32> {
        self.eager.note(frozen)
    }

    /// Adds the next block with its bits.
    pub(super) fn push(&mut self, bits: u8) {
        let at = (self.blocks % 4) * BITS;
        if at == 0 {
            self.bits.push(0);
        }
        if let Some(last) = self.bits.last_mut() {
            *last |= (bits & VALID_BITS) << at;
        }
        self.blocks += 1;
    }

    /// The number of blocks that are visible, and of those that are frozen.
    fn marked(&self) -> (u32, u32) {
        let of = |wanted: u8| {
            let blocks = (0..self.blocks).filter(|block| self.bits_of(*block) & wanted == wanted);
            blocks.count() as u32
        };
        (of(ALL_VISIBLE), of(VALID_BITS))
    }

    fn bits_of(&self, block: BlockNumber) -> u8 {
        let byte = self.bits.get(block as usize / 4).copied().unwrap_or(0);
        byte >> ((block % 4) * BITS) & VALID_BITS
    }

    /// The first block from one on that must be read, whether that is done eagerly, and whether
    /// those before may have ids that are not frozen.
    fn find(&mut self, from: BlockNumber) -> (BlockNumber, bool, bool) {
        let (may_skip, only_frozen) = self.skip;
        let mut visible = false;
        let mut block = from;
        loop {
            self.eager.reach(block);
            let bits = self.bits_of(block);
            if bits & ALL_VISIBLE == 0 || !may_skip || block + 1 >= self.blocks {
                return (block, false, visible);
            }
            if bits != VALID_BITS {
                if only_frozen {
                    return (block, false, visible);
                }
                if self.eager.failures > 0 {
                    return (block, true, visible);
                }
                visible = true;
            }
            block += 1;
        }
    }
}

impl BlockSource for ScanBlocks {
    type Data = bool;

    fn next_block(&mut self) -> Option<(BlockNumber, bool)> {
        let mut block = self.next;
        if block >= self.blocks {
            return None;
        }
        let (must, eagerly) = match self.must.filter(|(must, _)| block <= *must) {
            Some(known) => known,
            None => {
                let (must, eagerly, visible) = self.find(block);
                if must - block >= WORTH_SKIPPING {
                    block = must;
                    self.skips_visible |= visible;
                }
                self.must = Some((must, eagerly));
                (must, eagerly)
            }
        };
        self.next = block + 1;
        Some((block, eagerly && block == must))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(runs: &[(u32, u8)]) -> ScanBlocks {
        let mut blocks = ScanBlocks { skip: (true, false), ..ScanBlocks::default() };
        for &(len, bits) in runs {
            (0..len).for_each(|_| blocks.push(bits));
        }
        blocks
    }

    /// The ranges that are read, and whether pages with old ids may be skipped.
    fn ranges(mut blocks: ScanBlocks) -> (Vec<(u32, u32)>, bool) {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        while let Some((block, _)) = blocks.next_block() {
            match ranges.last_mut() {
                Some(last) if last.1 == block => last.1 += 1,
                _ => ranges.push((block, block + 1)),
            }
        }
        (ranges, blocks.skips_visible)
    }

    const V: u8 = ALL_VISIBLE;
    const F: u8 = VALID_BITS;

    #[test]
    fn only_long_runs_are_skipped() {
        assert_eq!(ranges(blocks(&[(31, V), (1, 0)])), (vec![(0, 32)], false));
        assert_eq!(ranges(blocks(&[(32, F), (1, 0)])), (vec![(32, 33)], false));
        assert_eq!(ranges(blocks(&[(32, V), (2, 0)])), (vec![(32, 34)], true));
        let gaps = [(1, 0), (32, F), (1, 0), (9, V), (1, 0)];
        assert_eq!(ranges(blocks(&gaps)), (vec![(0, 1), (33, 44)], false));
        assert_eq!(ranges(blocks(&[])), (vec![], false));
        assert_eq!(ranges(blocks(&[(40, F)])), (vec![(39, 40)], false), "the last one");
        let aggressive = ScanBlocks { skip: (true, true), ..blocks(&[(40, V), (40, F), (1, 0)]) };
        assert_eq!(ranges(aggressive), (vec![(0, 40), (80, 81)], false));
        let all = ScanBlocks { skip: (false, false), ..blocks(&[(40, F)]) };
        assert_eq!(ranges(all), (vec![(0, 40)], false));
    }

    #[test]
    fn visible_pages_are_read_eagerly_until_too_many_fail() {
        let runs = [(20_000, V), (1, 0)];
        let (all, rate) = (20_001, 0.01);
        let mut scan = blocks(&runs);
        assert_eq!(scan.marked(), (20_000, 0));
        scan.eager = Eager::new(all, scan.marked(), rate, 0);
        let mut eager = Vec::new();
        while let Some((block, eagerly)) = scan.next_block() {
            if eagerly {
                scan.eager.note(false);
                eager.push(block);
            }
        }
        // 1 % of each region of 4096 blocks fail.
        let expected: Vec<u32> =
            (0..5).flat_map(|region| (0..40).map(move |n| region * REGION + n)).collect();
        assert_eq!(eager, expected);
        assert!(scan.skips_visible);

        let mut scan = blocks(&runs);
        scan.eager = Eager::new(all, scan.marked(), rate, 0);
        let (mut eager, mut ended) = (0, Vec::new());
        while let Some((_, eagerly)) = scan.next_block() {
            if eagerly {
                ended.extend(scan.eager.note(true));
                eager += 1;
            }
        }
        assert_eq!((eager, ended), (4000, vec![4000]), "a fifth");
    }

    #[test]
    fn small_tables_and_frozen_ones_are_not_read_eagerly() {
        assert_eq!(Eager::new(8191, (8000, 0), 0.03, 1), Eager::default());
        assert_eq!(Eager::new(9000, (8000, 7996), 0.03, 1), Eager::default());
        assert_eq!(Eager::new(9000, (8000, 0), 0.0, 1), Eager::default());
        assert_ne!(Eager::new(9000, (8000, 0), 0.03, 1), Eager::default());
    }
}
