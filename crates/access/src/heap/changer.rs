//! [`Changer`], a transaction that changes rows, and the reasons for which it cannot change one.

use forebay_aio as aio;
use forebay_format::multixact::Member;
use forebay_format::tuple::{HeapTuple, LockStrength};
use forebay_format::{CommandId, ItemPointer, Oid, Xid};
use forebay_txn::locks::{LockManager, LockMode, LockTag, OwnerId};
use forebay_txn::{ComboCommands, Outcome, Transaction, XactManager};

use super::insert::Author;
use super::outcomes::RowSets;
use super::status::{Fate, Observer, Role, TupleStatus, commands, holders, tuple_status};
use crate::error::AccessError;

/// A transaction that changes or locks rows in a command.
#[derive(Debug)]
pub struct Changer<'a> {
    /// All transactions.
    pub xacts: &'a XactManager,
    /// The transaction.
    pub tx: &'a Transaction,
    /// The id of its innermost subtransaction, and its command.
    pub author: Author,
    /// Its use of MultiXacts, kept to its end.
    pub sets: &'a mut RowSets,
    /// The queues for rows, if it waits its turn. None: it takes any row that nobody holds.
    pub queues: Option<RowQueues<'a>>,
}

/// The queues for the rows of a relation, as a backend finds them.
#[derive(Debug, Clone, Copy)]
pub struct RowQueues<'a> {
    /// All locks.
    pub locks: &'a LockManager,
    /// The backend.
    pub backend: OwnerId,
    /// pg_database.oid
    pub database: Oid,
    /// pg_class.oid
    pub relation: Oid,
}

/// What an attempt to change or lock a row did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt<T> {
    /// It is done.
    Done(T),
    /// It is not, and nothing has changed.
    Refused(Refusal),
}

/// Why a row was not changed or locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The command sees no such row version.
    Invisible,
    /// This command or a later one of the same transaction has updated or deleted it. With that
    /// command.
    SelfModified(CommandId),
    /// Transactions hold it and still run, or it is promised to another backend: the caller may
    /// wait for them and try again.
    BeingModified(Holders),
    /// Another transaction has updated it and has committed.
    Updated {
        /// The place of the newer version.
        newer: ItemPointer,
        /// The transaction that made it, for [`Heap::newer_version`](super::Heap::newer_version).
        by: Xid,
    },
    /// Another transaction has deleted it and has committed.
    Deleted,
    /// The caller did not want to wait.
    WouldWait,
}

/// The running transactions that hold a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holders {
    /// Their ids. None if nobody holds the row, and the first in its queue is about to.
    pub xids: Vec<Xid>,
    /// The version that they hold: the wanted one, or a newer one that is to be locked with it.
    pub version: ItemPointer,
    /// If one of them has changed the wanted version: where its newer one is, or the same place
    /// after a deletion.
    pub change: Option<ItemPointer>,
    /// How strongly the caller queues for the row before it waits for them. It does not if it has
    /// locked the row itself: the first in the queue may wait for the caller to end.
    pub queue: Option<LockStrength>,
}

impl Observer for Changer<'_> {
    fn is_own(&self, xid: Xid) -> bool {
        self.tx.is_own(xid)
    }

    fn command(&self) -> CommandId {
        self.author.command
    }

    fn combos(&self) -> &ComboCommands {
        self.tx.combos()
    }

    fn fate(
        &mut self,
        io: &mut aio::IoBackend,
        _role: Role,
        xid: Xid,
        hinted: bool,
    ) -> Result<Fate, AccessError> {
        fate_now(io, self.xacts, xid, hinted)
    }

    fn sets(&mut self) -> &mut RowSets {
        self.sets
    }
}

/// The outcome of a transaction as of now.
pub(super) fn fate_now(
    io: &mut aio::IoBackend,
    xacts: &XactManager,
    xid: Xid,
    hinted: bool,
) -> Result<Fate, AccessError> {
    if hinted {
        return Ok(Fate::Committed);
    }
    // In this order: a transaction leaves the running ones after its outcome is in pg_xact.
    if xacts.procs().is_running(xid) {
        return Ok(Fate::Running);
    }
    match xacts.clog().status(io, xid)? {
        Outcome::Committed => return Ok(Fate::Committed),
        Outcome::Aborted => {}
        // A crash ended it, or it never was.
        Outcome::InProgress | Outcome::SubCommitted => xacts.check_assigned(xid)?,
    }
    Ok(Fate::Aborted)
}

