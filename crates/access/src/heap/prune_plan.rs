//! What pruning removes from a page.
//!
//! ```text
//!   before:  1 dead, HOT ──▶ 2 dead, HOT ──▶ 3 live      4 dead
//!   after:   1 redirect ───────────────────▶ 3 live      4 dead line pointer      (2 unused)
//! ```
//!
//! A chain begins at a line pointer to which indexes may point: that of a tuple which is not
//! heap-only, or a redirect. All versions up to the last dead one go. The root becomes a redirect
//! to the first that stays, or a dead line pointer if none does; the others become unused.

use forebay_format::ids::xid_precedes;
use forebay_format::{OffsetNumber, Xid};

/// Whether a tuple may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody sees it.
    Dead,
    /// It is updated or deleted, and someone may still see it.
    RecentlyDead,
    /// Its updater runs.
    BeingUpdated,
    /// Its inserter runs.
    BeingInserted,
    /// It stays.
    Kept,
}

/// A tuple, as far as pruning is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) state: State,
    pub(super) xmin: Xid,
    /// The transaction that updated or deleted it, if that counts.
    pub(super) updater: Option<Xid>,
    /// Its heap-only successor on the page.
    pub(super) next: Option<OffsetNumber>,
    pub(super) heap_only: bool,
}

/// A line pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Unused,
    Dead,
    Redirect(OffsetNumber),
    Tuple(Fact),
}

/// The changes of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) redirected: Vec<(OffsetNumber, OffsetNumber)>,
    pub(super) dead: Vec<OffsetNumber>,
    pub(super) unused: Vec<OffsetNumber>,
    /// The youngest transaction whose deletions go: standbys cancel queries that might see them.
    pub(super) conflict_horizon: Option<Xid>,
    /// The oldest transaction whose deletions may go later.
    pub(super) prune_xid: Option<Xid>,
}

/// A page cannot be pruned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("dead heap-only tuple {0} is not linked to from any HOT chain")]
pub(super) struct Unlinked(OffsetNumber);

impl Plan {
    /// Whether nothing goes.
    pub(super) fn is_empty(&self) -> bool {
        self.redirected.is_empty() && self.dead.is_empty() && self.unused.is_empty()
    }

    /// Takes the tuples that go out of a page's line pointers. Returns how many they are.
    pub(super) fn remove_from(&self, items: &mut [Item]) -> u32 {
        let redirected = self.redirected.iter().map(|(from, _)| from);
        let mut removed = 0;
        for &number in redirected.chain(&self.dead).chain(&self.unused) {
            let before = std::mem::replace(&mut items[usize::from(number) - 1], Item::Unused);
            removed += u32::from(matches!(before, Item::Tuple(_)));
        }
        removed
    }

    /// A dead tuple goes.
    fn remove(&mut self, fact: Fact) {
        // What an aborted transaction inserted, or the inserter deleted itself, nobody ever saw.
        let seen = fact.updater.filter(|by| *by != fact.xmin);
        let youngest = |a: Xid, b: Xid| if xid_precedes(a, b) { b } else { a };
        self.conflict_horizon = match (self.conflict_horizon, seen) {
            (Some(a), Some(b)) => Some(youngest(a, b)),
            (a, b) => a.or(b),
        };
    }

    /// A tuple stays.
    fn keep(&mut self, fact: Fact) {
        if matches!(fact.state, State::RecentlyDead | State::BeingUpdated)
            && let Some(by) = fact.updater
            && self.prune_xid.is_none_or(|oldest| xid_precedes(by, oldest))
        {
            self.prune_xid = Some(by);
        }
    }
}

