//! Pruning: removes versions that nobody sees any more, when a page is read anyway.
//!
//! A page is pruned if a transaction has deleted something on it whose end everybody sees, and if
//! there is little room, or an update has found none. Only under a cleanup lock that is free:
//! nobody waits. Dead line pointers stay for vacuum, as indexes may point to them.
//! `prune_plan.rs` decides what goes.

use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::page::{ItemId, ItemState, PD_PAGE_FULL, Page, PageMut};
use forebay_format::tuple::HeapTuple;
use forebay_format::wal::prune::{CLEANUP_LOCK, FreezePlan, HeapPrune};
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{BLOCK_SIZE, BlockNumber, CommandId, FullXid, ItemPointer, Oid, Xid};
use forebay_storage::{Backend, PageWriteGuard, Pinned};
use forebay_txn::{ComboCommands, HorizonKind, RemovableTest, XactManager};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::changer::fate_now;
use super::critical::critical;
use super::fate::{RowFate, row_fate};
use super::outcomes::RowSets;
use super::prune_plan::{Fact, Item, Plan, State, plan};
use super::relation::Heap;
use super::status::{Fate, Observer, Role, TupleStatus, tuple_status};
use super::tuple_at::{located, tuple_at};
use crate::error::AccessError;

/// Bytes of room below which a page is worth pruning, at least.
const LITTLE_ROOM: usize = BLOCK_SIZE / 10;

/// Why a page is pruned, as its record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    OnAccess,
    VacuumScan,
    VacuumCleanup,
}

/// What a reader of a table needs to prune its pages.
#[derive(Debug)]
pub struct Pruner {
    pub(super) heap: Heap,
    pub(super) xacts: Arc<XactManager>,
    removable: RemovableTest,
    pub(super) sets: RowSets,
    committed: Committed,
    /// Room for the line pointers of a page.
    pub(super) spare: Vec<Item>,
}

/// The inserter and the updater that were last found to have committed: often many rows of a page
/// have the same ones.
type Committed = [Option<Xid>; 2];

/// Pruning sees all transactions alike, also that of the reader.
struct Nobody<'a> {
    xacts: &'a XactManager,
    sets: &'a mut RowSets,
    committed: &'a mut Committed,
}

impl Observer for Nobody<'_> {
    fn is_own(&self, _xid: Xid) -> bool {
        false
    }

    fn command(&self) -> CommandId {
        unreachable!("nobody's own transaction")
    }

    fn combos(&self) -> &ComboCommands {
        unreachable!("nobody's own transaction")
    }

    #[inline]
    fn fate(
        &mut self,
        io: &mut aio::IoBackend,
        role: Role,
        xid: Xid,
        hinted: bool,
    ) -> Result<Fate, AccessError> {
        let last = &mut self.committed[role as usize];
        if *last == Some(xid) {
            return Ok(Fate::Committed);
        }
        let fate = fate_now(io, self.xacts, xid, hinted)?;
        if fate == Fate::Committed {
            *last = Some(xid);
        }
        Ok(fate)
    }

    fn sets(&mut self) -> &mut RowSets {
        self.sets
    }
}

impl Heap {
    /// What a reader in `database`, whose transaction has the id `own`, needs to prune pages of
    /// this table. None if only outcomes of transactions are known.
    pub fn pruner(&self, kind: HorizonKind, database: Oid, own: Option<FullXid>) -> Option<Pruner> {
        self.clone().into_pruner(kind, database, own)
    }

    /// The same, of a heap that is not needed for anything else.
    pub fn into_pruner(
        self,
        kind: HorizonKind,
        database: Oid,
        own: Option<FullXid>,
    ) -> Option<Pruner> {
        let xacts = Arc::clone(self.outcomes.xacts()?);
        let removable = RemovableTest::new(kind, database, own);
        let (sets, committed, spare) = (self.outcomes.sets(), Committed::default(), Vec::new());
        Some(Pruner { heap: self, xacts, removable, sets, committed, spare })
    }
}

impl Pruner {
    /// Takes all transactions before `oldest` for over: the caller has found that they are.
    pub(super) fn raise_horizon(&mut self, oldest: Xid) {
        self.removable.raise_to(self.xacts.procs(), oldest);
    }

    /// Prunes a page if that is worth while and possible at once. The caller has no other pin on
    /// it, and no lock.
    pub fn prune(&mut self, backend: &mut Backend, pin: &Pinned) -> Result<(), AccessError> {
        let xid = {
            let guard = pin.lock_shared();
            match self.heap.is_worth_pruning(guard.page()) {
                true => guard.page().prune_xid(),
                false => return Ok(()),
            }
        };
        if !self.removable.is_xid_over_for_all(self.xacts.procs(), xid) {
            return Ok(());
        }
        // A reader goes on without pruning if the log has no room.
        if self.heap.ensure_log_room_to_delete(backend).is_err() {
            return Ok(());
        }
        let Some(mut guard) = pin.try_lock_cleanup() else { return Ok(()) };
        if !self.heap.is_worth_pruning(guard.page()) {
            return Ok(());
        }
        let items = self.items(backend, guard.page(), pin.tag().block)?;
        let plan = plan(&items)
            .map_err(|problem| AccessError::Corrupt(format!("{}: {problem}", pin.tag())))?;
        if plan.is_empty() {
            // Only in memory: the page does not become dirty. A write for a hint could be torn, and
            // the log has no image. So the next scans do not look again while the page is cached.
            store_hints(&mut guard.page_mut(), plan.prune_xid);
            return Ok(());
        }
        self.heap.write_pruned(backend, &mut guard, Reason::OnAccess, plan, Vec::new())
    }

