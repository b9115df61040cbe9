//! Heavyweight locks: what a transaction may do to a relation or another object until it ends.
//!
//! | file | holds |
//! |---|---|
//! | `mode.rs` | [`LockMode`]: the eight modes and their conflicts |
//! | `tag.rs` | [`LockTag`]: what can be locked; [`OwnerId`]: who locks it |
//! | `error.rs` | [`LockError`] |
//! | `interrupt.rs` | [`Interrupt`]: wakes a waiting backend for a grant, a cancel or a terminate |
//! | `table.rs` | the lock table: granted modes, wait queues |
//! | `deadlock.rs` | the search for a cycle of waits |
//! | `fast.rs` | [`LockOwner`]: a backend's own list of weak locks, outside the table |
//! | `manager.rs` | [`LockManager`]: takes and releases locks |
//! | `transaction.rs` | waiting for the end of a transaction |
//! | `row.rs` | the queue for a row, which moves with it |
//! | `info.rs` | [`LockInfo`]: what is held and waited for |
//!
//! A backend holds a lock to the end of its transaction, or to the rollback of the subtransaction
//! that took it; advisory locks also to the end of the session. A request that conflicts with a
//! holder, or with an earlier waiter, waits in a queue. A backend that has waited for its
//! `deadlock_timeout` searches for a deadlock, and its request fails if it waits in a cycle. With a
//! timeout of zero it searches before it waits. One search is enough: the last backend of a cycle
//! that began to wait finds the whole of it.

mod deadlock;
mod error;
mod fast;
mod info;
mod interrupt;
mod manager;
mod mode;
mod row;
mod table;
mod tag;
#[cfg(test)]
mod tests;
mod transaction;

pub use error::LockError;
pub use fast::LockOwner;
pub use info::LockInfo;
pub use interrupt::{Interrupt, InterruptKind};
pub use manager::LockManager;
pub use mode::LockMode;
pub use tag::{LockTag, OwnerId};
