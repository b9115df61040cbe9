//! What the pool counts of its replacement of buffers.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// How buffers were replaced, since the pool was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Buffers that were asked for to hold another page (buffers_alloc).
    pub allocated: u64,
    /// Of the buffers that the clock's hand came to for that, those that were dirty: written
    /// behind, and passed over.
    pub victims_dirty: u64,
    /// How often someone who needed a buffer waited for a victim's write.
    pub victims_waited: u64,
    /// How often a ring's turn came before the write of its buffer had ended.
    pub ring_waited: u64,
    /// How often someone waited because all buffers were pinned.
    pub pin_waits: u64,
    /// How often a backend that wanted to extend a relation found another one at it, and joined it.
    pub extensions_joined: u64,
    /// Pages that the cleaner wrote (buffers_clean).
    pub cleaned: u64,
    /// How often a round of the cleaner ended at its limit (maxwritten_clean).
    pub clean_limited: u64,
}

/// The counters; each on its own, none of them orders anything.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counters {
    allocated: AtomicU64,
    victims_dirty: AtomicU64,
    victims_waited: AtomicU64,
    ring_waited: AtomicU64,
    extensions_joined: AtomicU64,
    cleaned: AtomicU64,
    clean_limited: AtomicU64,
}

impl Counters {
    pub(crate) fn allocated(&self) {
        self.allocated.fetch_add(1, Ordering::Relaxed);
    }

    /// Buffers asked for so far.
    pub(crate) fn allocations(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    pub(crate) fn victim_dirty(&self) {
        self.victims_dirty.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn victim_waited(&self) {
        self.victims_waited.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ring_waited(&self) {
        self.ring_waited.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn extension_joined(&self) {
        self.extensions_joined.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cleaned(&self, pages: u64, limited: bool) {
        self.cleaned.fetch_add(pages, Ordering::Relaxed);
        self.clean_limited.fetch_add(u64::from(limited), Ordering::Relaxed);
    }

    pub(crate) fn read(&self, pin_waits: u64) -> PoolStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolStats {
            allocated: get(&self.allocated),
            victims_dirty: get(&self.victims_dirty),
            victims_waited: get(&self.victims_waited),
            ring_waited: get(&self.ring_waited),
            pin_waits,
            extensions_joined: get(&self.extensions_joined),
            cleaned: get(&self.cleaned),
            clean_limited: get(&self.clean_limited),
        }
    }
}
