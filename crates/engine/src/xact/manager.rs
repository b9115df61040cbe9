//! Assigning transaction ids; commit and abort.

use forebay_aio::sync::{Duration, Mutex, SystemTime, UNIX_EPOCH};
use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::{Rmgr, xact, xact::XactEnd};
use forebay_format::{FullXid, Lsn, RelFileLocator, Xid, ids::xid_precedes};
use forebay_wal::{Inserted, Record, Wal};

use super::{Clog, CommitGate, LastRunning, Outcome, ProcArray, Snapshot, Transaction};
use crate::EngineError;

/// Ids kept back below the point where the oldest and the newest would be confused.
const STOP_MARGIN: u32 = 3_000_000;
/// Microseconds from 1970 to 2000, PostgreSQL's epoch.
const EPOCH_OFFSET_MICROS: i64 = 946_684_800 * 1_000_000;

/// How a commit becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitWay {
    /// It waits for that; otherwise the WAL writer sees to it (synchronous_commit = off).
    pub wait: bool,
    /// It waits so long before it flushes, for others to come along, if there are any
    /// (commit_delay) ...
    pub delay: Duration,
    /// ... and at least so many others run (commit_siblings).
    pub siblings: usize,
}

impl Default for CommitWay {
    fn default() -> CommitWay {
        CommitWay { wait: true, delay: Duration::ZERO, siblings: 5 }
    }
}

/// What an end of a transaction leaves to do.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Finished {
    /// End of the commit record, if one was needed; it is durable, unless the commit did not wait
    /// for that.
    pub lsn: Option<Lsn>,
    /// Relations whose files are now to be removed: see `drop_files`.
    pub drop: Vec<RelFileLocator>,
}

/// Transactions of an engine.
#[derive(Debug)]
pub struct XactManager {
    clog: Arc<Clog>,
    wal: Arc<Wal>,
    procs: ProcArray,
    gate: CommitGate,
    /// The next id. Held while one is handed out.
    next: Mutex<FullXid>,
    /// Files that go should their transaction abort: a stop rolls back for those who did not get
    /// round to it.
    created: Mutex<HashMap<FullXid, Vec<RelFileLocator>>>,
    /// From this id on none is handed out.
    stop_at: Xid,
}

impl XactManager {
    /// Starts at the next id, given that no tuple refers to an id older than `oldest`.
    pub fn new(clog: Arc<Clog>, wal: Arc<Wal>, next: FullXid, oldest: Xid) -> XactManager {
        let stop_at = oldest.wrapping_add(u32::MAX >> 1).wrapping_sub(STOP_MARGIN);
        XactManager {
            clog,
            wal,
            procs: ProcArray::new(next),
            gate: CommitGate::new(),
            next: Mutex::new(next),
            created: Mutex::default(),
            stop_at,
        }
    }

    /// The outcome of transactions.
    pub fn clog(&self) -> &Arc<Clog> {
        &self.clog
    }

    /// Running transactions.
    pub fn procs(&self) -> &ProcArray {
        &self.procs
    }

    /// Where a checkpoint waits for commits that began before its redo pointer.
    pub fn gate(&self) -> &CommitGate {
        &self.gate
    }

    /// The id that will be handed out next: for a checkpoint.
    pub fn next_xid(&self) -> FullXid {
        *self.next.lock()
    }

    /// The oldest transaction that runs, or the next one: for a checkpoint.
    pub fn oldest_running(&self) -> FullXid {
        let next = self.next.lock();
        self.procs.oldest().unwrap_or(*next)
    }

    /// What the running command of a transaction sees from now on.
    pub fn snapshot(&self, tx: &Transaction) -> Snapshot {
        Snapshot::new(self.procs.running(), tx.xid(), tx.command(), tx.combos().clone())
    }

    /// The same for a session that remembers its last look.
    pub fn snapshot_since(&self, tx: &Transaction, last: &mut LastRunning) -> Snapshot {
        Snapshot::new(self.procs.running_since(last), tx.xid(), tx.command(), tx.combos().clone())
    }

    /// The id of a transaction that is about to write; handed out at the first call.
    pub fn assign(&self, io: &mut aio::Backend, tx: &mut Transaction) -> Result<Xid, EngineError> {
        if let Some(xid) = tx.xid() {
            return Ok(xid);
        }
        let mut next = self.next.lock();
        let xid = *next;
        if !xid_precedes(xid.xid(), self.stop_at) {
            return Err(EngineError::statement(
                "54000",
                "database is not accepting commands that assign new transaction IDs to avoid wraparound data loss",
            ));
        }
        self.clog.extend(io, &self.wal, xid.xid())?;
        self.procs.enter(xid);
        *next = xid.next();
        tx.xid = Some(xid);
        Ok(xid.xid())
    }

    /// A file is about to be made that goes again if the transaction, which has an id, aborts.
    pub fn drop_at_abort(&self, tx: &mut Transaction, rel: RelFileLocator) {
        tx.drop_at_abort(rel);
        if let Some(xid) = tx.xid {
            self.created.lock().entry(xid).or_default().push(rel);
        }
    }

