//! What can fail in this crate.

use forebay_format::nbtree::MAX_ITEM_SIZE;
use forebay_format::page::MAX_HEAP_TUPLE_SIZE;
use forebay_format::{IndexTupleError, ItemPointer, RelFileLocator, TupleError};
use forebay_storage::StorageError;
use forebay_txn::locks::{InterruptKind, LockError};
use forebay_txn::{TxnError, wal_sqlstate};
use forebay_wal::WalError;

/// Why rows could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// 54000: the row fits on no page.
    #[error("row is too big: size {size}, maximum size {MAX_HEAP_TUPLE_SIZE}")]
    RowTooBig {
        /// What it would take on a page, in bytes.
        size: usize,
    },
    /// 0A000: PostgreSQL could do this.
    #[error("{0} are not supported")]
    Unsupported(&'static str),
    /// XX001: the data is damaged.
    #[error("{0}")]
    Corrupt(String),
    /// XX002: a page of an index is damaged.
    #[error("{0}")]
    CorruptIndex(String),
    /// 54000: a row's key fits on no page of an index. A hint may tell that an index on a hash of
    /// the value would do.
    #[error(
        "index row size {size} exceeds btree version 4 maximum {MAX_ITEM_SIZE} for index \
         \"{index}\""
    )]
    IndexRowTooBig {
        /// What it would take on a page, in bytes.
        size: usize,
        /// The index.
        index: String,
        /// The row, for the message's detail.
        tid: ItemPointer,
    },
    /// A key does not make an index tuple.
    #[error(transparent)]
    IndexTuple(#[from] IndexTupleError),
    /// An expression of an index could not be evaluated.
    #[error("{}", .0.message)]
    Expression(Box<ExpressionError>),
    /// A row is damaged, or what it refers to. With the code of the reason.
    #[error("{reason} (block {}, offset {} of {rel})", .place.block, .place.offset)]
    Row {
        /// The relation.
        rel: RelFileLocator,
        /// The line pointer.
        place: ItemPointer,
        /// What is wrong.
        reason: Box<AccessError>,
    },
    /// XX000: an invariant of this program does not hold.
    #[error("{0}")]
    Internal(String),
    /// A cancel or terminate request ended the call.
    #[error("{}", .0.message())]
    Interrupted(InterruptKind),
    /// A wait for another transaction failed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A wait for those who hold a row failed.
    #[error("{error}")]
    RowLock {
        /// Why.
        error: LockError,
        /// What was to be done with the row.
        work: RowWork,
        /// The place of the version that they hold.
        tid: ItemPointer,
    },
    /// A stored value is damaged.
    #[error(transparent)]
    Value(#[from] forebay_types::ValueError),
    /// XX001: the bytes of a row are not a row.
    #[error(transparent)]
    Tuple(#[from] TupleError),
    /// Transactions, or `pg_xact`.
    #[error(transparent)]
    Txn(#[from] TxnError),
    /// Pages, or the files that they are in.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The write-ahead log.
    #[error(transparent)]
    Wal(#[from] WalError),
}

impl AccessError {
    /// PostgreSQL's error code.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            AccessError::Row { reason, .. } => reason.sqlstate(),
            AccessError::RowTooBig { .. }
            | AccessError::IndexRowTooBig { .. }
            | AccessError::IndexTuple(IndexTupleError::TooLarge { .. }) => "54000",
            AccessError::Expression(error) => error.sqlstate,
            AccessError::Unsupported(_) => "0A000",
            AccessError::CorruptIndex(_) => "XX002",
            AccessError::Corrupt(_) | AccessError::Tuple(_) | AccessError::IndexTuple(_) => "XX001",
            AccessError::Internal(_) => "XX000",
            AccessError::Interrupted(kind) => kind.sqlstate(),
            AccessError::Lock(error) | AccessError::RowLock { error, .. } => error.sqlstate(),
            AccessError::Txn(error) => error.sqlstate(),
            AccessError::Value(error) => error.sqlstate(),
            AccessError::Storage(error) => error.sqlstate(),
            AccessError::Wal(error) => wal_sqlstate(error),
        }
    }

    /// PostgreSQL's DETAIL line.
    pub fn detail(&self) -> Option<String> {
        match self {
            AccessError::Row { reason, .. } => reason.detail(),
            AccessError::Txn(error) => error.detail(),
            AccessError::Expression(error) => error.detail.clone(),
            _ => None,
        }
    }

    /// PostgreSQL's HINT line.
    pub fn hint(&self) -> Option<String> {
        match self {
            AccessError::Expression(error) => error.hint.clone(),
            _ => None,
        }
    }

    /// The same error with the place of the row, if a damaged row may be the cause.
    pub(crate) fn in_row(self, rel: RelFileLocator, place: ItemPointer) -> AccessError {
        let of_row = match &self {
            AccessError::Corrupt(_) | AccessError::Tuple(_) | AccessError::Value(_) => true,
            AccessError::Txn(error) => error.is_of_stored_id(),
            _ => false,
        };
        if of_row { AccessError::Row { rel, place, reason: Box::new(self) } } else { self }
    }
}

/// What a statement was about to do with a row for which it waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowWork {
    /// To update it.
    Update,
    /// To delete it.
    Delete,
    /// To lock it.
    Lock,
    /// To lock a newer version of a row that it locks.
    LockUpdated,
    /// To look at the newest version of a row that another transaction has updated.
    FetchUpdated,
}

impl RowWork {
    /// PostgreSQL's CONTEXT line.
    pub fn context(self, tid: ItemPointer, relation: &str) -> String {
        let what = match self {
            RowWork::Update => "updating tuple",
            RowWork::Delete => "deleting tuple",
            RowWork::Lock => "locking tuple",
            RowWork::LockUpdated => "locking updated version",
            RowWork::FetchUpdated => "rechecking updated tuple",
        };
        let of = if self == RowWork::LockUpdated { " of tuple" } else { "" };
        format!("while {what} {tid}{of} in relation \"{relation}\"")
    }
}

/// Why an index's expressions could not be evaluated over a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// PostgreSQL's error code.
    pub sqlstate: &'static str,
    /// Its message.
    pub message: String,
    /// Its DETAIL line.
    pub detail: Option<String>,
    /// Its HINT line.
    pub hint: Option<String>,
}
