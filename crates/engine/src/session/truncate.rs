//! Emptying tables.

use std::sync::Arc;

use forebay_catalog::{Reader, Table, truncate_table};
use forebay_format::RelFileLocator;
use forebay_txn::locks::LockMode;
use forebay_types::Oid;

use super::counting::counted;
use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Empties a table. It and its indexes get new files, and so does its TOAST table; the old ones
    /// are removed when the transaction has committed. The transaction must have locked the table
    /// in mode `AccessExclusive`, and no scan of it goes on afterwards.
    pub fn truncate(&mut self, table: &Table) -> Result<(), EngineError> {
        self.check_own_to("truncate", table)?;
        table.check_changeable("truncate")?;
        self.call(|session, core| {
            session.check_locked(table, LockMode::AccessExclusive)?;
            session.truncate_files(core, table.oid)?;
            session.running()?.tx.count_truncated(counted(table));
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            match reader.figures(table.oid)?.map_or(0, |figures| figures.toast) {
                0 => Ok(()),
                toast => {
                    let table = session.toast_relation(core, toast)?;
                    session.lock_table(core, &table, LockMode::AccessExclusive)?;
                    session.truncate_files(core, toast)
                }
            }
        })
    }

    /// Empties a table as the transaction sees it now, and builds its indexes anew.
    fn truncate_files(&mut self, core: &InDatabase, oid: Oid) -> Result<(), EngineError> {
        let lost = || EngineError::corrupt(format!("pg_class has no row of table {oid}"));
        let min_multi = core.multis.oldest_in_use();
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let table = Reader::new(&core.database, &mut self.backend, snapshot).table_by_oid(oid)?;
        let mut table = table.ok_or_else(lost)?;
        table.locator = self.with_files(core, table.place(), |session, files| {
            let (tx, backend) = session.changing()?;
            let database = &core.database;
            Ok(truncate_table(database, backend, tx, &table, files, min_multi)?)
        })?;
        self.note_temp_emptied(oid, table.locator);
        let table = Arc::new(table);
        for index in &table.indexes {
            self.rebuild(core, &table, index)?;
        }
        Ok(())
    }

    /// Notes the new file of a relation, if it is one of the session's temporary ones.
    pub(super) fn note_temp_emptied(&mut self, oid: Oid, locator: RelFileLocator) {
        let depth = self.subtransaction_depth();
        self.temp.note_truncated(oid, locator, depth);
    }
}
