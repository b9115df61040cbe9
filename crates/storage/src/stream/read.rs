//! A read stream returns the pages that a callback names, in its order, and reads them ahead.
//!
//! ```text
//!   source --> pending --> slots --> next()
//!              |           |
//!              |           pinned pages: in memory, or being read
//!              neighbours whose read is not started
//!
//!   pending + slots <= the distance, plus what completes the last read
//! ```
//!
//! The pending read is started when it has the size of the combine distance, when the next block is
//! not a neighbour, at the end of the source, or when no page is left to return. While all pages
//! are hits, the stream does not look ahead, and a page costs no more than a plain pin.
//!
//! A stream may always pin one page. Further pins come from the pool's spare ones, and the stream
//! gives them back when it no longer needs them.

use super::distance::Distance;
use super::source::BlockSource;
use crate::error::StorageError;
use crate::pool::{Backend, BufferPool, Manner, Pinned, Slot, SlotState, Strategy};
use forebay_aio::{IoOp, WaitRef};
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};
use std::collections::VecDeque;
use std::sync::Arc;

/// How a stream behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFlags {
    /// The caller will read all pages: look ahead in full from the start.
    pub full: bool,
    /// The blocks mostly follow one another: the first read already has full size.
    pub sequential: bool,
    /// Work for many sessions, such as vacuum: use
    /// [`StreamSettings::maintenance_io_concurrency`].
    pub maintenance: bool,
    /// The callback never waits. So reads may stay staged while it runs, and are submitted
    /// together.
    pub batching: bool,
}

impl StreamFlags {
    /// Starts with a distance of 1; the callback does not wait.
    pub const DEFAULT: StreamFlags =
        StreamFlags { full: false, sequential: false, maintenance: false, batching: true };
    /// Starts with the full distance.
    pub const FULL: StreamFlags = StreamFlags { full: true, ..StreamFlags::DEFAULT };
    /// Starts with reads of full size.
    pub const SEQUENTIAL: StreamFlags = StreamFlags { sequential: true, ..StreamFlags::DEFAULT };
    /// Uses the concurrency of maintenance work.
    pub const MAINTENANCE: StreamFlags = StreamFlags { maintenance: true, ..StreamFlags::DEFAULT };
    /// The callback may take locks or read pages.
    pub const WAITING_CALLBACK: StreamFlags =
        StreamFlags { batching: false, ..StreamFlags::DEFAULT };
}

impl Default for StreamFlags {
    fn default() -> Self {
        StreamFlags::DEFAULT
    }
}

/// Blocks that reads submitted together should have: enough to be worth a system call, and few
/// enough that the disk does not wait while they are prepared.
const TOGETHER: usize = 8;

/// The settings of a session that streams follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSettings {
    /// Reads in flight at once (effective_io_concurrency). 0 counts as 1.
    pub io_concurrency: u32,
    /// The same for maintenance work (maintenance_io_concurrency).
    pub maintenance_io_concurrency: u32,
    /// Blocks in one read, bounded by the pool's own limit (io_combine_limit).
    pub combine_limit: u32,
}

impl StreamSettings {
    /// Settings for `io_concurrency` reads in flight, whatever the work.
    pub fn new(io_concurrency: u32, combine_limit: u32) -> StreamSettings {
        StreamSettings { io_concurrency, maintenance_io_concurrency: io_concurrency, combine_limit }
    }
}

impl Default for StreamSettings {
    fn default() -> Self {
        StreamSettings::new(16, 16)
    }
}

/// What a stream has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Pages returned.
    pub returned: u64,
    /// Pages that were in memory, or being read by another backend, when the stream came to them.
    pub hits: u64,
    /// Own reads, of one or several pages.
    pub reads: u64,
    /// Pages of own reads.
    pub pages_read: u64,
    /// Own reads that were in progress when one was started, that one included: their sum.
    pub in_progress_sum: u64,
    /// Waits for a read that had not ended when the turn of its page came.
    pub waits: u64,
    /// Pages that the stream held when it returned one, that one included: their sum.
    pub distance_sum: u64,
    /// The most of them.
    pub distance_max: u32,
    /// The most that it may hold.
    pub capacity: u32,
}

