//! The log itself: starting it, and where it stands.

use std::sync::Arc;

use forebay_aio::{Aio, Backend};
use forebay_format::Lsn;

use crate::{
    config::{Resume, WalConfig},
    error::WalError,
    record::{Inserted, Record},
    stats::WalStats,
};

/// Which kind of checkpoint begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointKind {
    /// While others insert: an XLOG_CHECKPOINT_REDO record, which states this `wal_level`, marks the redo pointer.
    Online {
        /// Number of the `wal_level` in force.
        wal_level: u32,
    },
    /// Nobody else inserts: the checkpoint's own record will be the redo pointer.
    Shutdown,
}

/// What became of old segments.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct OldSegments {
    /// Renamed to future names.
    pub recycled: u64,
    /// Removed.
    pub removed: u64,
}

/// A write-ahead log: one for each data directory, shared by all backends.
#[derive(Debug)]
pub struct Wal {
    config: WalConfig,
}

impl Wal {
    /// Starts the log at `resume`: reads the partial block there, clears what is left of an earlier life of
    /// the log behind it, and, after an aborted record, inserts and flushes XLOG_OVERWRITE_CONTRECORD.
    /// The segment is made if it does not exist.
    pub fn start(
        _aio: Arc<Aio>,
        _io: &mut Backend,
        _config: WalConfig,
        _resume: Resume,
    ) -> Result<Wal, WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Inserts a record. An error other than a fatal one means that nothing was inserted.
    ///
    /// Full-page images are decided here, from each page's LSN and the redo pointer. Callers that must not
    /// fail halfway call [`Wal::ensure_room`] before they change pages.
    pub fn insert(&self, _io: &mut Backend, _record: &Record<'_>) -> Result<Inserted, WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Makes segments so that `bytes` more of WAL, and as much again from others as a segment holds, can be
    /// inserted without making a segment: what a caller needs before a critical section.
    pub fn ensure_room(&self, _io: &mut Backend, _bytes: u64) -> Result<(), WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Returns once everything up to `upto` is durable. One caller writes and syncs all that is inserted;
    /// the others wait for it.
    pub fn flush(&self, _io: &mut Backend, _upto: Lsn) -> Result<(), WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Flushes everything inserted so far.
    pub fn flush_all(&self, _io: &mut Backend) -> Result<Lsn, WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// One round of the WAL writer: prepares the next segment if the log comes near its end, and writes out
    /// full blocks. True if there was something to do.
    pub fn step(&self, _io: &mut Backend) -> Result<bool, WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Where the next record will start.
    pub fn insert_lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// Everything before this is durable.
    pub fn flushed_lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// Everything before this is written, though perhaps not synced.
    pub fn written_lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// The redo pointer in force: a page whose LSN is not beyond it gets a full-page image.
    pub fn redo_lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// Start of the record inserted last.
    pub fn last_record_lsn(&self) -> Lsn {
        Lsn(0)
    }

    /// Begins a checkpoint: moves the redo pointer, and returns it. Records inserted after it see the new one.
    pub fn begin_checkpoint(&self, _io: &mut Backend, _kind: CheckpointKind) -> Result<Lsn, WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Bytes inserted since the redo pointer: what a checkpoint by size goes by.
    pub fn bytes_since_redo(&self) -> u64 {
        0
    }

    /// Recycles or removes the segments that end at or before `before` (the redo pointer of the last completed
    /// checkpoint). As many are renamed to future names as `keep` bytes ahead of the log's end hold.
    pub fn remove_old_segments(&self, _before: Lsn, _keep: u64) -> Result<OldSegments, WalError> {
        Err(WalError::Config("not yet".to_owned()))
    }

    /// Turns full-page images on or off.
    pub fn set_full_page_writes(&self, _on: bool) {}

    /// The error that ended this log, if one has.
    pub fn poisoned(&self) -> Option<WalError> {
        None
    }

    /// The counters of `pg_stat_wal`.
    pub fn stats(&self) -> WalStats {
        WalStats::default()
    }

    /// What the log was started with.
    pub fn config(&self) -> &WalConfig {
        &self.config
    }
}
