//! Waiting for the end of a transaction, or of a tentative insertion.
//!
//! A transaction does not lock its own id: most ids are never waited for. A backend that waits puts
//! the lock into the table on behalf of the transaction's backend, after it has counted itself, and
//! asks then whether the transaction runs. The end of a transaction leaves the running set first,
//! and looks at the count then. So one of the two finds the other.
//!
//! ```text
//! wait: count + 1 -- runs? -- lock granted to its backend -- queue     (over: count - 1)
//! end:  leaves the running set -- count is 0? -- nothing to do         (otherwise: the table)
//! ```
//!
//! A transaction that may have no id is waited for in the same way, by its virtual id: its session
//! shows that in place of the running set. So is a tentative insertion, where its backend's token
//! takes that place.

use forebay_aio::sync::atomic::Ordering;
use forebay_format::Xid;

use super::error::LockError;
use super::fast::LockOwner;
use super::interrupt::Interrupt;
use super::manager::{LockManager, Request};
use super::mode::LockMode;
use super::table::Table;
use super::tag::{LockTag, OwnerId};

impl LockManager {
    /// Waits until a transaction or subtransaction of another backend has left the running set.
    /// `runner` tells which backend runs it, and None once it is over. It asks under the mutex of
    /// the running set, which orders the two sides.
    ///
    /// Waiting for a row is this. The wait is part of the graph in which deadlocks are searched.
    pub fn wait_for_transaction(
        &self,
        owner: &LockOwner,
        xid: Xid,
        runner: impl Fn() -> Option<OwnerId>,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        self.wait_counted(owner, LockTag::Transaction(xid), |_| runner(), interrupt)
    }

    /// Waits until a transaction that may have no id is over. `runner` tells which backend runs it,
    /// and None once it is over.
    pub fn wait_for_virtual(
        &self,
        owner: &LockOwner,
        (backend, local): (u32, u32),
        runner: impl Fn() -> Option<OwnerId>,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        let tag = LockTag::VirtualTransaction { backend, local };
        self.wait_counted(owner, tag, |_| runner(), interrupt)
    }

    /// Wakes those who wait for a transaction that is over for all who ask.
    pub fn virtual_ended(&self, (backend, local): (u32, u32)) {
        if self.xid_waits.load(Ordering::SeqCst) != 0 {
            let tag = LockTag::VirtualTransaction { backend, local };
            self.table.lock().drop_held_for(tag, LockMode::Exclusive);
        }
    }

    /// Waits until a tentative insertion of another backend's transaction is confirmed or taken
    /// back. `runner` is as in [`LockManager::wait_for_transaction`].
    pub fn wait_for_insertion(
        &self,
        owner: &LockOwner,
        (xid, token): (Xid, u32),
        runner: impl Fn() -> Option<OwnerId>,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        let inserts = |table: &Table, runner: &OwnerId| {
            let list = table.lists.get(runner);
            list.is_some_and(|list| list.insertion.load(Ordering::SeqCst) == token)
        };
        let tag = LockTag::Insertion { xid, token };
        let runner = |table: &Table| runner().filter(|runner| inserts(table, runner));
        self.wait_counted(owner, tag, runner, interrupt)
    }

    /// Wakes those who wait for the tentative insertion that a backend has begun.
    pub fn insertion_ended(&self, owner: &LockOwner, xid: Xid, token: u32) {
        owner.end_insertion();
        if self.xid_waits.load(Ordering::SeqCst) != 0 {
            let tag = LockTag::Insertion { xid, token };
            self.table.lock().drop_held_for(tag, LockMode::Exclusive);
        }
    }

    fn wait_counted(
        &self,
        owner: &LockOwner,
        tag: LockTag,
        runner: impl Fn(&Table) -> Option<OwnerId>,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        self.xid_waits.fetch_add(1, Ordering::SeqCst);
        let result = self.wait_for_end(owner, tag, runner, interrupt);
        self.xid_waits.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn wait_for_end(
        &self,
        owner: &LockOwner,
        tag: LockTag,
        runner: impl Fn(&Table) -> Option<OwnerId>,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        let mode = LockMode::Share;
        let patience = owner.patience();
        let request = Request { owner: owner.id(), tag, mode, interrupt, patience };
        let queued = {
            let mut table = self.table.lock();
            // Under the table's mutex: an end from now on waits for it, and releases the lock.
            let Some(runner) = runner(&table) else { return Ok(()) };
            debug_assert_ne!(runner, owner.id(), "the {tag} would wait for itself");
            table.check_room(tag)?;
            table.hold_for(runner, tag, LockMode::Exclusive);
            // Still under it: a waiter that gives up takes the lock back if the queue is empty.
            self.request(&mut table, &request)
        };
        let waited = queued.and_then(|queued| self.wait(&request, queued));
        match waited {
            Ok(()) => self.release_one(owner.id(), tag, mode),
            // The last one that waited takes back what the first one put into the table.
            Err(_) => self.table.lock().drop_if_unwanted(tag, LockMode::Exclusive),
        }
        waited
    }

    /// Wakes those who wait for transactions or subtransactions that have left the running set:
    /// committed, aborted, or rolled back to a savepoint.
    pub fn transactions_ended(&self, xids: &[Xid]) {
        if self.xid_waits.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut table = self.table.lock();
        for xid in xids {
            table.drop_held_for(LockTag::Transaction(*xid), LockMode::Exclusive);
        }
    }
}
