//! [`Aio`]: a namespace, a method, the table of handles and the statistics, together.

use crate::backend::Backend;
use crate::counters::BackendStatsRow;
use crate::error::AioError;
use crate::execute::{Executor, PosixExecutor};
use crate::handle::{HandleInfo, HandleState, WaitRef};
use crate::memory::{AlignedBuf, Region};
#[cfg(target_os = "linux")]
use crate::method::Uring;
use crate::method::{
    Deferred, Immediate, IoUringRefusal, Method, WorkerCounts, WorkerLimits, Workers, posix_aio,
};
use crate::namespace::Namespace;
use crate::planted::{Planted, PlantedBug};
use crate::registration::{Registration, RegistrationStats};
use crate::stats::{BackendType, IoStats};
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::Relaxed};
use crate::sync::{Arc, Mutex};
use crate::table::HandleTable;

/// Who executes I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// The issuer, at once.
    Sync,
    /// Worker threads.
    Worker(WorkerLimits),
    /// The kernel: one ring per backend.
    IoUring,
    /// The system's POSIX AIO, where there is one: for portability, not for speed.
    PosixAio,
    /// For tests: whoever waits or polls, in random order. See [`Deferred`].
    Deferred {
        /// Of the random order.
        seed: u64,
    },
}

impl MethodKind {
    /// The value of io_method.
    pub fn name(self) -> &'static str {
        match self {
            MethodKind::Sync => "sync",
            MethodKind::Worker(_) => "worker",
            MethodKind::IoUring => "io_uring",
            MethodKind::PosixAio => "posix_aio",
            MethodKind::Deferred { .. } => "deferred",
        }
    }

    /// For who names no method: io_uring where it can be had for `max_backends` backends, else
    /// `fallback`, and why.
    pub fn choose(
        max_backends: usize,
        fallback: MethodKind,
    ) -> (MethodKind, Option<IoUringRefusal>) {
        match crate::method::probe_io_uring_for(max_backends) {
            Ok(()) => (MethodKind::IoUring, None),
            Err(refusal) => (fallback, Some(refusal)),
        }
    }

    /// Starts the method over a table; for [`Aio::with_method`].
    pub fn start(
        self,
        table: &Arc<HandleTable>,
        config: &AioConfig,
    ) -> Result<Box<dyn Method>, AioError> {
        match self {
            MethodKind::Sync => Ok(Box::new(Immediate)),
            MethodKind::Worker(limits) => Ok(Box::new(Workers::new(Arc::clone(table), limits)?)),
            #[cfg(target_os = "linux")]
            MethodKind::IoUring => Ok(Box::new(Uring::new(config)?)),
            #[cfg(not(target_os = "linux"))]
            MethodKind::IoUring => {
                let _ = config;
                crate::method::probe_io_uring()?;
                unreachable!("io_uring is Linux's")
            }
            MethodKind::Deferred { seed } => Ok(Deferred::new(seed).over(Arc::clone(table))),
            MethodKind::PosixAio => posix_aio(config.max_backends * config.handles_per_backend),
        }
    }
}

/// Sizes and switches.
#[derive(Clone, Copy, Debug)]
pub struct AioConfig {
    /// Most backends at one time.
    pub max_backends: usize,
    /// Most I/Os in flight per backend (1 to 1024).
    pub handles_per_backend: usize,
    /// Measure how long I/O takes.
    pub track_io_timing: bool,
    /// io_uring may register memory ([`Aio::register_memory`]).
    pub register_memory: bool,
    /// io_uring may register files that are used often. Off by default: on two processors the gain
    /// is lost in the noise.
    pub register_files: bool,
    /// Staged neighbours are merged up to so many bytes.
    pub combine_limit: usize,
}

impl Default for AioConfig {
    fn default() -> AioConfig {
        AioConfig {
            max_backends: 128,
            handles_per_backend: 64,
            track_io_timing: false,
            register_memory: true,
            register_files: false,
            combine_limit: DEFAULT_COMBINE_LIMIT,
        }
    }
}

/// The one door to the disk.
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

/// The default of `combine_limit`: PostgreSQL's 16 blocks.
const DEFAULT_COMBINE_LIMIT: usize = 128 * 1024;

/// Largest value of `handles_per_backend`.
const MAX_HANDLES: usize = 1024;

impl Aio {
    /// Opens the door with one of this crate's methods. For io_uring the refusal names the true
    /// cause.
    pub fn new(
        namespace: Arc<dyn Namespace>,
        method: MethodKind,
        config: AioConfig,
    ) -> Result<Arc<Aio>, AioError> {
        Aio::with_method(namespace, Arc::new(PosixExecutor), config, |table| {
            method.start(&table, &config)
        })
    }

