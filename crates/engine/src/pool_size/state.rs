//! What the thread that changes the pool's size shares with those who say which one, look at it, or
//! stop it.

use forebay_aio::sync::{Condvar, Duration, Mutex, MutexGuard};

use crate::config::PoolSize;

/// What the thread has to do.
#[derive(Debug)]
struct Wanted {
    size: PoolSize,
    changed: bool,
    stopped: bool,
    /// Whether the pool fills.
    demanded: bool,
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
#[derive(Debug)]
pub(crate) struct Sizing {
    wanted: Mutex<Wanted>,
    wake: Condvar,
    done: Mutex<Done>,
    /// Held by who decides on a size, until the pool has it.
    deciding: Mutex<()>,
}

impl Sizing {
    /// The pool begins with this size, and follows it.
    pub(crate) fn of(size: &PoolSize) -> Sizing {
        Sizing {
            wanted: Mutex::new(Wanted {
                size: size.clone(),
                changed: false,
                stopped: false,
                demanded: false,
            }),
            wake: Condvar::default(),
            done: Mutex::default(),
            deciding: Mutex::default(),
        }
    }

    /// Waits until nobody else decides on a size.
    pub(super) fn deciding(&self) -> MutexGuard<'_, ()> {
        self.deciding.lock()
    }

    /// The pool should have another size.
    pub(crate) fn change(&self, size: PoolSize) {
        let mut wanted = self.wanted.lock();
        if wanted.size != size {
            wanted.size = size;
            wanted.changed = true;
            self.wake.notify_all();
        }
    }

    /// The pool fills.
    pub(super) fn demand(&self) {
        self.wanted.lock().demanded = true;
        self.wake.notify_all();
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.wanted.lock().stopped = true;
        self.wake.notify_all();
    }

    /// The size that is wanted.
    pub(crate) fn wanted(&self) -> PoolSize {
        self.wanted.lock().size.clone()
    }

    /// Whether another size is wanted than when this was asked last.
    pub(super) fn take_change(&self) -> bool {
        std::mem::take(&mut self.wanted.lock().changed)
    }

    /// Sleeps for some time (None: for ever), or until another size is wanted, or the pool fills.
    /// False if the thread is to end.
    pub(super) fn rest(&self, time: Option<Duration>) -> bool {
        let mut wanted = self.wanted.lock();
        if !wanted.stopped && !wanted.changed && !wanted.demanded {
            match time {
                Some(time) => drop(self.wake.wait_for(&mut wanted, time)),
                None => self.wake.wait(&mut wanted),
            }
        }
        wanted.demanded = false;
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
