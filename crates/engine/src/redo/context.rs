//! What redo works on.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_format::ids::{xid_is_normal, xid_next, xid_precedes};
use forebay_format::wal::xlog::CheckPoint;
use forebay_format::{BlockNumber, Fork, FullXid, Oid, PageTag, RelFileLocator, Xid};
use forebay_storage::{Backend, BufferPool};

use super::{RedoError, RedoRecord};
use crate::xact::Clog;

/// Counters that recovery carries forward: from the checkpoint it starts at, through the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Next transaction id.
    pub next_xid: FullXid,
    /// Next OID.
    pub next_oid: Oid,
    /// Next MultiXact.
    pub next_multi: u32,
    /// Next offset for MultiXact members.
    pub next_multi_offset: u32,
}

impl Counters {
    /// As a checkpoint has them.
    pub fn at(checkpoint: &CheckPoint) -> Counters {
        Counters {
            next_xid: checkpoint.next_xid,
            next_oid: checkpoint.next_oid,
            next_multi: checkpoint.next_multi,
            next_multi_offset: checkpoint.next_multi_offset,
        }
    }

    /// Makes sure that the next id is younger than `xid`, which was in use.
    pub fn advance_past(&mut self, xid: Xid) {
        let next = self.next_xid.xid();
        if !xid_is_normal(xid) || xid_precedes(xid, next) {
            return;
        }
        let after = xid_next(xid);
        let epoch = self.next_xid.epoch() + u32::from(after < next);
        self.next_xid = FullXid::new(epoch, after);
    }
}

/// What redo works on, and what it remembers from record to record.
#[derive(Debug)]
pub struct RedoContext<'a> {
    /// The thread's I/O.
    pub be: &'a mut Backend,
    /// Pages.
    pub pool: &'a Arc<BufferPool>,
    /// Outcomes of transactions.
    pub clog: &'a Clog,
    /// Counters.
    pub counters: Counters,
    /// Pages that records wanted and that were not there.
    pub(super) missing: BTreeSet<PageTag>,
}

impl<'a> RedoContext<'a> {
    /// Starts at a checkpoint.
    pub fn new(
        be: &'a mut Backend,
        pool: &'a Arc<BufferPool>,
        clog: &'a Clog,
        checkpoint: &CheckPoint,
    ) -> RedoContext<'a> {
        RedoContext { be, pool, clog, counters: Counters::at(checkpoint), missing: BTreeSet::new() }
    }

    /// To be asked once the log has been replayed: an error if a missing page was never explained.
    pub fn check_missing(&self) -> Result<(), RedoError> {
        match self.missing.first() {
            None => Ok(()),
            Some(&first) => Err(RedoError::InvalidPages { count: self.missing.len(), first }),
        }
    }

    /// To be called before a record removes or cuts files. A recovery that is begun again, perhaps
    /// with an earlier target, must know that they are as after the record: as before the write of
    /// a page, pg_control is made to name a point that far. Recovery of a crash has nothing to ask:
    /// it has no targets, and always gets to the end of the same log.
    pub fn before_files_go(&mut self, record: &RedoRecord<'_>) -> Result<(), RedoError> {
        forebay_aio::planted_bug!(self.be.io.aio(), RecoveryRemovesFilesEarly, return Ok(()));
        let told = self.pool.flush_wal(&mut self.be.io, record.end);
        told.map_err(|source| RedoError::Storage { lsn: record.start, source })
    }

    /// A relation is gone: its missing pages are explained.
    pub(super) fn forget_relation(&mut self, rel: RelFileLocator) {
        self.missing.retain(|tag| tag.rel != rel);
    }

    /// A fork was cut off at `blocks`: its missing pages beyond are explained.
    pub(super) fn forget_from(&mut self, rel: RelFileLocator, fork: Fork, blocks: BlockNumber) {
        self.missing.retain(|tag| tag.rel != rel || tag.fork != fork || tag.block < blocks);
    }
}
