//! Damage, and random histories of a page's items.

use proptest::prelude::*;

use super::*;
use crate::{
    AttrLayout,
    ids::FullXid,
    index_page::IndexPageError,
    index_tuple,
    page::{ItemId, ItemState, Page, PageBytes, PageMut},
};

const COLUMNS: [AttrLayout; 2] = [AttrLayout::VARLENA, AttrLayout::INT4];

fn tid(n: u32) -> ItemPointer {
    ItemPointer::new(n / 100, (n % 100 + 1) as u16)
}

fn leaf() -> PageBytes {
    let mut bytes = [0xaa; BLOCK_SIZE];
    let opaque = Opaque { prev: 3, next: 5, flags: LEAF, ..Opaque::default() };
    init_page(&mut PageMut::new(&mut bytes), opaque);
    bytes
}

fn tuple(text: &str, number: Option<i32>, tid: ItemPointer) -> Vec<u8> {
    let number = number.map(i32::to_le_bytes);
    let values = [Some(text.as_bytes()), number.as_ref().map(|bytes| &bytes[..])];
    index_tuple::form(&COLUMNS, &values, tid).unwrap()
}

fn all(page: Page<'_>) -> Vec<Vec<u8>> {
    (1..=page.item_count()).map(|n| item(page, n).unwrap().to_vec()).collect()
}

#[test]
fn items_keep_their_order_and_places() {
    let mut bytes = leaf();
    let mut page = PageMut::new(&mut bytes);
    for (n, len) in [(1, 16), (1, 24), (3, 8), (2, 40)] {
        insert_item(&mut page, n, &vec![len; usize::from(len)]).unwrap();
    }
    assert_eq!(all(page.page()).iter().map(Vec::len).collect::<Vec<_>>(), [24, 40, 16, 8]);
    assert_eq!(page.page().upper(), 8176 - 88);
    kill(&mut page, 2).unwrap();
    assert_eq!(item(page.page(), 2), Ok(&[40; 40][..]));
    assert!(page.page().item(2).is_none() && is_killed(page.page(), 2));
    replace_item(&mut page, 2, &[7; 8]).unwrap();
    assert!(is_killed(page.page(), 2));
    replace_item(&mut page, 1, &[9; 48]).unwrap();
    assert_eq!(all(page.page()), [vec![9; 48], vec![7; 8], vec![16; 16], vec![8; 8]]);
    // The order on the page is that of insertion.
    let places: Vec<_> = (1..=4).map(|n| page.page().item_id(n).unwrap().offset).collect();
    assert_eq!(places, [8112, 8096, 8160, 8104]);
    delete_item(&mut page, 3).unwrap();
    assert_eq!(all(page.page()), [vec![9; 48], vec![7; 8], vec![8; 8]]);
    assert_eq!((page.page().upper(), page.page().lower()), (8176 - 64, 24 + 12));
    for n in 1..=3 {
        push_item(&mut page, &[n; 8]).unwrap();
    }
    delete_items(&mut page, &[1, 4, 6]).unwrap();
    assert_eq!(all(page.page()), [vec![7; 8], vec![8; 8], vec![2; 8]]);
    assert!(is_killed(page.page(), 1) && !is_killed(page.page(), 2));
    assert_eq!(page.page().upper(), 8176 - 24);
    assert_eq!(Opaque::of(page.page()).unwrap().prev, 3);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut bytes = leaf();
    let mut page = PageMut::new(&mut bytes);
    for n in [0, 2] {
        let refused = Err(IndexPageError::NoSpace { item: n, len: 8 });
        assert_eq!(insert_item(&mut page, n, &[0; 8]), refused);
    }
    assert_eq!(push_item(&mut page, &[]), Err(IndexPageError::NoSpace { item: 1, len: 0 }));
    while push_item(&mut page, &[1; MAX_ITEM_SIZE_NO_HEAP_TID]).is_ok() {}
    assert_eq!(page.page().item_count(), 3);
    let large = MAX_ITEM_SIZE_NO_HEAP_TID + 8;
    let full = *page.0;
    let refused = Err(IndexPageError::NoSpace { item: 2, len: large });
    assert_eq!(replace_item(&mut page, 2, &vec![2; large]), refused);
    for wrong in [&[2, 1][..], &[1, 1], &[1, 4], &[0], &[1, 2, 3, 4]] {
        let refused = delete_items(&mut page, wrong);
        assert!(matches!(refused, Err(IndexPageError::Item { .. })), "{wrong:?} {refused:?}");
    }
    assert_eq!(*page.0, full);
    let mut bytes = leaf();
    let mut page = PageMut::new(&mut bytes);
    while push_item(&mut page, &[1; 8]).is_ok() {}
    assert_eq!(usize::from(page.page().item_count()), MAX_ITEMS);
}

