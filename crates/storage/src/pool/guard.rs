//! What users of the pool hold: a pinned page, and guards of its content lock.

use super::BufferPool;
use super::desc::{DIRTY, Descriptor, VALID};
use forebay_aio as aio;
use forebay_aio::sync::atomic::Ordering;
use forebay_format::{BLOCK_SIZE, Lsn, Page, PageBytes, PageMut, PageTag};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A page that stays in memory until this is dropped.
pub struct Pinned {
    pool: Arc<BufferPool>,
    buf: u32,
}

impl Pinned {
    /// Takes over a pin that the caller holds.
    pub(crate) fn adopt(pool: &Arc<BufferPool>, buf: u32) -> Self {
        Pinned { pool: Arc::clone(pool), buf }
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

    fn desc(&self) -> &Descriptor {
        self.pool.desc(self.buf)
    }

    /// Waits until nobody changes the page, and reads it. It may be written to its file meanwhile.
    pub fn lock_shared(&self) -> PageReadGuard<'_> {
        let desc = self.desc();
        while !desc.try_shared() {
            // An exclusive holder is a running thread that waits for no reader's I/O.
            self.pool.core.parking.sleep_until(self.buf, desc, || desc.allows_shared());
        }
        PageReadGuard { pin: self }
    }

    /// Waits until nobody else reads, changes or writes the page out, and takes it for changes.
    ///
    /// The caller has no staged I/O (streams leave none behind), since this may wait.
    pub fn lock_exclusive(&self) -> PageWriteGuard<'_> {
        if !self.desc().try_exclusive() {
            self.pool.wait_exclusive(self.buf);
        }
        PageWriteGuard { pin: self }
    }

    /// The exclusive lock, if nobody has the page locked.
    pub fn try_lock_exclusive(&self) -> Option<PageWriteGuard<'_>> {
        self.desc().try_exclusive().then(|| PageWriteGuard { pin: self })
    }

    fn ptr(&self) -> *mut PageBytes {
        self.pool.core.page_ptr(self.buf).cast()
    }
}

impl BufferPool {
    /// The slow path of an exclusive lock: completes the write-out that holds the page, or sleeps.
    #[cold]
    fn wait_exclusive(&self, buf: u32) {
        let desc = self.desc(buf);
        while !desc.take_wanted_exclusive() {
            match desc.write_io() {
                Some(wait) => self.aio.wait_done(wait),
                None => self
                    .core
                    .parking
                    .sleep_until(buf, desc, || desc.want_exclusive() || desc.write_io().is_some()),
            }
        }
    }

    /// Takes the share-exclusive lock, in which a page is written out. The caller must hold no other one.
    pub(super) fn lock_share_exclusive(&self, io: &mut aio::Backend, buf: u32) {
        let desc = self.desc(buf);
        while !desc.try_share_exclusive() {
            if let Some(wait) = desc.write_io() {
                io.wait(wait);
            } else {
                io.submit();
                self.core
                    .parking
                    .sleep_until(buf, desc, || desc.allows_share_exclusive() || desc.write_io().is_some());
            }
        }
    }

    /// Gives back a share-exclusive lock that no I/O took over.
    pub(super) fn unlock_share_exclusive(&self, buf: u32) {
        let desc = self.desc(buf);
        if desc.unlock_share_exclusive() {
            self.core.parking.wake(buf, desc);
        }
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        self.desc().pin_again();
        Pinned { pool: Arc::clone(&self.pool), buf: self.buf }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.pool.core.unpin(self.buf);
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
        // SAFETY: the pin keeps the buffer for this page, the shared lock excludes whoever would change it.
        unsafe { self.pin.pool.core.page(self.pin.buf) }
    }

    /// Which page it is.
    pub fn tag(&self) -> PageTag {
        self.pin.tag()
    }

    /// A copy of all bytes. The checksum is right only if the page was not changed since it was read or written.
    pub fn copy(&self) -> Box<PageBytes> {
        let mut bytes = Box::new([0; BLOCK_SIZE]);
        self.copy_to(&mut bytes);
        bytes
    }

    /// As [`Self::copy`], into memory of the caller's.
    pub fn copy_to(&self, bytes: &mut PageBytes) {
        let core = &self.pin.pool.core;
        self.page().copy_to(bytes);
        // SAFETY: as in `page`.
        let checksum = unsafe { core.checksum_field(self.pin.buf) };
        PageMut(bytes).set_checksum(u16::from_le(checksum.load(Ordering::Relaxed)));
    }
}

impl Drop for PageReadGuard<'_> {
    fn drop(&mut self) {
        let desc = self.pin.desc();
        if desc.unlock_shared() {
            self.pin.pool.core.parking.wake(self.pin.buf, desc);
        }
    }
}

/// A page under the exclusive lock.
#[derive(Debug)]
pub struct PageWriteGuard<'a> {
    pin: &'a Pinned,
}

impl PageWriteGuard<'_> {
    /// The page must be written to its file some time: to be called before the lock is given up, for any change.
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
}

impl Deref for PageWriteGuard<'_> {
    type Target = PageBytes;

    fn deref(&self) -> &PageBytes {
        // SAFETY: as for the read guard; the exclusive lock is stronger.
        unsafe { &*self.pin.ptr() }
    }
}

impl DerefMut for PageWriteGuard<'_> {
    fn deref_mut(&mut self) -> &mut PageBytes {
        // SAFETY: the pin keeps the buffer for this page, 8192 bytes inside the pool's region; the exclusive lock
        // excludes every other reader and writer, the kernel's writes out of it included.
        unsafe { &mut *self.pin.ptr() }
    }
}

impl Drop for PageWriteGuard<'_> {
    fn drop(&mut self) {
        let desc = self.pin.desc();
        if desc.unlock_exclusive() {
            self.pin.pool.core.parking.wake(self.pin.buf, desc);
        }
    }
}
