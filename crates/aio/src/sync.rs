//! Locks, atomics, condition variables, threads and clocks, through one module, so that a checked
//! build can replace them all.
//!
//! - usually: parking_lot and the standard library
//! - with `--cfg shuttle`: `checked`, the same types over shuttle's, whose scheduler chooses every
//!   interleaving from a seed
//!
//! One is our own: [`Bell`], at which many sleep and are woken at once.
//!
//! The crates above take all of this from here too (`cargo xtask tidy` sees to it). Cells that are
//! set once stay the standard library's: what sets them waits for nobody.
//!
//! The checked build is for the tests `interleavings` alone: outside of a shuttle execution its
//! types panic. Clocks stay the system's there; nothing that is checked may depend on them.

mod bell;
#[cfg(shuttle)]
mod checked;

pub use bell::Bell;
#[cfg(shuttle)]
pub use checked::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
    atomic, thread,
};
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

/// Atomics over memory that is not the program's alone: bytes of a page, which are what they are in
/// any build.
pub mod memory {
    pub use std::sync::atomic::AtomicU16;
}