#[test]
fn pages_of_other_kinds_are_refused() {
    let mut bytes = [0; BLOCK_SIZE];
    assert_eq!(Opaque::of(Page::new(&bytes)), Err(NbtreeError::NewPage));
    PageMut::new(&mut bytes).init(0);
    assert_eq!(Opaque::of(Page::new(&bytes)), Err(NbtreeError::SpecialSize { len: 0 }));
    let mut bytes = leaf();
    bytes[BLOCK_SIZE - 3] = 2;
    assert_eq!(Opaque::of(Page::new(&bytes)), Err(NbtreeError::Flags { flags: 0x201 }));
    let mut bytes = leaf();
    assert_eq!(safe_xid(Page::new(&bytes)), Err(NbtreeError::NotDeleted));
    PageMut::new(&mut bytes).set_lower(8);
    assert!(matches!(Opaque::of(Page::new(&bytes)), Err(NbtreeError::Header { .. })));
    Meta::new(7, 2, true).init_page(&mut PageMut::new(&mut bytes));
    assert_eq!(Meta::of(Page::new(&bytes)).unwrap().fast_level, 2);
    bytes[28] = 5;
    assert_eq!(Meta::of(Page::new(&bytes)), Err(NbtreeError::Version(5)));
    bytes[28] = 2;
    assert!(!Meta::of(Page::new(&bytes)).unwrap().all_equal_image);
    bytes[24] = 0;
    assert_eq!(Meta::of(Page::new(&bytes)), Err(NbtreeError::Magic(0x05_3100)));
    let deleted = Opaque { level: 1, flags: 0, ..Opaque::default() };
    init_deleted_page(&mut PageMut::new(&mut bytes), deleted, FullXid(77));
    assert_eq!(safe_xid(Page::new(&bytes)), Ok(Some(FullXid(77))));
    PageMut::new(&mut bytes).set_lower(24);
    assert!(matches!(safe_xid(Page::new(&bytes)), Err(NbtreeError::Header { .. })));
}

