//! A unique index over a table: the rows decide.

use forebay_format::{AttrLayout, BlockNumber, PageTag};
use forebay_storage::Strategy;
use forebay_txn::{HorizonKind, Transaction};

use super::checker::entries;
use super::*;
use crate::heap::{Attempt, Changer, Columns, Heap, NewVersion, RowJudge};
use crate::tests::fixture::{TABLE, number_of, tuple_of};

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
        let unique = UniqueCheck::Yes;
        let row = NewRow { tuple: &tuple, xid: author.xid, unique, unchanged: false };
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
    let wait = |xid| Insertion::Wait { tid: place, xid, token: None };
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
        let Attempt::Done(NewVersion { place: new, hot: true, .. }) = updated else {
            panic!("{updated:?}")
        };
        let wait = Insertion::Wait { tid: place, xid: tx.xid().unwrap(), token: None };
        assert_eq!(table.insert(&mut two, 7).1, wait);
        table.commit(&mut tx);
        assert_eq!(table.insert(&mut two, 7).1, Insertion::Duplicate(new), "the live version");
        old = new;
    }
    let mut tx = Transaction::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    assert_eq!(fixture.delete(backend, heap, &mut tx, old), Attempt::Done(()));
    table.commit(&mut tx);
    assert_eq!(table.insert(&mut two, 7).1, Insertion::Done);
}

#[test]
fn the_newest_deletion_of_removable_rows_is_known() {
    let mut table = Table::new();
    let mut one = Transaction::new();
    let places: Vec<_> = (0..4).map(|number| table.insert(&mut one, number).0).collect();
    table.commit(&mut one);
    let mut xids = Vec::new();
    // The last row stays, the one before is deleted by a transaction that a snapshot still sees.
    let mut snapshot = None;
    for &place in &places[..3] {
        if xids.len() == 2 {
            snapshot = Some(table.fixture.xacts.snapshot(&Transaction::new()));
        }
        let mut tx = Transaction::new();
        let Table { fixture, backend, heap, .. } = &mut table;
        assert_eq!(fixture.delete(backend, heap, &mut tx, place), Attempt::Done(()));
        xids.push(tx.xid().unwrap());
        table.commit(&mut tx);
    }
    let mut ask = |gone: [bool; 4]| {
        let Table { fixture, backend, heap, .. } = &mut table;
        let mut tx = Transaction::new();
        let author = fixture.author(backend, &mut tx);
        let sets = &mut fixture.outcomes().sets();
        let changer = Changer { xacts: &fixture.xacts, tx: &tx, author, sets, queues: None };
        let own = Some(forebay_format::FullXid::new(0, author.xid));
        let mut judge = RowJudge::new(heap, changer, HorizonKind::Data, 5, own);
        let rows = places.iter().zip(gone);
        let mut rows: Vec<_> = rows.map(|(&tid, gone)| RemovalCandidate { tid, gone }).collect();
        let newest = judge.removable(backend, &mut rows).unwrap();
        fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
        (newest, rows.iter().map(|row| row.gone).collect::<Vec<_>>())
    };
    assert_eq!(ask([false; 4]), (xids[1], vec![true, true, false, false]));
    // The caller has found before that one is gone.
    assert_eq!(ask([false, false, true, false]), (xids[2], vec![true, true, true, false]));
    drop(snapshot);
    assert_eq!(ask([false; 4]), (xids[2], vec![true, true, true, false]));
}

impl Table {
    /// Prunes a page of the table as a reader does.
    fn prune(&mut self, block: BlockNumber) {
        let Table { backend, heap, .. } = self;
        let tag = PageTag::new(heap.locator, Fork::Main, block);
        let pin = heap.pool.read(backend, tag, Strategy::Normal).unwrap();
        let mut pruner = heap.pruner(HorizonKind::Data, 5, None).unwrap();
        pruner.prune(backend, &pin).unwrap();
    }
}

