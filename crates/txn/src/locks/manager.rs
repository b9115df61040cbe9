//! Takes and releases locks.

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicBool, Ordering};

use super::deadlock;
use super::error::LockError;
use super::fast::{FastList, LockOwner, StrongCounts};
use super::interrupt::Interrupt;
use super::mode::LockMode;
use super::table::{Table, Waiter};
use super::tag::{LockTag, OwnerId};

/// All locks of an engine.
#[derive(Debug, Default)]
pub struct LockManager {
    table: Mutex<Table>,
    strong: StrongCounts,
}

/// A request that has to wait.
struct Queued {
    /// Set when it is granted.
    granted: Arc<AtomicBool>,
    /// Whether it was counted as a strong one.
    counted: bool,
}

impl LockManager {
    /// No locks.
    pub fn new() -> LockManager {
        LockManager::default()
    }

    /// Registers a backend, which then uses [`LockManager::lock`].
    pub fn enter(&self, id: OwnerId) -> LockOwner {
        let list = Arc::new(FastList::default());
        self.table.lock().lists.insert(id, Arc::clone(&list));
        LockOwner::new(id, list)
    }

    /// Removes a backend that holds nothing.
    pub fn leave(&self, owner: &LockOwner) {
        self.table.lock().lists.remove(&owner.id());
    }

    /// Takes a lock for a registered backend, waiting if it must, as [`LockManager::acquire`] does.
    pub fn lock(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        if owner.holds(tag, mode) {
            return Ok(());
        }
        if !mode.is_weak() || !owner.note(&self.strong, tag, mode) {
            // Before the request: it may be granted at the moment in which the wait is given up.
            owner.use_table();
            self.acquire(owner.id(), tag, mode, interrupt)?;
        }
        owner.remember(tag, mode);
        Ok(())
    }

    /// Releases all locks of a registered backend, at the end of its transaction.
    pub fn unlock_all(&self, owner: &mut LockOwner) {
        if owner.forget_all() {
            self.release_all(owner.id());
        }
    }

    /// Takes a lock in the table, waiting if it must. A request to `interrupt` ends the wait.
    ///
    /// The caller must have no staged I/O: the lock's holder might wait for it.
    pub fn acquire(
        &self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        let Some(Queued { granted, counted }) = self.request(owner, tag, mode, interrupt)? else {
            return Ok(());
        };
        interrupt.wait_until(|| granted.load(Ordering::Acquire)).map_err(|kind| {
            let mut table = self.table.lock();
            // A request that has left the queue was granted, and its lock is held.
            if table.withdraw(owner, tag) && counted {
                self.strong.leave(tag);
            }
            table.grant_waiters(tag);
            LockError::Interrupted(kind)
        })
    }

    /// Grants a request, or puts it into the queue. Fails if waiting would be a deadlock.
    fn request(
        &self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<Option<Queued>, LockError> {
        let mut table = self.table.lock();
        let counted = table.enter_strong(&self.strong, owner, tag, mode);
        let Err(position) = table.try_grant(owner, tag, mode) else { return Ok(None) };
        let granted = Arc::new(AtomicBool::new(false));
        let interrupt = interrupt.clone();
        let waiter = Waiter { owner, mode, granted: Arc::clone(&granted), interrupt };
        table.enqueue(tag, position, waiter);
        let Some(detail) = deadlock::find_cycle(&table, owner) else {
            return Ok(Some(Queued { granted, counted }));
        };
        table.withdraw(owner, tag);
        let lock = table.locks.get(&tag);
        if !lock.is_some_and(|lock| lock.conflicts_with_holder(owner, mode)) {
            // Only the order of the queue makes the cycle: overtake the waiters.
            table.grant(owner, tag, mode);
            return Ok(None);
        }
        table.grant_waiters(tag);
        if counted {
            self.strong.leave(tag);
        }
        Err(LockError::Deadlock { detail })
    }

    /// Takes a lock if it need not wait.
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

    /// Releases all that `owner` holds in the table.
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

    /// Whether `owner` holds `tag` in `mode`, in the table.
    pub fn holds(&self, owner: OwnerId, tag: LockTag, mode: LockMode) -> bool {
        let table = self.table.lock();
        table.locks.get(&tag).is_some_and(|lock| lock.held_by(owner) & mode.bit() != 0)
    }

    /// Number of owners that wait for a lock.
    pub fn waits(&self) -> usize {
        self.table.lock().waiting.len()
    }

    /// Number of requests that wait for `tag`.
    pub fn waiters(&self, tag: LockTag) -> usize {
        self.table.lock().locks.get(&tag).map_or(0, |lock| lock.queue.len())
    }
}
