//! [`Aio`]: a namespace, a method, the table of handles and the statistics, together.

use crate::config::AioConfig;
use crate::counters::BackendStatsRow;
use crate::error::AioError;
use crate::execute::{Executor, PosixExecutor};
use crate::handle::{HandleInfo, HandleState, WaitRef};
use crate::memory::{AlignedBuf, Region};
use crate::method::Method;
use crate::methods::MethodKind;
use crate::methods::worker::Workers;
use crate::namespace::Namespace;
use crate::planted::{Planted, PlantedBug};
use crate::registration::{Registration, RegistrationStats};
use crate::stats::{BackendType, IoStats};
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::table::HandleTable;
use crate::workers::{WorkerCounts, WorkerLimits};

/// The I/O layer: everything above opens files and starts I/O through one of these.
pub struct Aio {
    namespace: Arc<dyn Namespace>,
    // Dropped before the table, which its threads use.
    method: Box<dyn Method>,
    table: Arc<HandleTable>,
    stats: IoStats,
    config: AioConfig,
    track_io_timing: AtomicBool,
    combine_limit: AtomicUsize,
    free_slots: Mutex<Vec<u32>>,
    next_id: AtomicI32,
    planted: Planted,
}

/// Largest value of `handles_per_backend`.
const MAX_HANDLES: usize = 1024;

impl Aio {
    /// An I/O layer with one of this crate's methods.
    ///
    /// # Errors
    /// A size is out of its range, or the method can't be used here. For io_uring the error names
    /// the cause.
    pub fn new(
        namespace: Arc<dyn Namespace>,
        method: MethodKind,
        config: AioConfig,
    ) -> Result<Arc<Aio>, AioError> {
        Aio::with_method(namespace, Arc::new(PosixExecutor), config, |table| {
            method.start(&table, &config)
        })
    }

    /// An I/O layer with a method from elsewhere, such as a simulated disk. `executor` executes
    /// what runs in the calling thread: synchronous I/O, and the rest of short transfers.
    ///
    /// # Errors
    /// A size is out of its range, or `method` fails.
    pub fn with_method(
        namespace: Arc<dyn Namespace>,
        executor: Arc<dyn Executor>,
        config: AioConfig,
        method: impl FnOnce(Arc<HandleTable>) -> Result<Box<dyn Method>, AioError>,
    ) -> Result<Arc<Aio>, AioError> {
        let (slots, per_backend) = (config.max_backends, config.handles_per_backend);
        if !(1..=MAX_HANDLES).contains(&per_backend) {
            return Err(AioError::Config(format!(
                "{per_backend} is outside the valid range for io_max_concurrency \
                 (1 .. {MAX_HANDLES})"
            )));
        }
        if slots == 0 || slots.checked_mul(per_backend).is_none_or(|n| n > u32::MAX as usize) {
            return Err(AioError::Config(format!(
                "{slots} backends of {per_backend} I/O handles each are not possible"
            )));
        }
        let table = Arc::new(HandleTable::new(slots, per_backend, executor));
        Ok(Arc::new(Aio {
            namespace,
            method: method(Arc::clone(&table))?,
            table,
            stats: IoStats::default(),
            config,
            track_io_timing: AtomicBool::new(config.track_io_timing),
            combine_limit: AtomicUsize::new(config.combine_limit),
            free_slots: Mutex::new((0..slots as u32).rev().collect()),
            next_id: AtomicI32::new(1),
            planted: Planted::default(),
        }))
    }

    /// An I/O layer whose workers execute through `executor` (in tests, a faulty disk).
    ///
    /// # Errors
    /// As [`Aio::with_method`].
    pub fn with_workers(
        namespace: Arc<dyn Namespace>,
        executor: Arc<dyn Executor>,
        config: AioConfig,
        workers: WorkerLimits,
    ) -> Result<Arc<Aio>, AioError> {
        Aio::with_method(namespace, executor, config, |table| {
            Ok(Box::new(Workers::new(table, workers)?))
        })
    }

    /// Takes a free slot for a backend. Without an `id` it chooses one.
    pub(crate) fn take_slot(
        &self,
        who: BackendType,
        id: Option<i32>,
    ) -> Result<(u32, i32), AioError> {
        let id = id.unwrap_or_else(|| self.next_id.fetch_add(1, Relaxed));
        let max = self.config.max_backends;
        let slot = self.free_slots.lock().pop().ok_or(AioError::TooManyBackends { max })?;
        if let Err(e) = self.method.attach(slot) {
            self.release_slot(slot);
            return Err(e);
        }
        self.table.set_owner(slot, id);
        self.table.counters().enter(slot, id, who);
        Ok((slot, id))
    }

    /// The namespace: opens, renames and lists files.
    pub fn namespace(&self) -> &Arc<dyn Namespace> {
        &self.namespace
    }

