//! Looking into the pool: what pg_buffercache shows, the checksums of what is in memory, and what
//! the kernel keeps of the same files.
//!
//! Totals read one state word for each buffer and disturb nobody. Whatever needs to know which page
//! a buffer holds pins it for that moment, since only a pin keeps the tag: the pin is not counted
//! in what is shown. Others may come and go meanwhile, so a picture of the whole pool is not one of
//! a single moment.

use super::BufferPool;
use super::desc::{DIRTY, Descriptor, USAGE_MAX, VALID, refcount, usage};
use crate::Backend;
use crate::error::StorageError;
use forebay_aio::sync::{Duration, Instant};
use forebay_format::page::stored_checksum;
use forebay_format::{Fork, Page, PageBytes, PageTag, RelFileLocator, checksum};

/// A buffer, as it was when it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferInfo {
    /// Its number, from 0.
    pub buffer: u32,
    /// What it holds. None: it is free.
    pub page: Option<BufferPage>,
}

/// The page in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferPage {
    /// Which page.
    pub tag: PageTag,
    /// Is it in memory? If not, it is being read, or its read failed.
    pub valid: bool,
    /// Is it newer than its file?
    pub dirty: bool,
    /// How often it was wanted lately: 0 to 5.
    pub usage: u8,
    /// Pins on it, those of I/O in flight included.
    pub pins: u32,
}

/// Buffers of one usage count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageCount {
    /// How many, free ones included.
    pub buffers: u32,
    /// How many of them are dirty.
    pub dirty: u32,
    /// How many of them are pinned.
    pub pinned: u32,
}

/// The pool in a few numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PoolSummary {
    /// Buffers that hold a page.
    pub used: u32,
    /// Free buffers.
    pub unused: u32,
    /// Dirty buffers.
    pub dirty: u32,
    /// Pinned buffers.
    pub pinned: u32,
    /// The mean usage count of the used ones; None if there are none.
    pub usage: Option<f64>,
}

/// What the checksums of the pages in memory came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryChecksums {
    /// Pages whose checksum was computed: all that were valid.
    pub computed: u64,
    /// Pages whose checksum was compared as well: the clean ones, if pages have checksums.
    pub compared: u64,
    /// Pages whose checksum is not the stored one, which [`MemoryChecksums::MOST_NAMED`] of them
    /// are.
    pub failures: u64,
    /// The first of them.
    pub failed: Vec<PageTag>,
    /// How long it took.
    pub time: Duration,
}

/// What the kernel caches of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCached {
    /// The fork.
    pub fork: Fork,
    /// The segment, from 0.
    pub segment: u32,
    /// The kernel's pages that the file has.
    pub pages: u64,
    /// How many of them it caches.
    pub cached: u64,
}

impl MemoryChecksums {
    /// Failures that are told by name.
    pub const MOST_NAMED: usize = 16;
}

impl BufferPool {
    /// Is the pool's memory made of the system's large pages?
    pub fn uses_huge_pages(&self) -> bool {
        self.core.region.uses_huge_pages()
    }

    /// A look at each buffer, in order.
    pub fn inspect(&self) -> impl Iterator<Item = BufferInfo> + '_ {
        (0..self.core.descs.len() as u32)
            .map(|buffer| BufferInfo { buffer, page: self.page_in(buffer) })
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
            usage: usage(state) as u8,
            pins: (refcount(state) - 1) as u32,
        })
    }

    fn states(&self) -> impl Iterator<Item = u64> + '_ {
        self.core.descs.iter().map(Descriptor::load)
    }

    /// The pool in a few numbers.
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
            usages += usage(state);
            sum.dirty += u32::from(state & DIRTY != 0);
        }
        sum.usage = (sum.used > 0).then(|| usages as f64 / f64::from(sum.used));
        sum
    }

    /// How many buffers have which usage count, from 0 on.
    pub fn usage_counts(&self) -> [UsageCount; USAGE_MAX as usize + 1] {
        let mut counts = [UsageCount::default(); USAGE_MAX as usize + 1];
        for state in self.states() {
            let count = &mut counts[usage(state).min(USAGE_MAX) as usize];
            count.buffers += 1;
            count.dirty += u32::from(state & DIRTY != 0);
            count.pinned += u32::from(refcount(state) > 0);
        }
        counts
    }

    /// Computes the checksum of every valid page in memory, and compares it with the stored one
    /// where that is known: in a clean page. Each page is held share-exclusively for its turn, so
    /// that nobody changes it or writes it out meanwhile; readers go on.
    pub fn verify_memory(&self, be: &mut Backend) -> MemoryChecksums {
        let began = Instant::now();
        let mut found = MemoryChecksums::default();
        be.io.submit();
        for buf in 0..self.core.descs.len() as u32 {
            let desc = self.desc(buf);
            if !desc.pin_if(VALID) {
                continue;
            }
            self.lock_share_exclusive(&mut be.io, buf);
            if desc.load() & VALID != 0 {
                self.verify_locked(buf, &mut found);
            }
            self.unlock_share_exclusive(buf);
            self.core.unpin(buf);
        }
        found.time = began.elapsed();
        found
    }

    /// The checksum of a page that the caller has share-exclusively locked.
    fn verify_locked(&self, buf: u32, found: &mut MemoryChecksums) {
        let desc = self.desc(buf);
        let tag = desc.tag();
        // SAFETY: the page's 8192 bytes lie in the region; the caller's share-exclusive lock
        // excludes who changes the page, and who stores its checksum on the way to the file.
        let page = unsafe { &*self.core.page_ptr(buf).cast::<PageBytes>() };
        let sum = checksum::page_checksum(page, tag.block);
        found.computed += 1;
        // A new page has none, and a dirty one has that of its last write.
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

    /// What the kernel caches of a relation's files: all forks, all segments, in order.
    pub fn kernel_cache(&self, rel: RelFileLocator) -> Result<Vec<KernelCached>, StorageError> {
        let mut found = Vec::new();
        for fork in [Fork::Main, Fork::Fsm, Fork::Vm, Fork::Init] {
            if !self.smgr.exists(rel, fork)? {
                continue;
            }
            for segment in 0.. {
                let file = rel.segment_path(fork, segment);
                let path = self.smgr.data_dir().join(&file);
                if segment > 0 && !self.aio.namespace().exists(&path).unwrap_or(false) {
                    break;
                }
                let (cached, pages) = crate::kernel_cached_pages(&self.aio, &path)?;
                found.push(KernelCached { fork, segment, pages, cached });
            }
        }
        Ok(found)
    }
}
