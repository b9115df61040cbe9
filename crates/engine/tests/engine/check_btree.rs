//! `forebay check` of B-trees: every kind of damage that it claims to find, at its place; and a
//! damaged index in statements, until it is rebuilt.

use std::fs;
use std::path::{Path, PathBuf};

use crate::check::{found, only_t, run, stop, with_file, with_page};
use crate::common::*;
use forebay_engine::check::CheckOptions;
use forebay_engine::{
    ConstraintKind, IndexDef, IndexKey, IoMethod, ItemPointer, LockMode, Session, VacuumOptions,
};
use forebay_format::nbtree::{self as nb, DELETED, HALF_DEAD, HIGH_KEY, Opaque, Tuple};
use forebay_format::page::PageMut;
use forebay_format::{BLOCK_SIZE, Page, PageBytes};
use forebay_testkit::Dice;

/// Rows of the table: the primary key has 9 leaves.
const ROWS: i64 = 3000;

fn index(session: &mut Session, column: i16, constraint: Option<ConstraintKind>) {
    let def = IndexDef { keys: vec![IndexKey::new(column)], constraint, ..IndexDef::default() };
    transaction(session, |s| {
        let table = s.open_table(None, "t", LockMode::Share)?;
        s.create_index(&table, &def)
    })
    .expect("an index");
}

/// A directory that was shut down, with the table `t`, its primary key and an index on its notes,
/// and the first files of the three.
fn indexed() -> (tempfile::TempDir, PathBuf, [PathBuf; 3]) {
    let (scratch, dir) = new_dir();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    create(&mut session, "t");
    insert(&mut session, "t", 0..ROWS);
    index(&mut session, 1, Some(ConstraintKind::Primary));
    index(&mut session, 2, None);
    let table = transaction(&mut session, |s| s.open_table(None, "t", LockMode::AccessShare));
    let table = table.expect("a table");
    let files = [table.locator.rel]
        .into_iter()
        .chain(table.indexes.iter().map(|index| index.locator.rel))
        .map(|file| dir.join(format!("base/5/{file}")));
    let files = files.collect::<Vec<_>>().try_into().expect("a table and two indexes");
    drop(session);
    stop(engine);
    (scratch, dir, files)
}

fn pages(file: &Path) -> Vec<PageBytes> {
    fs::read(file).expect("readable").as_chunks::<BLOCK_SIZE>().0.to_vec()
}

fn opaque(page: &PageBytes) -> Opaque {
    Opaque::of(Page::new(page)).expect("a page of a B-tree")
}

/// The blocks of an index for which `test` holds.
fn blocks(file: &Path, test: impl Fn(&Opaque) -> bool) -> Vec<u32> {
    let is_wanted = |(_, page): &(u32, PageBytes)| {
        let opaque = opaque(page);
        !opaque.has(nb::META) && test(&opaque)
    };
    (0..).zip(pages(file)).filter(is_wanted).map(|(block, _)| block).collect()
}

fn flag(page: &mut PageBytes, change: impl FnOnce(&mut Opaque)) {
    let mut opaque = opaque(page);
    change(&mut opaque);
    opaque.store(&mut PageMut(page));
}

/// The bytes of an item.
fn bytes(page: &mut PageBytes, n: u16) -> &mut [u8] {
    let id = Page::new(page).item_id(n).expect("an item");
    &mut page[usize::from(id.offset)..usize::from(id.offset + id.len)]
}

fn set_key(page: &mut PageBytes, n: u16, key: i64) {
    bytes(page, n)[8..16].copy_from_slice(&key.to_le_bytes());
}

fn swap(page: &mut PageBytes, a: u16, b: u16) {
    let [first, second] = [a, b].map(|n| Page::new(page).item_id(n).expect("an item"));
    assert!(PageMut(page).set_item_id(a, second) && PageMut(page).set_item_id(b, first));
}

