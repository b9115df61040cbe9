//! The cleaner (bgwriter): keeps clean buffers ahead of the clock's hand and of the queue's turns,
//! so that a backend that needs a buffer does not wait for a write.
//!
//! ```text
//!     hand, turn               wake                        clean_to
//!   ------|---------------------|-----------------------------|-----------------> clock, queue
//!         |<-- examined: likely victims are clean here ------>|
//! ```
//!
//! In the queue all idle pages are likely victims. On the clock those are that were not used since
//! they came, or are not much younger than those that gave way lately.
//!
//! The number of clean buffers that it aims at follows from the rate at which buffers were taken
//! lately, and how far it looks from the rate at which the hand and the turns moved. These rates
//! rise at once and fall slowly. The cleaner runs after its delay, and earlier if it is woken: when
//! the hand or the turns have come half of the way, or a search meets a dirty buffer. So it keeps
//! up with a burst.

use crate::error::StorageError;
use crate::pool::desc::{DIRTY, refcount};
use crate::pool::{Backend, BufferPool, Class, NEVER, age};
use crate::stream::{WriteOptions, WriteStream};
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

/// Positions to look ahead at least.
const FAR_AT_LEAST: f64 = 8.0 * AT_LEAST;

/// A rate, smoothed.
#[derive(Debug, Default)]
struct Rate {
    per_second: f64,
    /// The count at the last update.
    counted: u64,
}

impl Rate {
    fn update(&mut self, counted: u64, elapsed: Duration) {
        let lately = counted.saturating_sub(self.counted) as f64 / elapsed.as_secs_f64();
        self.per_second = match lately > self.per_second {
            true => lately,
            false => KEPT * self.per_second + (1.0 - KEPT) * lately,
        };
        self.counted = counted;
    }

    /// Returns what is expected until the next round, times the multiplier.
    fn expected(&self, options: &CleanerOptions) -> f64 {
        self.per_second * options.delay.as_secs_f64() * options.multiplier
    }
}

/// One of the two ways by which buffers are taken.
#[derive(Debug, Default)]
struct Lane {
    /// Buffers taken.
    taken: Rate,
    /// Positions of the hand, or turns.
    moved: Rate,
    /// The position up to which likely victims are clean.
    clean_to: u64,
}

impl Lane {
    /// Returns how many clean victims there should be ahead, at most `most`; and how far to look
    /// for them, at most at `all` positions.
    fn wanted(&self, options: &CleanerOptions, most: u64, all: u64) -> (u64, u64) {
        let wanted = self.taken.expected(options).max(AT_LEAST).min(most as f64);
        let far = self.moved.expected(options).max(FAR_AT_LEAST).min(all as f64);
        (wanted.ceil() as u64, far.ceil() as u64)
    }

    /// The position at which the cleaner is to be woken.
    fn wake_at(&self, position: u64) -> u64 {
        position + self.clean_to.saturating_sub(position) / 2
    }
}

/// What the cleaner keeps from one round to the next. A pool has one cleaner.
#[derive(Debug)]
pub struct Cleaner {
    clock: Lane,
    queue: Lane,
    allocations: u64,
    /// When the rates were last computed.
    at: Instant,
}

impl Default for Cleaner {
    fn default() -> Self {
        let (clock, queue) = Default::default();
        Cleaner { clock, queue, allocations: 0, at: Instant::now() }
    }
}

/// What a round may still write.
struct Round<'p> {
    pool: &'p BufferPool,
    stream: WriteStream<'p>,
    left: usize,
}

impl Round<'_> {
    /// Cleans likely victims in the buffers from `from` on, until there are enough. Returns false
    /// if the round is at its limit; and how far it came.
    fn clean_from(
        &mut self,
        backend: &mut Backend,
        from: u64,
        (wanted, far): (u64, u64),
        buffer: impl Fn(u64) -> u32,
        is_likely: impl Fn(u64) -> bool,
    ) -> Result<(bool, u64), StorageError> {
        let mut ahead = 0;
        for position in from..from + far {
            let buf = buffer(position);
            let state = self.pool.desc(buf).load();
            if refcount(state) > 0 || !is_likely(state) {
                continue;
            }
            if state & DIRTY != 0 && !self.clean(backend, buf)? {
                return Ok((false, position));
            }
            ahead += 1;
            if ahead == wanted {
                return Ok((true, position + 1));
            }
        }
        Ok((true, from + far))
    }

    /// Gives a dirty buffer to the stream. Returns false if the round is at its limit.
    fn clean(&mut self, backend: &mut Backend, buf: u32) -> Result<bool, StorageError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        self.stream.push_buffer(backend, self.pool.desc(buf).tag(), buf)?;
        Ok(true)
    }
}

