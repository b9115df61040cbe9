//! A backend that waits for the cleanup lock, for the tests and the interleavings.

use std::sync::Arc;

use forebay_aio::sync::{Condvar, Mutex};
use forebay_storage::{Latch, PageWriteGuard, Pinned, StorageError};

#[derive(Default)]
struct Sleeper {
    gate: Mutex<()>,
    woken: Condvar,
}

impl Latch for Sleeper {
    fn notify(&self) {
        let _gate = self.gate.lock();
        self.woken.notify_all();
    }
}

/// Waits for the cleanup lock.
pub fn alone(pin: &Pinned) -> Result<PageWriteGuard<'_>, StorageError> {
    let sleeper = Arc::new(Sleeper::default());
    let request = pin.request_cleanup(sleeper.clone())?;
    loop {
        if let Some(guard) = pin.try_lock_cleanup() {
            return Ok(guard);
        }
        let mut gate = sleeper.gate.lock();
        while !request.is_ready() {
            sleeper.woken.wait(&mut gate);
        }
        drop(gate);
        request.finish_write();
    }
}
