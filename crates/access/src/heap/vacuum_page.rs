//! Vacuum of one page of a table without indexes: pruning, freezing, counting.
//!
//! No index points to a dead line pointer, so each becomes unused at once.

use forebay_format::ids::{FROZEN_XID, INVALID_XID, xid_is_normal, xid_precedes, xid_previous};
use forebay_format::tuple::HeapTuple;
use forebay_format::wal::heap;
use forebay_format::wal::prune::{CLEANUP_LOCK, FreezePlan, HeapPrune};
use forebay_format::{OffsetNumber, Page, Xid};
use forebay_storage::{Backend, PageWriteGuard, Pinned};

use super::freeze::{Cutoffs, Freezer, PageIds, Remaining};
use super::prune::Pruner;
use super::prune_plan::{Fact, Item, Plan, State, plan};
use super::relation::Heap;
use super::status::{Fate, TupleStatus};
use super::tuple_at::located;
use crate::error::AccessError;

/// The reason of a record, as stored.
const VACUUM_SCAN: u8 = 1;

/// What vacuum finds and does on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Rows that went.
    pub(super) removed: u32,
    pub(super) live: u32,
    /// Dead rows that somebody may still see.
    pub(super) recently_dead: u32,
    /// Dead rows that stay because the page is in use.
    pub(super) missed: u32,
    /// Rows from which ids were removed.
    pub(super) frozen: u32,
    /// Whether the page must stay.
    pub(super) has_rows: bool,
    pub(super) all_visible: bool,
    pub(super) all_frozen: bool,
    /// The youngest inserter, which is not frozen, of an all-visible page.
    pub(super) youngest: Xid,
    pub(super) remaining: Remaining,
}

impl Outcome {
    fn new(remaining: Remaining) -> Outcome {
        Outcome {
            removed: 0,
            live: 0,
            recently_dead: 0,
            missed: 0,
            frozen: 0,
            has_rows: false,
            all_visible: true,
            all_frozen: true,
            youngest: INVALID_XID,
            remaining,
        }
    }

    /// Counts a tuple that stays.
    fn count(&mut self, tuple: HeapTuple<'_>, state: State, cutoffs: &Cutoffs) {
        self.has_rows = true;
        match state {
            State::Kept => {
                self.live += 1;
                let xmin = if tuple.xmin_frozen() { FROZEN_XID } else { tuple.xmin() };
                self.all_visible &= xid_precedes(xmin, cutoffs.oldest_xid);
                if xid_is_normal(xmin) && xid_precedes(self.youngest, xmin) {
                    self.youngest = xmin;
                }
                return;
            }
            State::BeingUpdated => self.live += 1,
            State::RecentlyDead => self.recently_dead += 1,
            State::Dead => self.missed += 1,
            State::BeingInserted => {}
        }
        self.all_visible = false;
    }
}

/// How tuples of a page are frozen, if they are.
type Plans = Vec<(OffsetNumber, FreezePlan)>;

/// A tuple's status, as freezing needs to know it.
fn status(fact: Fact) -> TupleStatus {
    match (fact.state, fact.updater) {
        (State::BeingInserted, _) => TupleStatus::NotInserted(Fate::Running),
        (State::BeingUpdated, Some(by)) => TupleStatus::BeingUpdated(by),
        (State::Dead | State::RecentlyDead, Some(by)) => TupleStatus::Updated(by),
        _ => TupleStatus::Live,
    }
}

/// Vacuums pages of a table.
#[derive(Debug)]
pub(super) struct PageVacuum {
    pub(super) heap: Heap,
    pub(super) pruner: Pruner,
    pub(super) cutoffs: Cutoffs,
    /// The oldest ids that stay in the pages seen so far.
    pub(super) remaining: Remaining,
}

impl PageVacuum {
    /// Prunes and freezes a page under the cleanup lock.
    pub(super) fn clean(
        &mut self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        pin: &Pinned,
    ) -> Result<Outcome, AccessError> {
        let items = self.pruner.items(backend, guard.page(), pin.tag().block)?;
        let mut plan = plan(&items)
            .map_err(|problem| AccessError::Corrupt(format!("{}: {problem}", pin.tag())))?;
        let dead = (1..).zip(&items).filter(|(_, item)| **item == Item::Dead);
        plan.unused.extend(dead.map(|(number, _)| number));
        plan.unused.append(&mut plan.dead);

        let (mut outcome, ids, plans) = self.judge(backend, guard.page(), &items, &plan, pin)?;
        let freeze = ids.must_freeze || self.freeze_for_free(&outcome, &plan, &plans, guard);
        outcome.remaining = if freeze { ids.if_frozen } else { ids.if_left };
        outcome.all_frozen &= outcome.all_visible && (freeze || plans.is_empty());
        let plans = if freeze { plans } else { Vec::new() };
        outcome.frozen = plans.len() as u32;
        if plan.is_empty() && plans.is_empty() {
            plan.store_hints(&mut guard.page_mut());
            return Ok(outcome);
        }
        let record = HeapPrune {
            reason: VACUUM_SCAN,
            flags: CLEANUP_LOCK,
            conflict_horizon: self.conflict_horizon(&outcome, &plan, plans.is_empty()),
            plans: FreezePlan::group(plans),
            redirected: plan.redirected.clone(),
            dead: Vec::new(),
            unused: plan.unused.clone(),
        };
        self.heap.write_pruned(backend, guard, &plan, heap::PRUNE_VACUUM_SCAN, &record)?;
        Ok(outcome)
    }