    /// Whether nobody sees any version of the row at a place of a page any more.
    pub(super) fn is_gone(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        tid: ItemPointer,
    ) -> Result<bool, AccessError> {
        let Pruner { xacts, removable, sets, committed, .. } = self;
        let mut nobody = Nobody { xacts, sets, committed };
        let removable = (removable, xacts.procs());
        Ok(row_fate(backend, &mut nobody, removable, page, tid)?.0 == RowFate::Gone)
    }

    /// Each line pointer of a page, as far as pruning is concerned.
    pub(super) fn items(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        block: BlockNumber,
    ) -> Result<Vec<Item>, AccessError> {
        let tag = self.heap.tag(block);
        let Pruner { xacts, removable, sets, committed, spare, .. } = self;
        let mut nobody = Nobody { xacts, sets, committed };
        let mut items = std::mem::take(spare);
        items.clear();
        for (number, &bits) in (1..).zip(page.line_pointers()) {
            let id = ItemId::from_bits(u32::from_le_bytes(bits));
            items.push(match id.state {
                ItemState::Unused => Item::Unused,
                ItemState::Dead => Item::Dead,
                ItemState::Redirect => Item::Redirect(id.offset),
                ItemState::Normal => {
                    let tuple = tuple_at(page, tag, number)?.expect("a normal line pointer");
                    let fact = fact(&mut backend.io, &mut nobody, removable, tuple, block);
                    Item::Tuple(fact.map_err(|error| located(tag, number, error))?)
                }
            });
        }
        Ok(items)
    }
}

/// What pruning needs to know of a tuple.
#[inline]
fn fact(
    io: &mut aio::IoBackend,
    nobody: &mut Nobody<'_>,
    removable: &mut RemovableTest,
    tuple: HeapTuple<'_>,
    block: BlockNumber,
) -> Result<Fact, AccessError> {
    let status = tuple_status(io, nobody, tuple)?;
    let procs = nobody.xacts.procs();
    let (state, updater) = match status {
        TupleStatus::NotInserted(Fate::Aborted) => (State::Dead, None),
        TupleStatus::NotInserted(_) => (State::BeingInserted, None),
        TupleStatus::Live | TupleStatus::Locked => (State::Kept, None),
        TupleStatus::UpdatedByOwn(_) => unreachable!("nobody's own transaction"),
        TupleStatus::BeingUpdated(by) => (State::BeingUpdated, Some(by)),
        TupleStatus::Updated(by) => {
            let mut over = removable.is_xid_over_for_all(procs, by);
            forebay_aio::planted_bug!(io.aio(), PruneIgnoresSnapshots, over = true);
            (if over { State::Dead } else { State::RecentlyDead }, Some(by))
        }
    };
    let ctid = tuple.ctid();
    let hot = updater.is_some() && tuple.is_hot_updated() && ctid.block == block;
    Ok(Fact {
        state,
        xmin: tuple.xmin(),
        updater,
        next: hot.then_some(ctid.offset),
        heap_only: tuple.is_heap_only(),
    })
}

/// Stores what a look at a page has shown: the oldest transaction whose deletions may go later.
pub(super) fn store_hints(page: &mut PageMut<'_>, prune_xid: Option<Xid>) {
    page.set_prune_xid(prune_xid.unwrap_or(0));
    page.set_flag(PD_PAGE_FULL, false);
}

impl Heap {
    /// Whether there may be something to prune, and little room.
    fn is_worth_pruning(&self, page: Page<'_>) -> bool {
        !page.is_new()
            && page.prune_xid() != 0
            && (page.is_full() || page.heap_free_space() < LITTLE_ROOM.max(self.kept_free()))
    }

    /// Prunes and freezes a page as planned. Vacuum's cleanup has looked at no tuples, and needs no
    /// cleanup lock.
    pub(super) fn write_pruned(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        reason: Reason,
        plan: Plan,
        plans: Vec<FreezePlan>,
    ) -> Result<(), AccessError> {
        let (info, flags) = match reason {
            Reason::OnAccess => (heap::PRUNE_ON_ACCESS, CLEANUP_LOCK),
            Reason::VacuumScan => (heap::PRUNE_VACUUM_SCAN, CLEANUP_LOCK),
            Reason::VacuumCleanup => (heap::PRUNE_VACUUM_CLEANUP, 0),
        };
        let Plan { redirected, dead, unused, conflict_horizon, prune_xid } = plan;
        let reason = reason as u8;
        let record = HeapPrune { reason, flags, conflict_horizon, plans, redirected, dead, unused };
        // In a copy: a damaged page must not stop the engine.
        let mut pruned = **guard;
        let mut page = PageMut(&mut pruned);
        record
            .apply(&mut page)
            .map_err(|error| AccessError::Corrupt(format!("{}: {error}", guard.tag())))?;
        if flags & CLEANUP_LOCK != 0 {
            store_hints(&mut page, prune_xid);
        }
        let (mut main, mut data) = (Vec::new(), Vec::new());
        record.encode(&mut main, &mut data);
        critical(self.failure.as_ref(), "could not prune a page", || {
            guard.mark_dirty();
            **guard = pruned;
            if !self.logged {
                return Ok(());
            }
            forebay_aio::planted_bug!(backend.io.aio(), PruneNotLogged, return Ok(()));
            let (tag, flags) = (guard.tag(), BlockFlags::STANDARD);
            let block = BlockRef { id: 0, tag, page: Some(guard), flags, data: &data };
            let rmgr = Rmgr::HEAP2;
            let record = Record { rmgr, info, xid: 0, main: &main, blocks: &[block] };
            let inserted = self.wal.insert(&mut backend.io, &record)?;
            guard.set_lsn(inserted.end);
            Ok(())
        })
    }
}
