//! Why a lock was not granted.

use super::interrupt::{InterruptKind, WaitEnd};
use super::tag::LockTag;

/// Why a lock was not granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Waiting would have completed a cycle of waits.
    #[error("deadlock detected")]
    Deadlock {
        /// PostgreSQL's DETAIL: a line for each wait of the cycle.
        detail: String,
    },
    /// A cancel or terminate request ended the wait.
    #[error("{}", .0.message())]
    Interrupted(InterruptKind),
    /// The wait took longer than lock_timeout.
    #[error("canceling statement due to lock timeout")]
    Timeout,
    /// The caller did not want to wait.
    #[error("could not obtain lock on {tag}")]
    NotAvailable {
        /// What was to be locked.
        tag: LockTag,
    },
    /// The lock table is full.
    #[error("out of shared memory")]
    TableFull,
}

impl From<WaitEnd> for LockError {
    fn from(end: WaitEnd) -> LockError {
        match end {
            WaitEnd::Interrupted(kind) => LockError::Interrupted(kind),
            WaitEnd::TimedOut => LockError::Timeout,
        }
    }
}

impl LockError {
    /// PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            LockError::Deadlock { .. } => "40P01",
            LockError::Interrupted(kind) => kind.sqlstate(),
            LockError::Timeout | LockError::NotAvailable { .. } => "55P03",
            LockError::TableFull => "53200",
        }
    }

    /// PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            LockError::TableFull => {
                Some("You might need to increase \"max_locks_per_transaction\".")
            }
            _ => None,
        }
    }
}
