//! What users of the pool hold: a pinned page, and guards of its content lock. `locking` implements
//! the waiting.

use super::cleanup_waiters::Latch;
use super::core::Core;
use super::desc::{CLEANUP_WANTED, DIRTY, Descriptor, VALID};
use super::pins::PinPermit;
use crate::error::StorageError;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::{BLOCK_SIZE, Lsn, Page, PageBytes, PageMut, PageTag};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page that stays in memory until this is dropped.
///
/// A pin holds no counted reference to the pool, since all threads would contend for the counter.
/// The reference count in the descriptor keeps the pool's memory instead: a pool that is dropped
/// while there are pins leaves its memory to them ([`Core::abandon`]).
pub struct Pinned {
    /// Its core lives as long as the pin.
    permit: PinPermit,
    buf: u32,
}

impl Pinned {
    /// Takes over a pin of the caller that counts for no backend.
    pub(crate) fn uncounted(core: &Arc<Core>, buf: u32) -> Self {
        Pinned { permit: PinPermit::uncounted(core), buf }
    }

    /// Takes over a pin of the caller.
    pub(crate) fn new(permit: PinPermit, buf: u32) -> Self {
        Pinned { permit, buf }
    }

    /// Returns the page's tag.
    pub fn tag(&self) -> PageTag {
        self.desc().tag()
    }

    /// Returns the buffer's number, from 0.
    pub fn buffer(&self) -> u32 {
        self.buf
    }

    /// Whether the page is newer than its file.
    pub fn is_dirty(&self) -> bool {
        self.desc().load() & DIRTY != 0
    }

    fn core(&self) -> &Core {
        self.permit.core()
    }

    fn desc(&self) -> &Descriptor {
        &self.core().descs[self.buf as usize]
    }

    /// Waits until nobody changes the page, and locks it for reading. It may be written out
    /// meanwhile. A thread must not take two shared locks on a page: a waiter for the exclusive
    /// lock may have come in between.
    pub fn lock_shared(&self) -> PageReadGuard<'_> {
        if !self.desc().try_shared() {
            self.core().wait_shared(self.buf);
        }
        PageReadGuard { pin: self }
    }

    /// Waits until nobody changes the page or writes it out, and keeps others from doing so. They
    /// may go on reading.
    ///
    /// Nothing of the page may be changed under this lock, not even hint bits, since readers hold
    /// references to it.
    pub fn lock_share_exclusive(&self) -> PageHoldGuard<'_> {
        if !self.desc().try_share_exclusive() {
            self.core().wait_share_exclusive(self.buf);
        }
        PageHoldGuard { pin: self }
    }

    /// Takes the share-exclusive lock if it is free.
    pub fn try_lock_share_exclusive(&self) -> Option<PageHoldGuard<'_>> {
        self.desc().try_share_exclusive().then(|| PageHoldGuard { pin: self })
    }

    /// Waits until nobody else reads or changes the page or writes it out, and locks it for
    /// changes.
    ///
    /// The caller has no staged I/O, since this may wait. Streams leave none behind.
    pub fn lock_exclusive(&self) -> PageWriteGuard<'_> {
        if !self.desc().try_exclusive() {
            self.core().wait_exclusive(self.buf);
        }
        PageWriteGuard { pin: self }
    }

    /// Takes the exclusive lock if nobody holds a lock on the page.
    pub fn try_lock_exclusive(&self) -> Option<PageWriteGuard<'_>> {
        self.desc().try_exclusive().then(|| PageWriteGuard { pin: self })
    }

    /// Asks for a wake-up when the cleanup lock may be free. The latch is notified then.
    ///
    /// The caller has no other pin on the page and no staged I/O. Only one backend may wait for a
    /// page in this way; a second one gets [`StorageError::CleanupWanted`].
    pub fn request_cleanup(
        &self,
        latch: Arc<dyn Latch>,
    ) -> Result<CleanupRequest<'_>, StorageError> {
        if !self.desc().want_cleanup() {
            return Err(StorageError::CleanupWanted { tag: self.tag() });
        }
        self.core().cleanup.add(self.buf, latch);
        Ok(CleanupRequest { pin: self })
    }

    /// Takes the cleanup lock, the exclusive lock while the caller's pin is the only one, if nobody
    /// else has the page locked or pinned. Under it, items may be moved or removed that others
    /// would look for by their position. Another backend may pin the page, but has to wait before
    /// it can lock it.
    pub fn try_lock_cleanup(&self) -> Option<PageWriteGuard<'_>> {
        let guard = self.try_lock_exclusive()?;
        self.desc().is_pinned_once().then_some(guard)
    }

    fn ptr(&self) -> *mut PageBytes {
        self.core().page_ptr(self.buf).cast()
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        self.desc().pin_again();
        Pinned { permit: self.permit.for_second_pin(), buf: self.buf }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Pinned { permit, buf } = self;
        // The permit first: once the pin is released, the core may be gone.
        permit.release();
        if !permit.core().descs[*buf as usize].unpin_quietly() {
            Core::unpin_last(permit.core_ptr(), *buf);
        }
    }
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("tag", &self.tag()).field("buffer", &self.buf).finish()
    }
}

