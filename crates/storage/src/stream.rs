//! A read stream: the pages that a callback names, in its order, read ahead.
//!
//! ```text
//!   callback --> pending (neighbours, not started) --> slots (pinned; read, being read, or hit) --> next()
//!                |<-------------------- at most `distance` blocks -------------------->|
//! ```
//!
//! The distance starts at 1, or in full; it doubles when a wait really blocks, up to io_concurrency reads of the
//! combine limit, and falls by 1 with each hit. So a scan of cached pages costs what plain pins cost, and a cold one
//! soon keeps the device busy. A pending read goes out when it has the combine limit's size, when the next block is
//! no neighbour, at the end, or when nothing else is left to return.
//!
//! A stream may pin one page always; for more it takes from what the pool sets aside for look-ahead.

use crate::Backend;
use crate::error::StorageError;
use crate::pool::{BufferPool, Pinned, Ring, Slot, SlotState, Strategy};
use forebay_aio::{IoObject, IoOp, WaitRef};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use std::collections::VecDeque;
use std::sync::Arc;

/// How a stream behaves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamFlags {
    /// The caller will want all of it: look ahead in full from the start.
    pub full: bool,
}

impl StreamFlags {
    /// Start with a distance of 1.
    pub const DEFAULT: StreamFlags = StreamFlags { full: false };
    /// Start with the full distance.
    pub const FULL: StreamFlags = StreamFlags { full: true };
}

/// Pages of one fork, in the order of a callback.
pub struct ReadStream<F> {
    pool: Arc<BufferPool>,
    rel: RelFileLocator,
    fork: Fork,
    next_block: F,
    strategy: Strategy,
    ring: Ring,
    slots: VecDeque<Slot>,
    /// Neighbouring blocks that are not started yet: first and number.
    pending: (BlockNumber, u32),
    /// A block that the callback gave and that found no room yet.
    put_back: Option<BlockNumber>,
    ended: bool,
    distance: u32,
    max_distance: u32,
    combine: u32,
    reads_in_flight: u32,
    max_reads: u32,
    /// The last own read that was waited for.
    waited: Option<WaitRef>,
    /// Pins taken from what the pool sets aside.
    claimed: u32,
}

