//! The waits-for graph.
//!
//! A waiting owner waits for every holder of a conflicting mode, and for every earlier request of
//! the queue for such a mode. An owner waits for one lock at a time, so the graph follows from the
//! table and is not stored.
//!
//! An owner of a cycle that conflicts with no holder waits only because of the order of a queue. It
//! may overtake, and that ends the cycle.

use std::collections::HashSet;

use super::interrupt::InterruptKind;
use super::mode::LockMode;
use super::table::Table;
use super::tag::{LockTag, OwnerId};

/// A wait of the path that is searched.
pub(super) struct Wait {
    pub(super) owner: OwnerId,
    pub(super) tag: LockTag,
    mode: LockMode,
}

impl Wait {
    /// Whether only earlier requests of the queue keep it waiting.
    pub(super) fn is_soft(&self, table: &Table) -> bool {
        let lock = table.locks.get(&self.tag);
        lock.is_some_and(|lock| !lock.conflicts_with_holder(self.owner, self.mode))
    }
}

/// Searches for a cycle of waits through `start`. Returns it, with `start` first. None if `start`
/// does not wait.
pub(super) fn find_cycle(table: &Table, start: OwnerId) -> Option<Vec<Wait>> {
    let mut path = Vec::new();
    search(table, start, start, &mut path, &mut HashSet::new()).then_some(path)
}

/// Cancels the backends that hold what `owner` waits for, and give way.
pub(super) fn ask_to_give_way(table: &Table, owner: OwnerId) {
    let request = table.waiting.get(&owner).and_then(|tag| table.locks.get(tag));
    let Some(lock) = request else { return };
    let Some(waiter) = lock.queue.iter().find(|waiter| waiter.owner == owner) else { return };
    for (holder, modes) in &lock.granted {
        if *holder != owner
            && modes & waiter.mode.conflicts() != 0
            && let Some(interrupt) = table.yielding.get(holder)
        {
            interrupt.request(InterruptKind::Cancel);
        }
    }
}

/// Depth first. `path` holds the waits from `start` to `owner`.
fn search(
    table: &Table,
    start: OwnerId,
    owner: OwnerId,
    path: &mut Vec<Wait>,
    seen: &mut HashSet<OwnerId>,
) -> bool {
    let Some((wait, blockers)) = blockers(table, owner) else { return false };
    path.push(wait);
    for next in blockers {
        if next == start {
            return true;
        }
        if seen.insert(next) && search(table, start, next, path, seen) {
            return true;
        }
    }
    path.pop();
    false
}

/// What `owner` waits for, and whom: the holders of conflicting modes, then the earlier requests
/// for such modes. None if it does not wait.
fn blockers(table: &Table, owner: OwnerId) -> Option<(Wait, Vec<OwnerId>)> {
    let tag = table.waiting.get(&owner).copied()?;
    let lock = table.locks.get(&tag)?;
    let position = lock.queue.iter().position(|w| w.owner == owner)?;
    let mode = lock.queue.get(position)?.mode;
    let holders =
        lock.granted.iter().filter(|(o, modes)| *o != owner && modes & mode.conflicts() != 0);
    let ahead = lock.queue.iter().take(position).filter(|w| w.mode.conflicts_with(mode));
    let blockers = holders.map(|(o, _)| *o).chain(ahead.map(|w| w.owner)).collect();
    Some((Wait { owner, tag, mode }, blockers))
}

/// The owners for which `owner` waits directly, each once.
pub(super) fn blocked_by(table: &Table, owner: OwnerId) -> Vec<OwnerId> {
    let mut owners = blockers(table, owner).map_or_else(Vec::new, |(_, blockers)| blockers);
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// A line for each wait of a cycle.
pub(super) fn describe(path: &[Wait]) -> String {
    let mut lines = Vec::with_capacity(path.len());
    for (index, wait) in path.iter().enumerate() {
        let blocker = path.get(index + 1).or(path.first()).map_or(wait.owner, |next| next.owner);
        lines.push(format!(
            "Process {} waits for {} on {}; blocked by process {}.",
            wait.owner.0, wait.mode, wait.tag, blocker.0
        ));
    }
    lines.join("\n")
}
