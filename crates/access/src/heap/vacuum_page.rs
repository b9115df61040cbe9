//! Vacuum of one page: pruning, freezing, counting.
//!
//! If the table has no indexes, nothing points to a dead line pointer: each becomes unused at once.
//! Otherwise they are collected, and become unused when the indexes no longer have them.

use forebay_format::ids::{FROZEN_XID, INVALID_XID, xid_is_normal, xid_precedes, xid_previous};
use forebay_format::page::ItemState;
use forebay_format::tuple::HeapTuple;
use forebay_format::wal::prune::FreezePlan;
use forebay_format::{OffsetNumber, Page, Xid};
use forebay_storage::{Backend, PageWriteGuard, Pinned};

use super::freeze::{Cutoffs, Freezer, FrozenHeader, PageIds, Remaining};
use super::prune::{Pruner, Reason, store_hints};
use super::prune_plan::{Item, Plan, State, plan};
use super::tuple_at::located;
use crate::error::AccessError;

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

/// Vacuums pages of a table.
#[derive(Debug)]
pub(super) struct PageVacuum {
    pub(super) pruner: Pruner,
    pub(super) cutoffs: Cutoffs,
    /// The oldest ids that stay in the pages seen so far.
    pub(super) remaining: Remaining,
    /// How tuples of the page are frozen, if they are.
    pub(super) headers: Vec<(OffsetNumber, FrozenHeader)>,
    /// Whether the table has indexes.
    pub(super) indexed: bool,
    /// The dead line pointers of the page, if it has.
    pub(super) dead: Vec<OffsetNumber>,
}

impl PageVacuum {
    /// Prunes and freezes a page under the cleanup lock.
    pub(super) fn clean(
        &mut self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        pin: &Pinned,
    ) -> Result<Outcome, AccessError> {
        let mut items = self.pruner.items(backend, guard.page(), pin.tag().block)?;
        let mut plan = plan(&items)
            .map_err(|problem| AccessError::Corrupt(format!("{}: {problem}", pin.tag())))?;
        let dead = (1..).zip(&items).filter(|(_, item)| **item == Item::Dead);
        let dead = dead.map(|(number, _)| number);
        if self.indexed {
            // A look at the page may have found some.
            self.dead.clear();
            self.dead.extend(dead.chain(plan.dead.iter().copied()));
            self.dead.sort_unstable();
        } else {
            plan.unused.extend(dead);
            plan.unused.append(&mut plan.dead);
        }

        let removed = plan.remove_from(&mut items);
        let (mut outcome, ids) = self.judge(backend, guard.page(), &items, pin)?;
        outcome.removed = removed;
        self.pruner.spare = items;
        let freeze = ids.must_freeze || self.freeze_for_free(&outcome, &plan, guard);
        outcome.remaining = if freeze { ids.if_frozen } else { ids.if_left };
        outcome.all_frozen &= outcome.all_visible && (freeze || self.headers.is_empty());
        if !freeze {
            self.headers.clear();
        }
        outcome.frozen = self.headers.len() as u32;
        if plan.is_empty() && self.headers.is_empty() {
            store_hints(&mut guard.page_mut(), plan.prune_xid);
        } else {
            plan.conflict_horizon = self.conflict_horizon(&outcome, &plan);
            let plans = self.headers.iter().map(|&(number, header)| (number, header.into()));
            let plans = FreezePlan::group(plans.collect());
            let heap = &self.pruner.heap;
            heap.write_pruned(backend, guard, Reason::VacuumScan, plan, plans)?;
        }
        // They do not decide whether the page is frozen: they go soon.
        outcome.all_visible &= self.dead.is_empty();
        outcome.all_frozen &= self.dead.is_empty();
        Ok(outcome)
    }

    /// Makes dead line pointers of a page unused, which no index has any more. Returns whether
    /// everybody sees all of the page then; it counts nothing else.
    pub(super) fn free(
        &mut self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        unused: Vec<OffsetNumber>,
    ) -> Result<Outcome, AccessError> {
        let tag = guard.tag();
        let state = |number: &OffsetNumber| guard.page().item_id(*number).map(|id| id.state);
        if let Some(number) = unused.iter().find(|number| state(number) != Some(ItemState::Dead)) {
            let error = AccessError::Corrupt("line pointer is not dead any more".to_owned());
            return Err(located(tag, *number, error));
        }
        let plan = Plan { unused, ..Plan::default() };
        let heap = &self.pruner.heap;
        heap.write_pruned(backend, guard, Reason::VacuumCleanup, plan, Vec::new())?;

        let mut outcome = Outcome::new(self.remaining);
        let items = self.pruner.items(backend, guard.page(), tag.block)?;
        for (number, item) in (1..).zip(&items) {
            match *item {
                Item::Unused | Item::Redirect(_) => {}
                Item::Dead => outcome.all_visible = false,
                Item::Tuple(fact) => {
                    let bytes = guard.page().item(number).expect("a tuple was found there");
                    let tuple = HeapTuple::new(bytes)?;
                    outcome.count(tuple, fact.state, &self.cutoffs);
                    outcome.all_frozen &= tuple.xmin_frozen() && tuple.xmax() == INVALID_XID;
                }
            }
        }
        self.pruner.spare = items;
        outcome.all_frozen &= outcome.all_visible;
        Ok(outcome)
    }

    /// Counts the tuples that stay, and plans to freeze them.
    fn judge(
        &mut self,
        backend: &mut Backend,
        page: Page<'_>,
        items: &[Item],
        pin: &Pinned,
    ) -> Result<(Outcome, PageIds), AccessError> {
        let (mut outcome, mut ids) = (Outcome::new(self.remaining), PageIds::new(self.remaining));
        let PageVacuum { cutoffs, pruner: Pruner { xacts, sets, .. }, headers, .. } = self;
        let mut freezer = Freezer { cutoffs, xacts, sets };
        headers.clear();
        for (number, item) in (1..).zip(items) {
            let Item::Tuple(fact) = *item else { continue };
            let tuple = HeapTuple::new(page.item(number).expect("a tuple was found there"))?;
            outcome.count(tuple, fact.state, cutoffs);
            let frozen = freezer
                .prepare(&mut backend.io, (tuple, fact), &mut ids)
                .map_err(|error| located(pin.tag(), number, error))?;
            outcome.all_frozen &= frozen.totally;
            headers.extend(frozen.header.map(|header| (number, header)));
        }
        Ok((outcome, ids))
    }

    /// Whether freezing costs little and makes the whole page frozen: the record of pruning has an
    /// image of the page anyway.
    fn freeze_for_free(&self, outcome: &Outcome, plan: &Plan, guard: &PageWriteGuard<'_>) -> bool {
        let heap = &self.pruner.heap;
        outcome.all_visible
            && outcome.all_frozen
            && !self.headers.is_empty()
            && !plan.is_empty()
            && heap.logged
            && heap.wal.needs_image(guard.page().lsn())
    }

    /// The youngest transaction whose effects a standby's query might need to see differently.
    fn conflict_horizon(&self, outcome: &Outcome, plan: &Plan) -> Option<Xid> {
        let of_freezing = match outcome {
            _ if self.headers.is_empty() => INVALID_XID,
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
                Item::Dead if self.indexed => self.dead.push(number),
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
