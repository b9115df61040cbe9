//! A database: its catalogs, and what reading and changing them needs.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use forebay_access::heap::{Heap, Heaps};
use forebay_aio::sync::Mutex;
use forebay_format::RelFileLocator;
use forebay_format::relmap::RelMap;
use forebay_storage::Backend;
use forebay_txn::{Transaction, XactManager};
use forebay_types::{Encoding, Oid};
use forebay_wal::WalError;

use crate::cache::CatalogCache;
use crate::collations::Collations;
use crate::error::CatalogError;
use crate::index::KnownTrees;
use crate::index_compiler::IndexCompiler;
use crate::index_rows::OperatorClasses;

use crate::lookup::Lookup;
use crate::maps::RelationMaps;
use crate::oids::OidCounter;
use crate::syscache::SysCache;
use crate::table::Table;

/// What all databases of a cluster share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Pages of tables.
    pub heaps: Arc<Heaps>,
    /// Transactions.
    pub xacts: Arc<XactManager>,
    /// New object identifiers.
    pub oids: Arc<OidCounter>,
    /// What is known of the trees of indexes.
    pub trees: Arc<KnownTrees>,
    /// What makes expressions of indexes evaluable.
    pub compiler: Option<Arc<dyn IndexCompiler>>,
}

/// One database; or none, where only the shared catalogs can be read.
#[derive(Debug)]
pub struct Database {
    /// pg_database.oid; 0 if it is none.
    pub oid: Oid,
    /// Where its relations are that have no tablespace of their own.
    pub tablespace: Oid,
    /// Tables found in the catalogs.
    pub cache: CatalogCache,
    /// Rows that statements were analyzed by.
    pub rows: SysCache,
    /// What is known of the trees of indexes.
    pub trees: Arc<KnownTrees>,
    /// What makes expressions of indexes evaluable.
    pub(crate) compiler: Option<Arc<dyn IndexCompiler>>,
    /// Catalogs that were changed, with their indexes. Nothing here moves a catalog to another file
    /// or gives it an index.
    pub(crate) opened: Mutex<HashMap<Oid, Arc<Table>>>,
    /// Indexes of catalogs through which rows were looked up, by OID.
    pub(crate) lookups: Mutex<HashMap<Oid, Arc<Lookup>>>,
    /// Operator classes of indexes that were met. Nothing here changes any.
    pub(crate) operator_classes: Mutex<Arc<OperatorClasses>>,
    /// The encoding of its texts.
    pub encoding: Encoding,
    /// Its collation, and others that were used.
    pub(crate) collations: Collations,
    /// Whether it has event triggers, which nothing here makes or runs.
    pub(crate) has_event_triggers: OnceLock<bool>,
    /// Roles with default privileges, which nothing here makes: the namespace (0: all), the kind of
    /// object.
    pub(crate) default_privileges: OnceLock<Vec<(Oid, Oid, u8)>>,
    pub(crate) maps: RelationMaps,
    pub(crate) heaps: Arc<Heaps>,
    pub(crate) xacts: Arc<XactManager>,
    pub(crate) oids: Arc<OidCounter>,
}

impl Database {
    /// A database whose catalogs are where `maps` says, with its encoding and its collation.
    pub(crate) fn new(
        maps: RelationMaps,
        shared: &Shared,
        (encoding, collations): (Encoding, Collations),
    ) -> Database {
        let (oid, tablespace) = maps.place();
        Database {
            oid,
            tablespace,
            cache: CatalogCache::new(encoding),
            rows: SysCache::new(encoding),
            trees: Arc::clone(&shared.trees),
            compiler: shared.compiler.clone(),
            opened: Mutex::default(),
            lookups: Mutex::default(),
            operator_classes: Mutex::default(),
            encoding,
            collations,
            has_event_triggers: OnceLock::new(),
            default_privileges: OnceLock::new(),
            maps,
            heaps: Arc::clone(&shared.heaps),
            xacts: Arc::clone(&shared.xacts),
            oids: Arc::clone(&shared.oids),
        }
    }

    /// A transaction in this database that has done nothing yet.
    pub fn transaction(&self) -> Transaction {
        Transaction::in_database(self.oid).with_tablespace(self.tablespace)
    }

    /// Where its mapped catalogs are; None if it is no database.
    pub fn map(&self) -> Option<&RelMap> {
        self.maps.local_map()
    }

    /// Fails if event triggers would have to run for a change of its objects.
    pub fn check_event_triggers(&self) -> Result<(), CatalogError> {
        match self.has_event_triggers.get() {
            Some(true) => {
                let message = "event triggers are not supported, and this database has some";
                Err(CatalogError::refused("0A000", message))
            }
            _ => Ok(()),
        }
    }

    /// Fails if what a role creates in a namespace, of a kind (r: tables, S: sequences, n:
    /// schemas), would have default privileges.
    pub(crate) fn check_default_privileges(
        &self,
        (role, namespace, kind): (Oid, Oid, u8),
    ) -> Result<(), CatalogError> {
        let applies = |&(of, within, what): &(Oid, Oid, u8)| {
            of == role && what == kind && [0, namespace].contains(&within)
        };
        if !self.default_privileges.get().is_some_and(|all| all.iter().any(applies)) {
            return Ok(());
        }
        let message = "default privileges are not supported, and the new object's owner has some";
        Err(CatalogError::refused("0A000", message))
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
        let heap = self.heaps.open(table.locator, table.is_logged());
        Heap { fill_factor: table.fill_factor.into(), ..heap }
    }
}
