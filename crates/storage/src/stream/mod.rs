//! A read stream: the pages that a callback names, in its order, read ahead.
//!
//! | module | what it holds |
//! |---|---|
//! | `source` | [`BlockSource`]: what names the blocks, and a value of the caller's for each |
//! | `distance` | how far to look ahead, and how much to read at once |
//!
//! ```text
//!   source --> pending (neighbours, not started) --> slots (pinned; read, being read, or hit) --> next()
//!              |<-------- at most the distance; and what makes the last read whole -------->|
//! ```
//!
//! A pending read goes out when it has the combine distance's size, when the next block is no
//! neighbour, at the end, or when nothing else is left to return. While all pages are hits there is
//! no look-ahead at all, and a page costs what a plain pin costs.
//!
//! A stream may pin one page always; for more it takes from what the pool sets aside for
//! look-ahead, and gives that back when it needs it no more.

mod distance;
mod source;

pub use source::{BlockSource, WithData};

pub(crate) use distance::Distance;

use crate::Backend;
use crate::error::StorageError;
use crate::pool::{BufferPool, Pinned, Ring, Slot, SlotState, Strategy};
use forebay_aio::{IoOp, WaitRef};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use std::collections::VecDeque;
use std::sync::Arc;

/// How a stream behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFlags {
    /// The caller will want all of it: look ahead in full from the start.
    pub full: bool,
    /// The blocks mostly follow one another: the first read is as large as the later ones.
    pub sequential: bool,
    /// Work for many sessions, such as vacuum: as many reads as
    /// [`StreamSettings::maintenance_io_concurrency`] says.
    pub maintenance: bool,
    /// The callback waits for nothing, so reads may be held back while it is called, and submitted
    /// together.
    pub batching: bool,
}

impl StreamFlags {
    /// Start with a distance of 1; the callback does not wait.
    pub const DEFAULT: StreamFlags =
        StreamFlags { full: false, sequential: false, maintenance: false, batching: true };
    /// Start with the full distance.
    pub const FULL: StreamFlags = StreamFlags { full: true, ..StreamFlags::DEFAULT };
    /// Start with reads of full size.
    pub const SEQUENTIAL: StreamFlags = StreamFlags { sequential: true, ..StreamFlags::DEFAULT };
    /// With the concurrency of maintenance work.
    pub const MAINTENANCE: StreamFlags = StreamFlags { maintenance: true, ..StreamFlags::DEFAULT };
    /// The callback may take locks or read pages itself.
    pub const WAITING_CALLBACK: StreamFlags =
        StreamFlags { batching: false, ..StreamFlags::DEFAULT };
}

impl Default for StreamFlags {
    fn default() -> Self {
        StreamFlags::DEFAULT
    }
}

/// Blocks that reads should have that are submitted together: enough to be worth a system call; no
/// more, as the disk should not wait while they are prepared.
const TOGETHER: usize = 8;

/// The session's settings that streams go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// effective_io_concurrency: reads in flight at once. 0 is 1.
    pub io_concurrency: u32,
    /// maintenance_io_concurrency: the same, for maintenance work.
    pub maintenance_io_concurrency: u32,
    /// io_combine_limit: blocks in one read, bounded by the pool's own limit.
    pub combine_limit: u32,
}

impl StreamSettings {
    /// So many reads in flight at once, whatever the work, and so many blocks in one.
    pub fn new(io_concurrency: u32, combine_limit: u32) -> StreamSettings {
        StreamSettings { io_concurrency, maintenance_io_concurrency: io_concurrency, combine_limit }
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings::new(16, 16)
    }
}

