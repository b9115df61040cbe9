//! Forgetting the pages of relations that are dropped or truncated. The pages are not written, and
//! I/O in flight is waited for. So no late write reaches a later file of the same name, and no
//! buffer is reused during a read.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::desc::{Descriptor, READING, TAG_VALID, WRITING, refcount};
use crate::error::StorageError;
use forebay_aio::{self as aio, Errno};
use forebay_format::{BlockNumber, Fork, Oid, PageTag, RelFileLocator};
use std::ops::Range;

impl BufferPool {
    /// Forgets a relation's pages, of all forks, and removes its files. The caller's lock on the
    /// relation excludes other users, and the caller holds no pin on it. Pins of I/O in flight are
    /// waited for.
    pub fn drop_relation(
        &self,
        backend: &mut Backend,
        rel: RelFileLocator,
    ) -> Result<(), StorageError> {
        match self.few_pages(rel) {
            Some(forks) => {
                for (fork, blocks) in forks {
                    self.discard_blocks(&mut backend.io, rel, fork, 0..blocks);
                }
            }
            None => self.discard(&mut backend.io, |tag| tag.rel == rel),
        }
        self.smgr.unlink(rel)
    }

    /// The blocks of each fork, if looking each of them up is cheaper than a walk through the pool.
    /// A page beyond a fork's end, which a read may have left, is clean, so it may stay.
    fn few_pages(&self, rel: RelFileLocator) -> Option<[(Fork, BlockNumber); Fork::ALL.len()]> {
        let mut forks = Fork::ALL.map(|fork| (fork, 0));
        let mut room = self.walk_from();
        for (fork, blocks) in &mut forks {
            *blocks = match self.smgr.nblocks(rel, *fork) {
                Ok(blocks) => blocks,
                Err(StorageError::File { errno: Errno::NOENT, .. }) => 0,
                Err(_) => return None,
            };
            room = room.checked_sub(*blocks)?;
        }
        Some(forks)
    }

    /// From so many pages on, a walk through all buffers is cheaper than look-ups. A walk's step
    /// costs far less than a look-up.
    fn walk_from(&self) -> u32 {
        (self.buffers() / 32).max(8) as u32
    }

    /// Forgets the pages of a database that is dropped, and closes its files. Nobody uses them any
    /// more; I/O in flight is waited for.
    pub fn drop_database(&self, backend: &mut Backend, database: Oid) {
        self.discard(&mut backend.io, |tag| tag.rel.db == database);
        self.smgr.forget_database(database);
    }

    /// Truncates a fork to `n` blocks: forgets its later pages, then shortens its files.
    pub fn truncate(
        &self,
        backend: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        n: BlockNumber,
    ) -> Result<(), StorageError> {
        backend.io.submit();
        let entry = self.smgr.fork(rel, fork);
        let _lock = entry.extending.lock();
        let size = self.smgr.size_locked(&entry)?;
        if size.saturating_sub(n) < self.walk_from() {
            self.discard_blocks(&mut backend.io, rel, fork, n..size);
        } else {
            let beyond = |tag: &PageTag| tag.rel == rel && tag.fork == fork && tag.block >= n;
            self.discard(&mut backend.io, beyond);
        }
        self.smgr.truncate_locked(&entry, n)
    }

    /// Forgets these pages, each of which it looks up.
    fn discard_blocks(
        &self,
        io: &mut aio::IoBackend,
        rel: RelFileLocator,
        fork: Fork,
        blocks: Range<BlockNumber>,
    ) {
        io.submit();
        blocks.for_each(|block| self.discard_page(io, &PageTag::new(rel, fork, block)));
    }

    /// Forgets all pages that the test names, which it finds in a walk through the pool. No more of
    /// them come meanwhile.
    fn discard(&self, io: &mut aio::IoBackend, doomed: impl Fn(&PageTag) -> bool) {
        io.submit();
        let pages: Vec<PageTag> = {
            let _no_moves = self.moves.read();
            let tagged = self.core.descs.iter().filter(|desc| desc.load() & TAG_VALID != 0);
            tagged.map(Descriptor::tag).filter(doomed).collect()
        };
        pages.iter().for_each(|tag| self.discard_page(io, tag));
    }

    /// Forgets a page. It may move to another buffer meanwhile, so it is looked up until it is not
    /// found.
    fn discard_page(&self, io: &mut aio::IoBackend, tag: &PageTag) {
        while let Some(buf) = self.buffer_of(tag) {
            self.discard_buffer(io, buf, tag);
        }
    }

    /// Frees a buffer for a new page, if it still contains this page.
    fn discard_buffer(&self, io: &mut aio::IoBackend, buf: u32, tag: &PageTag) {
        let desc = self.desc(buf);
        if !desc.pin_if(0) {
            return;
        }
        let mut is_free = false;
        while !is_free && desc.has_tag(tag) {
            is_free = self.remove_from_table(buf, 0).is_some();
            if !is_free {
                self.await_unpinned(io, buf, desc);
            }
        }
        self.core.unpin(buf);
        if is_free {
            self.freed.add(buf, self.buffers());
        }
    }

    /// Waits until the caller's pin may be the only one.
    fn await_unpinned(&self, io: &mut aio::IoBackend, buf: u32, desc: &Descriptor) {
        let in_flight = || if desc.load() & (READING | WRITING) != 0 { desc.io() } else { None };
        match in_flight() {
            Some(wait) => {
                io.wait_and_keep(wait);
            }
            None => {
                let free = || refcount(desc.load()) <= 1 && desc.load() & (READING | WRITING) == 0;
                self.core.parking.sleep_until(buf, desc, || free() || in_flight().is_some());
            }
        }
    }
}
