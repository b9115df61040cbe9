//! Isolation levels, and the snapshots of statements.

use forebay_txn::Snapshot;

use super::marks::Mark;
use super::open::{Isolation, Open};
use super::state::{Session, no_transaction};
use crate::error::EngineError;

/// A statement's snapshot, for [`Session::use_snapshot`].
#[derive(Clone, Debug)]
pub struct StatementSnapshot {
    mark: Mark,
    snapshot: Snapshot,
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
        Ok(StatementSnapshot { snapshot: self.snapshot()?, mark: self.snapshot_mark()? })
    }

    /// Gives the running statement the snapshot of an earlier one of the same transaction. It is
    /// gone with the subtransaction that took it, if that was rolled back; so are the scans that
    /// the statement starts, wherever it runs.
    pub fn use_snapshot(&mut self, earlier: &StatementSnapshot) -> Result<(), EngineError> {
        self.check_mark(&earlier.mark, || "a snapshot".to_owned())?;
        let snapshots = &mut self.running()?.snapshots;
        snapshots.statement = Some(earlier.snapshot.clone());
        snapshots.earlier = Some(earlier.mark.clone());
        Ok(())
    }

    /// The mark of the level whose end is that of the statement's snapshot.
    pub(super) fn snapshot_mark(&mut self) -> Result<Mark, EngineError> {
        match self.running()?.snapshots.earlier.clone() {
            Some(mark) => Ok(mark),
            None => self.mark(),
        }
    }

    pub(super) fn snapshot(&mut self) -> Result<Snapshot, EngineError> {
        let Session { open: Some(open), core, last_running, shown, .. } = self else {
            return Err(no_transaction());
        };
        let Open { tx, snapshots, .. } = open;
        if snapshots.taken {
            return Ok(snapshots.get(core, tx, last_running).clone());
        }
        let take = || snapshots.get(core, tx, last_running).clone();
        Ok(shown.first_snapshot(take, Snapshot::xmin))
    }
}
