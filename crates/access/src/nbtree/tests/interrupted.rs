//! Splits that an insertion left incomplete, and damaged pages.

use forebay_format::nbtree::{self as nb, INCOMPLETE_SPLIT, META_BLOCK, Opaque, ROOT};
use forebay_format::{BlockNumber, PageMut};

use super::checker::pages_of;
use super::*;

/// Changes a page in memory.
fn change(
    index: &Index,
    backend: &mut Backend,
    block: BlockNumber,
    change: impl FnOnce(&mut PageMut<'_>),
) {
    let mut page = index.lock(backend, block).unwrap();
    change(&mut page.page_mut());
    page.mark_dirty();
}

/// Makes the split between a child of the root and its right sibling incomplete again. Returns the
/// left half.
pub(super) fn interrupt_split(index: &Index, backend: &mut Backend, n: u16) -> BlockNumber {
    let root = index.known.root().unwrap().block;
    let pages = pages_of(index, backend);
    let item = |n| nb::Tuple::new(nb::item(pages.page(root), n).unwrap()).unwrap();
    let (left, right) = (item(n).down_link(), item(n + 1).down_link());
    assert_eq!(pages.opaque(left).next, right);
    change(index, backend, root, |page| nb::delete_item(page, n + 1).unwrap());
    change(index, backend, left, |page| {
        let opaque = Opaque::of(page.page()).unwrap();
        Opaque { flags: opaque.flags | INCOMPLETE_SPLIT, ..opaque }.store(page);
    });
    left
}

#[test]
fn who_meets_an_incomplete_split_completes_it() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..5000 {
        insert(&index, &mut backend, &[Datum::Int4(n * 2)], tid(n as u32));
    }
    for n in [2, 5, 6] {
        interrupt_split(&index, &mut backend, n);
    }
    let (levels, rows) = pages_of(&index, &mut backend).check();
    assert_eq!((levels[1].incomplete, rows.len()), (3, 5000), "all rows are found meanwhile");
    let scan = index.scan(Vec::new(), BatchOptions::default());
    for direction in [Direction::Forward, Direction::Backward] {
        let mut cursor = IndexCursor::new(scan.clone());
        let found = std::iter::from_fn(|| cursor.next(&mut backend, direction).unwrap());
        assert_eq!(found.count(), 5000);
    }
    for n in 0..5000 {
        insert(&index, &mut backend, &[Datum::Int4(n * 2 + 1)], tid(5000 + n as u32));
    }
    let (levels, rows) = pages_of(&index, &mut backend).check();
    assert_eq!((levels[1].incomplete, rows.len()), (0, 10_000));
    assert!(fixture.failures.all().is_empty());
}

#[test]
fn the_split_of_a_root_is_completed_by_a_new_root() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut n = 0;
    while pages_of(&index, &mut backend).check().0.len() < 2 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
        n += 1;
    }
    // The old root, block 1, as it was before the record of the new one.
    change(&index, &mut backend, META_BLOCK, |page| {
        let meta = nb::Meta::of(page.page()).unwrap();
        nb::Meta { root: 1, level: 0, fast_root: 1, fast_level: 0, ..meta }.store(page);
    });
    change(&index, &mut backend, 1, |page| {
        let opaque = Opaque::of(page.page()).unwrap();
        Opaque { flags: opaque.flags | INCOMPLETE_SPLIT, ..opaque }.store(page);
    });
    index.known.set_root(None);
    index.known.set_last_leaf(None);
    insert(&index, &mut backend, &[Datum::Int4(-1)], tid(n as u32));
    let (levels, rows) = pages_of(&index, &mut backend).check();
    assert_eq!((levels.len(), levels[1].incomplete, rows.len()), (2, 0, n as usize + 1));
}

#[test]
fn a_fast_root_below_the_root_is_split() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    insert(&index, &mut backend, &[Datum::Int4(0)], tid(0));
    // Two levels without siblings above the only leaf, as the deletion of pages leaves them.
    let pages = fixture.pool.extend(&mut backend, INDEX, Fork::Main, 2, Default::default());
    drop(pages.unwrap());
    for (block, level, flags) in [(2, 1, 0), (3, 2, ROOT)] {
        change(&index, &mut backend, block, |page| {
            nb::init_page(page, Opaque { level, flags, ..Opaque::default() });
            nb::push_item(page, &nb::minus_infinity(block - 1)).unwrap();
        });
    }
    change(&index, &mut backend, 1, |page| {
        let opaque = Opaque::of(page.page()).unwrap();
        Opaque { flags: opaque.flags & !ROOT, ..opaque }.store(page);
    });
    change(&index, &mut backend, META_BLOCK, |page| {
        let meta = nb::Meta::of(page.page()).unwrap();
        nb::Meta { root: 3, level: 2, fast_root: 1, fast_level: 0, ..meta }.store(page);
    });
    index.known.set_root(None);
    for n in 1..2000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let (levels, rows) = pages_of(&index, &mut backend).check();
    assert_eq!((levels.len(), levels[1].pages, rows.len()), (3, 1, 2000));
    assert!(levels[2].pages > 5);
    let meta = index.read(&mut backend, META_BLOCK).unwrap();
    let meta = nb::Meta::of(meta.lock_shared().page()).unwrap();
    assert_eq!((meta.fast_root, meta.fast_level), (2, 1), "the lowest page that has no siblings");
    assert!(fixture.failures.all().is_empty());
}

#[test]
fn damaged_pages_are_named() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..2000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let mut fails = |block, damage: &dyn Fn(&mut PageMut<'_>)| {
        let good = *index.read(&mut backend, block).unwrap().lock_shared().copy();
        change(&index, &mut backend, block, damage);
        index.known.set_root(None);
        let rows = &mut Rows::default();
        let key = [Datum::Int4(5)];
        let error = put(&index, &mut backend, rows, &key, tid(9000), false).unwrap_err();
        change(&index, &mut backend, block, |page| *page.0 = good);
        assert_eq!(error.sqlstate(), "XX002");
        error.to_string()
    };
    let zeros = fails(1, &|page| page.0.fill(0));
    assert_eq!(zeros, "index \"t_idx\" contains unexpected zero page at block 1");
    let level = fails(1, &|page| {
        let opaque = Opaque::of(page.page()).unwrap();
        Opaque { level: 3, ..opaque }.store(page);
    });
    assert_eq!(
        level,
        "index \"t_idx\" contains corrupted page at block 1: it has level 3 instead of 0"
    );
    let meta = fails(META_BLOCK, &|page| page.0[24] = 0);
    assert_eq!(meta, "index \"t_idx\" is not a btree");
    let version = fails(META_BLOCK, &|page| page.0[28] = 3);
    assert!(version.starts_with("version mismatch in index \"t_idx\": file version 3"));
    pages_of(&index, &mut backend).check();
    assert!(fixture.failures.all().is_empty());
}
