//! Tests of index scans over a table of keys and numbers.

mod bitmaps;
mod concurrency;
mod histories;
mod reading;

use std::sync::Arc;

use forebay_aio::{IoObject, IoOp, MethodKind};
use forebay_format::tuple::{AttrLayout, HeapTuple, deform, form_tuple};
use forebay_format::{Fork, ItemPointer, visibility_map as map};
use forebay_storage::{Backend, Strategy};
use forebay_txn::locks::Interrupt;
use forebay_txn::{HorizonKind, Snapshot, Transaction};
use forebay_types::{Datum, oids};

use super::*;
use crate::heap::{Attempt, Columns, Heap, ReadAhead, RowReader, Visibility};
use crate::nbtree::tests::{self as trees, Random, Rows};
use crate::nbtree::{Condition, Direction, Index, Insertion, Operator, form_index_tuple};
use crate::tests::fixture::{Fixture, TABLE};

const LAYOUTS: [AttrLayout; 2] = [AttrLayout::INT8, AttrLayout::INT8];

/// A row: its key, and its number.
type Row = (i64, i64);

/// A table with an index on its keys.
struct Table {
    fixture: Arc<Fixture>,
    backend: Backend,
    heap: Heap,
    index: Index,
}

fn tuple_of((key, number): Row, padding: usize) -> Vec<u8> {
    let (key, number) = (key.to_le_bytes(), number.to_le_bytes());
    let mut tuple = form_tuple(&LAYOUTS, &[Some(&key), Some(&number)]).unwrap();
    tuple.resize(tuple.len() + padding, 0);
    tuple
}

fn row_of(tuple: &[u8]) -> Row {
    let mut values = [None; 2];
    deform(HeapTuple::new(tuple).unwrap(), &LAYOUTS, &mut values).unwrap();
    let [key, number] = values.map(|value| i64::from_le_bytes(value.unwrap().try_into().unwrap()));
    (key, number)
}

impl Table {
    fn new() -> Table {
        Table::over(Fixture::with(MethodKind::Deferred { seed: 1 }, 512))
    }

    fn over(fixture: Fixture) -> Table {
        let backend = fixture.backend();
        let heap = fixture.heap(TABLE);
        let index = trees::index(&fixture, trees::shape(&[oids::INT8]));
        Table { fixture: Arc::new(fixture), backend, heap, index }
    }

    /// The same table, for another thread.
    fn beside(&self) -> Table {
        let Table { fixture, heap, index, .. } = self;
        let (heap, index, fixture) = (heap.clone(), index.clone(), Arc::clone(fixture));
        Table { backend: fixture.backend(), fixture, heap, index }
    }

    fn commit(&mut self, mut tx: Transaction) {
        self.fixture.xacts.commit(&mut self.backend.io, &mut tx).unwrap();
    }

    fn abort(&mut self, mut tx: Transaction) {
        self.fixture.xacts.abort(&mut self.backend.io, &mut tx).unwrap();
    }

    /// Inserts a row of about `padding` bytes, and its entry.
    fn insert(&mut self, tx: &mut Transaction, row: Row, padding: usize) -> ItemPointer {
        let Table { fixture, backend, heap, .. } = self;
        let author = fixture.author(backend, tx);
        let tid = heap.insert(backend, author, &tuple_of(row, padding)).unwrap();
        self.enter(row.0, tid);
        tid
    }

    fn enter(&mut self, key: i64, tid: ItemPointer) {
        let tuple = form_index_tuple(&self.index.shape, &[Datum::Int8(key)], tid).unwrap();
        let row = crate::nbtree::NewRow {
            tuple: &tuple,
            xid: 1000,
            unique: crate::nbtree::UniqueCheck::No,
            unchanged: false,
        };
        let done = self.index.insert(&mut self.backend, &mut Rows::default(), row).unwrap();
        assert_eq!(done, Insertion::Done);
    }

    fn update(&mut self, tx: &mut Transaction, tid: ItemPointer, row: Row) -> ItemPointer {
        let columns = Columns { layouts: &LAYOUTS, keys: &[], indexed: &[0] };
        let Table { fixture, backend, heap, .. } = self;
        let updated = fixture.change(backend, tx, |backend, changer| {
            heap.update(backend, changer, tid, &tuple_of(row, 0), &columns)
        });
        let Attempt::Done(new) = updated else { panic!("{updated:?}") };
        if !new.hot {
            self.enter(row.0, new.place);
        }
        new.place
    }

