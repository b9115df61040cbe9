//! Locks of tables and names, to the end of the transaction or the rollback of the subtransaction.

use forebay_catalog::Table;
use forebay_format::ids::INVALID_XID;
use forebay_format::wal::Rmgr;
use forebay_format::wal::standby::{self, StandbyLock};
use forebay_txn::locks::{LockError, LockMode, LockTag};
use forebay_types::Oid;
use forebay_wal::Record;

use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// The database of a table as locks name it; 0 if all databases share the table.
pub(super) fn database_of(table: &Table) -> Oid {
    table.locator.db
}

/// The lock tag of a table.
pub(super) fn lock_tag(table: &Table) -> LockTag {
    LockTag::Relation { database: database_of(table), relation: table.oid }
}

/// Counts the error if it is a deadlock.
pub(super) fn count_deadlock(core: &InDatabase, error: EngineError) -> EngineError {
    if let EngineError::Lock(why) | EngineError::RowLock { error: why, .. } = &error
        && matches!(why, LockError::Deadlock { .. })
    {
        core.counters.deadlocks.count();
    }
    error
}

/// The database and the relation of a lock that standbys take too: nobody may read the relation
/// there either.
fn standbys_lock(tag: LockTag, mode: LockMode) -> Option<(Oid, Oid)> {
    match (tag, mode) {
        (LockTag::Relation { database, relation }, LockMode::AccessExclusive) => {
            Some((database, relation))
        }
        _ => None,
    }
}

impl Session {
    /// Locks a table until the transaction ends.
    pub(super) fn lock_table(
        &mut self,
        core: &InDatabase,
        table: &Table,
        mode: LockMode,
    ) -> Result<(), EngineError> {
        self.check_table_owned(table)?;
        self.lock(core, lock_tag(table), mode)
    }

    pub(super) fn lock(
        &mut self,
        core: &InDatabase,
        tag: LockTag,
        mode: LockMode,
    ) -> Result<(), EngineError> {
        self.take_lock(core, tag, mode, true)
    }

    /// The same, but 55P03 if it would have to wait.
    pub(super) fn try_lock(
        &mut self,
        core: &InDatabase,
        tag: LockTag,
        mode: LockMode,
    ) -> Result<(), EngineError> {
        self.take_lock(core, tag, mode, false)
    }

    fn take_lock(
        &mut self,
        core: &InDatabase,
        tag: LockTag,
        mode: LockMode,
        wait: bool,
    ) -> Result<(), EngineError> {
        let Session { open: Some(open), backend, locks, interrupt, .. } = self else {
            return Err(no_transaction());
        };
        let told = standbys_lock(tag, mode).filter(|_| !locks.holds_at_least(tag, mode));
        let xid = match told {
            // Before the lock: a checkpoint lists the locks of transactions with an id.
            Some(_) => core.xacts.assign(&mut backend.io, &mut open.tx)?,
            None => INVALID_XID,
        };
        backend.io.submit();
        let locked = match wait {
            true => core.locks.lock(locks, tag, mode, interrupt),
            false => core.locks.try_lock(locks, tag, mode),
        };
        locked.map_err(|error| count_deadlock(core, error.into()))?;
        if let Some((db, rel)) = told {
            let main = standby::encode_locks(&[StandbyLock { xid, db, rel }]);
            let (rmgr, info) = (Rmgr::STANDBY, standby::LOCK);
            let record = Record { rmgr, info, xid, main: &main, blocks: &[] };
            core.wal.insert(&mut backend.io, &record)?;
            open.tx.note_exclusive_lock();
        }
        Ok(())
    }

    /// Fails if the transaction has not locked the table in this mode or a stronger one.
    pub(super) fn check_locked(&self, table: &Table, mode: LockMode) -> Result<(), EngineError> {
        if self.locks.holds_at_least(lock_tag(table), mode) {
            return Ok(());
        }
        let name = &table.name;
        let message =
            format!("relation \"{name}\" is not locked in mode {mode} by the transaction");
        Err(EngineError::statement("55000", message))
    }
}
