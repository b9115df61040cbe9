//! The crate's error.

use std::path::PathBuf;

use forebay_aio::AioError;
use forebay_archive::ArchiveError;
use forebay_engine::EngineError;
use forebay_storage::StorageError;
use forebay_wal::WalError;

/// Why a bench has no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] AioError),
    /// A page could not be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The write-ahead log failed.
    #[error(transparent)]
    Log(#[from] WalError),
    /// The archiver failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The cluster can't be measured.
    #[error(transparent)]
    Engine(Box<EngineError>),
    /// The file system has no room for the files.
    #[error(
        "there is not enough space in \"{}\": {needed} bytes are needed, {free} are free",
        dir.display()
    )]
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// Bytes of the files, and an eighth more.
        needed: u64,
        /// Free bytes.
        free: u64,
    },
    /// The path can't be measured.
    #[error("\"{}\" {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The options make no sense.
    #[error("{0}")]
    Options(String),
    /// A run did not do what was to be measured.
    #[error("{0}")]
    Failed(String),
    /// A page was read that is not as it was written.
    #[error("a page of the test file came back with a wrong checksum: block {block}")]
    Damaged {
        /// Its number in the file.
        block: u64,
    },
}

impl From<EngineError> for BenchError {
    fn from(error: EngineError) -> BenchError {
        BenchError::Engine(Box::new(error))
    }
}
