//! Looking into the pool: the contents of buffers, as pg_buffercache shows them, and the checksums
//! of the pages in memory.
//!
//! Totals are computed from one state word of each buffer, without pins. To read a buffer's tag,
//! the functions pin it for that moment; that pin is not counted in the result. Other backends go
//! on meanwhile, so the result is not a snapshot.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, Descriptor, TAG_VALID, VALID, refcount};
use super::usage::{QUEUED, USAGE_MAX, usage};
use forebay_aio::sync::{Duration, Instant};
use forebay_format::page::stored_checksum;
use forebay_format::{Page, PageBytes, PageTag, checksum};

/// A buffer at the moment when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferInfo {
    /// Its number, from 0.
    pub buffer: u32,
    /// Its page; None if it is free.
    pub page: Option<BufferPage>,
}

/// The page in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPage {
    /// The page's tag.
    pub tag: PageTag,
    /// Whether the page is in memory. Otherwise it is being read, or its read failed.
    pub valid: bool,
    /// Whether the page is newer than its file.
    pub dirty: bool,
    /// The usage count, from 0 to 5: an estimate of how long the page will stay. 0: it was not used
    /// while 16 pools of pages were read. 1: not since it came. 2: again by bulk accesses only. 3
    /// to 5: again by others, and lately before a pool, a quarter of a pool, or less was read.
    pub usage: u8,
    /// Pins on it, including those of I/O in flight.
    pub pins: u32,
}

/// The buffers of one usage count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageCount {
    /// Their number, including free ones.
    pub buffers: u32,
    /// The number of dirty ones.
    pub dirty: u32,
    /// The number of pinned ones.
    pub pinned: u32,
}

/// Totals of the pool.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoolSummary {
    /// Buffers with a page.
    pub used: u32,
    /// Free buffers.
    pub unused: u32,
    /// Dirty buffers.
    pub dirty: u32,
    /// Pinned buffers.
    pub pinned: u32,
    /// The mean usage count of buffers with a page; None if there are none.
    pub usage: Option<f64>,
}

/// The result of verifying the pages in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryChecksums {
    /// Pages whose checksum was computed: all valid ones.
    pub computed: u64,
    /// Pages whose checksum was also compared: the clean ones, if pages have checksums.
    pub compared: u64,
    /// Pages whose checksum differs from the stored one.
    pub failures: u64,
    /// The first of those pages, at most [`MemoryChecksums::MOST_NAMED`].
    pub failed: Vec<PageTag>,
    /// How long it took.
    pub time: Duration,
}

impl MemoryChecksums {
    /// The most failures that are listed.
    pub const MOST_NAMED: usize = 16;
}

impl BufferPool {
    /// Whether the pool's memory uses huge pages.
    pub fn uses_huge_pages(&self) -> bool {
        self.core.region.uses_huge_pages()
    }

    /// Looks at each buffer, in order.
    pub fn inspect(&self) -> impl Iterator<Item = BufferInfo> + '_ {
        (0..self.core.size() as u32).map(|buffer| BufferInfo { buffer, page: self.page_in(buffer) })
    }

    fn page_in(&self, buf: u32) -> Option<BufferPage> {
        let desc = self.desc(buf);
        if !desc.pin_if(0) {
            return None;
        }
        let (tag, state) = (desc.tag(), desc.load());
        self.core.unpin(buf);
        Some(BufferPage {
            tag,
            valid: state & VALID != 0,
            dirty: state & DIRTY != 0,
            usage: self.usage(state) as u8,
            pins: (refcount(state) - 1) as u32,
        })
    }

    /// The usage count of a buffer in this state; 0 for a free one.
    fn usage(&self, state: u64) -> u64 {
        if state & TAG_VALID == 0 { 0 } else { usage(state, self.time.epoch()) }
    }

    fn states(&self) -> impl Iterator<Item = u64> + '_ {
        let descs = self.core.placed_descs().iter().chain(self.core.left_descs());
        descs.map(Descriptor::load)
    }

    /// Returns totals of the pool.
    pub fn summary(&self) -> PoolSummary {
        let mut sum = PoolSummary::default();
        let mut usages = 0;
        for state in self.states() {
            sum.pinned += u32::from(refcount(state) > 0);
            if state & VALID == 0 {
                sum.unused += 1;
                continue;
            }
            sum.used += 1;
            usages += self.usage(state);
            sum.dirty += u32::from(state & DIRTY != 0);
        }
        sum.usage = (sum.used > 0).then(|| usages as f64 / f64::from(sum.used));
        sum
    }

    /// Returns the number of buffers by usage count, from 0 on.
    pub fn usage_counts(&self) -> [UsageCount; USAGE_MAX as usize + 1] {
        let mut counts = [UsageCount::default(); USAGE_MAX as usize + 1];
        for state in self.states() {
            let count = &mut counts[self.usage(state) as usize];
            count.buffers += 1;
            count.dirty += u32::from(state & DIRTY != 0);
            count.pinned += u32::from(refcount(state) > 0);
        }
        counts
    }

    /// Whether every buffer has one place, on the clock or in the queue, and its class says which.
    /// For tests, when nobody uses the pool.
    #[doc(hidden)]
    pub fn has_sound_places(&self) -> bool {
        let [on_clock, in_queue] = self.places.all();
        let is_queued = |buf: &u32| self.desc(*buf).load() & QUEUED != 0;
        let mut all = [&on_clock[..], &in_queue].concat();
        all.sort_unstable();
        !on_clock.iter().any(is_queued)
            && in_queue.iter().all(is_queued)
            && all.into_iter().eq(0..self.buffers() as u32)
    }

    /// Computes the checksum of every valid page in memory. If the page is clean, compares it with
    /// the stored one. Each page is locked share-exclusively for that time, so that nobody changes
    /// it or writes it out; others may read it.
    pub fn verify_memory(&self, backend: &mut Backend) -> MemoryChecksums {
        let began = Instant::now();
        let mut found = MemoryChecksums::default();
        backend.io.submit();
        for buf in 0..self.core.descs.len() as u32 {
            let desc = self.desc(buf);
            if !desc.pin_if(VALID) {
                continue;
            }
            self.lock_share_exclusive(&mut backend.io, buf);
            if desc.load() & VALID != 0 {
                self.verify_locked(buf, &mut found);
            }
            self.unlock_share_exclusive(buf);
            self.core.unpin(buf);
        }
        found.time = began.elapsed();
        found
    }

    /// Verifies a page that the caller has share-exclusively locked.
    fn verify_locked(&self, buf: u32, found: &mut MemoryChecksums) {
        let desc = self.desc(buf);
        let tag = desc.tag();
        // SAFETY: the page's 8192 bytes lie in the region. The caller's share-exclusive lock
        // excludes changes of the page and stores of its checksum.
        let page = unsafe { &*self.core.page_ptr(buf).cast::<PageBytes>() };
        let sum = checksum::page_checksum(page, tag.block);
        found.computed += 1;
        // A new page has no checksum, and a dirty one has that of its last write.
        if !self.core.checksums || desc.load() & DIRTY != 0 || Page::new(page).is_new() {
            return;
        }
        found.compared += 1;
        if sum != stored_checksum(page) {
            found.failures += 1;
            if found.failed.len() < MemoryChecksums::MOST_NAMED {
                found.failed.push(tag);
            }
        }
    }
}
