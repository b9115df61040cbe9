//! Files of the log from a source of the embedder's, in place of restore_command.

use std::path::Path;
use std::sync::Arc;

use forebay_aio::Backend;

/// An archive, as recovery sees it.
pub trait RestoreSource: Send + Sync {
    /// Puts a file of the log under `to`, where nothing is; it need not be durable. False: it is
    /// certain that the archive does not have it. Whatever else is in the way is an error, for it
    /// says nothing about where the log ends: recovery stops, and can be begun again.
    fn bring(&self, io: &mut Backend, name: &str, to: &Path) -> Result<bool, String>;
}

/// A source, to be handed in with the configuration.
#[derive(Clone)]
pub struct RestoreFrom(pub Arc<dyn RestoreSource>);

impl std::fmt::Debug for RestoreFrom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RestoreFrom")
    }
}