impl Changer<'_> {
    /// Why the author cannot update or delete the version at `tid`, which it needs to lock with a
    /// strength. None if it can.
    pub(super) fn refusal(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        tid: ItemPointer,
        strength: LockStrength,
    ) -> Result<Option<Refusal>, AccessError> {
        let status = tuple_status(io, self, tuple)?;
        if let Some(refusal) = self.final_refusal(status) {
            return Ok(Some(refusal));
        }
        if let TupleStatus::Updated(by) = status {
            return Ok(Some(newer(tuple, tid, by)));
        }
        self.blocked(io, tuple, tid, status, strength)
    }

    /// The refusal if the author does not see the version, or has changed it in this command or a
    /// later one.
    pub(super) fn final_refusal(&self, status: TupleStatus) -> Option<Refusal> {
        match status {
            TupleStatus::NotInserted(_) => Some(Refusal::Invisible),
            TupleStatus::UpdatedByOwn(cmax) if cmax < self.author.command => {
                Some(Refusal::Invisible)
            }
            TupleStatus::UpdatedByOwn(cmax) => Some(Refusal::SelfModified(cmax)),
            _ => None,
        }
    }

    /// The running transactions whose locks or update conflict with a lock of a strength, or the
    /// backend to which the row is promised.
    pub(super) fn blocked(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        tid: ItemPointer,
        status: TupleStatus,
        strength: LockStrength,
    ) -> Result<Option<Refusal>, AccessError> {
        let (mut xids, mut queue) = (Vec::new(), !self.is_own(tuple.xmin()));
        let members = match status {
            TupleStatus::Live => Vec::new(),
            _ => holders(io, self, tuple)?,
        };
        for Member { xid, status: held } in members {
            queue &= !self.is_own(xid);
            // An updater that has ended since its status was found may have committed.
            let runs = status == TupleStatus::BeingUpdated(xid)
                || !self.is_own(xid) && self.xacts.procs().is_running(xid);
            if runs && strength.conflicts_with(held.into()) && !xids.contains(&xid) {
                xids.push(xid);
            }
        }
        if xids.is_empty() && !(queue && self.is_promised(tid, strength)) {
            return Ok(None);
        }
        let change = matches!(status, TupleStatus::BeingUpdated(_)).then(|| tuple.ctid());
        let queue = queue.then_some(strength);
        Ok(Some(Refusal::BeingModified(Holders { xids, version: tid, change, queue })))
    }

    /// Whether others have waited for the row, and the first of them only has to take it.
    fn is_promised(&self, tid: ItemPointer, strength: LockStrength) -> bool {
        let runs = |xid| self.xacts.procs().is_running(xid);
        self.queues.is_some_and(|queues| {
            let (tag, mode) = (queues.tag(tid), queue_mode(strength));
            queues.locks.row_is_promised(queues.backend, tag, mode, runs)
        })
    }

    /// The command to be stored in a tuple that is being updated, and whether it is a combined one.
    pub(super) fn cmax(&self, tuple: HeapTuple<'_>) -> Result<(CommandId, bool), AccessError> {
        let command = self.author.command;
        if tuple.xmin_committed() || !self.is_own(tuple.xmin()) {
            return Ok((command, false));
        }
        let (cmin, _) = commands(self.combos(), tuple)?;
        Ok((self.tx.combos().combine(cmin, command), true))
    }
}

impl RowQueues<'_> {
    /// The tag of the row whose version is at a place.
    pub fn tag(&self, tid: ItemPointer) -> LockTag {
        let RowQueues { database, relation, .. } = *self;
        LockTag::Tuple { database, relation, block: tid.block, offset: tid.offset }
    }
}

/// The mode in which those who want a row queue.
pub(super) fn queue_mode(strength: LockStrength) -> LockMode {
    match strength {
        LockStrength::KeyShare => LockMode::AccessShare,
        LockStrength::Share => LockMode::RowShare,
        LockStrength::NoKeyExclusive => LockMode::Exclusive,
        LockStrength::Exclusive => LockMode::AccessExclusive,
    }
}

/// A version that another transaction has updated or deleted.
pub(super) fn newer(tuple: HeapTuple<'_>, tid: ItemPointer, by: Xid) -> Refusal {
    match tuple.ctid() {
        ctid if ctid == tid || tuple.moved_partitions() => Refusal::Deleted,
        newer => Refusal::Updated { newer, by },
    }
}
