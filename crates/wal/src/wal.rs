//! The log itself: what it consists of, and where it stands.

use forebay_aio::{
    Aio, Backend,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};
use forebay_format::{Lsn, wal::ImageCompression};

use crate::{
    config::{Resume, WalConfig},
    error::{FatalError, WalError},
    flight::{Flight, Progress},
    poison::Poison,
    position::Positions,
    reserve::Reservations,
    ring::Ring,
    segments::Segments,
    slots::Slots,
    stats::{WalCounters, WalStats},
};

/// A write-ahead log: one for each data directory, shared by all backends.
#[derive(Debug)]
pub struct Wal {
    pub(crate) config: WalConfig,
    pub(crate) positions: Positions,
    pub(crate) segments: Segments,
    pub(crate) ring: Ring,
    /// Where the next record goes. Taken from by who has a slot.
    pub(crate) reservations: Reservations,
    pub(crate) slots: Slots,
    /// Start of the record before the first one of this log's life.
    pub(crate) first_prev: Lsn,
    /// The page whose header says that it takes the place of a continuation that was lost; or 0.
    pub(crate) overwrites_at: AtomicU64,
    pub(crate) progress: Arc<Progress>,
    pub(crate) flight: Flight,
    /// Changed while the slots are closed only.
    pub(crate) redo: AtomicU64,
    /// Changed while the slots are closed only.
    pub(crate) full_page_writes: AtomicBool,
    /// The end of the last commit that did not wait.
    pub(crate) unawaited: AtomicU64,
    /// A place in [`ImageCompression::NAMES`] and one; 0 for none.
    pub(crate) compression: AtomicU8,
    pub(crate) poison: Arc<Poison>,
    pub(crate) counters: WalCounters,
}

impl Wal {
    /// Starts the log at `resume`: reads the partial block there, clears what is left of an earlier
    /// life of the log behind it, and, after an aborted record, inserts and flushes
    /// XLOG_OVERWRITE_CONTRECORD. The segment is made if it does not exist.
    pub fn start(
        aio: Arc<Aio>,
        io: &mut Backend,
        config: WalConfig,
        resume: Resume,
    ) -> Result<Wal, WalError> {
        crate::resume::start(aio, io, config, resume)
    }

    /// Where the next record will start. At a page boundary, that is behind the page's header.
    pub fn insert_lsn(&self) -> Lsn {
        self.positions.start_lsn(self.reservations.head().pos)
    }

    /// The end of the last record, which may still be on its way into the buffers.
    pub fn end_lsn(&self) -> Lsn {
        self.positions.end_lsn(self.reservations.head().pos)
    }

    /// Start of the last record; 0 in a log without records.
    pub fn last_record_lsn(&self) -> Lsn {
        self.prev_lsn(self.reservations.head().prev)
    }

    /// Everything before this is written, though perhaps not synced.
    pub fn written_lsn(&self) -> Lsn {
        self.progress.written()
    }

    /// Everything before this is durable.
    pub fn flushed_lsn(&self) -> Lsn {
        self.progress.flushed()
    }

    /// The redo pointer in force: a page whose LSN is not beyond it gets a full-page image.
    pub fn redo_lsn(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Turns full-page images on or off.
    pub fn set_full_page_writes(&self, on: bool) {
        let alone = self.slots.close();
        self.full_page_writes.store(on, Ordering::Release);
        drop(alone);
    }

    /// Start of the record at byte position `prev`; `None` is the one before the first.
    pub(crate) fn prev_lsn(&self, prev: Option<u64>) -> Lsn {
        prev.map_or(self.first_prev, |pos| self.positions.start_lsn(pos))
    }

    /// How page images are compressed from now on (wal_compression); None: not at all.
    pub fn set_compression(&self, method: Option<ImageCompression>) {
        let known = |method| ImageCompression::NAMES.iter().position(|&(_, other)| other == method);
        let number = method.and_then(known).map_or(0, |n| n as u8 + 1);
        self.compression.store(number, Ordering::Relaxed);
    }

    /// How page images are compressed.
    pub fn compression(&self) -> Option<ImageCompression> {
        let number = usize::from(self.compression.load(Ordering::Relaxed));
        ImageCompression::NAMES.get(number.checked_sub(1)?).map(|&(_, method)| method)
    }

    /// The error that ended this log, if one has.
    pub fn poisoned(&self) -> Option<WalError> {
        self.poison.get()
    }

    /// Ends the log for a reason that is not its own: nothing is inserted, written, synced, marked
    /// or removed any more but what is under way, and every later call says why.
    pub fn stop(&self, reason: &str) {
        self.end_with(WalError::Stopped(reason.into()));
    }

    /// The counters of `pg_stat_wal`.
    pub fn stats(&self) -> WalStats {
        self.counters.snapshot(self.slots.tally())
    }

    /// What the log was started with.
    pub fn config(&self) -> &WalConfig {
        &self.config
    }

    /// Fails once the log is lost.
    pub(crate) fn check(&self) -> Result<(), WalError> {
        self.poison.check()
    }

    /// Ends the log with `fatal`, or with what ended it before.
    pub(crate) fn poison_with(&self, fatal: Arc<FatalError>) -> WalError {
        self.end_with(WalError::Fatal(fatal))
    }

    fn end_with(&self, error: WalError) -> WalError {
        let first = self.poison.set(error);
        // Behind that: who is woken, or finds nothing to do, sees why.
        self.flight.fail();
        first
    }

    /// Ends the log if `error` is fatal.
    pub(crate) fn note(&self, error: WalError) -> WalError {
        if error.is_fatal() { self.end_with(error) } else { error }
    }

    /// Makes sure that the segment exists.
    pub(crate) fn ensure_segment(&self, io: &mut Backend, number: u64) -> Result<(), WalError> {
        self.segments.ensure(io, number).map_err(|e| self.note(e))
    }
}
