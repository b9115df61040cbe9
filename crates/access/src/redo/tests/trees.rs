//! Records about B-trees and sequences, made by hand: the life of a small tree, each record of it
//! damaged in many ways, and records that PostgreSQL wrote.

use forebay_format::nbtree::{
    self, DELETED, HALF_DEAD, HAS_FULL_XID, INCOMPLETE_SPLIT, LEAF, Meta, Opaque, ROOT, Tuple,
};
use forebay_format::wal::nbtree::*;
use forebay_format::wal::sequence::SequenceLog;
use forebay_format::{BLOCK_SIZE, index_tuple};
use forebay_testkit::Dice;

use super::made::{Owned, main_page, redo_and_again};
use super::*;

/// A leaf tuple of one int4, which points to this row.
fn leaf_tuple(key: i32, row: u16) -> Vec<u8> {
    let tid = ItemPointer::new(key as u32, row);
    index_tuple::form(&[AttrLayout::INT4], &[Some(&key.to_le_bytes())], tid).unwrap()
}

/// A pivot that leads to a child.
fn pivot(key: i32, child: u32) -> Vec<u8> {
    let tuple = leaf_tuple(key, 1);
    let tuple = Tuple::new(&tuple).unwrap();
    let mut pivot = nbtree::form_pivot(&tuple, &[AttrLayout::INT4], 1, None).unwrap();
    nbtree::set_down_link(&mut pivot, child);
    pivot
}

/// Tuples as records store those of a whole page.
fn stored(tuples: &[Vec<u8>]) -> Vec<u8> {
    tuples.iter().rev().flatten().copied().collect()
}

fn meta(root: u32, level: u32) -> Vec<u8> {
    BtreeMeta(Meta::new(root, level, true)).encode().to_vec()
}

fn btree(info: u8, main: impl Into<Vec<u8>>) -> Owned {
    Owned::new(Rmgr::BTREE, info, 7, main)
}

fn insert(block: u32, offset: u16, tuple: Vec<u8>) -> Owned {
    btree(INSERT_LEAF, BtreeInsert { offset }.encode()).with(0, main_page(block), tuple)
}

/// Splits a page, whose right half gets these tuples.
fn split(
    main: BtreeSplit,
    on_left: bool,
    [left, right]: [u32; 2],
    data: Vec<u8>,
    tuples: &[Vec<u8>],
) -> Owned {
    btree(if on_left { SPLIT_L } else { SPLIT_R }, main.encode())
        .with(0, main_page(left), data)
        .with_new(1, main_page(right), stored(tuples))
}

fn new_root(block: u32, level: u32, tuples: &[Vec<u8>]) -> Owned {
    btree(NEWROOT, BtreeNewRoot { root: block, level }.encode())
        .with_new(0, main_page(block), stored(tuples))
        .with_new(2, main_page(0), meta(block, level))
}

/// A tree of leaves 1, 2 and 4 below root 3: made, split, deduplicated, emptied on the left.
fn life() -> Vec<Owned> {
    let mut records = vec![new_root(1, 0, &[])];
    records.extend((0..6).map(|n| insert(1, n + 1, leaf_tuple(i32::from(n) * 10, 1))));
    // 0 10 20 | 30 40 50, with 35 on the right.
    let right: Vec<_> = [30, 35, 40, 50].map(|key| leaf_tuple(key, 1)).into();
    let main = BtreeSplit { level: 0, first_right: 4, new_item: 5, posting: 0 };
    records.push(split(main, false, [1, 2], pivot(30, 2), &right));
    let children = [nbtree::minus_infinity(1).to_vec(), pivot(30, 2)];
    records.push(new_root(3, 1, &children).with(1, main_page(1), []));
    // Three rows with key 40: a posting list, and one between its rows.
    records.push(insert(2, 4, leaf_tuple(40, 5)));
    records.push(insert(2, 5, leaf_tuple(40, 9)));
    let dedup = BtreeDedup { intervals: vec![DedupInterval { base: 3, items: 3 }] };
    let mut data = Vec::new();
    let main = dedup.encode(&mut data);
    records.push(btree(DEDUP, main).with(0, main_page(2), data));
    let between = [&1_u16.to_le_bytes()[..], &leaf_tuple(40, 3)].concat();
    let main = BtreeInsert { offset: 4 }.encode();
    records.push(btree(INSERT_POST, main).with(0, main_page(2), between));
    // 30 35 | 40, 40, 50: the last row of the list, and the one that replaces it, on the left.
    let new = leaf_tuple(40, 4);
    let right: Vec<_> = [(40, 9), (50, 1)].map(|(key, row)| leaf_tuple(key, row)).into();
    let main = BtreeSplit { level: 0, first_right: 4, new_item: 4, posting: 2 };
    let first = Tuple::new(&right[0]).unwrap();
    let tid = Some(ItemPointer::new(40, 5));
    let high_key = nbtree::form_pivot(&first, &[AttrLayout::INT4], 1, tid).unwrap();
    records.push(split(main, true, [2, 4], [new, high_key].concat(), &right));
    let upper = btree(INSERT_UPPER, BtreeInsert { offset: 3 }.encode());
    records.push(upper.with(0, main_page(3), pivot(40, 4)).with(1, main_page(2), []));
    records.extend(emptied());
    records
}

