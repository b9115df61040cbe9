//! Waking the cleaner when buffers are in demand.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Mutex};

/// A position that neither the hand nor the queue's turns reach: the cleaner is not to be woken.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where the cleaner sleeps, and how it is woken.
pub(crate) struct CleanerWakeup {
    /// The position at which the hand wakes the cleaner; [`NEVER`] unless it sleeps.
    at_hand: AtomicU64,
    /// The same for the queue's turns.
    at_turn: AtomicU64,
    requested: Mutex<bool>,
    woken: Condvar,
}

impl CleanerWakeup {
    pub(crate) fn new() -> CleanerWakeup {
        CleanerWakeup {
            at_hand: AtomicU64::new(NEVER),
            at_turn: AtomicU64::new(NEVER),
            requested: Mutex::new(false),
            woken: Condvar::new(),
        }
    }

    /// Whether the hand or the turn has reached the position at which the cleaner is to be woken.
    pub(crate) fn is_due(&self, hand: u64, turn: u64) -> bool {
        hand >= self.at_hand.load(Ordering::Relaxed) || turn >= self.at_turn.load(Ordering::Relaxed)
    }

    /// Wakes the cleaner if it sleeps.
    pub(crate) fn wake(&self) {
        let sleeps = |at: &AtomicU64| at.load(Ordering::Relaxed) != NEVER;
        if sleeps(&self.at_hand) || sleeps(&self.at_turn) {
            let was = [&self.at_hand, &self.at_turn].map(|at| at.swap(NEVER, Ordering::SeqCst));
            if was != [NEVER; 2] {
                self.request();
            }
        }
    }

    /// Ends the cleaner's present or next sleep.
    pub(crate) fn request(&self) {
        *self.requested.lock() = true;
        self.woken.notify_one();
    }

    /// Sleeps until woken, at most for `time`.
    pub(crate) fn sleep(&self, at_hand: u64, at_turn: u64, time: Duration) {
        let mut requested = self.requested.lock();
        if !*requested {
            self.at_hand.store(at_hand, Ordering::SeqCst);
            self.at_turn.store(at_turn, Ordering::SeqCst);
            self.woken.wait_for(&mut requested, time);
            self.at_hand.store(NEVER, Ordering::SeqCst);
            self.at_turn.store(NEVER, Ordering::SeqCst);
        }
        *requested = false;
    }
}
