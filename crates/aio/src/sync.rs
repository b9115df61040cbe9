//! Locks, atomics, condition variables, threads and clocks, through one module, so that a simulated build can replace them all.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::Arc;
pub use std::sync::atomic;
pub use std::thread;
pub use std::time::{Duration, Instant};