    /// Counts the tuples that stay, and plans to freeze them.
    fn judge(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        items: &[Item],
        plan: &Plan,
        pin: &Pinned,
    ) -> Result<(Outcome, PageIds, Plans), AccessError> {
        let mut goes = vec![false; items.len() + 1];
        let redirected = plan.redirected.iter().map(|(from, _)| from);
        redirected.chain(&plan.unused).for_each(|number| goes[usize::from(*number)] = true);
        let (mut outcome, mut ids) = (Outcome::new(self.remaining), PageIds::new(self.remaining));
        let mut plans = Plans::with_capacity(items.len());
        let cutoffs = &self.cutoffs;
        let Pruner { xacts, sets, .. } = &mut self.pruner;
        let mut freezer = Freezer { cutoffs, xacts, sets };
        for (number, item) in (1..).zip(items) {
            let Item::Tuple(fact) = *item else { continue };
            if goes[usize::from(number)] {
                outcome.removed += 1;
                continue;
            }
            let tuple = HeapTuple::new(page.item(number).expect("a tuple was found there"))?;
            outcome.count(tuple, fact.state, cutoffs);
            let frozen = freezer
                .prepare(&mut backend.io, (tuple, status(fact)), &mut ids)
                .map_err(|error| located(pin.tag(), number, error))?;
            outcome.all_frozen &= frozen.totally;
            plans.extend(frozen.plan.map(|plan| (number, plan)));
        }
        Ok((outcome, ids, plans))
    }

    /// Whether freezing costs little and makes the whole page frozen: the record of pruning has an
    /// image of the page anyway.
    fn freeze_for_free(
        &self,
        outcome: &Outcome,
        plan: &Plan,
        plans: &[(OffsetNumber, FreezePlan)],
        guard: &PageWriteGuard<'_>,
    ) -> bool {
        outcome.all_visible
            && outcome.all_frozen
            && !plans.is_empty()
            && !plan.is_empty()
            && self.heap.logged
            && self.heap.wal.needs_image(guard.page().lsn())
    }

    /// The youngest transaction whose effects a standby's query might need to see differently.
    fn conflict_horizon(&self, outcome: &Outcome, plan: &Plan, no_freezing: bool) -> Option<Xid> {
        let of_freezing = match outcome {
            _ if no_freezing => INVALID_XID,
            Outcome { all_visible: true, all_frozen: true, youngest, .. } => *youngest,
            _ => xid_previous(self.cutoffs.oldest_xid),
        };
        let of_pruning = plan.conflict_horizon.unwrap_or(INVALID_XID);
        let horizon = if xid_precedes(of_pruning, of_freezing) { of_freezing } else { of_pruning };
        (horizon != INVALID_XID).then_some(horizon)
    }

    /// Counts what is on a page without changing it. True if it has an id so old that it must be
    /// frozen.
    pub(super) fn look(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        pin: &Pinned,
    ) -> Result<(Outcome, bool), AccessError> {
        let items = self.pruner.items(backend, page, pin.tag().block)?;
        let mut outcome = Outcome::new(self.remaining);
        let mut must_freeze = false;
        let cutoffs = &self.cutoffs;
        let Pruner { xacts, sets, .. } = &mut self.pruner;
        let mut freezer = Freezer { cutoffs, xacts, sets };
        for (number, item) in (1..).zip(&items) {
            match *item {
                Item::Unused => {}
                Item::Dead => outcome.missed += 1,
                Item::Redirect(_) => outcome.has_rows = true,
                Item::Tuple(fact) => {
                    let bytes = page.item(number).expect("a tuple was found there");
                    let tuple = HeapTuple::new(bytes)?;
                    outcome.count(tuple, fact.state, cutoffs);
                    must_freeze |= freezer
                        .must_freeze(&mut backend.io, tuple, &mut outcome.remaining)
                        .map_err(|error| located(pin.tag(), number, error))?;
                }
            }
        }
        outcome.has_rows |= outcome.missed > 0;
        (outcome.all_visible, outcome.all_frozen) = (false, false);
        Ok((outcome, must_freeze))
    }
}
