//! ALTER TABLE and ALTER INDEX: SET and RESET of storage parameters.

use std::sync::Arc;

use forebay_catalog::{ChangedParameters, Table, change_index_parameters, change_table_parameters};
use forebay_txn::locks::LockMode;

use super::state::Session;
use crate::error::EngineError;

/// As in PostgreSQL, readers and writers go on meanwhile.
const MODE: LockMode = LockMode::ShareUpdateExclusive;

impl Session {
    /// Changes storage parameters of a table, which must be locked in mode `ShareUpdateExclusive`,
    /// and of its TOAST table.
    pub fn change_parameters(
        &mut self,
        table: &Arc<Table>,
        change: ChangedParameters<'_>,
    ) -> Result<(), EngineError> {
        self.check_own_to("alter", table)?;
        table.check_alterable(&table.name)?;
        self.call(|session, core| {
            session.check_locked(table, MODE)?;
            if let Some(toast) = table.toasting.relation {
                let toast = session.toast_relation(core, toast)?;
                session.lock_table(core, &toast, MODE)?;
            }
            let (tx, backend) = session.changing()?;
            Ok(change_table_parameters(&core.database, backend, tx, table, change)?)
        })
    }

    /// Changes storage parameters of an index. 42704 if there is none of that name.
    pub fn change_index_parameters(
        &mut self,
        (schema, name): (Option<&str>, &str),
        change: ChangedParameters<'_>,
    ) -> Result<(), EngineError> {
        self.call(|session, core| {
            let (table, index, _) = session.lock_index(core, (schema, name), MODE)?;
            let (tx, backend) = session.changing()?;
            let of = (index, name);
            Ok(change_index_parameters(&core.database, backend, tx, &table, of, change)?)
        })
    }
}
