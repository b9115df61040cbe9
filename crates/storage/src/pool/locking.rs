//! The content lock of a page, and waiting for it.
//!
//! ```text
//!   lock (32 bits):  | X | SX | wanted | ... | shared holders (24) |
//! ```
//!
//! - Shared: the holder reads.
//! - Share-exclusive: the holder writes the page out. Others read, and nobody changes the page.
//! - Exclusive: the holder changes the page.
//!
//! Readers could keep a writer waiting forever. So a thread that waits for the exclusive lock sets
//! `wanted`: new readers and write-outs then wait until it has had its turn. It does not set it
//! while the page is written out: readers go on until the write has ended.
//!
//! While a page is written out, its lock belongs to the I/O, whose issuer may be busy or gone. So a
//! waiter completes that I/O itself, and sleeps only if a thread holds the lock.

use super::core::Core;
use super::desc::{CLEANUP_WANTED, Descriptor, WAITERS, refcount};
use forebay_aio::WaitRef;
use forebay_aio::sync::atomic::Ordering;

const LOCK_X: u32 = 1 << 31;
const LOCK_SX: u32 = 1 << 30;
/// A thread waits for the exclusive lock: no new holders before it.
const LOCK_WANTED: u32 = 1 << 29;
const LOCK_SHARED: u32 = (1 << 24) - 1;

impl Core {
    /// Completes an I/O that the caller waits for.
    pub(super) fn end_io(&self, wait: WaitRef) {
        // If the I/O layer is gone, so are its I/Os.
        if let Some(aio) = self.aio.upgrade() {
            aio.wait_done(wait);
        }
    }

    /// The slow path of a shared lock.
    #[cold]
    pub(super) fn wait_shared(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.try_shared() {
            // An exclusive holder is a running thread that does not wait for readers.
            self.parking.sleep_until(buf, desc, || desc.allows_shared());
        }
    }

    /// The slow path of an exclusive lock. New readers wait from now on, unless the page is being
    /// written out.
    #[cold]
    pub(super) fn wait_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.take_wanted_exclusive() {
            self.await_lock(buf, || desc.want_exclusive());
        }
    }

    /// The slow path of a share-exclusive lock. The caller has no staged I/O.
    #[cold]
    pub(super) fn wait_share_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        while !desc.try_share_exclusive() {
            self.await_lock(buf, || desc.allows_share_exclusive());
        }
    }

    /// Completes the write of a page. If there is none, sleeps until one starts or `ready` holds.
    fn await_lock(&self, buf: u32, ready: impl Fn() -> bool) {
        let desc = &self.descs[buf as usize];
        match desc.write_io() {
            Some(wait) => self.end_io(wait),
            None => self.parking.sleep_until(buf, desc, || ready() || desc.write_io().is_some()),
        }
    }

    /// Releases a share-exclusive lock that did not go over to an I/O.
    pub(super) fn unlock_share_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        if desc.unlock_share_exclusive() {
            self.parking.wake(buf, desc);
        }
    }

    /// Releases the exclusive lock.
    pub(super) fn unlock_exclusive(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        if desc.unlock_exclusive() {
            self.parking.wake(buf, desc);
        }
    }
}

impl Descriptor {
    /// Changes the lock word as `change` says, if it says so.
    fn change_lock(&self, change: impl Fn(u32) -> Option<u32>) -> bool {
        self.lock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, change).is_ok()
    }

    pub(crate) fn try_shared(&self) -> bool {
        self.change_lock(|l| {
            debug_assert!(l & LOCK_SHARED < LOCK_SHARED);
            (l & (LOCK_X | LOCK_WANTED) == 0).then_some(l + 1)
        })
    }

    pub(crate) fn try_share_exclusive(&self) -> bool {
        self.change_lock(|l| (l & (LOCK_X | LOCK_SX | LOCK_WANTED) == 0).then_some(l | LOCK_SX))
    }

    /// Takes the exclusive lock if it is free. Leaves `wanted` set for other waiters.
    pub(crate) fn try_exclusive(&self) -> bool {
        self.change_lock(|l| (l & !LOCK_WANTED == 0).then_some(l | LOCK_X))
    }

    /// Takes the exclusive lock after a wait, and clears `wanted`. Other waiters set it again.
    pub(crate) fn take_wanted_exclusive(&self) -> bool {
        self.change_lock(|l| (l & !LOCK_WANTED == 0).then_some(LOCK_X))
    }

    /// Sets `wanted` if only readers hold the lock. Returns true if the lock is free.
    pub(crate) fn want_exclusive(&self) -> bool {
        let want = |l: u32| {
            (l & (LOCK_X | LOCK_SX) == 0 && l & LOCK_SHARED != 0).then_some(l | LOCK_WANTED)
        };
        let held = self.lock.fetch_update(Ordering::SeqCst, Ordering::SeqCst, want);
        held.is_err_and(|l| l & !LOCK_WANTED == 0)
    }

    /// Whether a shared lock could be taken now.
    pub(crate) fn allows_shared(&self) -> bool {
        self.lock.load(Ordering::SeqCst) & (LOCK_X | LOCK_WANTED) == 0
    }

    /// Whether a share-exclusive lock could be taken now.
    pub(crate) fn allows_share_exclusive(&self) -> bool {
        self.lock.load(Ordering::SeqCst) & (LOCK_X | LOCK_SX | LOCK_WANTED) == 0
    }

    /// Registers a waiter for the cleanup lock. Returns false if there is one already.
    pub(crate) fn want_cleanup(&self) -> bool {
        self.state.fetch_or(CLEANUP_WANTED, Ordering::SeqCst) & CLEANUP_WANTED == 0
    }

    /// Removes the waiter for the cleanup lock.
    pub(crate) fn end_cleanup(&self) {
        self.state.fetch_and(!CLEANUP_WANTED, Ordering::SeqCst);
    }

    /// Releases a shared lock. Like the other unlocks, returns true if threads sleep here.
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

    /// Whether the caller's pin is the only one.
    pub(super) fn is_pinned_once(&self) -> bool {
        refcount(self.load()) == 1
    }
}