/// A backend's wait for the cleanup lock of a page. Dropping it ends the wait.
#[derive(Debug)]
pub struct CleanupRequest<'a> {
    pin: &'a Pinned,
}

impl CleanupRequest<'_> {
    /// Whether the backend should try again: its pin is the only one, or the page is being written,
    /// which [`CleanupRequest::finish_write`] ends. The latch is notified whenever this may have
    /// become true.
    pub fn is_ready(&self) -> bool {
        let desc = self.pin.desc();
        desc.is_pinned_once() || desc.write_io().is_some()
    }

    /// Completes the write of the page, if there is one. The write holds a pin.
    pub fn finish_write(&self) {
        if let Some(wait) = self.pin.desc().write_io() {
            self.pin.core().end_io(wait);
        }
    }
}

impl Drop for CleanupRequest<'_> {
    fn drop(&mut self) {
        // In this order: the next waiter may come as soon as the flag is gone.
        self.pin.core().cleanup.remove(self.pin.buf);
        self.pin.desc().end_cleanup();
    }
}

/// A page under the shared lock.
#[derive(Debug)]
pub struct PageReadGuard<'a> {
    pin: &'a Pinned,
}

impl PageReadGuard<'_> {
    /// Returns the page without its checksum, which a write-out may store meanwhile.
    pub fn page(&self) -> Page<'_> {
        // SAFETY: the pin keeps the page in the buffer, and the shared lock excludes changes.
        unsafe { self.pin.core().page(self.pin.buf) }
    }

    /// Returns the page's tag.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }

    /// Returns a copy of all bytes. The checksum is correct only if the page was not changed since
    /// it was read or written.
    pub fn copy(&self) -> Box<PageBytes> {
        let mut bytes = Box::new([0; BLOCK_SIZE]);
        self.page().copy_to(&mut bytes);
        // SAFETY: as in `page`.
        let checksum = unsafe { self.pin.core().checksum_field(self.pin.buf) };
        PageMut(&mut bytes).set_checksum(u16::from_le(checksum.load(Ordering::Relaxed)));
        bytes
    }
}

impl Drop for PageReadGuard<'_> {
    fn drop(&mut self) {
        let desc = self.pin.desc();
        if desc.unlock_shared() {
            self.pin.core().parking.wake(self.pin.buf, desc);
        }
    }
}

/// A page under the share-exclusive lock: others may read it; nobody changes it or writes it out.
#[derive(Debug)]
pub struct PageHoldGuard<'a> {
    pin: &'a Pinned,
}

impl PageHoldGuard<'_> {
    /// Returns the page's fields.
    pub fn page(&self) -> Page<'_> {
        // SAFETY: the pin keeps the page in the buffer, and the share-exclusive lock excludes
        // changes.
        unsafe { self.pin.core().page(self.pin.buf) }
    }

    /// Returns the page's tag.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }
}

impl Deref for PageHoldGuard<'_> {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: the pin keeps the page in the buffer, 8192 bytes inside the pool's region. This
        // lock excludes changes and stores of the checksum. Readers only read.
        unsafe { &*self.pin.ptr() }
    }
}

impl Drop for PageHoldGuard<'_> {
    fn drop(&mut self) {
        self.pin.core().unlock_share_exclusive(self.pin.buf);
    }
}

/// A page under the exclusive lock.
#[derive(Debug)]
pub struct PageWriteGuard<'a> {
    pin: &'a Pinned,
}

impl PageWriteGuard<'_> {
    /// Marks the page dirty, so that it is written to its file some time. To be called after any
    /// change, before the lock is released.
    pub fn mark_dirty(&mut self) {
        let old = self.pin.desc().state.fetch_or(DIRTY, Ordering::SeqCst);
        debug_assert!(old & VALID != 0, "a page that was never read is marked dirty");
    }

    /// Sets the end of the last WAL record that changed the page.
    pub fn set_lsn(&mut self, lsn: Lsn) {
        PageMut(self).set_lsn(lsn);
    }

    /// Returns the page's fields.
    pub fn page(&self) -> Page<'_> {
        Page::new(self)
    }

    /// Returns the page's fields for changes.
    pub fn page_mut(&mut self) -> PageMut<'_> {
        PageMut(self)
    }

    /// Returns the page's tag.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }

    /// Whether a backend waits for the cleanup lock. A backend that holds a pin for long may then
    /// release it.
    pub fn cleanup_is_wanted(&self) -> bool {
        self.pin.desc().load() & CLEANUP_WANTED != 0
    }
}

impl Deref for PageWriteGuard<'_> {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: as in `deref_mut`.
        unsafe { &*self.pin.ptr() }
    }
}

impl DerefMut for PageWriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut PageBytes {
        // SAFETY: the pin keeps the page in the buffer, 8192 bytes inside the pool's region. The
        // exclusive lock excludes all other readers and writers, including writes by the kernel.
        unsafe { &mut *self.pin.ptr() }
    }
}

impl Drop for PageWriteGuard<'_> {
    fn drop(&mut self) {
        self.pin.core().unlock_exclusive(self.pin.buf);
    }
}
