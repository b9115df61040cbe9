//! Records about rows, made by hand: what they do to several pages at once, to the maps, and to
//! pages that are missing, newer or damaged.

use forebay_format::free_space_map::{self as fsm, MapPage};
use forebay_format::visibility_map::{self as map, ALL_FROZEN, ALL_VISIBLE, VALID_BITS};
use forebay_format::wal::{heap, prune::HeapPrune, smgr};

use super::made::{Owned, main_page, redo_and_again};
use super::*;

fn map_page(block: u32) -> PageTag {
    PageTag::new(TABLE, Fork::Vm, block)
}

/// A row of `len` bytes as records have it.
fn row(len: usize) -> Vec<u8> {
    let header = heap::HeapHeader { infomask2: 1, infomask: ht::HEAP_XMAX_INVALID, hoff: 24 };
    [&header.encode()[..], &vec![7; 1 + len]].concat()
}

/// The first row of a page.
fn first_row(block: u32, len: usize) -> Owned {
    let main = heap::HeapInsert { offset: 1, flags: 0 }.encode();
    Owned::new(Rmgr::HEAP, heap::INSERT | heap::INIT_PAGE, 5, main).with(
        0,
        main_page(block),
        row(len),
    )
}

fn visible(block: u32, flags: u8) -> Owned {
    let main = heap::HeapVisible { conflict_horizon: 0, flags }.encode();
    Owned::new(Rmgr::HEAP2, heap::VISIBLE, 0, main)
        .with(0, map_page(map::map_block(block)), [])
        .with(1, main_page(block), [])
}

fn bits(feeder: &mut Feeder, block: u32) -> u8 {
    map::get(Page::new(&feeder.page(map_page(map::map_block(block)))), block)
}

/// An update from page 0 to page 1, both of which everybody saw. PostgreSQL's records refer to the
/// map's page, those of older minor versions do not.
#[test]
fn an_update_across_pages_clears_the_bits_of_both() {
    let update = heap::HeapUpdate {
        old_xmax: 7,
        old_offset: 1,
        old_infobits: 0,
        flags: heap::UPDATE_OLD_ALL_VISIBLE_CLEARED | heap::UPDATE_NEW_ALL_VISIBLE_CLEARED,
        new_xmax: 0,
        new_offset: 2,
    };
    for refers_to_map in [false, true] {
        let mut update = Owned::new(Rmgr::HEAP, heap::UPDATE, 7, update.encode())
            .with(0, main_page(1), row(80))
            .with(1, main_page(0), []);
        if refers_to_map {
            update = update.with(2, map_page(0), []);
        }
        let seen = [visible(0, VALID_BITS), visible(1, VALID_BITS), visible(2, VALID_BITS)];
        let rows = [first_row(0, 100), first_row(1, 100), first_row(2, 100)];
        let mut feeder = redo_and_again(&[&rows[..], &seen, &[update]].concat());
        assert_eq!([0, 1, 2].map(|block| bits(&mut feeder, block)), [0, 0, VALID_BITS]);
        let pages = feeder.recovered.pages(TABLE);
        let all_visible: Vec<_> =
            pages.iter().map(|page| Page::new(page).is_all_visible()).collect();
        assert_eq!(all_visible, [false, false, true]);
        let tuple = |block: usize, number| {
            let item = Page::new(&pages[block]).item(number).unwrap();
            forebay_format::HeapTuple::new(item).unwrap()
        };
        let (old, new) = (tuple(0, 1), tuple(1, 2));
        assert_eq!((old.xmax(), old.ctid()), (7, ItemPointer::new(1, 2)));
        assert_eq!((new.xmin(), new.xmax(), new.ctid()), (7, 0, ItemPointer::new(1, 2)));
        let map_lsn = Page::new(&feeder.page(map_page(0))).lsn();
        let end = Page::new(&pages[1]).lsn();
        assert_eq!(map_lsn == end, refers_to_map, "the map's LSN is {map_lsn}");
    }
}

