//! The log itself: what it consists of, and where it stands.

use forebay_aio::{
    Aio, Backend,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use forebay_format::Lsn;

use forebay_aio::sync::OnceLock;

use crate::{
    config::{Resume, WalConfig},
    error::{FatalError, WalError},
    flush::Writer,
    insert::InsertState,
    position::Positions,
    ring::Ring,
    role::Role,
    segments::Segments,
    stats::{WalCounters, WalStats},
};

/// A write-ahead log: one for each data directory, shared by all backends.
#[derive(Debug)]
pub struct Wal {
    pub(crate) config: WalConfig,
    pub(crate) positions: Positions,
    pub(crate) segments: Segments,
    pub(crate) ring: Arc<Ring>,
    /// Lock order: the insertion lock, then the writer's role, then the locks of the segments.
    pub(crate) insert: Mutex<InsertState>,
    pub(crate) writer: Role<Writer>,
    /// Byte position of the next record, for those without the insertion lock.
    pub(crate) insert_pos: AtomicU64,
    pub(crate) last_record: AtomicU64,
    pub(crate) flushed: AtomicU64,
    /// Changed under the insertion lock only.
    pub(crate) redo: AtomicU64,
    /// Changed under the insertion lock only.
    pub(crate) full_page_writes: AtomicBool,
    pub(crate) poison: OnceLock<Arc<FatalError>>,
    pub(crate) counters: WalCounters,
}

impl Wal {
    /// Starts the log at `resume`: reads the partial block there, clears what is left of an earlier life of
    /// the log behind it, and, after an aborted record, inserts and flushes XLOG_OVERWRITE_CONTRECORD.
    /// The segment is made if it does not exist.
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
        self.positions.start_lsn(self.insert_pos.load(Ordering::Acquire))
    }

    /// The end of the record inserted last.
    pub fn end_lsn(&self) -> Lsn {
        self.positions.end_lsn(self.insert_pos.load(Ordering::Acquire))
    }

    /// Start of the record inserted last; 0 in a log without records.
    pub fn last_record_lsn(&self) -> Lsn {
        Lsn(self.last_record.load(Ordering::Acquire))
    }

    /// Everything before this is written, though perhaps not synced.
    pub fn written_lsn(&self) -> Lsn {
        self.ring.written()
    }

    /// Everything before this is durable.
    pub fn flushed_lsn(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::Acquire))
    }

    /// The redo pointer in force: a page whose LSN is not beyond it gets a full-page image.
    pub fn redo_lsn(&self) -> Lsn {
        Lsn(self.redo.load(Ordering::Acquire))
    }

    /// Turns full-page images on or off.
    pub fn set_full_page_writes(&self, on: bool) {
        let state = self.insert.lock();
        self.full_page_writes.store(on, Ordering::Release);
        drop(state);
    }

    /// The error that ended this log, if one has.
    pub fn poisoned(&self) -> Option<WalError> {
        self.poison.get().map(|fatal| WalError::Fatal(Arc::clone(fatal)))
    }

    /// The counters of `pg_stat_wal`.
    pub fn stats(&self) -> WalStats {
        self.counters.snapshot()
    }

    /// What the log was started with.
    pub fn config(&self) -> &WalConfig {
        &self.config
    }

    /// Fails once the log is lost.
    pub(crate) fn check(&self) -> Result<(), WalError> {
        self.poisoned().map_or(Ok(()), Err)
    }

    /// Ends the log with `fatal`, or with what ended it before.
    pub(crate) fn poison_with(&self, fatal: Arc<FatalError>) -> WalError {
        WalError::Fatal(Arc::clone(self.poison.get_or_init(|| fatal)))
    }

    /// Ends the log if `error` is fatal.
    pub(crate) fn note(&self, error: WalError) -> WalError {
        match error {
            WalError::Fatal(fatal) => self.poison_with(fatal),
            other => other,
        }
    }

    /// Makes sure that the segment exists.
    pub(crate) fn ensure_segment(&self, io: &mut Backend, number: u64) -> Result<(), WalError> {
        self.segments.ensure(io, number).map_err(|e| self.note(e))
    }
}
