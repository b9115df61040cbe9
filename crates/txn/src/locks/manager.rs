//! Takes and releases locks.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_aio::sync::{Instant, Mutex, SystemTime};

use super::deadlock;
use super::error::LockError;
use super::fast::{FastList, LockOwner, Patience, RowPlace, Scope, StrongCounts};
use super::interrupt::{Interrupt, WaitEnd};
use super::mode::LockMode;
use super::table::{Table, Waiter};
use super::tag::{LockTag, OwnerId};

/// All locks of an engine.
#[derive(Debug)]
pub struct LockManager {
    pub(super) table: Mutex<Table>,
    strong: StrongCounts,
    /// Weak locks that a backend notes in a list of its own.
    noted_at_most: usize,
    /// Number of backends that wait for the end of a transaction or of a tentative insertion, or
    /// are about to.
    pub(super) xid_waits: AtomicUsize,
    /// Number of backends in queues for rows, or about to be.
    pub(super) rows: AtomicUsize,
}

impl Default for LockManager {
    fn default() -> LockManager {
        LockManager::new()
    }
}

/// A request for a lock in the table.
pub(super) struct Request<'a> {
    pub(super) owner: OwnerId,
    pub(super) tag: LockTag,
    pub(super) mode: LockMode,
    pub(super) interrupt: &'a Interrupt,
    pub(super) patience: Patience,
}

/// A request that has to wait.
pub(super) struct Queued {
    /// Set when it is granted.
    granted: Arc<AtomicBool>,
    /// Whether it was counted as a strong one.
    counted: bool,
}

impl LockManager {
    /// No locks, and room for any number of them.
    pub fn new() -> LockManager {
        LockManager::with_room(usize::MAX, usize::MAX)
    }

    /// No locks. Each of `backends` can lock `per_backend` objects (max_locks_per_transaction), or
    /// more if others lock fewer. It can note as many weak locks of relations beside the table.
    pub fn with_room(backends: usize, per_backend: usize) -> LockManager {
        LockManager {
            table: Mutex::new(Table::new(backends.saturating_mul(per_backend))),
            strong: StrongCounts::default(),
            noted_at_most: per_backend,
            xid_waits: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
        }
    }

    /// Registers a backend, which then uses [`LockManager::lock`].
    pub fn enter(&self, id: OwnerId) -> LockOwner {
        let list = Arc::new(FastList::new(self.noted_at_most));
        self.table.lock().lists.insert(id, Arc::clone(&list));
        LockOwner::new(id, list)
    }

    /// Removes a backend, with all locks that its session still has.
    pub fn leave(&self, owner: &LockOwner) {
        let mut table = self.table.lock();
        table.lists.remove(&owner.id());
        table.yielding.remove(&owner.id());
        drop(table);
        self.release_all(owner.id());
    }

    /// Lets a backend give way, or not any more (None): whoever has waited as long as it takes to
    /// search for a deadlock, and waits for a lock that this backend holds, cancels what it does.
    pub fn give_way(&self, owner: &LockOwner, interrupt: Option<Interrupt>) {
        let yielding = &mut self.table.lock().yielding;
        match interrupt {
            Some(interrupt) => yielding.insert(owner.id(), interrupt),
            None => yielding.remove(&owner.id()),
        };
    }

    /// Takes a lock for a registered backend to the end of its transaction, waiting if it must, as
    /// [`LockManager::acquire`] does, for as long as the owner's timeout says.
    pub fn lock(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        self.take(owner, tag, mode, Scope::Transaction, Some(interrupt))
    }

    /// Takes a lock to the end of the transaction, if it need not wait.
    pub fn try_lock(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
    ) -> Result<(), LockError> {
        self.take(owner, tag, mode, Scope::Transaction, None)
    }

    /// Takes a lock that ends with the session, or with as many calls of
    /// [`LockManager::unlock_session`]. Waits if there is an `interrupt` for that.
    pub fn lock_session(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
        interrupt: Option<&Interrupt>,
    ) -> Result<(), LockError> {
        self.take(owner, tag, mode, Scope::Session, interrupt)
    }

    fn take(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
        scope: Scope,
        interrupt: Option<&Interrupt>,
    ) -> Result<(), LockError> {
        let fast = tag.has_fast_path() && mode.is_weak();
        let had = owner.holds(tag, mode) || fast && owner.note(&self.strong, tag, mode);
        if !had {
            // Before the request: it may be granted at the moment in which the wait is given up.
            owner.use_table();
            match interrupt {
                Some(interrupt) => {
                    let patience = owner.patience();
                    self.wait_for(&Request { owner: owner.id(), tag, mode, interrupt, patience })?;
                }
                None => self.try_acquire(owner.id(), tag, mode)?,
            }
        }
        owner.remember(tag, mode, scope);
        Ok(())
    }

    /// Releases a lock before the transaction ends, unless the session holds it too.
    pub fn unlock(&self, owner: &mut LockOwner, tag: LockTag, mode: LockMode) {
        owner.give_up(tag, mode, Scope::Transaction);
        self.release_given_up(owner);
    }

    /// Releases a lock of the session once. False if the session does not hold it.
    pub fn unlock_session(&self, owner: &mut LockOwner, tag: LockTag, mode: LockMode) -> bool {
        let held = owner.give_up(tag, mode, Scope::Session);
        self.release_given_up(owner);
        held
    }

    /// Releases what the innermost subtransaction took, at its rollback.
    pub fn unlock_sub(&self, owner: &mut LockOwner) {
        if matches!(owner.row, Some(RowPlace::Taken(depth)) if depth == owner.depth()) {
            self.unlock_row(owner);
        }
        owner.give_up_sub();
        self.release_given_up(owner);
    }

