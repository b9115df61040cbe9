//! The buffer pool: shared pages in aligned memory, between the access methods and the files.
//!
//! | module | what it holds |
//! |---|---|
//! | `desc` | descriptor of a buffer: state word, tag, pins, I/O in progress |
//! | `locking` | the content lock, and waiting for it |
//! | `budget` | who may hold how many pins, and waiting for one |
//! | `pins` | the right to a pin, for one page or many |
//! | `parking` | where threads sleep that wait for a buffer |
//! | `table` | which buffer holds a page |
//! | `lookup` | finding and pinning what is in memory; giving a buffer a page |
//! | `guard` | [`Pinned`], [`PageReadGuard`], [`PageHoldGuard`], [`PageWriteGuard`]: what users hold |
//! | `strategy` | [`Strategy`] and its rings |
//! | `victim` | clock sweep: a buffer for a new page |
//! | `read` | pinning a page, starting and awaiting reads of neighbours |
//! | `prefetch` | pages read ahead without a pin for anybody |
//! | `extend` | new pages at a relation's end; pages that recovery builds from nothing |
//! | `write` | writing out: runs of neighbours, passes over many pages, victims and rings |
//! | `cleaner` | [`Cleaner`]: clean buffers ahead of the clock's hand |
//! | `counters` | [`PoolStats`]: what replacement costs |
//! | `complete` | what any thread does when a read or write has ended |
//! | `readback` | pages that were written, looked for on the disk |
//! | `damage` | [`ReadPolicy`], [`ReadWarning`]: what becomes of damaged pages, and how many there were |
//! | `discard` | forgetting the pages of dropped or truncated relations |
//! | `inspect` | what is in the buffers, and whether their checksums are right |
//! | `evict` | emptying buffers, or marking them dirty, on order |

mod budget;
mod cleaner;
mod complete;
mod counters;
mod damage;
mod desc;
mod discard;
mod evict;
mod extend;
mod guard;
mod inspect;
mod locking;
mod lookup;
mod parking;
mod pins;
mod prefetch;
mod read;
mod readback;
mod strategy;
mod table;
mod victim;
mod write;

pub use cleaner::{CleanReport, Cleaner, CleanerOptions};
pub use counters::PoolStats;
pub use damage::{ChecksumFailures, ReadPolicy, ReadWarning};
pub use evict::{Dirtied, DirtyReport, EvictReport, Evicted};
pub use guard::{PageHoldGuard, PageReadGuard, PageWriteGuard, Pinned};
pub use inspect::{BufferInfo, BufferPage, KernelCached, MemoryChecksums, PoolSummary, UsageCount};
pub use prefetch::Prefetched;
pub use readback::READ_BACK_FILES;
pub use strategy::Strategy;
pub use write::{WriteReport, WriteScope};

pub(crate) use damage::Mailbox;
pub(crate) use pins::{Grant, Visit};
pub(crate) use read::{Slot, SlotState};
pub(crate) use strategy::Ring;
pub(crate) use write::Run;

use crate::error::{StorageError, WalFailure};
use crate::smgr::{Smgr, SyncQueue, SyncReport, WrittenPages};
use crate::{Backend, PrewarmMode};
use budget::Budget;
use desc::{BUFFER_WANTED, Descriptor, ORPHAN, WAITERS, refcount};
use forebay_aio::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use forebay_aio::sync::memory::AtomicU16;
use forebay_aio::sync::{Instant, OnceLock};
use forebay_aio::{
    self as aio, Aio, HugePages, IoFlags, IoObject, Region, SharedCompletion, WaitRef,
};
use forebay_format::page::CHECKSUM_AT;
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, Lsn, Page, RelFileLocator};
use parking::Parking;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use table::PageTable;

/// The write-ahead log, as far as the pool needs it.
pub trait WalFlush: Send + Sync {
    /// Makes the log durable up to `upto`.
    fn flush(&self, io: &mut aio::Backend, upto: Lsn) -> Result<(), WalFailure>;
    /// Up to where the log is known to be durable.
    fn flushed(&self) -> Lsn;
    /// The log has ended: no page is written any more, whatever its LSN, since its last change may
    /// be without a record.
    fn has_ended(&self) -> bool {
        false
    }
}

