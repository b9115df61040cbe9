//! Subtransactions: savepoints without their names.
//!
//! A subtransaction that aborts takes with it what was done in it: rows, files of tables, temporary
//! tables, changes of the catalogs, locks, and what was begun in it and would go on, such as scans.
//! A subtransaction that is released leaves all that to the one around it.

use std::sync::Arc;

use super::marks::Tokens;
use super::state::{Open, Session};
use crate::error::EngineError;

/// An open transaction or subtransaction.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) tokens: Tokens,
    /// Whether the catalogs had been changed when it began.
    changed_catalogs: bool,
}

/// A transaction's open levels.
#[derive(Debug, Default)]
pub(super) struct Levels {
    top: Level,
    /// The subtransactions, outermost first: as many as are open in the transaction.
    open: Vec<Level>,
}

impl Open {
    /// The innermost open subtransaction, or the transaction itself.
    pub(super) fn innermost(&mut self) -> &mut Level {
        let Levels { top, open } = &mut self.levels;
        open.last_mut().unwrap_or(top)
    }

    /// Fails (XX000) unless a subtransaction is open.
    fn check_subtransaction(&self) -> Result<(), EngineError> {
        debug_assert_eq!(self.levels.open.len(), self.tx.depth());
        match self.tx.depth() {
            0 => Err(EngineError::internal("no subtransaction is open")),
            _ => Ok(()),
        }
    }

    fn pop(&mut self) -> Level {
        self.own_tables.clear();
        self.levels.open.pop().expect("a subtransaction is open")
    }
}

impl Session {
    /// Number of subtransactions that are open in one another.
    pub fn subtransaction_depth(&self) -> usize {
        self.open.as_ref().map_or(0, |open| open.tx.depth())
    }

    /// Begins a subtransaction within the transaction or the innermost subtransaction.
    pub fn begin_subtransaction(&mut self) -> Result<(), EngineError> {
        let open = self.running()?;
        open.tx.begin_sub();
        let changed_catalogs = open.changed_catalogs;
        open.levels.open.push(Level { changed_catalogs, ..Level::default() });
        self.locks.begin_sub();
        Ok(())
    }

    /// Commits the innermost subtransaction into the one around it, which decides what becomes of
    /// it.
    pub fn commit_subtransaction(&mut self) -> Result<(), EngineError> {
        let open = self.running()?;
        open.check_subtransaction()?;
        open.tx.release_sub();
        let released = open.pop();
        open.innermost().tokens.take_over(released.tokens);
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
        self.running()?.check_subtransaction()?;
        // As at an abort: I/O of a failed statement ends before its locks are released.
        let left = self.backend.io.end_of_subtransaction();
        left.warnings().for_each(|warning| tracing::debug!("after an error: {warning}"));
        let core = Arc::clone(&self.core);
        let _activity = core.activity.enter()?;
        let Session { open: Some(open), backend, .. } = self else { return Ok(()) };
        let ended = open.tx.innermost_xids();
        let changed = open.changed_catalogs && !open.innermost().changed_catalogs;
        let change = changed.then(|| core.database.cache.change());
        let aborted =
            core.fatal.watch("abort", || core.xacts.abort_sub(&mut backend.io, &mut open.tx));
        open.snapshots.next_statement();
        open.changed_catalogs = open.pop().changed_catalogs;
        let depth = open.tx.depth();
        if let Ok(finished) = &aborted {
            self.remove_files(finished);
        }
        self.temp.abort_sub(depth);
        self.remove_temp_files();
        drop(change);
        core.locks.unlock_sub(&mut self.locks);
        core.locks.transactions_ended(&ended);
        aborted.map(|_| ()).map_err(|error| core.fatal.check(error.into()))
    }
}
