//! Checks of pages that are made here: values out of line, ids at their bounds, and any bytes.
//! Damage of files is in the engine's tests.

mod toast;

use forebay_format::page::{MAX_HEAP_TUPLES, PageMut};
use forebay_format::tuple::{HEAP_HASEXTERNAL, HEAP_HASVARWIDTH, form_tuple};
use forebay_format::{
    AttrLayout, BLOCK_SIZE, Fork, FullXid, HeapTupleMut, ItemPointer, PageBytes, multixact,
};
use proptest::prelude::*;

use super::{
    Counters, Finding, HeapCheck, HeapTable, PageKind, StatusFiles, StatusPages, Transactions,
    check_page, check_visibility_map,
};

const COUNTERS: Counters = Counters {
    next_xid: FullXid::new(1, 1000),
    oldest_xid: 700,
    next_multi: 20,
    next_member: 40,
    oldest_multi: 10,
};

/// Status files of one page each.
struct Pages {
    xact: PageBytes,
    offsets: PageBytes,
    members: PageBytes,
}

impl StatusPages for Pages {
    fn page(&mut self, of: StatusFiles, page: i64) -> Option<&PageBytes> {
        (page == 0).then_some(match of {
            StatusFiles::Transactions => &self.xact,
            StatusFiles::MultiOffsets => &self.offsets,
            StatusFiles::MultiMembers => &self.members,
        })
    }
}

/// All transactions have committed; MultiXact n has the members at 2n and 2n + 1, lockers.
fn pages() -> Pages {
    let mut pages =
        Pages { xact: [0x55; BLOCK_SIZE], offsets: [0; BLOCK_SIZE], members: [0; BLOCK_SIZE] };
    for multi in 10..20 {
        multixact::set_offset(&mut pages.offsets, multi, 2 * multi);
        for at in [2 * multi, 2 * multi + 1] {
            let status = multixact::MemberStatus::ForKeyShare;
            multixact::set_member(&mut pages.members, at, multixact::Member { xid: 800, status });
        }
    }
    pages
}

fn table(columns: &[AttrLayout]) -> HeapTable {
    HeapTable {
        columns: Some(columns.to_vec()),
        toast: Some(5000),
        frozen_xid: 750,
        min_multi: 12,
        is_sequence: false,
    }
}

fn check(table: &HeapTable, pages: &mut Pages, page: &PageBytes, bits: u8) -> Vec<String> {
    let mut found: Vec<Finding> = Vec::new();
    let mut transactions = Transactions::new(COUNTERS, pages);
    let mut sink = |finding| found.push(finding);
    HeapCheck::new(table, false, &mut transactions).page(0, page, bits, &mut sink);
    found.iter().map(ToString::to_string).collect()
}

/// A page with one tuple of these bytes, inserted by transaction 800.
fn page_of(tuple: &[u8]) -> PageBytes {
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    let number = page.add_item(tuple, None).expect("it fits");
    let mut tuple = HeapTupleMut::new(page.item_mut(number).expect("an item")).expect("a tuple");
    let flags = tuple.tuple().infomask();
    tuple.stamp_insert(800, 0);
    let stamped = tuple.tuple().infomask();
    tuple.set_infomask(stamped | flags & (HEAP_HASEXTERNAL | HEAP_HASVARWIDTH));
    tuple.set_ctid(ItemPointer::new(0, number));
    bytes
}

/// A tuple with one value, a pointer into a TOAST table.
fn external(raw_size: u32, ext_info: u32, relation: u32, flags: u16) -> PageBytes {
    let mut tuple = form_tuple(&[AttrLayout::VARLENA], &[Some(b"")]).expect("a tuple");
    tuple.pop();
    tuple.extend([1, 18]);
    for number in [raw_size, ext_info, 4711, relation] {
        tuple.extend(number.to_le_bytes());
    }
    HeapTupleMut::new(&mut tuple).expect("a tuple").set_infomask(HEAP_HASVARWIDTH | flags);
    page_of(&tuple)
}

