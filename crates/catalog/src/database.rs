//! The database of a data directory: its catalogs, and what reading and changing them needs.

use std::sync::Arc;

use forebay_access::heap::{Heap, Heaps};
use forebay_txn::XactManager;

use crate::cache::CatalogCache;
use crate::error::CatalogError;
use crate::maps::RelationMaps;
use crate::oids::OidCounter;
use crate::schema::{PG_ATTRIBUTE, PG_CLASS};
use crate::table::Table;

/// The one database.
#[derive(Debug)]
pub struct Database {
    /// Tables found in the catalogs.
    pub cache: CatalogCache,
    pub(crate) maps: RelationMaps,
    /// The two catalogs through which all others are found.
    pub(crate) class: Table,
    pub(crate) attribute: Table,
    pub(crate) heaps: Arc<Heaps>,
    pub(crate) xacts: Arc<XactManager>,
    pub(crate) oids: Arc<OidCounter>,
}

impl Database {
    /// A database whose catalogs are where `maps` says.
    pub fn new(
        maps: RelationMaps,
        heaps: Arc<Heaps>,
        xacts: Arc<XactManager>,
        oids: Arc<OidCounter>,
    ) -> Result<Database, CatalogError> {
        let class = Table::of_catalog(&PG_CLASS, maps.local(&PG_CLASS)?)?;
        let attribute = Table::of_catalog(&PG_ATTRIBUTE, maps.local(&PG_ATTRIBUTE)?)?;
        let cache = CatalogCache::default();
        Ok(Database { cache, maps, class, attribute, heaps, xacts, oids })
    }

    /// The rows of a table whose pages are in the shared pool.
    pub fn heap(&self, table: &Table) -> Heap {
        let heap = self.heaps.open(table.locator, !table.is_temporary());
        Heap { fill_factor: table.fill_factor.into(), ..heap }
    }
}
