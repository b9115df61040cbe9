//! [`WorkerLimits`] and [`WorkerCounts`]: the settings and figures of the worker pool.

use crate::error::AioError;
use crate::sync::Duration;

/// The settings of the worker pool; names and defaults are PostgreSQL 19's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// io_min_workers: this many workers stay, however little there is to do (1 to 32). If it is
    /// above `max`, `max` applies.
    pub min: usize,
    /// io_max_workers: the maximum number of workers (1 to 32).
    pub max: usize,
    /// io_worker_idle_timeout: a worker above `min` ends after this time without work.
    /// `Duration::MAX`: never.
    pub idle_timeout: Duration,
    /// io_worker_launch_interval: the minimum time between two workers added for load.
    pub launch_interval: Duration,
}

impl WorkerLimits {
    /// The maximum number of workers.
    pub const MOST: usize = 32;

    /// A fixed number of workers (PostgreSQL 18's io_workers).
    pub const fn fixed(n: usize) -> WorkerLimits {
        WorkerLimits {
            min: n,
            max: n,
            idle_timeout: Duration::MAX,
            launch_interval: Duration::ZERO,
        }
    }

    /// Checks the ranges; the error names the setting.
    pub(crate) fn check(&self) -> Result<(), AioError> {
        let valid = 1..=WorkerLimits::MOST;
        let named = if self.min == self.max {
            [("io_workers", self.min); 2]
        } else {
            [("io_min_workers", self.min), ("io_max_workers", self.max)]
        };
        match named.into_iter().find(|(_, n)| !valid.contains(n)) {
            None => Ok(()),
            Some((name, n)) => Err(AioError::Config(format!(
                "{n} is outside the valid range for {name} (1 .. {})",
                WorkerLimits::MOST
            ))),
        }
    }
}

impl Default for WorkerLimits {
    fn default() -> WorkerLimits {
        WorkerLimits {
            min: 2,
            max: 8,
            idle_timeout: Duration::from_secs(60),
            launch_interval: Duration::from_millis(100),
        }
    }
}

/// The state of the worker pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounts {
    /// Workers that exist now.
    pub running: usize,
    /// Workers without work.
    pub resting: usize,
    /// I/Os that wait for a worker.
    pub queued: usize,
    /// Workers started so far.
    pub started: u64,
    /// Workers that ended because there was too little work, or because a limit was lowered.
    pub retired: u64,
    /// Workers that panicked.
    pub lost: u64,
}
