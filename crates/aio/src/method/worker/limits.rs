//! How many workers there may be, and how their number changes.

use crate::error::AioError;
use crate::sync::Duration;

/// The settings of the worker pool; names and defaults are PostgreSQL 19's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLimits {
    /// io_min_workers: so many stay, however little there is to do (1 to 32). Where it is above
    /// `max`, `max` counts.
    pub min: usize,
    /// io_max_workers: never more than so many (1 to 32).
    pub max: usize,
    /// io_worker_idle_timeout: a worker above `min` without work for so long leaves.
    /// `Duration::MAX`: never.
    pub idle_timeout: Duration,
    /// io_worker_launch_interval: at least so much time between one worker added for load and the
    /// next.
    pub launch_interval: Duration,
}

impl WorkerLimits {
    /// Most workers.
    pub const MOST: usize = 32;

    /// Always so many (PostgreSQL 18's io_workers).
    pub const fn fixed(n: usize) -> WorkerLimits {
        WorkerLimits {
            min: n,
            max: n,
            idle_timeout: Duration::MAX,
            launch_interval: Duration::ZERO,
        }
    }

    /// Says which setting is out of its range.
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
