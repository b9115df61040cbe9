//! Changes rows of the catalogs, with the entries of the catalogs' own indexes.
//!
//! Every change of a catalog goes through a [`Writer`]. It finds the catalog's indexes in pg_index.
//! What a change makes out of date is noted for the commit record.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::heap::{Attempt, Author, Changer, Columns, Heap, ReadAhead, RowJudge};
use forebay_access::nbtree::{Insertion, NewRow, UniqueCheck, form_index_tuple};
use forebay_access::toast::{ToastTable, pointers};
use forebay_access::{AccessError, form_row};
use forebay_format::{HeapTuple, ItemPointer, Xid};
use forebay_storage::Backend;
use forebay_txn::locks::Interrupt;
use forebay_txn::{CountedRelation, HorizonKind, Transaction};
use forebay_types::{Datum, Oid};

use crate::database::Database;
use crate::error::CatalogError;
use crate::index::TableIndex;
use crate::invalidate;
use crate::lookup::Key;
use crate::reader::{Reader, Rows};
use crate::schema::{CatalogIndex, PG_CATALOG, PUBLIC};
use crate::table::Table;

/// The index that keeps names of relations unique.
const NAMES_OF_RELATIONS: &str = "pg_class_relname_nsp_index";

/// A row of a catalog with its place.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) tid: ItemPointer,
    /// Its first values, as many as were asked for.
    pub(crate) values: Vec<Datum<'static>>,
}

/// A transaction that changes the catalogs.
pub(crate) struct Writer<'a> {
    pub(crate) database: &'a Database,
    pub(crate) backend: &'a mut Backend,
    pub(crate) tx: &'a mut Transaction,
    xid: Xid,
    /// Namespaces whose objects messages name without them.
    pub(crate) path: Vec<Oid>,
}