impl Cleaner {
    /// Runs one round: writes dirty pages that will probably leave next, until enough are clean. An
    /// error does not keep it from writing the other pages.
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
        let writing =
            WriteOptions { flush_after: options.flush_after, ..WriteOptions::cleaning(pool) };
        let stream = WriteStream::new(pool, writing);
        let mut round = Round { pool, stream, left: options.max_pages };
        let looked = match self.clean_queue(&mut round, backend, options) {
            Ok(true) => self.clean_clock(&mut round, backend, options),
            other => other,
        };
        let drained = round.stream.drain(backend);
        let cleaned = round.stream.report().buffers;
        let limited = matches!(looked, Ok(false));
        pool.counters.cleaned.add(cleaned);
        pool.counters.clean_limited.add(u64::from(limited));
        looked.and(drained)?;
        Ok(CleanReport { cleaned, limited, idle })
    }

    /// Cleans ahead of the queue's turns. Returns false if the round reached its limit.
    fn clean_queue(
        &mut self,
        round: &mut Round<'_>,
        backend: &mut Backend,
        options: &CleanerOptions,
    ) -> Result<bool, StorageError> {
        let places = &round.pool.places;
        let (all, turn) = (places.queue(), places.turn());
        let wanted = self.queue.wanted(options, all * 3 / 4, all);
        let in_queue = |turn| places.in_queue(turn);
        let (done, to) = round.clean_from(backend, turn, wanted, in_queue, |_| true)?;
        self.queue.clean_to = to;
        Ok(done)
    }

    /// Cleans ahead of the clock's hand.
    fn clean_clock(
        &mut self,
        round: &mut Round<'_>,
        backend: &mut Backend,
        options: &CleanerOptions,
    ) -> Result<bool, StorageError> {
        let places = &round.pool.places;
        let (all, hand) = (places.clock(), places.hand());
        let wanted = self.clock.wanted(options, all / 4, all);
        let (now, young) = (round.pool.time.epoch(), places.mean_age() / 2);
        let is_likely = |s| Class::of(s) == Class::Unused || age(s, now) >= young;
        let on_clock = |hand| places.on_clock(hand);
        let (done, to) = round.clean_from(backend, hand, wanted, on_clock, is_likely)?;
        self.clock.clean_to = to;
        Ok(done)
    }

    /// Sleeps until the next round is due, or until the cleaner is woken.
    pub fn rest(&self, pool: &BufferPool, options: &CleanerOptions, last: CleanReport) {
        let (hand, turn) = (pool.places.hand(), pool.places.turn());
        let (at_hand, at_turn) = match options.max_pages {
            0 => (NEVER, NEVER),
            _ if last.limited => (hand, turn),
            _ => (self.clock.wake_at(hand), self.queue.wake_at(turn)),
        };
        let time = options.rest_after(last);
        if !time.is_zero() {
            pool.cleaner_wakeup.sleep(at_hand, at_turn, time);
        }
    }

    /// Updates the estimates. Returns true if no buffer was taken since the last round.
    fn catch_up(&mut self, pool: &BufferPool) -> bool {
        let elapsed = self.at.elapsed();
        let (all, queue) = (pool.counters.allocated.get(), pool.counters.from_queue.get());
        if elapsed >= TOO_SHORT {
            self.clock.taken.update(all.saturating_sub(queue), elapsed);
            self.clock.moved.update(pool.places.hand(), elapsed);
            self.queue.taken.update(queue, elapsed);
            self.queue.moved.update(pool.places.turn(), elapsed);
            self.at = Instant::now();
        }
        all == std::mem::replace(&mut self.allocations, all)
    }
}
