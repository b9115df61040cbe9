//! Heavyweight locks: who may do what to a relation, for as long as a transaction lives.
//!
//! | file | holds |
//! |---|---|
//! | `mode.rs` | the eight lock modes and which conflict with which |
//! | `interrupt.rs` | a backend's wake-up point: grants, cancel and terminate requests end a wait through it |
//! | `fast.rs` | [`LockOwner`]: a backend's own view of its locks; weak ones that are not in the table |
//! | `manager.rs` | the lock table: granted modes, queues, granting in order of arrival |
//! | `deadlock.rs` | the waits-for graph, searched before a backend goes to sleep |
//!
//! A lock is taken by an *owner* (a backend) and held to the end of its transaction. A request that
//! conflicts with a holder, or with someone who waits already, queues. The graph is searched at the
//! moment of queueing, so that a deadlock is found when it arises and no timer is needed; the
//! request that closes the circle fails.

mod deadlock;
mod fast;
mod interrupt;
mod manager;
mod mode;
#[cfg(test)]
mod tests;

pub use fast::LockOwner;
pub use interrupt::{Interrupt, InterruptKind};
pub use manager::LockManager;
pub use mode::LockMode;

use std::fmt;

use crate::types::Oid;

/// A backend as the lock table knows it. The number appears in deadlock messages as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u32);

/// What is locked: a relation of a database (`database` 0 for the relations shared by all).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockTag {
    /// Database, 0 for a shared relation.
    pub database: Oid,
    /// Relation.
    pub relation: Oid,
}

impl fmt::Display for LockTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relation {} of database {}", self.relation, self.database)
    }
}

/// Why a lock was not had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Waiting would have closed a circle.
    #[error("deadlock detected")]
    Deadlock {
        /// One line for each wait of the circle, PostgreSQL's DETAIL.
        detail: String,
    },
    /// The wait was ended by a request from outside.
    #[error("{}", .0.message())]
    Interrupted(InterruptKind),
    /// The caller did not want to wait.
    #[error("could not obtain lock on {tag}")]
    NotAvailable {
        /// What was asked for.
        tag: LockTag,
    },
}

impl LockError {
    /// The SQLSTATE that a client sees.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            LockError::Deadlock { .. } => "40P01",
            LockError::Interrupted(kind) => kind.sqlstate(),
            LockError::NotAvailable { .. } => "55P03",
        }
    }
}
