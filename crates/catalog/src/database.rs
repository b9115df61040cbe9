//! The database of a data directory: its catalogs, and what reading and changing them needs.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_access::heap::{Heap, Heaps};
use forebay_aio::sync::Mutex;
use forebay_format::RelFileLocator;
use forebay_storage::Backend;
use forebay_txn::XactManager;
use forebay_types::Oid;
use forebay_wal::WalError;

use crate::cache::CatalogCache;
use crate::error::CatalogError;
use crate::index::KnownTrees;
use crate::index_rows::OperatorClasses;
use crate::lookup::Lookup;
use crate::maps::RelationMaps;
use crate::oids::OidCounter;
use crate::schema::PG_CLASS;
use crate::syscache::SysCache;
use crate::table::Table;

/// The one database.
#[derive(Debug)]
pub struct Database {
    /// Tables found in the catalogs.
    pub cache: CatalogCache,
    /// Rows that statements were analyzed by.
    pub rows: SysCache,
    /// What is known of the trees of indexes.
    pub trees: KnownTrees,
    /// Catalogs that were changed, with their indexes. Nothing here moves a catalog to another file
    /// or gives it an index.
    pub(crate) opened: Mutex<HashMap<Oid, Arc<Table>>>,
    /// Indexes of catalogs through which rows were looked up, by OID.
    pub(crate) lookups: Mutex<HashMap<Oid, Arc<Lookup>>>,
    /// Operator classes of indexes that were met. Nothing here changes any.
    pub(crate) operator_classes: Mutex<Arc<OperatorClasses>>,
    pub(crate) maps: RelationMaps,
    /// pg_class, whose rows are also changed in place.
    pub(crate) class: Table,
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
        let (cache, rows) = (CatalogCache::default(), SysCache::default());
        let trees = KnownTrees::new(Arc::clone(&xacts));
        let (opened, lookups) = (Mutex::default(), Mutex::default());
        let operator_classes = Mutex::default();
        Ok(Database {
            cache,
            rows,
            trees,
            opened,
            lookups,
            operator_classes,
            maps,
            class,
            heaps,
            xacts,
            oids,
        })
    }

    /// Forgets what is known of a relation whose file is gone.
    pub fn forget(&self, relation: RelFileLocator) {
        self.heaps.spaces.forget(relation);
        self.trees.forget(relation);
    }

    /// The next identifier of the counter. Something may have it already.
    pub fn next_oid(&self, backend: &mut Backend) -> Result<Oid, WalError> {
        self.oids.allocate(&mut backend.io, &self.heaps.wal)
    }

    /// The rows of a table whose pages are in the shared pool.
    pub fn heap(&self, table: &Table) -> Heap {
        let heap = self.heaps.open(table.locator, !table.is_temporary());
        Heap { fill_factor: table.fill_factor.into(), ..heap }
    }
}