/// How a pool is made.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// Number of 8 kB buffers; at least 16.
    pub buffers: usize,
    /// io_combine_limit: blocks in one read or write, 1 to 128.
    pub combine_limit: u32,
    /// Are page checksums set and verified?
    pub checksums: bool,
    /// Try huge pages for the pool's memory.
    pub huge_pages: HugePages,
    /// Writes in flight at once in a checkpoint.
    pub write_depth: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            buffers: 16_384,
            combine_limit: 16,
            checksums: true,
            huge_pages: HugePages::Try,
            write_depth: 16,
        }
    }
}

/// A cache line of its own, for what is written often beside what is read often.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct OwnLine<T>(T);

impl<T> std::ops::Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The part of the pool that completions reach; they may outlive the pool's users.
pub(crate) struct Core {
    pub(crate) descs: Box<[Descriptor]>,
    pub(crate) region: Arc<Region>,
    pub(crate) parking: Parking,
    pub(crate) sync: Arc<SyncQueue>,
    pub(crate) written: Arc<WrittenPages>,
    pub(crate) checksums: bool,
    /// Of a private pool: whom its files are named for.
    pub(crate) owner: Option<i32>,
    pub(crate) checksum_failures: Arc<damage::FailureCounts>,
    pub(crate) budget: Budget,
    /// For who waits for someone else's I/O. Weak: an I/O in flight keeps this alive, and the I/O
    /// layer outlives its I/O.
    aio: Weak<Aio>,
    /// Pinned buffers of a pool that is gone, and one more while they are counted; and the
    /// reference that they have.
    orphans: AtomicUsize,
    abandoned: AtomicPtr<Core>,
}

/// Shared pages of relations in memory.
pub struct BufferPool {
    pub(crate) core: Arc<Core>,
    pub(crate) aio: Arc<Aio>,
    pub(crate) smgr: Arc<Smgr>,
    pub(crate) config: PoolConfig,
    table: PageTable,
    /// The clock's hand; counts on forever.
    hand: OwnLine<AtomicU64>,
    demand: cleaner::Demand,
    counters: counters::Counters,
    wal: OnceLock<Arc<dyn WalFlush>>,
    on_read: Arc<dyn SharedCompletion>,
    on_write: Arc<dyn SharedCompletion>,
}

impl WalFlush for forebay_wal::Wal {
    fn flush(&self, io: &mut aio::Backend, upto: Lsn) -> Result<(), WalFailure> {
        forebay_wal::Wal::flush(self, io, upto).map_err(|e| Arc::new(e) as WalFailure)
    }

    fn flushed(&self) -> Lsn {
        self.flushed_lsn()
    }

    fn has_ended(&self) -> bool {
        self.poisoned().is_some()
    }
}

impl BufferPool {
    /// Makes an empty pool.
    pub fn new(
        config: PoolConfig,
        aio: Arc<Aio>,
        smgr: Arc<Smgr>,
    ) -> Result<Arc<Self>, StorageError> {
        BufferPool::counting(config, aio, smgr, Arc::default())
    }

    /// Makes an empty pool that counts wrong checksums together with others.
    pub(crate) fn counting(
        config: PoolConfig,
        aio: Arc<Aio>,
        smgr: Arc<Smgr>,
        checksum_failures: Arc<damage::FailureCounts>,
    ) -> Result<Arc<Self>, StorageError> {
        let config = PoolConfig {
            buffers: config.buffers.max(16),
            combine_limit: config.combine_limit.clamp(1, 128),
            write_depth: config.write_depth.max(1),
            ..config
        };
        let private = smgr.is_private();
        let huge_pages = if private { HugePages::Off } else { config.huge_pages };
        let region = Region::with_huge_pages(config.buffers * BLOCK_SIZE, huge_pages)?;
        if let Some(reason) = region.huge_pages_refused() {
            tracing::info!(
                megabytes = region.len() >> 20,
                %reason,
                "no huge pages for shared buffers: not enough of them are reserved (vm.nr_hugepages)"
            );
        }
        if !private {
            // Places for registered memory are few, and sessions many.
            aio.register_memory(&region);
        }
        let slots = aio.max_backends();
        let core = Arc::new(Core {
            descs: (0..config.buffers).map(|_| Descriptor::new()).collect(),
            region,
            parking: Parking::new(),
            sync: Arc::clone(smgr.sync_queue()),
            written: Arc::clone(smgr.written()),
            checksums: config.checksums,
            owner: smgr.owner(),
            checksum_failures,
            budget: if private {
                Budget::of_one(config.buffers, slots)
            } else {
                Budget::new(config.buffers, slots)
            },
            aio: Arc::downgrade(&aio),
            orphans: AtomicUsize::new(0),
            abandoned: AtomicPtr::new(std::ptr::null_mut()),
        });
        Ok(Arc::new(BufferPool {
            table: PageTable::new(config.buffers),
            hand: OwnLine(AtomicU64::new(0)),
            demand: cleaner::Demand::new(),
            counters: counters::Counters::default(),
            wal: OnceLock::new(),
            on_read: Arc::new(complete::ReadCompletion {
                core: Arc::clone(&core),
                policy: ReadPolicy::default(),
                mailbox: None,
            }),
            on_write: Arc::new(complete::WriteCompletion(Arc::clone(&core))),
            core,
            aio,
            smgr,
            config,
        }))
    }