impl<F: FnMut() -> Option<BlockNumber>> ReadStream<F> {
    /// A stream over the blocks that `next_block` returns until it returns None.
    #[expect(
        clippy::too_many_arguments,
        reason = "a stream is made in few places, each with its own settings"
    )]
    pub fn new(
        pool: &Arc<BufferPool>,
        rel: RelFileLocator,
        fork: Fork,
        next_block: F,
        flags: StreamFlags,
        strategy: Strategy,
        io_concurrency: u32,
        combine_limit: u32,
    ) -> Self {
        let combine = combine_limit.clamp(1, pool.config.combine_limit);
        let max_reads = io_concurrency.max(1);
        let buffers = pool.buffers();
        let look_ahead = max_reads.saturating_mul(combine).min(buffers as u32 / 2).max(1);
        let ring = Ring::new(strategy, buffers, look_ahead as usize);
        let max_distance = match strategy {
            Strategy::Normal => look_ahead,
            ringed => look_ahead.min(ringed.ring_size(buffers, look_ahead as usize) as u32),
        };
        let mut stream = ReadStream {
            pool: Arc::clone(pool),
            rel,
            fork,
            next_block,
            strategy,
            ring,
            slots: VecDeque::new(),
            pending: (0, 0),
            put_back: None,
            ended: false,
            distance: 1,
            max_distance,
            combine,
            reads_in_flight: 0,
            max_reads,
            waited: None,
            claimed: 0,
        };
        if flags.full {
            stream.grow(max_distance);
        }
        stream
    }

    /// The next page, pinned; None at the end. After an error the stream may be asked for the pages behind the bad
    /// one.
    pub fn next(&mut self, be: &mut Backend) -> Result<Option<Pinned>, StorageError> {
        let visit = self.pool.visit(be);
        if self.distance == 1 && self.slots.is_empty() && self.pending.1 == 0 && !self.ended {
            let Some(block) = self.take_block() else {
                self.ended = true;
                return Ok(None);
            };
            if let Some(buf) = self.cached(be, block) {
                return Ok(Some(Pinned::new(visit, buf)));
            }
            self.pending = (block, 1);
        }
        if (self.slots.len() as u32 + self.pending.1) < self.distance || self.slots.is_empty() {
            self.look_ahead(be)?;
        }
        let Some(slot) = self.slots.pop_front() else { return Ok(None) };
        let pin = Pinned::new(visit, slot.buf);
        match slot.state {
            SlotState::Ready => {}
            SlotState::Own(wait) => {
                self.wait_own(be, wait);
                self.pool.await_slot(&mut be.io, slot.buf, slot.state, self.strategy.context())?;
            }
            SlotState::Foreign => {
                self.pool.await_slot(&mut be.io, slot.buf, slot.state, self.strategy.context())?;
            }
        }
        Ok(Some(pin))
    }

    /// Blocks the stream looks ahead now.
    pub fn distance(&self) -> u32 {
        self.distance
    }

    /// Pins a page if it is in memory.
    fn cached(&mut self, be: &mut Backend, block: BlockNumber) -> Option<u32> {
        let tag = PageTag::new(self.rel, self.fork, block);
        let (buf, valid) = self.pool.pin_if_cached(&tag, self.ring.is_used())?;
        if !valid {
            self.pool.core.unpin(buf);
            return None;
        }
        be.io.count(IoObject::Relation, self.strategy.context(), IoOp::Hit, 1);
        Some(buf)
    }

    fn take_block(&mut self) -> Option<BlockNumber> {
        self.put_back.take().or_else(|| (self.next_block)())
    }

    /// Waits for an own read once, whichever of its pages comes first, and adapts the distance.
    fn wait_own(&mut self, be: &mut Backend, wait: WaitRef) {
        if self.waited == Some(wait) {
            return;
        }
        self.waited = Some(wait);
        self.reads_in_flight -= 1;
        let ended = be.io.is_done(wait);
        // Even if it has ended: the handle, and with it the file, is given back.
        be.io.wait(wait);
        if ended {
            // Fast enough; but reads of single blocks waste the device's time.
            if self.distance < self.combine {
                self.grow(self.distance.saturating_mul(2).min(self.combine));
            }
        } else {
            self.grow(self.distance.saturating_mul(2));
        }
    }

    /// Raises the distance, as far as pins can be had.
    fn grow(&mut self, to: u32) {
        let to = to.min(self.max_distance);
        if to > self.claimed + 1 {
            self.claimed += self.pool.claim_pins(self.claimed, to - self.claimed - 1);
        }
        self.distance = self.distance.max(to.min(self.claimed + 1));
    }

    /// Takes blocks from the callback and starts reads, up to the distance; in one batch.
    fn look_ahead(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        be.io.begin_batch();
        let result = self.stage_ahead(be);
        be.io.end_batch();
        result
    }

    fn stage_ahead(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        while !self.ended
            && self.reads_in_flight < self.max_reads
            && (self.slots.len() as u32 + self.pending.1) < self.distance
        {
            let (first, n) = self.pending;
            if n > 0 && n >= self.room(first) {
                if !self.start_pending(be)? {
                    return Ok(());
                }
                continue;
            }
            let Some(block) = self.take_block() else {
                self.ended = true;
                break;
            };
            if n > 0 && first.checked_add(n) == Some(block) {
                self.pending.1 += 1;
                continue;
            }
            if n > 0 && !self.start_pending(be)? {
                self.put_back = Some(block);
                return Ok(());
            }
            if self.pending.1 > 0 {
                // Buffers were scarce: a part is still pending.
                self.put_back = Some(block);
                return Ok(());
            }
            self.pending = (block, 1);
        }
        let (first, n) = self.pending;
        if n > 0 && (self.slots.is_empty() || self.ended || n >= self.room(first)) {
            self.start_pending(be)?;
        }
        Ok(())
    }

    /// Blocks that a read that starts at `first` may have.
    fn room(&self, first: BlockNumber) -> u32 {
        self.pool.combinable(first).min(self.combine)
    }

    /// Starts the pending read, or a part of it. False if no buffer was to be had, which is only accepted while
    /// there are pages to return.
    fn start_pending(&mut self, be: &mut Backend) -> Result<bool, StorageError> {
        let (first, n) = self.pending;
        let base = self.slots.len();
        let tag = PageTag::new(self.rel, self.fork, first);
        let patient = base == 0;
        let started =
            self.pool.start_read(&mut be.io, tag, n, self.strategy, &mut self.ring, &mut self.slots, patient);
        let got = match started {
            Ok(got) => got,
            Err(error) => {
                // The caller learns of it once, and may go on behind it.
                self.pending = (0, 0);
                return Err(error);
            }
        };
        self.pending = (first + got, n - got);
        let mut last = None;
        for slot in self.slots.range(base..) {
            match slot.state {
                SlotState::Own(wait) if last != Some(wait) => {
                    self.reads_in_flight += 1;
                    last = Some(wait);
                }
                SlotState::Ready => self.distance = (self.distance - 1).max(1),
                _ => {}
            }
        }
        Ok(got > 0)
    }
}

impl<F> Drop for ReadStream<F> {
    fn drop(&mut self) {
        // Reads in flight have pins of their own and end without us.
        for slot in self.slots.drain(..) {
            self.pool.core.unpin(slot.buf);
        }
        self.pool.return_pins(self.claimed);
    }
}

impl<F> std::fmt::Debug for ReadStream<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadStream")
            .field("relation", &self.rel)
            .field("distance", &self.distance)
            .field("slots", &self.slots.len())
            .finish_non_exhaustive()
    }
}