/// Rows of leaf 2 go, those of leaf 1 all, and then the leaf.
fn emptied() -> Vec<Owned> {
    let update = PostingUpdate { offset: 4, deleted: vec![0, 1] };
    let mut data = Vec::new();
    let main = BtreeDelete { deleted: vec![2], updated: vec![update] }.encode_vacuum(&mut data);
    let vacuum = btree(VACUUM, main).with(0, main_page(2), data);
    let mut data = Vec::new();
    let all = BtreeDelete { deleted: vec![2, 3, 4], updated: Vec::new() };
    let main = all.encode_delete(9, false, &mut data);
    let delete = btree(DELETE, main).with(0, main_page(1), data);
    let mark =
        BtreeHalfDead { parent_item: 1, leaf: 1, left: 0, right: 2, top_parent: None }.encode();
    let mark =
        btree(MARK_PAGE_HALFDEAD, mark).with_new(0, main_page(1), []).with(1, main_page(3), []);
    let unlink = BtreeUnlink {
        left: 0,
        right: 2,
        level: 0,
        safe_xid: FullXid(11),
        leaf_left: 0,
        leaf_right: 2,
        leaf_top_parent: None,
    };
    let unlink = btree(UNLINK_PAGE_META, unlink.encode())
        .with_new(0, main_page(1), [])
        .with(2, main_page(2), [])
        .with_new(4, main_page(0), meta(3, 1));
    let mut statistics = Meta::new(3, 1, true);
    statistics.deleted_pages = 1;
    let cleanup = btree(META_CLEANUP, []).with_new(0, main_page(0), BtreeMeta(statistics).encode());
    vec![vacuum, delete, mark, unlink, cleanup]
}

/// The pages after the first so many records.
fn pages_after(records: &[Owned]) -> Vec<PageBytes> {
    let views: Vec<_> = records.iter().map(Owned::view).collect();
    let mut feeder = Feeder::new();
    feeder.redo(&views).0.unwrap();
    feeder.recovered.pages(TABLE)
}

fn opaque(page: &PageBytes) -> Opaque {
    Opaque::of(Page::new(page)).unwrap()
}

/// Keys and rows of a leaf's data items.
fn keys(page: &PageBytes) -> Vec<(i32, Vec<u16>)> {
    let page = Page::new(page);
    let first = Opaque::of(page).unwrap().first_data_item();
    let item = |n| {
        let tuple = Tuple::new(nbtree::item(page, n).unwrap()).unwrap();
        let key = i32::from_le_bytes(*tuple.bytes()[8..].first_chunk().unwrap());
        (key, tuple.heap_tids().map(|tid| tid.offset).collect())
    };
    (first..=page.item_count()).map(item).collect()
}

#[test]
fn the_life_of_a_tree_is_redone_from_any_record_on() {
    let records = life();
    let mut feeder = redo_and_again(&records);
    let pages = feeder.recovered.pages(TABLE);
    assert_eq!(pages.len(), 5);
    let meta = Meta::of(Page::new(&pages[0])).unwrap();
    assert_eq!((meta.root, meta.level, meta.deleted_pages), (3, 1, 1));
    let dead = opaque(&pages[1]);
    assert_eq!((dead.flags, dead.next), (DELETED | LEAF | HAS_FULL_XID, 2));
    assert_eq!(nbtree::safe_xid(Page::new(&pages[1])), Ok(Some(FullXid(11))));
    assert_eq!(keys(&pages[2]), [(35, vec![1]), (40, vec![4]), (40, vec![5])]);
    assert_eq!(keys(&pages[4]), [(40, vec![9]), (50, vec![1])]);
    let [left, root, right] = [2, 3, 4].map(|block: usize| opaque(&pages[block]));
    assert_eq!((left.prev, left.next, left.flags), (0, 4, LEAF));
    assert_eq!((root.level, root.flags), (1, ROOT));
    assert_eq!((right.prev, right.next, right.flags), (2, 0, LEAF));
    let down: Vec<_> = (1..=Page::new(&pages[3]).item_count())
        .map(|n| Tuple::new(nbtree::item(Page::new(&pages[3]), n).unwrap()).unwrap().down_link())
        .collect();
    assert_eq!(down, [2, 4]);
}

