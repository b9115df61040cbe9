//! What completions and pins need of the pool: the descriptors and pages, and how pins end.

use super::budget::Budget;
use super::cleanup_waiters::CleanupWaiters;
use super::config::PoolConfig;
use super::damage::FailureCounts;
use super::desc::{
    BUFFER_WANTED, CLEANUP_WANTED, Descriptor, ORPHAN, TAG_VALID, WAITERS, refcount,
};
use super::parking::Parking;
use super::slab::Slab;
use crate::smgr::{Smgr, SyncQueue, WrittenPages};
use forebay_aio::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use forebay_aio::sync::memory::AtomicU16;
use forebay_aio::{Aio, Region, WaitRef};
use forebay_format::page::CHECKSUM_AT;
use forebay_format::{BLOCK_SIZE, Page};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// The part of the pool that completions use. It lives as long as any I/O or pin needs it.
pub(crate) struct Core {
    /// Of all buffers that the pool has ever had.
    pub(crate) descs: Slab<Descriptor>,
    /// So many of them have places.
    placed: AtomicUsize,
    /// Those from here on are retired: pinned, without a tag. Between both, some are.
    size: AtomicUsize,
    pub(crate) region: Arc<Region>,
    pub(crate) parking: Parking,
    pub(super) cleanup: CleanupWaiters,
    pub(crate) sync: Arc<SyncQueue>,
    pub(crate) written: Arc<WrittenPages>,
    pub(crate) checksums: bool,
    /// The owner of the relations, if they are temporary.
    pub(crate) owner: Option<i32>,
    pub(crate) checksum_failures: Arc<FailureCounts>,
    pub(crate) budget: Budget,
    /// For threads that wait for I/O of others. Weak, because an I/O in flight refers to the core,
    /// and the I/O layer outlives its I/O.
    pub(super) aio: Weak<Aio>,
    /// After the pool was dropped: the number of buffers still pinned; plus one during the count.
    orphans: AtomicUsize,
    /// After the pool was dropped: the reference to the core that those pins share.
    abandoned: AtomicPtr<Core>,
}

impl Core {
    /// Makes the core of an empty pool over `region`.
    pub(super) fn new(
        config: &PoolConfig,
        region: Arc<Region>,
        aio: &Arc<Aio>,
        smgr: &Smgr,
        checksum_failures: Arc<FailureCounts>,
    ) -> Arc<Core> {
        let slots = aio.max_backends();
        let owner = smgr.owner();
        Arc::new(Core {
            descs: Slab::new(config.max_buffers, config.buffers, |_| Descriptor::new()),
            placed: AtomicUsize::new(config.buffers),
            size: AtomicUsize::new(config.buffers),
            region,
            parking: Parking::new(),
            cleanup: CleanupWaiters::default(),
            sync: Arc::clone(smgr.sync_queue()),
            written: Arc::clone(smgr.written()),
            checksums: config.checksums,
            owner,
            checksum_failures,
            budget: match owner {
                Some(_) => Budget::for_one_backend(config.buffers, slots),
                None => Budget::new(config.buffers, slots),
            },
            aio: Arc::downgrade(aio),
            orphans: AtomicUsize::new(0),
            abandoned: AtomicPtr::new(std::ptr::null_mut()),
        })
    }

    /// Returns the number of buffers that have places.
    pub(crate) fn placed(&self) -> usize {
        self.placed.load(Ordering::SeqCst)
    }

    /// Says that so many buffers have places.
    pub(crate) fn set_placed(&self, buffers: usize) {
        self.placed.store(buffers, Ordering::SeqCst);
    }

