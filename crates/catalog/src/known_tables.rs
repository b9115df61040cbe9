//! The tables of the names that a session has used.
//!
//! They are valid as long as the shared cache's version has not moved, which an atomic tells
//! without a lock. After that a session looks each name up again, and mostly finds its table in
//! the shared cache.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::table::Table;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CatalogCache;
    use crate::invalidate;

    #[test]
    fn a_session_knows_tables_until_the_catalogs_change() {
        let cache = CatalogCache::new(forebay_types::Encoding::default());
        let mut known = KnownTables::default();
        let table = |oid| Arc::new(Table::for_tests(oid, "t"));
        let oid = |known: &KnownTables, schema, name| {
            known.get(cache.moved(), schema, name).map(|t| t.oid)
        };
        known.put(cache.moved(), None, "t", &table(1));
        known.put(cache.moved(), Some("s"), "t", &table(2));
        assert_eq!((oid(&known, None, "t"), oid(&known, Some("s"), "t")), (Some(1), Some(2)));
        assert_eq!((oid(&known, Some("r"), "t"), oid(&known, None, "s")), (None, None));
        let before = cache.moved();
        let change = cache.change(&[invalidate::relation(5, 1)]).expect("it is about tables");
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
}
