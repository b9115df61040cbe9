//! What vacuum stores of a table and of the database, in place: the rows get no newer versions.
//!
//! The caller's lock on the table excludes DDL, which would update its row of pg_class. Who updates
//! a row of pg_database has locked it (`database_row_lock`), and so has the caller.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_access::heap::Announcement;
use forebay_format::ids::{xid_is_normal, xid_precedes};
use forebay_format::multixact::{INVALID_MULTI, MultiXactId, multi_precedes};
use forebay_format::syscache;
use forebay_format::wal::invalidation::Invalidation;
use forebay_format::{ItemPointer, Oid, Xid};
use forebay_storage::Backend;
use forebay_txn::Transaction;
use forebay_types::Datum;

use crate::database::Database;
use crate::error::CatalogError;
use crate::invalidate;
use crate::reader::{Reader, Rows};
use crate::row::Row;
use crate::schema::{
    CatalogTable, PG_CATALOG, PG_CLASS, PG_CLASS_OID_INDEX, PG_DATABASE, PG_DATABASE_OID_INDEX,
};
use crate::table::Table;

/// What vacuum needs to know of a relation's pg_class row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassFigures {
    /// relpages: blocks, when they were last counted
    pub pages: u32,
    /// reltuples: live rows, an estimate; -1 if it is not known
    pub tuples: f32,
    /// relallvisible
    pub all_visible: u32,
    /// relallfrozen
    pub all_frozen: u32,
    /// relfrozenxid: older transactions are frozen in all rows
    pub frozen_xid: Xid,
    /// relminmxid: the same for MultiXacts
    pub min_multi: MultiXactId,
    /// reltoastrelid: its TOAST table, or 0
    pub toast: Oid,
    /// relhasindex
    pub indexed: bool,
}

/// The first ids that are not assigned: what is stored and not older is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextIds {
    /// Transactions.
    pub xid: Xid,
    /// MultiXacts.
    pub multi: MultiXactId,
}

/// What building an index tells of its table, or of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RelationFigures {
    /// Whether it has an index.
    pub has_index: bool,
    /// Blocks.
    pub pages: u32,
    /// Rows or entries.
    pub tuples: f32,
    /// Blocks that are marked all-visible, and all-frozen.
    pub marked: (u32, u32),
}

/// What became of the two ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advanced {
    /// The id of transactions was changed.
    pub xid: bool,
    /// The id of MultiXacts was changed.
    pub multi: bool,
    /// The stored id of transactions was in the future, and was replaced.
    pub bad_xid: Option<Xid>,
    /// The same of MultiXacts.
    pub bad_multi: Option<MultiXactId>,
}

/// The values of a row that is changed in place. All columns up to the changed ones have a fixed
/// length, and none of them is NULL.
pub(crate) struct Values<'a> {
    catalog: &'static CatalogTable,
    table: &'a Table,
    bytes: &'a mut [u8],
    changed: bool,
}

