//! Waiting for those who hold a row, for all statements that change or lock rows.
//!
//! A statement tries. If others hold the row, it queues for the row, waits for the holders'
//! transactions, and tries again. Whoever has waited longest is the only one to wait for the
//! holders, and gets the row next: a row that nobody holds is refused to all others as long as
//! somebody is first in its queue and does not wait any more. A transaction that has locked the row
//! already, more weakly, does not queue: it would wait for the first in the queue, which may wait
//! for it.

use forebay_format::tuple::LockStrength;
use forebay_format::{ItemPointer, Xid};
use forebay_storage::Backend;
use forebay_txn::XactManager;
use forebay_txn::locks::{Interrupt, LockError, LockOwner, OwnerId};

use super::changer::{Attempt, Holders, Refusal, RowQueues, queue_mode};
use crate::error::{AccessError, RowWork};

/// A backend that may wait for rows of a relation.
#[derive(Debug)]
pub struct RowWaiter<'a> {
    /// All transactions.
    pub xacts: &'a XactManager,
    /// The queues.
    pub queues: RowQueues<'a>,
    /// The backend, with its lock_timeout.
    pub owner: &'a mut LockOwner,
    /// Ends a wait.
    pub interrupt: &'a Interrupt,
    /// What it does to the rows.
    pub work: RowWork,
    /// Whether it waits. If not, it gets [`Refusal::WouldWait`] (NOWAIT, SKIP LOCKED).
    pub waits: bool,
}

impl RowWaiter<'_> {
    /// Calls `attempt` until nobody who runs stands in its way. It locks or changes the version of
    /// a row at `tid`.
    ///
    /// After a refusal since the row was updated, the backend keeps its place in the queue for a
    /// call with the newer version, or for `LockManager::give_up_row`.
    pub fn run<T>(
        &mut self,
        backend: &mut Backend,
        tid: ItemPointer,
        mut attempt: impl FnMut(&mut Backend) -> Result<Attempt<T>, AccessError>,
    ) -> Result<Attempt<T>, AccessError> {
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
            let waited = match holders.queue.filter(|_| !queued || holders.xids.is_empty()) {
                Some(strength) => {
                    queued = true;
                    self.queue(tid, strength)
                }
                None => self.wait_for(tid, &holders),
            };
            if let Err(error) = waited {
                break Err(self.failed(error, tid, &holders));
            }
        };
        let locks = self.queues.locks;
        match &result {
            Ok(Attempt::Done(_)) => locks.row_taken(self.owner, self.queues.tag(tid)),
            Ok(Attempt::Refused(Refusal::Updated { .. })) => {}
            _ => locks.give_up_row(self.owner),
        }
        result
    }

    /// Waits to be first in the queue for a row.
    fn queue(&mut self, tid: ItemPointer, strength: LockStrength) -> Result<(), LockError> {
        let tag = self.queues.tag(tid);
        self.queues.locks.lock_row(self.owner, tag, queue_mode(strength), self.interrupt)
    }

    /// Waits until the holders' transactions are over.
    fn wait_for(&self, tid: ItemPointer, holders: &Holders) -> Result<(), LockError> {
        let RowQueues { locks, .. } = self.queues;
        if let Some(newer) = holders.change
            && holders.version == tid
        {
            // If it found no queue yet, the update has not moved it.
            locks.row_moved(self.queues.tag(tid), self.queues.tag(newer));
        }
        holders.xids.iter().try_for_each(|&xid| {
            locks.wait_for_transaction(self.owner, xid, || self.runner(xid), self.interrupt)
        })
    }

    /// The backend that runs a transaction.
    fn runner(&self, xid: Xid) -> Option<OwnerId> {
        self.xacts.procs().runner(xid).map(OwnerId)
    }

    fn failed(&self, error: LockError, tid: ItemPointer, holders: &Holders) -> AccessError {
        let work = match self.work {
            RowWork::FetchUpdated if holders.change.is_none() => RowWork::Lock,
            _ if holders.version != tid => RowWork::LockUpdated,
            work => work,
        };
        AccessError::RowLock { error, work, tid: holders.version }
    }
}
