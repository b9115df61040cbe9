//! What redo works on.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_format::ids::{xid_is_normal, xid_next, xid_precedes};
use forebay_format::multixact::{MemberOffset, MultiXactId, multi_precedes};
use forebay_format::origins::Origins;
use forebay_format::wal::xlog::{CheckPoint, ParameterChange};
use forebay_format::{BlockNumber, Fork, FullXid, Oid, PageTag, RelFileLocator, Xid};
use forebay_storage::{Backend, BufferPool};

use super::error::RedoError;
use super::record::RedoRecord;
use crate::clog::Clog;
use crate::multixact::MultiXacts;

/// Counters that recovery carries forward, from the checkpoint at which it starts, record by
/// record.
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
    /// The oldest transaction id that a tuple may have.
    pub oldest_xid: Xid,
    /// A database that has it.
    pub oldest_xid_db: Oid,
}

impl Counters {
    /// The counters of a checkpoint.
    pub fn at(checkpoint: &CheckPoint) -> Counters {
        Counters {
            next_xid: checkpoint.next_xid,
            next_oid: checkpoint.next_oid,
            next_multi: checkpoint.next_multi,
            next_multi_offset: checkpoint.next_multi_offset,
            oldest_xid: checkpoint.oldest_xid,
            oldest_xid_db: checkpoint.oldest_xid_db,
        }
    }

    /// No tuple has an older id than `oldest` any more, if that was not known yet.
    pub fn advance_oldest_xid(&mut self, oldest: Xid, database: Oid) {
        if xid_precedes(self.oldest_xid, oldest) {
            (self.oldest_xid, self.oldest_xid_db) = (oldest, database);
        }
    }

    /// Moves the counters of MultiXacts up to those of a set that was made, or of a checkpoint.
    pub fn advance_multis(&mut self, next: MultiXactId, next_offset: MemberOffset) {
        if multi_precedes(self.next_multi, next) {
            self.next_multi = next;
        }
        // Offsets wrap around.
        if (self.next_multi_offset.wrapping_sub(next_offset) as i32) < 0 {
            self.next_multi_offset = next_offset;
        }
    }

    /// Moves the next id past `xid`, which was in use.
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

/// What redo finds out that small files have, which the caller writes.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    /// Positions of replication origins.
    pub origins: Origins,
    /// The settings that pg_control has, if a record changed them.
    pub parameters: Option<ParameterChange>,
}

/// What the redone records have made, by name. Some of it may be gone again.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// Files of relations.
    pub files: BTreeSet<RelFileLocator>,
    /// Directories of databases.
    pub databases: BTreeSet<Oid>,
    /// Tablespaces.
    pub tablespaces: BTreeSet<Oid>,
}

/// What redo works on, and what it keeps from record to record.
#[derive(Debug)]
pub struct RedoContext<'a> {
    /// The thread's backend.
    pub backend: &'a mut Backend,
    /// Pages.
    pub pool: &'a Arc<BufferPool>,
    /// Outcomes of transactions.
    pub clog: &'a Clog,
    /// Sets of transactions.
    pub multis: &'a MultiXacts,
    /// Counters.
    pub counters: Counters,
    /// What small files have.
    pub cluster: ClusterState,
    /// What was made.
    pub made: Made,
    /// Pages that records change and that do not exist.
    missing: BTreeSet<PageTag>,
}

impl<'a> RedoContext<'a> {
    /// The context at a checkpoint.
    pub fn new(
        backend: &'a mut Backend,
        pool: &'a Arc<BufferPool>,
        clog: &'a Clog,
        multis: &'a MultiXacts,
        checkpoint: &CheckPoint,
    ) -> RedoContext<'a> {
        RedoContext {
            backend,
            pool,
            clog,
            multis,
            counters: Counters::at(checkpoint),
            cluster: ClusterState::default(),
            made: Made::default(),
            missing: BTreeSet::new(),
        }
    }

    /// Called after the whole log was replayed. Fails if a page stayed missing.
    pub fn check_missing(&self) -> Result<(), RedoError> {
        match self.missing.first() {
            None => Ok(()),
            Some(&first) => Err(RedoError::InvalidPages { count: self.missing.len(), first }),
        }
    }

    /// Called before a record removes or cuts files. As before the write of a page, it moves
    /// pg_control's minimum recovery point past the record: a recovery that is started again,
    /// perhaps with an earlier target, must reach the state that the files are in. In crash
    /// recovery this does nothing, as that always replays the same log to its end.
    pub fn before_files_go(&mut self, record: &RedoRecord<'_>) -> Result<(), RedoError> {
        forebay_aio::planted_bug!(self.backend.io.aio(), RecoveryRemovesFilesEarly, return Ok(()));
        let told = self.pool.flush_wal(&mut self.backend.io, record.end);
        told.map_err(|source| RedoError::Storage { lsn: record.start, source })
    }

    /// Remembers a page that a record wants to change and that does not exist. A later record must
    /// drop or cut its relation, or the log does not belong to these files.
    pub fn note_missing(&mut self, tag: PageTag) {
        self.missing.insert(tag);
    }

    /// A page exists now.
    pub fn note_found(&mut self, tag: PageTag) {
        self.missing.remove(&tag);
    }

    /// A relation was dropped: forgets its missing pages.
    pub fn forget_relation(&mut self, rel: RelFileLocator) {
        self.missing.retain(|tag| tag.rel != rel);
    }

    /// A database was dropped: forgets its missing pages.
    pub fn forget_database(&mut self, database: Oid) {
        self.missing.retain(|tag| tag.rel.db != database);
    }

    /// A fork was cut to `blocks` blocks: forgets its missing pages beyond them.
    pub fn forget_from(&mut self, rel: RelFileLocator, fork: Fork, blocks: BlockNumber) {
        self.missing.retain(|tag| tag.rel != rel || tag.fork != fork || tag.block < blocks);
    }
}