#[test]
fn a_lock_leaves_a_page_visible_but_not_frozen() {
    let locked = heap::HeapDelete {
        xmax: 8,
        offset: 1,
        infobits: heap::infobits(ht::HEAP_XMAX_LOCK_ONLY | ht::HEAP_XMAX_KEYSHR_LOCK, 0),
        flags: heap::LOCK_ALL_FROZEN_CLEARED,
    };
    for (rmgr, info) in [(Rmgr::HEAP, heap::LOCK), (Rmgr::HEAP2, heap::LOCK_UPDATED)] {
        let lock = Owned::new(rmgr, info, 8, locked.encode()).with(0, main_page(0), []);
        let records = [first_row(0, 10), visible(0, VALID_BITS), lock];
        let mut feeder = redo_and_again(&records);
        assert_eq!(bits(&mut feeder, 0), ALL_VISIBLE);
        let page = feeder.page(main_page(0));
        let tuple = forebay_format::HeapTuple::new(Page::new(&page).item(1).unwrap()).unwrap();
        assert!(Page::new(&page).is_all_visible() && tuple.xmax_is_locked_only());
        assert_eq!((tuple.xmax(), tuple.ctid()), (8, ItemPointer::new(0, 1)));
    }
}

#[test]
fn speculative_insertions_rows_that_move_and_new_values_in_place() {
    let second =
        Owned::new(Rmgr::HEAP, heap::INSERT, 6, heap::HeapInsert { offset: 2, flags: 4 }.encode())
            .with(0, main_page(0), row(8));
    let confirm =
        Owned::new(Rmgr::HEAP, heap::CONFIRM, 6, heap::encode_confirm(2)).with(0, main_page(0), []);
    let delete = |offset, flags| {
        let main = heap::HeapDelete { xmax: 9, offset, infobits: 0x10, flags }.encode();
        Owned::new(Rmgr::HEAP, heap::DELETE, 9, main).with(0, main_page(0), [])
    };
    let inplace = heap::HeapInplace {
        offset: 2,
        db: 5,
        tablespace: 1663,
        relcache_file: true,
        invalidations: vec![[1; 16]],
    };
    let inplace = |len| {
        Owned::new(Rmgr::HEAP, heap::INPLACE, 0, inplace.encode()).with(
            0,
            main_page(0),
            vec![9; len],
        )
    };
    let records = [
        first_row(0, 8),
        second,
        confirm,
        inplace(8),
        delete(1, heap::DELETE_IS_PARTITION_MOVE),
        delete(2, heap::DELETE_IS_SUPER),
    ];
    let mut feeder = redo_and_again(&records);
    let page = feeder.page(main_page(0));
    let tuple =
        |number| forebay_format::HeapTuple::new(Page::new(&page).item(number).unwrap()).unwrap();
    assert!(tuple(1).moved_partitions() && tuple(1).xmax() == 9);
    assert_eq!(
        (tuple(2).xmin(), tuple(2).xmax(), tuple(2).bytes()[24..].to_vec()),
        (0, 0, vec![9; 8])
    );
    let (result, _) = feeder.redo_from(9, &[inplace(9).view()]);
    let message = result.unwrap_err().to_string();
    assert!(message.ends_with("the tuple has another length"), "{message}");
}

/// A page of the table that is newer, or gone, does not keep the map's bits from being set.
#[test]
fn bits_are_set_whatever_the_table_s_page_is() {
    let mut feeder = Feeder::new();
    feeder.redo_from(5, &[first_row(0, 10).view()]).0.unwrap();
    feeder.redo(&[visible(0, ALL_VISIBLE).view()]).0.unwrap();
    assert_eq!(bits(&mut feeder, 0), ALL_VISIBLE);
    assert!(!Page::new(&feeder.page(main_page(0))).is_all_visible());
    let cut = smgr::SmgrTruncate { blocks: 1, rel: TABLE, flags: smgr::TRUNCATE_HEAP }.encode();
    let cut = record(Rmgr::SMGR, smgr::TRUNCATE, 0, &cut);
    feeder.redo_from(7, &[visible(40_000, VALID_BITS).view(), cut]).0.unwrap();
    assert_eq!(bits(&mut feeder, 40_000), VALID_BITS);
    let wrong = [visible(0, ALL_FROZEN), visible(0, 0), visible(0, map::CATALOG_REL)];
    for wrong in &wrong {
        let (result, _) = Feeder::new().redo(&[wrong.view()]);
        assert!(matches!(result, Err(RedoError::Damaged { .. })), "{result:?}");
    }
    let mut elsewhere = visible(0, VALID_BITS);
    elsewhere.blocks[0].1 = map_page(1);
    let (result, _) = Feeder::new().redo(&[elsewhere.view()]);
    assert!(matches!(result, Err(RedoError::Damaged { .. })), "{result:?}");
}