#[test]
fn layouts_of_the_three_kinds() {
    let plain = tuple("abc", Some(5), tid(205));
    assert_eq!(plain[..8], [0, 0, 2, 0, 6, 0, 16, 0x40]);
    assert_eq!(plain[8..], [0x09, b'a', b'b', b'c', 5, 0, 0, 0]);
    let view = Tuple::new(&plain).unwrap();
    let list = form_posting(&view, &[tid(1), tid(2), tid(300)]).unwrap();
    assert_eq!(list[..8], [0, 0, 16, 0, 3, 0x20, 40, 0x60]);
    assert_eq!(
        list[16..40],
        [[0, 0, 0, 0, 2, 0], [0, 0, 0, 0, 3, 0], [0, 0, 3, 0, 1, 0], [0; 6]].concat()
    );
    let list = Tuple::new(&list).unwrap();
    assert_eq!((list.heap_tid(), list.max_heap_tid()), (Some(tid(1)), Some(tid(300))));
    assert_eq!((list.key_size(), list.size()), (16, 40));
    assert_eq!(form_posting(&list, &[tid(205)]), Ok(plain.clone()));
    assert_eq!(update_posting(&list, &[0, 2]).unwrap(), tuple("abc", Some(5), tid(2)));
    let (left, right) = split_posting(&list, &view, 2).unwrap();
    assert_eq!(right, tuple("abc", Some(5), tid(300)));
    assert_eq!(left, form_posting(&view, &[tid(1), tid(2), tid(205)]).unwrap());
    for (index, new) in [(0, &view), (3, &view), (1, &list)] {
        assert_eq!(split_posting(&list, new, index), Err(NbtreeError::NoPosting { index }));
    }
    for (wrong, index) in [(&[3][..], 3), (&[1, 1], 1), (&[2, 0], 0), (&[0, 1, 2], 0)] {
        assert_eq!(update_posting(&list, wrong), Err(NbtreeError::NoPosting { index }));
    }
    assert!(update_posting(&view, &[0]).is_err());
    let pivot = form_pivot(&list, &COLUMNS, 2, Some(tid(300))).unwrap();
    assert_eq!(pivot[..8], [0, 0, 16, 0, 2, 0x10, 24, 0x60]);
    assert_eq!(pivot[16..], [0, 0, 0, 0, 3, 0, 1, 0]);
    assert!(form_posting(&Tuple::new(&pivot).unwrap(), &[tid(1)]).is_err());
    assert_eq!(
        form_pivot(&view, &COLUMNS, 1, None).unwrap()[4..12],
        [1, 0, 16, 0x60, 9, 97, 98, 99]
    );
    let nothing = form_pivot(&view, &COLUMNS, 0, None).unwrap();
    assert_eq!(nothing[4..], minus_infinity(2)[4..]);
    assert!(form_pivot(&view, &COLUMNS, 3, None).is_err());
    let half_dead = half_dead_high_key(None);
    assert_eq!(Tuple::new(&half_dead).unwrap().top_parent(), None);
    assert_eq!(Tuple::new(&half_dead_high_key(Some(9))).unwrap().top_parent(), Some(9));
    let mut child = minus_infinity(1);
    set_down_link(&mut child, 0x0001_0002);
    assert_eq!(Tuple::new(&child).unwrap().down_link(), 0x0001_0002);
}

#[test]
fn a_pivot_has_a_null_bitmap_only_for_columns_that_it_keeps() {
    let with_null = tuple("abc", None, tid(1));
    assert_eq!(with_null[8..17], [1, 0, 0, 0, 0, 0, 0, 0, 9]);
    let view = Tuple::new(&with_null).unwrap();
    let both = form_pivot(&view, &COLUMNS, 2, None).unwrap();
    assert_eq!(both[8..], with_null[8..]);
    let one = form_pivot(&view, &COLUMNS, 1, None).unwrap();
    assert_eq!(one[6..], [16, 0x60, 9, 97, 98, 99, 0, 0, 0, 0]);
    let mut values = Tuple::new(&one).unwrap().values(2);
    assert!(values.next(COLUMNS[0]).unwrap().is_some());
    assert_eq!(values.next(COLUMNS[1]), Ok(None));
}

#[test]
fn impossible_tuples_are_refused() {
    let plain = tuple("abc", Some(5), tid(205));
    let list = form_posting(&Tuple::new(&plain).unwrap(), &[tid(1), tid(2)]).unwrap();
    for (at, to) in [(2, 0), (2, 17), (2, 24), (0, 1), (4, 0), (4, 4)] {
        let mut wrong = list.clone();
        wrong[at] = to;
        let refused = Tuple::new(&wrong);
        assert!(matches!(refused, Err(NbtreeError::PostingBounds { .. })), "{at} {refused:?}");
    }
    let mut short = minus_infinity(1);
    short[5] = 0x10;
    assert!(matches!(Tuple::new(&short), Err(NbtreeError::PostingBounds { .. })));
    assert!(Tuple::new(&list[..30]).is_err() && Tuple::new(&list[..7]).is_err());
}

