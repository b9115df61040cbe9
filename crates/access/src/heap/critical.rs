//! Page changes that must be completed.

use std::fmt::Debug;

use crate::error::AccessError;

/// Stops the engine when a page was changed and the change could not be logged. Recovery then
/// finds the page as it was before, or as it is after the change.
pub trait PageFailure: Debug + Send + Sync {
    /// A change failed, or panicked if there is no error. `what` says which change it was.
    fn stop(&self, what: &str, error: Option<&AccessError>);
}

/// Runs a page change from its first changed byte to the page's LSN. An error or a panic inside
/// stops the engine.
pub(crate) fn critical<T>(
    failure: &dyn PageFailure,
    what: &str,
    body: impl FnOnce() -> Result<T, AccessError>,
) -> Result<T, AccessError> {
    let panicked = OnPanic { failure, what };
    let result = body();
    std::mem::forget(panicked);
    result.inspect_err(|error| failure.stop(what, Some(error)))
}

/// Dropped only by a panic.
struct OnPanic<'a> {
    failure: &'a dyn PageFailure,
    what: &'a str,
}

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        self.failure.stop(self.what, None);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::tests::fixture::Failures;

    #[test]
    fn a_change_that_does_not_come_to_its_end_stops_the_engine() {
        let failures = Failures::default();
        assert_eq!(critical(&failures, "insertion", || Ok(7)).unwrap(), 7);
        assert!(failures.all().is_empty());
        let fail = || Err::<(), _>(AccessError::Internal("no record".to_owned()));
        critical(&failures, "insertion", fail).unwrap_err();
        assert_eq!(failures.all(), ["insertion: no record"]);
        let panics =
            || critical(&failures, "deletion", || -> Result<(), _> { panic!("on purpose") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(failures.all().last().unwrap(), "deletion: panicked");
    }
}
