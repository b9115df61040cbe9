//! What the lock table shows (pg_locks, pg_blocking_pids).

use forebay_aio::sync::SystemTime;

use super::deadlock;
use super::manager::LockManager;
use super::mode::LockMode;
use super::tag::{LockTag, OwnerId};

/// A lock that is held or waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockInfo {
    /// The locked object.
    pub tag: LockTag,
    /// Who holds it, or waits for it.
    pub owner: OwnerId,
    /// How.
    pub mode: LockMode,
    /// Whether it is held.
    pub granted: bool,
    /// Whether it is in a backend's list of weak locks, not in the table.
    pub fast: bool,
    /// Since when it is waited for; None if it is held.
    pub wait_start: Option<SystemTime>,
}

impl LockManager {
    /// All locks that are held or waited for, as of one moment but for weak locks that backends
    /// take meanwhile. Ids of running transactions are locks too, which the caller adds: here are
    /// only those that somebody waits for.
    pub fn list(&self) -> Vec<LockInfo> {
        let table = self.table.lock();
        let mut all = Vec::new();
        for (&tag, lock) in &table.locks {
            for &(owner, modes) in &lock.granted {
                let held = LockMode::ALL.into_iter().filter(|mode| modes & mode.bit() != 0);
                all.extend(held.map(|mode| LockInfo {
                    tag,
                    owner,
                    mode,
                    granted: true,
                    fast: false,
                    wait_start: None,
                }));
            }
            all.extend(lock.queue.iter().map(|waiter| {
                let (owner, mode, wait_start) = (waiter.owner, waiter.mode, Some(waiter.since));
                LockInfo { tag, owner, mode, granted: false, fast: false, wait_start }
            }));
        }
        for (&owner, list) in &table.lists {
            let noted = list.entries().into_iter();
            all.extend(noted.map(|(tag, mode)| LockInfo {
                tag,
                owner,
                mode,
                granted: true,
                fast: true,
                wait_start: None,
            }));
        }
        all
    }

    /// The backends that hold a lock in a mode which conflicts with `mode`.
    pub fn holders(&self, tag: LockTag, mode: LockMode) -> Vec<OwnerId> {
        let table = self.table.lock();
        let held = table.locks.get(&tag).map_or(&[][..], |lock| &lock.granted);
        let held = held.iter().filter(|(_, modes)| modes & mode.conflicts() != 0);
        let mut owners: Vec<OwnerId> = held.map(|(owner, _)| *owner).collect();
        for (owner, list) in &table.lists {
            let conflicts =
                |(noted, weak): &(LockTag, LockMode)| *noted == tag && weak.conflicts_with(mode);
            if list.entries().iter().any(conflicts) && !owners.contains(owner) {
                owners.push(*owner);
            }
        }
        owners.sort_unstable();
        owners
    }

    /// The backends for which `owner` waits: holders of conflicting modes, and those that asked for
    /// such modes before. Empty if it does not wait.
    pub fn blocked_by(&self, owner: OwnerId) -> Vec<OwnerId> {
        deadlock::blocked_by(&self.table.lock(), owner)
    }
}
