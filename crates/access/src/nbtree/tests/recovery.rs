//! Redo of what insertion logged gives the same pages.

use forebay_format::nbtree as nb;
use forebay_format::wal::Rmgr;
use forebay_format::wal::nbtree::{MARK_PAGE_HALFDEAD, UNLINK_PAGE, VACUUM};
use forebay_format::{FullXid, Lsn, PageBytes, PageMut};
use forebay_txn::locks::Interrupt;

use super::*;
use crate::heap::ReadAhead;
use crate::index_check::IndexCheck;
use crate::tests::fixture::Recovered;

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

/// Calls `each` with the pages of the index after each of its records from `from` on, and the
/// record's kind.
pub(super) fn after_each_record(
    fixture: &Fixture,
    from: Lsn,
    mut each: impl FnMut(u8, Vec<PageBytes>) -> bool,
) {
    fixture.wal.flush_all(&mut fixture.backend().io).unwrap();
    let copy = tempfile::TempDir::new().unwrap();
    forebay_testkit::files::copy_tree(fixture.dir.path(), copy.path());
    Recovered::open(copy.path()).replay_each(copy.path(), |recovered, record| {
        let header = record.record.header;
        let of_index = header.rmgr == Rmgr::BTREE && record.start >= from;
        !of_index || each(record.kind(), recovered.pages(INDEX))
    });
}

/// Puts pages in place of an index's, without a log. The index's other pages become free.
pub(super) fn load(index: &Index, backend: &mut Backend, pages: Vec<PageBytes>) {
    assert!(!index.logged);
    let mut left_over = [0; forebay_format::BLOCK_SIZE];
    nb::init_deleted_page(&mut PageMut(&mut left_over), nb::Opaque::default(), FullXid(0));
    let present = index.pool.nblocks(INDEX, Fork::Main).unwrap() as usize;
    let missing = present.saturating_sub(pages.len());
    let pages = pages.into_iter().chain(std::iter::repeat_n(left_over, missing));
    for (block, mut page) in (0..).zip(pages) {
        while index.pool.nblocks(INDEX, Fork::Main).unwrap() <= block {
            index.pool.extend(backend, INDEX, Fork::Main, 1, Default::default()).unwrap();
        }
        // The log of this fixture has not come so far.
        PageMut(&mut page).set_lsn(Lsn(0));
        let mut guard = index.lock(backend, block).unwrap();
        guard.copy_from_slice(&page);
        guard.mark_dirty();
    }
    index.known.set_root(None);
    index.known.set_last_leaf(None);
}

/// Checks an index that nobody changes, as `bt_index_parent_check` does.
fn amcheck(index: &Index, backend: &mut Backend) {
    let interrupt = &Interrupt::default();
    let ahead = ReadAhead::default();
    let check = IndexCheck { index, unique: false, table: "t", locked: true, ahead, interrupt };
    check.run(backend, None, false).unwrap();
}

#[test]
fn a_crash_at_any_record_of_a_vacuum_leaves_a_sound_index() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::TEXT]));
    let key = |n: u32| [Datum::string(format!("{n:05}{}", "x".repeat(900)))];
    for n in 0..500 {
        insert(&index, &mut backend, &key(n), tid(n));
    }
    let from = fixture.wal.insert_lsn();
    let is_dead = |place: ItemPointer| (tid(60)..tid(490)).contains(&place);
    vacuuming::vacuum(&index, &mut backend, &is_dead);
    let rows = checker::entries(&index, &mut backend);
    assert_eq!(rows.len(), 70);

    let second = Fixture::new();
    let mut backend = second.backend();
    let again = Index { logged: false, ..super::index(&second, shape(&[oids::TEXT])) };
    let mut kinds = std::collections::BTreeMap::new();
    let mut stage = 0;
    after_each_record(&fixture, from, |kind, pages| {
        *kinds.entry(kind).or_insert(0) += 1;
        stage += 1;
        load(&again, &mut backend, pages);
        let scan = again.scan(Vec::new(), BatchOptions::default());
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor = IndexCursor::new(scan.clone());
            let found = std::iter::from_fn(|| cursor.next(&mut backend, direction).unwrap());
            assert_eq!(found.filter(|place| !is_dead(*place)).count(), 70, "stage {stage}");
        }
        // Some go on without a vacuum.
        let added = if stage % 3 == 0 { 12..98 } else { 0..0 };
        for n in added.clone() {
            insert(&again, &mut backend, &key(n * 5), tid(10_000 + n));
        }
        // Pages that are being deleted lie to the left of some that now have smaller keys.
        amcheck(&again, &mut backend);
        vacuuming::vacuum(&again, &mut backend, &is_dead);
        let found = vacuuming::check(&again, &mut backend, 70 + added.len()).check().1;
        let old = found.into_iter().filter(|row| row.1 < tid(10_000));
        assert!(old.eq(rows.iter().cloned()), "stage {stage}");
        true
    });
    assert!(kinds[&VACUUM] > 20, "{kinds:?}");
    assert!(kinds[&UNLINK_PAGE] > kinds[&MARK_PAGE_HALFDEAD], "branches were deleted: {kinds:?}");
    assert!(second.failures.all().is_empty());
}
