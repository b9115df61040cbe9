//! The cleaner: keeps clean buffers ahead of the clock's hand, so that nobody who needs one waits
//! for a write.
//!
//! ```text
//!        hand                 wake                       clean_to
//!   ------|--------------------|----------------------------|------------------------> clock
//!         |<--- looked at: idle buffers are clean here ---->|
//! ```
//!
//! How many it wants there follows from how fast buffers were taken lately: it rises at once and
//! falls slowly. It looks again after its delay, and earlier when it is called: when the hand has
//! come halfway, or meets a dirty buffer. So a burst does not outrun it for the time of a delay.

use super::BufferPool;
use super::desc::{DIRTY, refcount, usage};
use crate::Backend;
use crate::error::StorageError;
use crate::write_stream::{WriteOptions, WriteStream};
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};

/// Clean buffers wanted ahead at least, where the pool is not small.
const AT_LEAST: f64 = 256.0;
/// Times between two looks at the rate that are too short to tell one.
const TOO_SHORT: Duration = Duration::from_millis(2);
/// Delays for which an idle cleaner rests.
const HIBERNATION: u32 = 50;
/// How slowly the rate falls: the part of the old one that is kept.
const KEPT: f64 = 15.0 / 16.0;

/// A clock position that the hand never reaches.
const NOT_BY_DEMAND: u64 = u64::MAX;

/// Where the cleaner sleeps, and how it is called.
pub(crate) struct Demand {
    /// The clock position at which the hand calls; never while nobody sleeps or was called already.
    wake_at: AtomicU64,
    called: Mutex<bool>,
    wake: Condvar,
}

impl Demand {
    pub(crate) fn new() -> Demand {
        Demand {
            wake_at: AtomicU64::new(NOT_BY_DEMAND),
            called: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Has the hand come so far that the cleaner should look?
    pub(crate) fn is_due(&self, hand: u64) -> bool {
        hand >= self.wake_at.load(Ordering::Relaxed)
    }

    /// Calls the cleaner, if it sleeps.
    pub(crate) fn call(&self) {
        if self.wake_at.load(Ordering::Relaxed) != NOT_BY_DEMAND
            && self.wake_at.swap(NOT_BY_DEMAND, Ordering::SeqCst) != NOT_BY_DEMAND
        {
            self.call_in_any_case();
        }
    }

    fn call_in_any_case(&self) {
        *self.called.lock() = true;
        self.wake.notify_one();
    }

    /// Sleeps until called, at most for `time`.
    fn sleep(&self, wake_at: u64, time: Duration) {
        let mut called = self.called.lock();
        if !*called {
            self.wake_at.store(wake_at, Ordering::SeqCst);
            self.wake.wait_for(&mut called, time);
            self.wake_at.store(NOT_BY_DEMAND, Ordering::SeqCst);
        }
        *called = false;
    }
}

/// How the cleaner works.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanerOptions {
    /// Most pages written in one round (bgwriter_lru_maxpages); 0: it does not work.
    pub max_pages: usize,
    /// How many times what was needed lately is kept clean (bgwriter_lru_multiplier).
    pub multiplier: f64,
    /// Time between rounds that nobody called for (bgwriter_delay).
    pub delay: Duration,
    /// Blocks after which the kernel is told to write back what it has buffered
    /// (bgwriter_flush_after); 0: never.
    pub flush_after: u32,
}

impl Default for CleanerOptions {
    fn default() -> Self {
        let delay = Duration::from_millis(200);
        CleanerOptions { max_pages: 100, multiplier: 2.0, delay, flush_after: 64 }
    }
}

impl CleanerOptions {
    /// How long a cleaner rests that nobody calls. A round that stopped at its limit is followed by
    /// the next without much ado while buffers are in demand; where nobody needs any, it
    /// hibernates.
    pub fn rest_after(&self, last: CleanReport) -> Duration {
        match last {
            CleanReport { limited: true, idle: false, .. } => Duration::ZERO,
            CleanReport { limited: false, idle: true, cleaned: 0 } => {
                self.delay.saturating_mul(HIBERNATION)
            }
            _ => self.delay,
        }
    }
}

/// What a round of the cleaner did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanReport {
    /// Pages written.
    pub cleaned: u64,
    /// True if it stopped at its limit, short of what it wanted.
    pub limited: bool,
    /// True if nobody has needed a buffer since the last round.
    pub idle: bool,
}