#[test]
fn a_split_is_incomplete_until_its_parent_knows() {
    let records = life();
    let is = |kind: u8| move |record: &Owned| record.info == kind;
    let first = records.iter().position(is(SPLIT_R)).unwrap();
    let second = records.iter().position(is(SPLIT_L)).unwrap();
    for (split, block) in [(first, 1), (second, 2)] {
        let flags = |end: usize| opaque(&pages_after(&records[..end])[block]).flags;
        assert_eq!(flags(split), if block == 1 { LEAF | ROOT } else { LEAF });
        assert_eq!(flags(split + 1), LEAF | INCOMPLETE_SPLIT);
        assert_eq!(flags(split + 2), LEAF);
    }
    let pages = pages_after(&records[..=second]);
    // The posting list lost its greatest row to the new tuple, which stayed on the left.
    assert_eq!(keys(&pages[2])[2..], [(40, vec![1, 3, 4]), (40, vec![5])]);
    let mark = records.iter().position(is(MARK_PAGE_HALFDEAD)).unwrap();
    let pages = pages_after(&records[..=mark]);
    assert_eq!(opaque(&pages[1]).flags, LEAF | HALF_DEAD);
    let key = Tuple::new(nbtree::item(Page::new(&pages[1]), 1).unwrap()).unwrap().top_parent();
    assert_eq!((key, opaque(&pages[2]).prev), (None, 1));
}

#[test]
fn pages_above_the_leaves_are_split_and_unlinked() {
    let mut records = life();
    records.truncate(records.iter().position(|record| record.info == VACUUM).unwrap());
    // Root 3 is split for a new child: 1 | 2 4 5, with the pivot to the right.
    let right = [nbtree::minus_infinity(2).to_vec(), pivot(40, 4), pivot(60, 5)];
    let leaf = split(
        BtreeSplit { level: 0, first_right: 2, new_item: 3, posting: 0 },
        false,
        [4, 5],
        pivot(50, 5),
        &[leaf_tuple(50, 1), leaf_tuple(60, 1)],
    );
    let main = BtreeSplit { level: 1, first_right: 2, new_item: 4, posting: 0 };
    let upper = split(main, false, [3, 6], pivot(30, 2), &right).with(3, main_page(4), []);
    let children = [nbtree::minus_infinity(3).to_vec(), pivot(30, 6)];
    let root = new_root(7, 2, &children).with(1, main_page(3), []);
    // The branch of 3 and 1 is deleted: leaf 1 half-dead, 3 unlinked, then 1.
    let mark = BtreeHalfDead { parent_item: 1, leaf: 1, left: 0, right: 2, top_parent: Some(3) };
    let mark = btree(MARK_PAGE_HALFDEAD, mark.encode()).with_new(0, main_page(1), []).with(
        1,
        main_page(7),
        [],
    );
    let unlink = BtreeUnlink {
        left: 0,
        right: 6,
        level: 1,
        safe_xid: FullXid(11),
        leaf_left: 0,
        leaf_right: 2,
        leaf_top_parent: None,
    };
    let unlink = btree(UNLINK_PAGE, unlink.encode())
        .with_new(0, main_page(3), [])
        .with(2, main_page(6), [])
        .with_new(3, main_page(1), []);
    records.extend([leaf, upper, root, mark, unlink]);
    let pages = redo_and_again(&records).recovered.pages(TABLE);
    assert_eq!(opaque(&pages[3]).flags, DELETED | HAS_FULL_XID);
    assert_eq!((opaque(&pages[3]).level, opaque(&pages[6]).prev), (1, 0));
    assert_eq!(opaque(&pages[1]).flags, LEAF | HALF_DEAD);
    assert_eq!((opaque(&pages[4]).flags, opaque(&pages[4]).next), (LEAF, 5));
    let only = Tuple::new(nbtree::item(Page::new(&pages[7]), 1).unwrap()).unwrap();
    assert_eq!((only.down_link(), Page::new(&pages[7]).item_count()), (6, 1));
}

/// Damages a record: its main data, data of a block, its references.
fn damaged(record: &Owned, dice: &mut Dice) -> Owned {
    let mut record = record.clone();
    let block = dice.index(record.blocks.len());
    match dice.below(6) {
        0 => record.main.truncate(dice.index(record.main.len().max(1))),
        1 if !record.main.is_empty() => {
            let at = dice.index(record.main.len());
            record.main[at] = dice.below(256) as u8;
        }
        2 => drop(record.blocks.remove(block)),
        3 => record.blocks[block].2 ^= true,
        4 => record.blocks[block].1 = main_page(dice.below(7) as u32),
        _ => {
            let data = &mut record.blocks[block].3;
            match data.len() {
                0 => data.push(1),
                len => match dice.below(2) {
                    0 => data.truncate(dice.index(len)),
                    _ => data[dice.index(len)] = dice.below(256) as u8,
                },
            }
        }
    }
    record
}

