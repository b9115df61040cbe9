//! What can stop redo.

use forebay_format::wal::Rmgr;
use forebay_format::wal::desc::kind_name;
use forebay_format::{Lsn, PageTag};
use forebay_storage::StorageError;

use crate::EngineError;

/// Why a record could not be redone, or the log does not fit the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedoError {
    /// The record is of a kind that is not redone here.
    #[error("WAL record at {lsn} is of a kind that is not supported: {}, info 0x{info:02X}", named(*rmgr, *info))]
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
        problem: &'static str,
    },
    /// Records changed pages that do not exist, and nothing later explains why.
    #[error("WAL contains references to {count} invalid pages, the first of them {first}")]
    InvalidPages {
        /// How many pages.
        count: usize,
        /// One of them.
        first: PageTag,
    },
    /// A page could not be had.
    #[error("WAL record at {lsn}: {source}")]
    Storage {
        /// The record's first byte.
        lsn: Lsn,
        /// The reason.
        source: StorageError,
    },
    /// Something of the engine failed.
    #[error("WAL record at {lsn}: {source}")]
    Engine {
        /// The record's first byte.
        lsn: Lsn,
        /// The reason.
        source: Box<EngineError>,
    },
}

/// What kind of record that is: `Transaction PREPARE`, and `Btree` where no more is known.
fn named(rmgr: Rmgr, info: u8) -> String {
    let kind = kind_name(rmgr, info).filter(|kind| *kind != "UNKNOWN");
    kind.map_or_else(|| rmgr.to_string(), |kind| format!("{rmgr} {kind}"))
}
