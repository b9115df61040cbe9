//! The one way in which the engine gives up at once.
//!
//! After a failed sync nobody knows what is on the disk, and asking again would get a false answer:
//! nothing may be acknowledged any more, and recovery from the log is the cure. So the engine is
//! poisoned by the first failure of that kind:
//!
//! ```text
//!   first failure ──▶ noted ──▶ the log and the archiver end (hooks) ──▶ the configured action: the server's aborts the process
//! ```
//!
//! Where the action returns, or there is none, every later call fails with
//! [`EngineError::Poisoned`], and whoever makes something durable asks [`Fatal::check_alive`]
//! before: checkpoints, pg_control, pg_xact.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_aio::sync::{Mutex, OnceLock};
use forebay_archive::ArchiveError;
use forebay_storage::StorageError;
use forebay_wal::WalError;

use crate::config::FatalAction;
use crate::error::EngineError;

/// Why an engine stopped: the first failure after which nothing may become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// All of it, as the log has it.
    pub message: String,
    /// What was attempted ("fsync", "write"), if it was an operation on a file.
    pub operation: Option<&'static str>,
    /// The file or directory.
    pub file: Option<PathBuf>,
}

impl Failure {
    /// A failed operation on a file.
    pub(crate) fn on_file(
        message: String,
        operation: &'static str,
        file: impl Into<PathBuf>,
    ) -> Failure {
        Failure { message, operation: Some(operation), file: Some(file.into()) }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { message, operation: None, file: None }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        message.to_owned().into()
    }
}

impl From<&EngineError> for Failure {
    fn from(error: &EngineError) -> Failure {
        let message = error.to_string();
        match error {
            EngineError::Wal(WalError::Fatal(fatal)) => {
                Failure::on_file(message, fatal.operation, fatal.file.clone())
            }
            EngineError::Storage(StorageError::Sync { file, .. }) => {
                Failure::on_file(message, "fsync", file.clone())
            }
            EngineError::Storage(StorageError::LostWrite { file, .. }) => {
                Failure::on_file(message, "write", file.clone())
            }
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

/// What happens then, and whether it has happened.
pub(crate) struct Fatal {
    action: Option<FatalAction>,
    failure: OnceLock<Arc<Failure>>,
    /// What else ends with the engine.
    hooks: Mutex<Vec<Hook>>,
    /// A planted bug.
    ignored: bool,
}

impl Fatal {
    /// With the action from the configuration; None: the engine is poisoned, and the process goes
    /// on.
    pub(crate) fn new(action: Option<FatalAction>) -> Fatal {
        Fatal { action, failure: OnceLock::new(), hooks: Mutex::default(), ignored: false }
    }

    /// The same, with the bug that is planted in `aio`.
    pub(crate) fn with_bugs(mut self, aio: &forebay_aio::Aio) -> Fatal {
        forebay_aio::planted_bug!(aio, StopIgnored, self.ignored = true);
        self
    }

    /// Has `hook` called when everything stops; at once, if that has happened.
    pub(crate) fn at_stop(&self, hook: impl Fn(&Failure) + Send + Sync + 'static) {
        let mut hooks = self.hooks.lock();
        match self.failure.get() {
            Some(failure) => hook(failure),
            None => hooks.push(Box::new(hook)),
        }
    }

    /// Stops everything because of `failure`. Does nothing if that has happened. Returns unless the
    /// action ends the process.
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

    /// Stops everything if the error is of that kind. Hands it on; what only follows from an
    /// earlier failure becomes that one.
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

    /// Fails once everything has stopped, with the first failure.
    pub(crate) fn check_alive(&self) -> Result<(), EngineError> {
        self.failure.get().map_or(Ok(()), |failure| Err(EngineError::Poisoned(Arc::clone(failure))))
    }

    /// Runs what must not be left halfway: pages changed without a record, a commit record without
    /// its outcome. An error or a panic inside stops everything; recovery then finds one state or
    /// the other.
    pub(crate) fn critical<T>(
        &self,
        what: &str,
        body: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let panicked = OnPanic { fatal: self, what };
        let result = body();
        std::mem::forget(panicked);
        result.inspect_err(|error| {
            self.stop(Failure { message: format!("{what}: {error}"), ..Failure::from(error) });
        })
    }

    /// Runs a thread's work: a panic in it stops everything.
    pub(crate) fn watch<T>(&self, who: &str, body: impl FnOnce() -> T) -> T {
        let panicked = OnPanic { fatal: self, what: who };
        let result = body();
        std::mem::forget(panicked);
        result
    }

    /// Whether it has happened.
    pub(crate) fn has_stopped(&self) -> bool {
        self.failure.get().is_some()
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
    fn what_is_critical_must_come_to_its_end() {
        let (fatal, told) = recording();
        assert_eq!(fatal.critical("commit", || Ok(7)).unwrap(), 7);
        assert_eq!(fatal.watch("checkpointer", || 8), 8);
        assert!(!fatal.has_stopped());
        fatal
            .critical("insertion", || Err::<(), _>(EngineError::internal("no record")))
            .unwrap_err();
        assert_eq!(*told.lock().unwrap(), ["insertion: no record"]);

        let (fatal, told) = recording();
        let panics =
            || fatal.critical("commit", || -> Result<(), EngineError> { panic!("on purpose") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(*told.lock().unwrap(), ["commit: panicked"]);

        let (fatal, told) = recording();
        let panics = || fatal.watch("checkpointer", || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(*told.lock().unwrap(), ["checkpointer: panicked"]);
    }
}
