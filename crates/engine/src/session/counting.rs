//! Counting what statements do to relations, for statistics.

use std::sync::Arc;

use forebay_catalog::{Table, TableIndex};
use forebay_txn::{CountedRelation, ReadCounter};

use super::state::Session;
use crate::error::EngineError;

/// A table in statistics.
pub(super) fn counted(table: &Table) -> CountedRelation {
    CountedRelation { db: table.locator.db, rel: table.oid }
}

impl Session {
    /// Counts a scan of a table from its beginning.
    pub(super) fn count_scan(&mut self, table: &Table) -> Result<Arc<ReadCounter>, EngineError> {
        Ok(self.running()?.tx.count_scan(counted(table)))
    }

    /// Counts a scan of an index.
    pub(super) fn count_index_scan(
        &mut self,
        index: &TableIndex,
    ) -> Result<Arc<ReadCounter>, EngineError> {
        let of = CountedRelation { db: index.locator.db, rel: index.oid };
        Ok(self.running()?.tx.count_scan(of))
    }

    /// Where rows of a table are counted that a bitmap has found.
    pub(super) fn count_bitmap(&mut self, table: &Table) -> Result<Arc<ReadCounter>, EngineError> {
        Ok(self.running()?.tx.count_reads(counted(table)))
    }
}
