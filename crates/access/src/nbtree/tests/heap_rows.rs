//! A unique index over a table: the rows decide.

use forebay_format::AttrLayout;
use forebay_txn::{HorizonKind, Transaction};

use super::*;
use crate::heap::{Attempt, Changer, Columns, Heap, RowJudge};
use crate::tests::fixture::{TABLE, tuple_of};

/// A table of one number with a unique index on it.
struct Table {
    fixture: Fixture,
    backend: Backend,
    heap: Heap,
    index: Index,
}

impl Table {
    fn new() -> Table {
        let fixture = Fixture::new();
        let backend = fixture.backend();
        let (heap, index) = (fixture.heap(TABLE), index(&fixture, shape(&[oids::INT8])));
        Table { fixture, backend, heap, index }
    }

    /// Inserts a row; its entry, if the key is free.
    fn insert(&mut self, tx: &mut Transaction, number: i64) -> (ItemPointer, Insertion) {
        let Table { fixture, backend, heap, index } = self;
        let author = fixture.author(backend, tx);
        let place = heap.insert(backend, author, &tuple_of(number)).unwrap();
        let own = Some(forebay_format::FullXid::new(0, author.xid));
        let sets = &mut fixture.outcomes().sets();
        let changer = Changer { xacts: &fixture.xacts, tx, author, sets, queues: None };
        let mut rows = RowJudge::new(heap, changer, HorizonKind::Data, 5, own);
        let tuple = form_index_tuple(&index.shape, &[Datum::Int8(number)], place).unwrap();
        let row = NewRow { tuple: &tuple, xid: author.xid, unique: true };
        (place, index.insert(backend, &mut rows, row).unwrap())
    }

    fn commit(&mut self, tx: &mut Transaction) {
        self.fixture.xacts.commit(&mut self.backend.io, tx).unwrap();
    }
}

#[test]
fn a_key_is_free_once_its_row_is_deleted_for_good() {
    let mut table = Table::new();
    let (mut one, mut two) = (Transaction::new(), Transaction::new());
    let (place, done) = table.insert(&mut one, 7);
    assert_eq!(done, Insertion::Done);
    let wait = |xid| Insertion::Wait { tid: place, xid };
    assert_eq!(table.insert(&mut two, 7).1, wait(one.xid().unwrap()));
    assert_eq!(table.insert(&mut one, 7).1, Insertion::Duplicate(place), "its own row");
    table.commit(&mut one);
    assert_eq!(table.insert(&mut two, 7).1, Insertion::Duplicate(place));

    let mut three = Transaction::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    assert_eq!(fixture.delete(backend, heap, &mut three, place), Attempt::Done(()));
    assert_eq!(table.insert(&mut two, 7).1, wait(three.xid().unwrap()));
    let (second, done) = table.insert(&mut three, 7);
    assert_eq!(done, Insertion::Done, "who deletes a row may insert it anew");
    let Table { fixture, backend, .. } = &mut table;
    fixture.xacts.abort(&mut backend.io, &mut three).unwrap();
    assert_eq!(table.insert(&mut two, 7).1, Insertion::Duplicate(place));
    assert_ne!(second, place);
}

#[test]
fn a_key_is_in_use_by_any_version_of_a_chain() {
    let mut table = Table::new();
    let mut one = Transaction::new();
    let (place, _) = table.insert(&mut one, 7);
    table.commit(&mut one);
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let (mut old, mut two) = (place, Transaction::new());
    for _ in 0..3 {
        let mut tx = Transaction::new();
        let Table { fixture, backend, heap, .. } = &mut table;
        let updated = fixture.change(backend, &mut tx, |backend, changer| {
            heap.update(backend, changer, old, &tuple_of(7), &columns)
        });
        let Attempt::Done(new) = updated else { panic!("{updated:?}") };
        let wait = Insertion::Wait { tid: place, xid: tx.xid().unwrap() };
        assert_eq!(table.insert(&mut two, 7).1, wait);
        table.commit(&mut tx);
        assert_eq!(table.insert(&mut two, 7).1, Insertion::Duplicate(place));
        old = new;
    }
    let mut tx = Transaction::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    assert_eq!(fixture.delete(backend, heap, &mut tx, old), Attempt::Done(()));
    table.commit(&mut tx);
    assert_eq!(table.insert(&mut two, 7).1, Insertion::Done);
}
