//! Waiting for the transactions of other sessions, which may know nothing of a change.
//!
//! The waiting session runs no transaction of its own, so that two of them never wait for each
//! other. pg_stat_progress_create_index shows how many it waits for.

use forebay_access::progress;
use forebay_format::Xid;
use forebay_txn::locks::{LockMode, LockTag, OwnerId};

use super::locks::count_deadlock;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;
use crate::registry::VirtualId;

impl Session {
    /// Waits for the end of all transactions that hold one of these locks now, in a mode which
    /// conflicts with `mode`.
    pub(super) fn wait_for_lockers(
        &mut self,
        core: &InDatabase,
        tags: &[LockTag],
        mode: LockMode,
    ) -> Result<(), EngineError> {
        let holders = tags.iter().flat_map(|tag| core.locks.holders(*tag, mode));
        let holders: Vec<OwnerId> = holders.collect();
        // In this order: a transaction that has begun since then waits in vain, but is no old one.
        let running = core.sessions.transactions();
        let others = holders.into_iter().filter(|owner| owner.0 != self.id);
        let waits: Vec<(u32, VirtualId)> =
            others.filter_map(|owner| Some((owner.0, *running.get(&owner.0)?))).collect();
        self.wait_for_each(core, &waits, || true)
    }

    /// Waits until nobody uses a snapshot that counts `limit` or an older transaction as the oldest
    /// that ran.
    pub(super) fn wait_for_snapshots(
        &mut self,
        core: &InDatabase,
        limit: Xid,
    ) -> Result<(), EngineError> {
        let mut waits = core.sessions.seeing_before(limit);
        waits.retain(|(session, _)| *session != self.id);
        // A transaction may have given its snapshot up.
        let wanted = || core.xacts.procs().has_snapshot_up_to(core.database.oid, limit);
        self.wait_for_each(core, &waits, wanted)
    }

    /// Waits for the end of transactions, as long as that is wanted.
    fn wait_for_each(
        &mut self,
        core: &InDatabase,
        waits: &[(u32, VirtualId)],
        wanted: impl Fn() -> bool,
    ) -> Result<(), EngineError> {
        let shown = std::sync::Arc::clone(&self.backend.progress);
        shown.set(progress::LOCKERS_TOTAL, waits.len() as u64);
        for &(session, transaction) in waits {
            if !wanted() {
                break;
            }
            shown.set(progress::CURRENT_LOCKER, session.into());
            self.backend.io.submit();
            let runs = || core.sessions.runs(session, transaction).then_some(OwnerId(session));
            let waited =
                core.locks.wait_for_virtual(&self.locks, transaction, runs, &self.interrupt);
            waited.map_err(|error| count_deadlock(core, error.into()))?;
            shown.add(progress::LOCKERS_DONE, 1);
        }
        shown.set_all(&[
            (progress::LOCKERS_TOTAL, 0),
            (progress::LOCKERS_DONE, 0),
            (progress::CURRENT_LOCKER, 0),
        ]);
        Ok(())
    }
}