    /// Aborts every transaction that runs, in place of its owner, who must not be able to do
    /// anything any more. The files that are to go: pages of them may be in use still.
    pub fn abort_all(&self, io: &mut aio::Backend) -> Result<Vec<RelFileLocator>, EngineError> {
        let mut files = Vec::new();
        for xid in self.procs.all() {
            let drop = self.created.lock().remove(&xid).unwrap_or_default();
            self.log_end(io, xact::ABORT, xid.xid(), &drop)?;
            self.clog.set_aborted(io, xid.xid());
            self.leave(xid);
            files.extend(drop);
        }
        Ok(files)
    }

    fn leave(&self, xid: FullXid) {
        self.created.lock().remove(&xid);
        self.procs.leave(xid);
    }

    /// [`XactManager::commit_by`] that waits.
    pub fn commit(
        &self,
        io: &mut aio::Backend,
        tx: &mut Transaction,
    ) -> Result<Finished, EngineError> {
        self.commit_by(io, tx, &CommitWay::default())
    }

    /// Commits: on return the transaction is durable, or will be soon if `way` says so, and
    /// everyone sees it. A transaction without id writes nothing. One that drops files always
    /// waits: they must not go before it is certain.
    ///
    /// After an error that left the transaction alive it must be aborted. If the commit record was
    /// inserted but not made durable nobody knows whether it committed: it then stays among the
    /// running for good, and the engine has to stop, which the log's own error demands anyway.
    pub fn commit_by(
        &self,
        io: &mut aio::Backend,
        tx: &mut Transaction,
        way: &CommitWay,
    ) -> Result<Finished, EngineError> {
        let drop = tx.drops_at(true);
        let Some(xid) = tx.xid else {
            *tx = Transaction::new();
            return Ok(Finished { lsn: None, drop });
        };
        let outcome = self.clog.prepare(io, xid.xid())?;
        let pass = self.gate.enter();
        let inserted = self.log_end(io, xact::COMMIT, xid.xid(), &drop)?;
        *tx = Transaction::new();
        if way.wait || !drop.is_empty() {
            // The one that commits runs too.
            let others = !way.delay.is_zero() && self.procs.count() > way.siblings;
            let delay = if others { way.delay } else { Duration::ZERO };
            let mut flush_to = inserted.end;
            forebay_aio::planted_bug!(io.aio(), CommitAcknowledgedBeforeDurable, flush_to = Lsn(0));
            forebay_aio::planted_bug!(
                io.aio(),
                CommitRemovesFilesBeforeDurable,
                if !drop.is_empty() {
                    flush_to = Lsn(0);
                }
            );
            let mut flushed = self.wal.flush_after(io, flush_to, delay);
            forebay_aio::planted_bug!(io.aio(), CommitIgnoresWalError, flushed = Ok(()));
            flushed?;
        } else {
            // Before pg_xact has it: who writes that out sees to the log first.
            self.wal.leave_to_writer(inserted.end);
        }
        outcome.set(Outcome::Committed);
        std::mem::drop(pass);
        self.leave(xid);
        Ok(Finished { lsn: Some(inserted.end), drop })
    }

    /// Aborts. The record is not waited for, as a transaction without a commit record is aborted
    /// anyway; unless files go: redo of what was done to them needs to know why they are gone.
    pub fn abort(
        &self,
        io: &mut aio::Backend,
        tx: &mut Transaction,
    ) -> Result<Finished, EngineError> {
        let drop = tx.drops_at(false);
        let xid = tx.xid;
        *tx = Transaction::new();
        if let Some(xid) = xid {
            let pass = self.gate.enter();
            let logged = self.log_end(io, xact::ABORT, xid.xid(), &drop);
            self.clog.set_aborted(io, xid.xid());
            std::mem::drop(pass);
            self.leave(xid);
            let logged = logged?;
            if !drop.is_empty() {
                self.wal.flush(io, logged.end)?;
            }
        }
        Ok(Finished { lsn: None, drop })
    }

    /// Inserts a commit or abort record.
    fn log_end(
        &self,
        io: &mut aio::Backend,
        kind: u8,
        xid: Xid,
        drop: &[RelFileLocator],
    ) -> Result<Inserted, EngineError> {
        let end = XactEnd { rels: drop.to_vec(), ..XactEnd::at(timestamp()) };
        let mut main = Vec::with_capacity(8 + 12 * drop.len());
        let special = if drop.is_empty() { 0 } else { INFO_SPECIAL_REL_UPDATE };
        let info = kind | end.encode(&mut main) | special;
        Ok(self
            .wal
            .insert(io, &Record { rmgr: Rmgr::XACT, info, xid, main: &main, blocks: &[] })?)
    }
}

/// Now, as PostgreSQL counts: microseconds since 2000-01-01.
fn timestamp() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX) - EPOCH_OFFSET_MICROS
}
