//! The queue for a row.
//!
//! A row's holders stand in its xmax, and a backend waits for a row by waiting for their
//! transactions. The queue decides which of the waiting backends goes first: it is a lock on the
//! row's tuple tag. The first backend holds that lock while it waits for the holders, and then to
//! the end of the transaction that has the row, so that the next backend wakes up once, when it can
//! have the row. The tag only orders: who holds the row is what its xmax says.
//!
//! An update moves a row to a new place, and the queue moves with it: [`LockManager::row_moved`].
//! The queue is then found at the row's last place and at the one before, which is the row's place
//! again if the update is rolled back.
//!
//! Between the end of a holder and the moment in which the first of the queue has the row, the row
//! looks free. [`LockManager::row_is_promised`] tells those who find it so that they have to queue.
//! Otherwise a session that updates one row again and again would overtake all others.
//!
//! ```text
//! wait:   blocked by xmax -- lock_row -- blocked still? -- wait for the transactions -- again
//! done:   row_taken(place): the lock stays until the transaction or its subtransaction ends
//! update: row_moved(old place, new place)
//! else:   give_up_row
//! ```
//!
//! A backend has one such lock at most. It gives up the one of a row that it has taken before it
//! queues for another row: those behind it then wait for its transaction.

use forebay_aio::sync::atomic::Ordering;
use forebay_format::Xid;

use super::error::LockError;
use super::fast::{LockOwner, RowPlace};
use super::interrupt::Interrupt;
use super::manager::{LockManager, Request};
use super::mode::LockMode;
use super::table::Table;
use super::tag::{LockTag, OwnerId};

impl LockManager {
    /// Queues for the row at a place, and waits until it is first. Nothing happens if it is.
    pub fn lock_row(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        if matches!(owner.row, Some(RowPlace::Taken(_))) {
            self.unlock_row(owner);
        }
        if owner.row.is_none() {
            // Before the request, so that nobody overlooks the queue.
            self.rows.fetch_add(1, Ordering::SeqCst);
            owner.row = Some(RowPlace::Wanted);
        }
        let (request, queued) = {
            let mut table = self.table.lock();
            let tag = table.row(tag);
            if let Some(other) = table.row_of(owner.id()).filter(|held| *held != tag) {
                table.leave_row(owner.id(), other);
            }
            let patience = owner.patience();
            let request = Request { owner: owner.id(), tag, mode, interrupt, patience };
            let queued = self.request(&mut table, &request);
            (request, queued)
        };
        let locked = queued.and_then(|queued| self.wait(&request, queued));
        if locked.is_err() {
            self.unlock_row(owner);
        }
        locked
    }

    /// The backend, if it was in the queue for a row, has the row now: its version at this place.
    pub fn row_taken(&self, owner: &mut LockOwner, at: LockTag) {
        let depth = owner.depth();
        if let Some(place @ RowPlace::Wanted) = &mut owner.row {
            *place = RowPlace::Taken(depth);
            self.table.lock().settle_row(owner.id(), at);
        }
    }

    /// Leaves the queue for a row that the backend has not taken.
    pub fn give_up_row(&self, owner: &mut LockOwner) {
        if matches!(owner.row, Some(RowPlace::Wanted)) {
            self.unlock_row(owner);
        }
    }

    /// Lets the next backend have the row.
    pub(super) fn unlock_row(&self, owner: &mut LockOwner) {
        if owner.row.take().is_none() {
            return;
        }
        let mut table = self.table.lock();
        if let Some(tag) = table.row_of(owner.id()) {
            table.leave_row(owner.id(), tag);
        }
        drop(table);
        self.rows.fetch_sub(1, Ordering::SeqCst);
    }

    /// A row has moved from one place to another, by an update that may not have committed.
    pub fn row_moved(&self, from: LockTag, to: LockTag) {
        if from != to && self.rows.load(Ordering::SeqCst) != 0 {
            self.table.lock().move_row(from, to);
        }
    }

    /// Whether a row that nobody holds is that of a backend in its queue, which only has to take
    /// it: a request of `owner` in this mode has to queue. `runs` tells whether a transaction runs.
    pub fn row_is_promised(
        &self,
        owner: OwnerId,
        tag: LockTag,
        mode: LockMode,
        runs: impl Fn(Xid) -> bool,
    ) -> bool {
        if self.rows.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let table = self.table.lock();
        let Some(lock) = table.locks.get(&table.row(tag)) else { return false };
        lock.granted.iter().any(|&(first, modes)| {
            first != owner
                && modes & mode.conflicts() != 0
                && match table.waiting.get(&first) {
                    None => true,
                    Some(LockTag::Transaction(xid)) => !runs(*xid),
                    Some(_) => false,
                }
        })
    }
}

impl Table {
    /// The tag at which the queue for the row at a place is found.
    fn row(&self, tag: LockTag) -> LockTag {
        match self.moved.get(&tag) {
            Some(now) if !self.locks.contains_key(&tag) => *now,
            _ => tag,
        }
    }

    /// The row for which a backend is first.
    fn row_of(&self, owner: OwnerId) -> Option<LockTag> {
        let is_row = |tag: &&LockTag| matches!(tag, LockTag::Tuple { .. });
        self.held.get(&owner)?.iter().find(is_row).copied()
    }

    /// Releases all modes in which a backend holds a row's tag.
    fn leave_row(&mut self, owner: OwnerId, tag: LockTag) {
        if let Some(tags) = self.held.get_mut(&owner) {
            tags.retain(|held| *held != tag);
        }
        if let Some(lock) = self.locks.get_mut(&tag) {
            lock.granted.retain(|(holder, _)| *holder != owner);
        }
        self.grant_waiters(tag);
    }

    /// The queue whose first backend has taken the row is found at that version alone. Others may
    /// be removed, and their places used for other rows.
    fn settle_row(&mut self, owner: OwnerId, at: LockTag) {
        let Some(held) = self.row_of(owner) else { return };
        if held != at {
            if self.locks.contains_key(&at) {
                return self.leave_row(owner, held);
            }
            self.move_row(held, at);
        }
        let before = self.locks.get_mut(&at).and_then(|lock| lock.before.take());
        if let Some(before) = before
            && self.moved.get(&before) == Some(&at)
        {
            self.moved.remove(&before);
        }
    }

    fn move_row(&mut self, from: LockTag, to: LockTag) {
        let at = self.row(from);
        if at == to || self.locks.contains_key(&to) {
            return;
        }
        let Some(mut lock) = self.locks.remove(&at) else { return };
        self.forget_place(&lock, at);
        for (holder, _) in &lock.granted {
            let tags = self.held.get_mut(holder).into_iter().flatten();
            tags.filter(|held| **held == at).for_each(|held| *held = to);
        }
        for waiter in &lock.queue {
            self.waiting.insert(waiter.owner, to);
        }
        lock.before = Some(from);
        self.moved.insert(from, to);
        self.locks.insert(to, lock);
    }
}
