//! What became of the row that an index entry leads to, as of now: whether a key is in use, and
//! whether the entry may go.

use forebay_format::page::{ItemState, Page};
use forebay_format::tuple::HeapTuple;
use forebay_format::{CommandId, Fork, FullXid, ItemPointer, Oid, Xid, ids::xid_previous};
use forebay_storage::{Backend, Strategy};
use forebay_txn::{HorizonKind, RemovableTest};

use super::changer::Changer;
use super::relation::Heap;
use super::status::{Fate, TupleStatus, tuple_status, updater};
use crate::error::AccessError;

/// What became of a row, all versions that an index entry leads to counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFate {
    /// A version is live: committed, or inserted by the asking transaction.
    Live,
    /// A running transaction inserts, updates or deletes it. Its end decides.
    InDoubt(Xid),
    /// None is live, but someone may still see one.
    Dead,
    /// Nobody sees any version any more.
    Gone,
}

/// Judges rows for a transaction that inserts into an index of their table.
#[derive(Debug)]
pub struct RowJudge<'a> {
    heap: &'a Heap,
    changer: Changer<'a>,
    removable: RemovableTest,
    horizon: (HorizonKind, Oid, Option<FullXid>),
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
        RowJudge { heap, changer, removable, horizon: (kind, database, own) }
    }

    /// What became of the row at a place: of the versions there and in its HOT chain.
    pub fn fate(
        &mut self,
        backend: &mut Backend,
        tid: ItemPointer,
    ) -> Result<RowFate, AccessError> {
        if tid.block >= self.heap.pool.nblocks(self.heap.locator, Fork::Main)? {
            return Ok(RowFate::Gone);
        }
        let pin = self.heap.pool.read(backend, self.heap.tag(tid.block), Strategy::Normal)?;
        // Outcomes may have to be read from files. The pin keeps them, as for a scan.
        let page = pin.lock_shared().copy();
        self.fate_on(backend, Page::new(&page), tid)
    }

    fn fate_on(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        tid: ItemPointer,
    ) -> Result<RowFate, AccessError> {
        let first = match page.item_id(tid.offset) {
            Some(id) if id.state == ItemState::Redirect => id.offset,
            _ => tid.offset,
        };
        let (mut at, mut by, mut gone) = (first, None::<Xid>, true);
        for _ in 0..=page.item_count() {
            let Some(bytes) = page.item(at) else { break };
            let tuple = HeapTuple::new(bytes)?;
            let strayed = by.is_some_and(|by| tuple.xmin() != by);
            if strayed || at == tid.offset && tuple.is_heap_only() {
                // The chain ended before, and the place was used again.
                break;
            }
            match tuple_status(&mut backend.io, &mut self.changer, tuple)? {
                TupleStatus::Live | TupleStatus::Locked => return Ok(RowFate::Live),
                TupleStatus::NotInserted(Fate::Running) => {
                    return Ok(RowFate::InDoubt(tuple.xmin()));
                }
                TupleStatus::BeingUpdated(xid) => return Ok(RowFate::InDoubt(xid)),
                TupleStatus::NotInserted(_) => break,
                TupleStatus::UpdatedByOwn(_) => gone = false,
                TupleStatus::Updated(xid) => {
                    let procs = self.changer.xacts.procs();
                    gone &= self.removable.is_xid_over_for_all(procs, xid);
                }
            }
            if !tuple.is_hot_updated() {
                break;
            }
            by = updater(&mut backend.io, &mut self.changer, tuple)?;
            at = tuple.ctid().offset;
        }
        Ok(if gone { RowFate::Gone } else { RowFate::Dead })
    }

    /// The newest id that may have deleted rows which are [`RowFate::Gone`].
    pub fn newest_gone(&self) -> Xid {
        let (kind, database, own) = self.horizon;
        let horizon = self.changer.xacts.procs().horizons(database, own).of(kind);
        xid_previous(horizon.xid())
    }
}
