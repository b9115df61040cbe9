//! ALTER TABLE: how the long values of a column will be stored.

use forebay_catalog::{ColumnDef, ColumnStorage, Reader, Table, change_column_storage};
use forebay_txn::locks::LockMode;

use super::state::Session;
use crate::core::InDatabase;
use crate::error::EngineError;

impl Session {
    /// Stores how the values of a column, by its number, will be stored. The table must be locked
    /// in mode `AccessExclusive`. If its rows may now need a TOAST table, it gets one.
    pub fn change_column_storage(
        &mut self,
        table: &Table,
        number: i16,
        change: ColumnStorage,
    ) -> Result<(), EngineError> {
        self.check_own_to("alter", table)?;
        self.call(|session, core| {
            session.check_locked(table, LockMode::AccessExclusive)?;
            let (tx, backend) = session.changing()?;
            change_column_storage(&core.database, backend, tx, (table, number), change)?;
            if table.toasting.relation.is_none() && table.kind == b'r' {
                let columns = session.column_defs(core, table)?;
                session.create_toast(core, (table.oid, table.place()), &columns, &[])?;
            }
            Ok(())
        })
    }

    /// The columns of a table, as they are now.
    pub(super) fn column_defs(
        &mut self,
        core: &InDatabase,
        table: &Table,
    ) -> Result<Vec<ColumnDef>, EngineError> {
        let snapshot = core.xacts.snapshot(&self.running()?.tx);
        let now =
            Reader::new(&core.database, &mut self.backend, snapshot).table_by_oid(table.oid)?;
        let now = now.ok_or_else(|| EngineError::internal("the table is gone"))?;
        let columns = now.columns.iter().zip(&now.toasting.columns);
        let present = columns.filter(|(column, _)| !column.dropped);
        let def = present.map(|(column, toast)| ColumnDef {
            typmod: column.typmod,
            storage: Some(toast.storage.code()),
            generated: column.generated,
            layout: Some(column.layout),
            ..ColumnDef::new(&column.name, column.type_oid)
        });
        Ok(def.collect())
    }
}
