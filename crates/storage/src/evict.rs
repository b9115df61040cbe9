//! Requests about single buffers, as in pg_buffercache: evict them, or mark them dirty. They affect
//! only buffers that nobody uses at that moment.

use crate::error::StorageError;
use crate::pool::desc::{DIRTY, READING, TAG_VALID, VALID, WRITING, refcount};
use crate::pool::{Backend, BufferPool, Claim};
use crate::write_pass::WriteScope;
use forebay_aio::IoContext;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::{PageTag, RelFileLocator};

/// What became of a buffer that was to be evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evicted {
    /// It is free now.
    pub evicted: bool,
    /// Its page was written first.
    pub flushed: bool,
}

/// What became of several buffers that were to be evicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvictReport {
    /// Buffers that are free now.
    pub evicted: u32,
    /// Pages that were written first.
    pub flushed: u32,
    /// Buffers that were in use and kept their pages.
    pub skipped: u32,
}

/// What became of a buffer that was to be marked dirty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dirtied {
    /// It is dirty now and was not before.
    pub dirtied: bool,
    /// It was dirty already.
    pub already: bool,
}

/// What became of several buffers that were to be marked dirty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirtyReport {
    /// Buffers that are dirty now and were not before.
    pub dirtied: u32,
    /// Buffers that were dirty already.
    pub already: u32,
    /// Buffers that were in use and left alone.
    pub skipped: u32,
}

/// The result of trying to pin a buffer that nobody uses.
enum Reach {
    /// It contains no page.
    Free,
    /// Somebody uses it.
    InUse,
    /// The caller has pinned it. A moment before, nobody else had.
    Pinned,
}

impl BufferPool {
    /// Evicts a buffer that nobody uses, and writes its page first if it is dirty. None if there is
    /// no such buffer.
    pub fn evict_buffer(
        &self,
        backend: &mut Backend,
        buf: u32,
    ) -> Result<Option<Evicted>, StorageError> {
        if buf as usize >= self.core.size() {
            return Ok(None);
        }
        match self.reach(buf) {
            Reach::Pinned => self.evict_pinned(backend, buf).map(Some),
            Reach::Free | Reach::InUse => Ok(Some(Evicted::default())),
        }
    }

    /// Evicts the unused buffers of a relation, of all forks. Dirty pages are written first,
    /// together.
    pub fn evict_relation(
        &self,
        backend: &mut Backend,
        rel: RelFileLocator,
    ) -> Result<EvictReport, StorageError> {
        self.evict_pages(backend, Some(rel))
    }

    /// Evicts all unused buffers. Dirty pages are written first, together.
    pub fn evict_unused(&self, backend: &mut Backend) -> Result<EvictReport, StorageError> {
        self.evict_pages(backend, None)
    }

    /// Writes all dirty pages and evicts all pages, for tests and measurements. Returns how many
    /// pages stay because they are in use.
    pub fn evict_all(&self, backend: &mut Backend) -> Result<usize, StorageError> {
        self.write_dirty(backend, WriteScope::All)?;
        let mut kept = 0;
        for (buf, desc) in self.core.descs.iter().enumerate() {
            if desc.pin_if(0) {
                kept += usize::from(self.remove_from_table(buf as u32, DIRTY).is_none());
                self.core.unpin(buf as u32);
            }
        }
        Ok(kept)
    }

    fn evict_pages(
        &self,
        backend: &mut Backend,
        of: Option<RelFileLocator>,
    ) -> Result<EvictReport, StorageError> {
        let flushed =
            self.write_dirty(backend, of.map_or(WriteScope::All, WriteScope::Relation))?.buffers;
        let mut report = EvictReport { flushed: flushed as u32, ..EvictReport::default() };
        report.skipped = self.each_unused(of, TAG_VALID, |buf| {
            let done = self.evict_pinned(backend, buf)?;
            report.flushed += u32::from(done.flushed);
            report.evicted += u32::from(done.evicted);
            Ok::<bool, StorageError>(done.evicted)
        })?;
        Ok(report)
    }

    /// Pins, one after the other, the unused buffers with a `flag` that have pages of a relation,
    /// or of any. `act` releases the pin; false: somebody else uses the buffer by then. Returns the
    /// number of buffers in use.
    fn each_unused<E>(
        &self,
        of: Option<RelFileLocator>,
        flag: u64,
        mut act: impl FnMut(u32) -> Result<bool, E>,
    ) -> Result<u32, E> {
        let wanted = |tag: PageTag| of.is_none_or(|rel| tag.rel == rel);
        let pages: Vec<PageTag> = {
            let _no_moves = self.moves.read();
            let flagged = self.core.descs.iter().filter(|desc| desc.load() & flag != 0);
            flagged.map(|desc| desc.tag()).filter(|tag| wanted(*tag)).collect()
        };
        let mut skipped = 0;
        for tag in pages {
            let Some(buf) = self.buffer_of(&tag) else { continue };
            match self.reach(buf) {
                Reach::Free => {}
                Reach::InUse => skipped += 1,
                // It may have another page by now.
                Reach::Pinned if self.desc(buf).tag() != tag => self.core.unpin(buf),
                Reach::Pinned => skipped += u32::from(!act(buf)?),
            }
        }
        Ok(skipped)
    }

    /// Pins a buffer if it contains a page and nobody uses it.
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

    /// Evicts a buffer that the caller has pinned, and releases the pin.
    fn evict_pinned(&self, backend: &mut Backend, buf: u32) -> Result<Evicted, StorageError> {
        let dirty = self.desc(buf).load() & DIRTY != 0;
        match self.clean_and_evict(&mut backend.io, buf, IoContext::Normal)? {
            Claim::Evicted | Claim::Empty => {
                self.core.unpin(buf);
                Ok(Evicted { evicted: true, flushed: dirty })
            }
            Claim::Lost => Ok(Evicted::default()),
        }
    }

    /// Marks an unused page dirty although it was not changed, to test writing. None if there is no
    /// such buffer.
    pub fn dirty_buffer(&self, buf: u32) -> Option<Dirtied> {
        if buf as usize >= self.core.size() {
            return None;
        }
        let done = match self.reach(buf) {
            Reach::Pinned => self.dirty_pinned(buf).unwrap_or_default(),
            Reach::Free | Reach::InUse => Dirtied::default(),
        };
        Some(done)
    }

    /// Marks all unused pages dirty: those of a relation, of all forks, or of all relations.
    pub fn dirty_pages(&self, of: Option<RelFileLocator>) -> DirtyReport {
        let mut report = DirtyReport::default();
        let Ok(skipped) = self.each_unused(of, VALID, |buf| {
            let done = self.dirty_pinned(buf);
            if let Some(done) = &done {
                report.dirtied += u32::from(done.dirtied);
                report.already += u32::from(done.already);
            }
            Ok::<bool, std::convert::Infallible>(done.is_some())
        });
        DirtyReport { skipped, ..report }
    }

    /// Marks a page dirty that the caller has pinned, and releases the pin. None if the page is
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
