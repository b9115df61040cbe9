//! Values in a TOAST table: stored, read, deleted, damaged.

use forebay_format::tuple::AttrLayout;
use forebay_format::varlena::{Method, ToastPointer, Varlena, compress};
use forebay_format::{FullXid, ItemPointer};
use forebay_storage::Backend;
use forebay_txn::{HorizonKind, Transaction};
use forebay_types::{Datum, oids};

use super::super::relation::{CHUNK_SIZE, Chunk};
use super::super::*;
use crate::error::AccessError;
use crate::heap::{Changer, ReadAhead, RowJudge};
use crate::nbtree::tests::{index, shape};
use crate::nbtree::{Direction, Insertion, NewRow, UniqueCheck, form_index_tuple};
use crate::tests::fixture::{Fixture, TABLE};

struct Test {
    fixture: Fixture,
    backend: Backend,
    table: ToastTable,
    next_id: u32,
}

impl Test {
    fn new() -> Test {
        let fixture = Fixture::new();
        let table = ToastTable {
            oid: 5000,
            name: "pg_toast_4000".to_owned(),
            heap: fixture.heap(TABLE),
            index: index(&fixture, shape(&[oids::OID, oids::INT4])),
            others: Vec::new(),
            ahead: ReadAhead::default(),
            interrupt: Default::default(),
        };
        let backend = fixture.backend();
        Test { fixture, backend, table, next_id: 100 }
    }

    fn store(&mut self, tx: &mut Transaction, value: Varlena<'_>) -> ToastPointer {
        let Test { fixture, backend, table, next_id } = self;
        let author = fixture.author(backend, tx);
        let own = Some(FullXid::new(0, author.xid));
        let sets = &mut fixture.outcomes().sets();
        let changer = Changer { xacts: &fixture.xacts, tx, author, sets, queues: None };
        let rows = RowJudge::new(&table.heap, changer, HorizonKind::Data, 5, own);
        let mut next = |_: &mut Backend| {
            *next_id += 1;
            Ok(*next_id)
        };
        Storer::new(table, author, rows).store(backend, value, &mut next).unwrap()
    }

    fn committed(&mut self, value: Varlena<'_>) -> ToastPointer {
        let mut tx = Transaction::new();
        let pointer = self.store(&mut tx, value);
        self.fixture.xacts.commit(&mut self.backend.io, &mut tx).unwrap();
        pointer
    }

    fn fetch(&mut self, pointer: ToastPointer) -> Result<Vec<u8>, AccessError> {
        self.table.fetch(&mut self.backend, pointer)
    }

    fn slice(&mut self, pointer: ToastPointer, offset: usize, len: usize) -> Vec<u8> {
        self.table.fetch_slice(&mut self.backend, pointer, offset, len).unwrap()
    }

    /// The places of a value's chunks.
    fn places(&mut self, value: u32) -> Vec<ItemPointer> {
        let scan = self.table.scan(value, None).unwrap();
        let mut places = Vec::new();
        let mut next = scan.first(&mut self.backend, Direction::Forward).unwrap();
        while let Some(batch) = next {
            places.extend(batch.items().iter().map(|item| item.tid));
            next = scan.next(&mut self.backend, &batch, Direction::Forward).unwrap();
        }
        places
    }

    /// Adds a chunk by hand.
    fn add(&mut self, value: u32, number: i32, data: Varlena<'_>) {
        let Test { fixture, backend, table, .. } = self;
        let mut tx = Transaction::new();
        let author = fixture.author(backend, &mut tx);
        let mut tuple = Vec::new();
        Chunk { value, number, data }.form(&mut tuple).unwrap();
        let place = table.heap.insert(backend, author, &tuple).unwrap();
        let key = [Datum::Oid(value), Datum::Int4(number)];
        let entry = form_index_tuple(&table.index.shape, &key, place).unwrap();
        let row =
            NewRow { tuple: &entry, xid: author.xid, unique: UniqueCheck::No, unchanged: false };
        let mut rows = crate::nbtree::tests::Rows::default();
        assert_eq!(table.index.insert(backend, &mut rows, row).unwrap(), Insertion::Done);
        fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    }

