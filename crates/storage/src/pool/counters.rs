//! Counters of buffer replacement.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// How buffers were replaced since the pool was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Searches for a buffer to hold another page (buffers_alloc).
    pub allocated: u64,
    /// Buffers that were taken from the queue of new pages; the others are from the clock.
    pub from_queue: u64,
    /// Pages that gave way to others (not those of dropped relations, or of a smaller pool).
    pub evicted: u64,
    /// Pages that were read again and had been in the pool not long ago.
    pub returned: u64,
    /// Those of them that a pool larger by a tenth would probably have kept.
    pub nearly_kept: u64,
    /// Dirty victims that a search met, and whose writes it started.
    pub victims_dirty: u64,
    /// How often a backend that needed a buffer waited for a victim's write.
    pub victims_waited: u64,
    /// How often bulk work waited for a page that it had filled to be written.
    pub bulk_waited: u64,
    /// How often a backend waited because all buffers were pinned.
    pub pin_waits: u64,
    /// How often a backend that extended a relation was served by another one.
    pub extensions_joined: u64,
    /// Pages that the cleaner wrote (buffers_clean).
    pub cleaned: u64,
    /// Rounds of the cleaner that ended at its limit (maxwritten_clean).
    pub clean_limited: u64,
}

/// The counters. They are independent of each other and order nothing.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    pub(crate) allocated: Counter,
    pub(crate) from_queue: Counter,
    pub(crate) evicted: Counter,
    returned: Counter,
    nearly_kept: Counter,
    pub(crate) victims_dirty: Counter,
    pub(crate) victims_waited: Counter,
    pub(crate) bulk_waited: Counter,
    pub(crate) extensions_joined: Counter,
    pub(crate) cleaned: Counter,
    pub(crate) clean_limited: Counter,
}

/// One of the counters.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Counts a page that has a ghost: it was used so many epochs ago. Pages leave at a mean age of
    /// `mean_age`, which grows with the pool.
    pub(crate) fn count_ghost(&self, distance: Option<u64>, mean_age: u64) {
        if let Some(distance) = distance {
            self.returned.add(1);
            self.nearly_kept.add(u64::from(distance <= mean_age + mean_age / 10 + 1));
        }
    }

    pub(crate) fn read(&self, pin_waits: u64) -> PoolStats {
        PoolStats {
            allocated: self.allocated.get(),
            from_queue: self.from_queue.get(),
            evicted: self.evicted.get(),
            returned: self.returned.get(),
            nearly_kept: self.nearly_kept.get(),
            victims_dirty: self.victims_dirty.get(),
            victims_waited: self.victims_waited.get(),
            bulk_waited: self.bulk_waited.get(),
            pin_waits,
            extensions_joined: self.extensions_joined.get(),
            cleaned: self.cleaned.get(),
            clean_limited: self.clean_limited.get(),
        }
    }
}
