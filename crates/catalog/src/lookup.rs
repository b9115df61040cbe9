//! The catalogs' own indexes, as look-ups use them.
//!
//! Which columns an index of a catalog has is known beforehand, so that the first relations can be
//! found through indexes, too.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{Heap, Heaps};
use forebay_access::nbtree::{Condition, Index, IndexShape, KeyColumn, KeyOrder, Operator};
use forebay_format::varlena::Method;
use forebay_format::{AttrLayout, RelFileLocator};
use forebay_types::{Datum, Encoding, oids};

use crate::error::CatalogError;
use crate::index::KnownTrees;
use crate::options::BTREE;
use crate::schema::{CatalogColumn, CatalogIndex};
use crate::table::Table;

/// The rows of a catalog whose values in the first columns of an index are these.
pub(crate) type Key<'a> = (&'static CatalogIndex, &'a [Datum<'a>]);

/// A catalog with one of its indexes.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) table: Table,
    pub(crate) heap: Heap,
    pub(crate) index: Index,
}

impl Lookup {
    /// An index whose catalog and itself are in these files, in a database with an encoding.
    pub(crate) fn new(
        index: &CatalogIndex,
        (table, locator): (RelFileLocator, RelFileLocator),
        (heaps, trees): (&Heaps, &KnownTrees),
        encoding: Encoding,
    ) -> Result<Lookup, CatalogError> {
        let table = Table::of_catalog(index.of, table, encoding)?;
        let heap = heaps.open(table.locator, true);
        let index = Index {
            locator,
            shape: Arc::new(shape(index, encoding)?),
            pool: Arc::clone(&heap.pool),
            wal: Arc::clone(&heap.wal),
            logged: true,
            known: trees.tree(locator),
            shared: Arc::clone(&trees.shared),
            failure: Arc::clone(&heap.failure),
        };
        Ok(Lookup { table, heap, index })
    }

    /// The first columns of the index have these values.
    pub(crate) fn conditions(&self, key: &[Datum<'_>]) -> Result<Vec<Condition>, AccessError> {
        let equal = |(n, value)| Condition::new(&self.index.shape, n, Operator::Equal, value);
        key.iter().enumerate().map(equal).collect()
    }
}

/// What working on an index of a catalog needs to know of its columns.
fn shape(index: &CatalogIndex, encoding: Encoding) -> Result<IndexShape, CatalogError> {
    let not_known = || CatalogError::corrupt(format!("the order of {} is not known", index.name));
    let (mut keys, mut layouts) = (Vec::new(), Vec::new());
    for column in index.columns {
        let column: &CatalogColumn = index.of.columns.get(*column).ok_or_else(not_known)?;
        let order = KeyOrder::of_type(column.type_oid).ok_or_else(not_known)?;
        keys.push(KeyColumn { order, descending: false, nulls_first: false });
        layouts.push(match column.type_oid {
            oids::NAME => AttrLayout::CSTRING,
            _ => column.layout,
        });
    }
    Ok(IndexShape {
        name: index.name.to_owned(),
        compression: layouts.iter().map(|layout| compression_of(*layout)).collect(),
        layouts,
        keys,
        nulls_are_equal: false,
        fill_factor: BTREE.into(),
        deduplicate: true,
        of_catalog: true,
        encoding,
    })
}

/// How a catalog's index compresses long values of a column.
fn compression_of(layout: AttrLayout) -> Option<Method> {
    (layout.len == -1 && !layout.plain).then_some(Method::Pglz)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::bootstrap::NewCluster;
    use crate::rows::OldestIds;
    use crate::schema::CATALOG_INDEXES;

    #[test]
    fn indexes_are_known_as_the_catalogs_describe_them() {
        let oldest = OldestIds { xid: 3, multi: 1 };
        let cluster = NewCluster {
            superuser: "me".to_owned(),
            oldest,
            templates: false,
            locale: None,
            collations: Vec::new(),
        };
        let tables = cluster.tables().unwrap();
        for known in CATALOG_INDEXES {
            let table = tables.iter().find(|table| table.oid == known.of.oid).unwrap();
            let index = table.indexes.iter().find(|index| index.oid == known.oid).unwrap();
            assert_eq!(shape(known, Encoding::Utf8).unwrap(), index.shape, "{}", known.name);
            assert_eq!(index.columns, known.columns, "{}", known.name);
            assert_eq!(index.unique, known.unique, "{}", known.name);
            assert_eq!(table.mapped, known.of.mapped, "{}", known.name);
        }
    }
}
