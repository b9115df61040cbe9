//! A stop during recovery. Recovery ends between two records, and the transfer of files for it is
//! interrupted. The files are then as after a crash at that place, so the next start continues.

use std::sync::{Arc, Weak};

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;

/// Fetches files for recovery, and can be interrupted.
pub(crate) trait Interruptible: Send + Sync {
    /// Ends the transfer of a file. Called again, it kills what transfers it.
    fn interrupt(&self);
}

/// Ends a recovery from another thread than the one that opens the engine. After the recovery it
/// does nothing. A request cannot be withdrawn, so each recovery needs its own.
#[derive(Clone, Default)]
pub struct RecoveryStop(Arc<State>);

#[derive(Default)]
struct State {
    asked: AtomicBool,
    /// Whether a file could not be fetched after the request, presumably because of it.
    cut: AtomicBool,
    /// What is fetching files.
    restore: Mutex<Option<Weak<dyn Interruptible>>>,
}

impl std::fmt::Debug for RecoveryStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoveryStop")
    }
}

impl RecoveryStop {
    /// Makes recovery end soon, with [`EngineError::ShuttingDown`]. Terminates a restore_command;
    /// called again, kills it.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let restore = self.0.restore.lock().as_ref().and_then(Weak::upgrade);
        if let Some(restore) = restore {
            restore.interrupt();
        }
    }

    /// Whether a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Fails if a stop was requested.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.is_asked() { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }

    /// A file could not be fetched.
    pub(crate) fn note_failure(&self) {
        self.0.cut.fetch_or(self.is_asked(), Ordering::SeqCst);
    }

    /// Replaces an error of recovery by the stop that led to it, if one did.
    pub(crate) fn judge(&self, error: EngineError) -> EngineError {
        if !matches!(error, EngineError::ShuttingDown) && !self.0.cut.load(Ordering::SeqCst) {
            return error;
        }
        tracing::info!("recovery was ended by a stop; it goes on with the next start ({error})");
        EngineError::ShuttingDown
    }

    /// Sets what a stop interrupts.
    pub(crate) fn watch(&self, restore: Arc<dyn Interruptible>) -> Result<(), EngineError> {
        let restore: Weak<dyn Interruptible> = Arc::downgrade(&restore);
        *self.0.restore.lock() = Some(restore);
        self.check()
    }
}