impl Values<'_> {
    /// The bytes up to the end of a column.
    fn up_to(&mut self, name: &str) -> Option<&mut [u8]> {
        let index = self.catalog.columns.iter().position(|column| column.name == name)?;
        let mut end = 0;
        for layout in self.table.layouts.get(..=index)? {
            let len = usize::try_from(layout.len).ok()?;
            end = usize::next_multiple_of(end, layout.align.bytes()) + len;
        }
        self.bytes.get_mut(..end)
    }

    fn column(&mut self, name: &str) -> Option<&mut [u8; 4]> {
        self.up_to(name)?.last_chunk_mut()
    }

    /// Makes a boolean true.
    fn set_flag(&mut self, name: &str) -> Option<()> {
        let byte = self.up_to(name)?.last_mut()?;
        let was = std::mem::replace(byte, 1);
        self.changed |= was != 1;
        Some(())
    }

    fn get(&mut self, name: &str) -> Option<u32> {
        self.column(name).map(|bytes| u32::from_le_bytes(*bytes))
    }

    pub(crate) fn set(&mut self, name: &str, value: u32) -> Option<()> {
        let bytes = self.column(name)?;
        let differs = *bytes != value.to_le_bytes();
        *bytes = value.to_le_bytes();
        self.changed |= differs;
        Some(())
    }

    /// Moves two ids forward, or back if what is stored is in the future. 0 leaves one as it is.
    fn advance(
        &mut self,
        (xid_name, xid): (&str, Xid),
        (multi_name, multi): (&str, MultiXactId),
        next: NextIds,
    ) -> Option<Advanced> {
        let (old_xid, old_multi) = (self.get(xid_name)?, self.get(multi_name)?);
        let bad_xid = xid_precedes(next.xid, old_xid).then_some(old_xid);
        let bad_multi = multi_precedes(next.multi, old_multi).then_some(old_multi);
        let mut advanced = Advanced::default();
        if xid_is_normal(xid) && (xid_precedes(old_xid, xid) || bad_xid.is_some()) {
            self.set(xid_name, xid)?;
            advanced = Advanced { xid: true, bad_xid, ..advanced };
        }
        if multi != INVALID_MULTI && (multi_precedes(old_multi, multi) || bad_multi.is_some()) {
            self.set(multi_name, multi)?;
            advanced = Advanced { multi: true, bad_multi, ..advanced };
        }
        Some(advanced)
    }
}

impl Database {
    /// Stores figures of a relation. Of [`ClassFigures::frozen_xid`] and
    /// [`ClassFigures::min_multi`], those that are not 0. The caller has locked the relation, which
    /// the transaction may have created.
    pub fn update_class(
        &self,
        backend: &mut Backend,
        tx: &Transaction,
        oid: Oid,
        new: &ClassFigures,
        next: NextIds,
    ) -> Result<Advanced, CatalogError> {
        self.change_class(backend, tx, oid, |values| {
            values.set("relpages", new.pages)?;
            values.set("reltuples", new.tuples.to_bits())?;
            values.set("relallvisible", new.all_visible)?;
            values.set("relallfrozen", new.all_frozen)?;
            let multi = ("relminmxid", new.min_multi);
            values.advance(("relfrozenxid", new.frozen_xid), multi, next)
        })
    }

    /// Stores figures of a relation, which the transaction may have created. A relation of which
    /// nothing was known is not said to be empty.
    pub fn update_figures(
        &self,
        backend: &mut Backend,
        tx: &Transaction,
        oid: Oid,
        new: &RelationFigures,
    ) -> Result<(), CatalogError> {
        self.change_class(backend, tx, oid, |values| {
            let unknown = values.get("reltuples")? == (-1.0_f32).to_bits();
            if !unknown || new.tuples != 0.0 {
                values.set("relpages", new.pages)?;
                values.set("reltuples", new.tuples.to_bits())?;
                values.set("relallvisible", new.marked.0)?;
                values.set("relallfrozen", new.marked.1)?;
            }
            if new.has_index {
                values.set_flag("relhasindex")?;
            }
            Some(Advanced::default())
        })?;
        Ok(())
    }

    /// Stores that a relation has an index, or had one.
    pub(crate) fn mark_indexed(
        &self,
        backend: &mut Backend,
        tx: &Transaction,
        oid: Oid,
    ) -> Result<(), CatalogError> {
        self.change_class(backend, tx, oid, |values| {
            values.set_flag("relhasindex")?;
            Some(Advanced::default())
        })?;
        Ok(())
    }

