//! Locks, atomics, condition variables, threads and clocks for all crates, from one module, so that
//! a checked build can replace them.
//!
//! - In ordinary builds they are parking_lot's and the standard library's.
//! - With `--cfg shuttle` they are `checked`: the same types over shuttle's, whose scheduler
//!   chooses each interleaving from a seed.
//!
//! [`Event`] is this crate's own: it wakes many waiters at once.
//!
//! The crates above use these instead of the standard library's (`cargo xtask tidy` checks that).
//! Cells that are set once stay the standard library's, since setting one waits for no other
//! thread.
//!
//! The checked build is only for the tests named `interleavings`: outside of a shuttle execution
//! its types panic. Its clocks are the system's, so nothing that is checked may depend on time.

#[cfg(shuttle)]
mod checked;
mod event;

#[cfg(shuttle)]
pub use checked::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
    atomic, thread,
};
pub use event::Event;
#[cfg(not(shuttle))]
pub use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
};
pub use std::sync::Arc;
#[cfg(not(shuttle))]
pub use std::sync::atomic;
pub use std::sync::{LazyLock, OnceLock};
#[cfg(not(shuttle))]
pub use std::thread;
pub use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Atomics over memory that other programs read too, such as the bytes of a page. Checked builds
/// don't replace them.
pub mod memory {
    pub use std::sync::atomic::AtomicU16;
}
