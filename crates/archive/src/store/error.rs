//! What can be wrong with an archive.

use super::seal::KeyId;
use super::text::TextError;

/// What is wrong with an archive, or with a file in it. Files are named as the archive names them:
/// path or URL.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A manifest that can't be read.
    #[error("\"{file}\" is no manifest of an archive: {source}")]
    Text {
        /// The file.
        file: String,
        /// What is wrong.
        source: TextError,
    },
    /// A stored file is not what its manifest, or its name, says.
    #[error("archive file \"{file}\" is damaged: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// The manifest is there, but the file is not.
    #[error("archive file \"{file}\" is missing, though its manifest is there")]
    Missing {
        /// The file.
        file: String,
    },
    /// No archive is there: nothing can be said about what it holds.
    #[error("there is no archive at \"{place}\": {reason}")]
    NoArchive {
        /// Where.
        place: String,
        /// Why not.
        reason: String,
    },
    /// It is laid out otherwise.
    #[error("the archive at \"{place}\" has the layout \"{found}\", not \"{wanted}\"")]
    OtherLayout {
        /// Where.
        place: String,
        /// Its layout.
        found: &'static str,
        /// The one that was asked for.
        wanted: &'static str,
    },
    /// It holds the WAL of another cluster.
    #[error(
        "the archive at \"{place}\" holds the WAL of database system {expected}; \"{file}\" is of {found}"
    )]
    OtherSystem {
        /// Where.
        place: String,
        /// The archive's.
        expected: u64,
        /// What was to be archived, or is to be restored.
        file: String,
        /// Its system.
        found: u64,
    },
    /// It is encrypted, and no key is there.
    #[error("archive file \"{file}\" is encrypted{}, and no key was given", .key.map_or_else(String::new, |key| format!(" with key {key}")))]
    NoKey {
        /// The file.
        file: String,
        /// Which key it needs, where that is known.
        key: Option<KeyId>,
    },
    /// It is encrypted with another key.
    #[error("archive file \"{file}\" is encrypted with key {needed}, not {given}")]
    OtherKey {
        /// The file.
        file: String,
        /// The key it needs.
        needed: KeyId,
        /// The key that was given.
        given: KeyId,
    },
    /// A key was given, and this was made without one.
    #[error(
        "archive file \"{file}\" is not {lacks}, though a key was given: anybody could have stored it"
    )]
    Unsealed {
        /// The file.
        file: String,
        /// What it should be: encrypted, or authenticated.
        lacks: &'static str,
    },
    /// A manifest whose authentication is not of what it says.
    #[error("archive file \"{file}\" was forged or changed: its authentication does not match")]
    Forged {
        /// The file.
        file: String,
    },
    /// The store refused something, or could not be reached.
    #[error("could not {operation} \"{file}\": {reason}")]
    Place {
        /// What was tried.
        operation: &'static str,
        /// With what.
        file: String,
        /// What it said.
        reason: String,
    },
    /// It was interrupted while it waited for the store.
    #[error("waiting for \"{file}\" was interrupted by a stop")]
    Stopped {
        /// The file.
        file: String,
    },
    /// Compressing failed.
    #[error("could not compress: {reason}")]
    Compress {
        /// The library's reason.
        reason: String,
    },
    /// No random bytes.
    #[error("could not get random bytes to encrypt with: {reason}")]
    Random {
        /// The system's reason.
        reason: String,
    },
    /// Encrypting failed.
    #[error("could not encrypt: the file is too long")]
    Seal,
    /// What was asked for would cut what a base backup needs.
    #[error("WAL from {first} on is needed by base backup \"{backup}\": nothing was removed")]
    Needed {
        /// First segment it needs.
        first: String,
        /// The backup.
        backup: String,
    },
    /// An option that makes no sense.
    #[error("{0}")]
    Option(String),
}
