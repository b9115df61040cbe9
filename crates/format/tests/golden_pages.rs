//! Pages, tuples and small files that PostgreSQL wrote: they are decoded to the expected values,
//! and encoded to the same bytes.

use forebay_format::{
    AttrLayout, HeapTuple, HeapTupleMut, Lsn, Page, PageBytes, PageMut,
    checksum::{checksum_pages, page_checksum, set_checksum, verify_page},
    control::{CATALOG_VERSION, ControlFile, DbState},
    ids::FullXid,
    page::stored_checksum,
    relmap::RelMap,
    slru::{self, TransactionStatus},
    tuple::{self, Deform, HEAP_XACT_MASK, HEAP2_XACT_MASK, deform, form_tuple},
};

const HEAP_T: &[u8] = include_bytes!("data/heap_t.page");
const HEAP_T_AFTER: &[u8] = include_bytes!("data/heap_t_after.page");
const PG_CLASS: &[u8] = include_bytes!("data/pg_class.page");
const INDEX: &[u8] = include_bytes!("data/pg_class_oid_index.block1");
const CONTROL: &[u8] = include_bytes!("data/pg_control");
const CONTROLDATA: &str = include_str!("data/controldata.txt");
const SHARED_MAP: &[u8] = include_bytes!("data/shared_filenode.map");
const DATABASE_MAP: &[u8] = include_bytes!("data/database_filenode.map");
const XACT_HEAD: &[u8] = include_bytes!("data/pg_xact_block1_head");

/// int4, int8, bool, float8, text, int4, text.
const T: [AttrLayout; 7] = [
    AttrLayout::INT4,
    AttrLayout::INT8,
    AttrLayout::BYTE,
    AttrLayout::INT8,
    AttrLayout::VARLENA,
    AttrLayout::INT4,
    AttrLayout::VARLENA,
];

type Row = Vec<Option<Vec<u8>>>;

fn page(bytes: &[u8]) -> PageBytes {
    bytes.try_into().expect("a page")
}

fn row(i: i32, b: i64, o: bool, f: f64, s: &str, n: Option<i32>) -> Row {
    vec![
        Some(i.to_le_bytes().to_vec()),
        Some(b.to_le_bytes().to_vec()),
        Some(vec![u8::from(o)]),
        Some(f.to_le_bytes().to_vec()),
        Some(s.as_bytes().to_vec()),
        n.map(|n| n.to_le_bytes().to_vec()),
    ]
}

fn rows() -> Vec<Row> {
    let mut seven = row(7, 8, false, 2.5, "seven", Some(9));
    seven.push(Some(b"late".to_vec()));
    vec![
        row(1, 2, true, 1.5, "hello", None),
        row(-1, i64::MAX, false, -0.0, &"x".repeat(200), Some(7)),
        vec![None; 6],
        row(4, 5, true, f64::INFINITY, "", Some(6)),
        row(5, 6, true, 0.1, &"y".repeat(126), Some(7)),
        row(6, 7, true, 0.1, &"z".repeat(127), Some(8)),
        seven,
    ]
}

#[test]
fn checksums_equal_those_of_postgresql() {
    for (bytes, block) in [(HEAP_T, 0), (HEAP_T_AFTER, 0), (PG_CLASS, 0), (INDEX, 1)] {
        let original = page(bytes);
        assert_eq!(verify_page(&original, block), Ok(()));
        assert!(verify_page(&original, block + 1).is_err());
        let mut again = original;
        PageMut(&mut again).set_checksum(0);
        set_checksum(&mut again, block);
        assert_eq!(again, original);
        assert_eq!(page_checksum(&original, block), stored_checksum(&original));
        let mut sums = [0; 6];
        checksum_pages(&[original; 6], block, &mut sums);
        assert_eq!(sums[0], stored_checksum(&original));
        assert_eq!(sums[5], page_checksum(&original, block + 5));
    }
}

#[test]
fn tuples_have_the_inserted_values() {
    let bytes = page(HEAP_T);
    let items: Vec<_> = Page::new(&bytes).items().collect();
    let rows = rows();
    assert_eq!(items.len(), rows.len());
    for ((n, item), row) in items.into_iter().zip(&rows) {
        let tuple = HeapTuple::new(item).expect("a tuple");
        assert_eq!(
            (tuple.ctid().block, tuple.ctid().offset, tuple.attribute_count()),
            (0, n, row.len())
        );
        let mut values = [Some(&b"unset"[..]); 7];
        deform(tuple, &T, &mut values).expect("a good tuple");
        let mut expected: Vec<_> = row.iter().map(Option::as_deref).collect();
        expected.resize(7, None);
        assert_eq!(values[..], expected, "row {n}");
    }
}

