//! The log: its parts, its positions, and its end after a failure.

use forebay_aio::{
    IoBackend,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};
use forebay_format::{Lsn, wal::ImageCompression};

use crate::{
    config::WalConfig,
    error::WalError,
    pipeline::{FlushPipeline, Progress},
    poison::Poison,
    position::Positions,
    reserve::Reservations,
    ring::Ring,
    segments::Segments,
    slots::Slots,
    stats::{WalCounters, WalStats},
};

/// The write-ahead log of a data directory, shared by all backends.
#[derive(Debug)]
pub struct Wal {
    pub(crate) config: WalConfig,
    pub(crate) positions: Positions,
    pub(crate) segments: Segments,
    pub(crate) ring: Ring,
    /// The position of the next record. An inserter must hold a slot to reserve.
    pub(crate) reservations: Reservations,
    pub(crate) slots: Slots,
    /// Start of the last record before the log was started.
    pub(crate) first_prev: Lsn,
    /// The page whose header must be flagged as replacing a lost continuation; 0 if there is none.
    pub(crate) overwrites_at: AtomicU64,
    pub(crate) progress: Arc<Progress>,
    pub(crate) pipeline: FlushPipeline,
    /// Changes only while the slots are closed.
    pub(crate) redo: AtomicU64,
    /// Changes only while the slots are closed.
    pub(crate) full_page_writes: AtomicBool,
    /// The end of the last asynchronous commit.
    pub(crate) async_commits_end: AtomicU64,
    /// An index in [`ImageCompression::NAMES`] plus 1; 0 for none.
    pub(crate) compression: AtomicU8,
    pub(crate) poison: Arc<Poison>,
    pub(crate) counters: WalCounters,
}

impl Wal {
    /// The start of the next record. At a page boundary, that is behind the page's header.
    pub fn insert_lsn(&self) -> Lsn {
        self.positions.start_lsn(self.reservations.head().pos)
    }

    /// The end of the last record, which may not be copied to the buffers yet.
    pub fn end_lsn(&self) -> Lsn {
        self.positions.end_lsn(self.reservations.head().pos)
    }

    /// Start of the last record; 0 in a log without records.
    pub fn last_record_lsn(&self) -> Lsn {
        self.prev_lsn(self.reservations.head().prev)
    }

    /// Everything before this is written, but perhaps not synced.
    pub fn written_lsn(&self) -> Lsn {
        self.progress.written()
    }

    /// Everything before this is durable.
    pub fn flushed_lsn(&self) -> Lsn {
        self.progress.flushed()
    }

    /// The current redo pointer: a page whose LSN is not beyond it gets a full-page image.
    pub fn redo_lsn(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Whether the next record of a page with this LSN gets an image of it.
    pub fn needs_image(&self, lsn: Lsn) -> bool {
        self.full_page_writes.load(Ordering::Acquire) && lsn <= self.redo_lsn()
    }

    /// Turns full-page images on or off.
    pub fn set_full_page_writes(&self, on: bool) {
        let _closed = self.slots.close();
        self.full_page_writes.store(on, Ordering::Release);
    }

    /// Start of the record at byte position `prev`; `None` is the last one before the log was
    /// started.
    pub(crate) fn prev_lsn(&self, prev: Option<u64>) -> Lsn {
        prev.map_or(self.first_prev, |pos| self.positions.start_lsn(pos))
    }

    /// Sets how page images are compressed (`wal_compression`); `None`: not at all.
    pub fn set_compression(&self, method: Option<ImageCompression>) {
        let index = |method| ImageCompression::NAMES.iter().position(|&(_, other)| other == method);
        let number = method.map_or(0, |method| index(method).expect("a listed method") as u8 + 1);
        self.compression.store(number, Ordering::Relaxed);
    }

    /// How page images are compressed.
    pub fn compression(&self) -> Option<ImageCompression> {
        let number = usize::from(self.compression.load(Ordering::Relaxed));
        ImageCompression::NAMES.get(number.checked_sub(1)?).map(|&(_, method)| method)
    }

    /// The error that ended this log, if it has ended.
    pub fn poisoned(&self) -> Option<WalError> {
        self.poison.get()
    }

    /// Ends the log after a failure elsewhere. Only what is in progress completes: nothing else is
    /// inserted, written, synced, marked or removed. Every later call fails with `reason`.
    pub fn stop(&self, reason: &str) {
        self.end_with(WalError::Stopped(reason.into()));
    }

    /// The counters of `pg_stat_wal`.
    pub fn stats(&self) -> WalStats {
        self.counters.snapshot(self.slots.tally())
    }

    /// The configuration with which the log was started.
    pub fn config(&self) -> &WalConfig {
        &self.config
    }

    /// Fails if the log has ended.
    pub(crate) fn check(&self) -> Result<(), WalError> {
        self.poison.check()
    }

    /// Ends the log with `error`, unless it has ended before. Returns the first failure.
    pub(crate) fn end_with(&self, error: WalError) -> WalError {
        let first = self.poison.set(error);
        // After that, so that a woken waiter sees the reason.
        self.pipeline.fail();
        first
    }

    /// Ends the log if `error` is fatal.
    pub(crate) fn note(&self, error: WalError) -> WalError {
        if error.is_fatal() { self.end_with(error) } else { error }
    }

    /// Makes sure that a segment exists.
    pub(crate) fn ensure_segment(&self, io: &mut IoBackend, number: u64) -> Result<(), WalError> {
        self.segments.ensure(io, number).map_err(|e| self.note(e))
    }
}
