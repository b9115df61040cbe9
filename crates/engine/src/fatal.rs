//! The one way in which the engine gives up at once.
//!
//! After a failed sync nobody knows what is on the disk, and asking again would get a false answer: nothing may be
//! acknowledged any more, and recovery from the log is the cure. So the process stops, without a checkpoint.

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use std::io::Write;

use crate::config::FatalAction;
use crate::error::EngineError;

/// What happens then, and whether it has happened.
#[derive(Debug)]
pub(crate) struct Fatal {
    action: Option<FatalAction>,
    stopped: AtomicBool,
}

impl Fatal {
    /// With the action from the configuration; None: print and abort.
    pub(crate) fn new(action: Option<FatalAction>) -> Fatal {
        Fatal { action, stopped: AtomicBool::new(false) }
    }

    /// Stops everything because of `reason`. Returns only under an injected action.
    pub(crate) fn stop(&self, reason: &str) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        match &self.action {
            Some(action) => (action.0)(reason),
            None => {
                tracing::error!("PANIC: {reason}");
                // The log may go elsewhere, and this must not get lost.
                let _ = writeln!(std::io::stderr(), "PANIC:  {reason}");
                std::process::abort();
            }
        }
    }

    /// Stops everything if the error is of that kind; hands it on otherwise.
    pub(crate) fn check(&self, error: EngineError) -> EngineError {
        if error.is_fatal() {
            self.stop(&error.to_string());
        }
        error
    }

    /// Runs what must not be left halfway: pages changed without a record, a commit record without its outcome. An
    /// error or a panic inside stops everything; recovery then finds one state or the other.
    pub(crate) fn critical<T>(
        &self,
        what: &str,
        body: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let panicked = OnPanic { fatal: self, what };
        let result = body();
        std::mem::forget(panicked);
        result.inspect_err(|error| self.stop(&format!("{what}: {error}")))
    }

    /// Runs a thread's work: a panic in it stops everything.
    pub(crate) fn watch<T>(&self, who: &str, body: impl FnOnce() -> T) -> T {
        let panicked = OnPanic { fatal: self, what: who };
        let result = body();
        std::mem::forget(panicked);
        result
    }

    /// Whether it has happened (and the action returned).
    pub(crate) fn has_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// Dropped only by a panic.
struct OnPanic<'a> {
    fatal: &'a Fatal,
    what: &'a str,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.fatal.stop(&format!("{}: panicked", self.what));
    }
}

#[cfg(test)]
mod tests {
    use forebay_aio::sync::atomic::AtomicUsize;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;

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
        fatal.stop("could not fsync file \"pg_wal/0001\"");
        fatal.stop("could not fsync file \"pg_wal/0001\"");
        assert!(fatal.has_stopped());
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    fn recording() -> (Fatal, Arc<std::sync::Mutex<Vec<String>>>) {
        let told = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let action = FatalAction(Arc::new(move |reason: &str| seen.lock().unwrap().push(reason.to_owned())));
        (Fatal::new(Some(action)), told)
    }

    #[test]
    fn what_is_critical_must_come_to_its_end() {
        let (fatal, told) = recording();
        assert_eq!(fatal.critical("commit", || Ok(7)).unwrap(), 7);
        assert_eq!(fatal.watch("checkpointer", || 8), 8);
        assert!(!fatal.has_stopped());
        fatal.critical("insertion", || Err::<(), _>(EngineError::internal("no record"))).unwrap_err();
        assert_eq!(*told.lock().unwrap(), ["insertion: no record"]);

        let (fatal, told) = recording();
        let panics = || fatal.critical("commit", || -> Result<(), EngineError> { panic!("on purpose") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(*told.lock().unwrap(), ["commit: panicked"]);

        let (fatal, told) = recording();
        let panics = || fatal.watch("checkpointer", || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(*told.lock().unwrap(), ["checkpointer: panicked"]);
    }
}
