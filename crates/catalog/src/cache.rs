//! Tables found in the catalogs, for all sessions, and names that are no table's: every unqualified
//! name is first looked for in pg_catalog.
//!
//! The cache holds only what is committed. A transaction that has changed the catalogs looks past
//! it until it ends. While such a transaction ends, nobody reads or fills the cache. So a session
//! that gets a table's lock from that transaction looks the table up again, and finds the new
//! state.
//!
//! Each session remembers the tables of the names it has used ([`KnownTables`]). They are valid as
//! long as the version has not moved, which an atomic tells without a lock.
//!
//! ```text
//! reader:       version v ── snapshot ── look up ── put(v): refused if the version has moved on
//! DDL's commit: Change begins: v+1, empty, closed ── visible ── Change ends: v+2, empty, open
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_types::Oid;
use smallvec::SmallVec;

use crate::table::Table;

#[derive(Debug, Default)]
struct State {
    /// Number of transactions that changed the catalogs and are ending.
    closing: u32,
    /// By namespace and name. None: there is no such table.
    tables: HashMap<Oid, HashMap<String, Option<Arc<Table>>>>,
    /// Number of names that are no table's.
    absent: usize,
    namespaces: HashMap<String, Oid>,
}

/// Most names kept that are no table's. A client can ask for any number of names.
const MOST_ABSENT: usize = 1024;

/// The cache.
#[derive(Debug, Default)]
pub struct CatalogCache {
    state: RwLock<State>,
    /// Changed under the lock, at the beginning and the end of each change.
    version: AtomicU64,
}

/// Most names that a session keeps.
const MOST_KNOWN: usize = 1024;

/// The tables of one name, by the schema as written. Several are rare.
type Named = SmallVec<[(Option<String>, Arc<Table>); 1]>;

/// The tables of the names that a session has used, as its search path resolved them.
#[derive(Debug, Default)]
pub struct KnownTables {
    version: u64,
    tables: HashMap<String, Named>,
}

impl KnownTables {
    /// The table of a name, if it was found at this version.
    pub fn get(&self, version: u64, schema: Option<&str>, name: &str) -> Option<&Arc<Table>> {
        let named = self.tables.get(name).filter(|_| self.version == version)?;
        named.iter().find(|(known, _)| known.as_deref() == schema).map(|(_, table)| table)
    }

    /// Forgets all of them: names without a schema mean something else now.
    pub fn clear(&mut self) {
        self.tables.clear();
    }

    /// Adds a table that was found at this version.
    pub fn put(&mut self, version: u64, schema: Option<&str>, name: &str, table: &Arc<Table>) {
        if self.version != version || self.tables.len() >= MOST_KNOWN {
            self.tables.clear();
            self.version = version;
        }
        let named = self.tables.entry(name.to_owned()).or_default();
        named.push((schema.map(str::to_owned), Arc::clone(table)));
    }
}

/// A transaction that changed the catalogs is ending.
#[derive(Debug)]
pub struct Change<'a> {
    cache: &'a CatalogCache,
}

impl CatalogCache {
    /// The version to give to [`CatalogCache::put`] later. None: nothing may be added now.
    pub fn version(&self) -> Option<u64> {
        let state = self.state.read();
        (state.closing == 0).then_some(self.moved())
    }

    /// A number that changes with the catalogs. A transaction that changes them changes it before
    /// it releases its locks.
    pub fn moved(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A table by its name. Some(None) if the cache knows that there is none.
    pub fn table(&self, namespace: Oid, name: &str) -> Option<Option<Arc<Table>>> {
        let state = self.state.read();
        if state.closing != 0 {
            return None;
        }
        state.tables.get(&namespace)?.get(name).cloned()
    }

    /// A namespace by its name.
    pub fn namespace(&self, name: &str) -> Option<Oid> {
        self.state.read().namespaces.get(name).copied()
    }

    /// Adds a table that was found after `version` was read.
    pub fn put(&self, version: Option<u64>, table: &Arc<Table>) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(self.moved()) {
            state
                .tables
                .entry(table.namespace)
                .or_default()
                .insert(table.name.clone(), Some(Arc::clone(table)));
        }
    }