/// Pages of one fork, in the order of a callback.
pub struct ReadStream<S: BlockSource> {
    pool: Arc<BufferPool>,
    rel: RelFileLocator,
    fork: Fork,
    source: S,
    flags: StreamFlags,
    strategy: Strategy,
    ring: Ring,
    slots: VecDeque<Slot>,
    /// Neighbouring blocks that are not started yet: first and number.
    pending: (BlockNumber, u32),
    /// A block that the source gave and that found no room yet.
    put_back: Option<BlockNumber>,
    /// What the source gave with the blocks of `slots`, `pending` and `put_back`, in this order.
    data: VecDeque<S::Data>,
    ended: bool,
    distance: Distance,
    /// Own reads that were not waited for yet.
    in_flight: VecDeque<WaitRef>,
    max_reads: usize,
    /// How many there may be at the end of the present look-ahead.
    bound: usize,
    /// How many reads are started, and submitted, together: one after a wait, when the disk may
    /// have nothing to do; then more, up to so many as have [`TOGETHER`] blocks.
    several: usize,
    /// The last own read that was waited for.
    waited: Option<WaitRef>,
    /// Pins taken from what the pool sets aside.
    claimed: u32,
}

impl<S: BlockSource> ReadStream<S> {
    /// A stream over the blocks of `source`.
    pub fn new(
        pool: &Arc<BufferPool>,
        rel: RelFileLocator,
        fork: Fork,
        source: S,
        flags: StreamFlags,
        strategy: Strategy,
        settings: StreamSettings,
    ) -> Self {
        let strategy = pool.effective(strategy);
        let reads = if flags.maintenance {
            settings.maintenance_io_concurrency
        } else {
            settings.io_concurrency
        };
        let max_reads = reads.max(1);
        let combine = settings.combine_limit.clamp(1, pool.config.combine_limit);
        let buffers = pool.buffers();
        let look_ahead = max_reads.saturating_mul(combine).min(buffers as u32 / 2).max(1);
        let ring = Ring::new(strategy, buffers, look_ahead as usize);
        let most = match strategy {
            Strategy::Normal => look_ahead,
            ringed => look_ahead.min(ringed.ring_size(buffers, look_ahead as usize) as u32),
        };
        let mut stream = ReadStream {
            pool: Arc::clone(pool),
            rel,
            fork,
            source,
            flags,
            strategy,
            ring,
            slots: VecDeque::new(),
            pending: (0, 0),
            put_back: None,
            data: VecDeque::new(),
            ended: false,
            distance: Distance::new(most, combine),
            in_flight: VecDeque::new(),
            max_reads: max_reads as usize,
            bound: max_reads as usize,
            several: 1,
            waited: None,
            claimed: 0,
        };
        stream.begin();
        stream
    }

    /// The distance that the flags ask for at the beginning.
    fn begin(&mut self) {
        if self.flags.full {
            self.distance.in_full();
        } else if self.flags.sequential {
            self.distance.combine_in_full();
        }
        self.claim();
    }

    /// The next page, pinned; None at the end. After an error the stream may be asked for the pages
    /// behind the bad one.
    pub fn next(&mut self, be: &mut Backend) -> Result<Option<Pinned>, StorageError> {
        Ok(self.next_with_data(be)?.map(|(pin, _)| pin))
    }

    /// The next page, and what the source gave with its block.
    pub fn next_with_data(
        &mut self,
        be: &mut Backend,
    ) -> Result<Option<(Pinned, S::Data)>, StorageError> {
        let visit = self.pool.visit(be);
        if self.distance.is_least() && self.slots.is_empty() && self.pending.1 == 0 && !self.ended {
            let Some(block) = self.take_block() else {
                self.ended = true;
                return Ok(None);
            };
            if let Some(buf) = self.cached(be, block) {
                self.return_claimed();
                let pin = Pinned::new(visit, buf);
                return Ok(self.data.pop_front().map(|data| (pin, data)));
            }
            self.pending = (block, 1);
        }
        if self.slots.is_empty() {
            self.look_ahead(be)?;
        }
        self.keep_going(be)?;
        if let Some(&Slot { state: SlotState::Own(wait), .. }) = self.slots.front() {
            self.wait_own(be, wait)?;
        }
        let (Some(slot), Some(data)) = (self.slots.pop_front(), self.data.pop_front()) else {
            return Ok(None);
        };
        let pin = Pinned::new(visit, slot.buf);
        match slot.state {
            SlotState::Ready => return Ok(Some((pin, data))),
            SlotState::Own(_) => {}
            SlotState::Foreign => {
                if !self.pool.is_valid(slot.buf) {
                    self.blocked();
                }
            }
        }
        self.pool.await_slot(be, slot.buf, slot.state, self.strategy.context())?;
        Ok(Some((pin, data)))
    }