/// A tuple that is formed from the values, with the visibility fields of PostgreSQL's tuple.
fn formed_like(original: &[u8], row: &[Option<Vec<u8>>]) -> Vec<u8> {
    let values: Vec<_> = row.iter().map(Option::as_deref).collect();
    let mut formed = form_tuple(&T[..values.len()], &values).expect("good values");
    let theirs = HeapTuple::new(original).expect("a tuple");
    let mut ours = HeapTupleMut::new(&mut formed).expect("a tuple");
    ours.set_xmin(theirs.xmin());
    ours.set_xmax(theirs.xmax());
    ours.set_cid(theirs.cid());
    ours.set_ctid(theirs.ctid());
    let (mask, mask2) = (ours.tuple().infomask(), ours.tuple().infomask2());
    assert_eq!((mask & HEAP_XACT_MASK, mask2 & HEAP2_XACT_MASK), (0, 0));
    ours.set_infomask(mask | theirs.infomask() & HEAP_XACT_MASK);
    ours.set_infomask2(mask2 | theirs.infomask2() & HEAP2_XACT_MASK);
    formed
}

#[test]
fn formed_tuples_and_filled_pages_have_the_same_bytes() {
    let original = page(HEAP_T);
    let mut ours = [0; 8192];
    let mut filled = PageMut(&mut ours);
    filled.init(0);
    for ((n, item), row) in Page::new(&original).items().zip(rows()) {
        let formed = formed_like(item, &row);
        assert_eq!(formed, item, "row {n}");
        assert_eq!(filled.add_item(&formed, None), Some(n));
    }
    filled.set_lsn(Page::new(&original).lsn());
    filled.set_prune_xid(Page::new(&original).prune_xid());
    filled.set_flags(Page::new(&original).flags());
    set_checksum(&mut ours, 0);
    assert_eq!(ours, original);
}

#[test]
fn an_inserted_tuple_is_stamped_as_postgresql_does() {
    let bytes = page(HEAP_T_AFTER);
    let item = Page::new(&bytes).item(9).expect("the first row of COPY");
    let row = row(10, 100, true, 0.5, "ten", Some(1));
    let values: Vec<_> = row.iter().map(Option::as_deref).chain([None]).collect();
    let mut formed = form_tuple(&T, &values).expect("good values");
    let theirs = HeapTuple::new(item).expect("a tuple");
    let mut ours = HeapTupleMut::new(&mut formed).expect("a tuple");
    ours.stamp_insert(theirs.xmin(), 0);
    ours.set_ctid(theirs.ctid());
    let hints = theirs.infomask() & tuple::HEAP_XMIN_COMMITTED;
    ours.set_infomask(ours.tuple().infomask() | hints);
    assert_eq!(formed, item);
}

#[test]
fn deleted_and_updated_tuples_have_their_flags() {
    let bytes = page(HEAP_T_AFTER);
    let view = Page::new(&bytes);
    let tuple = |n| HeapTuple::new(view.item(n).expect("an item")).expect("a tuple");
    assert_eq!(tuple(4).xmax(), 32_767);
    assert_ne!(tuple(4).infomask2() & tuple::HEAP_KEYS_UPDATED, 0);
    let (old, new) = (tuple(1), tuple(12));
    assert_eq!((old.xmax(), new.xmin()), (32_768, 32_768));
    assert_ne!(old.infomask2() & tuple::HEAP_HOT_UPDATED, 0);
    assert_ne!(new.infomask2() & tuple::HEAP_ONLY_TUPLE, 0);
    assert_ne!(new.infomask() & tuple::HEAP_UPDATED, 0);
    assert_eq!((old.ctid().offset, new.ctid().offset), (12, 12));
    assert_eq!(view.prune_xid(), 32_767);
}

