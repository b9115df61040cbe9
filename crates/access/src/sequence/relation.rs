//! A sequence's page, its changes and their records.

use std::sync::Arc;

use forebay_format::sequence::{SequencePageError, SequenceTuple, init_page};
use forebay_format::wal::{Rmgr, sequence};
use forebay_format::{BLOCK_SIZE, Fork, Lsn, PageTag, RelFileLocator, Xid};
use forebay_storage::{Backend, BufferPool, PageWriteGuard, Pinned, Strategy};
use forebay_wal::{BlockFlags, BlockRef, Record, Wal};

use super::advance::{Advance, SequenceRules};
use crate::error::AccessError;
use crate::heap::{Heaps, PageFailure, critical};

/// More than a record takes in the log.
const RECORD_ROOM: u64 = BLOCK_SIZE as u64;

/// A sequence with what is needed to work on it.
#[derive(Debug, Clone)]
pub struct Sequence {
    /// Its name, for messages.
    pub name: String,
    /// Its file.
    pub locator: RelFileLocator,
    /// Its pages.
    pub pool: Arc<BufferPool>,
    /// The log of changes.
    pub wal: Arc<Wal>,
    /// Whether changes are logged: not those of a temporary or an unlogged sequence.
    pub logged: bool,
    /// Stops the engine if the page was changed and the change could not be logged.
    pub failure: Arc<dyn PageFailure>,
}

/// Values that a session has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedValues {
    /// The first one.
    pub first: i64,
    /// The last one. Those between them are an increment apart.
    pub last: i64,
    /// How far the log must be durable before a transaction that uses one of them has committed.
    pub lsn: Lsn,
}

/// What [`Sequence::fetch`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fetch {
    /// These values.
    Values(FetchedValues),
    /// There is a record to be written, and the transaction has no id yet.
    NeedsId,
    /// The last value was handed out.
    Exhausted,
}

impl Sequence {
    /// A sequence whose page is in the shared pool.
    pub fn new(heaps: &Heaps, name: &str, locator: RelFileLocator, logged: bool) -> Sequence {
        Sequence {
            name: name.to_owned(),
            locator,
            pool: Arc::clone(&heaps.pool),
            wal: Arc::clone(&heaps.wal),
            logged,
            failure: Arc::clone(&heaps.failure),
        }
    }

    /// Makes the page of a sequence whose file is empty. Its init fork, to which recovery takes
    /// back an unlogged sequence, is logged in any case.
    pub fn create(
        &self,
        backend: &mut Backend,
        fork: Fork,
        xid: Xid,
        tuple: SequenceTuple,
    ) -> Result<(), AccessError> {
        self.ensure_log_room(backend)?;
        let pages = self.pool.extend(backend, self.locator, fork, 1, Strategy::Normal)?;
        let page = pages.into_iter().next().filter(|page| page.tag().block == 0);
        let page = page.ok_or_else(|| {
            AccessError::Internal(format!("sequence \"{}\" has pages already", self.name))
        })?;
        let mut guard = page.into_exclusive();
        critical(self.failure.as_ref(), "could not create a sequence", || {
            guard.mark_dirty();
            let fits = init_page(&mut guard.page_mut(), &tuple.encode());
            assert!(fits, "an empty page has room for a sequence's tuple");
            match self.logged || fork == Fork::Init {
                true => self.log(backend, &mut guard, xid, &tuple),
                false => Ok(()),
            }
        })
    }

    /// Reads its tuple, and the page's LSN.
    pub fn read(&self, backend: &mut Backend) -> Result<(SequenceTuple, Lsn), AccessError> {
        let pin = self.pin(backend)?;
        let guard = pin.lock_shared();
        let tuple = SequenceTuple::of(guard.page()).map_err(|error| self.damaged(error))?;
        Ok((tuple, guard.page().lsn()))
    }