/// What a cleaner knows from one round to the next. A pool has one.
#[derive(Debug)]
pub struct Cleaner {
    /// Looked at up to here, in the clock's count.
    clean_to: u64,
    /// Buffers that may be reused between the hand and there, by estimate.
    ahead: f64,
    /// Buffers taken in a second, smoothed.
    rate: f64,
    allocations: u64,
    /// When the rate was last looked at.
    at: Instant,
}

impl Default for Cleaner {
    fn default() -> Self {
        Cleaner { clean_to: 0, ahead: 0.0, rate: 0.0, allocations: 0, at: Instant::now() }
    }
}

impl Cleaner {
    /// One round: writes dirty idle buffers ahead of the hand until enough are clean there. A bad
    /// block does not hold up the others, but the next round does not count on what this one has
    /// found.
    pub fn step(
        &mut self,
        pool: &BufferPool,
        be: &mut Backend,
        options: &CleanerOptions,
    ) -> Result<CleanReport, StorageError> {
        let idle = self.catch_up(pool);
        if options.max_pages == 0 {
            return Ok(CleanReport { idle, ..CleanReport::default() });
        }
        let mut stream = WriteStream::new(
            pool,
            WriteOptions { flush_after: options.flush_after, ..WriteOptions::cleaning(pool) },
        );
        let looked = self.look_ahead(pool, be, options, &mut stream);
        let drained = stream.drain(be);
        let cleaned = stream.report().buffers;
        let limited = *looked.as_ref().unwrap_or(&false);
        pool.counters.cleaned(cleaned, limited);
        if let Err(error) = looked.and(drained) {
            self.ahead = 0.0;
            return Err(error);
        }
        Ok(CleanReport { cleaned, limited, idle })
    }

    /// Goes on from where the last round stopped, and hands dirty idle buffers to the stream. True
    /// if it came to its limit.
    fn look_ahead(
        &mut self,
        pool: &BufferPool,
        be: &mut Backend,
        options: &CleanerOptions,
        stream: &mut WriteStream<'_>,
    ) -> Result<bool, StorageError> {
        let wanted = self.wanted(pool, options);
        let buffers = pool.core.descs.len() as u64;
        let end = pool.hand.load(Ordering::Relaxed) + buffers;
        let mut taken = 0;
        while self.ahead < wanted && self.clean_to < end {
            let at = (self.clean_to % buffers) as u32;
            let desc = pool.desc(at);
            let state = desc.load();
            if refcount(state) == 0 && usage(state) == 0 {
                if state & DIRTY != 0 {
                    if taken == options.max_pages {
                        return Ok(true);
                    }
                    stream.push_buffer(be, desc.tag(), at)?;
                    taken += 1;
                }
                self.ahead += 1.0;
            }
            self.clean_to += 1;
        }
        Ok(false)
    }

    /// Sleeps until the next round is due, or until it is called.
    pub fn rest(&self, pool: &BufferPool, options: &CleanerOptions, last: CleanReport) {
        let hand = pool.hand.load(Ordering::Relaxed);
        let wake_at = match options.max_pages {
            0 => NOT_BY_DEMAND,
            _ if last.limited => hand,
            _ => hand + self.clean_to.saturating_sub(hand) / 2,
        };
        let time = options.rest_after(last);
        if !time.is_zero() {
            pool.demand.sleep(wake_at, time);
        }
    }

    /// Takes in what happened since the last round. True: nothing.
    fn catch_up(&mut self, pool: &BufferPool) -> bool {
        let allocations = pool.counters.allocations();
        let taken = (allocations - self.allocations) as f64;
        let hand = pool.hand.load(Ordering::Relaxed);
        if hand >= self.clean_to {
            self.clean_to = hand;
            self.ahead = 0.0;
        }
        self.ahead = (self.ahead - taken).max(0.0);
        let elapsed = self.at.elapsed();
        if elapsed >= TOO_SHORT {
            let now = taken / elapsed.as_secs_f64();
            self.rate = if now > self.rate { now } else { KEPT * self.rate + (1.0 - KEPT) * now };
            self.at = Instant::now();
        }
        self.allocations = allocations;
        taken == 0.0
    }

    /// How many clean buffers there should be ahead of the hand.
    fn wanted(&self, pool: &BufferPool, options: &CleanerOptions) -> f64 {
        let most = pool.core.descs.len() as f64 / 4.0;
        (self.rate * options.delay.as_secs_f64() * options.multiplier).max(AT_LEAST).min(most)
    }
}

impl BufferPool {
    /// Ends a cleaner's rest.
    pub fn call_cleaner(&self) {
        self.demand.call_in_any_case();
    }
}
