//! What can stop redo.

use forebay_format::wal::Rmgr;
use forebay_format::wal::desc::kind_name;
use forebay_format::{Lsn, PageTag};
use forebay_storage::StorageError;

/// Why a record could not be redone, or why the log does not belong to the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedoError {
    /// Records of this kind cannot be redone.
    #[error("WAL record at {lsn} is of a kind that is not supported: {}, info \
             0x{info:02X}", named(*rmgr, *info))]
    Unsupported {
        /// Its resource manager.
        rmgr: Rmgr,
        /// Its info bits.
        info: u8,
        /// Its first byte.
        lsn: Lsn,
    },
    /// The record says something impossible.
    #[error("WAL record at {lsn} ({rmgr}) is damaged: {problem}")]
    Damaged {
        /// Its resource manager.
        rmgr: Rmgr,
        /// Its first byte.
        lsn: Lsn,
        /// What is wrong.
        problem: String,
    },
    /// The page is not in the state in which the record found it.
    #[error("WAL record at {lsn} does not apply to {tag}: {problem}")]
    Page {
        /// The record's first byte.
        lsn: Lsn,
        /// The page.
        tag: PageTag,
        /// What is wrong.
        problem: String,
    },
    /// Records change pages that do not exist, and no later record drops them.
    #[error("WAL contains references to {count} invalid pages, the first of them {first}")]
    InvalidPages {
        /// How many pages.
        count: usize,
        /// One of them.
        first: PageTag,
    },
    /// A page could not be read.
    #[error("WAL record at {lsn}: {source}")]
    Storage {
        /// The record's first byte.
        lsn: Lsn,
        /// The reason.
        source: StorageError,
    },
    /// Something else that redoing the record needs has failed.
    #[error("WAL record at {lsn}: {source}")]
    Failed {
        /// The record's first byte.
        lsn: Lsn,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A record kind, such as `Transaction PREPARE`; only `Btree` if the kind is unknown.
fn named(rmgr: Rmgr, info: u8) -> String {
    let kind = kind_name(rmgr, info).filter(|kind| *kind != "UNKNOWN");
    kind.map_or_else(|| rmgr.to_string(), |kind| format!("{rmgr} {kind}"))
}
