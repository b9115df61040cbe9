//! Waking the cleaner when buffers are in demand.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Mutex};

/// A clock position that the hand never reaches: the cleaner is not to be woken.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where the cleaner sleeps, and how it is woken.
pub(crate) struct CleanerWakeup {
    /// The clock position at which the hand wakes the cleaner; [`NEVER`] unless it sleeps.
    wake_at: AtomicU64,
    requested: Mutex<bool>,
    woken: Condvar,
}

impl CleanerWakeup {
    pub(crate) fn new() -> CleanerWakeup {
        CleanerWakeup {
            wake_at: AtomicU64::new(NEVER),
            requested: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    /// Whether the hand has reached the position at which the cleaner is to be woken.
    pub(crate) fn is_due(&self, hand: u64) -> bool {
        hand >= self.wake_at.load(Ordering::Relaxed)
    }

    /// Wakes the cleaner if it sleeps.
    pub(crate) fn wake(&self) {
        if self.wake_at.load(Ordering::Relaxed) != NEVER
            && self.wake_at.swap(NEVER, Ordering::SeqCst) != NEVER
        {
            self.request();
        }
    }

    /// Ends the cleaner's present or next sleep.
    pub(crate) fn request(&self) {
        *self.requested.lock() = true;
        self.woken.notify_one();
    }

    /// Sleeps until woken, at most for `time`.
    pub(crate) fn sleep(&self, wake_at: u64, time: Duration) {
        let mut requested = self.requested.lock();
        if !*requested {
            self.wake_at.store(wake_at, Ordering::SeqCst);
            self.woken.wait_for(&mut requested, time);
            self.wake_at.store(NEVER, Ordering::SeqCst);
        }
        *requested = false;
    }
}
