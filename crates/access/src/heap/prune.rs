//! Pruning: removes versions that nobody sees any more, when a page is read anyway.
//!
//! A page is pruned if a transaction has deleted something on it whose end everybody sees, and if
//! there is little room, or an update has found none. Only under a cleanup lock that is free:
//! nobody waits. Dead line pointers stay for vacuum, as indexes may point to them.
//! `prune_plan.rs` decides what goes.

use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::ids::INVALID_XID;
use forebay_format::page::{ItemState, PD_PAGE_FULL, Page, PageMut};
use forebay_format::tuple::HeapTuple;
use forebay_format::wal::prune::{CLEANUP_LOCK, HeapPrune};
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{BLOCK_SIZE, BlockNumber, FullXid, OffsetNumber, Oid, Xid};
use forebay_storage::{Backend, PageWriteGuard, Pinned};
use forebay_txn::{HorizonKind, RemovableTest, Transaction, XactManager};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::changer::Changer;
use super::critical::critical;
use super::insert::Author;
use super::outcomes::RowSets;
use super::prune_plan::{Fact, Item, Plan, State, plan};
use super::relation::Heap;
use super::status::{Fate, TupleStatus, tuple_status, updater};
use super::tuple_at::{located, tuple_at};
use crate::error::AccessError;

/// Bytes of room below which a page is worth pruning, at least.
const LITTLE_ROOM: usize = BLOCK_SIZE / 10;
/// The reason of a record, as stored.
const ON_ACCESS: u8 = 0;

/// What a reader of a table needs to prune its pages.
#[derive(Debug)]
pub struct Pruner {
    heap: Heap,
    pub(super) xacts: Arc<XactManager>,
    /// Pruning sees all transactions alike, also that of the reader.
    nobody: Transaction,
    removable: RemovableTest,
    pub(super) sets: RowSets,
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
        let (nobody, sets) = (Transaction::new(), self.outcomes.sets());
        Some(Pruner { heap: self, xacts, nobody, removable, sets })
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
            plan.store_hints(&mut guard.page_mut());
            return Ok(());
        }
        let record = HeapPrune {
            reason: ON_ACCESS,
            flags: CLEANUP_LOCK,
            conflict_horizon: plan.conflict_horizon,
            plans: Vec::new(),
            redirected: plan.redirected.clone(),
            dead: plan.dead.clone(),
            unused: plan.unused.clone(),
        };
        self.heap.write_pruned(backend, &mut guard, &plan, heap::PRUNE_ON_ACCESS, &record)
    }

    /// Each line pointer of a page, as far as pruning is concerned.
    pub(super) fn items(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        block: BlockNumber,
    ) -> Result<Vec<Item>, AccessError> {
        let mut items = Vec::with_capacity(usize::from(page.item_count()));
        for number in 1..=page.item_count() {
            items.push(self.item(backend, page, block, number)?);
        }
        Ok(items)
    }

    fn item(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        block: BlockNumber,
        number: OffsetNumber,
    ) -> Result<Item, AccessError> {
        let id = page.item_id(number).expect("a line pointer below the count");
        Ok(match id.state {
            ItemState::Unused => Item::Unused,
            ItemState::Dead => Item::Dead,
            ItemState::Redirect => Item::Redirect(id.offset),
            ItemState::Normal => {
                let tag = self.heap.tag(block);
                let tuple = tuple_at(page, tag, number)?.expect("a normal line pointer");
                let Pruner { xacts, nobody: tx, removable, sets, .. } = self;
                let author = Author { xid: INVALID_XID, command: 0 };
                let mut nobody = Changer { xacts, tx, author, sets, queues: None };
                let fact = fact(&mut backend.io, &mut nobody, removable, tuple, block);
                Item::Tuple(fact.map_err(|error| located(tag, number, error))?)
            }
        })
    }
}

/// What pruning needs to know of a tuple.
fn fact(
    io: &mut aio::IoBackend,
    nobody: &mut Changer<'_>,
    removable: &mut RemovableTest,
    tuple: HeapTuple<'_>,
    block: BlockNumber,
) -> Result<Fact, AccessError> {
    let status = tuple_status(io, nobody, tuple)?;
    let procs = nobody.xacts.procs();
    let (state, updated) = match status {
        TupleStatus::NotInserted(Fate::Aborted) => (State::Dead, false),
        TupleStatus::NotInserted(_) => (State::BeingInserted, false),
        TupleStatus::Live | TupleStatus::Locked => (State::Kept, false),
        TupleStatus::UpdatedByOwn(_) => unreachable!("nobody's own transaction"),
        TupleStatus::BeingUpdated(_) => (State::BeingUpdated, true),
        TupleStatus::Updated(by) => {
            let mut over = removable.is_xid_over_for_all(procs, by);
            forebay_aio::planted_bug!(io.aio(), PruneIgnoresSnapshots, over = true);
            (if over { State::Dead } else { State::RecentlyDead }, true)
        }
    };
    let updater = match updated {
        true => updater(io, nobody, tuple)?,
        false => None,
    };
    let ctid = tuple.ctid();
    Ok(Fact {
        state,
        xmin: tuple.xmin(),
        updater,
        next: (updated && tuple.is_hot_updated() && ctid.block == block).then_some(ctid.offset),
        heap_only: tuple.is_heap_only(),
    })
}

impl Plan {
    /// Stores what a look at a page has shown.
    pub(super) fn store_hints(&self, page: &mut PageMut<'_>) {
        page.set_prune_xid(self.prune_xid.unwrap_or(0));
        page.set_flag(PD_PAGE_FULL, false);
    }
}

impl Heap {
    /// Whether there may be something to prune, and little room.
    fn is_worth_pruning(&self, page: Page<'_>) -> bool {
        !page.is_new()
            && page.prune_xid() != 0
            && (page.is_full() || page.heap_free_space() < LITTLE_ROOM.max(self.kept_free()))
    }

    /// Prunes and freezes a page as planned. `info` is the record's kind.
    pub(super) fn write_pruned(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        plan: &Plan,
        info: u8,
        record: &HeapPrune,
    ) -> Result<(), AccessError> {
        // In a copy: a damaged page must not stop the engine.
        let mut pruned = Box::new([0; BLOCK_SIZE]);
        pruned.copy_from_slice(&guard[..]);
        let mut page = PageMut(&mut pruned);
        record
            .apply(&mut page)
            .map_err(|error| AccessError::Corrupt(format!("{}: {error}", guard.tag())))?;
        plan.store_hints(&mut page);
        let (mut main, mut data) = (Vec::new(), Vec::new());
        record.encode(&mut main, &mut data);
        critical(self.failure.as_ref(), "could not prune a page", || {
            guard.mark_dirty();
            guard.copy_from_slice(&pruned[..]);
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
