//! Reads rows of the catalogs: all of one, or those that an index leads to.
//!
//! It decodes only the leading columns that the engine uses, so it can read rows that PostgreSQL
//! wrote, with their access lists and options.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::heap::{HeapScan, ReadAhead, RowReader, Visibility};
use forebay_access::index_scan::{IndexRows, ScanOptions};
use forebay_access::nbtree::Direction;
use forebay_collation::Collation;
use forebay_format::tuple::Deform;
use forebay_format::varlena::Varlena;
use forebay_format::{HeapTuple, ItemPointer, RelFileLocator};
use forebay_storage::Backend;
use forebay_txn::{HorizonKind, Snapshot};
use forebay_types::{Datum, Encoding, Oid};

use crate::database::Database;
use crate::error::CatalogError;
use crate::lookup::{Key, Lookup};
use crate::maps::unmapped;
use crate::row::Row;
use crate::row_source::{RowSource, ValuesSink};
use crate::schema::{CatalogIndex, CatalogTable, PG_CLASS, PG_CLASS_OID_INDEX};
use crate::table::Table;

/// Number of columns of pg_class up to reltablespace.
const FILE_COLUMNS: usize = PG_CLASS.place("reltablespace") + 1;

/// Which rows are read.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    /// All of a catalog.
    All(&'static CatalogTable),
    /// The rows with a key.
    Of(Key<'a>),
}

/// Gets a row: its place, the values that were asked for, and the whole as stored. Returns whether
/// to go on.
pub(crate) type RowSink<'a> =
    dyn FnMut(ItemPointer, &[Datum<'_>], HeapTuple<'_>) -> Result<bool, CatalogError> + 'a;

/// Reads the catalogs with one snapshot.
pub struct Reader<'a> {
    database: &'a Database,
    backend: &'a mut Backend,
    snapshot: Snapshot,
}

impl RowSource for Reader<'_> {
    fn rows_of(
        &mut self,
        index: &'static CatalogIndex,
        key: &[Datum<'_>],
        columns: usize,
        row: &mut ValuesSink<'_>,
    ) -> Result<(), CatalogError> {
        self.read(Rows::Of((index, key)), columns, &mut |_, values, _| row(values).map(|()| true))
    }

    fn encoding(&self) -> Encoding {
        self.database.encoding
    }

    fn collation(&mut self, oid: Oid) -> Result<Arc<Collation>, CatalogError> {
        self.index_collation(oid)?.map_err(|why| CatalogError::refused("0A000", why))
    }
}

impl<'a> Reader<'a> {
    /// A reader that sees what the snapshot sees.
    pub fn new(database: &'a Database, backend: &'a mut Backend, snapshot: Snapshot) -> Reader<'a> {
        Reader { database, backend, snapshot }
    }

    /// The database that it reads.
    pub(crate) fn database(&self) -> &'a Database {
        self.database
    }

    /// Decodes the first `columns` of visible rows, and shows them to `row`.
    pub(crate) fn read(
        &mut self,
        rows: Rows<'_>,
        columns: usize,
        row: &mut RowSink<'_>,
    ) -> Result<(), CatalogError> {
        match rows {
            Rows::All(catalog) => self.scan(catalog, columns, row),
            Rows::Of(key) => self.look_up(key, columns, row),
        }
    }

    fn visibility(&self) -> Visibility {
        Visibility::new(self.snapshot.clone(), self.database.heaps.outcomes.clone())
    }

    fn scan(
        &mut self,
        catalog: &CatalogTable,
        columns: usize,
        row: &mut RowSink<'_>,
    ) -> Result<(), CatalogError> {
        let file = self.locate(catalog, (catalog.oid, catalog.name))?;
        let table = Table::of_catalog(catalog, file, self.database.encoding)?;
        let (pool, visibility) = (&self.database.heaps.pool, self.visibility());
        let mut scan = HeapScan::begin(pool, table.locator, visibility, ReadAhead::default())?;
        while let Some(rows) = scan.next_page(self.backend)? {
            for index in 0..rows {
                let tuple = HeapTuple::new(scan.tuple(index))?;
                if !row(scan.tuple_id(index), &decode(&table, columns, tuple)?, tuple)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn look_up(
        &mut self,
        (index, key): Key<'_>,
        columns: usize,
        row: &mut RowSink<'_>,
    ) -> Result<(), CatalogError> {
        let has_one = index.unique && key.len() == index.columns.len();
        let twice = || {
            let CatalogIndex { name, of, .. } = index;
            CatalogError::corrupt(format!(
                "{} has two rows with the key {key:?} of {name}",
                of.name
            ))
        };
        let lookup = self.lookup(index)?;
        let Lookup { table, heap, index } = &*lookup;
        let conditions = lookup.conditions(key)?;
        let kind = if table.locator.db == 0 { HorizonKind::Shared } else { HorizonKind::Catalog };
        // Entries of rows that nobody sees any more are killed: a name that is made and dropped
        // again and again leaves many of them.
        let pruner = heap.pruner(kind, self.database.oid, None);
        let reader = RowReader::new(self.visibility(), pruner).without_pruning();
        let mut rows = IndexRows::new(heap, index, conditions, reader, ScanOptions::default());
        let mut goes_on = true;
        while (goes_on || has_one)
            && let Some(found) = rows.next(self.backend, Direction::Forward)?
        {
            if !goes_on {
                return Err(twice());
            }
            let tuple = HeapTuple::new(found.tuple)?;
            goes_on = row(found.tid, &decode(table, columns, tuple)?, tuple)? && !has_one;
        }
        Ok(())
    }

    /// An index of a catalog. Nothing here moves one to another file, so it is located once.
    fn lookup(&mut self, index: &'static CatalogIndex) -> Result<Arc<Lookup>, CatalogError> {
        let database = self.database;
        if let Some(known) = database.lookups.lock().get(&index.oid) {
            return Ok(Arc::clone(known));
        }
        let of = index.of;
        let files =
            (self.locate(of, (of.oid, of.name))?, self.locate(of, (index.oid, index.name))?);
        let known = (&*database.heaps, &*database.trees);
        let lookup = Arc::new(Lookup::new(index, files, known, database.encoding)?);
        database.lookups.lock().insert(index.oid, Arc::clone(&lookup));
        Ok(lookup)
    }

    /// The file of a catalog, or of an index of it.
    fn locate(
        &mut self,
        catalog: &CatalogTable,
        (oid, name): (Oid, &str),
    ) -> Result<RelFileLocator, CatalogError> {
        let mut found = catalog.mapped.then_some((0, 0));
        if found.is_none() {
            let key = (&PG_CLASS_OID_INDEX, &[Datum::Oid(oid)][..]);
            self.look_up(key, FILE_COLUMNS, &mut |_, row, _| {
                let class = Row(row, PG_CLASS.name);
                found = Some((class.oid(7)?, class.oid(8)?));
                Ok(false)
            })?;
        }
        let missing = || CatalogError::corrupt(format!("pg_class does not have {name}"));
        let (filenode, tablespace) = found.ok_or_else(missing)?;
        let locator = self.database.maps.locator(oid, catalog.shared, filenode, tablespace);
        locator.ok_or_else(|| unmapped(name))
    }
}

/// The first columns of a row.
pub(crate) fn decode<'t>(
    table: &Table,
    columns: usize,
    tuple: HeapTuple<'t>,
) -> Result<Vec<Datum<'t>>, CatalogError> {
    let mut walk = Deform::new(tuple)?;
    let mut values = Vec::with_capacity(columns.min(table.layouts.len()));
    for (layout, column) in table.layouts.iter().zip(&table.columns).take(columns) {
        values.push(match walk.next(*layout)? {
            None => Datum::Null,
            Some(Varlena::Plain(bytes)) => column.repr.decode(bytes, table.encoding)?,
            // Nothing here reads it: a row that is changed keeps it as it is.
            Some(stored) => Datum::Toasted(stored.encode().into()),
        });
    }
    Ok(values)
}
