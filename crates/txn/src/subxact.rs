//! Subtransactions: their end, and what others find out about them.

use forebay_aio as aio;
use forebay_format::ids::{xid_precedes, xid_previous};
use forebay_format::wal::standby::RunningXacts;
use forebay_format::wal::{Rmgr, xact};
use forebay_format::{FullXid, Xid};
use forebay_wal::Record;

use crate::clog::Outcome;
use crate::error::TxnError;
use crate::manager::{Finished, XactManager};
use crate::procarray::MAX_CACHED_SUBXIDS;
use crate::transaction::Transaction;

impl XactManager {
    /// Aborts the innermost subtransaction (ROLLBACK TO SAVEPOINT), with those released into it.
    /// Returns the files to be removed. As for a whole transaction, this does not wait for the
    /// record, unless there are such files.
    ///
    /// # Panics
    /// If no subtransaction is open.
    pub fn abort_sub(
        &self,
        io: &mut aio::IoBackend,
        tx: &mut Transaction,
    ) -> Result<Finished, TxnError> {
        let top = tx.full_xid();
        let xids = tx.innermost_xids();
        let (xid, notes) = tx.pop_aborted();
        let end = notes.end(false, tx.place());
        let drop = end.rels.clone();
        if let (Some(xid), Some(top)) = (xid, top) {
            let children = xids.get(1..).unwrap_or_default();
            let pass = self.gate.enter();
            let end = xact::XactEnd { subxacts: children.to_vec(), ..end };
            let logged = self.log_end(io, xact::ABORT, xid.xid(), end);
            self.clog.set_aborted(io, xid.xid(), children);
            std::mem::drop(pass);
            self.procs.leave_sub(top, xid, &tx.own);
            self.forget_created(top, &drop);
            let logged = logged?;
            if !drop.is_empty() {
                self.wal.flush(io, logged.end)?;
            }
        }
        // The transaction has forgotten what it counted of them.
        Ok(Finished { lsn: None, drop, forgotten: Vec::new() })
    }

    /// Logs to which transaction subtransactions belong, once there are as many as one transaction
    /// can have listed: a standby lists no more of them either.
    pub(crate) fn report_subxacts(
        &self,
        io: &mut aio::IoBackend,
        tx: &mut Transaction,
    ) -> Result<(), TxnError> {
        let (Some(top), Some(xid)) = (tx.xid(), tx.current_xid()) else { return Ok(()) };
        if tx.unreported.len() < MAX_CACHED_SUBXIDS {
            return Ok(());
        }
        let subxacts = tx.unreported.clone();
        let main = xact::Assignment { top_xid: top, subxacts }.encode();
        let info = xact::ASSIGNMENT;
        self.wal.insert(io, &Record { rmgr: Rmgr::XACT, info, xid, main: &main, blocks: &[] })?;
        tx.unreported.clear();
        Ok(())
    }

    /// Whether a transaction or subtransaction has committed. `xmin` is that of a snapshot in use,
    /// and `xid` is not in progress, or it is of no concern that it might be.
    pub fn did_commit(
        &self,
        io: &mut aio::IoBackend,
        mut xid: Xid,
        xmin: Xid,
    ) -> Result<bool, TxnError> {
        loop {
            match self.clog.status(io, xid)? {
                Outcome::Committed => return Ok(true),
                Outcome::InProgress | Outcome::Aborted => return Ok(false),
                // In the midst of the commit of its parent, or of one that a crash cut off.
                Outcome::SubCommitted if xid_precedes(xid, xmin) => return Ok(false),
                Outcome::SubCommitted => match self.subtrans.parent(io, xid)? {
                    Some(parent) if xid_precedes(parent, xid) => xid = parent,
                    Some(parent) => return Err(TxnError::ParentNotOlder { xid, parent }),
                    None => return Ok(false),
                },
            }
        }
    }

    /// The running transactions, as a standby or a base backup needs them for its first snapshot.
    /// Ids assigned later are not listed. The caller logs it after the ends of those that have
    /// ended meanwhile.
    pub fn running_xacts(&self) -> RunningXacts {
        let next = self.next_xid();
        let all = self.procs.all_before(next);
        let next_xid = next.xid();
        RunningXacts {
            subxid_overflow: all.overflowed,
            next_xid,
            oldest_running: all.xids.first().copied().unwrap_or(next_xid),
            latest_completed: latest_before(all.latest_completed, next),
            // As PostgreSQL, no subtransactions if they would not be all.
            subxids: if all.overflowed { Vec::new() } else { all.subxids },
            xids: all.xids,
        }
    }

    /// Relieves memory and disk of parents of subtransactions that nobody asks for any more. Called
    /// by checkpoints. Returns the number of pages written.
    pub fn checkpoint_subtrans(&self, io: &mut aio::IoBackend) -> Result<u64, TxnError> {
        let written = self.subtrans.flush(io)?;
        self.subtrans.truncate(self.procs.horizon())?;
        Ok(written)
    }
}

/// The youngest id that is over and older than `next`.
fn latest_before(latest: FullXid, next: FullXid) -> Xid {
    if latest < next { latest.xid() } else { xid_previous(next.xid()) }
}
