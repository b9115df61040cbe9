//! Tables found in the catalogs, remembered for all sessions.
//!
//! The cache holds only what is committed. A transaction that has changed the catalogs itself looks past it, into
//! a store of its own, until it ends. While the end of such a transaction is under way nobody hits or fills the
//! cache: who gets a table's lock from that transaction has to look again, and finds the new state.
//!
//! ```text
//! reader: version v ── snapshot ── scan ── put(v): refused if the version has moved on
//! DDL's commit:            Change begins: v+1, empty, closed ── visible ── Change ends: v+2, empty, open
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::RwLock;

use crate::table::Table;
use crate::types::Oid;

#[derive(Debug, Default)]
struct State {
    version: u64,
    /// Transactions that changed the catalogs and are ending.
    closing: u32,
    tables: HashMap<Oid, HashMap<String, Arc<Table>>>,
    namespaces: HashMap<String, Oid>,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct CatalogCache {
    state: RwLock<State>,
}

/// The end of a transaction that changed the catalogs, under way.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    cache: &'a CatalogCache,
}

impl CatalogCache {
    /// What to give to [`CatalogCache::put`] later; None: nothing may be remembered now.
    pub(crate) fn version(&self) -> Option<u64> {
        let state = self.state.read();
        (state.closing == 0).then_some(state.version)
    }

    /// A table by its name.
    pub(crate) fn table(&self, namespace: Oid, name: &str) -> Option<Arc<Table>> {
        let state = self.state.read();
        if state.closing != 0 {
            return None;
        }
        state.tables.get(&namespace)?.get(name).cloned()
    }

    /// A namespace by its name.
    pub(crate) fn namespace(&self, name: &str) -> Option<Oid> {
        self.state.read().namespaces.get(name).copied()
    }

    /// Remembers a table that was looked up since the version was asked for.
    pub(crate) fn put(&self, version: Option<u64>, table: &Arc<Table>) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(state.version) {
            state.tables.entry(table.namespace).or_default().insert(table.name.clone(), Arc::clone(table));
        }
    }

    /// Remembers a namespace.
    pub(crate) fn put_namespace(&self, version: Option<u64>, name: &str, oid: Oid) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(state.version) {
            state.namespaces.insert(name.to_owned(), oid);
        }
    }

    /// Begins the end of a transaction that changed the catalogs; drop the guard when everyone sees the change,
    /// and before the transaction's locks are given back.
    pub(crate) fn change(&self) -> Change<'_> {
        let mut state = self.state.write();
        state.closing += 1;
        state.forget();
        Change { cache: self }
    }
}

impl State {
    fn forget(&mut self) {
        self.version += 1;
        self.tables.clear();
        self.namespaces.clear();
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.write();
        state.closing -= 1;
        state.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(oid: Oid) -> Arc<Table> {
        Arc::new(Table::for_tests(oid, "t"))
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_remembered_after_it() {
        let cache = CatalogCache::default();
        let before = cache.version();
        cache.put(before, &table(1));
        assert_eq!(cache.table(2200, "t").map(|t| t.oid), Some(1));

        let change = cache.change();
        assert!(cache.table(2200, "t").is_none());
        assert_eq!(cache.version(), None);
        cache.put(before, &table(1));
        cache.put(None, &table(1));
        drop(change);
        assert!(cache.table(2200, "t").is_none());
        cache.put(before, &table(1));
        assert!(cache.table(2200, "t").is_none());
        cache.put(cache.version(), &table(2));
        assert_eq!(cache.table(2200, "t").map(|t| t.oid), Some(2));
    }
}
