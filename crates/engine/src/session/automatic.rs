//! A session of autovacuum.

use std::sync::Arc;

use forebay_catalog::{DatabaseIds, MaintainedTable, Reader, Table};
use forebay_types::Oid;

use super::state::Session;
use crate::autovacuum::balance::WorkerCosts;
use crate::config::SessionSettings;
use crate::core::Core;
use crate::error::EngineError;

impl Session {
    /// A session of a worker in a database.
    pub(crate) fn of_autovacuum(
        core: &Arc<Core>,
        database: Oid,
        settings: SessionSettings,
    ) -> Result<Session, EngineError> {
        let mut session = Session::in_database(core, database)?;
        session.settings = settings;
        Ok(session)
    }

    /// A session that is in no database, and can list them.
    pub(crate) fn of_no_database(core: &Arc<Core>) -> Result<Session, EngineError> {
        Session::outside(core, None)
    }

    /// The databases of the cluster.
    pub(crate) fn databases(&mut self) -> Result<Vec<DatabaseIds>, EngineError> {
        self.call(|session, core| {
            Ok(core.databases.shared_reader(&mut session.backend).databases()?)
        })
    }

    /// The tables that may need to be looked after.
    pub(crate) fn maintained_tables(&mut self) -> Result<Vec<MaintainedTable>, EngineError> {
        self.looking(|reader| Ok(reader.maintained_tables()?))
    }

    /// A table as the catalogs have it now. None: it has been dropped.
    pub(crate) fn maintained_table(
        &mut self,
        table: &MaintainedTable,
    ) -> Result<Option<(Arc<Table>, MaintainedTable)>, EngineError> {
        self.looking(|reader| {
            let found = reader.table_by_oid(table.oid)?.map(Arc::new);
            Ok(found.zip(reader.maintained_table(table)?))
        })
    }

    /// Reads catalogs in a transaction of its own.
    pub(super) fn looking<T>(
        &mut self,
        look: impl FnOnce(&mut Reader<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.begin()?;
        let looked = self.start_command().and_then(|()| {
            self.call(|session, core| {
                let snapshot = core.xacts.snapshot(&session.running()?.tx);
                look(&mut Reader::new(&core.database, &mut session.backend, snapshot))
            })
        });
        match looked {
            Ok(found) => {
                self.end_command();
                self.commit()?;
                Ok(found)
            }
            Err(error) => {
                self.abort()?;
                Err(error)
            }
        }
    }

    /// What pages cost at the next table.
    pub(crate) fn set_costs(&mut self, costs: WorkerCosts) {
        self.costs = Some(costs);
    }

    /// Whether those who wait for its locks may cancel what it does.
    pub(crate) fn give_way(&mut self, gives: bool) {
        let interrupt = gives.then(|| self.interrupt.clone());
        self.core.locks.give_way(&self.locks, interrupt);
    }

    /// The database, schema and name of a table.
    pub(crate) fn full_name(&self, table: &Table) -> String {
        format!("{}.{}.{}", self.core.database_name, table.schema, table.name)
    }
}
