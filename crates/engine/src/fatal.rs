//! Stops the engine at once after a failure like a lost sync.
//!
//! After a failed sync it is unknown what is on the disk, and another sync may falsely succeed. So
//! nothing may be acknowledged any more, and only recovery from the log helps. The first failure of
//! that kind poisons the engine:
//!
//! ```text
//!   first failure ─▶ noted ─▶ the log and the archiver end (hooks) ─▶ the configured action
//! ```
//!
//! The server's action aborts the process. If the action returns, or there is none, every later
//! call fails with [`EngineError::Poisoned`]. Checkpoints, pg_control and pg_xact ask
//! [`Fatal::check_alive`] before they make anything durable.

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::PageFailure;
use forebay_aio::sync::{Mutex, OnceLock};
use forebay_archive::ArchiveError;

use crate::config::FatalAction;
use crate::error::EngineError;
use crate::failure::Failure;

impl From<&EngineError> for Failure {
    fn from(error: &EngineError) -> Failure {
        let message = error.to_string();
        match error {
            EngineError::Wal(error) => Failure::of_wal(message, error),
            EngineError::Storage(error) => Failure::of_storage(message, error),
            EngineError::LostWrite { file, .. } => Failure::on_file(message, "write", file.clone()),
            EngineError::Archive(ArchiveError::Status { dir, .. }) => {
                Failure::on_file(message, "fsync", dir.clone())
            }
            EngineError::Disk(disk) => match disk.path() {
                Some(path) => Failure::on_file(message, "fsync", path),
                None => message.into(),
            },
            _ => message.into(),
        }
    }
}

type Hook = Box<dyn Fn(&Failure) + Send + Sync>;

/// Whether the engine has stopped, and what happens when it does.
pub(crate) struct Fatal {
    action: Option<FatalAction>,
    failure: OnceLock<Arc<Failure>>,
    /// Called when the engine stops.
    hooks: Mutex<Vec<Hook>>,
    /// A planted bug.
    ignored: bool,
}

impl Fatal {
    /// With the configured action. None: the engine is poisoned, and the process goes on.
    pub(crate) fn new(action: Option<FatalAction>) -> Fatal {
        Fatal { action, failure: OnceLock::new(), hooks: Mutex::default(), ignored: false }
    }

    /// The same, with the bug that is planted in `aio`.
    pub(crate) fn with_bugs(mut self, aio: &forebay_aio::Aio) -> Fatal {
        forebay_aio::planted_bug!(aio, StopIgnored, self.ignored = true);
        self
    }

    /// Calls `hook` when the engine stops, or now if it has stopped.
    pub(crate) fn at_stop(&self, hook: impl Fn(&Failure) + Send + Sync + 'static) {
        let mut hooks = self.hooks.lock();
        match self.failure.get() {
            Some(failure) => hook(failure),
            None => hooks.push(Box::new(hook)),
        }
    }

    /// Stops the engine because of `failure`, unless it has stopped. Returns unless the action ends
    /// the process.
    pub(crate) fn stop(&self, failure: impl Into<Failure>) {
        let failure = Arc::new(failure.into());
        if !self.ignored {
            let hooks = self.hooks.lock();
            if self.failure.set(Arc::clone(&failure)).is_err() {
                return;
            }
            hooks.iter().for_each(|hook| hook(&failure));
        }
        match &self.action {
            Some(action) => (action.0)(&failure.message),
            None => tracing::error!("the engine has stopped: {}", failure.message),
        }
    }

    /// Stops the engine if the error is fatal. Returns the error, or the first failure if the
    /// engine had stopped before.
    pub(crate) fn check(&self, error: EngineError) -> EngineError {
        if !error.is_fatal() {
            return error;
        }
        match self.check_alive() {
            Ok(()) => {
                self.stop(&error);
                error
            }
            Err(first) => first,
        }
    }

    /// Fails with the first failure once the engine has stopped.
    pub(crate) fn check_alive(&self) -> Result<(), EngineError> {
        self.failure.get().map_or(Ok(()), |failure| Err(EngineError::Poisoned(Arc::clone(failure))))
    }

