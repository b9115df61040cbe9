//! Waking the WAL writer.

use forebay_aio::sync::{Condvar, Duration, Mutex};
use forebay_wal::Wal;

/// The WAL writer sleeps on this.
#[derive(Debug, Default)]
pub(crate) struct WalWriterLatch {
    woken: Mutex<bool>,
    wakeup: Condvar,
}

impl WalWriterLatch {
    /// Wakes the WAL writer if `flush_after` bytes or more (0: never) are not durable.
    pub(crate) fn wake_if_behind(&self, wal: &Wal, flush_after: u64) {
        let behind = wal.end_lsn().0.saturating_sub(wal.flushed_lsn().0);
        if flush_after > 0 && behind >= flush_after {
            self.wake();
        }
    }

    /// Wakes the WAL writer.
    pub(crate) fn wake(&self) {
        if !std::mem::replace(&mut *self.woken.lock(), true) {
            self.wakeup.notify_all();
        }
    }

    /// The WAL writer sleeps until the time is over, or it is woken.
    pub(crate) fn rest(&self, time: Duration) {
        let mut woken = self.woken.lock();
        if !*woken {
            self.wakeup.wait_for(&mut woken, time);
        }
        *woken = false;
    }
}