    /// Takes values for a session. The transaction's id, `xid`, is 0 if it has none.
    pub fn fetch(
        &self,
        backend: &mut Backend,
        rules: &SequenceRules,
        xid: Xid,
    ) -> Result<Fetch, AccessError> {
        self.ensure_log_room(backend)?;
        let mut guard = self.pin(backend)?.into_exclusive();
        let now = SequenceTuple::of(guard.page()).map_err(|error| self.damaged(error))?;
        // Before the redo pointer is read: see the module's comment.
        guard.mark_dirty();
        let mut must_log = guard.page().lsn() <= self.wal.redo_lsn();
        forebay_aio::planted_bug!(backend.io.aio(), SequenceIgnoresRedoPointer, must_log = false);
        let Some(advance) = rules.advance(&now, must_log) else { return Ok(Fetch::Exhausted) };
        let Advance { first, after, logged } = advance;
        let logged = logged.filter(|_| self.logged);
        if logged.is_some() && xid == 0 {
            return Ok(Fetch::NeedsId);
        }
        self.change(backend, &mut guard, (xid, logged), after)?;
        let lsn = if self.logged { guard.page().lsn() } else { Lsn(0) };
        Ok(Fetch::Values(FetchedValues { first, last: after.last_value, lsn }))
    }

    /// Replaces its tuple. Returns how far the log must be durable for that.
    pub fn set(
        &self,
        backend: &mut Backend,
        xid: Xid,
        tuple: SequenceTuple,
    ) -> Result<Lsn, AccessError> {
        self.ensure_log_room(backend)?;
        let mut guard = self.pin(backend)?.into_exclusive();
        SequenceTuple::of(guard.page()).map_err(|error| self.damaged(error))?;
        self.change(backend, &mut guard, (xid, Some(tuple).filter(|_| self.logged)), tuple)?;
        Ok(if self.logged { guard.page().lsn() } else { Lsn(0) })
    }

    fn change(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        (xid, logged): (Xid, Option<SequenceTuple>),
        after: SequenceTuple,
    ) -> Result<(), AccessError> {
        if guard.page().item(1).is_none_or(|item| item.len() != after.encode().len()) {
            return Err(self.damaged(SequencePageError::Tuple));
        }
        critical(self.failure.as_ref(), "could not advance a sequence", || {
            guard.mark_dirty();
            after.store(&mut guard.page_mut());
            logged.map_or(Ok(()), |logged| self.log(backend, guard, xid, &logged))
        })
    }

    /// Logs a tuple, with which redo makes the page anew.
    fn log(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        xid: Xid,
        tuple: &SequenceTuple,
    ) -> Result<(), AccessError> {
        let tuple = tuple.encode();
        let main = sequence::SequenceLog { rel: self.locator, tuple: &tuple }.encode();
        let flags = BlockFlags::WILL_INIT;
        let block = BlockRef { id: 0, tag: guard.tag(), page: Some(guard), flags, data: &[] };
        let (rmgr, info) = (Rmgr::SEQ, sequence::LOG);
        let record = Record { rmgr, info, xid, main: &main, blocks: &[block] };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        guard.set_lsn(inserted.end);
        Ok(())
    }

    fn pin(&self, backend: &mut Backend) -> Result<Pinned, AccessError> {
        let tag = PageTag::new(self.locator, Fork::Main, 0);
        Ok(self.pool.read(backend, tag, Strategy::Normal)?)
    }

    /// Makes sure, before the page is locked, that the log has room for a record.
    fn ensure_log_room(&self, backend: &mut Backend) -> Result<(), AccessError> {
        Ok(self.wal.ensure_room(&mut backend.io, RECORD_ROOM)?)
    }

    #[cold]
    fn damaged(&self, error: SequencePageError) -> AccessError {
        let name = &self.name;
        AccessError::Corrupt(match error {
            SequencePageError::Magic(magic) => {
                format!("bad magic number in sequence \"{name}\": {magic:08X}")
            }
            SequencePageError::Tuple => format!("the page of sequence \"{name}\" has no tuple"),
        })
    }
}
