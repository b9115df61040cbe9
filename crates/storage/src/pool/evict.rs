//! Orders about single buffers from outside, as pg_buffercache gives them: empty them, or mark them
//! dirty. They reach only buffers that nobody uses at that moment.

use super::BufferPool;
use super::desc::{DIRTY, READING, TAG_VALID, VALID, WRITING, refcount};
use super::victim::Claim;
use super::write::WriteScope;
use crate::Backend;
use crate::error::StorageError;
use forebay_aio::IoContext;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::{PageTag, RelFileLocator};

/// What became of one buffer that was to be emptied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// It holds no page any more.
    pub evicted: bool,
    /// Its page was written first.
    pub flushed: bool,
}

/// What became of many buffers that were to be emptied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvictReport {
    /// Buffers emptied.
    pub evicted: u32,
    /// Pages written for that.
    pub flushed: u32,
    /// Buffers that were in use, and kept.
    pub skipped: u32,
}

/// What became of one buffer that was to be marked dirty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dirtied {
    /// It is dirty now and was not before.
    pub dirtied: bool,
    /// It was dirty already.
    pub already: bool,
}

/// What became of many buffers that were to be marked dirty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirtyReport {
    /// Buffers that are dirty now and were not before.
    pub dirtied: u32,
    /// Buffers that were dirty already.
    pub already: u32,
    /// Buffers that were in use, and left alone.
    pub skipped: u32,
}

/// What a user's order to empty or mark a buffer met.
enum Reach {
    /// It holds no page.
    Free,
    /// Somebody uses it.
    InUse,
    /// The caller has it pinned, alone a moment ago.
    Pinned,
}

impl BufferPool {
    /// Empties a buffer that nobody uses, writing its page first if it is dirty. None if there is
    /// no such buffer.
    pub fn evict_buffer(
        &self,
        be: &mut Backend,
        buf: u32,
    ) -> Result<Option<Evicted>, StorageError> {
        if buf as usize >= self.core.descs.len() {
            return Ok(None);
        }
        match self.reach(buf) {
            Reach::Pinned => self.evict_pinned(be, buf).map(Some),
            Reach::Free | Reach::InUse => Ok(Some(Evicted::default())),
        }
    }

    /// Empties the buffers of a relation, all forks, that nobody uses. Dirty pages are written
    /// first, together.
    pub fn evict_relation(
        &self,
        be: &mut Backend,
        rel: RelFileLocator,
    ) -> Result<EvictReport, StorageError> {
        self.evict_pages(be, WriteScope::Relation(rel), |tag| tag.rel == rel)
    }

    /// Empties all buffers that nobody uses. Dirty pages are written first, together.
    pub fn evict_unused(&self, be: &mut Backend) -> Result<EvictReport, StorageError> {
        self.evict_pages(be, WriteScope::All, |_| true)
    }

    fn evict_pages(
        &self,
        be: &mut Backend,
        scope: WriteScope,
        wanted: impl Fn(&PageTag) -> bool,
    ) -> Result<EvictReport, StorageError> {
        let flushed = u32::try_from(self.write_dirty(be, scope)?.buffers).unwrap_or(u32::MAX);
        let mut report = EvictReport { flushed, ..EvictReport::default() };
        for buf in 0..self.core.descs.len() as u32 {
            let desc = self.desc(buf);
            // Without a pin the tag is a hint: what the pin below finds may be another page.
            if desc.load() & TAG_VALID == 0 || !wanted(&desc.tag()) {
                continue;
            }
            match self.reach(buf) {
                Reach::Free => {}
                Reach::InUse => report.skipped += 1,
                Reach::Pinned if !wanted(&desc.tag()) => self.core.unpin(buf),
                Reach::Pinned => {
                    let done = self.evict_pinned(be, buf)?;
                    report.flushed += u32::from(done.flushed);
                    report.evicted += u32::from(done.evicted);
                    report.skipped += u32::from(!done.evicted);
                }
            }
        }
        Ok(report)
    }

    /// Pins a buffer if it holds a page and nobody uses it.
    fn reach(&self, buf: u32) -> Reach {
        let desc = self.desc(buf);
        let state = desc.load();
        if state & TAG_VALID == 0 {
            return Reach::Free;
        }
        if refcount(state) > 0 || state & (READING | WRITING) != 0 {
            return Reach::InUse;
        }
        if desc.pin_if(0) { Reach::Pinned } else { Reach::Free }
    }

    /// Empties a buffer that the caller has pinned, and gives the pin up.
    fn evict_pinned(&self, be: &mut Backend, buf: u32) -> Result<Evicted, StorageError> {
        let dirty = self.desc(buf).load() & DIRTY != 0;
        match self.clean_and_evict(&mut be.io, buf, IoContext::Normal)? {
            Claim::Evicted | Claim::Empty => {
                self.core.unpin(buf);
                Ok(Evicted { evicted: true, flushed: dirty })
            }
            Claim::Lost => Ok(Evicted::default()),
        }
    }

    /// Marks a page dirty that nobody uses, though nothing in it changed: for tests of writing.
    /// None if there is no such buffer.
    pub fn dirty_buffer(&self, buf: u32) -> Option<Dirtied> {
        if buf as usize >= self.core.descs.len() {
            return None;
        }
        let done = match self.reach(buf) {
            Reach::Pinned => self.dirty_pinned(buf).unwrap_or_default(),
            Reach::Free | Reach::InUse => Dirtied::default(),
        };
        Some(done)
    }

    /// Marks dirty all pages that nobody uses: of a relation, all forks, or of all.
    pub fn dirty_pages(&self, of: Option<RelFileLocator>) -> DirtyReport {
        let mut report = DirtyReport::default();
        let wanted = |tag: PageTag| of.is_none_or(|rel| tag.rel == rel);
        for buf in 0..self.core.descs.len() as u32 {
            let desc = self.desc(buf);
            if desc.load() & VALID == 0 || !wanted(desc.tag()) {
                continue;
            }
            match self.reach(buf) {
                Reach::Free => {}
                Reach::InUse => report.skipped += 1,
                Reach::Pinned if !wanted(desc.tag()) => self.core.unpin(buf),
                Reach::Pinned => match self.dirty_pinned(buf) {
                    Some(done) => {
                        report.dirtied += u32::from(done.dirtied);
                        report.already += u32::from(done.already);
                    }
                    None => report.skipped += 1,
                },
            }
        }
        report
    }

    /// Marks a page dirty that the caller has pinned, and gives the pin up. None if somebody has it
    /// locked.
    fn dirty_pinned(&self, buf: u32) -> Option<Dirtied> {
        let desc = self.desc(buf);
        let locked = desc.try_exclusive();
        let mut done = None;
        if locked {
            let state = desc.load();
            if state & VALID != 0 {
                let already = state & DIRTY != 0;
                desc.state.fetch_or(DIRTY, Ordering::SeqCst);
                done = Some(Dirtied { dirtied: !already, already });
            } else {
                done = Some(Dirtied::default());
            }
            if desc.unlock_exclusive() {
                self.core.parking.wake(buf, desc);
            }
        }
        self.core.unpin(buf);
        done
    }
}
