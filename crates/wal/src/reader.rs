//! Reads the log back.

use std::{path::PathBuf, sync::Arc};

use forebay_aio::{Aio, Backend};
use forebay_format::{Lsn, SegmentSize};

use crate::{
    config::{AbortedRecord, Resume},
    error::WalReadError,
};

/// What a reader needs to know about a log.
#[derive(Debug, Clone)]
pub struct ReaderConfig {
    /// The `pg_wal` directory.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_size: SegmentSize,
    /// The timeline to read.
    pub timeline: u32,
    /// System identifier that segments must state; `None` accepts any.
    pub system_id: Option<u64>,
    /// Read past the page cache (`io_direct` has `wal`).
    pub direct: bool,
}

/// A record and its place.
#[derive(Debug)]
pub struct WalRecord {
    /// Its first byte.
    pub start: Lsn,
    /// The end of its last byte, rounded up to 8: the LSN of the pages it changes.
    pub end: Lsn,
    /// Its bytes, header included and checked; decode with `forebay_format`.
    pub bytes: Vec<u8>,
    /// The aborted record that this XLOG_OVERWRITE_CONTRECORD stands in for.
    pub overwrites: Option<Lsn>,
}

/// Why a log ends where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// The segment that should hold the next record does not exist.
    MissingSegment(PathBuf),
    /// Nothing was written there: zeros.
    Zeros,
    /// What is there is no valid record: the message says what is wrong with it.
    Invalid(String),
}

/// Where a log ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndOfWal {
    /// End of the last valid record.
    pub end: Lsn,
    /// Start of the last valid record that was read; 0 if there was none.
    pub last_record: Lsn,
    /// Why nothing valid follows.
    pub reason: EndReason,
    /// The record that the log ends in the middle of.
    pub aborted: Option<AbortedRecord>,
}

impl EndOfWal {
    /// Where the log goes on after recovery has replayed it up to here, from a checkpoint whose redo pointer
    /// is `redo`.
    pub fn resume(&self, redo: Lsn) -> Resume {
        let insert_at = self.aborted.map_or(self.end, |aborted| aborted.missing_page);
        Resume { insert_at, prev: self.last_record, redo, aborted: self.aborted }
    }
}

/// Reads records from a given position on.
#[derive(Debug)]
pub struct WalReader {
    config: ReaderConfig,
}

impl WalReader {
    /// Will read from `start`: the start of a record, or a page boundary before one.
    pub fn new(_aio: Arc<Aio>, config: ReaderConfig, _start: Lsn) -> WalReader {
        WalReader { config }
    }

    /// The next record, or `None` at the end of the log, of which [`WalReader::end`] then tells more. Asking
    /// again at the end looks again.
    pub fn next(&mut self, _io: &mut Backend) -> Result<Option<WalRecord>, WalReadError> {
        Ok(None)
    }

    /// Where the log ended, once [`WalReader::next`] has returned `None`.
    pub fn end(&self) -> Option<&EndOfWal> {
        None
    }

    /// What the reader was made with.
    pub fn config(&self) -> &ReaderConfig {
        &self.config
    }
}
