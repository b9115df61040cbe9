//! Why an engine stopped.

use std::path::PathBuf;

use forebay_storage::StorageError;
use forebay_wal::WalError;

/// Why an engine stopped: the first failure after which nothing may become durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The whole message, as logged.
    pub message: String,
    /// The file operation that failed ("fsync", "write"), if one did.
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

    /// A failure of the write-ahead log.
    pub(crate) fn of_wal(message: String, error: &WalError) -> Failure {
        match error {
            WalError::Fatal(fatal) => {
                Failure::on_file(message, fatal.operation, fatal.file.clone())
            }
            _ => message.into(),
        }
    }

    /// A failure of relation files.
    pub(crate) fn of_storage(message: String, error: &StorageError) -> Failure {
        match error {
            StorageError::Sync { file, .. } => Failure::on_file(message, "fsync", file.clone()),
            StorageError::LostWrite { file, .. } => {
                Failure::on_file(message, "write", file.clone())
            }
            _ => message.into(),
        }
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
