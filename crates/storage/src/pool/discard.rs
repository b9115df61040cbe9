//! Forgetting the pages of relations that are dropped or truncated. The pages are not written, and
//! I/O in flight is waited for. So no late write reaches a later file of the same name, and no
//! buffer is reused during a read.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::desc::{Descriptor, READING, TAG_VALID, WRITING, refcount};
use crate::error::StorageError;
use forebay_aio as aio;
use forebay_format::{BlockNumber, Fork, Oid, PageTag, RelFileLocator};

impl BufferPool {
    /// Forgets a relation's pages, of all forks, and removes its files. The caller's lock on the
    /// relation excludes other users, and the caller holds no pin on it. Pins of I/O in flight are
    /// waited for.
    pub fn drop_relation(
        &self,
        backend: &mut Backend,
        rel: RelFileLocator,
    ) -> Result<(), StorageError> {
        self.discard(&mut backend.io, |tag| tag.rel == rel);
        self.smgr.unlink(rel)
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
        self.discard(&mut backend.io, |tag| tag.rel == rel && tag.fork == fork && tag.block >= n);
        self.smgr.truncate_locked(&entry, n)
    }

    fn discard(&self, io: &mut aio::IoBackend, doomed: impl Fn(&PageTag) -> bool) {
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