    /// Changes the row of a relation, which the transaction may have created.
    fn change_class(
        &self,
        backend: &mut Backend,
        tx: &Transaction,
        oid: Oid,
        change: impl FnOnce(&mut Values<'_>) -> Option<Advanced>,
    ) -> Result<Advanced, CatalogError> {
        let found = Reader::new(self, backend, self.xacts.snapshot(tx)).class(oid)?;
        let lost = || CatalogError::corrupt(format!("pg_class has no row of relation {oid}"));
        let class = found.ok_or_else(lost)?;
        let db = if class.is_shared() { 0 } else { self.oid };
        let messages =
            invalidate::class((self.oid, self.encoding), db, oid, (&class.name, class.namespace));
        let announcement = self.announce(class.namespace == PG_CATALOG, &messages);
        let table = Table::of_catalog(&PG_CLASS, self.maps.local(&PG_CLASS)?, self.encoding)?;
        // Everyone sees the change at once, whatever becomes of the transaction.
        let _change = self.cache.change(&messages);
        self.change(backend, tx, (&PG_CLASS, &table), class.tid, announcement, change)
    }

    /// Stores the oldest ids of a database, if they have advanced.
    pub fn update_database(
        &self,
        backend: &mut Backend,
        oid: Oid,
        (frozen_xid, min_multi): (Xid, MultiXactId),
        next: NextIds,
    ) -> Result<Advanced, CatalogError> {
        self.overwrite_database(backend, oid, |values| {
            values.advance(("datfrozenxid", frozen_xid), ("datminmxid", min_multi), next)
        })
    }

    /// Overwrites values of the row of a database.
    pub(crate) fn overwrite_database(
        &self,
        backend: &mut Backend,
        oid: Oid,
        change: impl FnOnce(&mut Values<'_>) -> Option<Advanced>,
    ) -> Result<Advanced, CatalogError> {
        let table = self.pg_database()?;
        let mut found = None;
        let snapshot = self.xacts.snapshot(&Transaction::new());
        let rows = Rows::Of((&PG_DATABASE_OID_INDEX, &[Datum::Oid(oid)]));
        Reader::new(self, backend, snapshot).read(rows, 1, &mut |tid, _, _| {
            found = Some(tid);
            Ok(false)
        })?;
        let lost = || CatalogError::corrupt(format!("pg_database has no row of database {oid}"));
        let tid = found.ok_or_else(lost)?;
        let message = entry(syscache::DATABASE_BY_OID, 0, syscache::hash_oid(oid));
        let announcement = self.announce(false, &[message]);
        let (nobody, place) = (&Transaction::new(), (&PG_DATABASE, &table));
        self.change(backend, nobody, place, tid, announcement, change)
    }

    fn change(
        &self,
        backend: &mut Backend,
        tx: &Transaction,
        (catalog, table): (&'static CatalogTable, &Table),
        tid: ItemPointer,
        announcement: Announcement,
        change: impl FnOnce(&mut Values<'_>) -> Option<Advanced>,
    ) -> Result<Advanced, CatalogError> {
        let mut done = None;
        let heap = self.heap(table);
        heap.overwrite(backend, (&self.xacts, tx), tid, announcement, |bytes| {
            let mut values = Values { catalog, table, bytes, changed: false };
            done = change(&mut values);
            done.is_some() && values.changed
        })?;
        done.ok_or_else(|| CatalogError::corrupt(format!("a row of {} is too short", table.name)))
    }

    fn announce(&self, relcache_file: bool, messages: &[Invalidation]) -> Announcement {
        Announcement {
            database: (self.oid, self.tablespace),
            relcache_file,
            invalidations: messages.iter().map(Invalidation::encode).collect(),
        }
    }

    fn pg_database(&self) -> Result<Table, CatalogError> {
        let lost = || CatalogError::corrupt("there is no pg_database".to_owned());
        let file = self.maps.shared(&PG_DATABASE).ok_or_else(lost)?;
        Table::of_catalog(&PG_DATABASE, file, self.encoding)
    }
}

fn entry(cache: i8, db: Oid, hash: u32) -> Invalidation {
    Invalidation::Entry { cache, db, hash }
}

impl ClassFigures {
    /// Reads them from a row of pg_class.
    pub(crate) fn read(row: &Row<'_, '_>) -> Result<ClassFigures, CatalogError> {
        Ok(ClassFigures {
            pages: row.int4(9)? as u32,
            tuples: row.float4(10)?,
            all_visible: row.int4(11)? as u32,
            all_frozen: row.int4(12)? as u32,
            toast: row.oid(13)?,
            indexed: row.bool(14)?,
            frozen_xid: row.xid(29)?,
            min_multi: row.xid(30)?,
        })
    }
}

impl Reader<'_> {
    /// What vacuum needs to know of a relation.
    pub fn figures(&mut self, oid: Oid) -> Result<Option<ClassFigures>, CatalogError> {
        let mut found = None;
        let rows = Rows::Of((&PG_CLASS_OID_INDEX, &[Datum::Oid(oid)]));
        self.read(rows, PG_CLASS.columns.len() - 3, &mut |_, row, _| {
            found = Some(ClassFigures::read(&Row(row, PG_CLASS.name))?);
            Ok(false)
        })?;
        Ok(found)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::bootstrap::NewCluster;
    use crate::rows::{ClassRow, OldestIds};
    use forebay_access::form_row;
    use forebay_format::{HeapTuple, RelFileLocator};
    use forebay_types::Encoding;

    fn values_of(
        catalog: &'static CatalogTable,
        row: &[forebay_types::Datum<'_>],
    ) -> (Table, Vec<u8>) {
        let file = RelFileLocator::in_default(5, 1);
        let table = Table::of_catalog(catalog, file, Encoding::Utf8).unwrap();
        let mut tuple = Vec::new();
        form_row(&table.layouts, row, Encoding::Utf8, &mut tuple).unwrap();
        let hoff = HeapTuple::new(&tuple).unwrap().hoff();
        (table, tuple[hoff..].to_vec())
    }

    fn database(xid: Xid) -> Vec<forebay_types::Datum<'static>> {
        let oldest = OldestIds { xid, multi: 1 };
        let cluster = NewCluster {
            superuser: "postgres".to_owned(),
            oldest,
            templates: false,
            locale: None,
            collations: Vec::new(),
        };
        cluster.rows(&PG_DATABASE).unwrap().remove(0)
    }

    #[test]
    fn columns_are_found_behind_those_of_fixed_length() {
        let class = ClassRow {
            oid: 16_384,
            name: "t",
            namespace: 2200,
            owner: 10,
            row_type: 0,
            filenode: 16_384,
            tablespace: 0,
            shared: false,
            persistence: b'p',
            columns: 3,
            replica_identity: b'd',
            oldest: OldestIds { xid: 777, multi: 1 },
            options: &[],
        };
        let (table, mut bytes) = values_of(&PG_CLASS, &class.datums());
        let mut values =
            Values { catalog: &PG_CLASS, table: &table, bytes: &mut bytes, changed: false };
        assert_eq!(values.get("reltuples"), Some((-1.0_f32).to_bits()));
        assert_eq!((values.get("relfrozenxid"), values.get("relminmxid")), (Some(777), Some(1)));
        assert!(values.set("relpages", 0).is_some() && !values.changed);
        assert!(values.set("relpages", 9).is_some() && values.changed);
        assert_eq!(values.get("relpages"), Some(9));
        let (table, mut bytes) = values_of(&PG_DATABASE, &database(3));
        let mut values =
            Values { catalog: &PG_DATABASE, table: &table, bytes: &mut bytes, changed: false };
        assert_eq!(
            (values.get("datfrozenxid"), values.get("dattablespace")),
            (Some(3), Some(1663))
        );
        assert_eq!(values.get("datcollate"), None, "its length is not fixed");
    }

    #[test]
    fn ids_move_forward_unless_they_are_in_the_future() {
        let (table, mut bytes) = values_of(&PG_DATABASE, &database(700));
        let mut values =
            Values { catalog: &PG_DATABASE, table: &table, bytes: &mut bytes, changed: false };
        let mut advance = |xid, multi, next| {
            values.advance(("datfrozenxid", xid), ("datminmxid", multi), next).unwrap()
        };
        let next = NextIds { xid: 1000, multi: 10 };
        assert_eq!(advance(700, 1, next), Advanced::default());
        assert_eq!(advance(600, 0, next), Advanced::default());
        let both = Advanced { xid: true, multi: true, ..Advanced::default() };
        assert_eq!(advance(900, 5, next), both);
        let early = NextIds { xid: 800, multi: 3 };
        let bad = Advanced { bad_xid: Some(900), bad_multi: Some(5), ..both };
        assert_eq!(advance(700, 2, early), bad);
    }
}
