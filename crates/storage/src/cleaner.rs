//! The cleaner (bgwriter): keeps clean buffers ahead of the clock's hand, so that a backend that
//! needs a buffer does not wait for a write.
//!
//! ```text
//!        hand                 wake                       clean_to
//!   ------|--------------------|----------------------------|-----------------------> clock
//!         |<-- examined: idle buffers are clean here ------>|
//! ```
//!
//! The number of clean buffers that it aims at follows from the rate at which buffers were taken
//! lately. That number rises at once and falls slowly. The cleaner runs after its delay, and
//! earlier if it is woken: when the hand has moved half of the way, or meets a dirty buffer. So it
//! keeps up with a burst.

use crate::error::StorageError;
use crate::pool::desc::{DIRTY, refcount, usage};
use crate::pool::{Backend, BufferPool, NEVER};
use crate::stream::{WriteOptions, WriteStream};
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::sync::{Duration, Instant};

/// Clean buffers to have ahead at least, in a pool that is not small.
const AT_LEAST: f64 = 256.0;
/// The shortest time from which a rate is computed.
const TOO_SHORT: Duration = Duration::from_millis(2);
/// How many delays an idle cleaner sleeps.
const HIBERNATION: u32 = 50;
/// The part of the old rate that is kept when the rate falls.
const KEPT: f64 = 15.0 / 16.0;

/// The cleaner's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CleanerOptions {
    /// The most pages written in one round (bgwriter_lru_maxpages); 0 turns the cleaner off.
    pub max_pages: usize,
    /// How many times the recent demand is kept clean (bgwriter_lru_multiplier).
    pub multiplier: f64,
    /// The time between rounds, unless the cleaner is woken (bgwriter_delay).
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
    /// Returns how long the cleaner sleeps unless it is woken. A round that stopped at its limit is
    /// followed by the next one at once while buffers are in demand. Without any demand the cleaner
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
    /// Whether it stopped at its limit before it had enough clean buffers.
    pub limited: bool,
    /// Whether no buffer was taken since the last round.
    pub idle: bool,
}

/// What the cleaner keeps from one round to the next. A pool has one cleaner.
#[derive(Debug)]
pub struct Cleaner {
    /// The clock position up to which buffers were examined.
    clean_to: u64,
    /// The estimated number of reusable buffers between the hand and that position.
    ahead: f64,
    /// Buffers taken per second, smoothed.
    rate: f64,
    allocations: u64,
    /// When the rate was last computed.
    at: Instant,
}

impl Default for Cleaner {
    fn default() -> Self {
        Cleaner { clean_to: 0, ahead: 0.0, rate: 0.0, allocations: 0, at: Instant::now() }
    }
}

impl Cleaner {
    /// Runs one round: writes dirty idle buffers ahead of the hand until enough are clean. An error
    /// does not keep it from writing the other pages, but the next round examines all buffers
    /// again.
    pub fn step(
        &mut self,
        pool: &BufferPool,
        backend: &mut Backend,
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
        let looked = self.look_ahead(pool, backend, options, &mut stream);
        let drained = stream.drain(backend);
        let cleaned = stream.report().buffers;
        let limited = matches!(looked, Ok(true));
        pool.counters.cleaned.add(cleaned);
        pool.counters.clean_limited.add(u64::from(limited));
        if let Err(error) = looked.and(drained) {
            self.ahead = 0.0;
            return Err(error);
        }
        Ok(CleanReport { cleaned, limited, idle })
    }

    /// Continues where the last round stopped, and gives dirty idle buffers to the stream. Returns
    /// true if it reached its limit.
    fn look_ahead(
        &mut self,
        pool: &BufferPool,
        backend: &mut Backend,
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
                    stream.push_buffer(backend, desc.tag(), at)?;
                    taken += 1;
                }
                self.ahead += 1.0;
            }
            self.clean_to += 1;
        }
        Ok(false)
    }

    /// Sleeps until the next round is due, or until the cleaner is woken.
    pub fn rest(&self, pool: &BufferPool, options: &CleanerOptions, last: CleanReport) {
        let hand = pool.hand.load(Ordering::Relaxed);
        let wake_at = match options.max_pages {
            0 => NEVER,
            _ if last.limited => hand,
            _ => hand + self.clean_to.saturating_sub(hand) / 2,
        };
        let time = options.rest_after(last);
        if !time.is_zero() {
            pool.cleaner_wakeup.sleep(wake_at, time);
        }
    }

    /// Updates the estimates. Returns true if no buffer was taken since the last round.
    fn catch_up(&mut self, pool: &BufferPool) -> bool {
        let allocations = pool.counters.allocated.get();
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

    /// Returns how many clean buffers there should be ahead of the hand.
    fn wanted(&self, pool: &BufferPool, options: &CleanerOptions) -> f64 {
        let most = pool.core.descs.len() as f64 / 4.0;
        (self.rate * options.delay.as_secs_f64() * options.multiplier).max(AT_LEAST).min(most)
    }
}
