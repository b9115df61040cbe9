//! The oldest ids of the cluster, after a vacuum.

use super::state::Session;
use crate::error::EngineError;
use crate::id_limits;

impl Session {
    /// Moves the oldest ids of the database and of the cluster as far as its tables allow
    /// (datfrozenxid, datminmxid), and with them the limits of new ids. Removes older files of
    /// pg_xact and pg_multixact. VACUUM does this at its end, outside of a transaction.
    pub fn advance_oldest_ids(&mut self) -> Result<(), EngineError> {
        self.call(|session, core| {
            let warnings = id_limits::advance(core, &core.database, &mut session.backend)?;
            session.warnings.extend(warnings);
            Ok(())
        })
    }
}
