//! Tables found in the catalogs, remembered for all sessions; and names looked for in vain: an unqualified name is looked for
//! in pg_catalog first, by every statement.
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
    /// None: there is no such table.
    tables: HashMap<Oid, HashMap<String, Option<Arc<Table>>>>,
    /// How many names there are that are no tables'.
    absent: usize,
    namespaces: HashMap<String, Oid>,
}

/// Most names remembered that are no tables': whoever asks for ever new ones shall not fill the memory.
const MOST_ABSENT: usize = 1024;

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

    /// A table by its name; Some(None) if it is known that there is none.
    pub(crate) fn table(&self, namespace: Oid, name: &str) -> Option<Option<Arc<Table>>> {
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
            state
                .tables
                .entry(table.namespace)
                .or_default()
                .insert(table.name.clone(), Some(Arc::clone(table)));
        }
    }

    /// Remembers that there is no table of that name, as found since the version was asked for.
    pub(crate) fn put_absent(&self, version: Option<u64>, namespace: Oid, name: &str) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(state.version) && state.absent < MOST_ABSENT {
            let before = state.tables.entry(namespace).or_default().insert(name.to_owned(), None);
            state.absent += usize::from(before.is_none());
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
        self.absent = 0;
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

    fn found(cache: &CatalogCache) -> Option<Option<Oid>> {
        cache.table(2200, "t").map(|known| known.map(|table| table.oid))
    }

    #[test]
    fn a_name_looked_for_in_vain_is_remembered_until_the_catalogs_change() {
        let cache = CatalogCache::default();
        let before = cache.version();
        assert_eq!(found(&cache), None);
        cache.put_absent(before, 2200, "t");
        assert_eq!(found(&cache), Some(None));
        drop(cache.change());
        assert_eq!(found(&cache), None);
        cache.put_absent(before, 2200, "t");
        assert_eq!(found(&cache), None, "it may be there by now");
        // There is an end to names.
        for n in 0..2 * MOST_ABSENT {
            cache.put_absent(cache.version(), 11, &n.to_string());
        }
        assert!(
            cache.table(11, "0").is_some() && cache.table(11, &(2 * MOST_ABSENT - 1).to_string()).is_none()
        );
        cache.put(cache.version(), &table(3));
        assert_eq!(found(&cache), Some(Some(3)));
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_remembered_after_it() {
        let cache = CatalogCache::default();
        let before = cache.version();
        cache.put(before, &table(1));
        assert_eq!(found(&cache), Some(Some(1)));

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
        assert_eq!(found(&cache), Some(Some(2)));
    }
}
