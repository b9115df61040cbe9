//! Methods: who executes staged I/O, and how its end is noticed.
//!
//! | Module | Executes | A waiter |
//! |---|---|---|
//! | `immediate` | the issuer, at once, or a batch when it is submitted (io_method sync) | sleeps until the issuer is through with it |
//! | `worker` | worker threads, from a queue of 64 | takes it out of the queue and executes it, or sleeps until the worker is through |
//! | `uring` | the kernel, one ring per backend | reaps the issuer's ring, whoever it is |
//! | `posix_aio` | the system's POSIX AIO | takes the I/O upon itself and sleeps in `aio_suspend`, or sleeps until another waiter is through |
//! | `deferred` | whoever waits, polls or releases, in random order: for tests | executes and completes it, and others before it |
//! | `probe` | | may io_uring be used, and why not |

use crate::error::AioError;
use crate::handle::Word;
use crate::memory::Region;
use crate::op::OpKind;
use crate::registration::{Registration, RegistrationStats};
use crate::sync::Arc;
use crate::table::HandleTable;

mod deferred;
mod immediate;
#[cfg(any(
    all(target_os = "linux", target_env = "gnu"),
    target_os = "freebsd",
    target_os = "macos"
))]
mod posix_aio;
mod probe;
#[cfg(target_os = "linux")]
mod uring;
mod worker;

pub use deferred::Deferred;
pub(crate) use immediate::Immediate;
pub(crate) use probe::probe_io_uring_for;
pub use probe::{IoUringRefusal, RefusalCause, probe_io_uring};
#[cfg(target_os = "linux")]
pub(crate) use probe::{registration_refusal, setup_refusal};
#[cfg(target_os = "linux")]
pub(crate) use uring::Uring;
pub(crate) use worker::Workers;
pub use worker::{WorkerCounts, WorkerLimits};

/// posix_aio for so many handles, where the system has it.
pub(crate) fn posix_aio(handles: usize) -> Result<Box<dyn Method>, AioError> {
    #[cfg(any(
        all(target_os = "linux", target_env = "gnu"),
        target_os = "freebsd",
        target_os = "macos"
    ))]
    return Ok(Box::new(posix_aio::PosixAio::new(handles)));
    #[cfg(not(any(
        all(target_os = "linux", target_env = "gnu"),
        target_os = "freebsd",
        target_os = "macos"
    )))]
    {
        let _ = handles;
        let why =
            "io_method posix_aio is for Linux with glibc, FreeBSD and macOS: this build has none";
        Err(AioError::Config(why.to_owned()))
    }
}

/// The half of the door that executes.
///
/// Rule: a thread that waits for a submitted I/O can always finish it, even if the issuer is
/// blocked, asleep or gone.
pub trait Method: Send + Sync {
    /// The value of io_method.
    fn name(&self) -> &'static str;

    /// Gets ready for the backend in `slot`.
    fn attach(&self, slot: u32) -> Result<(), AioError> {
        let _ = slot;
        Ok(())
    }

    /// The issuer executes: each I/O when it starts it, those of a batch when it submits them (so
    /// that neighbours can be merged).
    fn synchronous(&self) -> bool {
        false
    }

    /// Can it execute such an operation? Those it can't are never staged: the issuer executes them
    /// when it starts them.
    fn executes(&self, op: OpKind) -> bool {
        let _ = op;
        true
    }

    /// The table's executor makes every attempt. False: others make the first one (the kernel,
    /// threads of a library).
    fn executes_by_table(&self) -> bool {
        true
    }

    /// The thread that submitted an I/O must run, or be woken to run, before its completion can
    /// reach anyone. All who wait for it wait while that thread is in an uninterruptible sleep. So
    /// a backend with I/O in flight hands the method also what it would execute itself.
    fn completes_through_issuer(&self) -> bool {
        false
    }

    /// Submits the staged handles of `slot`: calls [`HandleTable::begin`] for each, then sees to
    /// its execution. A handle may stand for several that were merged; a method need not know.
    /// `in_flight` I/Os of the backend were submitted before. Only the slot's backend calls this.
    fn submit(&self, table: &HandleTable, slot: u32, staged: &[u32], in_flight: usize);

    /// Returns when the handle's word may be another than `seen` (which is SUBMITTED). Any thread
    /// calls this.
    fn wait(&self, table: &HandleTable, index: u32, seen: Word);

    /// Returns when any I/O of the backend that issued this one may have finished, or been
    /// executed, to be noticed with [`Method::poll`]. Only that backend calls this. A method that
    /// can't tell waits for this one.
    fn wait_any(&self, table: &HandleTable, index: u32, seen: Word) {
        self.wait(table, index, seen);
    }

    /// Notices what has already finished around this handle; never blocks. Any thread calls this.
    fn poll(&self, table: &HandleTable, index: u32) {
        let _ = (table, index);
    }

    /// I/Os of a backend that have been executed and are SUBMITTED still, since nobody has noticed
    /// them with [`Method::poll`] or a wait. Notices nothing itself. Only that backend calls this.
    fn arrived(&self, slot: u32) -> usize {
        let _ = slot;
        0
    }

    /// Makes memory known to the kernel, so that I/O on it costs less, until the region goes. Any
    /// thread calls this.
    fn register_memory(&self, region: &Arc<Region>) -> Registration {
        let _ = region;
        Registration::Unused
    }

    /// What is registered with the kernel, and the use made of it.
    fn registration_stats(&self) -> RegistrationStats {
        RegistrationStats::default()
    }

    /// What has become of the workers; None: the method has none.
    fn workers(&self) -> Option<WorkerCounts> {
        None
    }

    /// Changes how many workers there may be, where there are any.
    fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        let _ = limits;
        Ok(())
    }
}
