//! Threads that begin together.

use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};

/// Lets threads begin together, and knows when they are done.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    open: Option<Instant>,
    left: u32,
    ended: Option<Instant>,
}

impl Gate {
    /// Waits until the gate opens; the time of that.
    pub(super) fn enter(&self) -> Instant {
        let mut state = self.state.lock();
        loop {
            if let Some(begun) = state.open {
                return begun;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Opens the gate; the time of that.
    pub(super) fn open(&self) -> Instant {
        let now = Instant::now();
        self.state.lock().open = Some(now);
        self.changed.notify_all();
        now
    }

    /// Waits at most `within` until `count` threads have left; whether they have.
    pub(super) fn left(&self, count: u32, within: Duration) -> bool {
        let mut state = self.state.lock();
        if state.left < count {
            self.changed.wait_for(&mut state, within);
        }
        state.left >= count
    }

    /// When the last thread left.
    pub(super) fn ended(&self) -> Instant {
        self.state.lock().ended.expect("asked when all have left")
    }
}

/// Counts its thread as left when it is dropped, also by a panic.
pub(super) struct Leaving<'a>(pub(super) &'a Gate);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.0.state.lock();
        state.left += 1;
        state.ended = Some(now);
        drop(state);
        self.0.changed.notify_all();
    }
}