    /// Blocks that the stream may have in hand now: pinned, being read, or about to be.
    pub fn distance(&self) -> u32 {
        self.distance.window().min(self.claimed + 1)
    }

    /// The source, to lead it elsewhere after a [`Self::reset`], or before [`Self::resume`].
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The source said that there was nothing, and now there may be something: it is asked again.
    /// The distance stays as it was.
    pub fn resume(&mut self) {
        self.ended = false;
    }

    /// Forgets the blocks that were looked ahead, and begins anew with whatever the source says
    /// next.
    pub fn reset(&mut self) {
        self.forget();
        self.ended = false;
        self.distance.least();
        self.begin();
    }

    /// Gives up all that is in hand. Reads in flight have pins of their own and end without us.
    fn forget(&mut self) {
        for slot in self.slots.drain(..) {
            self.pool.core.unpin(slot.buf);
        }
        self.data.clear();
        self.pending = (0, 0);
        self.put_back = None;
        self.in_flight.clear();
        self.waited = None;
        self.return_claimed();
    }

    /// Pins a page if it is in memory.
    fn cached(&mut self, be: &mut Backend, block: BlockNumber) -> Option<u32> {
        let tag = PageTag::new(self.rel, self.fork, block);
        let (buf, valid) = self.pool.pin_if_cached(&tag, self.ring.is_used())?;
        if !valid {
            self.pool.core.unpin(buf);
            return None;
        }
        be.io.count(self.pool.object(), self.strategy.context(), IoOp::Hit, 1);
        Some(buf)
    }

    fn take_block(&mut self) -> Option<BlockNumber> {
        if let Some(block) = self.put_back.take() {
            return Some(block);
        }
        let (block, data) = self.source.next_block()?;
        self.data.push_back(data);
        Some(block)
    }

    /// Waits for an own read once, whichever of its pages comes first, and adapts the distance.
    /// Meanwhile later ones are started in place of those that end before it.
    fn wait_own(&mut self, be: &mut Backend, wait: WaitRef) -> Result<(), StorageError> {
        if self.waited == Some(wait) {
            return Ok(());
        }
        if !be.io.is_done(wait) {
            self.blocked();
            while !be.io.is_done(wait) {
                be.io.wait_for_arrival(wait);
                self.several = 1;
                self.keep_going(be)?;
            }
        }
        self.waited = Some(wait);
        self.in_flight.retain(|&read| read != wait);
        // Even if it has ended: the handle, and with it the file, is given back.
        be.io.wait(wait);
        Ok(())
    }

    fn blocked(&mut self) {
        self.distance.waited();
        self.claim();
    }

    /// Takes the pins that the distances ask for, as far as they can be had.
    fn claim(&mut self) {
        let want = self.distance.window() - 1;
        if want > self.claimed {
            self.claimed += self.pool.claim_pins(self.claimed, want - self.claimed);
        }
    }

    fn return_claimed(&mut self) {
        self.pool.return_pins(std::mem::take(&mut self.claimed));
    }

    /// Blocks in hand.
    fn held(&self) -> u32 {
        self.slots.len() as u32 + self.pending.1
    }

    /// Is there something to be looked ahead for: the distance is not reached, or the last read not
    /// whole?
    fn may_look_ahead(&self) -> bool {
        let held = self.held();
        !self.ended
            && held < self.distance()
            && (held < self.distance.ahead()
                || self.pending.1 > 0 && self.pending.1 < self.distance.combine())
    }

