//! The lock table. Weak locks may be elsewhere: see `fast.rs`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};

use super::deadlock;
use super::fast::{FastList, StrongCounts};
use super::{Interrupt, LockError, LockMode, LockOwner, LockTag, OwnerId};

/// All relation locks of an engine.
#[derive(Debug, Default)]
pub struct LockManager {
    table: Mutex<Table>,
    pub(super) strong: StrongCounts,
}

/// What the mutex protects.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) locks: HashMap<LockTag, Lock>,
    /// The locks each owner holds, in the order taken.
    held: HashMap<OwnerId, Vec<LockTag>>,
    /// What each sleeping owner waits for.
    pub(super) waiting: HashMap<OwnerId, LockTag>,
    /// The weak locks of backends that are not here.
    lists: HashMap<OwnerId, Arc<FastList>>,
}

/// One lockable thing.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Owners and the set of modes each of them holds.
    pub(super) granted: Vec<(OwnerId, u16)>,
    /// Requests in the order in which they will be granted.
    pub(super) queue: VecDeque<Waiter>,
}

/// A queued request.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: OwnerId,
    pub(super) mode: LockMode,
    granted: Arc<AtomicBool>,
    interrupt: Interrupt,
}

impl Lock {
    /// The modes that `owner` holds.
    fn held_by(&self, owner: OwnerId) -> u16 {
        self.granted.iter().find(|(o, _)| *o == owner).map_or(0, |(_, modes)| *modes)
    }

    /// Whether someone else holds a mode that `mode` cannot stand beside.
    fn conflicts_with_holder(&self, owner: OwnerId, mode: LockMode) -> bool {
        self.granted.iter().any(|(o, modes)| *o != owner && modes & mode.conflicts() != 0)
    }

    /// Where a request goes: behind everyone, but ahead of the first who waits for something
    /// `owner` holds, as that one could not be granted before `owner` is done anyway.
    fn queue_position(&self, held: u16) -> usize {
        self.queue.iter().position(|w| w.mode.conflicts() & held != 0).unwrap_or(self.queue.len())
    }

    fn grant(&mut self, owner: OwnerId, mode: LockMode) {
        match self.granted.iter_mut().find(|(o, _)| *o == owner) {
            Some((_, modes)) => *modes |= mode.bit(),
            None => self.granted.push((owner, mode.bit())),
        }
    }
}

impl Table {
    fn grant(&mut self, owner: OwnerId, tag: LockTag, mode: LockMode) {
        let lock = self.locks.entry(tag).or_default();
        if lock.held_by(owner) == 0 {
            self.held.entry(owner).or_default().push(tag);
        }
        lock.grant(owner, mode);
    }

    /// Counts a request in a strong mode, and brings all locks of its relation here. False if it is
    /// none, or the owner has such a lock already.
    fn enter_strong(
        &mut self,
        strong: &StrongCounts,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
    ) -> bool {
        let held = self.locks.get(&tag).map_or(0, |lock| lock.held_by(owner));
        if mode.bit() & LockMode::STRONG == 0 || held & LockMode::STRONG != 0 {
            return false;
        }
        strong.enter(tag);
        let mut found = Vec::new();
        for (owner, list) in &self.lists {
            list.take(tag, |mode| found.push((*owner, mode)));
        }
        for (owner, mode) in found {
            self.grant(owner, tag, mode);
        }
        true
    }

    /// Grants from the front of the queue all that can be granted without overtaking a conflicting
    /// request.
    fn grant_waiters(&mut self, tag: LockTag) {
        let Some(lock) = self.locks.get_mut(&tag) else { return };
        let mut ready = Vec::new();
        let mut ahead = 0u16;
        let mut index = 0;
        while let Some(waiter) = lock.queue.get(index) {
            let (owner, mode) = (waiter.owner, waiter.mode);
            if mode.conflicts() & ahead == 0 && !lock.conflicts_with_holder(owner, mode) {
                // Entered among the holders at once: the next waiter must see it.
                let fresh = lock.held_by(owner) == 0;
                lock.grant(owner, mode);
                if let Some(waiter) = lock.queue.remove(index) {
                    ready.push((waiter, fresh));
                }
            } else {
                ahead |= mode.bit();
                index += 1;
            }
        }
        for (waiter, fresh) in ready {
            if fresh {
                self.held.entry(waiter.owner).or_default().push(tag);
            }
            self.waiting.remove(&waiter.owner);
            waiter.granted.store(true, Ordering::Release);
            waiter.interrupt.notify();
        }
        self.forget_if_unused(tag);
    }

    fn forget_if_unused(&mut self, tag: LockTag) {
        if self.locks.get(&tag).is_some_and(|lock| lock.granted.is_empty() && lock.queue.is_empty())
        {
            self.locks.remove(&tag);
        }
    }

