//! Explicit locks: LOCK TABLE with NOWAIT, advisory locks; and ids of transactions.

use std::sync::Arc;

use forebay_catalog::Table;
use forebay_txn::locks::{LockError, LockMode, LockTag};

use super::locks::{count_deadlock, lock_tag};
use super::state::{Session, no_transaction};
use crate::core::InDatabase;
use crate::error::EngineError;

/// The key of an advisory lock. The two kinds do not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryKey {
    /// One number.
    One(i64),
    /// Two numbers.
    Two(i32, i32),
}

impl AdvisoryKey {
    fn tag(self, core: &InDatabase) -> LockTag {
        let (key, two) = match self {
            AdvisoryKey::One(key) => (key.cast_unsigned(), false),
            AdvisoryKey::Two(class, object) => {
                let [high, low] = [class, object].map(|half| u64::from(half.cast_unsigned()));
                (high << 32 | low, true)
            }
        };
        LockTag::Advisory { database: core.database.oid, key, two }
    }
}

/// For how long an advisory lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvisoryScope {
    /// To the end of the transaction, or to the rollback of the subtransaction.
    Transaction,
    /// Until it is given up as often as it was taken, or the session ends.
    Session,
}

/// Whether a lock was had that was not waited for.
fn had(taken: Result<(), LockError>) -> Result<bool, EngineError> {
    match taken {
        Ok(()) => Ok(true),
        Err(LockError::NotAvailable { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Session {
    /// Finds and locks a table as [`Session::open_table_if_exists`] does. 55P03 if it would have to
    /// wait.
    pub fn open_table_nowait(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>, EngineError> {
        loop {
            let Some(table) = self.table(schema, name)? else { return Ok(None) };
            let tag = lock_tag(&table);
            self.call(|session, core| session.try_lock(core, tag, mode))?;
            // It is locked: if it still has its name, opening it does not wait.
            self.running()?.own_tables.clear();
            if self.table(schema, name)?.is_some_and(|now| now.oid == table.oid) {
                return self.open_table_if_exists(schema, name, mode);
            }
        }
    }

    /// Takes an advisory lock, waiting if it must. The mode is `Share` or `Exclusive`.
    pub fn advisory_lock(
        &mut self,
        key: AdvisoryKey,
        mode: LockMode,
        scope: AdvisoryScope,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            session.running()?;
            session.backend.io.submit();
            let Session { locks, interrupt, .. } = session;
            let taken = match scope {
                AdvisoryScope::Transaction => {
                    core.locks.lock(locks, key.tag(core), mode, interrupt)
                }
                AdvisoryScope::Session => {
                    core.locks.lock_session(locks, key.tag(core), mode, Some(interrupt))
                }
            };
            taken.map_err(|error| count_deadlock(core, error.into()))
        })
    }

    /// The same without waiting. False if another session holds it.
    pub fn try_advisory_lock(
        &mut self,
        key: AdvisoryKey,
        mode: LockMode,
        scope: AdvisoryScope,
    ) -> Result<bool, EngineError> {
        self.call(|session, core| {
            session.running()?;
            let locks = &mut session.locks;
            had(match scope {
                AdvisoryScope::Transaction => core.locks.try_lock(locks, key.tag(core), mode),
                AdvisoryScope::Session => core.locks.lock_session(locks, key.tag(core), mode, None),
            })
        })
    }

    /// Gives up an advisory lock of the session once. False if the session does not hold it.
    pub fn advisory_unlock(
        &mut self,
        key: AdvisoryKey,
        mode: LockMode,
    ) -> Result<bool, EngineError> {
        self.call(|session, core| {
            Ok(core.locks.unlock_session(&mut session.locks, key.tag(core), mode))
        })
    }

    /// Gives up all advisory locks of the session.
    pub fn advisory_unlock_all(&mut self) -> Result<(), EngineError> {
        self.call(|session, core| {
            core.locks.unlock_all_session(&mut session.locks);
            Ok(())
        })
    }

    /// The transaction's id with its epoch, which it now gets if it has none. The subtransactions
    /// that are open in it get none.
    pub fn assign_transaction_id(&mut self) -> Result<u64, EngineError> {
        self.call(|session, core| {
            let Session { open: Some(open), backend, .. } = session else {
                return Err(no_transaction());
            };
            Ok(core.xacts.assign_top(&mut backend.io, &mut open.tx)?.0)
        })
    }

    /// The transaction's id with its epoch, if it has written.
    pub fn full_transaction_id(&self) -> Option<u64> {
        self.open.as_ref().and_then(|open| open.tx.full_xid()).map(|xid| xid.0)
    }
}
