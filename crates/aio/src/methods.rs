//! [`MethodKind`] and the implementations of [`Method`].
//!
//! | Module | Executes | A waiter |
//! |---|---|---|
//! | `immediate` | the issuer (io_method sync) | sleeps until the issuer is done |
//! | `worker` | worker threads with a queue | executes the I/O if it is still queued, or sleeps |
//! | `uring` | the kernel, one ring for each backend | reaps the issuer's ring |
//! | `posix_aio` | the system's POSIX AIO | takes the I/O and sleeps in `aio_suspend`, or sleeps |
//! | `deferred` | any waiter, in random order; for tests | executes it, and others first |
//! | `probe` | | finds out whether io_uring can be used, and why not |

use crate::config::AioConfig;
use crate::error::AioError;
use crate::method::Method;
use crate::refusal::IoUringRefusal;
use crate::sync::Arc;
use crate::table::HandleTable;
use crate::workers::WorkerLimits;

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
pub(crate) mod worker;

pub use deferred::Deferred;
pub use probe::probe_io_uring;

/// posix_aio for this many handles, if the system has it.
fn posix_aio(handles: usize) -> Result<Box<dyn Method>, AioError> {
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

/// Which method executes I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodKind {
    /// The issuer, at once.
    Sync,
    /// Worker threads.
    Worker(WorkerLimits),
    /// The kernel, with one ring for each backend.
    IoUring,
    /// The system's POSIX AIO, for portability and not for speed.
    PosixAio,
    /// For tests: the thread that waits or polls, in random order. See [`Deferred`].
    Deferred {
        /// The seed of the random order.
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

    /// The default: io_uring if it can be used for `max_backends` backends; otherwise `fallback`,
    /// with the reason.
    pub fn choose(
        max_backends: usize,
        fallback: MethodKind,
    ) -> (MethodKind, Option<IoUringRefusal>) {
        match probe::probe_io_uring_for(max_backends) {
            Ok(()) => (MethodKind::IoUring, None),
            Err(refusal) => (fallback, Some(refusal)),
        }
    }

    /// Starts the method for a table, as [`Aio::with_method`](crate::Aio::with_method) needs.
    ///
    /// # Errors
    /// The method can't be used here, or a setting is out of its range.
    pub fn start(
        self,
        table: &Arc<HandleTable>,
        config: &AioConfig,
    ) -> Result<Box<dyn Method>, AioError> {
        match self {
            MethodKind::Sync => Ok(Box::new(immediate::Immediate)),
            MethodKind::Worker(limits) => {
                Ok(Box::new(worker::Workers::new(Arc::clone(table), limits)?))
            }
            #[cfg(target_os = "linux")]
            MethodKind::IoUring => Ok(Box::new(uring::Uring::new(config)?)),
            #[cfg(not(target_os = "linux"))]
            MethodKind::IoUring => {
                let _ = config;
                probe_io_uring()?;
                unreachable!("io_uring is Linux's")
            }
            MethodKind::Deferred { seed } => Ok(Deferred::new(seed).over(Arc::clone(table))),
            MethodKind::PosixAio => posix_aio(config.max_backends * config.handles_per_backend),
        }
    }
}
