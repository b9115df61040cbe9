//! The catalogs as the planner sees them: through the host.

use super::eval::eval;
use super::host::Host;
use crate::error::Result;
use crate::plan::{Catalog, Expr};
use forebay_engine::{LockMode, Table};
use forebay_types::Datum;
use std::sync::Arc;

impl Catalog for Host {
    fn table(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        Host::table(self, schema, name)
    }

    fn open_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
        mode: LockMode,
    ) -> Result<Option<Arc<Table>>> {
        Host::open_table(self, schema, name, mode)
    }

    fn constant(&mut self, e: &Expr) -> Result<Datum<'static>> {
        Ok(eval(e, &[], &[], self)?.into_owned())
    }

    fn plan_step(&self) -> Result<()> {
        self.step()
    }
}
