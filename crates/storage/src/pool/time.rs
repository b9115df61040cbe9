//! The pool's time, in which the ages of pages are told. It passes with misses: each takes as long
//! as 64 uses of pages in memory.
//!
//! A backend counts its uses by itself, and hands over several at once (`uses`). So a use of a page
//! in memory writes no word that others write too, except that page's state word. It reads the
//! epoch, a word that changes 64 times while as many pages are read as the pool has.

use super::cache_line::CacheLine;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// Uses that take as long as a miss.
const USES: u64 = 64;
/// A backend hands over its uses after this part of an epoch, or earlier.
const PARTS_OF_AN_EPOCH: u64 = 64;

/// The clock of a pool.
pub(crate) struct PoolTime {
    /// The uses that have passed, where a miss counts as one and [`USES`] more.
    uses: CacheLine<AtomicU64>,
    /// The number of the epoch: `uses` divided by the number of buffers.
    epoch: CacheLine<AtomicU64>,
    buffers: u64,
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
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl PoolTime {
    pub(crate) fn new(buffers: usize) -> PoolTime {
        PoolTime {
            uses: CacheLine::default(),
            epoch: CacheLine::default(),
            buffers: buffers as u64,
        }
    }

    /// Returns the present epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Lets time pass: so many uses.
    pub(crate) fn pass(&self, uses: u64) -> Passed {
        let from = self.uses.fetch_add(uses, Ordering::Relaxed);
        let passed = Passed { from, to: from + uses };
        let epoch = self.epoch_at(passed.to);
        if epoch > self.epoch() {
            self.epoch.fetch_max(epoch, Ordering::Relaxed);
        }
        passed
    }

    /// Lets the time of a miss pass, after so many uses, of which the last one has met it.
    pub(crate) fn pass_miss(&self, uses: u64) -> Passed {
        self.pass(uses + USES)
    }

    /// Returns the epoch at a point in time.
    pub(crate) fn epoch_at(&self, time: u64) -> u64 {
        time / self.buffers
    }

    /// Returns the number of uses that a backend may count by itself from this point in time on.
    /// Without other backends, the next epoch begins with the right use.
    pub(crate) fn uses_together(&self, time: u64) -> u64 {
        let rest_of_epoch = self.buffers - time % self.buffers;
        rest_of_epoch.min((self.buffers / PARTS_OF_AN_EPOCH).max(1))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_a_64th_of_a_pool_of_misses() {
        let time = PoolTime::new(256);
        assert_eq!(time.pass(255), Passed { from: 0, to: 255 });
        assert_eq!(time.epoch(), 0);
        time.pass(1);
        assert_eq!(time.epoch(), 1);
        let from = time.epoch();
        for _ in 0..256 {
            time.pass_miss(0);
        }
        assert_eq!(time.epoch() - from, 64);
    }

    #[test]
    fn uses_are_handed_over_where_an_epoch_begins() {
        let time = PoolTime::new(6400);
        assert_eq!(time.uses_together(0), 100);
        assert_eq!(time.uses_together(6350), 50);
        assert_eq!(time.uses_together(6400), 100);
        assert_eq!(PoolTime::new(16).uses_together(3), 1);
    }
}
