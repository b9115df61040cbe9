//! The blocks of a table, handed out to the scans that share them.
//!
//! Each scan takes a chunk of neighbouring blocks at a time, so that its reads can be combined and
//! the scans seldom meet. Near the end the chunks shrink, so that all scans end at about the same
//! time. The sizes are those of PostgreSQL's parallel scans, but for the smallest: a chunk is never
//! smaller than a combined read.

use std::ops::Range;
use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_format::BlockNumber;

/// Chunks into which a table is divided, about.
const CHUNKS: u32 = 2048;
/// Most blocks in a chunk.
const MOST: u32 = 8192;
/// Chunks shrink where the blocks that are left would make fewer of them.
const LAST_CHUNKS: u64 = 64;

/// The blocks of a table, from one of them on and around.
#[derive(Debug)]
pub struct SharedBlocks {
    blocks: BlockNumber,
    /// The first block that is handed out.
    start: BlockNumber,
    /// The size of the first chunks.
    chunk: u32,
    /// The size of the last ones.
    least: u32,
    /// How many blocks are taken. It passes the end once for each scan at most.
    next: AtomicU64,
    ended: AtomicBool,
}

impl SharedBlocks {
    /// The first `blocks` blocks, in chunks of `least` and more. The first one is at `start`; those
    /// before it come last.
    pub fn new(blocks: BlockNumber, start: BlockNumber, least: u32) -> SharedBlocks {
        assert!((1..=MOST).contains(&least), "chunks of {least} blocks");
        assert!(start <= blocks, "scans begin at block {start} of {blocks}");
        let chunk = (blocks / CHUNKS).max(1).next_power_of_two().clamp(least, MOST);
        let (next, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        SharedBlocks { blocks, start, chunk, least, next, ended }
    }

    /// The first block that is handed out.
    pub fn start(&self) -> BlockNumber {
        self.start
    }

    /// Number of blocks.
    pub fn blocks(&self) -> BlockNumber {
        self.blocks
    }

    /// No more blocks are handed out.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether `end` was called.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The block that is handed out after `taken` others.
    fn block(&self, taken: BlockNumber) -> BlockNumber {
        let to_end = self.blocks - self.start;
        if taken < to_end { self.start + taken } else { taken - to_end }
    }

    /// The next chunk of at most `size` blocks, which becomes smaller near the end; empty at the
    /// end. It tells how many are handed out before each of them.
    fn take(&self, size: &mut u32) -> Range<BlockNumber> {
        let blocks = u64::from(self.blocks);
        let left = blocks.saturating_sub(self.next.load(Ordering::Relaxed));
        while *size > self.least && left < u64::from(*size) * LAST_CHUNKS {
            *size = (*size / 2).max(self.least);
        }
        if left == 0 || self.has_ended() {
            return 0..0;
        }
        let first = self.next.fetch_add(u64::from(*size), Ordering::Relaxed).min(blocks);
        let end = (first + u64::from(*size)).min(blocks);
        // Both are at most `blocks`.
        first as BlockNumber..end as BlockNumber
    }
}

/// The blocks that one scan takes.
#[derive(Debug)]
pub(super) struct BlocksTaken {
    shared: Arc<SharedBlocks>,
    /// What is left of its chunk.
    chunk: Range<BlockNumber>,
    size: u32,
}

impl BlocksTaken {
    pub(super) fn of(shared: &Arc<SharedBlocks>) -> BlocksTaken {
        BlocksTaken { shared: Arc::clone(shared), chunk: 0..0, size: shared.chunk }
    }
}

impl Iterator for BlocksTaken {
    type Item = BlockNumber;

    fn next(&mut self) -> Option<BlockNumber> {
        if self.chunk.is_empty() {
            self.chunk = self.shared.take(&mut self.size);
        }
        self.chunk.next().map(|taken| self.shared.block(taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_take_each_block_once_and_chunks_shrink_to_the_least() {
        let sizes = [0, 1, 2, 63, 64, 2048, 4096, 131_072, 200_001];
        for (blocks, least) in sizes.into_iter().flat_map(|blocks| [(blocks, 1), (blocks, 24)]) {
            let start = blocks / 3;
            let shared = Arc::new(SharedBlocks::new(blocks, start, least));
            let mut scans = [0; 3].map(|_| BlocksTaken::of(&shared));
            // In turns of five blocks.
            let mut turns = (0..15).cycle();
            let next = || turns.next().and_then(|turn| scans[turn / 5].next());
            let mut taken: Vec<BlockNumber> = std::iter::from_fn(next).collect();
            taken.extend(scans.iter_mut().flatten());
            if blocks > 1 {
                assert_eq!(scans.iter().map(|scan| scan.size).min(), Some(least), "{blocks}");
            }
            assert_eq!(taken.first(), (blocks > 0).then_some(&start));
            taken.sort_unstable();
            assert!(taken.into_iter().eq(0..blocks), "{blocks}");
        }
    }

    #[test]
    fn the_first_chunks_have_postgresqls_sizes() {
        for (blocks, size) in
            [(0, 1), (4095, 1), (4096, 2), (131_072, 64), (140_000, 128), (u32::MAX, 8192)]
        {
            assert_eq!(SharedBlocks::new(blocks, 0, 1).chunk, size, "{blocks}");
        }
    }

    #[test]
    fn no_block_is_handed_out_after_the_end() {
        let shared = Arc::new(SharedBlocks::new(1 << 20, 0, 1));
        let mut scan = BlocksTaken::of(&shared);
        assert_eq!(scan.next(), Some(0));
        shared.end();
        // The chunk that it has is its own.
        assert_eq!(scan.last(), Some(511));
        assert_eq!(BlocksTaken::of(&shared).next(), None);
    }
}
