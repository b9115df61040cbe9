//! Subtransactions: savepoints without their names.
//!
//! A subtransaction that aborts takes with it what was done in it: rows, files of tables, temporary
//! tables, changes of the catalogs, locks, and what was begun in it and would go on, such as scans.
//! A subtransaction that is released leaves all that to the one around it.

use std::sync::Arc;

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// Number of subtransactions that are open in one another.
    pub fn subtransaction_depth(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.tx.depth())
    }

    /// Begins a subtransaction within the transaction or the innermost subtransaction.
    pub fn begin_subtransaction(&mut self) -> Result<(), EngineError> {
        self.running()?.begin_sub();
        self.locks.begin_sub();
        Ok(())
    }

    /// Commits the innermost subtransaction into the one around it, which decides what becomes of
    /// it.
    pub fn commit_subtransaction(&mut self) -> Result<(), EngineError> {
        let open = self.running()?;
        open.check_sub()?;
        open.release_sub();
        let depth = open.tx.depth();
        self.locks.release_sub();
        self.temp.release_sub(depth);
        Ok(())
    }

    /// Aborts the innermost subtransaction, with those released into it. The next statement sees
    /// nothing of it. Scans and snapshots that were taken before it began stay valid.
    ///
    /// After an error the transaction must be aborted.
    pub fn abort_subtransaction(&mut self) -> Result<(), EngineError> {
        self.running()?.check_sub()?;
        // As at an abort: I/O of a failed statement ends before its locks are released.
        let left = self.backend.io.end_of_subtransaction();
        left.warnings().for_each(|warning| tracing::debug!("after an error: {warning}"));
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        let Session { open: Some(open), backend, .. } = self else { return Ok(()) };
        let ended = open.tx.innermost_xids();
        let aborted =
            core.fatal.watch("abort", || core.xacts.abort_sub(&mut backend.io, &mut open.tx));
        open.sub_aborted();
        let depth = open.tx.depth();
        if let Ok(finished) = &aborted {
            self.remove_files(finished);
        }
        self.temp.abort_sub(depth);
        self.remove_temp_files();
        core.locks.unlock_sub(&mut self.locks);
        core.locks.transactions_ended(&ended);
        aborted.map(|_| ()).map_err(|error| core.fatal.check(error.into()))
    }
}
