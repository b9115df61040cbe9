//! Calls under way, which a stop waits for.

use forebay_aio::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_aio::sync::{Condvar, Mutex};

use crate::error::EngineError;

/// Counts the calls that are inside the engine. They may nest.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    inside: AtomicUsize,
    closed: AtomicBool,
    gate: Mutex<()>,
    empty: Condvar,
}

/// A call inside.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Activity);

impl Activity {
    /// Enters; fails once it is closed (57P01).
    pub(crate) fn enter(&self) -> Result<Call<'_>, EngineError> {
        // The count rises before the flag is looked at, and the flag is set before the count is
        // looked at.
        self.inside.fetch_add(1, Ordering::SeqCst);
        let call = Call(self);
        if self.closed.load(Ordering::SeqCst) { Err(EngineError::ShuttingDown) } else { Ok(call) }
    }

    /// Lets nobody in any more, and waits until everybody is out.
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
    fn closing_waits_for_those_inside_and_keeps_others_out() {
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