    /// What fetching a value of this many bytes, whose chunks were added by hand, complains of.
    fn complaint(&mut self, value_id: u32, size: u32) -> String {
        let pointer =
            ToastPointer { raw_size: size + 4, ext_info: size, value_id, toast_rel: 5000 };
        let error = self.fetch(pointer).unwrap_err();
        assert_eq!(error.sqlstate(), "XX001");
        error.to_string()
    }
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(byte).collect()
}

#[test]
fn values_come_back_whole_and_in_parts() {
    let mut test = Test::new();
    for len in [1, 1995, 1996, 1997, 3 * 1996, 100_000, 2_000_001] {
        let value = noise(len);
        let pointer = test.committed(Varlena::Plain(&value));
        assert_eq!((pointer.raw_size, pointer.ext_info), (len as u32 + 4, len as u32));
        assert_eq!(test.places(pointer.value_id).len(), len.div_ceil(1996));
        assert_eq!(test.fetch(pointer).unwrap(), value);
        for (offset, part) in [(0, 10), (1990, 20), (len - 1, 1), (len, 5), (0, usize::MAX)] {
            let end = len.min(offset.saturating_add(part));
            let expected = &value[offset.min(end)..end];
            assert_eq!(
                test.slice(pointer, offset, part),
                expected,
                "{part} of {len} from {offset}"
            );
        }
    }
    let value: Vec<u8> = (0..300_000_u32).map(|n| (n % 251 + n / 977 % 7) as u8).collect();
    for method in [Method::Pglz, Method::Lz4] {
        let data = compress(&value, method).unwrap();
        let raw_size = value.len() as u32;
        let compressed = Varlena::Compressed { raw_size, method: method as u8, data: &data };
        let pointer = test.committed(compressed);
        assert!(pointer.is_compressed() && pointer.stored_size() as usize == data.len() + 4);
        assert_eq!(test.fetch(pointer).unwrap(), value);
        assert_eq!(test.slice(pointer, 50_000, 9000), value[50_000..59_000]);
        assert_eq!(test.slice(pointer, 299_999, 9000), value[299_999..]);
    }
}

#[test]
fn a_part_is_read_without_the_rest() {
    let mut test = Test::new();
    let value = noise(4_000_000);
    let pointer = test.committed(Varlena::Plain(&value));
    let before = test.fixture.looks();
    assert_eq!(test.slice(pointer, 2_000_000, 3000), value[2_000_000..2_003_000]);
    let looks = test.fixture.looks() - before;
    assert!(looks < 12, "{looks} pages for 3000 bytes");
}

#[test]
fn an_id_that_is_in_use_is_passed_over() {
    let mut test = Test::new();
    let mut tx = Transaction::new();
    let first = test.store(&mut tx, Varlena::Plain(&noise(10)));
    // What it stored stays for vacuum.
    test.fixture.xacts.abort(&mut test.backend.io, &mut tx).unwrap();
    test.next_id -= 1;
    let second = test.committed(Varlena::Plain(&noise(5000)));
    assert_eq!(second.value_id, first.value_id + 1);
    assert_eq!(test.fetch(second).unwrap(), noise(5000));
}

#[test]
fn chunks_go_with_their_value_and_can_be_read_as_long_as_they_are_there() {
    let mut test = Test::new();
    let (gone, kept) = (noise(9000), noise(7000));
    let [gone_at, kept_at] = [&gone, &kept].map(|v| test.committed(Varlena::Plain(v)));
    let mut tx = Transaction::new();
    let table = test.table.clone();
    let remove = |test: &mut Test, tx: &mut Transaction| {
        test.fixture.change(&mut test.backend, tx, |backend, changer| {
            table.remove(backend, changer, gone_at)
        });
    };
    remove(&mut test, &mut tx);
    assert_eq!(test.fetch(gone_at).unwrap(), gone, "its row may be seen by others");
    test.fixture.xacts.abort(&mut test.backend.io, &mut tx).unwrap();
    let mut tx = Transaction::new();
    remove(&mut test, &mut tx);
    test.fixture.xacts.commit(&mut test.backend.io, &mut tx).unwrap();
    assert_eq!(test.fetch(gone_at).unwrap(), gone);
    assert_eq!(test.fetch(kept_at).unwrap(), kept);

    let mut scan = test
        .table
        .heap
        .scan(test.fixture.xacts.snapshot(&Transaction::new()), ReadAhead::default());
    let mut left = 0;
    while let Some((_, tuple)) = scan.as_mut().unwrap().next(&mut test.backend).unwrap() {
        let tuple = forebay_format::HeapTuple::new(tuple).unwrap();
        assert_eq!(Chunk::read(tuple).unwrap().unwrap().value, kept_at.value_id);
        left += 1;
    }
    assert_eq!(left, 7000_usize.div_ceil(CHUNK_SIZE));
    // The transaction that deletes them again is refused.
    let mut tx = Transaction::new();
    let (fixture, backend) = (&test.fixture, &mut test.backend);
    let again = fixture
        .change(backend, &mut tx, |backend, changer| Ok(table.remove(backend, changer, gone_at)));
    assert_eq!(again.unwrap_err().sqlstate(), "XX001");
}