#[test]
fn pointers_to_toast_values() {
    let table = table(&[AttrLayout::VARLENA]);
    let (plain, lz4) = (2000, 900 | 1 << 30);
    for (page, expected) in [
        (external(2004, plain, 5000, HEAP_HASEXTERNAL), ""),
        (external(2004, lz4, 5000, HEAP_HASEXTERNAL), ""),
        (
            external(1 << 31, plain, 5000, HEAP_HASEXTERNAL),
            "toast value 4711 rawsize -2147483648 exceeds limit 1073741823",
        ),
        (
            external(1000, plain, 5000, HEAP_HASEXTERNAL),
            "toast value 4711 stored size 2000 exceeds rawsize 1000",
        ),
        (
            external(2004, 900 | 3 << 30, 5000, HEAP_HASEXTERNAL),
            "toast value 4711 has invalid compression method id 3",
        ),
        (
            external(2004, plain, 5000, 0),
            "toast value 4711 is external but tuple header flag HEAP_HASEXTERNAL not set",
        ),
        (
            external(2004, plain, 5001, HEAP_HASEXTERNAL),
            "toast value 4711 is in toast relation 5001 instead of 5000",
        ),
    ] {
        let found = check(&table, &mut pages(), &page, 0);
        let expected = format!("block 0, offset 1, attribute 0: {expected}");
        assert_eq!(found, if expected.ends_with(": ") { vec![] } else { vec![expected] });
    }
    let without = HeapTable { toast: None, ..table };
    let found = check(&without, &mut pages(), &external(9, 5, 1, HEAP_HASEXTERNAL), 0);
    assert!(found[0].ends_with("is external but relation has no toast relation"), "{found:?}");
}

#[test]
fn ids_at_the_bounds_of_a_table() {
    let tuple = form_tuple(&[AttrLayout::INT4], &[Some(&[1, 0, 0, 0])]).expect("a tuple");
    let healthy = page_of(&tuple);
    let table = table(&[AttrLayout::INT4]);
    let with = |change: &dyn Fn(&mut HeapTupleMut<'_>)| {
        let mut bytes = healthy;
        let mut page = PageMut(&mut bytes);
        change(&mut HeapTupleMut::new(page.item_mut(1).expect("an item")).expect("a tuple"));
        check(&table, &mut pages(), &bytes, 0)
    };
    let xmin = |xid| with(&|tuple| tuple.set_xmin(xid));
    for xid in [1, 2, 750, 999] {
        assert_eq!(xmin(xid), [""; 0], "{xid}");
    }
    // What an aborted speculative insertion leaves.
    assert_eq!(xmin(0), [""; 0]);
    let place = "block 0, offset 1: ";
    let told = |what: &str| [format!("{place}{what}")];
    assert_eq!(xmin(1000), told("xmin 1000 equals or exceeds next valid transaction ID 1:1000"));
    assert_eq!(xmin(749), told("xmin 749 precedes relation freeze threshold 1:750"));
    assert_eq!(xmin(699), told("xmin 699 precedes oldest valid transaction ID 1:700"));
    let multi = |multi| {
        with(&|tuple| {
            let flags = tuple.tuple().infomask();
            tuple.set_infomask(flags & !0x0800 | 0x1090);
            tuple.set_xmax(multi);
        })
    };
    assert_eq!((multi(12), multi(19)), (vec![], vec![]));
    let relation = "precedes relation minimum multitransaction ID threshold 12";
    assert_eq!(multi(11), told(&format!("multitransaction ID 11 {relation}")));
    let next = "equals or exceeds next valid multitransaction ID 20";
    assert_eq!(multi(20), told(&format!("multitransaction ID 20 {next}")));
}

#[test]
fn a_sequence_has_a_magic_number() {
    let table = HeapTable { is_sequence: true, ..HeapTable::default() };
    let mut bytes = [0; BLOCK_SIZE];
    PageMut(&mut bytes).init(8);
    bytes[BLOCK_SIZE - 8..BLOCK_SIZE - 4].copy_from_slice(&0x1717_u32.to_le_bytes());
    assert_eq!(check(&table, &mut pages(), &bytes, 0), [""; 0]);
    bytes[BLOCK_SIZE - 8] = 0;
    let found = check(&table, &mut pages(), &bytes, 0);
    assert_eq!(found, ["block 0: page of a sequence has a bad magic number"]);
}

