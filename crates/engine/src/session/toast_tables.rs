//! TOAST tables that a session has used.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_catalog::Table;
use forebay_types::Oid;

/// They are valid as long as the version of the catalogs' cache has not moved.
#[derive(Debug, Default)]
pub(super) struct ToastTables {
    version: u64,
    tables: HashMap<Oid, Arc<Table>>,
}

impl ToastTables {
    /// One that was found at this version.
    pub(super) fn get(&self, version: u64, oid: Oid) -> Option<&Arc<Table>> {
        self.tables.get(&oid).filter(|_| self.version == version)
    }

    /// Adds one.
    pub(super) fn put(&mut self, version: u64, table: &Arc<Table>) {
        if self.version != version {
            self.tables.clear();
            self.version = version;
        }
        self.tables.insert(table.oid, Arc::clone(table));
    }
}