/// The plan for a page with these line pointers, the first of which is number 1.
pub(super) fn plan(items: &[Item]) -> Result<Plan, Unlinked> {
    let stays = |item: &Item| match item {
        Item::Tuple(fact) => matches!(fact.state, State::Kept | State::BeingInserted),
        Item::Redirect(_) => false,
        Item::Unused | Item::Dead => true,
    };
    if items.iter().all(stays) {
        return Ok(Plan::default());
    }
    let (done, plan) = (vec![false; items.len() + 1], Plan::default());
    let mut pruning = Pruning { items, done, members: Vec::new(), plan };
    for (root, item) in (1..).zip(items) {
        match item {
            Item::Redirect(_) => pruning.chain(root),
            Item::Tuple(fact) if fact.heap_only => {}
            Item::Tuple(_) if stays(item) => pruning.done[usize::from(root)] = true,
            Item::Tuple(_) => pruning.chain(root),
            Item::Unused | Item::Dead => {}
        }
    }
    for (number, item) in (1..).zip(items) {
        if let Item::Tuple(fact) = *item
            && !pruning.done[usize::from(number)]
        {
            pruning.unlinked(number, fact)?;
        }
    }
    Ok(pruning.plan)
}

struct Pruning<'a> {
    items: &'a [Item],
    /// Line pointers that belong to a chain, by number.
    done: Vec<bool>,
    /// The chain that is looked at.
    members: Vec<OffsetNumber>,
    plan: Plan,
}

