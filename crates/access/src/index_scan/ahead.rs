//! Which items of an index scan come next, in chunks whose rows are on one heap page.
//!
//! The pages of chunks are handed to a read stream. While all of them are in memory, one chunk is
//! planned at a time. Once the stream has waited for a page, as many are planned as it looks ahead;
//! but not many more than were used so far, so that a scan with a LIMIT reads little in vain.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::VecDeque;

use forebay_format::{BlockNumber, Fork};
use forebay_storage::{
    Backend, BlockSource, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings,
};

use super::leaves::Loaded;
use crate::error::AccessError;
use crate::heap::{Heap, ReadAhead};
use crate::nbtree::{Direction, Item};

/// Items in the first chunk. Later ones may have more and more, up to all those of a page.
const FIRST_CHUNK: usize = 4;
/// No heap page has more rows.
const LARGEST_CHUNK: usize = 512;
/// Chunks that may be planned ahead before any was used.
const FIRST_AHEAD: usize = 2;

/// Consecutive items of a batch, by their places in the direction of the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The batch's number.
    pub(super) batch: u64,
    /// The index of the first item.
    pub(super) first: usize,
    /// How many there are.
    pub(super) count: usize,
    /// The heap page that their rows are on. None: nobody need look there.
    pub(super) block: Option<BlockNumber>,
}

impl Chunk {
    /// The index of one of the items.
    pub(super) fn item(&self, n: usize, direction: Direction) -> usize {
        match direction {
            Direction::Forward => self.first + n,
            Direction::Backward => self.first.saturating_sub(n),
        }
    }
}

/// The pages of planned chunks, for the stream.
#[derive(Debug, Default)]
struct Blocks(VecDeque<BlockNumber>);

impl BlockSource for Blocks {
    type Data = ();

    fn next_block(&mut self) -> Option<(BlockNumber, ())> {
        self.0.pop_front().map(|block| (block, ()))
    }
}

/// The chunks to come.
#[derive(Debug)]
pub(super) struct Plan {
    chunks: VecDeque<Chunk>,
    /// Chunks with a heap page.
    with_pages: usize,
    /// Chunks that were used since the scan began.
    used: usize,
    /// Items that were planned since then.
    planned: u64,
    stream: ReadStream<Blocks>,
}

impl Plan {
    pub(super) fn new(heap: &Heap, ahead: ReadAhead) -> Plan {
        let stream = ReadStream::new(
            &heap.pool,
            heap.locator,
            Fork::Main,
            Blocks::default(),
            StreamFlags::DEFAULT,
            Strategy::Normal,
            StreamSettings::new(ahead.io_concurrency, ahead.combine_limit),
        );
        Plan { chunks: VecDeque::new(), with_pages: 0, used: 0, planned: 0, stream }
    }

    pub(super) fn stream_stats(&self) -> forebay_storage::StreamStats {
        self.stream.stats()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Items that were planned since the scan began.
    pub(super) fn planned(&self) -> u64 {
        self.planned
    }

    /// Whether pages had to be waited for, so that the scan reads ahead.
    pub(super) fn reads_ahead(&self) -> bool {
        self.stream.distance() > 1
    }

    /// Whether further chunks should be planned now.
    pub(super) fn wants_more(&self) -> bool {
        let distance = self.stream.distance() as usize;
        distance > 1 && self.with_pages < distance.min(FIRST_AHEAD + self.used / 2)
    }

    /// Plans a chunk from item `first` of a batch on.
    pub(super) fn add(
        &mut self,
        loaded: &Loaded,
        batch: u64,
        first: usize,
        direction: Direction,
    ) -> usize {
        let most = FIRST_CHUNK.saturating_mul(self.used + 1).min(LARGEST_CHUNK);
        let items = loaded.batch.items();
        let is_alike = |index: usize, begin: &Item| {
            let visible = loaded.is_visible(index);
            visible == loaded.is_visible(first)
                && items.get(index).is_some_and(|item| visible || item.tid.block == begin.tid.block)
        };
        let Some(begin) = items.get(first) else { return 0 };
        let left = match direction {
            Direction::Forward => items.len() - first,
            Direction::Backward => first + 1,
        };
        let mut chunk = Chunk { batch, first, count: 1, block: None };
        while chunk.count < left.min(most) && is_alike(chunk.item(chunk.count, direction), begin) {
            chunk.count += 1;
        }
        if !loaded.is_visible(first) {
            chunk.block = Some(begin.tid.block);
            self.with_pages += 1;
            self.stream.source_mut().0.push_back(begin.tid.block);
            self.stream.resume();
        }
        self.planned += chunk.count as u64;
        self.chunks.push_back(chunk);
        chunk.count
    }

    /// The next chunk, with its page.
    pub(super) fn next(
        &mut self,
        backend: &mut Backend,
    ) -> Result<Option<(Chunk, Option<Pinned>)>, AccessError> {
        let Some(&chunk) = self.chunks.front() else { return Ok(None) };
        let pin = match chunk.block {
            None => None,
            Some(block) => {
                let pin = self.stream.next(backend)?.expect("the page was handed to the stream");
                assert_eq!(pin.tag().block, block, "the stream keeps the order of chunks");
                self.with_pages -= 1;
                Some(pin)
            }
        };
        self.chunks.pop_front();
        self.used += 1;
        Ok(Some((chunk, pin)))
    }

    /// Forgets all chunks, and what was read ahead for them.
    pub(super) fn forget(&mut self) {
        self.chunks.clear();
        self.with_pages = 0;
        self.stream.source_mut().0.clear();
        self.stream.reset();
    }

    /// Forgets all chunks, for a scan that begins anew.
    pub(super) fn begin(&mut self) {
        self.forget();
        (self.used, self.planned) = (0, 0);
    }
}
