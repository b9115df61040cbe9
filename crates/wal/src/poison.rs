//! What ended a log, if anything has: the log and its segments look here before they change
//! anything that is to stay.

use forebay_aio::sync::OnceLock;

use crate::error::WalError;

/// The first failure; every later call returns it.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<WalError>);

impl Poison {
    /// What ended the log.
    pub fn get(&self) -> Option<WalError> {
        self.0.get().cloned()
    }

    /// Fails once the log is lost.
    pub fn check(&self) -> Result<(), WalError> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Ends the log with `error`, or with what ended it before, which is returned.
    pub fn set(&self, error: WalError) -> WalError {
        self.0.get_or_init(|| error).clone()
    }
}
