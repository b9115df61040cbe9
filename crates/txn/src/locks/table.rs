//! The lock table: who holds what, and who waits for it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use forebay_aio::sync::SystemTime;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};

use super::error::LockError;
use super::fast::{FastList, StrongCounts};
use super::interrupt::Interrupt;
use super::mode::LockMode;
use super::tag::{LockTag, OwnerId};

/// All locks that are not in the lists of weak locks (see `fast.rs`).
#[derive(Debug)]
pub(super) struct Table {
    pub(super) locks: HashMap<LockTag, Lock>,
    /// Objects for which there is room.
    room: usize,
    /// The locks that each owner holds, in the order in which it took them.
    pub(super) held: HashMap<OwnerId, Vec<LockTag>>,
    /// What each waiting owner waits for.
    pub(super) waiting: HashMap<OwnerId, LockTag>,
    /// Where the queue for a row is found that was at a place before.
    pub(super) moved: HashMap<LockTag, LockTag>,
    /// The list of weak locks of each backend.
    pub(super) lists: HashMap<OwnerId, Arc<FastList>>,
    /// The backends that give way to others.
    pub(super) yielding: HashMap<OwnerId, Interrupt>,
}

/// A locked object.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Owners, and the set of modes that each of them holds.
    pub(super) granted: Vec<(OwnerId, u16)>,
    /// Waiting requests, in the order in which they will be granted.
    pub(super) queue: VecDeque<Waiter>,
    /// The place of the row before this one, if it is a row and has moved.
    pub(super) before: Option<LockTag>,
}

/// A waiting request.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: OwnerId,
    pub(super) mode: LockMode,
    pub(super) granted: Arc<AtomicBool>,
    pub(super) interrupt: Interrupt,
    /// When it began to wait.
    pub(super) since: SystemTime,
}

impl Lock {
    /// The modes that `owner` holds.
    pub(super) fn held_by(&self, owner: OwnerId) -> u16 {
        self.granted.iter().find(|(o, _)| *o == owner).map_or(0, |(_, modes)| *modes)
    }

    /// Whether another owner holds a mode that conflicts with `mode`.
    pub(super) fn conflicts_with_holder(&self, owner: OwnerId, mode: LockMode) -> bool {
        self.granted.iter().any(|(o, modes)| *o != owner && modes & mode.conflicts() != 0)
    }

    /// The place of a request of an owner that holds the modes `held`: the end of the queue, or
    /// before the first waiter that one of those modes keeps waiting anyway.
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
    /// No locks, and room for those of `room` objects.
    pub(super) fn new(room: usize) -> Table {
        Table {
            locks: HashMap::new(),
            room,
            held: HashMap::new(),
            waiting: HashMap::new(),
            moved: HashMap::new(),
            lists: HashMap::new(),
            yielding: HashMap::new(),
        }
    }

    /// Fails if there is no room for a lock of another object.
    pub(super) fn check_room(&self, tag: LockTag) -> Result<(), LockError> {
        if self.locks.len() < self.room || self.locks.contains_key(&tag) {
            return Ok(());
        }
        Err(LockError::TableFull)
    }

    pub(super) fn grant(&mut self, owner: OwnerId, tag: LockTag, mode: LockMode) {
        let lock = self.locks.entry(tag).or_default();
        if lock.held_by(owner) == 0 {
            self.held.entry(owner).or_default().push(tag);
        }
        lock.grant(owner, mode);
    }

