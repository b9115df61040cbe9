//! The end of a transaction.

use std::sync::Arc;

use forebay_format::Xid;
use forebay_txn::{Finished, Transaction};

use super::open::Snapshots;
use super::state::Session;
use crate::core::Phase;
use crate::error::EngineError;

/// The ids of a transaction and its subtransactions, for which others may wait.
fn ids(tx: &Transaction) -> Vec<Xid> {
    let mut ids = tx.subxacts();
    ids.extend(tx.xid());
    ids
}

impl Session {
    /// Commits. On return the transaction is durable, unless synchronous_commit is off: then the
    /// WAL writer makes it durable soon. If the commit fails, the transaction is aborted. After a
    /// failure of the log its outcome is unknown, and the engine stops.
    pub fn commit(&mut self) -> Result<(), EngineError> {
        let core = Arc::clone(&self.core);
        self.running()?;
        let activity =
            match core.activity.enter().and_then(|call| core.check_running().map(|()| call)) {
                Ok(activity) => activity,
                Err(error) => {
                    // A cancel does not prevent a commit; a stop of the engine does.
                    self.abort()?;
                    return Err(error);
                }
            };
        let checked = self.check_no_key_events(&core);
        if let Err(error) = checked.and_then(|()| self.before_commit(&core)) {
            drop(activity);
            self.abort_after(&error);
            return Err(core.fatal.check(error));
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        // They would hold back pruning while the commit waits for the log.
        open.snapshots = Snapshots::default();
        let (ids, counts) = (ids(&open.tx), std::mem::take(open.tx.counts()));
        let changed = open.tx.invalidations();
        let change = (core.database.cache.change(changed), core.database.rows.change(changed));
        let mut options = self.settings.commit_options();
        options.wait |= open.forces_sync;
        let committed = core.fatal.watch("commit", || {
            core.xacts.commit_with(&mut self.backend.io, &mut open.tx, &options)
        });
        self.warnings.extend(open.take_warnings());
        match committed {
            Ok(finished) => {
                core.counters.commits.count();
                let db = core.database.oid;
                self.remove_files(&finished);
                for tablespace in std::mem::take(&mut open.dropped_tablespaces) {
                    self.remove_dropped_tablespace(tablespace);
                }
                core.statistics.ended(&self.counted, counts, true, (db, &finished.forgotten));
                self.end_temp(true);
                drop(change);
                let left = self.backend.io.end_of_transaction();
                self.leftovers = self.leftovers.and(left);
                self.end(&ids);
                if !options.wait {
                    let flush_after = core.writing().wal_writer_flush_after;
                    core.wal_writer.wake_if_behind(&core.wal, flush_after);
                }
                Ok(())
            }
            Err(error) => {
                let error = core.fatal.check(error.into());
                drop(change);
                *open.tx.counts() = counts;
                self.open = Some(open);
                drop(activity);
                self.abort_after(&error);
                Err(error)
            }
        }
    }

    /// Aborts because of an error, which the caller reports. A failure of the abort is only logged.
    fn abort_after(&mut self, error: &EngineError) {
        if let Err(also) = self.abort() {
            tracing::warn!("after \"{error}\": {also}");
        }
    }

    /// Aborts. Nothing happens if there is no transaction.
    pub fn abort(&mut self) -> Result<(), EngineError> {
        let core = Arc::clone(&self.core);
        let Some(mut open) = self.open.take() else { return Ok(()) };
        core.counters.rollbacks.count();
        // I/O of a failed statement must end before its locks are released. There is no warning:
        // the statement could not close what it had opened.
        let left = self.backend.io.drain();
        left.warnings().for_each(|warning| tracing::debug!("after an error: {warning}"));
        let activity = core.activity.enter();
        if activity.is_err() || core.phase() == Phase::Stopped || core.fatal.has_stopped() {
            self.end(&[]);
            return Ok(());
        }
        let (ids, counts) = (ids(&open.tx), std::mem::take(open.tx.counts()));
        let result =
            core.fatal.watch("abort", || core.xacts.abort(&mut self.backend.io, &mut open.tx));
        self.warnings.extend(open.take_warnings());
        if let Ok(finished) = &result {
            self.remove_files(finished);
            let db = core.database.oid;
            core.statistics.ended(&self.counted, counts, false, (db, &finished.forgotten));
        }
        for database in std::mem::take(&mut open.new_databases) {
            self.remove_copy(&core, database);
        }
        for tablespace in std::mem::take(&mut open.new_tablespaces) {
            if let Err(error) = core.pool.smgr().remove_tablespace(tablespace) {
                tracing::warn!("could not remove tablespace {tablespace}: {error}");
            }
        }
        self.end_temp(false);
        self.end(&ids);
        result.map(|_| ()).map_err(|error| core.fatal.check(error.into()))
    }

    /// Removes the files of dropped relations. A failure does not change the transaction's outcome.
    pub(super) fn remove_files(&mut self, finished: &Finished) {
        for rel in &finished.drop {
            self.core.database.forget(*rel);
        }
        // No other session uses them: the transaction still holds its locks.
        for rel in &finished.drop {
            if let Err(error) = self.core.pool.drop_relation(&mut self.backend, *rel) {
                tracing::warn!("{}", self.core.fatal.check(error.into()));
                break;
            }
        }
    }

    /// Releases the locks of a transaction, and wakes those who wait for its end.
    fn end(&mut self, ids: &[Xid]) {
        let ended = self.shown.end();
        self.core.locks.unlock_all(&mut self.locks);
        if let Some(transaction) = ended {
            self.core.locks.virtual_ended(transaction);
        }
        self.core.locks.transactions_ended(ids);
    }

    /// Does something in a transaction of its own. There must be none running.
    pub(super) fn alone<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.begin()?;
        let done = self.start_command().and_then(|()| body(self));
        match done {
            Ok(done) => {
                self.end_command();
                self.commit()?;
                Ok(done)
            }
            Err(error) => {
                self.abort()?;
                Err(error)
            }
        }
    }
}