    /// The value of io_method.
    pub fn method_name(&self) -> &'static str {
        self.method.name()
    }

    /// Whether a test has planted this bug. Use [`planted_bug!`](crate::planted_bug).
    #[inline(always)]
    pub fn has_bug(&self, bug: PlantedBug) -> bool {
        self.planted.has(bug)
    }

    /// Plants a bug, once. `reached` counts how often the program reaches its place.
    #[cfg(feature = "planted-bugs")]
    pub fn plant(&self, bug: PlantedBug, reached: Arc<crate::sync::atomic::AtomicU64>) {
        self.planted.plant(bug, reached);
    }

    /// The rows of pg_aios: every handle that is not idle.
    pub fn snapshot(&self) -> Vec<HandleInfo> {
        self.table.snapshot()
    }

    /// The counters of pg_stat_io.
    pub fn stats(&self) -> &IoStats {
        &self.stats
    }

    /// The rows of pg_stat_aio_backends: one for each living backend, in the order of their slots.
    pub fn backend_stats(&self) -> Vec<BackendStatsRow> {
        self.table.counters().rows(self.method_name())
    }

    /// Resets the counters of pg_stat_aio_backends.
    pub fn reset_backend_stats(&self) {
        self.table.counters().reset();
    }

    /// The maximum number of backends at one time.
    pub fn max_backends(&self) -> usize {
        self.config.max_backends
    }

    /// The maximum number of I/Os in flight per backend.
    pub fn handles_per_backend(&self) -> usize {
        self.config.handles_per_backend
    }

    /// Switches the measurement of latencies for [`Aio::backend_stats`], which is on at first. It
    /// costs two readings of the clock for an I/O or a batch.
    pub fn set_measure_latency(&self, on: bool) {
        self.table.counters().set_measure_latency(on);
    }

    /// The maximum size in bytes of an I/O merged from staged neighbours.
    pub fn combine_limit(&self) -> usize {
        self.combine_limit.load(Relaxed)
    }

    /// Changes the combine limit for batches submitted from now on. With 0, or the size of the
    /// I/Os, nothing is merged.
    pub fn set_combine_limit(&self, bytes: usize) {
        self.combine_limit.store(bytes, Relaxed);
    }

    /// Whether I/Os with an account are timed.
    pub fn track_io_timing(&self) -> bool {
        self.track_io_timing.load(Relaxed)
    }

    /// Switches the timing of I/Os with an account.
    pub fn set_track_io_timing(&self, on: bool) {
        self.track_io_timing.store(on, Relaxed);
    }

    /// The state of the workers; None if the method has none.
    pub fn workers(&self) -> Option<WorkerCounts> {
        self.method.workers()
    }

    /// Changes how many workers there may be, and when they start and end. Other methods ignore it.
    pub fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        self.method.set_worker_limits(limits)
    }

    /// Registers memory with the kernel if the method can use that; I/O on it then costs less. It
    /// stays registered until the region is dropped, and all its pages are occupied at once. A
    /// refusal is harmless, and logged once.
    pub fn register_memory(&self, region: &Arc<Region>) -> Registration {
        self.method.register_memory(region)
    }

    /// Provides memory for a region up to byte `to`, see [`Region::occupy`].
    ///
    /// # Errors
    /// There is not enough. The region has what it had.
    pub fn occupy_memory(&self, region: &Arc<Region>, to: usize) -> Result<(), AioError> {
        self.method.occupy_memory(region, to)
    }

    /// Tells the method that a region has more memory, or is about to have less: `bytes` from its
    /// start on. It is called before [`Region::vacate`] and after [`Region::occupy`]. The part that
    /// is given up must not be in use. What can't be registered is used without.
    pub fn memory_resized(&self, region: &Arc<Region>, bytes: usize) -> Registration {
        self.method.memory_resized(region, bytes)
    }

    /// [`Aio::register_memory`] for an owned buffer and those that share its region
    /// ([`AlignedBuf::several`]).
    pub fn register_buffer(&self, buf: &AlignedBuf) -> Registration {
        self.register_memory(buf.region())
    }

    /// What is registered with the kernel, and how often I/O used it.
    pub fn registration_stats(&self) -> RegistrationStats {
        self.method.registration_stats()
    }

    /// Whether this I/O has finished. Any thread may ask; it never blocks.
    pub fn is_done(&self, r: WaitRef) -> bool {
        if self.table.is_done(r) {
            return true;
        }
        if self.table.word(r.index).state() == HandleState::Submitted {
            self.method.poll(&self.table, self.table.head_of(r.index));
        }
        self.table.is_done(r)
    }

    /// Waits for an I/O of any backend. For threads that have no [`IoBackend`](crate::Backend), or
    /// nothing staged.
    pub fn wait_done(&self, r: WaitRef) {
        self.table.wait_done(r, |index, seen| self.method.wait(&self.table, index, seen));
    }

    /// How many threads sleep on this I/O's handle, without those that sleep in the kernel for it.
    pub fn sleepers(&self, r: WaitRef) -> u32 {
        self.table.sleepers(r.index)
    }

    pub(crate) fn table(&self) -> &HandleTable {
        &self.table
    }

    pub(crate) fn method(&self) -> &dyn Method {
        &*self.method
    }

    pub(crate) fn release_slot(&self, slot: u32) {
        self.table.counters().leave(slot);
        self.free_slots.lock().push(slot);
    }
}
