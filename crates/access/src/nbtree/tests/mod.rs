//! Tests of indexes.

mod building;
mod building_tables;
mod checker;
mod concurrency;
mod conditions;
mod deleting;
mod heap_rows;
mod inserting;
mod interrupted;
mod postgres;
mod recovery;
mod scanning;
mod unique;
mod vacuuming;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_format::{Fork, ItemPointer, RelFileLocator, Xid};
use forebay_storage::Backend;
use forebay_types::{Datum, Encoding, Oid, oids};

use super::*;
use crate::codec::layout_of;
use crate::error::AccessError;
use crate::heap::{RemovalCandidate, RowFate};
use crate::tests::fixture::Fixture;

pub(crate) const INDEX: RelFileLocator = RelFileLocator::in_default(5, 16_390);
pub(crate) const XID: Xid = 700;

/// The shape of an index over columns of these types, in their default order.
pub(crate) fn shape(types: &[Oid]) -> IndexShape {
    let column = |oid: &Oid| KeyColumn::ascending(KeyOrder::of_type(*oid).unwrap());
    IndexShape {
        name: "t_idx".to_owned(),
        layouts: types.iter().map(|oid| layout_of(*oid).unwrap()).collect(),
        compression: Vec::new(),
        keys: types.iter().map(column).collect(),
        nulls_are_equal: false,
        fill_factor: 90,
        deduplicate: true,
        of_catalog: false,
        encoding: Encoding::Utf8,
    }
}

/// A new index on the fixture's layers.
pub(crate) fn index(fixture: &Fixture, shape: IndexShape) -> Index {
    fixture.pool.smgr().create(INDEX, Fork::Main, true).unwrap();
    let index = open(fixture, shape);
    index.create(&mut fixture.backend()).unwrap();
    index
}

/// An index whose file exists.
pub(crate) fn open(fixture: &Fixture, shape: IndexShape) -> Index {
    Index {
        locator: INDEX,
        shape: Arc::new(shape),
        pool: fixture.pool.clone(),
        wal: fixture.wal.clone(),
        logged: true,
        known: Arc::default(),
        shared: Arc::new(SharedIndexes::new(fixture.xacts.clone())),
        failure: fixture.failures.clone(),
    }
}

/// Rows that are live unless a test says otherwise; and the blocks of each question which of them
/// are gone.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rows(
    pub(crate) Arc<Mutex<HashMap<ItemPointer, RowFate>>>,
    pub(crate) Arc<Mutex<Vec<Vec<u32>>>>,
);

impl Rows {
    pub(crate) fn set(&self, tid: ItemPointer, fate: RowFate) {
        self.0.lock().insert(tid, fate);
    }
}

impl TableRows for Rows {
    fn fate(&mut self, _: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError> {
        Ok(self.0.lock().get(&tid).copied().unwrap_or(RowFate::Live(tid)))
    }

    fn removable(
        &mut self,
        backend: &mut Backend,
        rows: &mut [RemovalCandidate],
    ) -> Result<Xid, AccessError> {
        for row in &mut *rows {
            row.gone |= self.fate(backend, row.tid)? == RowFate::Gone;
        }
        self.1.lock().push(rows.iter().map(|row| row.tid.block).collect());
        Ok(XID - 1)
    }
}

/// A place of a row, by its number.
pub(crate) fn tid(n: u32) -> ItemPointer {
    ItemPointer::new(n / 100, (n % 100) as u16 + 1)
}

/// Inserts a row that need not be unique.
pub(crate) fn insert(
    index: &Index,
    backend: &mut Backend,
    values: &[Datum<'_>],
    tid: ItemPointer,
) -> Insertion {
    put(index, backend, &mut Rows::default(), values, tid, false).unwrap()
}

pub(crate) fn put(
    index: &Index,
    backend: &mut Backend,
    rows: &mut Rows,
    values: &[Datum<'_>],
    tid: ItemPointer,
    unique: bool,
) -> Result<Insertion, AccessError> {
    let tuple = form_index_tuple(&index.shape, values, tid)?;
    let unique = UniqueCheck::of(unique);
    index.insert(backend, rows, NewRow { tuple: &tuple, xid: XID, unique, unchanged: false })
}

/// A sequence of numbers that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}
