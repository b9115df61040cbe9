//! The minimum recovery point of a recovery from an archive. Before a page is written, pg_control
//! is made to name a point at or after the page's LSN. A repeated recovery, perhaps with an earlier
//! target, must reach that point before the files are consistent.
//!
//! In production the log takes that place: no page is written before its log is durable.

use std::sync::Arc;

use forebay_aio::IoBackend;
use forebay_aio::sync::OnceLock;
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use forebay_format::Lsn;
use forebay_storage::{WalFailure, WalFlush};
use forebay_wal::Wal;

use crate::control::Control;
use crate::error::EngineError;

/// Called by the buffer pool before it writes pages. Asks pg_control during recovery from an
/// archive, and the log later.
#[derive(Debug)]
pub(crate) struct Floor {
    control: Arc<Control>,
    /// The end of the record redone last, and its timeline.
    replayed: AtomicU64,
    timeline: AtomicU32,
    wal: OnceLock<Arc<Wal>>,
}

impl Floor {
    /// Recovery begins at `redo`, on this timeline.
    pub(super) fn new(control: Arc<Control>, redo: Lsn, timeline: u32) -> Arc<Floor> {
        let (replayed, timeline) = (AtomicU64::new(redo.0), AtomicU32::new(timeline));
        Arc::new(Floor { control, replayed, timeline, wal: OnceLock::new() })
    }

    /// A record has been redone.
    pub(super) fn replayed(&self, end: Lsn, timeline: u32) {
        self.timeline.store(timeline, Ordering::Relaxed);
        self.replayed.store(end.0, Ordering::Release);
    }

    /// Recovery has ended, and the log has started.
    pub(crate) fn hand_over(&self, wal: &Arc<Wal>) {
        let _ = self.wal.set(Arc::clone(wal));
    }

    /// Makes pg_control name `upto` or a later point. To save syncs, it names everything that has
    /// been redone.
    pub(super) fn raise(&self, io: &mut IoBackend, upto: Lsn) -> Result<(), EngineError> {
        let point = upto.max(Lsn(self.replayed.load(Ordering::Acquire)));
        self.control.raise_min_recovery(io, point, self.timeline.load(Ordering::Relaxed))
    }
}

impl WalFlush for Floor {
    fn flush(&self, io: &mut IoBackend, upto: Lsn) -> Result<(), WalFailure> {
        match self.wal.get() {
            Some(wal) => WalFlush::flush(wal.as_ref(), io, upto),
            None => self.raise(io, upto).map_err(|error| Arc::new(error) as WalFailure),
        }
    }

    fn flushed(&self) -> Lsn {
        match self.wal.get() {
            Some(wal) => wal.flushed_lsn(),
            None => self.control.get().min_recovery_point,
        }
    }

    fn has_ended(&self) -> bool {
        self.wal.get().is_some_and(|wal| wal.poisoned().is_some())
    }
}