    fn delete(&mut self, tx: &mut Transaction, tid: ItemPointer) {
        let Table { fixture, backend, heap, .. } = self;
        assert_eq!(fixture.delete(backend, heap, tx, tid), Attempt::Done(()));
    }

    /// Rows with these keys, in this order, each of about `padding` bytes.
    fn load(&mut self, keys: impl IntoIterator<Item = i64>, padding: usize) {
        let mut tx = Transaction::new();
        for key in keys {
            self.insert(&mut tx, (key, key), padding);
        }
        self.commit(tx);
    }

    fn snapshot(&self) -> Snapshot {
        self.fixture.xacts.snapshot(&Transaction::new())
    }

    fn reader(&self, snapshot: Snapshot) -> RowReader {
        let pruner = self.heap.pruner(HorizonKind::Data, 5, None);
        RowReader::new(Visibility::new(snapshot, self.fixture.outcomes()), pruner)
    }

    fn condition(&self, operator: Operator, key: i64) -> Condition {
        Condition::new(&self.index.shape, 0, operator, &Datum::Int8(key)).unwrap()
    }

    fn scan(
        &self,
        snapshot: Snapshot,
        conditions: Vec<Condition>,
        options: ScanOptions,
    ) -> IndexRows {
        IndexRows::new(&self.heap, &self.index, conditions, self.reader(snapshot), options)
    }

    /// The next row of a scan.
    fn step(&mut self, scan: &mut IndexRows, direction: Direction) -> Option<Row> {
        scan.next(&mut self.backend, direction).unwrap().map(|row| row_of(row.tuple))
    }

    fn rest(&mut self, scan: &mut IndexRows, direction: Direction) -> Vec<Row> {
        std::iter::from_fn(|| self.step(scan, direction)).collect()
    }

    /// The key of an index tuple.
    fn key_of(&self, tuple: &[u8]) -> i64 {
        let tuple = forebay_format::nbtree::Tuple::new(tuple).unwrap();
        let key = self.index.shape.values(tuple).next_value().unwrap().unwrap();
        i64::from_le_bytes(key[..].try_into().unwrap())
    }

    /// Says of all pages, or of one of two, that everybody sees all their rows.
    fn mark_visible(&mut self, every: u32) {
        let (heap, backend) = (&self.heap, &mut self.backend);
        for block in (0..heap.pool.nblocks(TABLE, Fork::Main).unwrap()).step_by(every as usize) {
            let map_pin = crate::vm::pin_or_make(&heap.pool, backend, TABLE, block).unwrap();
            let mut map_guard = map_pin.lock_exclusive();
            map_guard.mark_dirty();
            if map_guard.page().is_new() {
                map_guard.page_mut().init(0);
            }
            map::set(&mut map_guard.page_mut(), block, map::ALL_VISIBLE);
            let tag = forebay_format::PageTag::new(TABLE, Fork::Main, block);
            let pin = heap.pool.read(backend, tag, Strategy::Normal).unwrap();
            let mut guard = pin.lock_exclusive();
            guard.mark_dirty();
            guard.page_mut().set_all_visible(true);
        }
    }

    /// Writes everything, and takes it out of memory.
    fn make_cold(&mut self) {
        self.fixture.write_all(&mut self.backend);
        self.fixture.pool.evict_all(&mut self.backend).unwrap();
    }

    /// Pages of relations that were read from files.
    fn reads(&self) -> u64 {
        let rows = self.fixture.aio.stats().snapshot();
        let relations = rows.iter().filter(|row| row.object == IoObject::Relation);
        relations.map(|row| row.get(IoOp::Read).bytes / 8192).sum()
    }
}

/// Numbers below a limit, shuffled.
fn shuffled(limit: i64, random: &mut Random) -> Vec<i64> {
    let mut keys: Vec<i64> = (0..limit).collect();
    for n in (1..keys.len()).rev() {
        keys.swap(n, random.below(n as u32 + 1) as usize);
    }
    keys
}
