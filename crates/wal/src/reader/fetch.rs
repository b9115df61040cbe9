//! Brings files of the log from an archive.

use forebay_aio::IoBackend;

use crate::error::FetchFailure;

/// Brings files of the log into its directory. A reader with a `Fetch` asks it for each segment, in
/// order, before it looks in the directory. It reads ahead only within the current segment.
pub trait Fetch: Send + Sync {
    /// Puts the file `name` into the log's directory, replacing an existing one. Returns false if
    /// the file certainly does not exist. Any other failure is an error, because it says nothing
    /// about where the log ends.
    fn fetch(&self, io: &mut IoBackend, name: &str) -> Result<bool, FetchFailure>;
}