impl Pruning<'_> {
    fn item(&self, number: OffsetNumber) -> Option<Item> {
        self.items.get(usize::from(number).checked_sub(1)?).copied()
    }

    fn fact(&self, number: OffsetNumber) -> Option<Fact> {
        match self.item(number)? {
            Item::Tuple(fact) => Some(fact),
            _ => None,
        }
    }

    /// A heap-only tuple to which no chain leads. Its predecessor's inserter or updater aborted.
    fn unlinked(&mut self, number: OffsetNumber, fact: Fact) -> Result<(), Unlinked> {
        match fact.state {
            State::Dead if fact.next.is_some() => return Err(Unlinked(number)),
            State::Dead => {
                self.plan.remove(fact);
                self.plan.unused.push(number);
            }
            _ => self.plan.keep(fact),
        }
        Ok(())
    }

    /// Puts the line pointers of the chain from a root on into `members`. Returns how many of them
    /// lead to dead tuples.
    fn follow(&mut self, root: OffsetNumber, members: &mut Vec<OffsetNumber>) -> usize {
        let mut dead = 0;
        members.clear();
        let (mut at, mut inserter) = (root, None);
        loop {
            let fact = match self.item(at) {
                // Elsewhere it is not of this chain.
                Some(Item::Redirect(to)) if members.is_empty() => {
                    members.push(at);
                    at = to;
                    continue;
                }
                Some(Item::Tuple(fact)) if !self.done[usize::from(at)] => fact,
                _ => break,
            };
            // The place may have been used again.
            if inserter.is_some_and(|inserter| inserter != fact.xmin) || members.contains(&at) {
                break;
            }
            members.push(at);
            match fact.state {
                State::Dead => {
                    dead = members.len();
                    self.plan.remove(fact);
                }
                // There may be a dead one behind it.
                State::RecentlyDead => {}
                State::BeingUpdated | State::BeingInserted | State::Kept => break,
            }
            let Some(next) = fact.next else { break };
            (at, inserter) = (next, fact.updater);
        }
        dead
    }

    fn chain(&mut self, root: OffsetNumber) {
        let mut members = std::mem::take(&mut self.members);
        let dead = self.follow(root, &mut members);
        self.plan_chain(root, &members, dead);
        self.members = members;
    }

    fn plan_chain(&mut self, root: OffsetNumber, members: &[OffsetNumber], dead: usize) {
        for &member in members {
            self.done[usize::from(member)] = true;
        }
        let redirect = matches!(self.item(root), Some(Item::Redirect(_)));
        if redirect && members.len() < 2 {
            // Its tuple is gone.
            self.plan.dead.push(root);
            return;
        }
        let kept = &members[dead..];
        if dead > 0 {
            match kept.first() {
                Some(&first) => self.plan.redirected.push((root, first)),
                None => self.plan.dead.push(root),
            }
            self.plan.unused.extend(members[..dead].iter().skip(1));
        }
        for &member in kept {
            if let Some(fact) = self.fact(member) {
                self.plan.keep(fact);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tuple of transaction `xmin`, updated by the next one.
    fn tuple(state: State, xmin: Xid, next: OffsetNumber, heap_only: bool) -> Item {
        let updater = (state != State::Kept).then_some(xmin + 1);
        let next = (next != 0).then_some(next);
        Item::Tuple(Fact { state, xmin, updater, next, heap_only })
    }

    use State::{BeingUpdated, Dead, Kept, RecentlyDead};

    #[test]
    fn a_chain_with_a_live_end_is_redirected() {
        let items = [
            tuple(Dead, 10, 2, false),
            tuple(Dead, 11, 3, true),
            tuple(Kept, 12, 0, true),
            tuple(Dead, 20, 0, false),
        ];
        let expected = Plan {
            redirected: vec![(1, 3)],
            dead: vec![4],
            unused: vec![2],
            conflict_horizon: Some(21),
            prune_xid: None,
        };
        assert_eq!(plan(&items), Ok(expected));
    }

    #[test]
    fn a_dead_chain_leaves_a_dead_line_pointer() {
        let items = [Item::Redirect(2), tuple(Dead, 11, 3, true), tuple(Dead, 12, 0, true)];
        let plan = plan(&items).expect("a plan");
        assert_eq!((plan.dead, plan.unused, plan.redirected), (vec![1], vec![2, 3], vec![]));
    }

    #[test]
    fn recently_dead_versions_go_only_before_dead_ones() {
        let items = [
            tuple(RecentlyDead, 10, 2, false),
            tuple(Dead, 11, 3, true),
            tuple(RecentlyDead, 12, 4, true),
            tuple(BeingUpdated, 13, 5, true),
            tuple(Kept, 14, 0, true),
        ];
        let plan = plan(&items).expect("a plan");
        assert_eq!((plan.redirected, plan.unused), (vec![(1, 3)], vec![2]));
        assert_eq!((plan.conflict_horizon, plan.prune_xid), (Some(12), Some(13)));
    }

    #[test]
    fn a_redirect_moves_on() {
        let items = [Item::Redirect(2), tuple(Dead, 11, 3, true), tuple(Kept, 12, 0, true)];
        let plan = plan(&items).expect("a plan");
        assert_eq!((plan.redirected, plan.unused), (vec![(1, 3)], vec![2]));
    }

    #[test]
    fn a_redirect_without_its_tuple_is_dead() {
        for target in [Item::Unused, Item::Dead, Item::Redirect(1)] {
            let plan = plan(&[Item::Redirect(2), target]).expect("a plan");
            assert!(plan.dead.contains(&1) && plan.unused.is_empty());
        }
        assert_eq!(plan(&[Item::Redirect(9)]).expect("a plan").dead, [1]);
    }

    #[test]
    fn a_place_used_again_is_not_of_the_chain() {
        let items = [tuple(Dead, 10, 2, false), tuple(Kept, 30, 0, false)];
        let plan = plan(&items).expect("a plan");
        assert_eq!((plan.dead, plan.redirected), (vec![1], vec![]));
    }

    #[test]
    fn heap_only_tuples_of_aborted_transactions_go() {
        let aborted = Fact { state: Dead, xmin: 11, updater: None, next: None, heap_only: true };
        let items = [tuple(Kept, 10, 0, false), Item::Tuple(aborted)];
        let found = plan(&items).expect("a plan");
        assert_eq!((found.unused, found.conflict_horizon), (vec![2], None));
        let damaged = [tuple(Dead, 11, 1, true)];
        assert_eq!(plan(&damaged), Err(Unlinked(1)));
    }

    #[test]
    fn chains_that_run_in_circles_end() {
        let items = [tuple(Dead, 10, 2, false), tuple(Dead, 11, 2, true)];
        let plan = plan(&items).expect("a plan");
        assert_eq!((plan.dead, plan.unused), (vec![1], vec![2]));
    }
}
