//! SAVEPOINT, RELEASE, ROLLBACK TO: the engine's subtransactions by name.

use super::block::TransactionStatus;
use super::state::Connection;
use crate::error::{Result, SqlError, state};
use forebay_engine::Session;

/// Savepoints of a transaction, beyond which memory counts as exhausted.
const MOST: usize = 1 << 20;

/// Refuses one more than so many.
fn check_room(open: usize) -> Result<()> {
    if open < MOST {
        return Ok(());
    }
    let detail = format!("A transaction can have at most {MOST} savepoints at a time.");
    Err(SqlError::new(state::OUT_OF_MEMORY, "out of memory").detail(detail))
}

impl Connection {
    /// SAVEPOINT. Earlier ones of the same name are hidden until this one is released.
    pub(super) fn savepoint(&mut self, name: &str) -> Result<()> {
        self.check_in_block("SAVEPOINT")?;
        check_room(self.transaction.savepoints.len())?;
        self.begin_subtransaction(name)
    }

    /// RELEASE: what was done since the savepoint becomes that of the transaction around it.
    pub(super) fn release(&mut self, name: &str) -> Result<()> {
        let kept = self.find_savepoint(name, "RELEASE SAVEPOINT")?;
        while self.transaction.savepoints.len() > kept {
            self.host.call_if_any(Session::commit_subtransaction)?;
            self.transaction.savepoints.pop();
            self.host.settings.end_subtransaction(true);
            self.host.modes.end_subtransaction();
        }
        self.portals.subtransaction_released(kept + 1);
        Ok(())
    }

    /// ROLLBACK TO: undoes what was done since the savepoint, which stays.
    pub(super) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let kept = self.find_savepoint(name, "ROLLBACK TO SAVEPOINT")?;
        if self.transaction.block == TransactionStatus::InBlock {
            self.end_open_command();
        } else {
            // The innermost has aborted.
            self.transaction.savepoints.pop();
        }
        self.portals.subtransaction_aborted(kept + 1);
        while self.transaction.savepoints.len() > kept {
            self.abort_subtransaction()?;
            self.transaction.savepoints.pop();
        }
        self.begin_subtransaction(name)?;
        self.transaction.block = TransactionStatus::InBlock;
        Ok(())
    }

    /// An implicit transaction has no savepoints, however many statements it has.
    fn check_in_block(&self, what: &str) -> Result<()> {
        if self.in_block() {
            return Ok(());
        }
        let message = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(state::NO_ACTIVE_SQL_TRANSACTION, message))
    }

    /// How many savepoints there were before the last one of that name.
    fn find_savepoint(&self, name: &str, what: &str) -> Result<usize> {
        self.check_in_block(what)?;
        let found = self.transaction.savepoints.iter().rposition(|known| **known == *name);
        found.ok_or_else(|| {
            let message = format!("savepoint \"{name}\" does not exist");
            SqlError::new(state::INVALID_SAVEPOINT, message)
        })
    }

    fn begin_subtransaction(&mut self, name: &str) -> Result<()> {
        self.host.call_if_any(Session::begin_subtransaction)?;
        self.transaction.savepoints.push(name.into());
        self.host.settings.begin_subtransaction();
        self.host.modes.begin_subtransaction();
        Ok(())
    }

    /// Aborts the innermost subtransaction because a statement in it has failed. Its name stays:
    /// the client may go back to it.
    pub(super) fn abort_innermost(&mut self) -> Result<()> {
        let level = self.transaction.savepoints.len();
        self.portals.failed(level);
        self.abort_subtransaction()
    }

    /// Aborts the engine's innermost subtransaction. If that fails, nobody knows what of it is
    /// left, and the whole transaction ends.
    fn abort_subtransaction(&mut self) -> Result<()> {
        if let Err(e) = self.host.call_if_any(Session::abort_subtransaction) {
            let ended = self.fail_block();
            return ended.and(Err(e));
        }
        self.host.settings.end_subtransaction(false);
        self.host.modes.end_subtransaction();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savepoints_are_bounded() {
        assert!(check_room(MOST - 1).is_ok());
        assert_eq!(check_room(MOST).expect_err("too many").sqlstate, "53200");
    }
}