/// A damaged record is an error that names its place, or makes a page that may be wrong, as its
/// checksum was right; there is no panic.
#[test]
fn damaged_records_name_their_place() {
    let records = life();
    let mut dice = Dice::new(5);
    let mut errors = 0;
    for index in 1..records.len() {
        for _ in 0..12 {
            let bad = damaged(&records[index], &mut dice);
            let mut views: Vec<_> = records[..index].iter().map(Owned::view).collect();
            views.push(bad.view());
            let Err(error) = Feeder::new().redo(&views).0 else { continue };
            let (message, lsn) = (error.to_string(), Lsn(0x200_0028 + index as u64 * 0x100));
            let named = message.contains(&lsn.to_string()) || message.contains("invalid pages");
            assert!(named, "{message}, not {lsn}");
            errors += 1;
        }
    }
    assert!(errors > 100, "{errors} errors");
}

#[test]
fn a_record_that_does_not_fit_changes_nothing_and_names_the_page() {
    let records = life();
    let split = records.iter().position(|record| record.info == SPLIT_R).unwrap();
    let views: Vec<_> = records[..split].iter().map(Owned::view).collect();
    let misfits = [
        (insert(1, 9, leaf_tuple(5, 1)), "no space for 16 bytes as item 9"),
        (insert(1, 1, vec![1; 8200]), "no space for 8200 bytes as item 1"),
        (btree(VACUUM, [1, 0, 0, 0]).with(0, main_page(1), [9, 0]), "item 9 does not exist"),
        (btree(DEDUP, [1, 0]).with(0, main_page(1), [2, 0, 9, 0]), "item 2 does not exist"),
        (
            btree(INSERT_POST, [2, 0]).with(
                0,
                main_page(1),
                [&[1, 0][..], &leaf_tuple(0, 3)].concat(),
            ),
            "no heap TID 1 in a posting list",
        ),
        (
            btree(INSERT_UPPER, [2, 0]).with(0, main_page(1), pivot(1, 1)).with(
                1,
                main_page(1),
                [],
            ),
            "its split is complete already",
        ),
    ];
    for (misfit, problem) in misfits {
        let mut feeder = Feeder::new();
        feeder.redo(&views).0.unwrap();
        let before = feeder.recovered.pages(TABLE);
        let (result, _) = feeder.redo_from(split as u64, &[misfit.view()]);
        let message = result.unwrap_err().to_string();
        let place = "does not apply to block 1 of base/5/16384: ";
        assert!(message.contains(place) && message.contains(problem), "{message}");
        assert_same(&before, &feeder.recovered.pages(TABLE));
    }
}

#[test]
fn a_sequence_is_its_last_tuple() {
    let tuple = |fill: u8| {
        let log = SequenceLog { rel: TABLE, tuple: &[fill; 49] }.encode();
        Owned::new(Rmgr::SEQ, 0, 7, log).with_new(0, main_page(0), [])
    };
    let pages = redo_and_again(&[tuple(1), tuple(2)]).recovered.pages(TABLE);
    let page = Page::new(&pages[0]);
    assert_eq!((page.item_count(), page.item(1)), (1, Some(&[2; 49][..])));
    assert_eq!(page.special_bytes()[..2], [0x17, 0x17]);
    let empty = SequenceLog { rel: TABLE, tuple: &[] }.encode();
    let empty = Owned::new(Rmgr::SEQ, 0, 7, empty).with_new(0, main_page(0), []);
    let message = Feeder::new().redo(&[empty.view()]).0.unwrap_err().to_string();
    assert!(message.contains("does not fit a page"), "{message}");
    assert_eq!(page.special(), BLOCK_SIZE - 8);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_records_never_panic(
        main in prop::collection::vec(0_u8..6, 0..40),
        data in prop::collection::vec(any::<u8>(), 0..100),
        info in 0_u8..15,
        new in any::<[bool; 5]>(),
    ) {
        let records = life();
        let end = records.iter().position(|record| record.info == VACUUM).unwrap();
        let mut views: Vec<_> = records[..end].iter().map(Owned::view).collect();
        let mut bad = btree(info << 4, main);
        for (id, new) in (0..).zip(new) {
            bad.blocks.push((id, main_page(u32::from(id)), new, data.clone()));
        }
        views.push(bad.view());
        let _ = Feeder::new().redo(&views);
    }
}
