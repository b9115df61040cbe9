//! A stop while a directory is still being recovered. Recovery ends between two records, and what
//! fetches files for it is interrupted; nothing is written that a crash at the same place would not
//! have left, so it goes on with the next start.

use std::sync::{Arc, Weak};

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};

use crate::error::EngineError;

/// What fetches a file for recovery, and can be told to give up.
pub(crate) trait Interruptible: Send + Sync {
    /// Ends the transfer of a file. Called again, it does so without asking.
    fn interrupt(&self);
}

/// Ends a recovery from outside, whichever thread opens the engine. Once recovery is through it
/// does nothing. It is for one recovery: who has asked has asked for good, so the next one needs
/// another.
#[derive(Clone, Default)]
pub struct RecoveryStop(Arc<State>);

#[derive(Default)]
struct State {
    asked: AtomicBool,
    /// A file could not be brought after that: because of it, as far as anybody can tell.
    cut: AtomicBool,
    /// What brings files just now.
    restore: Mutex<Option<Weak<dyn Interruptible>>>,
}

impl std::fmt::Debug for RecoveryStop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecoveryStop")
    }
}

impl RecoveryStop {
    /// Has recovery end soon, with [`EngineError::ShuttingDown`]. A restore_command is told to end;
    /// asked again, it is killed.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
        let restore = self.0.restore.lock().as_ref().and_then(Weak::upgrade);
        if let Some(restore) = restore {
            restore.interrupt();
        }
    }

    /// Whether somebody has asked.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Fails if somebody has asked.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.is_asked() { Err(EngineError::ShuttingDown) } else { Ok(()) }
    }

    /// A file could not be brought.
    pub(crate) fn note_failure(&self) {
        self.0.cut.fetch_or(self.is_asked(), Ordering::SeqCst);
    }

    /// What an error of recovery means: the stop, if that has led to it.
    pub(crate) fn judge(&self, error: EngineError) -> EngineError {
        if !matches!(error, EngineError::ShuttingDown) && !self.0.cut.load(Ordering::SeqCst) {
            return error;
        }
        tracing::info!("recovery was ended by a stop; it goes on with the next start ({error})");
        EngineError::ShuttingDown
    }

    /// Tells what is to be interrupted.
    pub(crate) fn watch(&self, restore: Arc<dyn Interruptible>) -> Result<(), EngineError> {
        let restore: Weak<dyn Interruptible> = Arc::downgrade(&restore);
        *self.0.restore.lock() = Some(restore);
        self.check()
    }
}