#[test]
fn masks_leave_the_contents() {
    let mut bytes = leaf();
    let mut page = PageMut::new(&mut bytes);
    (1..=3).for_each(|n| push_item(&mut page, &[n; 16]).unwrap());
    let mut before = *page.0;
    kill(&mut page, 2).unwrap();
    let opaque = Opaque::of(page.page()).unwrap();
    let flags = opaque.flags | HAS_GARBAGE | SPLIT_END;
    Opaque { flags, cycle_id: 9, ..opaque }.store(&mut page);
    page.0[24 + 12..300].fill(0x77);
    page.0[0..10].fill(0x77);
    mask(&mut before, 1);
    mask(page.0, 1);
    assert_eq!(*page.0, before);
    assert_eq!(page.0[8176 - 48..8176], [[3; 16], [2; 16], [1; 16]].concat());
}

/// A change of the items of a page.
#[derive(Debug, Clone)]
enum Change {
    Insert(usize, usize),
    Replace(usize, usize),
    Delete(usize),
    DeleteSeveral(Vec<usize>),
    Kill(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let len = || 1_usize..100;
    prop_oneof![
        4 => (any::<usize>(), len()).prop_map(|(n, len)| Change::Insert(n, len * 8)),
        1 => (any::<usize>(), len()).prop_map(|(n, len)| Change::Replace(n, len * 8)),
        1 => any::<usize>().prop_map(Change::Delete),
        1 => proptest::collection::vec(any::<usize>(), 0..6).prop_map(Change::DeleteSeveral),
        1 => any::<usize>().prop_map(Change::Kill),
    ]
}

fn apply(page: &mut PageMut<'_>, model: &mut Vec<Vec<u8>>, change: &Change, fill: u8) {
    let count = model.len();
    let number = |n: usize| (n % count.max(1) + 1) as u16;
    match change {
        Change::Insert(n, len) => {
            let (n, bytes) = (n % (count + 1), vec![fill; *len]);
            if insert_item(page, n as u16 + 1, &bytes).is_ok() {
                model.insert(n, bytes);
            } else {
                assert!(count == MAX_ITEMS || page.page().free_space() < *len);
            }
        }
        _ if count == 0 => {}
        Change::Replace(n, len) => {
            let (n, bytes) = (number(*n), vec![fill; *len]);
            let room = page.page().hole_len() + model[usize::from(n) - 1].len();
            assert_eq!(replace_item(page, n, &bytes).is_ok(), *len <= room);
            if *len <= room {
                model[usize::from(n) - 1] = bytes;
            }
        }
        Change::Delete(n) => {
            delete_item(page, number(*n)).unwrap();
            model.remove(usize::from(number(*n)) - 1);
        }
        Change::DeleteSeveral(numbers) => {
            let mut numbers: Vec<_> = numbers.iter().map(|&n| number(n)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            delete_items(page, &numbers).unwrap();
            numbers.iter().rev().for_each(|&n| drop(model.remove(usize::from(n) - 1)));
        }
        Change::Kill(n) => kill(page, number(*n)).unwrap(),
    }
}

proptest! {
    #[test]
    fn items_are_those_of_a_list(changes in proptest::collection::vec(change(), 0..200)) {
        let (mut bytes, mut model) = (leaf(), Vec::new());
        let mut page = PageMut::new(&mut bytes);
        for (fill, change) in changes.iter().enumerate() {
            apply(&mut page, &mut model, change, fill as u8);
            prop_assert_eq!(&all(page.page()), &model);
            prop_assert!(crate::line_pointers::check(page.page()).is_ok());
            let used: usize = model.iter().map(Vec::len).sum();
            prop_assert_eq!(page.page().special() - page.page().upper(), used);
        }
    }

    #[test]
    fn damaged_pages_never_panic(
        damage in proptest::collection::vec((0_usize..80, any::<u8>()), 0..6),
        special in proptest::collection::vec((0_usize..16, any::<u8>()), 0..3),
        n: u16,
        len in 0_usize..9000,
    ) {
        let mut bytes = leaf();
        let mut page = PageMut::new(&mut bytes);
        for n in 1..=12 {
            push_item(&mut page, &tuple("a text", Some(n), tid(n as u32))).unwrap();
        }
        damage.into_iter().for_each(|(at, to)| page.0[at] = to);
        special.into_iter().for_each(|(at, to)| page.0[BLOCK_SIZE - 16 + at] = to);
        for n in [n, n % 16] {
            let _ = item(page.page(), n).map(Tuple::new);
            let _ = delete_items(&mut page, &[1, 2, n]);
            let _ = replace_item(&mut page, n, &vec![1; len]);
            let _ = insert_item(&mut page, n, &vec![1; len]);
            let _ = (kill(&mut page, n), delete_item(&mut page, n), empty_copy(page.page()));
        }
        let _ = (Meta::of(page.page()), safe_xid(page.page()));
        mask(page.0, 3);
    }

    #[test]
    fn damaged_tuples_never_panic(
        rows in proptest::collection::vec(0_u32..1000, 1..20),
        damage in proptest::collection::vec((0_usize..40, any::<u8>()), 0..4),
        deleted in proptest::collection::vec(0_u16..20, 0..4),
        columns in 0_usize..4,
    ) {
        let plain = tuple("text", Some(1), tid(5));
        let view = Tuple::new(&plain).unwrap();
        let tids: Vec<_> = rows.into_iter().map(tid).collect();
        let mut bytes = form_posting(&view, &tids).unwrap();
        let len = bytes.len();
        damage.into_iter().for_each(|(at, to)| bytes[at % len] = to);
        if let Ok(tuple) = Tuple::new(&bytes) {
            let _ = (update_posting(&tuple, &deleted), split_posting(&tuple, &view, columns));
            let _ = form_pivot(&tuple, &COLUMNS, columns, tuple.max_heap_tid());
            let _ = (form_posting(&tuple, &tids), tuple.heap_tids().count());
        }
    }

    #[test]
    fn posting_lists_lose_and_gain_rows(
        rows in proptest::collection::btree_set(0_u32..10_000, 2..100),
        new in 0_u32..10_000,
        gone in proptest::collection::vec(any::<bool>(), 100),
    ) {
        prop_assume!(!rows.contains(&new));
        let tids: Vec<_> = rows.iter().copied().map(tid).collect();
        let plain = tuple("text", None, tid(new));
        let view = Tuple::new(&plain).unwrap();
        let list = form_posting(&view, &tids).unwrap();
        let list = Tuple::new(&list).unwrap();
        let index = rows.range(..new).count();
        if let Ok((left, right)) = split_posting(&list, &view, index) {
            let (left, right) = (Tuple::new(&left).unwrap(), Tuple::new(&right).unwrap());
            let mut all: Vec<_> = left.heap_tids().chain(right.heap_tids()).collect();
            prop_assert!(all.is_sorted());
            prop_assert_eq!(all.remove(index), tid(new));
            prop_assert_eq!(&all, &tids);
        } else {
            prop_assert!(index == 0 || index == tids.len());
        }
        let deleted: Vec<_> = (0..).zip(&tids).filter(|(n, _)| gone[usize::from(*n)]).collect();
        let deleted: Vec<u16> = deleted.into_iter().map(|(n, _)| n).collect();
        let left = tids.iter().zip(&gone).filter(|(_, gone)| !**gone).map(|(tid, _)| *tid);
        let left: Vec<_> = left.collect();
        match update_posting(&list, &deleted) {
            Ok(bytes) => {
                let updated = Tuple::new(&bytes).unwrap();
                prop_assert_eq!(updated.heap_tids().collect::<Vec<_>>(), left);
            }
            Err(_) => prop_assert!(left.is_empty()),
        }
    }
}

#[test]
fn a_line_pointer_out_of_the_items_is_an_error() {
    for (offset, len) in [(8170, 16), (8180, 8), (4, 8), (8160, 0), (8161, 8)] {
        let mut bytes = leaf();
        let mut page = PageMut::new(&mut bytes);
        push_item(&mut page, &[1; 16]).unwrap();
        page.set_item_id(1, ItemId { offset, state: ItemState::Normal, len });
        assert_eq!(item(page.page(), 1), Err(IndexPageError::Item { item: 1 }));
        assert_eq!(delete_item(&mut page, 1), Err(IndexPageError::Item { item: 1 }));
    }
}
