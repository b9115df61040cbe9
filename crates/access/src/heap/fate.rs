//! What became of the row that an index entry leads to, as of now: whether a key is in use, and
//! whether the entry may go.

use forebay_format::ids::{INVALID_XID, xid_precedes};
use forebay_format::page::{ItemState, Page, PageBytes};
use forebay_format::tuple::HeapTuple;
use forebay_format::{BlockNumber, CommandId, Fork, FullXid, ItemPointer, Oid, Xid};
use forebay_storage::{Backend, Strategy};
use forebay_txn::{HorizonKind, ProcArray, RemovableTest};

use super::changer::Changer;
use super::relation::Heap;
use super::status::{Fate, Observer, TupleStatus, tuple_status, updater};
use crate::error::AccessError;

/// What became of a row, all versions that an index entry leads to counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFate {
    /// The version at this place is live: committed, or inserted by the asking transaction.
    Live(ItemPointer),
    /// A running transaction inserts, updates or deletes it. Its end decides.
    InDoubt(Xid),
    /// A running transaction inserts it tentatively, with this token, and will say soon whether the
    /// row stays.
    Speculative(Xid, u32),
    /// None is live, but someone may still see one.
    Dead,
    /// Nobody sees any version any more.
    Gone,
}

/// A row whose index entry may be removed, if nobody sees the row any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemovalCandidate {
    /// Where the entry leads.
    pub tid: ItemPointer,
    /// Whether nobody sees the row. The caller may know that already.
    pub gone: bool,
}

/// Judges rows for a transaction that inserts into an index of their table.
#[derive(Debug)]
pub struct RowJudge<'a> {
    heap: &'a Heap,
    changer: Changer<'a>,
    removable: RemovableTest,
}

impl<'a> RowJudge<'a> {
    /// For a transaction in `database` that has the id `own`. All that it did by now counts.
    pub fn new(
        heap: &'a Heap,
        mut changer: Changer<'a>,
        kind: HorizonKind,
        database: Oid,
        own: Option<FullXid>,
    ) -> RowJudge<'a> {
        changer.author.command = CommandId::MAX;
        let removable = RemovableTest::new(kind, database, own);
        RowJudge { heap, changer, removable }
    }

    /// What became of the row at a place: of the versions there and in its HOT chain.
    pub fn fate(
        &mut self,
        backend: &mut Backend,
        tid: ItemPointer,
    ) -> Result<RowFate, AccessError> {
        let Some(page) = self.page(backend, tid.block)? else { return Ok(RowFate::Gone) };
        Ok(self.fate_on(backend, &page, tid)?.0)
    }

    /// Finds out which of several rows of one block nobody sees any more. Returns the newest
    /// transaction that deleted a version of those, or 0: standby servers cancel queries that may
    /// still see them.
    pub fn removable(
        &mut self,
        backend: &mut Backend,
        rows: &mut [RemovalCandidate],
    ) -> Result<Xid, AccessError> {
        let Some(first) = rows.first() else { return Ok(INVALID_XID) };
        let page = self.page(backend, first.tid.block)?;
        let mut newest = INVALID_XID;
        for row in rows {
            let (fate, deleter) = match &page {
                Some(page) => self.fate_on(backend, page, row.tid)?,
                None => (RowFate::Gone, INVALID_XID),
            };
            row.gone |= fate == RowFate::Gone;
            if row.gone && xid_precedes(newest, deleter) {
                newest = deleter;
            }
        }
        Ok(newest)
    }

    fn fate_on(
        &mut self,
        backend: &mut Backend,
        page: &PageBytes,
        tid: ItemPointer,
    ) -> Result<(RowFate, Xid), AccessError> {
        let procs = self.changer.xacts.procs();
        let removable = (&mut self.removable, procs);
        row_fate(backend, &mut self.changer, removable, Page::new(page), tid)
    }

    /// A copy of a page, if there is one. Outcomes may have to be read from files.
    fn page(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<Option<Box<PageBytes>>, AccessError> {
        if block >= self.heap.pool.nblocks(self.heap.locator, Fork::Main)? {
            return Ok(None);
        }
        let pin = self.heap.pool.read(backend, self.heap.tag(block), Strategy::Normal)?;
        let page = pin.lock_shared().copy();
        Ok(Some(page))
    }
}

/// What became of the row at a place of a page, and the newest transaction that deleted one of its
/// versions, or 0.
pub(super) fn row_fate(
    backend: &mut Backend,
    observer: &mut impl Observer,
    (removable, procs): (&mut RemovableTest, &ProcArray),
    page: Page<'_>,
    tid: ItemPointer,
) -> Result<(RowFate, Xid), AccessError> {
    let first = match page.item_id(tid.offset) {
        Some(id) if id.state == ItemState::Redirect => id.offset,
        _ => tid.offset,
    };
    let (mut at, mut by, mut gone) = (first, None::<Xid>, true);
    let mut newest = INVALID_XID;
    for _ in 0..=page.item_count() {
        let Some(bytes) = page.item(at) else { break };
        let tuple = HeapTuple::new(bytes)?;
        let strayed = by.is_some_and(|by| tuple.xmin() != by);
        if strayed || at == tid.offset && tuple.is_heap_only() {
            // The chain ended before, and the place was used again.
            break;
        }
        match tuple_status(&mut backend.io, observer, tuple)? {
            TupleStatus::Live | TupleStatus::Locked => {
                return Ok((RowFate::Live(ItemPointer::new(tid.block, at)), newest));
            }
            TupleStatus::NotInserted(Fate::Running) => {
                let xmin = tuple.xmin();
                let token = tuple.speculative_token();
                let speculative = token.map(|token| RowFate::Speculative(xmin, token));
                return Ok((speculative.unwrap_or(RowFate::InDoubt(xmin)), newest));
            }
            TupleStatus::BeingUpdated(xid) => return Ok((RowFate::InDoubt(xid), newest)),
            TupleStatus::NotInserted(_) => break,
            TupleStatus::UpdatedByOwn(_) => gone = false,
            TupleStatus::Updated(xid) => {
                gone &= removable.is_xid_over_for_all(procs, xid);
                // What its inserter deleted nobody else ever saw.
                if xid != tuple.xmin() && xid_precedes(newest, xid) {
                    newest = xid;
                }
            }
        }
        if !tuple.is_hot_updated() {
            break;
        }
        by = updater(&mut backend.io, observer, tuple)?;
        at = tuple.ctid().offset;
    }
    Ok((if gone { RowFate::Gone } else { RowFate::Dead }, newest))
}
