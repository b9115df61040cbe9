//! A bell: who sleeps at it is woken with all others by one call to the kernel, or alone.
//!
//! The locks here are the standard library's: parking_lot's condition variables wake one sleeper,
//! and move the others to the lock, where each who leaves it wakes the next. For sixty sleepers
//! that is sixty calls, between which those who are awake already take the waker's processor away.

use std::sync::PoisonError;

#[cfg(shuttle)]
use shuttle::sync as inner;
#[cfg(not(shuttle))]
use std::sync as inner;

use inner::{Condvar, Mutex, MutexGuard};

/// Wakes some who wait for the same event.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rung: bool,
    /// Calls for one sleeper each that nobody has heard yet.
    calls: usize,
}

impl Bell {
    /// One that has not been rung.
    pub fn new() -> Bell {
        Bell::default()
    }

    /// Sleeps until it is rung, or was, or until a call that no one else hears.
    pub fn sleep(&self) {
        let mut state = self.lock();
        while !state.rung {
            if let Some(rest) = state.calls.checked_sub(1) {
                state.calls = rest;
                return;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all, and whoever comes later.
    pub fn ring(&self) {
        self.lock().rung = true;
        self.changed.notify_all();
    }

    /// Wakes one, or the next to come.
    pub fn call_one(&self) {
        self.lock().calls += 1;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn who_comes_after_it_was_rung_does_not_sleep() {
        let bell = Bell::new();
        bell.ring();
        bell.sleep();
        bell.sleep();
    }

    #[test]
    fn a_call_wakes_one_and_a_ring_the_others() {
        let (bell, awake) = (Arc::new(Bell::new()), Arc::new(AtomicUsize::new(0)));
        let sleepers: Vec<_> = (0..8)
            .map(|_| {
                let (bell, awake) = (Arc::clone(&bell), Arc::clone(&awake));
                std::thread::spawn(move || {
                    bell.sleep();
                    awake.fetch_add(1, SeqCst);
                })
            })
            .collect();
        bell.call_one();
        bell.call_one();
        while awake.load(SeqCst) < 2 {
            std::thread::yield_now();
        }
        assert_eq!(awake.load(SeqCst), 2, "each call is for one");
        bell.ring();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("woken"));
        assert_eq!(awake.load(SeqCst), 8);
    }
}