    /// Counts a request for a strong mode, and moves all weak locks on the object into the table.
    /// False if the mode is weak, or the owner holds a strong mode already, or weak locks on it are
    /// always in the table.
    pub(super) fn enter_strong(
        &mut self,
        strong: &StrongCounts,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
    ) -> bool {
        let held = self.locks.get(&tag).map_or(0, |lock| lock.held_by(owner));
        let counted = tag.has_fast_path() && mode.is_strong();
        if !counted || held & LockMode::STRONG != 0 {
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

    /// Grants a lock without noting it for its owner, who knows nothing of it.
    pub(super) fn hold_for(&mut self, owner: OwnerId, tag: LockTag, mode: LockMode) {
        self.locks.entry(tag).or_default().grant(owner, mode);
    }

    /// Releases a lock that was granted by [`Table::hold_for`], if there is one.
    pub(super) fn drop_held_for(&mut self, tag: LockTag, mode: LockMode) {
        if let Some(lock) = self.locks.get_mut(&tag) {
            lock.granted.retain(|(_, modes)| *modes != mode.bit());
            self.grant_waiters(tag);
        }
    }

    /// The same, if nobody waits for it.
    pub(super) fn drop_if_unwanted(&mut self, tag: LockTag, mode: LockMode) {
        if self.locks.get(&tag).is_some_and(|lock| lock.queue.is_empty()) {
            self.drop_held_for(tag, mode);
        }
    }

    /// Releases one mode. The next requests are granted.
    pub(super) fn release(
        &mut self,
        strong: &StrongCounts,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
    ) {
        let Some(lock) = self.locks.get_mut(&tag) else { return };
        let held = lock.held_by(owner);
        let kept = held & !mode.bit();
        if tag.has_fast_path() && held & LockMode::STRONG != 0 && kept & LockMode::STRONG == 0 {
            strong.leave(tag);
        }
        lock.granted.retain_mut(|(o, modes)| {
            if *o == owner {
                *modes = kept;
            }
            *modes != 0
        });
        if held != 0
            && kept == 0
            && let Some(tags) = self.held.get_mut(&owner)
        {
            tags.retain(|held| *held != tag);
        }
        self.grant_waiters(tag);
    }

    /// Grants every waiting request that conflicts with no holder and with no earlier waiter.
    pub(super) fn grant_waiters(&mut self, tag: LockTag) {
        let mut ahead = 0u16;
        let mut index = 0;
        while let Some(lock) = self.locks.get(&tag)
            && let Some(waiter) = lock.queue.get(index)
        {
            let (owner, mode) = (waiter.owner, waiter.mode);
            if mode.conflicts() & ahead == 0 && !lock.conflicts_with_holder(owner, mode) {
                // The next waiter must already see this one among the holders.
                self.grant_waiting(owner, tag);
            } else {
                ahead |= mode.bit();
                index += 1;
            }
        }
        self.forget_if_unused(tag);
    }

    /// Grants a waiting request that conflicts with no holder.
    pub(super) fn grant_waiting(&mut self, owner: OwnerId, tag: LockTag) {
        let Some((_, waiter)) = self.withdraw(owner) else { return };
        self.grant(owner, tag, waiter.mode);
        waiter.granted.store(true, Ordering::Release);
        waiter.interrupt.notify();
    }

    pub(super) fn forget_if_unused(&mut self, tag: LockTag) {
        let unused = |lock: &&Lock| lock.granted.is_empty() && lock.queue.is_empty();
        if self.locks.get(&tag).filter(unused).is_some()
            && let Some(lock) = self.locks.remove(&tag)
        {
            self.forget_place(&lock, tag);
        }
    }

    /// The queue at `tag` is no longer found at the place before.
    pub(super) fn forget_place(&mut self, lock: &Lock, tag: LockTag) {
        if let Some(before) = lock.before
            && self.moved.get(&before) == Some(&tag)
        {
            self.moved.remove(&before);
        }
    }

    /// Removes `owner`'s request from its queue. None if it is in none: it was granted.
    pub(super) fn withdraw(&mut self, owner: OwnerId) -> Option<(LockTag, Waiter)> {
        let tag = self.waiting.remove(&owner)?;
        let lock = self.locks.get_mut(&tag)?;
        let index = lock.queue.iter().position(|w| w.owner == owner)?;
        Some((tag, lock.queue.remove(index)?))
    }

    /// Grants a request that need not wait. Otherwise returns its place in the queue.
    pub(super) fn try_grant(
        &mut self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
    ) -> Result<(), usize> {
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

    /// Puts a request into the queue.
    pub(super) fn enqueue(&mut self, tag: LockTag, position: usize, waiter: Waiter) {
        self.waiting.insert(waiter.owner, tag);
        self.locks.entry(tag).or_default().queue.insert(position, waiter);
    }
}
