//! Who waits for cleanup locks: for the exclusive lock while the waiter's pin is the only one.
//!
//! One backend a buffer may wait. It sets CLEANUP_WANTED in the buffer's state, leaves its latch
//! here, and *then* looks at the number of pins. Whoever releases the last pin but one and finds
//! the flag notifies the latch. All of this happens to one word, so at least one of the two sees
//! the other. The latch is the waiter's own, so that a cancel can end the wait.

use std::sync::Arc;

use forebay_aio::sync::Mutex;

/// Wakes a backend that sleeps.
pub trait Latch: Send + Sync {
    /// Makes the backend test again what it waits for. Must not block, nor use the pool.
    fn notify(&self);
}

/// The waiters of a pool, by buffer.
#[derive(Default)]
pub(super) struct CleanupWaiters {
    latches: Mutex<Vec<(u32, Arc<dyn Latch>)>>,
}

impl CleanupWaiters {
    pub(super) fn add(&self, buf: u32, latch: Arc<dyn Latch>) {
        self.latches.lock().push((buf, latch));
    }

    pub(super) fn remove(&self, buf: u32) {
        self.latches.lock().retain(|(of, _)| *of != buf);
    }

    /// Wakes the waiter of a buffer.
    #[cold]
    pub(super) fn notify(&self, buf: u32) {
        let latches = self.latches.lock();
        let latch = latches.iter().find(|(of, _)| *of == buf).map(|(_, latch)| Arc::clone(latch));
        drop(latches);
        if let Some(latch) = latch {
            latch.notify();
        }
    }
}
