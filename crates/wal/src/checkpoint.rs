//! The log's part in a checkpoint: moving the redo pointer, and removing the segments before it.

use forebay_aio::{IoBackend, sync::atomic::Ordering};
use forebay_format::{
    Lsn,
    wal::{Rmgr, xlog::CHECKPOINT_REDO},
};

use crate::{
    error::WalError,
    record::{Record, assemble},
    segments::OldSegments,
    wal::Wal,
};

/// The kind of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointKind {
    /// While others insert: an XLOG_CHECKPOINT_REDO record marks the redo pointer.
    Online {
        /// Number of the current `wal_level`, which the record states.
        wal_level: u32,
    },
    /// Nothing else is inserted: the redo pointer is the start of the checkpoint's own record.
    Shutdown,
}

impl Wal {
    /// Begins a checkpoint: moves the redo pointer, and returns it. All later records are assembled
    /// with the new one.
    pub fn begin_checkpoint(
        &self,
        io: &mut IoBackend,
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

    /// Moves the redo pointer. The caller must have closed the slots.
    fn move_redo(&self, redo: Lsn) {
        forebay_aio::planted_bug!(self.segments.aio(), WalImagesByOldRedoPointer, return);
        self.redo.store(redo.0, Ordering::Release);
    }

    /// Bytes inserted since the redo pointer.
    pub fn bytes_since_redo(&self) -> u64 {
        self.insert_lsn().since(self.redo_lsn())
    }

    /// Recycles or removes the segments that end at or before `before`, the redo pointer of the
    /// last completed checkpoint. While archiving, only those that are archived. Recycled segments
    /// get names up to `keep` bytes beyond the segment of `before`.
    pub fn remove_old_segments(&self, before: Lsn, keep: u64) -> Result<OldSegments, WalError> {
        self.check()?;
        let size = self.config.segment_size;
        // A segment that is not completely durable is never old.
        let mut number = size.number(before).min(size.number(self.flushed_lsn()));
        forebay_aio::planted_bug!(self.segments.aio(), WalSegmentsRemovedBeforeCheckpoint, {
            number = size.number(self.flushed_lsn())
        });
        let upto = number.saturating_add(keep / size.bytes());
        self.segments.remove_before(number, upto).map_err(|e| self.note(e))
    }
}