/// What is done to a page of the primary key, and a finding that it must cause.
type Damage = (fn(&mut PageBytes), &'static str);

/// Of a leaf between others.
const LEAF: &[Damage] = &[
    (|p| swap(p, 20, 21), "offset 21: item order invariant violated: not above item 20"),
    (|p| flag(p, |o| o.next = 1), "left link/right link pair in index not in agreement: the right"),
    (|p| flag(p, |o| o.prev = 1), "left link/right link pair in index not in agreement: the left"),
    (|p| flag(p, |o| o.next = 999), "right link leads to block 999, which is not a page of the"),
    (|p| flag(p, |o| o.level = 1), "leaf page has level 1"),
    (|p| flag(p, |o| o.flags |= 0x200), "page has unknown B-tree flags"),
    (|p| flag(p, |o| o.flags |= nb::ROOT), "root page has siblings"),
    (|p| flag(p, |o| o.flags |= HALF_DEAD), "half-dead page has"),
    (|p| flag(p, |o| o.cycle_id = 0xff90), "page has invalid vacuum cycle id 65424"),
    (|p| set_key(p, HIGH_KEY, 5), "high key invariant violated"),
    (|p| set_key(p, 2, 5), "offset 2: cross page item order invariant violated: not above the"),
    (|p| set_key(p, 30, 1 << 40), "offset 31: item order invariant violated"),
    (|p| bytes(p, 30)[4..6].fill(0), "offset 30: index tuple has an invalid heap TID"),
    (|p| bytes(p, 30)[6..8].copy_from_slice(&[8, 0]), "offset 30: index tuple size does not equal"),
    (|p| bytes(p, 30)[7] |= 0x20, "offset 30: wrong number of index tuple attributes"),
    (|p| bytes(p, 30)[0..6].copy_from_slice(&[0, 0, 99, 0, 1, 0]), "heap TID (99,1), where no row"),
    (|p| set_key(p, 2, 1_000_000), "offset 2: index tuple does not have the values of its row ("),
    (|p| extra(p), "offset 31: index has more than one tuple for its row ("),
];

/// Makes an item twice, with the same place.
fn extra(page: &mut PageBytes) {
    let item = bytes(page, 30).to_vec();
    nb::delete_item(&mut PageMut(page), 40).expect("an item less");
    nb::insert_item(&mut PageMut(page), 31, &item).expect("room for it");
}

/// Of the root.
const ROOT: &[Damage] = &[
    (|p| nb::set_down_link(bytes(p, 3), 1), "downlink leads to block 1, and so does another one"),
    (|p| nb::set_down_link(bytes(p, 3), 999), "downlink leads to block 999, which is not a page"),
    (|p| swap(p, 3, 4), "item order invariant violated"),
    (|p| set_key(p, 3, 400), "child high key is not equal to the next key of its parent"),
    (|p| nb::delete_item(&mut PageMut(p), 3).expect("an item"), "and the next child is block"),
    (|p| bytes(p, 1)[7] &= 0xdf, "wrong number of index tuple attributes"),
    (|p| flag(p, |o| o.flags &= !nb::ROOT), "is not marked as root"),
];

/// Of the first page.
const META: &[Damage] = &[
    (|p| p[24] ^= 1, "not the first page of a B-tree"),
    (|p| p[32] = 1, "root block 1 has level 0 instead of 1"),
    (|p| p[40] = 1, "fast root block 1 has level 0 instead of 1"),
    (|p| p[32..36].fill(9), "root block 151587081 is not a page of the tree"),
];

#[test]
fn damage_of_b_trees_is_found() {
    let (_scratch, dir, [_, key, _]) = indexed();
    assert_eq!(found(&dir), [""; 0], "undamaged");
    let root = blocks(&key, Opaque::is_root);
    let leaf = blocks(&key, |o| o.is_leaf() && !o.is_leftmost() && !o.is_rightmost());
    let mut missed = Vec::new();
    for (block, damages) in [(leaf[3], LEAF), (root[0], ROOT), (0, META)] {
        for (damage, expected) in damages {
            let found = with_page(&key, block, damage, || found(&dir));
            let own = |finding: &&String| finding.starts_with("public.t_pkey: block");
            if !found.iter().filter(own).any(|finding| finding.contains(expected)) {
                missed.push((expected, found));
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
    let zeroed = |bytes: &mut Vec<u8>| {
        let first = leaf[3] as usize * BLOCK_SIZE;
        bytes[first..first + BLOCK_SIZE].fill(0);
    };
    let found_of_zeroes = with_file(&key, zeroed, || found(&dir));
    let lost = format!("downlink leads to block {}, which is not a page", leaf[3]);
    assert!(found_of_zeroes.iter().any(|f| f.contains(&lost)), "{found_of_zeroes:?}");
    assert!(!found_of_zeroes.iter().any(|f| f.contains("lacks")), "{found_of_zeroes:?}");
    let dropped = |page: &mut PageBytes| flag(page, |o| o.flags |= DELETED);
    let found_of_deleted = with_page(&key, leaf[3], dropped, || found(&dir));
    assert!(found_of_deleted.iter().any(|f| f.contains(&lost)), "{found_of_deleted:?}");
    assert_eq!(found(&dir), [""; 0], "restored");
}

#[test]
fn rows_and_entries_are_compared_both_ways() {
    let (_scratch, dir, [table, key, notes]) = indexed();
    let leaf = blocks(&key, |o| o.is_leaf() && o.is_leftmost())[0];
    let remove = |page: &mut PageBytes| nb::delete_item(&mut PageMut(page), 7).expect("removed");
    let missing = "public.t: block 0, offset 6: heap tuple (0,6) from table \"t\" lacks matching \
        index tuple within index \"t_pkey\"";
    assert_eq!(with_page(&key, leaf, remove, || found(&dir)), [missing]);

    // The rows 1 and 2 get the same key, in the table and in the index.
    let same = |page: &mut PageBytes| set_key(page, 4, 1);
    let same_row = |page: &mut PageBytes| {
        let id = Page::new(page).item_id(3).expect("a row");
        let at = usize::from(id.offset) + 24;
        page[at..at + 8].copy_from_slice(&1_i64.to_le_bytes());
    };
    let found_twice =
        with_page(&table, 0, same_row, || with_page(&key, leaf, same, || found(&dir)));
    let twice = format!(
        "public.t_pkey: block {leaf}, offset 4: index uniqueness is violated for index \"t_pkey\": \
         the rows at (0,2) and (0,3) are live and have equal keys"
    );
    assert_eq!(found_twice, [twice]);

    // The NULLs of the notes are in posting lists.
    let (at, list) = (0..)
        .zip(pages(&notes))
        .find_map(|(block, page)| {
            let page = Page::new(&page);
            (1..=page.item_count()).find_map(|n| {
                let tuple = Tuple::new(nb::item(page, n).ok()?).ok()?;
                let tids: Vec<ItemPointer> = tuple.heap_tids().collect();
                tuple.is_posting().then_some((block, (n, tuple.key_size(), tids)))
            })
        })
        .expect("a posting list");
    let (n, first, tids) = list;
    assert!(tids.len() > 10);
    let misplace = |page: &mut PageBytes| bytes(page, n)[first..first + 12].rotate_left(6);
    let found_list = with_page(&notes, at, misplace, || found(&dir));
    let misplaced = format!("block {at}, offset {n}: posting list contains misplaced TID");
    assert!(found_list[0].contains(&misplaced), "{found_list:?}");
    let shorten = |page: &mut PageBytes| {
        let list = nb::form_posting(&Tuple::new(bytes(page, n)).expect("it"), &tids[1..]);
        nb::replace_item(&mut PageMut(page), n, &list.expect("a list")).expect("shorter");
    };
    let found_list = with_page(&notes, at, shorten, || found(&dir));
    assert_eq!(found_list.len(), 1, "{found_list:?}");
    assert!(found_list[0].contains("lacks matching index tuple within index \"t_note_idx\""));
}

#[test]
fn little_memory_and_many_threads_find_the_same() {
    let (_scratch, dir, [_, key, _]) = indexed();
    let leaves = blocks(&key, |o| o.is_leaf() && !o.is_rightmost());
    let remove = |page: &mut PageBytes| {
        nb::delete_item(&mut PageMut(page), 7).expect("removed");
        set_key(page, HIGH_KEY, 1);
    };
    let with = |options: CheckOptions| {
        let mut found = run(&dir, &options).expect("a check").1;
        found.sort();
        found
    };
    let all = |expected: &mut Option<Vec<String>>| {
        for (jobs, memory) in [(1, 1 << 30), (1, 1), (4, 1), (4, 100_000), (8, 1 << 30)] {
            let found = with(CheckOptions { jobs, memory, io_combine_limit: 1, ..only_t() });
            assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{jobs} {memory}");
        }
    };
    all(&mut Some(Vec::new()));
    let mut damaged = None;
    with_page(&key, leaves[4], remove, || all(&mut damaged));
    assert!(damaged.is_some_and(|found| found.len() > 2));
}

#[test]
fn random_bytes_in_b_trees_never_panic() {
    let (_scratch, dir, [_, key, notes]) = indexed();
    let mut dice = Dice::new(18);
    let mut silent = 0;
    for round in 0..150 {
        let file = if round % 2 == 0 { &key } else { &notes };
        let block = dice.index(pages(file).len()) as u32;
        let damage = |page: &mut PageBytes| {
            // Line pointers and headers of tuples mean most.
            let (lower, upper) = (Page::new(page).lower(), Page::new(page).upper());
            for _ in 0..=dice.index(4) {
                let at = match dice.index(4) {
                    0 => dice.index(BLOCK_SIZE),
                    1 => BLOCK_SIZE - 16 + dice.index(16),
                    2 => 24 + dice.index(lower - 24),
                    _ => upper + dice.index(BLOCK_SIZE - upper),
                };
                page[at] = dice.any() as u8;
            }
        };
        let options = CheckOptions { jobs: 1 + round % 3, ..only_t() };
        let (_, found) = with_page(file, block, damage, || run(&dir, &options)).expect("a check");
        silent += usize::from(found.is_empty());
    }
    // What is left are bytes that mean nothing: padding, the hole, hints, truncated high keys.
    assert!(silent < 60, "{silent} of 150");
    assert_eq!(found(&dir), [""; 0], "restored");
}

#[test]
fn a_damaged_index_fails_statements_until_it_is_rebuilt() {
    let (_scratch, dir, [_, key, _]) = indexed();
    let last = blocks(&key, |o| o.is_leaf() && o.is_rightmost())[0];
    let damage = |page: &mut PageBytes| flag(page, |o| o.flags |= 0x400);
    with_page(&key, last, damage, || {
        let named = format!("public.t_pkey: block {last}: page has unknown B-tree flags 0x0401");
        assert_eq!(found(&dir), [named]);
        let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
        let error = transaction(&mut session, |s| {
            let table = s.open_table(None, "t", LockMode::RowExclusive)?;
            insert_open(s, &table, ROWS..ROWS + 1)
        })
        .expect_err("a damaged leaf");
        let expected = format!("index \"t_pkey\" contains corrupted page at block {last}");
        assert_eq!(error.sqlstate(), "XX002");
        assert!(error.to_string().starts_with(&expected), "{error}");
        transaction(&mut session, |s| s.reindex_index(None, "t_pkey")).expect("rebuilt");
        insert(&mut session, "t", ROWS..ROWS + 100);
        drop(session);
        stop(engine);
        assert_eq!(found(&dir), [""; 0], "rebuilt");
    });
}

#[test]
fn nothing_is_found_where_rows_came_and_went() {
    let (_scratch, dir, _) = indexed();
    let (engine, mut session) = open_session(&dir, &config(IoMethod::Sync, false));
    for round in 0..3 {
        let table = transaction(&mut session, |s| {
            let table = s.open_table(None, "t", LockMode::RowExclusive)?;
            let mut rows = Vec::new();
            let mut scan = s.scan(&table)?;
            while let Some(row) = scan.next(s)? {
                rows.push(row.place());
            }
            drop(scan);
            // Whole leaves, and single rows.
            let some = rows.iter().enumerate().filter(|(n, _)| n % 1000 > 300 || n % 7 == round);
            for (_, place) in some {
                s.delete_row(&table, *place)?;
            }
            Ok(table)
        })
        .expect("deletions");
        if round != 1 {
            session.vacuum(&table, &VacuumOptions::default(), &mut Vec::new()).expect("vacuum");
        }
        let first = ROWS + 2000 * round as i64;
        insert(&mut session, "t", first..first + 2000);
    }
    drop(session);
    stop(engine);
    assert_undamaged(&dir);
    let (counts, _) = run(&dir, &CheckOptions::default()).expect("a check");
    assert!(counts.not_checked.is_empty(), "{counts:?}");
}
