//! The caches: one for all sessions, one in each session.
//!
//! A commit that makes entries out of date goes as [`crate::CatalogCache`]'s does: while it
//! ends, nobody fills the shared cache, and what was read before it began is not added after it.

use forebay_aio::sync::RwLock;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::wal::invalidation::Invalidation;
use forebay_types::Encoding;

use super::lookups::{Lookup, Maps};

#[derive(Debug, Default)]
struct State {
    /// Number of transactions that changed rows and are ending.
    closing: u32,
    maps: Maps,
}

/// Rows that were looked up in a database, for all sessions. It holds what is committed.
#[derive(Debug, Default)]
pub struct SysCache {
    state: RwLock<State>,
    /// That of the names that hash values are made of.
    encoding: Encoding,
    /// Changed under the lock, at the beginning and the end of each change.
    version: AtomicU64,
}

/// What a session has looked up. Valid as long as the shared cache's version stands.
#[derive(Debug, Default)]
pub struct KnownRows {
    version: u64,
    maps: Maps,
}

/// A transaction that changed rows is ending. The guard is dropped when everyone sees the change.
#[derive(Debug)]
pub struct SysCacheChange<'a> {
    cache: &'a SysCache,
    messages: Vec<Invalidation>,
}

impl SysCache {
    /// The empty cache of a database with an encoding.
    pub(crate) fn new(encoding: Encoding) -> SysCache {
        SysCache { encoding, ..SysCache::default() }
    }

    /// A number that changes with the rows.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A row, or that there is none, if that is known.
    pub fn get<K: Lookup>(&self, key: &K) -> Option<K::Row> {
        let state = self.state.read();
        if state.closing != 0 {
            return None;
        }
        K::entries(&state.maps).get(key.hash(self.encoding), key)
    }

    /// Adds a row that was read after `version` was read.
    pub fn put<K: Lookup>(&self, version: u64, key: K, row: K::Row) {
        let mut state = self.state.write();
        if state.closing == 0 && version == self.version() {
            K::entries_mut(&mut state.maps).put(key.hash(self.encoding), key, row);
        }
    }

    /// Called at the end of a transaction with what it makes out of date. None: nothing here.
    pub fn change(&self, messages: &[Invalidation]) -> Option<SysCacheChange<'_>> {
        let messages: Vec<_> = messages.iter().filter(|m| Maps::knows(m)).copied().collect();
        if messages.is_empty() {
            return None;
        }
        let mut state = self.state.write();
        state.closing += 1;
        self.forget(&mut state, &messages);
        Some(SysCacheChange { cache: self, messages })
    }

    fn forget(&self, state: &mut State, messages: &[Invalidation]) {
        self.version.fetch_add(1, Ordering::Release);
        messages.iter().for_each(|message| state.maps.forget(message));
    }
}

impl Drop for SysCacheChange<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.write();
        state.closing -= 1;
        self.cache.forget(&mut state, &self.messages);
    }
}

impl KnownRows {
    /// A row that was found at this version.
    pub fn get<K: Lookup>(&self, version: u64, key: &K) -> Option<K::Row> {
        if self.version != version {
            return None;
        }
        // No message hits a single entry, so any hash value does.
        K::entries(&self.maps).get(key.hash(Encoding::Utf8), key)
    }

    /// Adds a row that was found at this version.
    pub fn put<K: Lookup>(&mut self, version: u64, key: K, row: K::Row) {
        if self.version != version {
            self.maps = Maps::default();
            self.version = version;
        }
        K::entries_mut(&mut self.maps).put(key.hash(Encoding::Utf8), key, row);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lookups::{MOST, OperatorByOid, ProcsNamed, TypeByOid, TypeNamed};
    use super::*;
    use forebay_format::syscache::{TYPE_BY_NAME, TYPE_BY_OID, hash_key, hash_name, hash_oid};

    fn entry(cache: i8, hash: u32) -> Invalidation {
        Invalidation::Entry { cache, db: 5, hash }
    }

    #[test]
    fn a_commit_makes_its_own_entries_out_of_date() {
        let cache = SysCache::default();
        let name = TypeNamed { namespace: 11, name: "t".into() };
        cache.put(cache.version(), TypeByOid(1), None);
        cache.put(cache.version(), TypeByOid(2), None);
        cache.put(cache.version(), name.clone(), None);
        cache.put(cache.version(), ProcsNamed("f".into()), Vec::new().into());
        drop(cache.change(&[entry(TYPE_BY_OID, hash_oid(1))]).expect("types are known here"));
        assert!(cache.get(&TypeByOid(1)).is_none());
        assert!(cache.get(&TypeByOid(2)).is_some() && cache.get(&name).is_some());
        drop(
            cache
                .change(&[entry(TYPE_BY_NAME, name.hash(Encoding::Utf8))])
                .expect("so are their names"),
        );
        assert!(cache.get(&name).is_none() && cache.get(&TypeByOid(2)).is_some());
        assert!(cache.get(&ProcsNamed("f".into())).is_some());
        // A catalog as a whole.
        let all = Invalidation::Catalog { db: 5, catalog: crate::schema::PG_PROC.oid };
        drop(cache.change(&[all]).expect("functions are known here"));
        assert!(cache.get(&ProcsNamed("f".into())).is_none());
        assert!(cache.get(&TypeByOid(2)).is_some());
        let version = cache.version();
        assert!(cache.change(&[Invalidation::Relation { db: 5, rel: 1 }]).is_none());
        assert_eq!(cache.version(), version, "tables are not known here");
    }

    #[test]
    fn names_are_known_by_their_bytes() {
        let name = TypeNamed { namespace: 11, name: "\u{e9}".into() };
        let cache = SysCache::new(Encoding::SqlAscii);
        cache.put(cache.version(), name.clone(), None);
        let hash = hash_key(&[hash_name(b"\xe9"), hash_oid(11)]);
        drop(cache.change(&[entry(TYPE_BY_NAME, hash)]).expect("types are known here"));
        assert!(cache.get(&name).is_none());
    }

    #[test]
    fn what_was_read_before_a_change_is_not_added_after_it() {
        let cache = SysCache::default();
        let before = cache.version();
        let change = cache.change(&[entry(TYPE_BY_OID, hash_oid(1))]);
        cache.put(before, TypeByOid(1), None);
        cache.put(cache.version(), TypeByOid(1), None);
        assert!(cache.get(&TypeByOid(1)).is_none(), "a change is ending");
        let during = cache.version();
        drop(change);
        cache.put(during, TypeByOid(1), None);
        assert!(cache.get(&TypeByOid(1)).is_none());
        cache.put(cache.version(), TypeByOid(1), None);
        assert!(cache.get(&TypeByOid(1)).is_some());
    }

    #[test]
    fn a_session_knows_rows_of_one_version() {
        let mut known = KnownRows::default();
        known.put(3, OperatorByOid(1), None);
        assert!(known.get(3, &OperatorByOid(1)).is_some());
        assert!(known.get(4, &OperatorByOid(1)).is_none());
        known.put(4, OperatorByOid(2), None);
        assert!(known.get(4, &OperatorByOid(1)).is_none());
        for oid in 0..2 * MOST as u32 {
            known.put(4, OperatorByOid(oid), None);
        }
        let kept = (0..2 * MOST as u32).filter(|oid| known.get(4, &OperatorByOid(*oid)).is_some());
        assert!(kept.count() <= MOST);
    }
}
