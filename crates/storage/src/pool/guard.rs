//! What users of the pool hold: a pinned page, and guards of its content lock. How the locks are
//! waited for is in `locking`.

use super::desc::{CLEANUP_WANTED, DIRTY, Descriptor, VALID};
use super::pins::Visit;
use super::{BufferPool, Core};
use crate::error::StorageError;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::{BLOCK_SIZE, Lsn, Page, PageBytes, PageMut, PageTag};
use std::ops::{Deref, DerefMut};

/// A page that stays in memory until this is dropped.
///
/// A pin has no counted reference to the pool, whose counter all threads would share: its count in
/// the descriptor is the reference. A pool that goes while there are pins leaves its memory to them
/// ([`Core::abandon`]).
pub struct Pinned {
    /// Its core lives as long as the pin.
    visit: Visit,
    buf: u32,
}

impl Pinned {
    /// Takes over a pin that the caller holds, of no backend in particular.
    pub(crate) fn adopt(pool: &BufferPool, buf: u32) -> Self {
        Pinned { visit: Visit::of_nobody(&pool.core), buf }
    }

    /// Takes over a pin that the caller holds as this visitor.
    pub(crate) fn new(visit: Visit, buf: u32) -> Self {
        Pinned { visit, buf }
    }

    /// Which page it is.
    pub fn tag(&self) -> PageTag {
        self.desc().tag()
    }

    /// The buffer's number, from 0.
    pub fn buffer(&self) -> u32 {
        self.buf
    }

    /// Is the page newer than its file?
    pub fn is_dirty(&self) -> bool {
        self.desc().load() & DIRTY != 0
    }

    fn core(&self) -> &Core {
        self.visit.core()
    }

    fn desc(&self) -> &Descriptor {
        &self.core().descs[self.buf as usize]
    }

    /// Waits until nobody changes the page, and reads it. It may be written to its file meanwhile.
    /// Nobody locks a page for reading twice: someone who wants to change it may have come between.
    pub fn lock_shared(&self) -> PageReadGuard<'_> {
        if !self.desc().try_shared() {
            self.core().wait_shared(self.buf);
        }
        PageReadGuard { pin: self }
    }

    /// Waits until nobody changes the page or writes it out, and keeps others from either. They may
    /// go on reading.
    ///
    /// The page may not be changed under this lock, hint bits neither: readers hold references to
    /// it.
    pub fn lock_share_exclusive(&self) -> PageHoldGuard<'_> {
        if !self.desc().try_share_exclusive() {
            self.core().wait_share_exclusive(self.buf);
        }
        PageHoldGuard { pin: self }
    }

    /// The share-exclusive lock, if it can be had at once.
    pub fn try_lock_share_exclusive(&self) -> Option<PageHoldGuard<'_>> {
        self.desc().try_share_exclusive().then(|| PageHoldGuard { pin: self })
    }

    /// Waits until nobody else reads, changes or writes the page out, and takes it for changes.
    ///
    /// The caller has no staged I/O (streams leave none behind), since this may wait.
    pub fn lock_exclusive(&self) -> PageWriteGuard<'_> {
        if !self.desc().try_exclusive() {
            self.core().wait_exclusive(self.buf);
        }
        PageWriteGuard { pin: self }
    }

    /// The exclusive lock, if nobody has the page locked.
    pub fn try_lock_exclusive(&self) -> Option<PageWriteGuard<'_>> {
        self.desc().try_exclusive().then(|| PageWriteGuard { pin: self })
    }

    /// Waits until nobody else has the page even pinned, and takes it for changes that move or
    /// remove what others may look for by its place. Nobody can pin it in a way that matters before
    /// they lock it, which they then can't.
    ///
    /// The caller has no other pin on the page and no staged I/O. Only one may wait for a page in
    /// this way; a second one is told [`StorageError::CleanupWanted`].
    pub fn lock_cleanup(&self) -> Result<PageWriteGuard<'_>, StorageError> {
        self.core().wait_cleanup(self.buf)?;
        Ok(PageWriteGuard { pin: self })
    }

    /// The cleanup lock, if nobody else has the page locked or pinned.
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
        Pinned { visit: self.visit.again(), buf: self.buf }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let Pinned { visit, buf } = self;
        // The account first: without the pin the core may be gone.
        visit.leave();
        if !visit.core().descs[*buf as usize].unpin_quietly() {
            Core::unpin_last(visit.core_ptr(), *buf);
        }
    }
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("tag", &self.tag()).field("buffer", &self.buf).finish()
    }
}