impl<'a> Writer<'a> {
    /// Lets a transaction change the catalogs. It sees what its earlier commands did.
    pub(crate) fn begin(
        database: &'a Database,
        backend: &'a mut Backend,
        tx: &'a mut Transaction,
    ) -> Result<Writer<'a>, CatalogError> {
        let xid = database.xacts.assign(&mut backend.io, tx)?;
        tx.next_command()?;
        Ok(Writer { database, backend, tx, xid, path: vec![PG_CATALOG, PUBLIC] })
    }

    /// The transaction's id.
    pub(crate) fn xid(&self) -> Xid {
        self.xid
    }

    /// What follows sees what was done so far.
    pub(crate) fn next_command(&mut self) -> Result<(), CatalogError> {
        Ok(self.tx.next_command()?)
    }

    /// Reads what the transaction sees.
    pub(crate) fn reader(&mut self) -> Reader<'_> {
        let snapshot = self.database.xacts.snapshot(self.tx);
        Reader::new(self.database, self.backend, snapshot)
    }

    /// A new OID.
    pub(crate) fn new_oid(&mut self) -> Result<Oid, CatalogError> {
        Ok(self.database.oids.allocate(&mut self.backend.io, &self.database.heaps.wal)?)
    }

    /// A new OID that no row of a catalog has, by the index of its OIDs.
    pub(crate) fn free_oid(&mut self, index: &'static CatalogIndex) -> Result<Oid, CatalogError> {
        loop {
            let oid = self.new_oid()?;
            if !self.has((index, &[Datum::Oid(oid)]))? {
                return Ok(oid);
            }
        }
    }

    /// The role that owns what is created.
    pub(crate) fn owner(&self) -> Oid {
        self.tx.role()
    }

    /// A catalog with its indexes.
    fn catalog(&mut self, oid: Oid) -> Result<Arc<Table>, CatalogError> {
        let database = self.database;
        if let Some(known) = database.opened.lock().get(&oid) {
            return Ok(Arc::clone(known));
        }
        let lost = || CatalogError::corrupt(format!("pg_class does not have catalog {oid}"));
        let table = Arc::new(self.reader().table_by_oid(oid)?.ok_or_else(lost)?);
        database.opened.lock().insert(oid, Arc::clone(&table));
        Ok(table)
    }

    /// The first columns of the rows of a catalog with a key.
    pub(crate) fn rows(
        &mut self,
        key: Key<'_>,
        columns: usize,
    ) -> Result<Vec<Found>, CatalogError> {
        let mut found = Vec::new();
        self.reader().read(Rows::Of(key), columns, &mut |tid, row, _| {
            let values = row.iter().map(|value| value.clone().into_owned()).collect();
            found.push(Found { tid, values });
            Ok(true)
        })?;
        Ok(found)
    }

    /// Whether a catalog has rows with a key.
    pub(crate) fn has(&mut self, key: Key<'_>) -> Result<bool, CatalogError> {
        let mut has = false;
        self.reader().read(Rows::Of(key), 0, &mut |_, _, _| {
            has = true;
            Ok(false)
        })?;
        Ok(has)
    }

    /// The whole row of a catalog with an OID, by its index.
    pub(crate) fn row(
        &mut self,
        index: &'static CatalogIndex,
        oid: Oid,
    ) -> Result<Found, CatalogError> {
        let found = self.rows((index, &[Datum::Oid(oid)]), usize::MAX)?.pop();
        let missing = || CatalogError::corrupt(format!("{} has no row {oid}", index.of.name));
        found.ok_or_else(missing)
    }

    /// Inserts a row.
    pub(crate) fn insert(&mut self, catalog: Oid, row: &[Datum<'_>]) -> Result<(), CatalogError> {
        let table = self.catalog(catalog)?;
        let mut tuple = Vec::new();
        form_row(&table.layouts, row, table.encoding, &mut tuple)?;
        let author = self.author();
        let tid = self.database.heap(&table).insert(self.backend, author, &tuple)?;
        self.tx.count_inserted(counted(&table), 1);
        self.announce(catalog, row);
        self.insert_entries(&table, row, tid)
    }

    /// Replaces a whole row.
    pub(crate) fn update(
        &mut self,
        catalog: Oid,
        tid: ItemPointer,
        row: &[Datum<'_>],
    ) -> Result<(), CatalogError> {
        let table = self.catalog(catalog)?;
        let mut tuple = Vec::new();
        form_row(&table.layouts, row, table.encoding, &mut tuple)?;
        let Table { layouts, key_columns: keys, indexed_columns: indexed, .. } = &*table;
        let columns = Columns { layouts, keys, indexed };
        let heap = self.database.heap(&table);
        let updated =
            self.change(|backend, changer| heap.update(backend, changer, tid, &tuple, &columns))?;
        let Attempt::Done(new) = updated else {
            return Err(CatalogError::refused("XX000", "tuple concurrently updated"));
        };
        self.tx.count_updated(counted(&table), new.hot, new.place.block != tid.block);
        self.announce(catalog, row);
        self.remove_values((&table, &heap), tid, &tuple)?;
        match new.hot {
            // The entries lead to its chain.
            true => Ok(()),
            false => self.insert_entries(&table, row, new.place),
        }
    }

    /// Deletes a row. Its entries go with a vacuum.
    pub(crate) fn delete(&mut self, catalog: Oid, found: &Found) -> Result<(), CatalogError> {
        let table = self.catalog(catalog)?;
        let heap = self.database.heap(&table);
        let deleted = self.change(|backend, changer| heap.delete(backend, changer, found.tid))?;
        self.announce(catalog, &found.values);
        match deleted {
            Attempt::Done(()) => {
                self.tx.count_deleted(counted(&table), 1);
                self.remove_values((&table, &heap), found.tid, &[])
            }
            Attempt::Refused(_) => {
                Err(CatalogError::refused("XX000", "tuple concurrently deleted"))
            }
        }
    }

    /// Deletes the rows of a catalog with a key. So many columns are read.
    pub(crate) fn delete_all(&mut self, key: Key<'_>, columns: usize) -> Result<(), CatalogError> {
        let found = self.rows(key, columns)?;
        found.iter().try_for_each(|found| self.delete(key.0.of.oid, found))
    }

    /// Deletes the chunks of the values of a version that was replaced or deleted, but for values
    /// that the new version has, too.
    fn remove_values(
        &mut self,
        (table, heap): (&Table, &Heap),
        tid: ItemPointer,
        new: &[u8],
    ) -> Result<(), CatalogError> {
        let Some(old) = heap.any_version(self.backend, tid)? else { return Ok(()) };
        let mut gone = pointers(HeapTuple::new(&old)?, &table.layouts)?;
        if !gone.is_empty() && !new.is_empty() {
            let kept = pointers(HeapTuple::new(new)?, &table.layouts)?;
            gone.retain(|pointer| !kept.contains(pointer));
        }
        for (_, pointer) in gone {
            let toast = self.catalog(pointer.toast_rel)?;
            let chunks = self.toast_table(&toast)?;
            let removed =
                self.change(|backend, changer| chunks.remove(backend, changer, pointer))?;
            self.tx.count_deleted(counted(&toast), removed);
        }
        Ok(())
    }

    /// The TOAST table of a catalog.
    fn toast_table(&self, table: &Table) -> Result<ToastTable, CatalogError> {
        let heap = self.database.heap(table);
        let [index] = &table.indexes[..] else {
            let message = format!("TOAST table \"{}\" does not have one index", table.name);
            return Err(CatalogError::corrupt(message));
        };
        Ok(ToastTable {
            oid: table.oid,
            name: table.name.clone(),
            index: index.open(&heap),
            // Indexes of catalogs are never built anew beside writers.
            others: Vec::new(),
            heap,
            ahead: ReadAhead::default(),
            interrupt: Interrupt::default(),
        })
    }

    fn author(&mut self) -> Author {
        Author { xid: self.xid, command: self.tx.use_command() }
    }

    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Backend, &mut Changer<'_>) -> Result<T, AccessError>,
    ) -> Result<T, CatalogError> {
        let author = self.author();
        let Writer { database, backend, tx, .. } = self;
        // Nobody locks rows of catalogs, so nobody makes this transaction a member of a MultiXact.
        let sets = &mut database.heaps.outcomes.sets();
        let mut changer = Changer { xacts: &database.xacts, tx, author, sets, queues: None };
        Ok(change(backend, &mut changer)?)
    }

    /// The commit record says what is out of date with a row.
    pub(crate) fn announce(&mut self, catalog: Oid, row: &[Datum<'_>]) {
        let Database { oid, encoding, .. } = *self.database;
        invalidate::row((oid, encoding), catalog, row)
            .for_each(|message| self.tx.invalidate(message));
    }

    /// Inserts the entries of a row.
    fn insert_entries(
        &mut self,
        table: &Table,
        row: &[Datum<'_>],
        tid: ItemPointer,
    ) -> Result<(), CatalogError> {
        let heap = self.database.heap(table);
        for index in &table.indexes {
            if let Some(why) = &index.unknown {
                let message = format!("cannot insert into index \"{}\": {why}", index.name);
                return Err(CatalogError::refused("0A000", message));
            }
            let values: Vec<Datum<'_>> = index
                .table_columns()
                .filter_map(|column| row.get(column).map(Datum::reborrow))
                .collect();
            let tuple = form_index_tuple(&index.shape, &values, tid)?;
            self.insert_entry((table, &heap), index, &tuple)?;
        }
        Ok(())
    }

    fn insert_entry(
        &mut self,
        (table, heap): (&Table, &Heap),
        index: &TableIndex,
        tuple: &[u8],
    ) -> Result<(), CatalogError> {
        let author = self.author();
        let own = self.tx.full_xid();
        let Writer { database, backend, tx, .. } = self;
        let sets = &mut database.heaps.outcomes.sets();
        let changer = Changer { xacts: &database.xacts, tx, author, sets, queues: None };
        let kind = match table.locator.db {
            0 => HorizonKind::Shared,
            _ => HorizonKind::Catalog,
        };
        let mut judge = RowJudge::new(heap, changer, kind, database.oid, own);
        let unique = UniqueCheck::of(index.unique);
        let row = NewRow { tuple, xid: author.xid, unique, unchanged: false };
        match index.open(heap).insert(backend, &mut judge, row)? {
            Insertion::Done => Ok(()),
            Insertion::Duplicate(_) => Err(duplicate(index)),
            // Locks on names exclude this.
            Insertion::Wait { .. } | Insertion::Unchecked => {
                let message = "could not serialize access due to concurrent update";
                Err(CatalogError::refused("40001", message))
            }
        }
    }
}

/// A catalog in statistics.
fn counted(table: &Table) -> CountedRelation {
    CountedRelation { db: table.locator.db, rel: table.oid }
}

#[cold]
fn duplicate(index: &TableIndex) -> CatalogError {
    if index.name == NAMES_OF_RELATIONS {
        return CatalogError::refused("42P07", "relation already exists");
    }
    let name = &index.name;
    let message = format!("duplicate key value violates unique constraint \"{name}\"");
    CatalogError::refused("23505", message)
}
