//! Files of the log that are brought from elsewhere when they are wanted: out of an archive.

use forebay_aio::Backend;

/// Why a file could not be brought: it may be there or not.
pub type FetchFailure = Box<dyn std::error::Error + Send + Sync>;

/// Brings files of the log into its directory. A reader that has one asks it for each segment
/// before it looks into the directory, in the order of the log, and reads no further ahead than to
/// the end of the segment it is in.
pub trait Fetch: Send + Sync {
    /// Puts the file of that name into the log's directory, in place of one that is there. False:
    /// it is certain that there is none to be had. Whatever else is in the way is an error, for it
    /// says nothing about where the log ends.
    fn fetch(&self, io: &mut Backend, name: &str) -> Result<bool, FetchFailure>;
}
