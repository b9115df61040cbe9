//! Posting lists and posting items.

use proptest::prelude::*;

use super::*;
use crate::index_page::push_item;

fn leaf(lists: &[&[u64]]) -> PageBytes {
    let mut bytes = [0xaa; BLOCK_SIZE];
    let lists: Vec<_> = lists.iter().map(|rows| super::lists::encode(rows).unwrap()).collect();
    init_posting_tree(&mut PageMut::new(&mut bytes), &lists.concat()).unwrap();
    bytes
}

fn contents(bytes: &PageBytes) -> &[u8] {
    &bytes[DATA_AT..Page::new(bytes).lower()]
}

#[test]
fn layout_of_a_list() {
    // Rows (1,1), (1,2) and (2,1), which is 2047 further.
    let list = super::lists::encode(&[2049, 2050, 4097]).unwrap();
    assert_eq!(list, [0, 0, 1, 0, 1, 0, 3, 0, 1, 0xff, 0x0f, 0]);
    assert_eq!(super::lists::decode(&list), Ok(vec![2049, 2050, 4097]));
    assert!(super::lists::encode(&[5, 5]).is_err());
    assert!(super::lists::decode(&[0, 0, 1, 0, 1, 0, 1, 0, 0x80, 0]).is_err());
}

#[test]
fn lists_change() {
    let mut bytes = leaf(&[&[10, 20], &[2048], &[4100, 4101]]);
    let new = super::lists::encode(&[3000, 3001]).unwrap();
    // Row (0,15) is added to the first list, another list comes before the third one, and that one
    // is removed.
    let mut changes = vec![3, 0, 0, 4, 1, 0, 0, 0, 0, 0, 15, 0, 2, 2];
    changes.extend_from_slice(&new);
    changes.extend_from_slice(&[2, 1]);
    recompress(&mut PageMut::new(&mut bytes), &changes).unwrap();
    assert_eq!(contents(&bytes), contents(&leaf(&[&[10, 15, 20], &[2048], &[3000, 3001]])));
    let replace = [&[1, 0, 1, 3][..], &new].concat();
    recompress(&mut PageMut::new(&mut bytes), &replace).unwrap();
    let expected = leaf(&[&[10, 15, 20], &[3000, 3001], &[3000, 3001]]);
    assert_eq!(contents(&bytes), contents(&expected));
    let before = bytes;
    for bad in [&[1, 0, 3, 1][..], &[1, 0, 0, 9], &[1, 0, 0], &[2, 0, 1, 1, 0, 1], &[1, 0, 0, 2, 1]]
    {
        assert!(recompress(&mut PageMut::new(&mut bytes), bad).is_err(), "{bad:?}");
        assert_eq!(bytes, before);
    }
}

#[test]
fn a_leaf_of_an_old_version_is_compressed() {
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut::new(&mut bytes);
    init_page(&mut page, Opaque { count: 2, ..Opaque::new(DATA | LEAF) });
    for (index, row) in [(1, 1), (1, 2)].into_iter().enumerate() {
        put(page.0, DATA_AT + 6 * index, ItemPointer::new(row.0, row.1).encode());
    }
    recompress(&mut page, &[0, 0]).unwrap();
    assert_eq!(contents(&bytes), contents(&leaf(&[&[2049, 2050]])));
    assert!(Opaque::of(Page::new(&bytes)).unwrap().has(COMPRESSED));
}

#[test]
fn posting_items_move() {
    let item = |child: u8| [0, 0, child, 0, 0, 0, child, 0, 1, 0];
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut::new(&mut bytes);
    init_page(&mut page, Opaque::new(DATA));
    let opaque = Opaque::of(page.page()).unwrap();
    set_posting_items(&mut page, opaque, &vec![item(5), item(6)]).unwrap();
    insert_posting_item(&mut page, 2, item(6), 7).unwrap();
    let (opaque, items) = posting_items(page.page()).unwrap();
    let right = [0, 0, 7, 0, 0, 0, 6, 0, 1, 0];
    assert_eq!((opaque.count, items), (3, vec![item(5), item(6), right]));
    assert!(insert_posting_item(&mut page, 4, item(1), 7).is_err());
    delete_posting_item(&mut page, 1).unwrap();
    assert_eq!(posting_items(page.page()).unwrap().1, [item(6), right]);
    assert_eq!(page.page().lower(), DATA_AT + 20);
    assert!(delete_posting_item(&mut page, 0).is_err());
    while insert_posting_item(&mut page, 1, item(1), 7).is_ok() {}
    assert_eq!(Opaque::of(page.page()).unwrap().count, 815);
}

#[test]
fn entries_above_the_leaves_lead_to_both_halves() {
    let tuple = |child: u32| {
        let mut tuple = vec![0; 16];
        put(&mut tuple, 6, 16_u16.to_le_bytes());
        index_tuple::set_tid(&mut tuple, ItemPointer::new(child, 0));
        tuple
    };
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut::new(&mut bytes);
    init_page(&mut page, Opaque::new(0));
    push_item(&mut page, &tuple(5)).unwrap();
    insert_entry(&mut page, 1, &tuple(5), false, Some(6)).unwrap();
    let child = |n| IndexTuple::new(item(page.page(), n).unwrap()).unwrap().tid().block;
    assert_eq!((child(1), child(2)), (5, 6));
    assert!(insert_entry(&mut page, 1, &tuple(5), false, None).is_err(), "it is no leaf");
}

proptest! {
    #[test]
    fn lists_round_trip(rows in prop::collection::btree_set(0_u64..1 << 43, 1..200)) {
        let rows: Vec<u64> = rows.into_iter().collect();
        let list = super::lists::encode(&rows).unwrap();
        prop_assert_eq!(super::lists::decode(&list), Ok(rows));
    }

    #[test]
    fn arbitrary_changes_never_panic(changes: Vec<u8>, few in 0_u8..4, end: Vec<u8>) {
        let mut bytes = leaf(&[&[10, 20], &[2048]]);
        let _ = recompress(&mut PageMut::new(&mut bytes), &changes);
        let changes = [&[few, 0, 0, 4][..], &end].concat();
        let _ = recompress(&mut PageMut::new(&mut bytes), &changes);
    }
}
