//! Isolation levels, and the snapshots of a transaction.

use std::sync::Arc;

use forebay_txn::{self as txn, LastRunning, Running, Snapshot};

use super::marks::Mark;
use super::state::{Open, Session, no_transaction};
use crate::core::Core;
use crate::error::EngineError;

/// What a transaction sees of others that commit while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it began.
    #[default]
    ReadCommitted,
    /// All statements see what was committed before the first of them began. A row that another
    /// transaction has changed since then cannot be changed or locked (40001).
    RepeatableRead,
}

/// A statement's snapshot, for [`Session::use_snapshot`].
#[derive(Clone, Debug)]
pub struct StatementSnapshot {
    mark: Mark,
    snapshot: Snapshot,
}

/// The snapshots of a transaction.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    isolation: Isolation,
    /// Whether it has taken one.
    taken: bool,
    /// The running statement's, once it has asked for it.
    statement: Option<Snapshot>,
    /// What all its snapshots count as running: in REPEATABLE READ, from the first one on.
    kept: Option<Arc<Running>>,
}

impl Snapshots {
    /// A statement begins or ends. The next one takes its own.
    pub(super) fn next_statement(&mut self) {
        self.statement = None;
    }

    /// The running statement's.
    fn get(&mut self, core: &Core, tx: &txn::Transaction, last: &mut LastRunning) -> &Snapshot {
        let Snapshots { isolation, taken, statement, kept } = self;
        statement.get_or_insert_with(|| {
            *taken = true;
            match isolation {
                Isolation::ReadCommitted => core.xacts.snapshot_since(tx, last),
                Isolation::RepeatableRead => {
                    let now = || core.xacts.procs().running_since(last, tx.database());
                    Snapshot::new(Arc::clone(kept.get_or_insert_with(now)), tx)
                }
            }
        })
    }
}

impl Session {
    /// Sets the running transaction's isolation level, READ COMMITTED at first. 25001 if it differs
    /// and a snapshot was taken already, or a subtransaction is open.
    pub fn set_isolation(&mut self, level: Isolation) -> Result<(), EngineError> {
        let in_subtransaction = self.subtransaction_depth() > 0;
        let snapshots = &mut self.running()?.snapshots;
        if snapshots.isolation == level {
            return Ok(());
        }
        let when = match (snapshots.taken, in_subtransaction) {
            (true, _) => "be called before any query",
            (_, true) => "not be called in a subtransaction",
            _ => {
                snapshots.isolation = level;
                return Ok(());
            }
        };
        let message = format!("SET TRANSACTION ISOLATION LEVEL must {when}");
        Err(EngineError::statement("25001", message))
    }

    /// The running transaction's isolation level.
    pub fn isolation(&self) -> Isolation {
        self.open.as_ref().map_or_else(Isolation::default, |open| open.snapshots.isolation)
    }

    /// Whether the running transaction has taken a snapshot: its isolation level is settled.
    pub fn has_snapshot(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.snapshots.taken)
    }

    /// The running statement's snapshot. Taken now if there is none; the statement must have its
    /// locks.
    pub fn statement_snapshot(&mut self) -> Result<StatementSnapshot, EngineError> {
        Ok(StatementSnapshot { snapshot: self.snapshot()?, mark: self.mark()? })
    }

    /// Gives the running statement the snapshot of an earlier one of the same transaction. It is
    /// gone with the subtransaction that took it, if that was rolled back.
    pub fn use_snapshot(&mut self, earlier: &StatementSnapshot) -> Result<(), EngineError> {
        self.check_mark(&earlier.mark, || "a snapshot".to_owned())?;
        self.running()?.snapshots.statement = Some(earlier.snapshot.clone());
        Ok(())
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot, EngineError> {
        let Session { open: Some(open), core, last_running, .. } = self else {
            return Err(no_transaction());
        };
        let Open { tx, snapshots, .. } = open;
        Ok(snapshots.get(core, tx, last_running).clone())
    }
}
