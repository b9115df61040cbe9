//! The relations of a database as all sessions know them: tables and sequences, names that are no
//! relation's (every unqualified name is first looked for in pg_catalog), and schemas.
//!
//! The cache holds only what is committed. A transaction that has changed the catalogs looks past
//! it until it ends. Its commit takes away what its invalidation messages name, and leaves the
//! rest; a transaction that aborts has changed nothing here. While a commit ends, nobody fills the
//! cache. So a session that gets a table's lock from that transaction looks the table up again,
//! and finds the new state.
//!
//! ```text
//! reader: version v ── snapshot ── look up ── put(v): refused if the version has moved on
//! commit: Change begins: v+1, entries gone, closed ── visible ── Change ends: v+2, open
//! ```
//!
//! Each session has a memory of its own in front of it ([`crate::KnownTables`]).

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::syscache as number;
use forebay_format::wal::invalidation::Invalidation;
use forebay_types::{Encoding, Oid};

use crate::cached_relations::CachedRelations;
use crate::sequence_def::SequenceInfo;
use crate::table::Table;

#[derive(Debug)]
struct State {
    encoding: Encoding,
    /// Number of transactions that changed the catalogs and are ending.
    closing: u32,
    relations: CachedRelations,
    /// By name. None: there is no such schema.
    namespaces: HashMap<String, Option<Oid>>,
}

/// Most schemas kept, with names that are no schema's.
const MOST_NAMESPACES: usize = 1024;

/// The cache.
#[derive(Debug)]
pub struct CatalogCache {
    state: RwLock<State>,
    /// Changed under the lock, at the beginning and the end of each change.
    version: AtomicU64,
}

/// A transaction that changed the catalogs is ending.
#[derive(Debug)]
pub struct Change<'a> {
    cache: &'a CatalogCache,
}

impl CatalogCache {
    /// An empty cache of a database with this encoding.
    pub fn new(encoding: Encoding) -> CatalogCache {
        let relations = CachedRelations::new(encoding);
        let state = State { encoding, closing: 0, relations, namespaces: HashMap::new() };
        CatalogCache { state: RwLock::new(state), version: AtomicU64::new(0) }
    }

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
        self.state.read().relations.named(namespace, name)
    }

    /// A table by its OID.
    pub fn table_by_oid(&self, oid: Oid) -> Option<Arc<Table>> {
        self.state.read().relations.table(oid)
    }

    /// A sequence by its OID.
    pub fn sequence(&self, oid: Oid) -> Option<Arc<SequenceInfo>> {
        self.state.read().relations.sequence(oid)
    }

    /// A namespace by its name. Some(None) if the cache knows that there is none.
    pub fn namespace(&self, name: &str) -> Option<Option<Oid>> {
        self.state.read().namespaces.get(name).copied()
    }

    /// Adds a table that was found after `version` was read.
    pub fn put(&self, version: Option<u64>, table: &Arc<Table>) {
        self.fill(version, |state| state.relations.put(table));
    }

    /// Adds a sequence that was found after `version` was read.
    pub fn put_sequence(&self, version: Option<u64>, sequence: &Arc<SequenceInfo>) {
        self.fill(version, |state| state.relations.put_sequence(sequence));
    }

    /// Adds a name that was found to be no table's after `version` was read.
    pub fn put_absent(&self, version: Option<u64>, namespace: Oid, name: &str) {
        self.fill(version, |state| state.relations.put_absent(namespace, name));
    }

    /// Adds a namespace that was found after `version` was read, or that there is none.
    pub fn put_namespace(&self, version: Option<u64>, name: &str, oid: Option<Oid>) {
        self.fill(version, |state| {
            if state.namespaces.len() < MOST_NAMESPACES {
                state.namespaces.insert(name.to_owned(), oid);
            }
        });
    }

    fn fill(&self, version: Option<u64>, add: impl FnOnce(&mut State)) {
        let mut state = self.state.write();
        if state.closing == 0 && version == Some(self.moved()) {
            add(&mut state);
        }
    }

    /// Begins a change: the commit of a transaction, or an overwrite in place. `messages` say what
    /// it makes out of date. The caller drops the guard when everyone sees the change, and before
    /// it releases the transaction's locks. None: nothing here depends on these messages.
    pub fn change(&self, messages: &[Invalidation]) -> Option<Change<'_>> {
        if messages.iter().all(is_harmless) {
            return None;
        }
        let mut state = self.state.write();
        state.closing += 1;
        self.version.fetch_add(1, Ordering::Release);
        messages.iter().for_each(|message| state.forget(message));
        Some(Change { cache: self })
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.write();
        state.closing -= 1;
        self.cache.version.fetch_add(1, Ordering::Release);
    }
}

