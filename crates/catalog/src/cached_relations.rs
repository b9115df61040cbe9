//! The relations in the shared cache, by OID and by name, and names that are no relation's.
//!
//! A table goes with any message that names it or one of its indexes. Its own row of pg_class and
//! those of its columns, checks, keys and triggers are announced with the table's OID.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_format::syscache::{hash_key, hash_name, hash_oid};
use forebay_types::{Encoding, Oid};

use crate::sequence_def::SequenceInfo;
use crate::table::Table;

/// Most tables kept. With more in use, others give way to those that are looked up.
const MOST_TABLES: usize = 8192;
/// Most sequences kept.
const MOST_SEQUENCES: usize = 8192;
/// Most names kept that are no table's. A client can ask for any number of names.
const MOST_ABSENT: usize = 1024;

#[derive(Debug)]
pub(crate) struct CachedRelations {
    encoding: Encoding,
    tables: HashMap<Oid, Arc<Table>>,
    /// The OIDs of tables, by namespace and name.
    names: HashMap<Oid, HashMap<String, Oid>>,
    /// The table of an index, by OID.
    of_index: HashMap<Oid, Oid>,
    sequences: HashMap<Oid, Arc<SequenceInfo>>,
    /// Names that are no table's, by the hash value of name and namespace that messages have.
    absent: HashMap<u32, (Oid, String)>,
}

impl CachedRelations {
    /// None yet, of a database with this encoding.
    pub(crate) fn new(encoding: Encoding) -> CachedRelations {
        CachedRelations {
            encoding,
            tables: HashMap::new(),
            names: HashMap::new(),
            of_index: HashMap::new(),
            sequences: HashMap::new(),
            absent: HashMap::new(),
        }
    }

    /// The hash value that names a row of pg_class by its name.
    fn name_hash(&self, namespace: Oid, name: &str) -> u32 {
        hash_key(&[hash_name(self.encoding.sent(name)), hash_oid(namespace)])
    }

    /// Some(None): there is none.
    pub(crate) fn named(&self, namespace: Oid, name: &str) -> Option<Option<Arc<Table>>> {
        if let Some(oid) = self.names.get(&namespace).and_then(|names| names.get(name)) {
            return Some(self.table(*oid));
        }
        let (of, known) = self.absent.get(&self.name_hash(namespace, name))?;
        (*of == namespace && known == name).then_some(None)
    }

    pub(crate) fn table(&self, oid: Oid) -> Option<Arc<Table>> {
        self.tables.get(&oid).cloned()
    }

    pub(crate) fn sequence(&self, oid: Oid) -> Option<Arc<SequenceInfo>> {
        self.sequences.get(&oid).cloned()
    }

    pub(crate) fn put(&mut self, table: &Arc<Table>) {
        self.forget_table(table.oid);
        make_room(&self.tables, MOST_TABLES).into_iter().for_each(|oid| self.forget_table(oid));
        for index in &table.indexes {
            self.of_index.insert(index.oid, table.oid);
        }
        let named = self.names.entry(table.namespace).or_default();
        named.insert(table.name.clone(), table.oid);
        self.tables.insert(table.oid, Arc::clone(table));
    }

    pub(crate) fn put_sequence(&mut self, sequence: &Arc<SequenceInfo>) {
        if let Some(oid) = make_room(&self.sequences, MOST_SEQUENCES) {
            self.sequences.remove(&oid);
        }
        self.sequences.insert(sequence.oid, Arc::clone(sequence));
    }

    pub(crate) fn put_absent(&mut self, namespace: Oid, name: &str) {
        if self.absent.len() < MOST_ABSENT {
            let hash = self.name_hash(namespace, name);
            self.absent.insert(hash, (namespace, name.to_owned()));
        }
    }

    /// A relation of any kind has changed.
    pub(crate) fn forget(&mut self, oid: Oid) {
        self.sequences.remove(&oid);
        self.forget_table(self.of_index.get(&oid).copied().unwrap_or(oid));
    }

    /// A relation may have got the name with this hash value.
    pub(crate) fn forget_absent(&mut self, hash: u32) {
        self.absent.remove(&hash);
    }

    /// The row of a namespace whose OID has this hash value has changed.
    pub(crate) fn forget_namespace(&mut self, hash: u32) {
        let of_hash: Vec<Oid> =
            self.names.keys().copied().filter(|&oid| hash_oid(oid) == hash).collect();
        for namespace in of_hash {
            let named = self.names.get(&namespace).map(|named| named.values().copied().collect());
            let tables: Vec<Oid> = named.unwrap_or_default();
            tables.into_iter().for_each(|table| self.forget_table(table));
        }
        self.sequences.retain(|_, sequence| hash_oid(sequence.namespace) != hash);
    }

    fn forget_table(&mut self, oid: Oid) {
        let Some(table) = self.tables.remove(&oid) else { return };
        for index in &table.indexes {
            self.of_index.remove(&index.oid);
        }
        if let Some(named) = self.names.get_mut(&table.namespace) {
            // After a change of names another table may have this one.
            if named.get(&table.name) == Some(&oid) {
                named.remove(&table.name);
            }
            if named.is_empty() {
                self.names.remove(&table.namespace);
            }
        }
    }
}

/// Returns the key of an entry to evict, if the map is full: that of the first one in the map's
/// order, which is arbitrary.
fn make_room<V>(map: &HashMap<Oid, V>, most: usize) -> Option<Oid> {
    (map.len() >= most).then(|| map.keys().next().copied()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(oid: Oid, name: &str) -> Arc<Table> {
        Arc::new(Table { name: name.to_owned(), ..Table::for_tests(oid, name) })
    }

    fn found(cached: &CachedRelations, name: &str) -> Option<Option<Oid>> {
        cached.named(2200, name).map(|known| known.map(|table| table.oid))
    }

    #[test]
    fn two_tables_exchange_their_names() {
        let mut cached = CachedRelations::new(Encoding::default());
        cached.put(&named(1, "a"));
        cached.put(&named(2, "b"));
        cached.forget(1);
        cached.put(&named(1, "b"));
        assert_eq!((found(&cached, "a"), found(&cached, "b")), (None, Some(Some(1))));
        cached.forget(2);
        assert_eq!(found(&cached, "b"), Some(Some(1)), "the name is the other's");
        cached.forget(1);
        assert_eq!(found(&cached, "b"), None);
        assert!(cached.names.is_empty() && cached.tables.is_empty());
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut cached = CachedRelations::new(Encoding::default());
        for oid in 1..=MOST_TABLES as Oid + 100 {
            cached.put(&named(oid, &oid.to_string()));
            cached.put_absent(11, &oid.to_string());
            assert!(found(&cached, &oid.to_string()).is_some(), "the newest is there");
        }
        assert_eq!(cached.tables.len(), MOST_TABLES);
        assert_eq!(cached.names.values().map(HashMap::len).sum::<usize>(), MOST_TABLES);
        assert_eq!(cached.absent.len(), MOST_ABSENT);
        assert!(cached.named(11, "1").is_some_and(|known| known.is_none()));
        assert!(cached.named(11, &(MOST_ABSENT + 100).to_string()).is_none());
    }
}
