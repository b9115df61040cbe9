//! The waits-for graph.
//!
//! A sleeping owner waits for everyone who holds a mode in conflict with its request, and for
//! everyone queued ahead of it with such a request. An owner sleeps on one lock at a time, so the
//! graph follows from the table and is never stored.

use super::manager::Table;
use super::{LockMode, LockTag, OwnerId};

/// One wait: who, for what.
struct Wait {
    owner: OwnerId,
    tag: LockTag,
    mode: LockMode,
}

/// Looks for a circle of waits through `start`, which must be queued. Returns its description, one
/// line a wait.
pub(super) fn find_circle(table: &Table, start: OwnerId) -> Option<String> {
    let mut path = Vec::new();
    let mut seen = Vec::new();
    search(table, start, start, &mut path, &mut seen).then(|| describe(&path))
}

/// Depth first; `path` holds the waits from `start` to `owner`.
fn search(
    table: &Table,
    start: OwnerId,
    owner: OwnerId,
    path: &mut Vec<Wait>,
    seen: &mut Vec<OwnerId>,
) -> bool {
    let Some(tag) = table.waiting.get(&owner).copied() else { return false };
    let Some(lock) = table.locks.get(&tag) else { return false };
    let Some(position) = lock.queue.iter().position(|w| w.owner == owner) else { return false };
    let Some(mode) = lock.queue.get(position).map(|w| w.mode) else { return false };

    path.push(Wait { owner, tag, mode });
    let holders =
        lock.granted.iter().filter(|(o, modes)| *o != owner && modes & mode.conflicts() != 0);
    let ahead = lock.queue.iter().take(position).filter(|w| w.mode.conflicts_with(mode));
    for next in holders.map(|(o, _)| *o).chain(ahead.map(|w| w.owner)) {
        if next == start {
            return true;
        }
        if !seen.contains(&next) {
            seen.push(next);
            if search(table, start, next, path, seen) {
                return true;
            }
        }
    }
    path.pop();
    false
}

fn describe(path: &[Wait]) -> String {
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
