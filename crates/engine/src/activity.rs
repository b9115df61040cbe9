//! Calls in progress, for which a stop waits.

use forebay_aio::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_aio::sync::{Condvar, Mutex};

use crate::error::EngineError;

/// Counts the calls in progress. They may nest.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    inside: AtomicUsize,
    closed: AtomicBool,
    gate: Mutex<()>,
    empty: Condvar,
}

/// A call in progress.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Activity);

impl Activity {
    /// Counts a call. Fails once no more calls are accepted (57P01).
    pub(crate) fn enter(&self) -> Result<Call<'_>, EngineError> {
        // The count is raised before the flag is read, and `close` sets the flag before it reads
        // the count.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let call = Call(self);
        if self.closed.load(Ordering::SeqCst) { Err(EngineError::ShuttingDown) } else { Ok(call) }
    }

    /// Accepts no more calls, and waits until those in progress have ended.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let mut gate = self.gate.lock();
        while self.inside.load(Ordering::SeqCst) != 0 {
            self.empty.wait(&mut gate);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.0.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.closed.load(Ordering::SeqCst)
        {
            let _gate = self.0.gate.lock();
            self.0.empty.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_aio::sync::thread;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn closing_waits_for_calls_in_progress_and_refuses_new_ones() {
        let activity = Arc::new(Activity::default());
        let outer = activity.enter().expect("open");
        let inner = activity.enter().expect("nested");
        let closer = thread::spawn({
            let activity = Arc::clone(&activity);
            move || activity.close()
        });
        while !activity.closed.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert_eq!(activity.enter().expect_err("closed").sqlstate(), "57P01");
        drop(inner);
        assert!(!closer.is_finished());
        drop(outer);
        closer.join().expect("join");
    }
}
