//! Redo of what insertion logged gives the same pages.

use forebay_format::PageBytes;
use forebay_format::nbtree as nb;

use super::*;

fn masked(mut pages: Vec<PageBytes>) -> Vec<PageBytes> {
    for (block, page) in (0..).zip(&mut pages) {
        nb::mask(page, block);
    }
    pages
}

/// Compares the pages of an index with those that redo makes from the log.
pub(super) fn check_redo(fixture: &Fixture, index: &Index) {
    let mut backend = fixture.backend();
    fixture.wal.flush_all(&mut backend.io).unwrap();
    let pages = masked(fixture.pages(&mut backend, INDEX));
    assert!(pages.len() > 1);
    for times in [1, 2] {
        let (mut recovered, _dir) = fixture.recover_copy(times);
        let again = masked(recovered.pages(INDEX));
        assert_eq!(again.len(), pages.len());
        for (block, (again, page)) in again.iter().zip(&pages).enumerate() {
            assert!(again == page, "block {block} of {}", index.shape.name);
        }
    }
}

#[test]
fn redo_makes_the_pages_of_insertions_and_splits() {
    for (limit, deduplicate) in [(1 << 30, true), (60, true), (60, false)] {
        let fixture = Fixture::new();
        let mut backend = fixture.backend();
        let shape = IndexShape { deduplicate, ..shape(&[oids::TEXT, oids::INT4]) };
        let index = index(&fixture, shape);
        let mut random = Random(u64::from(limit));
        for n in 0..6000 {
            let number = random.below(limit);
            let text = Datum::string("key ".repeat(8) + &number.to_string());
            let place = tid(random.below(500_000) * 6000 + n);
            insert(&index, &mut backend, &[text, Datum::Int4(number as i32 / 2)], place);
        }
        assert!(checker::pages_of(&index, &mut backend).check().0.len() > 1);
        check_redo(&fixture, &index);
    }
}

#[test]
fn redo_removes_killed_items_and_raises_the_tree() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut rows = Rows::default();
    for n in 0..3000 {
        let key = [Datum::Int4(n as i32 % 40)];
        put(&index, &mut backend, &mut rows, &key, tid(n), true).unwrap();
        rows.set(tid(n), if n % 3 == 0 { RowFate::Dead } else { RowFate::Gone });
    }
    for n in 0..2000 {
        let text = [Datum::Int4(n)];
        put(&index, &mut backend, &mut rows, &text, tid(5000 + n as u32), true).unwrap();
    }
    checker::pages_of(&index, &mut backend).check();
    check_redo(&fixture, &index);
}