/// A page under the shared lock.
#[derive(Debug)]
pub struct PageReadGuard<'a> {
    pin: &'a Pinned,
}

impl PageReadGuard<'_> {
    /// The page, without its checksum, which a write-out may store meanwhile.
    pub fn page(&self) -> Page<'_> {
        // SAFETY: the pin keeps the buffer for this page, the shared lock excludes whoever would
        // change it.
        unsafe { self.pin.core().page(self.pin.buf) }
    }

    /// Which page it is.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }

    /// A copy of all bytes. The checksum is right only if the page was not changed since it was
    /// read or written.
    pub fn copy(&self) -> Box<PageBytes> {
        let mut bytes = Box::new([0; BLOCK_SIZE]);
        self.copy_to(&mut bytes);
        bytes
    }

    /// As [`Self::copy`], into memory of the caller's.
    pub fn copy_to(&self, bytes: &mut PageBytes) {
        self.page().copy_to(bytes);
        // SAFETY: as in `page`.
        let checksum = unsafe { self.pin.core().checksum_field(self.pin.buf) };
        PageMut(bytes).set_checksum(u16::from_le(checksum.load(Ordering::Relaxed)));
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

/// A page under the share-exclusive lock: others read it, nobody changes it or writes it out.
#[derive(Debug)]
pub struct PageHoldGuard<'a> {
    pin: &'a Pinned,
}

impl PageHoldGuard<'_> {
    /// The page's fields.
    pub fn page(&self) -> Page<'_> {
        // SAFETY: the pin keeps the buffer for this page, the share-exclusive lock excludes whoever
        // would change it.
        unsafe { self.pin.core().page(self.pin.buf) }
    }

    /// Which page it is.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }
}

impl Deref for PageHoldGuard<'_> {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: the pin keeps the buffer for this page, 8192 bytes inside the pool's region; this
        // lock excludes who changes it, and who stores its checksum on the way to the file. Readers
        // only read.
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
    /// The page must be written to its file some time: to be called before the lock is given up,
    /// for any change.
    pub fn mark_dirty(&mut self) {
        let old = self.pin.desc().state.fetch_or(DIRTY, Ordering::SeqCst);
        debug_assert!(old & VALID != 0, "a page that was never read is marked dirty");
    }

    /// Sets the position of the last WAL record that changed the page.
    pub fn set_lsn(&mut self, lsn: Lsn) {
        PageMut(self).set_lsn(lsn);
    }

    /// The page's fields.
    pub fn page(&self) -> Page<'_> {
        Page::new(self)
    }

    /// The page's fields, to change.
    pub fn page_mut(&mut self) -> PageMut<'_> {
        PageMut(self)
    }

    /// Which page it is.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }

    /// Does someone wait to be the only one with the page? Who holds a pin for long may give it up
    /// then.
    pub fn cleanup_is_wanted(&self) -> bool {
        self.pin.desc().load() & CLEANUP_WANTED != 0
    }
}

impl Deref for PageWriteGuard<'_> {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: as for changing it, below.
        unsafe { &*self.pin.ptr() }
    }
}

impl DerefMut for PageWriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut PageBytes {
        // SAFETY: the pin keeps the buffer for this page, 8192 bytes inside the pool's region; the
        // exclusive lock excludes every other reader and writer, the kernel's writes out of it
        // included.
        unsafe { &mut *self.pin.ptr() }
    }
}

impl Drop for PageWriteGuard<'_> {
    fn drop(&mut self) {
        self.pin.core().unlock_exclusive(self.pin.buf);
    }
}
