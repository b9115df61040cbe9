//! Assigns transaction ids; commits and aborts. `subxact.rs` has what only concerns
//! subtransactions.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio as aio;
use forebay_aio::sync::{Duration, Mutex, SystemTime, UNIX_EPOCH};
use forebay_format::commit_ts::CommitStamp;
use forebay_format::ids::xid_precedes;
use forebay_format::wal::rmgr::INFO_SPECIAL_REL_UPDATE;
use forebay_format::wal::{Rmgr, xact, xact::XactEnd};
use forebay_format::{FullXid, Lsn, Oid, RelFileLocator, Xid};
use forebay_wal::{Inserted, Record, Wal};

use crate::clog::Clog;
use crate::error::TxnError;
use crate::gate::CommitGate;
use crate::limits::Limits;
use crate::procarray::{LastRunning, ProcArray};
use crate::shortage::{DatabaseName, IdKind, IdWarning};
use crate::snapshot::Snapshot;
use crate::subtrans::Subtrans;
use crate::transaction::Transaction;

/// Microseconds from 1970 to 2000, PostgreSQL's epoch.
const EPOCH_OFFSET_MICROS: i64 = 946_684_800 * 1_000_000;

/// How a commit becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitOptions {
    /// The commit waits until it is durable. Otherwise the WAL writer makes it durable soon
    /// (synchronous_commit = off).
    pub wait: bool,
    /// How long a commit that waits delays its flush, so that other commits can join it
    /// (commit_delay).
    pub delay: Duration,
    /// The number of other running transactions below which there is no delay (commit_siblings).
    pub siblings: usize,
}

impl Default for CommitOptions {
    fn default() -> CommitOptions {
        CommitOptions { wait: true, delay: Duration::ZERO, siblings: 5 }
    }
}

/// What the caller has to do after the end of a transaction.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Finished {
    /// End of the commit record, if there is one. It is durable, unless the commit did not wait.
    pub lsn: Option<Lsn>,
    /// Relations whose files are now to be removed.
    pub drop: Vec<RelFileLocator>,
    /// Relations that are gone: their statistics go, too.
    pub forgotten: Vec<Oid>,
}

/// Transactions of an engine.
#[derive(Debug)]
pub struct XactManager {
    pub(crate) clog: Arc<Clog>,
    pub(crate) subtrans: Subtrans,
    pub(crate) wal: Arc<Wal>,
    pub(crate) procs: ProcArray,
    pub(crate) gate: CommitGate,
    /// Held while an id is assigned.
    ids: Mutex<Ids>,
    /// Files to be removed if their transaction aborts: a stop of the engine aborts transactions in
    /// place of their sessions.
    created: Mutex<HashMap<FullXid, Vec<RelFileLocator>>>,
}

/// The next id, and how far ids may go.
#[derive(Debug)]
struct Ids {
    next: FullXid,
    limits: Limits,
}

impl XactManager {
    /// Starts at the id `next`. No tuple refers to an id older than `oldest`. The database that
    /// has it is not known before [`XactManager::set_limit`].
    pub fn new(clog: Arc<Clog>, wal: Arc<Wal>, next: FullXid, oldest: Xid) -> XactManager {
        let limits = Limits::new(IdKind::Xid, oldest, DatabaseName::default());
        XactManager {
            subtrans: Subtrans::start(&clog, next, next),
            clog,
            wal,
            procs: ProcArray::new(next),
            gate: CommitGate::new(),
            ids: Mutex::new(Ids { next, limits }),
            created: Mutex::default(),
        }
    }

    /// Outcomes of transactions.
    pub fn clog(&self) -> &Arc<Clog> {
        &self.clog
    }

    /// Parents of subtransactions.
    pub fn subtrans(&self) -> &Subtrans {
        &self.subtrans
    }

    /// Running transactions.
    pub fn procs(&self) -> &ProcArray {
        &self.procs
    }

    /// Commits in progress, for which a checkpoint waits.
    pub fn gate(&self) -> &CommitGate {
        &self.gate
    }

    /// The next id, for a checkpoint.
    pub fn next_xid(&self) -> FullXid {
        self.ids.lock().next
    }

    /// Fails if a row's id is not assigned yet, so that nothing can be known of it. The caller has
    /// found that it neither runs nor is over.
    pub fn check_assigned(&self, xid: Xid) -> Result<(), TxnError> {
        let next = self.next_xid().xid();
        if xid_precedes(xid, next) { Ok(()) } else { Err(TxnError::NotAssigned { xid, next }) }
    }

    /// The oldest id that a tuple may have, and the OID of a database that has it, for a
    /// checkpoint.
    pub fn oldest_xid(&self) -> (Xid, Oid) {
        let ids = self.ids.lock();
        (ids.limits.oldest(), ids.limits.database().oid)
    }