    /// Gives the pool the log that must be durable ahead of the pages. Until then (recovery) pages
    /// are taken to be covered by the log that is being replayed. Only the first call counts.
    pub fn attach_wal(&self, wal: Arc<dyn WalFlush>) {
        let _ = self.wal.set(wal);
    }

    /// Relation files.
    pub fn smgr(&self) -> &Arc<Smgr> {
        &self.smgr
    }

    /// The I/O layer.
    pub fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// What replacing buffers has cost.
    pub fn stats(&self) -> PoolStats {
        self.counters.read(self.core.budget.waits())
    }

    /// Number of buffers.
    pub fn buffers(&self) -> usize {
        self.config.buffers
    }

    /// Blocks of a fork, as everyone may see them now.
    pub fn nblocks(&self, rel: RelFileLocator, fork: Fork) -> Result<BlockNumber, StorageError> {
        self.smgr.nblocks(rel, fork)
    }

    /// Pages read so far whose checksums were wrong, by database.
    pub fn checksum_failures(&self) -> Vec<ChecksumFailures> {
        self.core.checksum_failures.all()
    }

    /// Makes durable what was written before: syncs each file and directory with pending requests,
    /// and then, with [`SmgrConfig::verify_writes`](crate::SmgrConfig::verify_writes), reads back
    /// what was written to files.
    ///
    /// # Errors
    /// A sync that failed, or a write that is not there: both are fatal. Pages that could not be
    /// read stay noted for the next time.
    pub fn sync_pending(&self, be: &mut Backend) -> Result<SyncReport, StorageError> {
        self.core.written.begin_round();
        let synced = self.smgr.sync_pending(&mut be.io)?;
        let since = Instant::now();
        let read_back = self.verify_written(be)?;
        Ok(SyncReport { read_back, read_back_time: since.elapsed(), ..synced })
    }

    /// Reads a range of a fork ahead of use; see [`crate::prewarm::prewarm`].
    pub fn prewarm(
        self: &Arc<Self>,
        be: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        mode: PrewarmMode,
    ) -> Result<u64, StorageError> {
        let blocks = self.nblocks(rel, fork)?;
        crate::prewarm::prewarm(self, be, rel, fork, 0..blocks, mode)
    }

    /// The right to take a pin, as this backend. May wait, if the pool is small; see `budget`.
    pub(crate) fn visit(&self, be: &mut Backend) -> Visit {
        Visit::new(&self.core, be.io.slot(), || be.io.submit())
    }

    /// A grant for up to `n` pins; at least one. May wait as [`Self::visit`] may.
    pub(crate) fn grant(&self, be: &mut Backend, n: u32) -> Grant<'_> {
        Grant::new(&self.core, self.visit(be), n)
    }

    /// Takes up to `want` spare pins for a claimer who has `have` of them; to be given back with
    /// [`Self::return_pins`].
    pub(crate) fn claim_pins(&self, have: u32, want: u32) -> u32 {
        self.core.budget.claim(have, want)
    }

    /// Gives claimed pins back.
    pub(crate) fn return_pins(&self, n: u32) {
        self.core.budget.give_back(n);
    }

    /// As what the pages' I/O is counted.
    pub(crate) fn object(&self) -> IoObject {
        self.smgr.object()
    }

    /// The strategy that is followed: a private pool has no use for rings, as there is nobody to
    /// spare.
    pub(crate) fn effective(&self, strategy: Strategy) -> Strategy {
        if self.smgr.is_private() { Strategy::Normal } else { strategy }
    }

    /// What is said of an I/O's memory.
    fn io_flags(&self) -> IoFlags {
        IoFlags { local_memory: self.smgr.is_private(), ..IoFlags::default() }
    }

    pub(crate) fn desc(&self, buf: u32) -> &Descriptor {
        &self.core.descs[buf as usize]
    }
}

