//! What the catalogs say of an index.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use forebay_access::heap::Heap;
use forebay_access::nbtree::{Index, IndexShape, KnownTree, SharedIndexes};
use forebay_aio::sync::Mutex;
use forebay_format::ids::xid_precedes;
use forebay_format::{RelFileLocator, Xid};
use forebay_txn::XactManager;
use forebay_types::Oid;

/// An index of a table, as a transaction sees it.
#[derive(Debug)]
pub struct TableIndex {
    /// pg_class.oid
    pub oid: Oid,
    /// Its name.
    pub name: String,
    /// Its table's OID.
    pub table: Oid,
    /// Its file.
    pub locator: RelFileLocator,
    /// The table's column of each of its columns, by number from 1: first the keys, then the
    /// included ones. 0: an expression.
    pub columns: Vec<i16>,
    /// Whether no two rows may have the same key.
    pub unique: bool,
    /// Whether it is the primary key's.
    pub primary: bool,
    /// Whether it is an exclusion constraint's.
    pub exclusion: bool,
    /// Whether uniqueness is checked at once, not at the end of a statement or transaction.
    pub immediate: bool,
    /// Whether queries may use it.
    pub valid: bool,
    /// Whether new rows are to be put into it.
    pub ready: bool,
    /// Snapshots that are older than the end of this transaction must not use it: it lacks versions
    /// that they see (indcheckxmin).
    pub check_xmin: Option<Xid>,
    /// What working on it needs to know of its columns. Without key columns if it is `unknown`.
    pub shape: Arc<IndexShape>,
    /// Places in its tree.
    pub known: Arc<KnownTree>,
    /// What the indexes of an engine share.
    pub shared: Arc<SharedIndexes>,
    /// Why it is not understood. The table may be read without it, but not written.
    pub unknown: Option<String>,
}

impl TableIndex {
    /// Whether a query may use it that sees nothing older than a transaction's end.
    pub fn serves(&self, oldest: Xid) -> bool {
        self.valid && self.check_xmin.is_none_or(|xmin| xid_precedes(xmin, oldest))
    }

    /// Whether another index has the same rows under the same keys, and refuses the same ones: it
    /// is, or may become, the twin that takes the place of the other.
    pub fn has_form_of(&self, other: &TableIndex) -> bool {
        let form = |index: &TableIndex| (index.unique, index.shape.nulls_are_equal);
        form(self) == form(other)
            && self.columns == other.columns
            && self.shape.keys == other.shape.keys
    }

    /// The index, over the heap of its table.
    pub fn open(&self, heap: &Heap) -> Index {
        Index {
            locator: self.locator,
            shape: Arc::clone(&self.shape),
            pool: Arc::clone(&heap.pool),
            wal: Arc::clone(&heap.wal),
            logged: heap.logged,
            known: Arc::clone(&self.known),
            shared: Arc::clone(&self.shared),
            failure: Arc::clone(&heap.failure),
        }
    }

    /// The same index in another file.
    pub fn at(&self, locator: RelFileLocator, known: Arc<KnownTree>) -> TableIndex {
        TableIndex {
            name: self.name.clone(),
            locator,
            columns: self.columns.clone(),
            shape: Arc::clone(&self.shape),
            known,
            shared: Arc::clone(&self.shared),
            unknown: self.unknown.clone(),
            ..*self
        }
    }

    /// The columns of its table that its keys are made of, as indexes in `Table::columns`.
    pub fn key_columns(&self) -> impl Iterator<Item = usize> {
        self.table_columns().take(self.shape.keys.len())
    }

    /// The columns of its table that it has, as indexes in `Table::columns`.
    pub fn table_columns(&self) -> impl Iterator<Item = usize> + Clone {
        self.columns.iter().filter_map(|number| usize::try_from(number.checked_sub(1)?).ok())
    }
}

/// Of a table's columns, as indexes in `Table::columns`: those that a foreign key may refer to, and
/// those that an index has.
pub(crate) fn columns_of(indexes: &[Arc<TableIndex>]) -> (Vec<usize>, Vec<usize>) {
    let ordered = |columns: BTreeSet<usize>| columns.into_iter().collect();
    let unique = indexes.iter().filter(|index| index.unique);
    let keys = unique.flat_map(|index| index.key_columns()).collect();
    (ordered(keys), ordered(indexes.iter().flat_map(|index| index.table_columns()).collect()))
}

/// Places in the trees of all indexes.
#[derive(Debug)]
pub struct KnownTrees {
    trees: Mutex<HashMap<RelFileLocator, Arc<KnownTree>>>,
    /// What all of them share.
    pub(crate) shared: Arc<SharedIndexes>,
}

impl KnownTrees {
    /// Nothing is known of indexes that these transactions change.
    pub fn new(xacts: Arc<XactManager>) -> KnownTrees {
        KnownTrees { trees: Mutex::default(), shared: Arc::new(SharedIndexes::new(xacts)) }
    }

    /// Places in an index's tree.
    pub fn tree(&self, index: RelFileLocator) -> Arc<KnownTree> {
        self.trees.lock().entry(index).or_default().clone()
    }

    /// Forgets an index whose file is gone.
    pub fn forget(&self, index: RelFileLocator) {
        self.trees.lock().remove(&index);
    }

    /// Forgets the indexes of a database.
    pub(crate) fn forget_database(&self, oid: Oid) {
        self.trees.lock().retain(|index, _| index.db != oid);
    }
}
