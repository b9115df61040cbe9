//! What the thread of warm restarts shares with those who stop it, or change its interval.

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::{Condvar, Instant, Mutex};

/// Why the thread wakes up.
#[derive(Debug, Default)]
struct Woken {
    changed: bool,
    stopped: bool,
}

/// Warm restarts, as an engine has them.
#[derive(Debug, Default)]
pub(crate) struct Warm {
    woken: Mutex<Woken>,
    wake: Condvar,
    /// Whether all was read that an earlier stop has written down.
    loaded: AtomicBool,
}

impl Warm {
    /// The interval has changed.
    pub(crate) fn change(&self) {
        self.woken.lock().changed = true;
        self.wake.notify_all();
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.woken.lock().stopped = true;
        self.wake.notify_all();
    }

    /// Whether the thread is to end.
    pub(super) fn is_stopped(&self) -> bool {
        self.woken.lock().stopped
    }

    /// Whether all was read that an earlier stop has written down.
    pub(super) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }

    /// All was.
    pub(super) fn set_loaded(&self) {
        self.loaded.store(true, Ordering::Release);
    }

    /// Sleeps until then (None: for ever), or until the interval changes. False if the thread is to
    /// end.
    pub(super) fn rest_until(&self, end: Option<Instant>) -> bool {
        let mut woken = self.woken.lock();
        while !woken.stopped && !woken.changed {
            match end {
                Some(end) => {
                    if self.wake.wait_until(&mut woken, end).timed_out() {
                        break;
                    }
                }
                None => self.wake.wait(&mut woken),
            }
        }
        woken.changed = false;
        !woken.stopped
    }
}