    /// Opens the door with a method from elsewhere (a simulated disk). `executor` executes what is
    /// executed in the calling thread: synchronous I/O, and the rest of short transfers.
    pub fn with_method(
        namespace: Arc<dyn Namespace>,
        executor: Arc<dyn Executor>,
        config: AioConfig,
        method: impl FnOnce(Arc<HandleTable>) -> Result<Box<dyn Method>, AioError>,
    ) -> Result<Arc<Aio>, AioError> {
        let (slots, per_backend) = (config.max_backends, config.handles_per_backend);
        if !(1..=MAX_HANDLES).contains(&per_backend) {
            return Err(AioError::Config(format!(
                "{per_backend} is outside the valid range for io_max_concurrency (1 .. {MAX_HANDLES})"
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

    /// Opens the door with workers that execute by other means than the operating system's (a
    /// faulty disk, in tests).
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

    /// A backend: the right to start I/O. Its id is chosen.
    pub fn backend(self: &Arc<Aio>, who: BackendType) -> Result<Backend, AioError> {
        self.backend_with_id(who, self.next_id.fetch_add(1, Relaxed))
    }

    /// A backend under an id of the caller's, shown by pg_aios as pid.
    pub fn backend_with_id(
        self: &Arc<Aio>,
        who: BackendType,
        id: i32,
    ) -> Result<Backend, AioError> {
        let max = self.config.max_backends;
        let slot = self.free_slots.lock().pop().ok_or(AioError::TooManyBackends { max })?;
        if let Err(e) = self.method.attach(slot) {
            self.release_slot(slot);
            return Err(e);
        }
        self.table.set_owner(slot, id);
        self.table.counters().enter(slot, id, who);
        Ok(Backend::new(Arc::clone(self), slot, id, who))
    }

    /// Names.
    pub fn namespace(&self) -> &Arc<dyn Namespace> {
        &self.namespace
    }

    /// The value of io_method.
    pub fn method_name(&self) -> &'static str {
        self.method.name()
    }

    /// Whether a test has planted this bug: for [`planted_bug!`](crate::planted_bug).
    #[inline(always)]
    pub fn has_bug(&self, bug: PlantedBug) -> bool {
        self.planted.has(bug)
    }

    /// Plants a bug, once: its places misbehave from now on, and count in `reached` how often they
    /// were reached.
    #[cfg(feature = "planted-bugs")]
    pub fn plant(&self, bug: PlantedBug, reached: Arc<crate::sync::atomic::AtomicU64>) {
        self.planted.plant(bug, reached);
    }

    /// pg_aios: every handle that is not idle.
    pub fn snapshot(&self) -> Vec<HandleInfo> {
        self.table.snapshot()
    }

    /// pg_stat_io.
    pub fn stats(&self) -> &IoStats {
        &self.stats
    }

    /// pg_stat_aio_backends: a row for each living backend, in the order of their slots.
    pub fn backend_stats(&self) -> Vec<BackendStatsRow> {
        self.table.counters().rows(self.method_name())
    }

    /// Starts counting for pg_stat_aio_backends from zero.
    pub fn reset_backend_stats(&self) {
        self.table.counters().reset();
    }

    /// Most backends at one time.
    pub fn max_backends(&self) -> usize {
        self.config.max_backends
    }

    /// Most I/Os in flight per backend.
    pub fn handles_per_backend(&self) -> usize {
        self.config.handles_per_backend
    }

    /// Switches the measuring of latencies for [`Aio::backend_stats`] (on at first): two readings
    /// of the clock for an I/O or a batch.
    pub fn set_measure_latency(&self, on: bool) {
        self.table.counters().set_measure_latency(on);
    }

    /// The most bytes that staged neighbours are merged to.
    pub fn combine_limit(&self) -> usize {
        self.combine_limit.load(Relaxed)
    }

    /// Changes the combine limit: for the batches submitted from now on. With 0, or the size of the
    /// I/Os, nothing is merged.
    pub fn set_combine_limit(&self, bytes: usize) {
        self.combine_limit.store(bytes, Relaxed);
    }

    /// Is the time of I/O measured?
    pub fn track_io_timing(&self) -> bool {
        self.track_io_timing.load(Relaxed)
    }

    /// Switches timing.
    pub fn set_track_io_timing(&self, on: bool) {
        self.track_io_timing.store(on, Relaxed);
    }

    /// What has become of the workers; None: the method has none.
    pub fn workers(&self) -> Option<WorkerCounts> {
        self.method.workers()
    }

    /// Changes how many workers there may be, and when they come and go. Without effect under other
    /// methods.
    pub fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        self.method.set_worker_limits(limits)
    }

    /// Makes memory known to the kernel, where the method has a use for it: I/O on it then costs
    /// less. It stays so until the region goes, and occupies all its pages at once. A refusal is
    /// logged, once, and harmless.
    pub fn register_memory(&self, region: &Arc<Region>) -> Registration {
        self.method.register_memory(region)
    }

    /// [`Aio::register_memory`] for an owned buffer, and those that share its region
    /// ([`AlignedBuf::several`]).
    pub fn register_buffer(&self, buf: &AlignedBuf) -> Registration {
        self.register_memory(buf.region())
    }

    /// What is registered with the kernel, and the use made of it.
    pub fn registration_stats(&self) -> RegistrationStats {
        self.method.registration_stats()
    }

    /// Has this I/O finished? Any thread may ask; never blocks.
    pub fn is_done(&self, r: WaitRef) -> bool {
        if self.table.is_done(r) {
            return true;
        }
        if self.table.word(r.index).state() == HandleState::Submitted {
            self.method.poll(&self.table, self.table.head_of(r.index));
        }
        self.table.is_done(r)
    }

    /// Waits for anyone's I/O from a thread that has no [`Backend`], or has nothing staged.
    pub fn wait_done(&self, r: WaitRef) {
        self.table.wait_done(&*self.method, r);
    }

    /// How many threads sleep on this I/O's handle; those that sleep in the kernel for it are not
    /// among them.
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
