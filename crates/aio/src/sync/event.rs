//! An event that many threads wait for. [`Event::set`] wakes all of them with one system call;
//! [`Event::wake_one`] wakes one.
//!
//! It uses the standard library's locks, because parking_lot's condition variable wakes one waiter
//! and moves the others to the lock's queue, where each that leaves wakes the next. That is one
//! system call for each waiter, and the waiters that are awake already compete with the waker for
//! its processor in between.

use std::sync::PoisonError;

#[cfg(shuttle)]
use shuttle::sync as inner;
#[cfg(not(shuttle))]
use std::sync as inner;

use inner::{Condvar, Mutex, MutexGuard};

/// An event that stays set once it is set.
#[derive(Debug, Default)]
pub struct Event {
    signals: Mutex<Signals>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Signals {
    set: bool,
    /// Wake-ups of [`Event::wake_one`] that no waiter has consumed yet.
    single: usize,
}

impl Event {
    /// An event that is not set.
    pub fn new() -> Event {
        Event::default()
    }

    /// Waits until the event is set, or until this waiter consumes a wake-up of
    /// [`Event::wake_one`].
    pub fn wait(&self) {
        let mut signals = self.lock();
        while !signals.set {
            if let Some(rest) = signals.single.checked_sub(1) {
                signals.single = rest;
                return;
            }
            signals = self.changed.wait(signals).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all waiters. Later waiters return at once.
    pub fn set(&self) {
        self.lock().set = true;
        self.changed.notify_all();
    }

    /// Wakes one waiter, or lets the next one return at once.
    pub fn wake_one(&self) {
        self.lock().single += 1;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Signals> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn a_waiter_of_a_set_event_returns_at_once() {
        let event = Event::new();
        event.set();
        event.wait();
        event.wait();
    }

    #[test]
    fn wake_one_wakes_one_and_set_wakes_the_others() {
        let (event, awake) = (Arc::new(Event::new()), Arc::new(AtomicUsize::new(0)));
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let (event, awake) = (Arc::clone(&event), Arc::clone(&awake));
                std::thread::spawn(move || {
                    event.wait();
                    awake.fetch_add(1, SeqCst);
                })
            })
            .collect();
        event.wake_one();
        event.wake_one();
        while awake.load(SeqCst) < 2 {
            std::thread::yield_now();
        }
        assert_eq!(awake.load(SeqCst), 2, "each wake-up is for one waiter");
        event.set();
        waiters.into_iter().for_each(|waiter| waiter.join().expect("woken"));
        assert_eq!(awake.load(SeqCst), 8);
    }
}