    /// Releases all locks of a registered backend's transaction, at its end.
    pub fn unlock_all(&self, owner: &mut LockOwner) {
        self.unlock_row(owner);
        if owner.has_session_locks() {
            owner.give_up_all(Scope::Transaction);
            self.release_given_up(owner);
        } else if owner.forget_all() {
            self.release_all(owner.id());
        }
    }

    /// Releases all locks of a registered backend's session.
    pub fn unlock_all_session(&self, owner: &mut LockOwner) {
        owner.give_up_all(Scope::Session);
        self.release_given_up(owner);
    }

    fn release_given_up(&self, owner: &mut LockOwner) {
        for (tag, mode) in owner.take_given_up() {
            let fast = tag.has_fast_path() && mode.is_weak();
            if !(fast && owner.unnote(tag, mode)) {
                self.table.lock().release(&self.strong, owner.id(), tag, mode);
            }
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
        let patience = Patience::default();
        self.wait_for(&Request { owner, tag, mode, interrupt, patience })
    }

    fn wait_for(&self, request: &Request<'_>) -> Result<(), LockError> {
        let queued = self.request(&mut self.table.lock(), request)?;
        self.wait(request, queued)
    }

    /// Waits for the grant of a request that was queued.
    pub(super) fn wait(
        &self,
        request: &Request<'_>,
        queued: Option<Queued>,
    ) -> Result<(), LockError> {
        let Some(queued) = queued else { return Ok(()) };
        let Request { owner, tag, mode, interrupt, patience } = *request;
        let begin = Instant::now();
        let end = patience.timeout.and_then(|timeout| begin.checked_add(timeout));
        let search = begin.checked_add(patience.deadlock_timeout).filter(|search| {
            !patience.deadlock_timeout.is_zero() && end.is_none_or(|end| *search < end)
        });
        let granted = || queued.granted.load(Ordering::Acquire);
        let mut waited = interrupt.wait_until(granted, search.or(end));
        if search.is_some() && waited == Err(WaitEnd::TimedOut) {
            self.break_cycles(&mut self.table.lock(), owner, queued.counted)?;
            waited = interrupt.wait_until(granted, end);
        }
        waited.map_err(|error| {
            let mut table = self.table.lock();
            // A request that has left the queue was granted, and its lock is held.
            if !self.withdraw(&mut table, owner, queued.counted) {
                // Its owner does not know of it, so nothing else would release it.
                table.release(&self.strong, owner, tag, mode);
            }
            error.into()
        })
    }

    /// Takes back a request that waits. False if none does.
    fn withdraw(&self, table: &mut Table, owner: OwnerId, counted: bool) -> bool {
        let Some((tag, _)) = table.withdraw(owner) else { return false };
        table.grant_waiters(tag);
        if counted {
            self.strong.leave(tag);
        }
        true
    }

    /// Grants a request, or puts it into the queue. Fails if waiting would be a deadlock, and
    /// the request does not wait before it searches for one, or need not search.
    pub(super) fn request(
        &self,
        table: &mut Table,
        request: &Request<'_>,
    ) -> Result<Option<Queued>, LockError> {
        let Request { owner, tag, mode, interrupt, patience } = *request;
        table.check_room(tag)?;
        let counted = table.enter_strong(&self.strong, owner, tag, mode);
        let Err(position) = table.try_grant(owner, tag, mode) else { return Ok(None) };
        let at_once = patience.deadlock_timeout.is_zero() || is_mutual(table, owner, tag, mode);
        let granted = Arc::new(AtomicBool::new(false));
        let interrupt = interrupt.clone();
        let since = SystemTime::now();
        let waiter = Waiter { owner, mode, granted: Arc::clone(&granted), interrupt, since };
        table.enqueue(tag, position, waiter);
        if at_once {
            self.break_cycles(table, owner, counted)?;
        }
        Ok(Some(Queued { granted, counted }))
    }

    /// Ends the cycles of waits through a request that waits: others overtake, or it fails.
    fn break_cycles(
        &self,
        table: &mut Table,
        owner: OwnerId,
        counted: bool,
    ) -> Result<(), LockError> {
        while let Some(cycle) = deadlock::find_cycle(table, owner) {
            // As PostgreSQL: the farthest from this request, which it would rather keep waiting.
            if let Some(soft) = cycle.iter().rfind(|wait| wait.is_soft(table)) {
                table.grant_waiting(soft.owner, soft.tag);
                continue;
            }
            self.withdraw(table, owner, counted);
            return Err(LockError::Deadlock { detail: deadlock::describe(&cycle) });
        }
        deadlock::ask_to_give_way(table, owner);
        Ok(())
    }

    /// Takes a lock if it need not wait.
    pub fn try_acquire(
        &self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
    ) -> Result<(), LockError> {
        let mut table = self.table.lock();
        table.check_room(tag)?;
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
                if tag.has_fast_path() && lock.held_by(owner) & LockMode::STRONG != 0 {
                    self.strong.leave(tag);
                }
                lock.granted.retain(|(o, _)| *o != owner);
            }
            table.grant_waiters(tag);
        }
    }

    /// Releases one mode in the table.
    pub(super) fn release_one(&self, owner: OwnerId, tag: LockTag, mode: LockMode) {
        self.table.lock().release(&self.strong, owner, tag, mode);
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

/// Whether a request waits for one of the lock's other waiters, which waits for its owner. As in
/// PostgreSQL, such a deadlock is found at once.
fn is_mutual(table: &Table, owner: OwnerId, tag: LockTag, mode: LockMode) -> bool {
    table.locks.get(&tag).is_some_and(|lock| {
        let held = lock.held_by(owner);
        lock.queue.iter().any(|waiter| {
            held & waiter.mode.conflicts() != 0
                && lock.held_by(waiter.owner) & mode.conflicts() != 0
        })
    })
}
