//! The content lock of a page, and waiting for it.
//!
//! ```text
//!   lock (32 bits):  | X | SX | wanted | ... | shared holders (24) |
//! ```
//!
//! Shared: reading. Share-exclusive: keeping the page as it is, to write it out; others read.
//! Exclusive: changing.
//!
//! Readers may share a page in an unbroken row, so a thread that wants it exclusively and finds
//! readers there says so in the lock: from then on readers and write-outs wait until it had its
//! turn. A write-out in progress does not make it say so: readers go on until the page is written.
//!
//! A page that is being written out is locked by its I/O, which may be someone else's who is busy
//! or gone: so a waiter ends that I/O itself, and sleeps only for threads.

use super::desc::{CLEANUP_WANTED, Descriptor, WAITERS, refcount};
use super::{BufferPool, Core};
use crate::error::StorageError;
use forebay_aio as aio;
use forebay_aio::WaitRef;
use forebay_aio::sync::atomic::Ordering;

const LOCK_X: u32 = 1 << 31;
const LOCK_SX: u32 = 1 << 30;
/// A thread that wants the exclusive lock waits for readers: no more of them.
const LOCK_WANTED: u32 = 1 << 29;
const LOCK_SHARED: u32 = (1 << 24) - 1;

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

    /// The slow path of an exclusive lock. Readers wait from now on, unless the page is being
    /// written.
    #[cold]
    pub(super) fn wait_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.take_wanted_exclusive() {
            match desc.write_io() {
                Some(wait) => self.end_io(wait),
                None => self
                    .parking
                    .sleep_until(buf, desc, || desc.want_exclusive() || desc.write_io().is_some()),
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
                None => self.parking.sleep_until(buf, desc, || {
                    desc.allows_share_exclusive() || desc.write_io().is_some()
                }),
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
    /// Takes the share-exclusive lock, in which a page is written out. The caller must hold no
    /// other one.
    pub(crate) fn lock_share_exclusive(&self, io: &mut aio::Backend, buf: u32) {
        if !self.desc(buf).try_share_exclusive() {
            io.submit();
            self.core.wait_share_exclusive(buf);
        }
    }

    /// Gives back a share-exclusive lock that no I/O took over.
    pub(crate) fn unlock_share_exclusive(&self, buf: u32) {
        self.core.unlock_share_exclusive(buf);
    }
}

impl Descriptor {
    pub(crate) fn try_shared(&self) -> bool {
        self.lock
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |l| {
                debug_assert!(l & LOCK_SHARED < LOCK_SHARED);
                (l & (LOCK_X | LOCK_WANTED) == 0).then_some(l + 1)
            })
            .is_ok()
    }

    pub(crate) fn try_share_exclusive(&self) -> bool {
        self.lock
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |l| {
                (l & (LOCK_X | LOCK_SX | LOCK_WANTED) == 0).then_some(l | LOCK_SX)
            })
            .is_ok()
    }

    /// Takes a free lock; one that others wait for too, who then still wait.
    pub(crate) fn try_exclusive(&self) -> bool {
        let free = |l: u32| (l & !LOCK_WANTED == 0).then_some(l | LOCK_X);
        self.lock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free).is_ok()
    }

    /// Takes the lock that the caller has waited for. Others who wait say so again.
    pub(crate) fn take_wanted_exclusive(&self) -> bool {
        let free = |l: u32| (l & !LOCK_WANTED == 0).then_some(LOCK_X);
        self.lock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, free).is_ok()
    }

    /// If only readers are in the way: no more of them, until someone has the exclusive lock.
    /// Returns true if it is free.
    pub(crate) fn want_exclusive(&self) -> bool {
        let want = |l: u32| {
            (l & (LOCK_X | LOCK_SX) == 0 && l & LOCK_SHARED != 0).then_some(l | LOCK_WANTED)
        };
        let held = self.lock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, want);
        held.is_err_and(|l| l & !LOCK_WANTED == 0)
    }

    /// True if a shared lock could be taken now.
    pub(crate) fn allows_shared(&self) -> bool {
        self.lock.load(Ordering::SeqCst) & (LOCK_X | LOCK_WANTED) == 0
    }

    /// True if a share-exclusive lock could be taken now.
    pub(crate) fn allows_share_exclusive(&self) -> bool {
        self.lock.load(Ordering::SeqCst) & (LOCK_X | LOCK_SX | LOCK_WANTED) == 0
    }

    /// Says that someone waits for the cleanup lock. False if someone does already.
    pub(crate) fn want_cleanup(&self) -> bool {
        self.state.fetch_or(CLEANUP_WANTED, Ordering::SeqCst) & CLEANUP_WANTED == 0
    }

    /// Nobody waits for the cleanup lock any more.
    pub(crate) fn end_cleanup(&self) {
        self.state.fetch_and(!CLEANUP_WANTED, Ordering::SeqCst);
    }

    /// Each unlock returns true if someone is parked here.
    #[must_use]
    pub(crate) fn unlock_shared(&self) -> bool {
        let old = self.lock.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(old & LOCK_SHARED > 0);
        self.load() & WAITERS != 0
    }

    #[must_use]
    pub(crate) fn unlock_share_exclusive(&self) -> bool {
        let old = self.lock.fetch_and(!LOCK_SX, Ordering::SeqCst);
        debug_assert!(old & LOCK_SX != 0);
        self.load() & WAITERS != 0
    }

    #[must_use]
    pub(crate) fn unlock_exclusive(&self) -> bool {
        let old = self.lock.fetch_and(!LOCK_X, Ordering::SeqCst);
        debug_assert!(old & LOCK_X != 0);
        self.load() & WAITERS != 0
    }

    /// Is the caller's pin the only one?
    pub(super) fn is_pinned_once(&self) -> bool {
        refcount(self.load()) == 1
    }
}
