//! Unique indexes.

use super::checker::entries;
use super::*;

#[test]
fn a_live_row_with_the_same_key_is_reported() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4, oids::TEXT]));
    let mut rows = Rows::default();
    let key = |n: i32| [Datum::Int4(n), Datum::text("k")];
    for n in 0..2000 {
        let done = put(&index, &mut backend, &mut rows, &key(n), tid(n as u32), true).unwrap();
        assert_eq!(done, Insertion::Done);
    }
    let mut again = |rows: &mut Rows, n: i32, place| {
        put(&index, &mut backend, rows, &key(n), tid(place), true).unwrap()
    };
    assert_eq!(again(&mut rows, 700, 5000), Insertion::Duplicate(tid(700)));
    rows.set(tid(700), RowFate::InDoubt(44));
    assert_eq!(
        again(&mut rows, 700, 5000),
        Insertion::Wait { tid: tid(700), xid: 44, token: None }
    );
    rows.set(tid(700), RowFate::Dead);
    assert_eq!(again(&mut rows, 700, 5000), Insertion::Done);
    assert_eq!(again(&mut rows, 700, 5001), Insertion::Duplicate(tid(5000)));
    let found = entries(&index, &mut backend);
    assert_eq!(found.iter().filter(|row| [tid(700), tid(5000)].contains(&row.1)).count(), 2);
    assert!(fixture.failures.all().is_empty());
}

#[test]
fn nulls_are_equal_only_if_the_index_says_so() {
    for nulls_are_equal in [false, true] {
        let fixture = Fixture::new();
        let mut backend = fixture.backend();
        let shape = IndexShape { nulls_are_equal, ..shape(&[oids::INT4]) };
        let index = index(&fixture, shape);
        let mut rows = Rows::default();
        let mut put_null =
            |n| put(&index, &mut backend, &mut rows, &[Datum::Null], tid(n), true).unwrap();
        assert_eq!(put_null(1), Insertion::Done);
        let second = if nulls_are_equal { Insertion::Duplicate(tid(1)) } else { Insertion::Done };
        assert_eq!(put_null(2), second);
    }
}

#[test]
fn versions_of_one_row_over_several_pages_are_all_looked_at() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let shape = IndexShape { deduplicate: false, ..shape(&[oids::INT4]) };
    let index = index(&fixture, shape);
    let mut rows = Rows::default();
    let mut put_seven = |rows: &mut Rows, n| {
        put(&index, &mut backend, rows, &[Datum::Int4(7)], tid(n), true).unwrap()
    };
    for n in 0..2000 {
        assert_eq!(put_seven(&mut rows, n), Insertion::Done);
        rows.set(tid(n), RowFate::Dead);
    }
    rows.set(tid(1990), RowFate::Live(tid(1990)));
    assert_eq!(put_seven(&mut rows, 3000), Insertion::Duplicate(tid(1990)));
    // Rows that nobody sees are killed, and leave their space to new ones.
    (0..2000).for_each(|n| rows.set(tid(n), RowFate::Gone));
    for n in 3000..4000 {
        assert_eq!(put_seven(&mut rows, n), Insertion::Done);
        rows.set(tid(n), RowFate::Gone);
    }
    let (levels, found) = checker::pages_of(&index, &mut backend).check();
    assert!(levels[1].pages < 10 && found.len() < 1500, "{levels:?}");
    assert!(fixture.failures.all().is_empty());
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::TEXT]));
    let mut rows = Rows::default();
    let mut put_text = |length: usize| {
        let text = Datum::string("x".repeat(length));
        put(&index, &mut backend, &mut rows, &[text], tid(length as u32), false)
    };
    put_text(2692).unwrap();
    let error = put_text(2693).unwrap_err();
    assert_eq!(error.sqlstate(), "54000");
    assert_eq!(
        error.to_string(),
        "index row size 2712 exceeds btree version 4 maximum 2704 for index \"t_idx\""
    );
    let error = put_text(9000).unwrap_err();
    assert_eq!(error.sqlstate(), "54000");
    assert_eq!(error.to_string(), "index row requires 9016 bytes, maximum size is 8191");
    for n in 0..50 {
        put_text(2600 + n).unwrap();
    }
    assert_eq!(entries(&index, &mut backend).len(), 51);
}
