//! Waiting for those who hold a row, for all statements that change or lock rows.
//!
//! A statement tries. If others hold the row, it queues for the row's lock (a lock tag, not xmax),
//! waits for the holders' transactions, and tries again. The queue keeps the order of those who
//! wait: whoever has waited longest is the only one to wait for the holders. A transaction that has
//! locked the row already, more weakly, does not queue: it would wait for the first in the queue,
//! which may wait for it.

use forebay_format::tuple::LockStrength;
use forebay_format::{ItemPointer, Oid, Xid};
use forebay_storage::Backend;
use forebay_txn::XactManager;
use forebay_txn::locks::{
    Interrupt, LockError, LockManager, LockMode, LockOwner, LockTag, OwnerId,
};

use super::changer::{Attempt, Refusal};
use crate::error::AccessError;

/// A backend that may wait for rows of a relation.
#[derive(Debug)]
pub struct RowWaiter<'a> {
    /// All transactions.
    pub xacts: &'a XactManager,
    /// All locks.
    pub locks: &'a LockManager,
    /// The backend, with its lock_timeout.
    pub owner: &'a mut LockOwner,
    /// Ends a wait.
    pub interrupt: &'a Interrupt,
    /// pg_database.oid
    pub database: Oid,
    /// pg_class.oid
    pub relation: Oid,
    /// Whether it waits. If not, it gets [`Refusal::WouldWait`] (NOWAIT, SKIP LOCKED).
    pub waits: bool,
}

impl RowWaiter<'_> {
    /// Calls `attempt` until nobody who runs stands in its way. It locks or changes the version of
    /// a row at `tid`, with a strength.
    pub fn run<T>(
        &mut self,
        backend: &mut Backend,
        tid: ItemPointer,
        strength: LockStrength,
        mut attempt: impl FnMut(&mut Backend) -> Result<Attempt<T>, AccessError>,
    ) -> Result<Attempt<T>, AccessError> {
        let (database, relation) = (self.database, self.relation);
        let (block, offset) = (tid.block, tid.offset);
        let queue = LockTag::Tuple { database, relation, block, offset };
        let mode = queue_mode(strength);
        let mut queued = false;
        let result = loop {
            let holders = match attempt(backend) {
                Ok(Attempt::Refused(Refusal::BeingModified(holders))) => holders,
                other => break other,
            };
            if !self.waits {
                if holders.xids.iter().any(|xid| self.runner(*xid).is_some()) {
                    break Ok(Attempt::Refused(Refusal::WouldWait));
                }
                continue;
            }
            // A holder might wait for this backend's I/O.
            backend.io.submit();
            if holders.queue && !queued {
                if let Err(error) = self.locks.lock(self.owner, queue, mode, self.interrupt) {
                    break Err(error.into());
                }
                queued = true;
            }
            if let Err(error) = self.wait_for(&holders.xids) {
                break Err(error.into());
            }
        };
        if queued {
            self.locks.unlock(self.owner, queue, mode);
        }
        result
    }

    /// Waits until these transactions are over.
    fn wait_for(&self, holders: &[Xid]) -> Result<(), LockError> {
        holders.iter().try_for_each(|&xid| {
            self.locks.wait_for_transaction(self.owner, xid, || self.runner(xid), self.interrupt)
        })
    }

    /// The backend that runs a transaction.
    fn runner(&self, xid: Xid) -> Option<OwnerId> {
        self.xacts.procs().runner(xid).map(OwnerId)
    }
}

/// The mode in which those who want a row queue.
fn queue_mode(strength: LockStrength) -> LockMode {
    match strength {
        LockStrength::KeyShare => LockMode::AccessShare,
        LockStrength::Share => LockMode::RowShare,
        LockStrength::NoKeyExclusive => LockMode::Exclusive,
        LockStrength::Exclusive => LockMode::AccessExclusive,
    }
}
