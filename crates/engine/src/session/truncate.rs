//! Emptying tables.

use forebay_catalog::ddl::Persistence;
use forebay_catalog::{Reader, Table, truncate_table};
use forebay_txn::locks::LockMode;

use super::state::Session;
use crate::error::EngineError;

impl Session {
    /// Empties a table. It gets a new file; the old one is removed when the transaction has
    /// committed. The transaction must have locked the table in mode `AccessExclusive`, and no scan
    /// of it goes on afterwards.
    pub fn truncate(&mut self, table: &Table) -> Result<(), EngineError> {
        if table.temp.is_some_and(|slot| !self.temp.owns(slot)) {
            let message = "cannot truncate temporary tables of other sessions";
            return Err(EngineError::statement("0A000", message));
        }
        table.check_changeable("truncate")?;
        self.call(|session, core| {
            session.check_locked(table, LockMode::AccessExclusive)?;
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            Reader::new(&core.database, &mut session.backend, snapshot)
                .refuse_indexed_catalogs()?;
            // Taken out of the session while it is borrowed, and put back in any case.
            let pool = match table.is_temporary() {
                true => Some(session.take_temp_pool(core)?),
                false => None,
            };
            let persistence = pool.as_ref().map_or(Persistence::Permanent, Persistence::Temporary);
            let min_multi = core.multis.oldest_in_use();
            let made = session.changing().and_then(|(tx, backend)| {
                let database = &core.database;
                Ok(truncate_table(database, backend, tx, table, persistence, min_multi)?)
            });
            if pool.is_some() {
                session.temp.pool = pool;
                let depth = session.subtransaction_depth();
                session.temp.note_truncated(table.oid, made?, depth);
                return Ok(());
            }
            made.map(drop)
        })
    }
}
