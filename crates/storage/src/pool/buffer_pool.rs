//! The pool itself: its parts, and what its operations have in common.

use super::backend::Backend;
use super::cache_line::CacheLine;
use super::cleaner_wakeup::CleanerWakeup;
use super::complete::{ReadCompletion, WriteCompletion};
use super::config::PoolConfig;
use super::core::Core;
use super::counters::{Counters, PoolStats};
use super::damage::{ChecksumFailures, FailureCounts, ReadPolicy};
use super::demand::Demand;
use super::desc::Descriptor;
use super::freed::Freed;
use super::ghosts::Ghosts;
use super::pins::{PinGrant, PinPermit};
use super::places::Places;
use super::strategy::Strategy;
use super::table::PageTable;
use super::time::PoolTime;
use super::wal_flush::WalFlush;
use crate::error::StorageError;
use crate::smgr::Smgr;
use crate::tail::Tail;
use forebay_aio::sync::{Mutex, OnceLock, RwLock};
use forebay_aio::{self as aio, Aio, HugePages, IoFlags, IoObject, Region, SharedCompletion};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RelFileLocator};
use std::sync::Arc;

/// The pages of relations in memory.
pub struct BufferPool {
    pub(crate) core: Arc<Core>,
    pub(crate) aio: Arc<Aio>,
    pub(crate) smgr: Arc<Smgr>,
    pub(crate) config: PoolConfig,
    /// Whether it is temporary or traced, so that accesses are not what their callers ask for.
    pub(super) special: bool,
    pub(super) table: PageTable,
    pub(crate) time: PoolTime,
    pub(crate) places: Places,
    pub(super) ghosts: Ghosts,
    pub(super) freed: CacheLine<Freed>,
    /// Held while its size changes.
    pub(crate) tail: Mutex<Tail>,
    /// A thread that moves pages to other buffers holds it for writing. A thread that lists pages
    /// by their buffers, and must not miss one, holds it for reading. Nobody waits for I/O with it.
    pub(crate) moves: RwLock<()>,
    pub(crate) cleaner_wakeup: CleanerWakeup,
    pub(super) demand: Demand,
    pub(crate) counters: Counters,
    pub(super) wal: OnceLock<Arc<dyn WalFlush>>,
    pub(super) on_read: Arc<dyn SharedCompletion>,
    pub(super) on_write: Arc<dyn SharedCompletion>,
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

    /// Makes an empty pool that counts wrong checksums in `checksum_failures`.
    pub(crate) fn counting(
        config: PoolConfig,
        aio: Arc<Aio>,
        smgr: Arc<Smgr>,
        checksum_failures: Arc<FailureCounts>,
    ) -> Result<Arc<Self>, StorageError> {
        let temporary = smgr.is_temporary();
        let buffers = config.buffers.max(16);
        let mut config = PoolConfig {
            buffers,
            max_buffers: if temporary { buffers } else { config.max_buffers.max(buffers) },
            combine_limit: config.combine_limit.clamp(1, 128),
            write_depth: config.write_depth.max(1),
            huge_pages: if temporary { HugePages::Off } else { config.huge_pages },
            ..config
        };
        let region = map_pages(&mut config)?;
        if !temporary {
            // Few regions can be registered, and there may be many sessions.
            aio.register_memory(&region);
        }
        let core = Core::new(&config, region, &aio, &smgr, checksum_failures);
        let places = Places::new(buffers, config.max_buffers);
        (0..places.queue())
            .for_each(|turn| core.descs[places.in_queue(turn) as usize].enter_queue());
        Ok(Arc::new(BufferPool {
            table: PageTable::new(buffers, config.max_buffers),
            time: PoolTime::new(buffers),
            ghosts: Ghosts::new(buffers, config.max_buffers),
            freed: CacheLine::default(),
            places,
            tail: Mutex::default(),
            moves: RwLock::new(()),
            cleaner_wakeup: CleanerWakeup::new(),
            demand: Demand::new(),
            counters: Counters::default(),
            wal: OnceLock::new(),
            on_read: Arc::new(ReadCompletion {
                core: Arc::clone(&core),
                policy: ReadPolicy::default(),
                warnings: None,
            }),
            on_write: Arc::new(WriteCompletion(Arc::clone(&core))),
            special: temporary || config.trace.is_some(),
            core,
            aio,
            smgr,
            config,
        }))
    }

    /// Attaches the log that must be durable ahead of the pages. Before that, in recovery, pages
    /// count as covered by the log that is replayed. Only the first call has an effect.
    pub fn attach_wal(&self, wal: Arc<dyn WalFlush>) {
        let _ = self.wal.set(wal);
    }

    /// The storage manager of the pool's relations.
    pub fn smgr(&self) -> &Arc<Smgr> {
        &self.smgr
    }

    /// The I/O layer.
    pub fn aio(&self) -> &Arc<Aio> {
        &self.aio
    }

    /// Returns the counters of buffer replacement.
    pub fn stats(&self) -> PoolStats {
        self.counters.read(self.core.budget.waits())
    }

