//! What the catalogs say of an index.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use forebay_access::heap::Heap;
use forebay_access::nbtree::{Index, IndexShape, KnownTree, SharedIndexes};
use forebay_access::{ComputedEntries, EntrySource};
use forebay_aio::sync::Mutex;
use forebay_format::ids::xid_precedes;
use forebay_format::{RelFileLocator, Xid};
use forebay_txn::XactManager;
use forebay_types::Oid;

use crate::figures::Figures;
use crate::index_trees::IndexTrees;

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
    /// Its expressions and its predicate, if they are understood.
    pub trees: Arc<IndexTrees>,
    /// How its entries are made, if it has expressions or a predicate.
    pub computed: Option<ComputedEntries>,
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
    /// What was last counted of it.
    pub figures: Figures,
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
            && self.trees == other.trees
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
            trees: Arc::clone(&self.trees),
            computed: self.computed.clone(),
            shape: Arc::clone(&self.shape),
            known,
            shared: Arc::clone(&self.shared),
            unknown: self.unknown.clone(),
            ..*self
        }
    }

    /// Where its columns have their values from: first the keys.
    pub fn sources(&self) -> impl Iterator<Item = EntrySource> + Clone {
        let mut expressions = 0;
        self.columns.iter().map(move |number| {
            let column = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            column.map_or_else(
                || {
                    expressions += 1;
                    EntrySource::Expression(expressions - 1)
                },
                EntrySource::Column,
            )
        })
    }

    /// Where its keys have their values from.
    pub fn key_sources(&self) -> impl Iterator<Item = EntrySource> + Clone {
        self.sources().take(self.shape.keys.len())
    }

    /// The columns of its table that are keys, as indexes in `Table::columns`.
    pub fn key_columns(&self) -> impl Iterator<Item = usize> + Clone {
        columns_among(self.key_sources())
    }

    /// The columns of its table that it has, as indexes in `Table::columns`.
    pub fn table_columns(&self) -> impl Iterator<Item = usize> + Clone {
        columns_among(self.sources())
    }

    /// The columns of its table that its entries are made of, expressions and predicate included.
    pub fn columns_read(&self) -> BTreeSet<usize> {
        let of_trees = self.trees.columns();
        let numbers = of_trees.iter().filter_map(|n| usize::try_from(n.checked_sub(1)?).ok());
        self.table_columns().chain(numbers).collect()
    }

    /// It is not understood, for this reason.
    pub(crate) fn is_unknown(&mut self, why: String) {
        let shape = Arc::make_mut(&mut self.shape);
        (shape.keys, shape.layouts, shape.compression) = Default::default();
        self.unknown = Some(why);
    }

    /// Whether it has columns alone, and all rows.
    pub fn is_plain(&self) -> bool {
        self.unknown.is_none() && self.trees.is_empty()
    }
}

fn columns_among(
    sources: impl Iterator<Item = EntrySource> + Clone,
) -> impl Iterator<Item = usize> + Clone {
    sources.filter_map(|source| match source {
        EntrySource::Column(column) => Some(column),
        EntrySource::Expression(_) => None,
    })
}

/// Of a table's columns, as indexes in `Table::columns`: those that a foreign key may refer to, and
/// those that an index's entries are made of.
pub(crate) fn columns_of(indexes: &[Arc<TableIndex>]) -> (Vec<usize>, Vec<usize>) {
    let ordered = |columns: BTreeSet<usize>| columns.into_iter().collect();
    let unique = indexes.iter().filter(|index| index.unique && index.trees.is_empty());
    let keys = unique.flat_map(|index| index.key_columns()).collect();
    (ordered(keys), ordered(indexes.iter().flat_map(|index| index.columns_read()).collect()))
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