    /// Returns the number of buffers up to the last one in use.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::SeqCst)
    }

    /// Says that the buffers from this one on are retired.
    pub(crate) fn set_size(&self, buffers: usize) {
        self.size.store(buffers, Ordering::SeqCst);
    }

    /// Returns the descriptors of the buffers that have places.
    pub(crate) fn placed_descs(&self) -> &[Descriptor] {
        // The number first: there may be more descriptors a moment later, but never fewer. While
        // the pool shrinks, some of these are retired.
        let placed = self.placed().min(self.size());
        &self.descs[..placed]
    }

    /// Returns the descriptors of the buffers without places that are in use.
    pub(crate) fn left_descs(&self) -> impl Iterator<Item = &Descriptor> {
        let (placed, size) = (self.placed(), self.size());
        let left = self.descs[..size].iter().skip(placed);
        left.filter(|desc| desc.load() & TAG_VALID != 0)
    }

    /// Publishes the wait reference of an I/O that was started on a buffer.
    pub(crate) fn io_started(&self, buf: u32, round: u32, wait: WaitRef) {
        let desc = &self.descs[buf as usize];
        if desc.set_io(round, wait) {
            self.parking.wake(buf, desc);
        }
        if desc.load() & CLEANUP_WANTED != 0 {
            // The waiter completes the I/O, whose issuer may be busy or gone.
            self.cleanup.notify(buf);
        }
        self.budget.look_again();
    }

    /// Returns the address of a buffer's page.
    pub(crate) fn page_ptr(&self, buf: u32) -> *mut u8 {
        self.region.ptr(buf as usize * BLOCK_SIZE)
    }

    /// Returns a page without its checksum.
    ///
    /// # Safety
    /// While the page is in use, the caller keeps it in the buffer (by a pin or an I/O in progress)
    /// and excludes changes (by a content lock, or because no other thread knows the page). Another
    /// thread may store the checksum through [`Self::checksum_field`].
    pub(crate) unsafe fn page(&self, buf: u32) -> Page<'_> {
        const REST_AT: usize = CHECKSUM_AT + 2;
        let at = self.page_ptr(buf);
        // SAFETY: the buffer's 8192 bytes lie in the region, which `self` keeps. The two parts
        // leave out the bytes that may change; the caller excludes changes of the others.
        unsafe {
            Page::from_parts(
                &*at.cast::<[u8; CHECKSUM_AT]>(),
                &*at.add(REST_AT).cast::<[u8; BLOCK_SIZE - REST_AT]>(),
            )
        }
    }

    /// Returns the checksum field of a page, little-endian. Only this field may change while others
    /// read the page.
    ///
    /// # Safety
    /// As for [`Self::page`]. Only the holder of the share-exclusive lock may store into the field,
    /// and it must hold no reference to the whole page at that time.
    pub(crate) unsafe fn checksum_field(&self, buf: u32) -> &AtomicU16 {
        // SAFETY: the two bytes lie in the page and are 2-aligned, as pages are 8192-aligned. While
        // other threads may store into them, all accesses go through this atomic.
        unsafe { AtomicU16::from_ptr(self.page_ptr(buf).add(CHECKSUM_AT).cast()) }
    }

    /// Releases a pin.
    pub(crate) fn unpin(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        let old = desc.unpin();
        if Descriptor::needs_attention(old) {
            self.attend(buf, old);
        }
    }

    /// Does what the release of a pin requires; `before` is the state before it.
    #[cold]
    fn attend(&self, buf: u32, before: u64) {
        let desc = &self.descs[buf as usize];
        if before & WAITERS != 0 {
            self.parking.wake(buf, desc);
        }
        if before & CLEANUP_WANTED != 0 && refcount(before) == 2 {
            self.cleanup.notify(buf);
        }
        if refcount(before) == 1 {
            if before & BUFFER_WANTED != 0 {
                self.budget.buffer_freed(desc);
            }
            if before & ORPHAN != 0 {
                self.orphan_gone();
            }
        }
    }

    /// Releases a pin that may be the last reference to the core, if the release requires more than
    /// a decrement.
    #[cold]
    pub(super) fn unpin_last(core: NonNull<Core>, buf: u32) {
        // SAFETY: every core is in an `Arc` and lives while the caller's pin does; the new
        // reference keeps it alive beyond that.
        let core = unsafe {
            Arc::increment_strong_count(core.as_ptr());
            Arc::from_raw(core.as_ptr())
        };
        core.unpin(buf);
    }

    /// Leaves the memory to the remaining pins, as the pool is dropped.
    pub(super) fn abandon(self: &Arc<Self>) {
        self.orphans.store(1, Ordering::SeqCst);
        self.abandoned.store(Arc::into_raw(Arc::clone(self)).cast_mut(), Ordering::SeqCst);
        for desc in self.placed_descs().iter().chain(self.left_descs()) {
            self.orphans.fetch_add(1, Ordering::SeqCst);
            if !desc.orphan() {
                self.orphans.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.orphan_gone();
    }

    fn orphan_gone(&self) {
        if self.orphans.fetch_sub(1, Ordering::SeqCst) == 1 {
            // SAFETY: this releases the reference that `abandon` made, once; the caller has
            // another one.
            unsafe { Arc::decrement_strong_count(self.abandoned.load(Ordering::SeqCst)) };
        }
    }
}