#[test]
fn damage_is_named_as_postgresql_names_it() {
    let mut test = Test::new();
    let (whole, of) = (noise(CHUNK_SIZE), " for toast value");
    let (full, short) = (Varlena::Plain(&whole), Varlena::Plain(&whole[..8]));
    // The value 1 lacks its second chunk, 2 its last one, 3 has one too many, 4 has one twice.
    for (value, numbers) in [(1, &[0, 2][..]), (2, &[0, 1]), (3, &[0, 1, 2, 3]), (4, &[0, 1, 1, 2])]
    {
        numbers.iter().for_each(|&number| test.add(value, number, full));
    }
    let size = 3 * CHUNK_SIZE as u32;
    let told = |what: &str, value: u32| format!("{what}{of} {value} in pg_toast_4000");
    assert_eq!(test.complaint(1, size), told("unexpected chunk number 2 (expected 1)", 1));
    assert_eq!(test.complaint(2, size), told("missing chunk number 2", 2));
    assert_eq!(test.complaint(3, size), told("unexpected chunk number 3 (out of range 0..2)", 3));
    assert_eq!(test.complaint(4, size), told("unexpected chunk number 1 (expected 2)", 4));
    assert_eq!(test.complaint(9, size), told("missing chunk number 0", 9));
    let longer = size + 8;
    test.add(5, 0, full);
    test.add(5, 1, short);
    let what = "unexpected chunk size 8 (expected 1996) in chunk 1 of 4";
    assert_eq!(test.complaint(5, longer), told(what, 5));
    let what = "unexpected chunk size 1996 (expected 4) in chunk 0 of 1";
    assert_eq!(test.complaint(1, 4), told(what, 1));
    test.add(6, 0, Varlena::Compressed { raw_size: 10, method: 0, data: b"x" });
    assert_eq!(test.complaint(6, size), told("found toasted toast chunk", 6));

    // Sizes that no value has, and a pointer into another table.
    for pointer in [
        ToastPointer { raw_size: 3, ext_info: 0, value_id: 1, toast_rel: 5000 },
        ToastPointer { raw_size: u32::MAX, ext_info: 100, value_id: 1, toast_rel: 5000 },
        ToastPointer { raw_size: 104, ext_info: 101, value_id: 1, toast_rel: 5000 },
        ToastPointer { raw_size: 104, ext_info: 100, value_id: 1, toast_rel: 5001 },
    ] {
        let error = test.fetch(pointer).unwrap_err().to_string();
        assert_eq!(error, "toast value 1 in pg_toast_4000: its pointer is damaged");
    }
    // Not compressed although it is said to be, and compressed bytes that are none.
    let pointer = ToastPointer { raw_size: 9000, ext_info: 1996, value_id: 7, toast_rel: 5000 };
    test.add(7, 0, full);
    let error = test.fetch(pointer).unwrap_err().to_string();
    assert_eq!(error, "toast value 7 in pg_toast_4000: its sizes contradict each other");
}

#[test]
fn a_tuple_of_a_chunk_is_postgresqls() {
    let mut tuple = Vec::new();
    let chunk = Chunk { value: 7, number: 1, data: Varlena::Plain(b"abc") };
    chunk.form(&mut tuple).unwrap();
    let expected: &[Option<&[u8]>] = &[Some(&[7, 0, 0, 0]), Some(&[1, 0, 0, 0]), Some(b"abc")];
    let bytea = AttrLayout { plain: true, ..AttrLayout::VARLENA };
    let layouts = [AttrLayout::INT4, AttrLayout::INT4, bytea];
    assert_eq!(tuple, forebay_format::tuple::form_tuple(&layouts, expected).unwrap());
}