    /// Adds a name that was found to be no table's after `version` was read.
    pub fn put_absent(&self, version: Option<u64>, namespace: Oid, name: &str) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(self.moved()) && state.absent < MOST_ABSENT {
            let before = state.tables.entry(namespace).or_default().insert(name.to_owned(), None);
            state.absent += usize::from(before.is_none());
        }
    }

    /// Adds a namespace that was found after `version` was read.
    pub fn put_namespace(&self, version: Option<u64>, name: &str, oid: Oid) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(self.moved()) {
            state.namespaces.insert(name.to_owned(), oid);
        }
    }

    /// Called at the end of a transaction that changed the catalogs. The guard is dropped when
    /// everyone sees the change, before the transaction's locks are released.
    pub fn change(&self) -> Change<'_> {
        let mut state = self.state.write();
        state.closing += 1;
        self.forget(&mut state);
        Change { cache: self }
    }

    /// Called when everyone sees new figures or statistics of a table, and nothing else of the
    /// catalogs has changed. Sessions look up their tables again, and find the others here.
    pub fn forget_table(&self, table: &Table) {
        let mut state = self.state.write();
        self.version.fetch_add(1, Ordering::Release);
        if let Some(named) = state.tables.get_mut(&table.namespace) {
            named.remove(&table.name);
        }
    }

    fn forget(&self, state: &mut State) {
        self.version.fetch_add(1, Ordering::Release);
        state.tables.clear();
        state.absent = 0;
        state.namespaces.clear();
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.write();
        state.closing -= 1;
        self.cache.forget(&mut state);
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
        // The number of names is bounded.
        for n in 0..2 * MOST_ABSENT {
            cache.put_absent(cache.version(), 11, &n.to_string());
        }
        assert!(
            cache.table(11, "0").is_some()
                && cache.table(11, &(2 * MOST_ABSENT - 1).to_string()).is_none()
        );
        cache.put(cache.version(), &table(3));
        assert_eq!(found(&cache), Some(Some(3)));
    }

    #[test]
    fn new_figures_of_a_table_leave_the_others() {
        let cache = CatalogCache::default();
        let other = Arc::new(Table { name: "u".to_owned(), ..Table::for_tests(2, "u") });
        let before = cache.version();
        cache.put(before, &table(1));
        cache.put(before, &other);
        cache.put_absent(before, 11, "t");
        cache.forget_table(&table(1));
        assert_eq!(found(&cache), None);
        cache.put(before, &table(1));
        assert_eq!(found(&cache), None, "its figures may be the old ones");
        assert!(cache.table(2200, "u").flatten().is_some_and(|kept| Arc::ptr_eq(&kept, &other)));
        assert_eq!(cache.table(11, "t").map(|known| known.is_none()), Some(true));
        assert_ne!(cache.version(), before, "sessions look again");
        cache.put(cache.version(), &table(3));
        assert_eq!(found(&cache), Some(Some(3)));
    }

    #[test]
    fn a_session_knows_tables_until_the_catalogs_change() {
        let cache = CatalogCache::default();
        let mut known = KnownTables::default();
        let oid = |known: &KnownTables, schema, name| {
            known.get(cache.moved(), schema, name).map(|t| t.oid)
        };
        known.put(cache.moved(), None, "t", &table(1));
        known.put(cache.moved(), Some("s"), "t", &table(2));
        assert_eq!((oid(&known, None, "t"), oid(&known, Some("s"), "t")), (Some(1), Some(2)));
        assert_eq!((oid(&known, Some("r"), "t"), oid(&known, None, "s")), (None, None));
        let before = cache.moved();
        let change = cache.change();
        assert_eq!(oid(&known, None, "t"), None, "from the change's begin on");
        drop(change);
        assert_eq!(oid(&known, None, "t"), None);
        known.put(cache.moved(), None, "t", &table(3));
        assert_eq!((oid(&known, None, "t"), oid(&known, Some("s"), "t")), (Some(3), None));
        assert!(known.get(before, None, "t").is_none());
        // The number of names is bounded.
        for n in 0..2 * MOST_KNOWN {
            known.put(cache.moved(), None, &n.to_string(), &table(4));
            assert!(known.tables.len() <= MOST_KNOWN);
        }
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