impl Core {
    /// Lets everyone know the wait reference of an I/O that was started on a buffer.
    pub(crate) fn io_started(&self, buf: u32, round: u32, wait: WaitRef) {
        let desc = &self.descs[buf as usize];
        if desc.set_io(round, wait) {
            self.parking.wake(buf, desc);
        }
        self.budget.io_started();
    }

    /// Where a buffer's page is.
    pub(crate) fn page_ptr(&self, buf: u32) -> *mut u8 {
        self.region.ptr(buf as usize * BLOCK_SIZE)
    }

    /// A page, but for its checksum.
    ///
    /// # Safety
    /// Until the page goes out of use, the caller keeps the buffer for it (by a pin, or an I/O in
    /// progress) and keeps everyone from changing it (by a content lock, or by being the only one
    /// to know it). Another thread may store the checksum, by [`Self::checksum_field`].
    pub(crate) unsafe fn page(&self, buf: u32) -> Page<'_> {
        const REST_AT: usize = CHECKSUM_AT + 2;
        let at = self.page_ptr(buf);
        // SAFETY: the buffer's 8192 bytes lie in the region, which `self` keeps; the two parts
        // leave out the bytes that may change, and the caller sees to the others.
        unsafe {
            Page::from_parts(
                &*at.cast::<[u8; CHECKSUM_AT]>(),
                &*at.add(REST_AT).cast::<[u8; BLOCK_SIZE - REST_AT]>(),
            )
        }
    }

    /// The checksum field of a page, little-endian: all that may change under a reader.
    ///
    /// # Safety
    /// As for [`Self::page`]; and only the holder of the share-exclusive lock may store into it,
    /// who for that time has no reference to the page as a whole.
    pub(crate) unsafe fn checksum_field(&self, buf: u32) -> &AtomicU16 {
        // SAFETY: the two bytes lie in the page and are 2-aligned, as pages are 8192-aligned; while
        // others may store into them, everyone goes through this.
        unsafe { AtomicU16::from_ptr(self.page_ptr(buf).add(CHECKSUM_AT).cast()) }
    }

    /// Drops a pin.
    pub(crate) fn unpin(&self, buf: u32) {
        let desc = &self.descs[buf as usize];
        let old = desc.unpin();
        if Descriptor::needs_attention(old) {
            self.attend(buf, old);
        }
    }

    /// What is to be done after a pin was given back, by the state before.
    #[cold]
    fn attend(&self, buf: u32, before: u64) {
        let desc = &self.descs[buf as usize];
        if before & WAITERS != 0 {
            self.parking.wake(buf, desc);
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

    /// Gives back a pin that may be all that keeps the core, where there is something to be done
    /// afterwards.
    #[cold]
    fn unpin_last(core: NonNull<Core>, buf: u32) {
        // SAFETY: every core is in an `Arc`, and lives while the caller's pin does; the new
        // reference keeps it longer.
        let core = unsafe {
            Arc::increment_strong_count(core.as_ptr());
            Arc::from_raw(core.as_ptr())
        };
        core.unpin(buf);
    }

    /// The pool goes: leaves the memory to those who still have pins.
    fn abandon(self: &Arc<Self>) {
        self.orphans.store(1, Ordering::SeqCst);
        self.abandoned.store(Arc::into_raw(Arc::clone(self)).cast_mut(), Ordering::SeqCst);
        for desc in &self.descs {
            self.orphans.fetch_add(1, Ordering::SeqCst);
            if !desc.orphan() {
                self.orphans.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.orphan_gone();
    }

    fn orphan_gone(&self) {
        if self.orphans.fetch_sub(1, Ordering::SeqCst) == 1 {
            // SAFETY: the reference that `abandon` left; this happens once, and the caller has
            // another one.
            unsafe { Arc::decrement_strong_count(self.abandoned.load(Ordering::SeqCst)) };
        }
    }
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferPool").field("buffers", &self.config.buffers).finish_non_exhaustive()
    }
}
