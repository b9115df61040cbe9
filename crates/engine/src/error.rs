//! The engine's error: one variant for each thing a caller may want to tell apart, with
//! PostgreSQL's SQLSTATE, message, detail and hint.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_access::AccessError;
use forebay_aio::AioError;
use forebay_catalog::{CatalogError, ObjectName, Refusal};
use forebay_storage::StorageError;
use forebay_txn::locks::LockError;
use forebay_txn::redo::RedoError;
use forebay_txn::{TxnError, disk_sqlstate, wal_sqlstate};
use forebay_types::ValueError;
use forebay_wal::{WalError, WalReadError};

use crate::failure::Failure;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A refusal of a statement, or damaged data, in PostgreSQL's words.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// A lock was not had: deadlock, cancel.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The same, for a row.
    #[error("{error}")]
    RowLock {
        /// Why.
        error: LockError,
        /// PostgreSQL's CONTEXT line: which row, and why it was waited for.
        context: String,
    },
    /// The disk, or the names on it.
    #[error(transparent)]
    Disk(#[from] AioError),
    /// The write-ahead log.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// The write-ahead log could not be read back.
    #[error(transparent)]
    WalRead(#[from] WalReadError),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] forebay_archive::ArchiveError),
    /// Pages, or the files they are in.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log could not be replayed.
    #[error(transparent)]
    Redo(#[from] RedoError),
    /// Bytes of a row that are none, or values that make no row.
    #[error(transparent)]
    Tuple(#[from] forebay_format::TupleError),
    /// Recovery from an archive has reached its target, and was told to stop there. The next start
    /// goes on.
    #[error("recovery has stopped at its target, {at}")]
    StoppedAtTarget {
        /// The end of the record replayed last.
        at: forebay_format::Lsn,
    },
    /// 57P01
    #[error("terminating connection due to administrator command")]
    ShuttingDown,
    /// 57P02: something has failed after which nothing may become durable; opened again, the
    /// directory is recovered.
    #[error("the database system has stopped: {}", .0.message)]
    Poisoned(Arc<Failure>),
    /// A synced write to a file other than a relation's is missing on the disk (XX001).
    #[error("lost write of {len} bytes at offset {offset} in file \"{}\": on disk is something \
             else", .file.display())]
    LostWrite {
        /// The file.
        file: PathBuf,
        /// The write's first byte.
        offset: u64,
        /// Its bytes.
        len: usize,
    },
}

impl EngineError {
    /// A refusal with its SQLSTATE and PostgreSQL's message.
    pub fn statement(sqlstate: &'static str, message: impl Into<String>) -> EngineError {
        EngineError::Refused(Refusal::new(sqlstate, message))
    }

    /// Damaged data (XX001).
    pub fn corrupt(message: impl Into<String>) -> EngineError {
        EngineError::statement("XX001", message)
    }

    /// An error of the program rather than of its data or its user (XX000).
    pub fn internal(message: impl Into<String>) -> EngineError {
        EngineError::statement("XX000", message)
    }

    /// The same error with PostgreSQL's detail.
    pub fn with_detail(mut self, text: impl Into<String>) -> EngineError {
        if let EngineError::Refused(refusal) = &mut self {
            refusal.detail = Some(text.into());
        }
        self
    }

    /// The same error with PostgreSQL's hint.
    pub fn with_hint(mut self, text: impl Into<String>) -> EngineError {
        if let EngineError::Refused(refusal) = &mut self {
            refusal.hint = Some(text.into());
        }
        self
    }

    /// The same error with what it is about.
    pub fn about(mut self, object: ObjectName) -> EngineError {
        if let EngineError::Refused(refusal) = &mut self {
            refusal.object = Some(object);
        }
        self
    }

    /// The five characters of PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            EngineError::Refused(refusal) => refusal.sqlstate,
            EngineError::Lock(error) | EngineError::RowLock { error, .. } => error.sqlstate(),
            EngineError::Disk(error) => disk_sqlstate(error),
            EngineError::Wal(error) => wal_sqlstate(error),
            EngineError::WalRead(error) if error.is_damage() => "XX001",
            EngineError::WalRead(_) => "58030",
            EngineError::Archive(error) if error.is_full() => "53100",
            EngineError::Archive(_) => "58030",
            EngineError::Storage(error) => error.sqlstate(),
            EngineError::Redo(RedoError::Unsupported { .. }) => "0A000",
            EngineError::Redo(_) | EngineError::Tuple(_) | EngineError::LostWrite { .. } => "XX001",
            EngineError::ShuttingDown | EngineError::StoppedAtTarget { .. } => "57P01",
            EngineError::Poisoned(_) => "57P02",
        }
    }

    /// True if something that was promised durable may not be: the engine must stop at once.
    pub fn is_fatal(&self) -> bool {
        match self {
            EngineError::Wal(error) => error.is_fatal(),
            EngineError::Storage(error) => error.is_fatal(),
            EngineError::Archive(error) => error.is_fatal(),
            EngineError::Disk(error) => error.is_failed_sync(),
            EngineError::LostWrite { .. } => true,
            _ => false,
        }
    }

    /// PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        match self {
            EngineError::Refused(refusal) => refusal.detail.clone(),
            EngineError::Lock(error) | EngineError::RowLock { error, .. } => match error {
                LockError::Deadlock { detail } => Some(detail.clone()),
                _ => None,
            },
            EngineError::Storage(error) => error.detail(),
            _ => None,
        }
    }

    /// PostgreSQL's CONTEXT line.
    pub fn context(&self) -> Option<&str> {
        match self {
            EngineError::RowLock { context, .. } => Some(context),
            _ => None,
        }
    }

    /// The table and the constraint or index that it is about.
    pub fn object(&self) -> Option<&ObjectName> {
        match self {
            EngineError::Refused(refusal) => refusal.object.as_ref(),
            _ => None,
        }
    }

    /// PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Refused(refusal) => refusal.hint.clone(),
            EngineError::Lock(error) | EngineError::RowLock { error, .. } => match error {
                LockError::Deadlock { .. } => Some("See server log for query details.".to_owned()),
                _ => None,
            },
            EngineError::Storage(error) => error.hint(),
            EngineError::Disk(AioError::IoUring(refusal)) => Some(refusal.hint().to_owned()),
            EngineError::Poisoned(_) => Some(
                "Open the data directory again: recovery begins from the write-ahead log."
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

impl From<TxnError> for EngineError {
    fn from(error: TxnError) -> EngineError {
        match error {
            TxnError::Disk(error) => error.into(),
            TxnError::Wal(error) => error.into(),
            TxnError::LostWrite { file, offset, len } => {
                EngineError::LostWrite { file, offset, len }
            }
            error => {
                let refused = EngineError::statement(error.sqlstate(), error.to_string());
                let told = error.detail().into_iter().fold(refused, EngineError::with_detail);
                error.hint().into_iter().fold(told, EngineError::with_hint)
            }
        }
    }
}

impl From<AccessError> for EngineError {
    fn from(error: AccessError) -> EngineError {
        match error {
            AccessError::Tuple(error) => error.into(),
            AccessError::Txn(error) => error.into(),
            AccessError::Storage(error) => error.into(),
            AccessError::Wal(error) => error.into(),
            AccessError::Interrupted(kind) => LockError::Interrupted(kind).into(),
            AccessError::Lock(error) | AccessError::RowLock { error, .. } => error.into(),
            error => {
                let refused = EngineError::statement(error.sqlstate(), error.to_string());
                let told = error.detail().into_iter().fold(refused, EngineError::with_detail);
                error.hint().into_iter().fold(told, EngineError::with_hint)
            }
        }
    }
}

impl From<CatalogError> for EngineError {
    fn from(error: CatalogError) -> EngineError {
        match error {
            CatalogError::Refused(refusal) => EngineError::Refused(refusal),
            CatalogError::Disk(error) => error.into(),
            CatalogError::Wal(error) => error.into(),
            CatalogError::Storage(error) => error.into(),
            CatalogError::Txn(error) => error.into(),
            CatalogError::Access(error) => error.into(),
            CatalogError::Tuple(error) => error.into(),
            CatalogError::Value(error) => error.into(),
            error => EngineError::statement(error.sqlstate(), error.to_string()),
        }
    }
}

impl From<ValueError> for EngineError {
    fn from(error: ValueError) -> EngineError {
        let refused = EngineError::statement(error.sqlstate(), error.to_string());
        error.detail().into_iter().fold(refused, EngineError::with_detail)
    }
}