    /// Looks ahead as far as several reads can be started at once, again and again.
    fn keep_going(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        while self.may_look_ahead() && self.may_read_several(be) {
            let (reads, pages) = (self.in_flight.len(), self.slots.len());
            self.look_ahead(be)?;
            if self.in_flight.len() == reads {
                break; // hits, or no buffer to be had
            }
            let most = self.max_reads.div_ceil(4);
            self.several = match self.slots.len() - pages {
                ..TOGETHER => (self.several * 2).min(most),
                TOGETHER => self.several,
                _ => self.several.div_ceil(2),
            };
        }
        Ok(())
    }

    /// Is there room for several reads more? Those that the disk is through with don't count,
    /// though nobody has seen to them yet.
    fn may_read_several(&mut self, be: &Backend) -> bool {
        self.bound = self.in_flight.len() + self.several;
        if self.bound <= self.max_reads {
            return true;
        }
        self.in_flight.retain(|&read| !be.io.is_known_done(read));
        self.bound = self.in_flight.len() + self.several;
        self.bound <= self.max_reads + be.io.arrived()
    }

    /// Takes blocks from the source and starts reads, up to the distance; in one batch if the
    /// source does not mind.
    fn look_ahead(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        if !self.flags.batching {
            return self.stage_ahead(be);
        }
        be.io.begin_batch();
        let result = self.stage_ahead(be);
        be.io.end_batch();
        result
    }

    fn stage_ahead(&mut self, be: &mut Backend) -> Result<(), StorageError> {
        while self.may_look_ahead() && self.in_flight.len() < self.bound {
            let (first, n) = self.pending;
            if n > 0 && n >= self.room(first) {
                if !self.start_pending(be)? {
                    return Ok(());
                }
                continue;
            }
            let beyond = self.held() >= self.distance.ahead();
            let Some(block) = self.take_block() else {
                self.ended = true;
                break;
            };
            if n > 0 && first.checked_add(n) == Some(block) {
                self.pending.1 += 1;
                continue;
            }
            let started = n == 0 || self.start_pending(be)?;
            if !started || self.pending.1 > 0 || beyond {
                // Buffers were scarce, a part is still pending; or it was a guess that the block be
                // a neighbour.
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
        self.pool.combinable(first).min(self.distance.combine())
    }

    /// Starts the pending read, or a part of it. False if no buffer was to be had, which is only
    /// accepted while there are pages to return.
    fn start_pending(&mut self, be: &mut Backend) -> Result<bool, StorageError> {
        let (first, n) = self.pending;
        let base = self.slots.len();
        let tag = PageTag::new(self.rel, self.fork, first);
        let patient = base == 0;
        let started = self.pool.start_read(
            be,
            tag,
            n,
            self.strategy,
            &mut self.ring,
            &mut self.slots,
            patient,
        );
        let got = match started {
            Ok(got) => got,
            Err(error) => {
                // The caller learns of it once, and may go on behind it.
                self.pending = (0, 0);
                self.data.drain(base..base + n as usize);
                return Err(error);
            }
        };
        self.pending = (first + got, n - got);
        self.took(base);
        Ok(got > 0)
    }

    /// Learns from the slots that were filled from `base` on.
    fn took(&mut self, base: usize) {
        let mut last = None;
        for slot in self.slots.range(base..) {
            match slot.state {
                SlotState::Own(wait) if last != Some(wait) => {
                    self.in_flight.push_back(wait);
                    self.distance.read();
                    last = Some(wait);
                }
                SlotState::Ready => self.distance.hit(),
                _ => {}
            }
        }
        self.claim();
    }
}

impl<S: BlockSource> Drop for ReadStream<S> {
    fn drop(&mut self) {
        self.forget();
    }
}

impl<S: BlockSource> std::fmt::Debug for ReadStream<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadStream")
            .field("relation", &self.rel)
            .field("distance", &self.distance)
            .field("slots", &self.slots.len())
            .finish_non_exhaustive()
    }
}
