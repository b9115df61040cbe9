//! Items of rows that nobody sees any more, removed from full leaves.

use std::collections::BTreeSet;

use super::checker::{entries, pages_of};
use super::recovery::check_redo;
use super::*;

fn leaves(index: &Index, backend: &mut Backend) -> usize {
    pages_of(index, backend).check().0.last().map_or(0, |level| level.pages)
}

/// Inserts a new version of a row, after the one before is gone.
fn update(
    index: &Index,
    backend: &mut Backend,
    rows: &mut Rows,
    (key, old): (i32, ItemPointer),
    place: ItemPointer,
    unchanged: bool,
) {
    rows.set(old, RowFate::Gone);
    let tuple = form_index_tuple(&index.shape, &[Datum::Int4(key)], place).unwrap();
    let unique = UniqueCheck::No;
    let row = NewRow { tuple: &tuple, xid: XID, unique, unchanged };
    assert_eq!(index.insert(backend, rows, row).unwrap(), Insertion::Done);
}

#[test]
fn versions_of_rows_do_not_split_leaves() {
    for (unchanged, deduplicate) in [(true, true), (true, false), (false, false)] {
        let fixture = Fixture::new();
        let mut backend = fixture.backend();
        let index = index(&fixture, IndexShape { deduplicate, ..shape(&[oids::INT4]) });
        let mut rows = Rows::default();
        let mut places: Vec<_> = (0..200).map(tid).collect();
        for (key, place) in (0..).zip(&places) {
            insert(&index, &mut backend, &[Datum::Int4(key)], *place);
        }
        let mut random = Random(1);
        for n in 200..6000 {
            let key = random.below(200) as usize;
            let row = (key as i32, places[key]);
            update(&index, &mut backend, &mut rows, row, tid(n), unchanged);
            places[key] = tid(n);
        }
        let leaves = leaves(&index, &mut backend);
        assert_eq!(leaves == 1, unchanged, "{leaves} leaves");
        let found: BTreeSet<_> =
            entries(&index, &mut backend).into_iter().map(|entry| entry.1).collect();
        assert!(places.iter().all(|place| found.contains(place)));
        let asked = rows.1.lock();
        assert_eq!(asked.is_empty(), !unchanged);
        assert!(asked.iter().all(|blocks| blocks.iter().all(|block| *block == blocks[0])));
        check_redo(&fixture, &index);
    }
}

#[test]
fn a_unique_index_removes_versions_that_it_has_met() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut rows = Rows::default();
    let mut last = [0; 100];
    for n in 0..6000 {
        let key = n as usize % 100;
        if n >= 100 {
            // As an item is killed only on a dirty page, which all are here, bottom-up deletion
            // must not depend on that.
            rows.set(tid(last[key]), RowFate::Dead);
        }
        let values = [Datum::Int4(key as i32)];
        let done = put(&index, &mut backend, &mut rows, &values, tid(n), true).unwrap();
        assert_eq!(done, Insertion::Done);
        if n % 300 == 0 {
            rows.0.lock().values_mut().for_each(|fate| *fate = RowFate::Gone);
        }
        last[key] = n;
    }
    assert!(leaves(&index, &mut backend) <= 2);
    check_redo(&fixture, &index);
}

#[test]
fn rows_of_the_same_table_blocks_are_removed_with_killed_items() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, IndexShape { deduplicate: false, ..shape(&[oids::INT4]) });
    let mut rows = Rows::default();
    // Rows of ten table blocks in turn, until the leaf is full.
    let place = |n: u32| ItemPointer::new(n % 10, (n / 10) as u16 + 1);
    for n in 0..407 {
        insert(&index, &mut backend, &[Datum::Int4(n as i32)], place(n));
    }
    assert_eq!(leaves(&index, &mut backend), 1);
    // Rows of the blocks 3 and 7 are gone; a scan has noticed two of them.
    for n in (0..407).filter(|n| [3, 7].contains(&(n % 10)) && n % 20 < 10) {
        rows.set(place(n), RowFate::Gone);
    }
    let scan = index.scan(Vec::new(), BatchOptions::default());
    let batch = scan.first(&mut backend, Direction::Forward).unwrap().unwrap();
    scan.kill(&batch, &[3, 103]).unwrap();
    let values = [Datum::Int4(1000)];
    put(&index, &mut backend, &mut rows, &values, ItemPointer::new(7, 300), false).unwrap();
    assert_eq!(leaves(&index, &mut backend), 1);
    let asked = rows.1.lock().clone();
    let blocks: Vec<_> = asked.iter().map(|blocks| blocks[0]).collect();
    assert_eq!(blocks, [3, 7], "that of the new row and those of the killed items");
    let left = entries(&index, &mut backend).len();
    assert_eq!(left, 408 - 20 - 21);
    check_redo(&fixture, &index);
}

#[test]
fn rows_go_from_posting_lists() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut rows = Rows::default();
    for n in 0..3000 {
        update(&index, &mut backend, &mut rows, (n as i32 % 7, tid(n + 20_000)), tid(n), true);
        // Every second row stays.
        if n % 2 == 0 {
            rows.set(tid(n), RowFate::Gone);
        }
    }
    let found: BTreeSet<_> = entries(&index, &mut backend).into_iter().map(|e| e.1).collect();
    assert!((0..1500).all(|n| found.contains(&tid(2 * n + 1))));
    assert!(found.len() < 2200, "{} rows", found.len());
    check_redo(&fixture, &index);
}

fn row(tuple: &[u8], unique: UniqueCheck) -> NewRow<'_> {
    NewRow { tuple, xid: XID, unique, unchanged: false }
}

#[test]
fn a_partial_check_inserts_and_a_conflict_is_found_later() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut rows = Rows::default();
    let tuple = |n| form_index_tuple(&index.shape, &[Datum::Int4(7)], tid(n)).unwrap();
    let [one, two] = [tuple(1), tuple(2)];
    let find = |backend: &mut Backend, rows: &mut Rows, tuple: &[u8]| {
        index.find_conflict(backend, rows, row(tuple, UniqueCheck::Yes)).unwrap()
    };
    assert_eq!(find(&mut backend, &mut rows, &one), None);
    let done = index.insert(&mut backend, &mut rows, row(&one, UniqueCheck::Partial)).unwrap();
    assert_eq!(done, Insertion::Done);
    assert_eq!(find(&mut backend, &mut rows, &one), None, "its own entry is no conflict");
    assert_eq!(find(&mut backend, &mut rows, &two), Some(Insertion::Duplicate(tid(1))));
    rows.set(tid(1), RowFate::Speculative(55, 9));
    let wait = Insertion::Wait { tid: tid(1), xid: 55, token: Some(9) };
    assert_eq!(find(&mut backend, &mut rows, &two), Some(wait));
    let done = index.insert(&mut backend, &mut rows, row(&two, UniqueCheck::Yes)).unwrap();
    assert_eq!(done, wait);
    assert_eq!(entries(&index, &mut backend).len(), 1);
    let done = index.insert(&mut backend, &mut rows, row(&two, UniqueCheck::Partial)).unwrap();
    assert_eq!((done, entries(&index, &mut backend).len()), (Insertion::Unchecked, 2));
    rows.set(tid(1), RowFate::Gone);
    assert_eq!(find(&mut backend, &mut rows, &two), None, "the other row was given up");
}
