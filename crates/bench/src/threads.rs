//! Threads of a run: they begin together, and the thread that waits for them knows when they end.

use forebay_aio::sync::{Condvar, Duration, Instant, Mutex, thread};

use crate::error::BenchError;

/// Lets threads begin together, and counts those that have left.
#[derive(Default)]
pub(crate) struct Gate {
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
    pub(crate) fn enter(&self) -> Instant {
        let mut state = self.state.lock();
        loop {
            if let Some(begun) = state.open {
                return begun;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Opens the gate; the time of that.
    pub(crate) fn open(&self) -> Instant {
        let now = Instant::now();
        self.state.lock().open = Some(now);
        self.changed.notify_all();
        now
    }

    /// Waits until `count` threads have left, for at most this time; whether they have.
    pub(crate) fn left(&self, count: u32, within: Duration) -> bool {
        let until = Instant::now() + within;
        let mut state = self.state.lock();
        while state.left < count && !self.changed.wait_until(&mut state, until).timed_out() {}
        state.left >= count
    }

    /// When the last thread left.
    pub(crate) fn ended(&self) -> Instant {
        self.state.lock().ended.expect("asked when all have left")
    }
}

/// Counts its thread as left when it is dropped, also by a panic.
pub(crate) struct Leaving<'a>(pub(crate) &'a Gate);

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

/// A thread's result; an error if it panicked.
pub(crate) fn joined<T, E>(result: thread::Result<Result<T, E>>) -> Result<T, BenchError>
where
    BenchError: From<E>,
{
    match result {
        Ok(result) => Ok(result?),
        Err(_) => Err(BenchError::Failed("a thread of the bench panicked".to_owned())),
    }
}
