//! A session's portals: the protocol's, and the cursors of DECLARE. They share their names.
//!
//! A portal ends with its transaction, or with the subtransaction in which it was made if that is
//! rolled back. A cursor WITH HOLD stays when its transaction commits, with the rows that are left.
//! When a transaction or subtransaction fails, its portals fail, and keep their names until the
//! client rolls it back.

use super::held::Held;
use super::statement::{Plan, Portal, Progress};
use crate::error::Result;

/// A session's portals by name.
pub(super) struct Portals {
    held: Held<Portal>,
}

impl Portals {
    /// None, with room for `most` bytes.
    pub(super) fn new(most: usize) -> Portals {
        Portals { held: Held::new(most) }
    }

    /// Adds a portal of so many bytes, or replaces the one with its name.
    pub(super) fn insert(&mut self, name: &str, portal: Portal, bytes: usize) -> Result<()> {
        self.held.insert(name, portal, bytes)
    }

    /// Removes a portal, and returns it with its bytes.
    pub(super) fn remove(&mut self, name: &str) -> Option<(Portal, usize)> {
        self.held.remove(name)
    }

    /// Removes all but those that run.
    pub(super) fn clear(&mut self) {
        self.held.retain(|portal| matches!(portal.progress, Progress::Active));
    }

    /// The portal of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Portal> {
        self.held.get(name)
    }

    /// The portal of that name, to be run.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        self.held.get_mut(name)
    }

    /// Is there one of that name?
    pub(super) fn contains_key(&self, name: &str) -> bool {
        self.held.get(name).is_some()
    }

    /// All of them with their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Portal)> {
        self.held.iter()
    }

    /// All of them, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Portal> {
        self.held.values_mut()
    }

    /// Does one read this table?
    pub(super) fn read(&self, oid: forebay_engine::Oid) -> bool {
        self.held.values().any(|portal| portal.reads(oid))
    }

    /// Does one of them read a table through the index of that name?
    pub(super) fn read_through(&self, index: &str) -> bool {
        self.held.values().any(|portal| portal.reads_through(index))
    }

    /// Is there a query of the running transaction that has not failed?
    pub(super) fn has_queries(&self) -> bool {
        let query = |portal: &Portal| {
            matches!((&portal.plan, &portal.progress), (Plan::Select(_), Progress::Query(_)))
        };
        self.held.values().any(|portal| portal.level.is_some() && query(portal))
    }

    /// A subtransaction has failed that is the `level`th open one, counted from 1; 0: the
    /// transaction itself. Its portals can't be run any more.
    pub(super) fn failed(&mut self, level: usize) {
        let made_in = |portal: &&mut Portal| portal.level.is_some_and(|made| made >= level);
        self.held.values_mut().filter(made_in).for_each(|p| p.progress = Progress::Failed);
    }

    /// The transaction is about to end: so must scans. Cursors whose rows are held stay.
    pub(super) fn end_scans(&mut self) {
        self.held.retain(|portal| portal.is_held());
    }

    /// The transaction has ended: what is held stays, but from a transaction that has aborted only
    /// what was held before.
    pub(super) fn transaction_ended(&mut self, committed: bool) {
        self.held.retain(|portal| portal.level.is_none() || committed && portal.is_held());
        self.held.values_mut().for_each(|portal| portal.level = None);
    }

    /// A subtransaction was released that was the `level`th open one, counted from 1: its cursors
    /// are now those of the one around it.
    pub(super) fn subtransaction_released(&mut self, level: usize) {
        for portal in self.held.values_mut() {
            portal.level = portal.level.map(|made| made.min(level.saturating_sub(1)));
        }
    }

    /// A subtransaction was rolled back that was the `level`th open one, counted from 1: its
    /// cursors end.
    pub(super) fn subtransaction_aborted(&mut self, level: usize) {
        self.held.retain(|portal| portal.level.is_none_or(|made| made < level));
    }
}
