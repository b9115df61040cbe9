//! The failure that ended a log. The log and its segments check it before each durable change.

use forebay_aio::sync::OnceLock;

use crate::error::WalError;

/// The first failure, if there was one. Every later call returns it.
#[derive(Debug, Default)]
pub(crate) struct Poison(OnceLock<WalError>);

impl Poison {
    /// The failure that ended the log.
    pub fn get(&self) -> Option<WalError> {
        self.0.get().cloned()
    }

    /// Fails if the log has ended.
    pub fn check(&self) -> Result<(), WalError> {
        self.0.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Ends the log with `error`, unless it has ended before. Returns the first failure.
    pub fn set(&self, error: WalError) -> WalError {
        self.0.get_or_init(|| error).clone()
    }
}