#[test]
fn a_prune_record_that_does_not_fit_changes_nothing() {
    let prune = HeapPrune { dead: vec![3], flags: 4, ..HeapPrune::default() };
    let (mut main, mut data) = (Vec::new(), Vec::new());
    prune.encode(&mut main, &mut data);
    let prune = Owned::new(Rmgr::HEAP2, heap::PRUNE_ON_ACCESS, 0, main).with(0, main_page(0), data);
    let mut feeder = Feeder::new();
    feeder.redo(&[first_row(0, 10).view()]).0.unwrap();
    let before = feeder.recovered.pages(TABLE);
    let (result, _) = feeder.redo_from(1, &[prune.view()]);
    let message = result.unwrap_err().to_string();
    assert!(
        message.contains("does not apply to block 0 of base/5/16384: line pointer 3"),
        "{message}"
    );
    assert_same(&before, &feeder.recovered.pages(TABLE));
}

/// The category of a block in the free-space map.
fn category(feeder: &mut Feeder, block: u32) -> u8 {
    let (page, slot) = MapPage::of_block(block);
    fsm::get(Page::new(&feeder.page(PageTag::new(TABLE, Fork::Fsm, page.block()))), slot)
}

#[test]
fn the_free_space_map_is_told_of_full_pages_and_cut() {
    let rows = [first_row(0, 7000), first_row(1, 100), first_row(2, 7500)];
    let mut feeder = redo_and_again(&rows);
    let free = |feeder: &mut Feeder, block| {
        fsm::category(Page::new(&feeder.page(main_page(block))).heap_free_space())
    };
    for block in [0, 2] {
        assert_eq!(category(&mut feeder, block), free(&mut feeder, block));
    }
    assert_eq!(category(&mut feeder, 1), 0, "nothing is known of a page with room");
    let cut = smgr::SmgrTruncate { blocks: 1, rel: TABLE, flags: 7 }.encode();
    for _ in 0..2 {
        feeder.redo_from(3, &[record(Rmgr::SMGR, smgr::TRUNCATE, 0, &cut)]).0.unwrap();
        assert_eq!(category(&mut feeder, 0), free(&mut feeder, 0));
        assert_eq!(category(&mut feeder, 2), 0);
    }
    assert_eq!(feeder.recovered.pool.nblocks(TABLE, Fork::Fsm).unwrap(), 3);
    let none = smgr::SmgrTruncate { blocks: 0, rel: TABLE, flags: 7 }.encode();
    feeder.redo_from(4, &[record(Rmgr::SMGR, smgr::TRUNCATE, 0, &none)]).0.unwrap();
    assert_eq!(feeder.recovered.pool.nblocks(TABLE, Fork::Fsm).unwrap(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_heap_records_never_panic(
        main in prop::collection::vec(any::<u8>(), 0..24),
        data in prop::collection::vec(any::<u8>(), 0..200),
        info in any::<u8>(), two: bool, offset in 0u8..4,
    ) {
        let rmgr = if two { Rmgr::HEAP2 } else { Rmgr::HEAP };
        let mut main = main;
        // Mostly tuples that exist.
        main.iter_mut().skip(4).step_by(8).for_each(|byte| *byte = offset);
        let mut feeder = Feeder::new();
        feeder.redo(&[first_row(0, 40).view(), first_row(1, 50).view()]).0.unwrap();
        let bad = Owned::new(rmgr, info & 0xf0, 5, main)
            .with(0, main_page(0), data)
            .with(1, main_page(1), [])
            .with(2, map_page(0), []);
        let _ = feeder.redo_from(2, &[bad.view()]);
    }
}
