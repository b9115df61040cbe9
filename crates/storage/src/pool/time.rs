//! The pool's time, in which the ages of pages are told. It passes with misses: each takes as long
//! as 64 uses of pages in memory.
//!
//! A backend counts its uses by itself, and hands over several at once (`uses`). So a use of a page
//! in memory writes no word that others write too, except that page's state word. It reads the
//! epoch, a word that changes 64 times while as many pages are read as the pool has.
//!
//! Epochs are numbered with 32 bits and wrap around; all who compare them use their lowest bits.
//! When the pool's size changes, the present epoch goes on with another length.

use super::cache_line::CacheLine;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// Uses that take as long as a miss.
const USES: u64 = 64;
/// A backend hands over its uses after this part of an epoch, or earlier.
const PARTS_OF_AN_EPOCH: u64 = 64;

/// The clock of a pool.
pub(crate) struct PoolTime {
    now: CacheLine<Now>,
    /// The number of the epoch.
    epoch: CacheLine<AtomicU64>,
    /// The uses in an epoch: the number of buffers.
    buffers: AtomicU64,
}

/// What changes with each hand-over.
#[derive(Default)]
struct Now {
    /// The epoch, and in the lower half the uses that have passed in it. A miss counts as one and
    /// [`USES`] more.
    moment: AtomicU64,
    /// All uses that have passed, whatever the epochs.
    uses: AtomicU64,
}

/// The uses of pages that a backend has counted and not handed over yet, whatever the pool. The
/// pool that it uses when they are due gets them.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    pub(super) waiting: u64,
    /// They are due when there are so many.
    pub(super) due: u64,
}

/// A span of time that has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The uses up to then, from the pool's beginning on.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The epoch when the uses had passed, before the time of a miss.
    pub(crate) needed: u64,
    /// The epoch at the end.
    pub(crate) now: u64,
    /// How many uses a backend may count by itself from then on. Without other backends, the next
    /// epoch begins with the right use.
    pub(crate) due: u64,
}

/// An epoch, and the uses that have passed in it.
#[derive(Clone, Copy)]
struct Moment {
    epoch: u32,
    uses: u64,
}

impl Moment {
    fn unpack(word: u64) -> Moment {
        Moment { epoch: (word >> 32) as u32, uses: word & u64::from(u32::MAX) }
    }

    fn pack(self) -> u64 {
        u64::from(self.epoch) << 32 | self.uses
    }

    /// Returns the moment after so many more uses, where an epoch has `buffers` of them.
    fn after(self, uses: u64, buffers: u64) -> Moment {
        let all = self.uses + uses;
        Moment { epoch: self.epoch.wrapping_add((all / buffers) as u32), uses: all % buffers }
    }
}

impl PoolTime {
    pub(crate) fn new(buffers: usize) -> PoolTime {
        PoolTime {
            now: CacheLine::default(),
            epoch: CacheLine::default(),
            buffers: AtomicU64::new(buffers as u64),
        }
    }

    /// Changes the length of the epochs.
    pub(crate) fn set_buffers(&self, buffers: usize) {
        self.buffers.store(buffers as u64, Ordering::Relaxed);
    }

    /// Returns the present epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Lets time pass: so many uses.
    pub(crate) fn pass(&self, uses: u64) -> Passed {
        self.go_on(uses, 0)
    }

    /// Lets the time of a miss pass, after so many uses, of which the last one has met it.
    pub(crate) fn pass_miss(&self, uses: u64) -> Passed {
        self.go_on(uses, USES)
    }

    fn go_on(&self, uses: u64, more: u64) -> Passed {
        let buffers = self.buffers.load(Ordering::Relaxed);
        let after = |word| Moment::unpack(word).after(uses + more, buffers);
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let next = |word| Some(after(word).pack());
        let (Ok(before) | Err(before)) = self.now.moment.fetch_update(success, failure, next);
        let (now, needed) = (after(before), Moment::unpack(before).after(uses, buffers));
        self.enter(now.epoch);
        let from = self.now.uses.fetch_add(uses + more, Ordering::Relaxed);
        let due = (buffers - now.uses).min((buffers / PARTS_OF_AN_EPOCH).max(1));
        let [needed, now] = [needed.epoch, now.epoch].map(u64::from);
        Passed { from, to: from + uses + more, needed, now, due }
    }

    /// Publishes the epoch, unless a later one is.
    fn enter(&self, epoch: u32) {
        let later = |known: u64| {
            let ahead = epoch.wrapping_sub(known as u32) as i32;
            (ahead > 0).then_some(u64::from(epoch))
        };
        if later(self.epoch()).is_some() {
            let _ = self.epoch.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_a_64th_of_a_pool_of_misses() {
        let time = PoolTime::new(256);
        let passed = time.pass(255);
        assert_eq!((passed.from, passed.to, passed.now), (0, 255, 0));
        assert_eq!(time.epoch(), 0);
        time.pass(1);
        assert_eq!(time.epoch(), 1);
        let from = time.epoch();
        for _ in 0..256 {
            time.pass_miss(0);
        }
        assert_eq!(time.epoch() - from, 64);
        let miss = time.pass_miss(255);
        assert_eq!((miss.needed, miss.now), (65, 66), "the page was needed before its time");
    }

    #[test]
    fn uses_are_handed_over_where_an_epoch_begins() {
        let time = PoolTime::new(6400);
        assert_eq!(time.pass(0).due, 100);
        assert_eq!(time.pass(6350).due, 50);
        assert_eq!(time.pass(50).due, 100);
        assert_eq!(PoolTime::new(16).pass(3).due, 1);
    }

    #[test]
    fn epochs_go_on_when_the_size_changes() {
        let time = PoolTime::new(1000);
        time.pass(5 * 1000 + 900);
        time.set_buffers(100);
        assert_eq!(time.pass(0).now, 5 + 9, "what had passed counts by the new length");
        time.set_buffers(10_000);
        assert_eq!(time.pass(9_999).now, 14);
        assert_eq!(time.pass(1).now, 15);
        assert_eq!(time.epoch(), 15);
    }

    #[test]
    fn epochs_wrap_around() {
        let time = PoolTime::new(16);
        time.pass(16 * u64::from(u32::MAX / 2));
        time.pass(16 * u64::from(u32::MAX / 2));
        assert_eq!(time.epoch(), u64::from(u32::MAX) - 1);
        time.pass(16 * 3);
        assert_eq!(time.epoch(), 1);
    }
}