    /// Returns the present number of buffers.
    pub fn buffers(&self) -> usize {
        self.core.placed()
    }

    /// Whether a shrink has left buffers in use beyond that number, for another one to give up.
    pub fn has_leftovers(&self) -> bool {
        self.core.size() > self.buffers()
    }

    /// Returns the most buffers that it may have.
    pub fn max_buffers(&self) -> usize {
        self.config.max_buffers
    }

    /// Returns the fewest buffers that it may have. Whether its pins are counted depends on its
    /// first size, and does not change. Nobody else could use reserved huge pages.
    pub fn min_buffers(&self) -> usize {
        match self.uses_huge_pages() {
            true => self.config.buffers,
            false => self.core.budget.least_buffers().min(self.config.buffers),
        }
    }

    /// Whether pages have checksums.
    pub fn has_checksums(&self) -> bool {
        self.config.checksums
    }

    /// Returns the number of blocks of a fork, as all backends see it now.
    pub fn nblocks(&self, rel: RelFileLocator, fork: Fork) -> Result<BlockNumber, StorageError> {
        self.smgr.nblocks(rel, fork)
    }

    /// Returns the number of wrong checksums read so far, by database.
    pub fn checksum_failures(&self) -> Vec<ChecksumFailures> {
        self.core.checksum_failures.all()
    }

    /// Wakes the cleaner.
    pub fn wake_cleaner(&self) {
        self.cleaner_wakeup.request();
    }

    /// Takes the share-exclusive lock to write a page out. The caller holds no other content lock.
    pub(crate) fn lock_share_exclusive(&self, io: &mut aio::IoBackend, buf: u32) {
        if !self.desc(buf).try_share_exclusive() {
            io.submit();
            self.core.wait_share_exclusive(buf);
        }
    }

    /// Releases a share-exclusive lock that did not go over to an I/O.
    pub(crate) fn unlock_share_exclusive(&self, buf: u32) {
        self.core.unlock_share_exclusive(buf);
    }

    /// Obtains this backend's right to take one pin. May wait if the pool is small; see `budget`.
    pub(crate) fn pin_permit(&self, backend: &mut Backend) -> PinPermit {
        PinPermit::new(&self.core, backend.io.slot(), || backend.io.submit())
    }

    /// Obtains the right to take up to `n` pins, at least one. May wait like [`Self::pin_permit`].
    pub(crate) fn pin_grant(&self, backend: &mut Backend, n: u32) -> PinGrant<'_> {
        PinGrant::new(&self.core, self.pin_permit(backend), n)
    }

    /// Claims up to `want` spare pins for a caller that has `have` of them already. They are given
    /// back with [`Self::return_pins`].
    pub(crate) fn claim_pins(&self, have: u32, want: u32) -> u32 {
        self.core.budget.claim(have, want)
    }

    /// Gives claimed spare pins back.
    pub(crate) fn return_pins(&self, n: u32) {
        self.core.budget.return_spare(n);
    }

    /// The kind of object that statistics count the pages' I/O under.
    pub(crate) fn object(&self) -> IoObject {
        self.smgr.object()
    }

    /// The strategy to follow. A pool of temporary relations has one user, whose bulk work has
    /// nobody to give way to.
    pub(crate) fn effective(&self, strategy: Strategy) -> Strategy {
        if self.smgr.is_temporary() { Strategy::Normal } else { strategy }
    }

    /// The flags of I/O into the pool's memory.
    pub(super) fn io_flags(&self) -> IoFlags {
        IoFlags { local_memory: self.smgr.is_temporary(), ..IoFlags::default() }
    }

    pub(crate) fn desc(&self, buf: u32) -> &Descriptor {
        &self.core.descs[buf as usize]
    }
}

/// Maps the memory of a pool. Reserved huge pages are of the size that they are asked for at the
/// start, so a pool with them does not grow.
fn map_pages(config: &mut PoolConfig) -> Result<Arc<Region>, StorageError> {
    let (first, most) = (config.buffers * BLOCK_SIZE, config.max_buffers * BLOCK_SIZE);
    let grows = most > first && config.huge_pages != HugePages::On;
    if !grows || config.huge_pages == HugePages::Try {
        let region = Region::with_huge_pages(first, config.huge_pages)?;
        if let Some(reason) = region.huge_pages_refused() {
            tracing::info!(
                megabytes = region.len() >> 20,
                %reason,
                "no huge pages for shared buffers: not enough of them are reserved \
                 (vm.nr_hugepages)"
            );
        }
        if !grows || region.uses_huge_pages() {
            config.max_buffers = config.buffers;
            return Ok(region);
        }
    }
    Region::reserve(first, most, config.huge_pages).or_else(|error| {
        tracing::warn!(%error, "shared buffers can't grow");
        config.max_buffers = config.buffers;
        Ok(Region::with_huge_pages(first, config.huge_pages)?)
    })
}

impl Drop for BufferPool {
    fn drop(&mut self) {
        self.core.abandon();
    }
}

impl std::fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BufferPool").field("buffers", &self.buffers()).finish_non_exhaustive()
    }
}