    /// From now on no tuple of any database has an id older than `oldest`, and one of `database`
    /// may have that. The caller has made it durable. Returns a warning if few ids are left
    /// nevertheless.
    pub fn set_limit(&self, oldest: Xid, database: DatabaseName) -> Option<IdWarning> {
        let limits = Limits::new(IdKind::Xid, oldest, database);
        let mut ids = self.ids.lock();
        ids.limits = limits;
        ids.limits.warning_when_set(ids.next.xid())
    }

    /// The oldest running transaction, or the next id if none runs, for a checkpoint.
    pub fn oldest_running(&self) -> FullXid {
        let ids = self.ids.lock();
        self.procs.oldest().unwrap_or(ids.next)
    }

    /// A snapshot for the running command of a transaction.
    pub fn snapshot(&self, tx: &Transaction) -> Snapshot {
        Snapshot::new(self.procs.running(tx.database()), tx)
    }

    /// The same for a session that remembers its last snapshot.
    pub fn snapshot_since(&self, tx: &Transaction, last: &mut LastRunning) -> Snapshot {
        Snapshot::new(self.procs.running_since(last, tx.database()), tx)
    }

    /// The id with which a transaction is about to write: that of the innermost open
    /// subtransaction, or its own if none is open. Assigned at the first call, and before it those
    /// of all around it.
    pub fn assign(&self, io: &mut aio::IoBackend, tx: &mut Transaction) -> Result<Xid, TxnError> {
        if let Some(xid) = tx.current_xid() {
            return Ok(xid);
        }
        let top = self.assign_top(io, tx)?;
        let Transaction { open, own, unreported, warnings, .. } = tx;
        // Those without an id are the inner ones.
        let assigned = open.iter().rposition(|level| level.xid.is_some());
        let mut parent = assigned.and_then(|at| open[at].xid).unwrap_or(top);
        for level in open.iter_mut().skip(assigned.map_or(0, |at| at + 1)) {
            let xid = self.assign_next(io, warnings, |io, xid| {
                // Before anyone can find the id where its parent is not listed.
                self.subtrans.set_parent(io, xid.xid(), parent.xid())?;
                self.procs.enter_sub(top, xid, own);
                Ok(())
            })?;
            unreported.push(xid.xid());
            level.xid = Some(xid);
            parent = xid;
        }
        self.report_subxacts(io, tx)?;
        Ok(parent.xid())
    }

    /// The id of a transaction, whatever subtransactions are open in it. Assigned at the first
    /// call.
    pub fn assign_top(
        &self,
        io: &mut aio::IoBackend,
        tx: &mut Transaction,
    ) -> Result<FullXid, TxnError> {
        if let Some(xid) = tx.full_xid() {
            return Ok(xid);
        }
        let (database, backend) = (tx.database(), tx.backend());
        let xid = self.assign_next(io, &mut tx.warnings, |_, xid| {
            self.procs.enter(xid, database, backend);
            Ok(())
        })?;
        tx.top.xid = Some(xid);
        Ok(xid)
    }

    /// Assigns the next id, and calls `enter`, which adds it to those that run.
    fn assign_next(
        &self,
        io: &mut aio::IoBackend,
        warnings: &mut Vec<IdWarning>,
        enter: impl FnOnce(&mut aio::IoBackend, FullXid) -> Result<(), TxnError>,
    ) -> Result<FullXid, TxnError> {
        let mut ids = self.ids.lock();
        let xid = ids.next;
        let warning = ids.limits.check(xid.xid())?;
        self.clog.extend(io, &self.wal, xid.xid())?;
        self.subtrans.extend(xid.xid(), || self.procs.horizon());
        enter(io, xid)?;
        ids.next = xid.next();
        warnings.extend(warning);
        Ok(xid)
    }

    /// A file is about to be created. It is removed if the transaction, which has an id, aborts.
    pub fn drop_at_abort(&self, tx: &mut Transaction, rel: RelFileLocator) {
        tx.drop_at_abort(rel);
        if let Some(xid) = tx.full_xid() {
            self.created.lock().entry(xid).or_default().push(rel);
        }
    }

    /// Aborts every running transaction in place of its session, which must not be able to do
    /// anything any more. Returns the files to be removed. Their pages may still be in use.
    pub fn abort_all(&self, io: &mut aio::IoBackend) -> Result<Vec<RelFileLocator>, TxnError> {
        let mut files = Vec::new();
        for xid in self.procs.all() {
            let drop = self.created.lock().remove(&xid).unwrap_or_default();
            let end = XactEnd { rels: drop.clone(), ..XactEnd::default() };
            self.log_end(io, xact::ABORT, xid.xid(), end)?;
            self.clog.set_aborted(io, xid.xid(), &[]);
            self.leave(xid);
            files.extend(drop);
        }
        Ok(files)
    }

    fn leave(&self, xid: FullXid) {
        self.created.lock().remove(&xid);
        self.procs.leave(xid);
    }