/// Whether nothing here depends on what a message names. Rows of other catalogs than pg_class that
/// say something of a relation come with a message that names the relation.
fn is_harmless(message: &Invalidation) -> bool {
    match message {
        Invalidation::Entry { cache, .. } => matches!(
            *cache,
            number::ATTRIBUTE_BY_NAME
                | number::ATTRIBUTE_BY_NUMBER
                | number::CLASS_BY_OID
                | number::CONSTRAINT_BY_OID
                | number::DATABASE_BY_OID
                | number::INDEX_BY_OID
                | number::MEMBER_BY_ROLE
                | number::ROLE_BY_MEMBER
                | number::ROLE_BY_NAME
                | number::ROLE_BY_OID
                | number::SEQUENCE_BY_OID
                | number::STATISTIC
                | number::TABLESPACE_BY_OID
                | number::TYPE_BY_NAME
                | number::TYPE_BY_OID
        ),
        Invalidation::Snapshot { .. } | Invalidation::RelationSync { .. } => true,
        _ => false,
    }
}

impl State {
    /// Removes what a message names. After one that is not understood nothing is known any more.
    fn forget(&mut self, message: &Invalidation) {
        match *message {
            Invalidation::Relation { rel, .. } if rel != 0 => self.relations.forget(rel),
            Invalidation::Entry { cache: number::CLASS_BY_NAME, hash, .. } => {
                self.relations.forget_absent(hash);
            }
            Invalidation::Entry { cache: number::NAMESPACE_BY_OID, hash, .. } => {
                self.relations.forget_namespace(hash);
            }
            Invalidation::Entry { cache: number::NAMESPACE_BY_NAME, hash, .. } => {
                let encoding = self.encoding;
                let hash_of = |name: &str| number::hash_name(encoding.sent(name));
                self.namespaces.retain(|name, _| hash_of(name) != hash);
            }
            _ if is_harmless(message) => {}
            _ => {
                self.relations = CachedRelations::new(self.encoding);
                self.namespaces.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invalidate;

    fn table(oid: Oid) -> Arc<Table> {
        Arc::new(Table::for_tests(oid, "t"))
    }

    fn other() -> Arc<Table> {
        Arc::new(Table { name: "u".to_owned(), ..Table::for_tests(2, "u") })
    }

    fn found(cache: &CatalogCache) -> Option<Option<Oid>> {
        cache.table(2200, "t").map(|known| known.map(|table| table.oid))
    }

    /// What a commit says that has changed the row of pg_class of table "t".
    fn changed(oid: Oid) -> [Invalidation; 3] {
        invalidate::class((5, Encoding::default()), 5, oid, ("t", 2200))
    }

    #[test]
    fn a_name_looked_for_in_vain_is_remembered_until_there_is_such_a_table() {
        let cache = CatalogCache::new(Encoding::default());
        let before = cache.version();
        cache.put_absent(before, 2200, "t");
        cache.put_absent(before, 11, "t");
        assert_eq!(found(&cache), Some(None));
        drop(cache.change(&changed(1)).expect("it is about tables"));
        assert_eq!(found(&cache), None);
        assert!(cache.table(11, "t").is_some(), "another namespace's");
        cache.put_absent(before, 2200, "t");
        assert_eq!(found(&cache), None, "it may be there by now");
        cache.put(cache.version(), &table(3));
        assert_eq!(found(&cache), Some(Some(3)));
    }

    #[test]
    fn a_commit_takes_away_what_it_has_changed() {
        let cache = CatalogCache::new(Encoding::default());
        let kept = other();
        cache.put(cache.version(), &table(1));
        cache.put(cache.version(), &kept);
        cache.put_namespace(cache.version(), "public", Some(2200));
        cache.put_namespace(cache.version(), "s", None);
        let change = cache.change(&changed(1)).expect("it is about tables");
        // While it ends, others are found.
        let is_kept = || {
            cache.table(2200, "u").flatten().is_some_and(|found| Arc::ptr_eq(&found, &kept))
                && cache.table_by_oid(2).is_some()
        };
        assert!(found(&cache).is_none() && cache.table_by_oid(1).is_none() && is_kept());
        drop(change);
        assert!(found(&cache).is_none() && is_kept());
        assert_eq!(
            (cache.namespace("public"), cache.namespace("s")),
            (Some(Some(2200)), Some(None))
        );
        // CREATE SCHEMA s
        drop(cache.change(&invalidate::namespace(5, 16_400, number::hash_name("s"))));
        assert_eq!((cache.namespace("public"), cache.namespace("s")), (Some(Some(2200)), None));
        assert!(is_kept());
        // ALTER SCHEMA public RENAME
        drop(cache.change(&invalidate::namespace(5, 2200, number::hash_name("public"))));
        assert!(!is_kept() && cache.namespace("public").is_none());
        // Roles and databases are not known here.
        let before = cache.version();
        let role = Invalidation::Entry { cache: number::ROLE_BY_OID, db: 0, hash: 7 };
        assert!(cache.change(&[role]).is_none());
        assert_eq!(cache.version(), before);
        // A collation, of whatever column.
        cache.put(cache.version(), &kept);
        let collation = Invalidation::Entry { cache: number::COLLATION_BY_OID, db: 5, hash: 7 };
        drop(cache.change(&[collation]).expect("columns have collations"));
        assert!(!is_kept());
    }

    #[test]
    fn what_was_looked_up_before_a_change_is_not_remembered_after_it() {
        let cache = CatalogCache::new(Encoding::default());
        let before = cache.version();
        cache.put(before, &table(1));
        assert_eq!(found(&cache), Some(Some(1)));

        let change = cache.change(&changed(1));
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