    /// Runs a thread's work. A panic in it stops the engine.
    pub(crate) fn watch<T>(&self, who: &str, body: impl FnOnce() -> T) -> T {
        let panicked = OnPanic { fatal: self, what: who };
        let result = body();
        std::mem::forget(panicked);
        result
    }

    /// Whether the engine has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.failure.get().is_some()
    }
}

impl PageFailure for Fatal {
    fn stop(&self, what: &str, error: Option<&AccessError>) {
        let Some(error) = error else { return Fatal::stop(self, format!("{what}: panicked")) };
        let message = format!("{what}: {error}");
        Fatal::stop(
            self,
            match error {
                AccessError::Wal(error) => Failure::of_wal(message, error),
                AccessError::Storage(error) => Failure::of_storage(message, error),
                _ => message.into(),
            },
        );
    }
}

impl std::fmt::Debug for Fatal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fatal").field("failure", &self.failure.get()).finish_non_exhaustive()
    }
}

/// Dropped only by a panic.
struct OnPanic<'a> {
    fatal: &'a Fatal,
    what: &'a str,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.fatal.stop(format!("{}: panicked", self.what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_action_runs_once_and_only_for_fatal_errors() {
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&calls);
        let action = FatalAction(Arc::new(move |reason: &str| {
            assert!(reason.contains("0001"));
            seen.fetch_add(1, Ordering::SeqCst);
        }));
        let fatal = Fatal::new(Some(action));
        fatal.check(EngineError::internal("harmless"));
        assert!(!fatal.has_stopped());
        let ended = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&ended);
        let hook = move |failure: &Failure| {
            assert_eq!(failure.file.as_deref(), Some(std::path::Path::new("pg_wal/0001")));
            counted.fetch_add(1, Ordering::SeqCst);
        };
        fatal.at_stop(hook.clone());
        let lost = |file: &str| EngineError::LostWrite { file: file.into(), offset: 0, len: 8192 };
        assert!(matches!(fatal.check(lost("pg_wal/0001")), EngineError::LostWrite { .. }));
        let Err(EngineError::Poisoned(first)) = fatal.check_alive() else {
            panic!("it has stopped")
        };
        assert_eq!(
            (first.operation, first.file.as_deref()),
            (Some("write"), Some("pg_wal/0001".as_ref()))
        );
        // The first failure is what is told of all later ones.
        assert_eq!(
            fatal.check(lost("pg_wal/0002")).to_string(),
            EngineError::Poisoned(first).to_string()
        );
        fatal.stop("0001 again");
        fatal.at_stop(hook);
        assert!(fatal.has_stopped());
        assert_eq!((calls.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (1, 2));
    }

    #[test]
    fn an_embedding_program_goes_on() {
        let fatal = Fatal::new(None);
        fatal.stop("could not fsync file");
        let error = fatal.check_alive().expect_err("poisoned");
        assert_eq!(error.sqlstate(), "57P02");
        assert!(error.to_string().contains("could not fsync file"), "{error}");
    }

    fn recording() -> (Fatal, Arc<std::sync::Mutex<Vec<String>>>) {
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let action =
            FatalAction(Arc::new(move |reason: &str| seen.lock().unwrap().push(reason.to_owned())));
        (Fatal::new(Some(action)), told)
    }

    #[test]
    fn a_panic_or_a_page_change_that_failed_stops_the_engine() {
        let (fatal, told) = recording();
        assert_eq!(fatal.watch("checkpointer", || 8), 8);
        assert!(!fatal.has_stopped());
        let error = AccessError::Internal("no record".to_owned());
        PageFailure::stop(&fatal, "insertion", Some(&error));
        assert_eq!(*told.lock().unwrap(), ["insertion: no record"]);

        let (fatal, told) = recording();
        PageFailure::stop(&fatal, "deletion", None);
        assert_eq!(*told.lock().unwrap(), ["deletion: panicked"]);

        let (fatal, told) = recording();
        let panics = || fatal.watch("checkpointer", || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(*told.lock().unwrap(), ["checkpointer: panicked"]);
    }
}