impl StreamStats {
    fn returned(&mut self, held: u32) {
        self.returned += 1;
        self.distance_sum += u64::from(held);
        self.distance_max = self.distance_max.max(held);
    }
}

/// The pages of one fork, in the order of a callback.
pub struct ReadStream<S: BlockSource> {
    pool: Arc<BufferPool>,
    rel: RelFileLocator,
    fork: Fork,
    source: S,
    flags: StreamFlags,
    strategy: Strategy,
    slots: VecDeque<Slot>,
    /// Neighbouring blocks whose read is not started: the first, and how many.
    pending: (BlockNumber, u32),
    /// A block of the source for which there was no room.
    put_back: Option<BlockNumber>,
    /// The source's values for the blocks of `slots`, `pending` and `put_back`, in this order.
    data: VecDeque<S::Data>,
    ended: bool,
    distance: Distance,
    /// Own reads that were not waited for yet.
    in_flight: VecDeque<WaitRef>,
    max_reads: usize,
    /// How many reads there may be at the end of the present look-ahead.
    bound: usize,
    /// How many reads are started and submitted together: one after a wait, when the disk may be
    /// idle; then more, until they have [`TOGETHER`] blocks.
    several: usize,
    /// The last own read that was waited for.
    waited: Option<WaitRef>,
    /// Spare pins taken from the pool.
    claimed: u32,
    stats: StreamStats,
}

