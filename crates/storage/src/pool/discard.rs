//! Forgetting pages of relations that are dropped or cut: they are not written, and I/O in flight
//! is waited for, so that no late write lands in a file of the same name and no buffer is reused
//! under a read.

use super::BufferPool;
use super::desc::{DIRTY, Descriptor, READING, TAG_VALID, WRITING, refcount};
use crate::Backend;
use crate::error::StorageError;
use forebay_aio as aio;
use forebay_format::{BlockNumber, Fork, PageTag, RelFileLocator};

impl BufferPool {
    /// Forgets a relation's pages, all forks, and removes its files. The caller's lock on the
    /// relation keeps users away, and the caller holds no pin on it: pins of I/O in flight are
    /// waited for.
    pub fn drop_relation(&self, be: &mut Backend, rel: RelFileLocator) -> Result<(), StorageError> {
        self.discard(&mut be.io, |tag| tag.rel == rel);
        self.smgr.unlink(rel)
    }

    /// Cuts a fork to `n` blocks: forgets its later pages, then shortens its files.
    pub fn truncate(
        &self,
        be: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        n: BlockNumber,
    ) -> Result<(), StorageError> {
        be.io.submit();
        let entry = self.smgr.fork(rel, fork);
        let _lock = entry.extending.lock();
        self.discard(&mut be.io, |tag| tag.rel == rel && tag.fork == fork && tag.block >= n);
        self.smgr.truncate_locked(&entry, rel, fork, n)
    }

    /// Empties the pool of clean, unused pages (for tests and measurements). Returns how many it
    /// could not drop.
    pub fn evict_all(&self, be: &mut Backend) -> Result<usize, StorageError> {
        self.write_dirty(be, super::WriteScope::All)?;
        let mut kept = 0;
        for (buf, desc) in self.core.descs.iter().enumerate() {
            if desc.pin_if(0) {
                kept += usize::from(!self.remove_from_table(buf as u32, DIRTY));
                self.core.unpin(buf as u32);
            }
        }
        Ok(kept)
    }

    fn discard(&self, io: &mut aio::Backend, doomed: impl Fn(&PageTag) -> bool) {
        io.submit();
        for (buf, desc) in self.core.descs.iter().enumerate() {
            if desc.load() & TAG_VALID == 0 || !doomed(&desc.tag()) || !desc.pin_if(0) {
                continue;
            }
            let buf = buf as u32;
            while doomed(&desc.tag()) && !self.remove_from_table(buf, 0) {
                self.await_unpinned(io, buf, desc);
            }
            self.core.unpin(buf);
        }
    }

    /// Waits until the caller's pin may be the only one.
    fn await_unpinned(&self, io: &mut aio::Backend, buf: u32, desc: &Descriptor) {
        let in_flight = || if desc.load() & (READING | WRITING) != 0 { desc.io() } else { None };
        match in_flight() {
            Some(wait) => {
                io.wait(wait);
            }
            None => {
                let free = || refcount(desc.load()) <= 1 && desc.load() & (READING | WRITING) == 0;
                self.core.parking.sleep_until(buf, desc, || free() || in_flight().is_some());
            }
        }
    }
}
