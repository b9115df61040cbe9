//! What can fail in this crate.

use forebay_access::AccessError;
use forebay_aio::AioError;
use forebay_format::TupleError;
use forebay_storage::StorageError;
use forebay_txn::{TxnError, disk_sqlstate, wal_sqlstate};
use forebay_types::ValueError;
use forebay_wal::WalError;

/// Why the catalogs could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// A refusal in PostgreSQL's words, or damaged catalogs.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// A file operation failed.
    #[error(transparent)]
    Disk(#[from] AioError),
    /// The write-ahead log failed.
    #[error(transparent)]
    Wal(#[from] WalError),
    /// Pages, or the files that they are in.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// Transactions, or `pg_xact`.
    #[error(transparent)]
    Txn(#[from] TxnError),
    /// The catalogs' rows.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// XX001: the bytes of a row are not a row.
    #[error(transparent)]
    Tuple(#[from] TupleError),
    /// A stored value could not be read.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// A refusal with PostgreSQL's error code and words.
#[derive(Debug)]
pub struct Refusal {
    /// SQLSTATE
    pub sqlstate: &'static str,
    /// Message
    pub message: String,
    /// DETAIL
    pub detail: Option<String>,
    /// HINT
    pub hint: Option<String>,
    /// The table that it is about, and what of it.
    pub object: Option<ObjectName>,
}

/// What an error is about: PostgreSQL's fields for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The table's schema.
    pub schema: String,
    /// The table.
    pub table: String,
    /// A constraint of it, or an index.
    pub constraint: String,
}

impl Refusal {
    /// A refusal without details.
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Box<Refusal> {
        Box::new(Refusal {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            object: None,
        })
    }
}

impl CatalogError {
    /// A refusal with its SQLSTATE and PostgreSQL's message.
    pub fn refused(sqlstate: &'static str, message: impl Into<String>) -> CatalogError {
        CatalogError::Refused(Refusal::new(sqlstate, message))
    }

    /// Damaged data (XX001).
    pub(crate) fn corrupt(message: impl Into<String>) -> CatalogError {
        CatalogError::refused("XX001", message)
    }

    pub(crate) fn with_detail(mut self, text: impl Into<String>) -> CatalogError {
        if let CatalogError::Refused(refusal) = &mut self {
            refusal.detail = Some(text.into());
        }
        self
    }

    pub(crate) fn with_hint(mut self, text: impl Into<String>) -> CatalogError {
        if let CatalogError::Refused(refusal) = &mut self {
            refusal.hint = Some(text.into());
        }
        self
    }

    /// PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            CatalogError::Refused(refusal) => refusal.sqlstate,
            CatalogError::Disk(error) => disk_sqlstate(error),
            CatalogError::Wal(error) => wal_sqlstate(error),
            CatalogError::Storage(error) => error.sqlstate(),
            CatalogError::Txn(error) => error.sqlstate(),
            CatalogError::Access(error) => error.sqlstate(),
            CatalogError::Tuple(_) => "XX001",
            CatalogError::Value(error) => error.sqlstate(),
        }
    }
}