#[test]
fn rows_of_pg_class_are_decoded() {
    let bytes = page(PG_CLASS);
    let layouts = [AttrLayout::INT4, AttrLayout::NAME, AttrLayout::INT4];
    let mut names = Vec::new();
    for (_, item) in Page::new(&bytes).items() {
        let mut walk = Deform::new(HeapTuple::new(item).expect("a tuple")).expect("a good header");
        let values =
            layouts.map(|layout| walk.next(layout).expect("a good value").expect("not null"));
        let forebay_format::varlena::Varlena::Plain(name) = values[1] else { panic!("a name") };
        let end = name.iter().position(|&b| b == 0).expect("an end");
        names.push(String::from_utf8(name[..end].to_vec()).expect("text"));
    }
    assert!(names.iter().any(|name| name == "pg_statistic"), "{names:?}");
}

#[test]
fn an_index_page_has_special_space() {
    let bytes = page(INDEX);
    let view = Page::new(&bytes);
    assert_eq!((view.special(), view.special_bytes().len()), (8176, 16));
    assert!(view.item_count() > 100);
}

/// The value of a line of `pg_controldata`.
fn told(label: &str) -> &'static str {
    let line = CONTROLDATA.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no line {label}")).trim()
}

#[test]
fn the_control_file_is_decoded_and_encoded() {
    let control = ControlFile::decode(CONTROL).expect("a good control file");
    assert_eq!(control.encode()[..], *CONTROL);
    let copy = control.checkpoint_copy;
    let lsn = |label| told(label).parse::<Lsn>().expect("a position");
    let number = |label| told(label).parse::<u64>().expect("a number");
    assert_eq!(told("Database cluster state"), control.state.name());
    assert_eq!(control.state, DbState::ShutDown);
    assert_eq!(number("Database system identifier"), control.system_id);
    assert_eq!(number("Catalog version number"), u64::from(CATALOG_VERSION));
    assert_eq!(lsn("Latest checkpoint location"), control.checkpoint);
    assert_eq!(lsn("Latest checkpoint's REDO location"), copy.redo);
    assert_eq!(told("Latest checkpoint's NextXID"), copy.next_xid.to_string());
    assert_eq!(copy.next_xid, FullXid::new(0, 32_777));
    assert_eq!(number("Latest checkpoint's NextOID"), u64::from(copy.next_oid));
    assert_eq!(number("Latest checkpoint's NextMultiXactId"), u64::from(copy.next_multi));
    assert_eq!(number("Latest checkpoint's oldestXID"), u64::from(copy.oldest_xid));
    assert_eq!(number("Latest checkpoint's oldestXID's DB"), u64::from(copy.oldest_xid_db));
    assert_eq!(number("Latest checkpoint's oldestMulti's DB"), u64::from(copy.oldest_multi_db));
    assert_eq!(lsn("Fake LSN counter for unlogged rels"), control.unlogged_lsn);
    assert_eq!(number("max_connections setting"), control.max_connections as u64);
    assert_eq!(number("max_wal_senders setting"), control.max_wal_senders as u64);
    assert_eq!(number("max_locks_per_xact setting"), control.max_locks_per_transaction as u64);
    assert_eq!(number("Bytes per WAL segment"), control.segment_size.bytes());
    assert_eq!(number("Data page checksum version"), u64::from(control.checksum_version));
    let nonce: String = control.mock_nonce.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(told("Mock authentication nonce"), nonce);
    assert!(control.char_signed && copy.full_page_writes && !control.backup_end_required);
}

#[test]
fn relation_maps_are_decoded_and_encoded() {
    for (bytes, catalog) in [(SHARED_MAP, 1262), (DATABASE_MAP, 1259)] {
        let map = RelMap::decode(bytes).expect("a good map");
        assert_eq!(map.get(catalog), Some(catalog));
        assert_eq!(map.encode()[..], *bytes);
    }
}

#[test]
fn transaction_status_is_decoded() {
    use TransactionStatus::{Aborted, Committed};
    let mut bytes = [0; 8192];
    bytes[..XACT_HEAD.len()].copy_from_slice(XACT_HEAD);
    assert_eq!(slru::xact_page(32_768), 1);
    let status: Vec<_> = (32_768..32_777).map(|xid| slru::status(&bytes, xid)).collect();
    let mut expected = [Committed; 9];
    expected[1] = Aborted;
    assert_eq!(status, expected);
    let mut again = [0; 8192];
    for (xid, status) in (32_768..).zip(status) {
        slru::set_status(&mut again, xid, status);
    }
    assert_eq!(again, bytes);
}