    /// These files of a subtransaction of `top` are removed by its abort, not by that of `top`.
    pub(crate) fn forget_created(&self, top: FullXid, rels: &[RelFileLocator]) {
        if !rels.is_empty()
            && let Some(created) = self.created.lock().get_mut(&top)
        {
            created.retain(|rel| !rels.contains(rel));
        }
    }

    /// Commits with the default options: waits until the commit is durable.
    pub fn commit(
        &self,
        io: &mut aio::IoBackend,
        tx: &mut Transaction,
    ) -> Result<Finished, TxnError> {
        self.commit_with(io, tx, &CommitOptions::default())
    }

    /// Commits, with the subtransactions that are open. On return everyone sees the transaction,
    /// and it is durable, unless `options` say that it does not wait for that. A transaction
    /// without an id writes nothing. One that drops files always waits: they must not be removed
    /// before it is durable.
    ///
    /// After an error that leaves the transaction alive it must be aborted. If the commit record
    /// was inserted and could not be made durable, the outcome is unknown. The transaction then
    /// stays in the running set, and the engine must stop, as the log's error demands anyway.
    pub fn commit_with(
        &self,
        io: &mut aio::IoBackend,
        tx: &mut Transaction,
        options: &CommitOptions,
    ) -> Result<Finished, TxnError> {
        let end = tx.notes.end(true, tx.place());
        let (drop, forgotten) = (end.rels.clone(), tx.notes.forgotten_stats(true));
        let Some(xid) = tx.full_xid() else {
            let needs_log = tx.needs_log;
            *tx = tx.another();
            self.make_durable(io, needs_log, options)?;
            return Ok(Finished { lsn: None, drop, forgotten });
        };
        let subxacts = tx.subxacts();
        let outcome = self.clog.prepare_tree(io, xid.xid(), &subxacts)?;
        let pass = self.gate.enter();
        let stamp = CommitStamp { time: timestamp(), origin: 0 };
        let mut rels = end.rels;
        forebay_aio::planted_bug!(io.aio(), CommitForgetsDroppedFiles, rels.clear());
        let end = XactEnd { subxacts, time: stamp.time, rels, ..end };
        let inserted = self.log_end(io, xact::COMMIT, xid.xid(), end)?;
        *tx = tx.another();
        if options.wait || !drop.is_empty() {
            // This transaction is counted too.
            let others = !options.delay.is_zero() && self.procs.count() > options.siblings;
            let delay = if others { options.delay } else { Duration::ZERO };
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
            // Before pg_xact has it: whoever writes that page flushes the log first.
            self.wal.note_async_commit(inserted.end);
        }
        outcome.commit(stamp);
        std::mem::drop(pass);
        self.leave(xid);
        Ok(Finished { lsn: Some(inserted.end), drop, forgotten })
    }

    /// Makes durable what a transaction has seen that wrote nothing itself.
    fn make_durable(
        &self,
        io: &mut aio::IoBackend,
        lsn: Lsn,
        options: &CommitOptions,
    ) -> Result<(), TxnError> {
        forebay_aio::planted_bug!(io.aio(), SequenceValueNotDurable, return Ok(()));
        if lsn > self.wal.flushed_lsn() {
            match options.wait {
                true => self.wal.flush(io, lsn)?,
                false => self.wal.note_async_commit(lsn),
            }
        }
        Ok(())
    }

    /// Aborts. Does not wait for its record, since a transaction without a commit record counts as
    /// aborted. If files are to be removed it does wait: redo of changes to them must find out why
    /// they are gone.
    pub fn abort(
        &self,
        io: &mut aio::IoBackend,
        tx: &mut Transaction,
    ) -> Result<Finished, TxnError> {
        let end = tx.notes.end(false, tx.place());
        let (drop, forgotten) = (end.rels.clone(), tx.notes.forgotten_stats(false));
        let next = tx.another();
        let ended = std::mem::replace(tx, next);
        if let Some(xid) = ended.full_xid() {
            let subxacts = ended.subxacts();
            let pass = self.gate.enter();
            let end = XactEnd { subxacts: subxacts.clone(), ..end };
            let logged = self.log_end(io, xact::ABORT, xid.xid(), end);
            self.clog.set_aborted(io, xid.xid(), &subxacts);
            std::mem::drop(pass);
            self.leave(xid);
            let logged = logged?;
            if !drop.is_empty() {
                self.wal.flush(io, logged.end)?;
            }
        }
        Ok(Finished { lsn: None, drop, forgotten })
    }

    /// Inserts a commit or abort record, of now if it has no time.
    pub(crate) fn log_end(
        &self,
        io: &mut aio::IoBackend,
        kind: u8,
        xid: Xid,
        end: XactEnd,
    ) -> Result<Inserted, TxnError> {
        let time = if end.time == 0 { timestamp() } else { end.time };
        let end = XactEnd { time, ..end };
        let mut main = Vec::with_capacity(8);
        let special = if end.rels.is_empty() { 0 } else { INFO_SPECIAL_REL_UPDATE };
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
