//! The expressions and the predicate of CREATE INDEX.

use super::state::Connection;
use crate::error::Result;
use crate::parse::{CreateIndex, KeyColumn, Source};
use crate::plan::{AnalyzedKey, ParamTypes, Planner};
use forebay_engine::{StoredExpr, Table};

impl Connection {
    /// The keys of a new index that were given as expressions, each at its place.
    pub(super) fn analyzed_keys(
        &mut self,
        keys: &[KeyColumn],
        table: &Table,
        source: &Source,
    ) -> Result<Vec<Option<AnalyzedKey>>> {
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        let mut analyzed =
            |key: &KeyColumn| key.expr.as_ref().map(|e| planner.index_key(e, table)).transpose();
        keys.iter().map(&mut analyzed).collect()
    }

    /// The predicate of a new index.
    pub(super) fn predicate(
        &mut self,
        create: &CreateIndex,
        table: &Table,
        source: &Source,
    ) -> Result<Option<StoredExpr>> {
        let mut params = ParamTypes::default();
        let mut planner = Planner { source, catalog: &mut self.host, params: &mut params };
        create.predicate.as_ref().map(|e| planner.index_predicate(e, table)).transpose()
    }
}