#[test]
fn an_empty_page_has_no_bits() {
    let table = HeapTable::default();
    assert_eq!(check(&table, &mut pages(), &[0; BLOCK_SIZE], 0), [""; 0]);
    assert_eq!(check(&table, &mut pages(), &[0; BLOCK_SIZE], 1).len(), 1);
}

/// A page full of rows, some of them versions of others.
fn full() -> PageBytes {
    let columns = [AttrLayout::INT8, AttrLayout::VARLENA];
    let mut bytes = [0; BLOCK_SIZE];
    let mut page = PageMut(&mut bytes);
    page.init(0);
    for n in 0_u64.. {
        let text = vec![b'x'; n as usize % 60];
        let values = [Some(&n.to_le_bytes()[..]), Some(&text[..])];
        let mut tuple = form_tuple(&columns, &values).expect("a tuple");
        let mut header = HeapTupleMut::new(&mut tuple).expect("a tuple");
        header.stamp_insert(800 + n as u32 % 100, 0);
        header.set_infomask(header.tuple().infomask() | HEAP_HASVARWIDTH);
        header.set_ctid(ItemPointer::new(0, n as u16 + 1));
        if page.add_item(&tuple, None).is_none() {
            break;
        }
    }
    bytes
}

/// Findings of all checks of these bytes.
fn all_findings(bytes: &PageBytes, columns: &[AttrLayout], pages: &mut Pages, bits: u8) -> usize {
    let mut count = 0;
    let mut sink = |_: Finding| count += 1;
    let table = table(columns);
    for is_sequence in [false, true] {
        let table = HeapTable { is_sequence, ..table.clone() };
        let mut transactions = Transactions::new(COUNTERS, pages);
        HeapCheck::new(&table, true, &mut transactions).page(7, bytes, bits, &mut sink);
        HeapCheck::after_crash(&table, false, &COUNTERS).page(7, bytes, bits, &mut sink);
    }
    check_visibility_map(true, 9, 5, bytes, &mut sink);
    check_page(PageKind::Map, true, Fork::Fsm, 9, bytes, &mut sink);
    check_page(PageKind::Other, true, Fork::Init, 9, bytes, &mut sink);
    count
}

#[test]
fn nothing_is_wrong_with_a_full_page() {
    let columns = [AttrLayout::INT8, AttrLayout::VARLENA];
    assert_eq!(check(&table(&columns), &mut pages(), &full(), 0), [""; 0]);
    assert!(PageMut(&mut full()).page().item_count() < MAX_HEAP_TUPLES as u16);
}

fn column() -> impl Strategy<Value = AttrLayout> {
    prop_oneof![
        Just(AttrLayout::BYTE),
        Just(AttrLayout::INT4),
        Just(AttrLayout::INT8),
        Just(AttrLayout::NAME),
        Just(AttrLayout::VARLENA),
        Just(AttrLayout::CSTRING),
    ]
}

fn page_bytes() -> impl Strategy<Value = Box<PageBytes>> {
    proptest::collection::vec(any::<u8>(), BLOCK_SIZE)
        .prop_map(|bytes| Box::new(*bytes.first_chunk().expect("a page")))
}

/// A bound on the findings of one page: a few for each line pointer and for each bit.
const MOST: usize = 100_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_pages_never_panic(
        bytes in page_bytes(),
        sane in any::<bool>(),
        columns in proptest::collection::vec(column(), 0..20),
        status in page_bytes(),
        bits in 0..4_u8,
    ) {
        let mut bytes = bytes;
        if sane {
            // A header that leads to many line pointers.
            bytes[10..20].copy_from_slice(&full()[10..20]);
            PageMut(&mut bytes).set_lower(24 + 4 * 290);
            PageMut(&mut bytes).set_upper(24 + 4 * 290);
        }
        let mut pages = Pages { xact: *status, offsets: *status, members: *status };
        prop_assert!(all_findings(&bytes, &columns, &mut pages, bits) < MOST);
    }

    #[test]
    fn damaged_pages_never_panic(
        damage in proptest::collection::vec((0..BLOCK_SIZE, any::<u8>()), 1..40),
        columns in proptest::collection::vec(column(), 0..4),
        bits in 0..4_u8,
    ) {
        let mut bytes = full();
        for (at, value) in damage {
            bytes[at] = value;
        }
        prop_assert!(all_findings(&bytes, &columns, &mut pages(), bits) < MOST);
    }
}
