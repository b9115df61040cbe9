//! Where threads sleep that wait for a buffer: a small array of mutex and condition variable pairs,
//! chosen by buffer number.
//!
//! The sleeper sets WAITERS in the buffer's state *before* it checks its condition; the waker
//! changes the state or the lock *before* it looks for WAITERS (all sequentially consistent), so
//! that one of the two sees the other.

use super::desc::{Descriptor, WAITERS};
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::sync::{Condvar, Mutex};

const LOTS: usize = 64;

struct Lot {
    mutex: Mutex<()>,
    woken: Condvar,
}

/// The places to sleep of one pool.
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
    /// and I/O slot.
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

    /// Wakes everyone who sleeps for this buffer; to be called after a change that saw WAITERS.
    #[cold]
    pub(crate) fn wake(&self, buf: u32, desc: &Descriptor) {
        let lot = self.lot(buf);
        let _guard = lot.mutex.lock();
        desc.state.fetch_and(!WAITERS, Ordering::SeqCst);
        lot.woken.notify_all();
    }
}
