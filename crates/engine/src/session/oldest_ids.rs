//! The oldest ids of the cluster, after a vacuum.

use forebay_catalog::database_row_lock;
use forebay_txn::locks::LockMode;

use super::state::Session;
use crate::error::EngineError;
use crate::id_limits;

impl Session {
    /// Moves the oldest ids of the database and of the cluster as far as its tables allow
    /// (datfrozenxid, datminmxid), and with them the limits of new ids. Removes older files of
    /// pg_xact and pg_multixact. VACUUM does this at its end, outside of a transaction.
    pub fn advance_oldest_ids(&mut self) -> Result<(), EngineError> {
        self.call(|session, core| {
            // The row of the database must not be replaced meanwhile.
            let (tag, mode) = (database_row_lock(core.database.oid), LockMode::AccessExclusive);
            let Session { locks, interrupt, .. } = session;
            core.locks.lock_session(locks, tag, mode, Some(interrupt))?;
            let advanced = id_limits::advance(core, &core.database, &mut session.backend);
            core.locks.unlock_session(&mut session.locks, tag, mode);
            let warnings = advanced?;
            session.warnings.extend(warnings);
            Ok(())
        })
    }
}
