//! The log's part in a checkpoint: the redo pointer, and what becomes of segments before it.

use forebay_aio::{Backend, sync::atomic::Ordering};
use forebay_format::{
    Lsn,
    wal::{Rmgr, xlog::CHECKPOINT_REDO},
};

use crate::{
    error::WalError,
    record::{Record, assemble},
    wal::Wal,
};

/// Which kind of checkpoint begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointKind {
    /// While others insert: an XLOG_CHECKPOINT_REDO record, which states this `wal_level`, marks
    /// the redo pointer.
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

impl Wal {
    /// Begins a checkpoint: moves the redo pointer, and returns it. Records inserted after it see
    /// the new one.
    pub fn begin_checkpoint(
        &self,
        io: &mut Backend,
        kind: CheckpointKind,
    ) -> Result<Lsn, WalError> {
        match kind {
            CheckpointKind::Online { wal_level } => {
                let level = wal_level.to_le_bytes();
                let record = Record {
                    rmgr: Rmgr::XLOG,
                    info: CHECKPOINT_REDO,
                    xid: 0,
                    main: &level,
                    blocks: &[],
                };
                let mut assembled = assemble(&record, self.image_policy())?;
                let inserted =
                    self.insert_alone(io, &mut assembled, |start| self.move_redo(start))?;
                Ok(inserted.start)
            }
            CheckpointKind::Shutdown => {
                let _alone = self.slots.close();
                self.check()?;
                let redo = self.insert_lsn();
                self.move_redo(redo);
                Ok(redo)
            }
        }
    }

    /// Moves the redo pointer; the caller has closed the slots.
    fn move_redo(&self, redo: Lsn) {
        forebay_aio::planted_bug!(self.segments.aio(), WalImagesByOldRedoPointer, return);
        self.redo.store(redo.0, Ordering::Release);
    }

    /// Bytes inserted since the redo pointer: what a checkpoint by size goes by.
    pub fn bytes_since_redo(&self) -> u64 {
        self.insert_lsn().since(self.redo_lsn())
    }

    /// Recycles or removes the segments that end at or before `before` (the redo pointer of the
    /// last completed checkpoint); where there is an archive, those that it has. Future names are
    /// given up to the segment that is `keep` bytes beyond the one of `before`.
    pub fn remove_old_segments(&self, before: Lsn, keep: u64) -> Result<OldSegments, WalError> {
        self.check()?;
        let size = self.config.segment_size;
        // Nothing that is still to be written or synced is ever old.
        let mut number = size.number(before).min(size.number(self.flushed_lsn()));
        forebay_aio::planted_bug!(self.segments.aio(), WalSegmentsRemovedBeforeCheckpoint, {
            number = size.number(self.flushed_lsn())
        });
        let upto = number.saturating_add(keep / size.bytes());
        self.segments.remove_before(number, upto).map_err(|e| self.note(e))
    }
}
