//! Waiting for a page's content lock.
//!
//! A page that is being written out is locked by its I/O, which may be someone else's who is busy or gone: so a waiter
//! ends that I/O itself, and sleeps only for threads.

use super::desc::{Descriptor, refcount};
use super::{BufferPool, Core};
use crate::error::StorageError;
use forebay_aio as aio;
use forebay_aio::WaitRef;

impl Core {
    /// Ends an I/O that stands in the way.
    fn end_io(&self, wait: WaitRef) {
        // Without an I/O layer there is none in flight.
        if let Some(aio) = self.aio.upgrade() {
            aio.wait_done(wait);
        }
    }

    /// The slow path of a shared lock.
    #[cold]
    pub(super) fn wait_shared(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.try_shared() {
            // An exclusive holder is a running thread that waits for no reader's I/O.
            self.parking.sleep_until(buf, desc, || desc.allows_shared());
        }
    }

    /// The slow path of an exclusive lock. Readers wait from now on, unless the page is being written.
    #[cold]
    pub(super) fn wait_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.take_wanted_exclusive() {
            match desc.write_io() {
                Some(wait) => self.end_io(wait),
                None => {
                    self.parking.sleep_until(buf, desc, || desc.want_exclusive() || desc.write_io().is_some())
                }
            }
        }
    }

    /// The slow path of a share-exclusive lock, for who has nothing staged.
    #[cold]
    pub(super) fn wait_share_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.try_share_exclusive() {
            match desc.write_io() {
                Some(wait) => self.end_io(wait),
                None => self
                    .parking
                    .sleep_until(buf, desc, || desc.allows_share_exclusive() || desc.write_io().is_some()),
            }
        }
    }

    /// Takes the exclusive lock while the caller's pin is the only one.
    pub(super) fn wait_cleanup(&self, buf: u32) -> Result<(), StorageError> {
        let desc = &self.descs[buf as usize];
        if desc.try_exclusive() {
            if desc.is_pinned_once() {
                return Ok(());
            }
            self.unlock_exclusive(buf);
        }
        if !desc.want_cleanup() {
            return Err(StorageError::CleanupWanted { tag: desc.tag() });
        }
        loop {
            if !desc.try_exclusive() {
                self.wait_exclusive(buf);
            }
            if desc.is_pinned_once() {
                desc.end_cleanup();
                return Ok(());
            }
            self.unlock_exclusive(buf);
            match desc.write_io() {
                Some(wait) => self.end_io(wait),
                None => {
                    let alone = || desc.is_pinned_once() || desc.write_io().is_some();
                    self.parking.sleep_until(buf, desc, alone);
                }
            }
        }
    }

    /// Gives back a share-exclusive lock that no I/O took over.
    pub(super) fn unlock_share_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        if desc.unlock_share_exclusive() {
            self.parking.wake(buf, desc);
        }
    }

    /// Gives back the exclusive lock.
    pub(super) fn unlock_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        if desc.unlock_exclusive() {
            self.parking.wake(buf, desc);
        }
    }
}

impl BufferPool {
    /// Takes the share-exclusive lock, in which a page is written out. The caller must hold no other one.
    pub(super) fn lock_share_exclusive(&self, io: &mut aio::Backend, buf: u32) {
        if !self.desc(buf).try_share_exclusive() {
            io.submit();
            self.core.wait_share_exclusive(buf);
        }
    }

    /// Gives back a share-exclusive lock that no I/O took over.
    pub(super) fn unlock_share_exclusive(&self, buf: u32) {
        self.core.unlock_share_exclusive(buf);
    }
}

impl Descriptor {
    /// Is the caller's pin the only one?
    pub(super) fn is_pinned_once(&self) -> bool {
        refcount(self.load()) == 1
    }
}