#[test]
fn an_entry_never_leads_to_another_row() {
    let mut table = Table::new();
    let mut tx = Transaction::new();
    let mut places = Vec::new();
    let mut number = 0;
    // The first page has no room left.
    while places.last().is_none_or(|place: &ItemPointer| place.block == 0) {
        places.push(table.insert(&mut tx, number).0);
        number += 1;
    }
    table.commit(&mut tx);
    let mut deleter = Transaction::new();
    for place in places.iter().filter(|place| place.offset % 3 != 0 && place.block == 0) {
        let Table { fixture, backend, heap, .. } = &mut table;
        assert_eq!(fixture.delete(backend, heap, &mut deleter, *place), Attempt::Done(()));
    }
    table.commit(&mut deleter);
    table.prune(0);
    // New versions find room where the old rows were, under new numbers.
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let kept = (0..).zip(&places).filter(|(_, place)| place.offset % 3 == 0 && place.block == 0);
    for (number, place) in kept.take(20) {
        let mut tx = Transaction::new();
        let Table { fixture, backend, heap, .. } = &mut table;
        let updated = fixture.change(backend, &mut tx, |backend, changer| {
            heap.update(backend, changer, *place, &tuple_of(number), &columns)
        });
        let Attempt::Done(NewVersion { place: new, hot: true, .. }) = updated else {
            panic!("{updated:?}")
        };
        assert!(new.block == 0 && !places.contains(&new), "{new}");
        table.commit(&mut tx);
    }
    let Table { backend, heap, index, .. } = &mut table;
    let all = entries(index, backend);
    assert_eq!(all.len(), places.len());
    for (values, tid) in all {
        if let Some(tuple) = heap.any_version(backend, tid).unwrap() {
            let number = number_of(&tuple).to_le_bytes().to_vec();
            assert_eq!(values, [Some(number)], "{tid}");
        }
    }
}

#[test]
fn a_tentative_row_is_waited_for_until_it_is_settled() {
    let mut table = Table::new();
    let (mut one, mut two) = (Transaction::new(), Transaction::new());
    for confirmed in [false, true] {
        let Table { fixture, backend, heap, index } = &mut table;
        let author = fixture.author(backend, &mut one);
        let place = heap.insert_tentatively(backend, author, 9, &tuple_of(7)).unwrap();
        let tuple = form_index_tuple(&index.shape, &[Datum::Int8(7)], place).unwrap();
        let unique = UniqueCheck::Partial;
        let row = NewRow { tuple: &tuple, xid: author.xid, unique, unchanged: false };
        assert_eq!(index.insert(backend, &mut Nothing, row).unwrap(), Insertion::Done);
        let wait = |token| Insertion::Wait { tid: place, xid: author.xid, token };
        assert_eq!(table.insert(&mut two, 7).1, wait(Some(9)));
        let Table { backend, heap, .. } = &mut table;
        if confirmed {
            heap.confirm(backend, author.xid, place).unwrap();
            assert_eq!(table.insert(&mut two, 7).1, wait(None));
            table.commit(&mut one);
            assert_eq!(table.insert(&mut two, 7).1, Insertion::Duplicate(place));
            let Table { backend, heap, .. } = &mut table;
            assert!(heap.take_back(backend, author.xid, place).is_err(), "it is settled");
        } else {
            heap.take_back(backend, author.xid, place).unwrap();
            let seen = table.fixture.numbers(&mut table.backend, &table.heap, &one);
            assert_eq!(seen, [0; 0]);
            let mut three = Transaction::new();
            assert_eq!(table.insert(&mut three, 7).1, Insertion::Done);
            let Table { fixture, backend, .. } = &mut table;
            fixture.xacts.abort(&mut backend.io, &mut three).unwrap();
        }
    }
}

/// Rows of a table without any.
struct Nothing;

impl TableRows for Nothing {
    fn fate(&mut self, _: &mut Backend, _: ItemPointer) -> Result<RowFate, AccessError> {
        Ok(RowFate::Gone)
    }

    fn removable(
        &mut self,
        _: &mut Backend,
        _: &mut [RemovalCandidate],
    ) -> Result<Xid, AccessError> {
        Ok(0)
    }
}
