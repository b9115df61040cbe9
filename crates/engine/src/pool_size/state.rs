//! What the thread that changes the pool's size shares with those who say which one, look at it, or
//! stop it.

use forebay_aio::sync::{Condvar, Duration, Mutex};

use super::size::PoolSize;

/// What the thread has to do.
#[derive(Debug, Default)]
struct Wanted {
    /// None: the size with which the pool was made.
    size: Option<PoolSize>,
    changed: bool,
    stopped: bool,
}

/// What it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Blocks that the pool should have, as last decided.
    pub(crate) target: Option<usize>,
    /// How often its size changed.
    pub(crate) resizes: u64,
    /// Times at which memory was short.
    pub(crate) shortages: u64,
}

/// The size of the pool, as an engine has it.
#[derive(Debug, Default)]
pub(crate) struct Sizing {
    wanted: Mutex<Wanted>,
    wake: Condvar,
    done: Mutex<Done>,
}

impl Sizing {
    /// The pool should have another size.
    pub(crate) fn change(&self, size: PoolSize) {
        let mut wanted = self.wanted.lock();
        if wanted.size != Some(size) {
            wanted.size = Some(size);
            wanted.changed = true;
            self.wake.notify_all();
        }
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.wanted.lock().stopped = true;
        self.wake.notify_all();
    }

    /// The size that is wanted, if one was ever said.
    pub(crate) fn wanted(&self) -> Option<PoolSize> {
        self.wanted.lock().size
    }

    /// The size that is wanted, if it is news.
    pub(super) fn take_change(&self) -> Option<PoolSize> {
        let mut wanted = self.wanted.lock();
        if std::mem::take(&mut wanted.changed) { wanted.size } else { None }
    }

    /// Sleeps for some time (None: for ever), or until another size is wanted. False if the thread
    /// is to end.
    pub(super) fn rest(&self, time: Option<Duration>) -> bool {
        let mut wanted = self.wanted.lock();
        if !wanted.stopped && !wanted.changed {
            match time {
                Some(time) => drop(self.wake.wait_for(&mut wanted, time)),
                None => self.wake.wait(&mut wanted),
            }
        }
        !wanted.stopped
    }

    /// Returns what the thread has done.
    pub(crate) fn done(&self) -> Done {
        *self.done.lock()
    }

    pub(super) fn note(&self, change: impl FnOnce(&mut Done)) {
        change(&mut self.done.lock());
    }
}
