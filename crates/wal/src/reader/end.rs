//! Where and why a log ends.

use std::path::PathBuf;

use forebay_format::Lsn;

use crate::config::{AbortedRecord, Resume};

/// Why a log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The segment that should hold the next record does not exist.
    MissingSegment(PathBuf),
    /// Nothing was written at this position: it holds zeros.
    Zeros(Lsn),
    /// There is no valid record; the message says what is wrong.
    Invalid(String),
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EndReason::MissingSegment(path) => {
                write!(f, "there is no WAL segment \"{}\"", path.display())
            }
            EndReason::Zeros(at) => write!(f, "nothing was written at {at}"),
            EndReason::Invalid(what) => f.write_str(what),
        }
    }
}

/// Where a log ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndOfWal {
    /// End of the last valid record, or the reader's start if there was none.
    pub end: Lsn,
    /// Start of the last valid record that was read; 0 if there was none.
    pub last_record: Lsn,
    /// The last page that was read. It has no valid record at or behind `end`.
    pub page: Lsn,
    /// Why there is no further record.
    pub reason: EndReason,
    /// The incomplete record at the end of the log.
    pub aborted: Option<AbortedRecord>,
}

impl EndOfWal {
    /// Where the log resumes after recovery has replayed it up to here, from a checkpoint with the
    /// redo pointer `redo`.
    pub fn resume(&self, redo: Lsn) -> Resume {
        let insert_at = self.aborted.map_or(self.end, |aborted| aborted.missing_page);
        Resume { insert_at, prev: self.last_record, redo, aborted: self.aborted }
    }
}
