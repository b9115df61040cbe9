//! The catalogs as the planner sees them: through the host.

use super::eval::eval;
use super::host::Host;
use crate::error::Result;
use crate::plan::{Catalog, Expr};
use crate::settings::PlanSettings;
use forebay_engine::{LockMode, Session, Table, TableIndex};
use forebay_types::Datum;
use std::sync::Arc;

/// Steps between two tests for a cancel.
const STEPS: u32 = 256;

impl Catalog for Host {
    fn table(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.call_if_any(|session| session.table(schema, name))?.flatten())
    }

    fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>> {
        let open = |session: &mut Session| session.open_table_if_exists(schema, name, mode);
        Ok(self.call_if_any(open)?.flatten())
    }

    fn constant(&mut self, e: &Expr) -> Result<Datum<'static>> {
        Ok(eval(e, &[], &[], self)?.into_owned())
    }

    fn constraint_index(&mut self, table: &Table, name: &str) -> Result<Option<u32>> {
        self.call(|session| session.constraint_index(table, name))
    }

    fn can_use_index(&mut self, index: &TableIndex) -> Result<bool> {
        Ok(self.call_if_any(|session| session.can_use_index(index))?.unwrap_or(false))
    }

    fn find_statistics(&mut self, table: &Table) -> Result<()> {
        // A table whose rows were never counted has none.
        if table.figures.rows >= 0.0 {
            self.call(|session| session.statistics(table))?;
        }
        Ok(())
    }

    fn table_blocks(&mut self, table: &Table) -> Result<u32> {
        self.call(|session| session.table_blocks(table))
    }

    fn index_blocks(&mut self, table: &Table, index: &TableIndex) -> Result<u32> {
        self.call(|session| session.index_blocks(table, index))
    }

    fn planning(&self) -> PlanSettings {
        self.settings.planning()
    }

    fn step(&self) -> Result<()> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps % STEPS);
        if steps < STEPS { Ok(()) } else { self.check_cancel() }
    }
}