impl<S: BlockSource> ReadStream<S> {
    /// Makes a stream over the blocks of `source`.
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
        let most = look_ahead.min(strategy.most_pins(buffers) as u32);
        let mut stream = ReadStream {
            pool: Arc::clone(pool),
            rel,
            fork,
            source,
            flags,
            strategy,
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
            stats: StreamStats { capacity: most, ..StreamStats::default() },
        };
        stream.begin();
        stream
    }

    /// Sets the distance that the flags ask for.
    fn begin(&mut self) {
        if self.flags.full {
            self.distance.in_full();
        } else if self.flags.sequential {
            self.distance.combine_in_full();
        }
        self.claim();
    }

    /// Returns the next page, pinned; None at the end. After an error, further calls return the
    /// pages after the bad one.
    pub fn next(&mut self, backend: &mut Backend) -> Result<Option<Pinned>, StorageError> {
        Ok(self.next_with_data(backend)?.map(|(pin, _)| pin))
    }

    /// Returns the next page, and the source's value for its block.
    pub fn next_with_data(
        &mut self,
        backend: &mut Backend,
    ) -> Result<Option<(Pinned, S::Data)>, StorageError> {
        let permit = self.pool.pin_permit(backend);
        if self.distance.is_least() && self.slots.is_empty() && self.pending.1 == 0 && !self.ended {
            let Some(block) = self.take_block() else {
                self.ended = true;
                return Ok(None);
            };
            if let Some(buf) = self.cached(backend, block) {
                self.return_claimed();
                self.stats.hits += 1;
                self.stats.returned(1);
                let pin = Pinned::new(permit, buf);
                return Ok(Some((pin, self.take_data())));
            }
            self.pending = (block, 1);
        }
        if self.slots.is_empty() {
            self.look_ahead(backend)?;
        }
        self.keep_going(backend)?;
        if let Some(&Slot { state: SlotState::Own(wait), .. }) = self.slots.front() {
            self.wait_own(backend, wait)?;
        }
        let held = self.slots.len() as u32;
        let Some(slot) = self.slots.pop_front() else { return Ok(None) };
        self.stats.returned(held);
        let data = self.take_data();
        let pin = Pinned::new(permit, slot.buf);
        match slot.state {
            SlotState::Ready => return Ok(Some((pin, data))),
            SlotState::Own(_) => {}
            SlotState::Foreign => {
                if !self.pool.is_valid(slot.buf) {
                    self.blocked();
                }
            }
        }
        self.pool.await_slot(backend, slot.buf, slot.state, self.strategy.context())?;
        Ok(Some((pin, data)))
    }

    fn take_data(&mut self) -> S::Data {
        self.data.pop_front().expect("each block has a value")
    }

    /// Returns the number of blocks that the stream may hold now, whether read or pending.
    pub fn distance(&self) -> u32 {
        self.distance.window().min(self.claimed + 1)
    }

    /// Returns what the stream has done so far. A reset does not change it.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }

    /// Returns the source, to be changed before [`Self::resume`] or after [`Self::reset`].
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Asks the source again after it has returned None. The distance stays the same.
    pub fn resume(&mut self) {
        self.ended = false;
    }

    /// Forgets the blocks that were looked ahead, and starts again with the source's next block.
    pub fn reset(&mut self) {
        self.forget();
        self.ended = false;
        self.distance.least();
        self.begin();
    }

    /// Gives up all blocks. Reads in flight have pins of their own and end by themselves.
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
    fn cached(&mut self, backend: &mut Backend, block: BlockNumber) -> Option<u32> {
        let tag = PageTag::new(self.rel, self.fork, block);
        // Counted below: a page that is not in memory is counted when its read is started.
        let used = self.pool.use_now(self.strategy);
        let (buf, valid) = self.pool.pin_if_cached(&tag, Some(used))?;
        if !valid {
            self.pool.core.unpin(buf);
            return None;
        }
        self.pool.begin_use(backend, self.strategy);
        backend.io.count(self.pool.object(), self.strategy.context(), IoOp::Hit, 1);
        self.pool.trace(backend, tag, self.strategy, Manner::Stream, true);
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

    /// Waits for an own read, once for all of its pages, and adapts the distance. Meanwhile further
    /// reads are started as others end.
    fn wait_own(&mut self, backend: &mut Backend, wait: WaitRef) -> Result<(), StorageError> {
        if self.waited == Some(wait) {
            return Ok(());
        }
        if !backend.io.is_done(wait) {
            self.blocked();
            while !backend.io.is_done(wait) {
                backend.io.wait_for_arrival(wait);
                self.several = 1;
                self.keep_going(backend)?;
            }
        }
        self.waited = Some(wait);
        self.in_flight.retain(|&read| read != wait);
        // Also if it has ended: this frees the handle, and with it the file.
        backend.io.wait(wait);
        Ok(())
    }

    fn blocked(&mut self) {
        self.stats.waits += 1;
        self.distance.waited();
        self.claim();
    }

    /// Claims the pins that the distances ask for, as far as the pool has them.
    fn claim(&mut self) {
        let want = self.distance.window() - 1;
        if want > self.claimed {
            self.claimed += self.pool.claim_pins(self.claimed, want - self.claimed);
        }
    }

    fn return_claimed(&mut self) {
        self.pool.return_pins(std::mem::take(&mut self.claimed));
    }

    /// Returns the number of blocks that the stream holds.
    fn held(&self) -> u32 {
        self.slots.len() as u32 + self.pending.1
    }

    /// Whether to look ahead: the distance is not reached, or the pending read has not its full
    /// size.
    fn may_look_ahead(&self) -> bool {
        let held = self.held();
        !self.ended
            && held < self.distance()
            && (held < self.distance.ahead()
                || self.pending.1 > 0 && self.pending.1 < self.distance.combine())
    }

    /// Looks ahead while several reads can be started at once.
    fn keep_going(&mut self, backend: &mut Backend) -> Result<(), StorageError> {
        while self.may_look_ahead() && self.may_read_several(backend) {
            let (reads, pages) = (self.in_flight.len(), self.slots.len());
            self.look_ahead(backend)?;
            if self.in_flight.len() == reads {
                break; // All pages were hits, or no buffer was free.
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

    /// Whether several more reads may be started. Reads that the disk has finished do not count,
    /// even if they are not completed yet.
    fn may_read_several(&mut self, backend: &Backend) -> bool {
        self.bound = self.in_flight.len() + self.several;
        if self.bound <= self.max_reads {
            return true;
        }
        self.in_flight.retain(|&read| !backend.io.is_known_done(read));
        self.bound = self.in_flight.len() + self.several;
        self.bound <= self.max_reads + backend.io.arrived()
    }

    /// Takes blocks from the source and starts reads, up to the distance. Unless the source may
    /// wait, the reads are submitted together.
    fn look_ahead(&mut self, backend: &mut Backend) -> Result<(), StorageError> {
        if !self.flags.batching {
            return self.stage_ahead(backend);
        }
        backend.io.begin_batch();
        let result = self.stage_ahead(backend);
        backend.io.end_batch();
        result
    }

    fn stage_ahead(&mut self, backend: &mut Backend) -> Result<(), StorageError> {
        while self.may_look_ahead() && self.in_flight.len() < self.bound {
            let (first, n) = self.pending;
            if n > 0 && n >= self.room(first) {
                if !self.start_pending(backend)? {
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
            // Kept until it is pending, so that an error of the read before does not lose it.
            self.put_back = Some(block);
            let started = n == 0 || self.start_pending(backend)?;
            if !started || self.pending.1 > 0 || beyond {
                // Buffers are scarce, a part is still pending, or a block beyond the distance was
                // taken in the hope that it is a neighbour.
                return Ok(());
            }
            self.put_back = None;
            self.pending = (block, 1);
        }
        let (first, n) = self.pending;
        if n > 0 && (self.slots.is_empty() || self.ended || n >= self.room(first)) {
            self.start_pending(backend)?;
        }
        Ok(())
    }

    /// Returns the number of blocks that a read starting at `first` may have.
    fn room(&self, first: BlockNumber) -> u32 {
        self.pool.combinable(first).min(self.distance.combine())
    }

    /// Starts the pending read, or a part of it. Returns false if no buffer was free. As long as
    /// there are no pages to return, it waits for one instead.
    fn start_pending(&mut self, backend: &mut Backend) -> Result<bool, StorageError> {
        let (first, n) = self.pending;
        let base = self.slots.len();
        let tag = PageTag::new(self.rel, self.fork, first);
        let may_wait = base == 0;
        let started =
            self.pool.start_read(backend, tag, n, self.strategy, &mut self.slots, may_wait);
        let got = match started {
            Ok(got) => got,
            Err(error) => {
                // The caller gets the error once, and may then go on after these blocks.
                self.pending = (0, 0);
                self.data.drain(base..base + n as usize);
                return Err(error);
            }
        };
        let pinned = self.slots.range(base..);
        self.pool.trace_slots(backend, tag, pinned, self.strategy, Manner::Stream);
        self.pending = (first + got, n - got);
        self.took(base);
        Ok(got > 0)
    }

    /// Adapts the distance to the slots that were filled from `base` on.
    fn took(&mut self, base: usize) {
        let mut last = None;
        for slot in self.slots.range(base..) {
            match slot.state {
                SlotState::Own(wait) if last != Some(wait) => {
                    self.in_flight.push_back(wait);
                    self.stats.reads += 1;
                    self.stats.pages_read += 1;
                    self.stats.in_progress_sum += self.in_flight.len() as u64;
                    self.distance.read();
                    last = Some(wait);
                }
                SlotState::Ready => {
                    self.stats.hits += 1;
                    self.distance.hit();
                }
                SlotState::Foreign => self.stats.hits += 1,
                SlotState::Own(_) => self.stats.pages_read += 1,
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
