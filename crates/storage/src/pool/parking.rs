//! Where threads sleep until a buffer changes: a small array of mutexes and condition variables,
//! indexed by buffer number.
//!
//! A sleeper sets WAITERS in the buffer's state *before* it checks its condition. A waker changes
//! the state or the lock *before* it checks WAITERS. All of this is sequentially consistent, so at
//! least one of the two sees the other.

use super::desc::{Descriptor, WAITERS};
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::sync::{Condvar, Instant, Mutex};

const LOTS: usize = 64;

struct Lot {
    mutex: Mutex<()>,
    woken: Condvar,
}

/// The sleeping threads of one pool.
pub(crate) struct Parking {
    lots: Vec<Lot>,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Parking {
            lots: (0..LOTS).map(|_| Lot { mutex: Mutex::new(()), woken: Condvar::new() }).collect(),
        }
    }

    fn lot(&self, buf: u32) -> &Lot {
        &self.lots[buf as usize % LOTS]
    }

    /// Sleeps until `ready` holds. The condition may only depend on the descriptor's state, lock
    /// and I/O.
    pub(crate) fn sleep_until(&self, buf: u32, desc: &Descriptor, ready: impl Fn() -> bool) {
        let lot = self.lot(buf);
        let mut guard = lot.mutex.lock();
        loop {
            desc.state.fetch_or(WAITERS, Ordering::SeqCst);
            if ready() {
                return;
            }
            lot.woken.wait(&mut guard);
        }
    }

    /// As [`Self::sleep_until`], but only up to a point in time. Returns whether `ready` holds.
    pub(crate) fn sleep_until_time(
        &self,
        buf: u32,
        desc: &Descriptor,
        ready: impl Fn() -> bool,
        until: Instant,
    ) -> bool {
        let lot = self.lot(buf);
        let mut guard = lot.mutex.lock();
        loop {
            desc.state.fetch_or(WAITERS, Ordering::SeqCst);
            if ready() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            lot.woken.wait_for(&mut guard, left);
        }
    }

    /// Wakes all threads that sleep for this buffer. To be called after a change that saw WAITERS.
    #[cold]
    pub(crate) fn wake(&self, buf: u32, desc: &Descriptor) {
        let lot = self.lot(buf);
        let _guard = lot.mutex.lock();
        desc.state.fetch_and(!WAITERS, Ordering::SeqCst);
        lot.woken.notify_all();
    }
}