    /// Takes `owner`'s request out of the queue; false if it is not there (it was granted).
    fn withdraw(&mut self, owner: OwnerId, tag: LockTag) -> bool {
        let Some(lock) = self.locks.get_mut(&tag) else { return false };
        let Some(index) = lock.queue.iter().position(|w| w.owner == owner) else { return false };
        lock.queue.remove(index);
        self.waiting.remove(&owner);
        true
    }

    /// Grants without waiting if nothing stands against it; otherwise tells where in the queue the
    /// request belongs.
    fn try_grant(&mut self, owner: OwnerId, tag: LockTag, mode: LockMode) -> Result<(), usize> {
        let lock = self.locks.entry(tag).or_default();
        let held = lock.held_by(owner);
        if held & mode.bit() != 0 {
            return Ok(());
        }
        let position = lock.queue_position(held);
        let overtakes =
            lock.queue.iter().take(position).any(|w| w.mode.bit() & mode.conflicts() != 0);
        if overtakes || lock.conflicts_with_holder(owner, mode) {
            return Err(position);
        }
        self.grant(owner, tag, mode);
        Ok(())
    }
}

impl LockManager {
    /// An empty table.
    pub fn new() -> LockManager {
        LockManager::default()
    }

    /// Enters a backend, which then uses [`LockManager::lock`].
    pub fn enter(&self, id: OwnerId) -> LockOwner {
        let list = Arc::new(FastList::default());
        self.table.lock().lists.insert(id, Arc::clone(&list));
        LockOwner::new(id, list)
    }

    /// A backend that holds nothing goes.
    pub fn leave(&self, owner: &LockOwner) {
        self.table.lock().lists.remove(&owner.id());
    }

    /// Takes a lock in the table, waiting for it if need be. The wait ends early when `interrupt`
    /// is pulled.
    ///
    /// The caller must have no staged I/O: whoever holds the lock might wait for it.
    pub fn acquire(
        &self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        let (granted, counted) = {
            let mut table = self.table.lock();
            let counted = table.enter_strong(&self.strong, owner, tag, mode);
            let position = match table.try_grant(owner, tag, mode) {
                Ok(()) => return Ok(()),
                Err(position) => position,
            };
            let granted = Arc::new(AtomicBool::new(false));
            let waiter =
                Waiter { owner, mode, granted: granted.clone(), interrupt: interrupt.clone() };
            table.locks.entry(tag).or_default().queue.insert(position, waiter);
            table.waiting.insert(owner, tag);
            if let Some(circle) = deadlock::find_circle(&table, owner) {
                table.withdraw(owner, tag);
                let held_by_another = table
                    .locks
                    .get(&tag)
                    .is_some_and(|lock| lock.conflicts_with_holder(owner, mode));
                if !held_by_another {
                    // Only the order of the queue closes the circle: leave the order.
                    table.grant(owner, tag, mode);
                    return Ok(());
                }
                table.grant_waiters(tag);
                if counted {
                    self.strong.leave(tag);
                }
                return Err(LockError::Deadlock { detail: circle });
            }
            (granted, counted)
        };
        match interrupt.wait_until(|| granted.load(Ordering::Acquire)) {
            Ok(()) => Ok(()),
            Err(kind) => {
                let mut table = self.table.lock();
                // If it is not in the queue any more it was granted, and is held.
                if table.withdraw(owner, tag) && counted {
                    self.strong.leave(tag);
                }
                table.grant_waiters(tag);
                Err(LockError::Interrupted(kind))
            }
        }
    }

    /// Takes a lock if that needs no waiting.
    pub fn try_acquire(
        &self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
    ) -> Result<(), LockError> {
        let mut table = self.table.lock();
        let counted = table.enter_strong(&self.strong, owner, tag, mode);
        table.try_grant(owner, tag, mode).map_err(|_| {
            if counted {
                self.strong.leave(tag);
            }
            table.forget_if_unused(tag);
            LockError::NotAvailable { tag }
        })
    }

    /// Gives back all that `owner` holds: the end of its transaction.
    pub fn release_all(&self, owner: OwnerId) {
        let mut table = self.table.lock();
        let Some(tags) = table.held.remove(&owner) else { return };
        for tag in tags {
            if let Some(lock) = table.locks.get_mut(&tag) {
                if lock.held_by(owner) & LockMode::STRONG != 0 {
                    self.strong.leave(tag);
                }
                lock.granted.retain(|(o, _)| *o != owner);
            }
            table.grant_waiters(tag);
        }
    }

    /// Whether `owner` holds `tag` in `mode`.
    pub fn holds(&self, owner: OwnerId, tag: LockTag, mode: LockMode) -> bool {
        let table = self.table.lock();
        table.locks.get(&tag).is_some_and(|lock| lock.held_by(owner) & mode.bit() != 0)
    }

    /// How many owners wait for a lock.
    pub fn waits(&self) -> usize {
        self.table.lock().waiting.len()
    }

    /// How many requests wait for `tag`.
    pub fn waiters(&self, tag: LockTag) -> usize {
        self.table.lock().locks.get(&tag).map_or(0, |lock| lock.queue.len())
    }
}
