//! Building indexes of tables that have rows.

use std::cmp::Ordering;

use forebay_format::AttrLayout;
use forebay_storage::{TempFiles, TempOptions, TempSpace};
use forebay_txn::locks::Interrupt;
use forebay_txn::{HorizonKind, Transaction};
use forebay_types::Numeric;

use super::checker::pages_of;
use super::*;
use crate::heap::{Attempt, Changer, Columns, Heap, ReadAhead};
use crate::sort::{IndexSorter, SortHost};
use crate::tests::fixture::{TABLE, tuple_of};
use crate::{BuildReport, Built, RowSource, SortResources, build_index};

fn resources(fixture: &Fixture, memory: usize) -> SortResources {
    SortResources {
        files: TempFiles::new(fixture.pool.smgr()),
        owner: 1,
        space: TempSpace::new(),
        options: TempOptions::default(),
        memory,
        threads: 3,
        interrupt: Interrupt::new(),
    }
}

/// Sorts index tuples. Returns them, and how many bytes of temporary files that took.
fn sorted(shape: IndexShape, tuples: &[Vec<u8>], memory: usize) -> (Vec<Vec<u8>>, u64) {
    let fixture = Fixture::new();
    let (mut backend, resources) = (fixture.backend(), resources(&fixture, memory));
    let mut host = SortHost { backend: &mut backend, resources: &resources };
    let mut sorter = IndexSorter::new(&Arc::new(shape), memory);
    for tuple in tuples {
        let form = |out: &mut Vec<u8>| {
            out.extend_from_slice(tuple);
            Ok(())
        };
        sorter.push(&mut host, tuple[0] & 1 == 0, form).unwrap();
    }
    let mut sorted = sorter.finish(&mut host).unwrap();
    let mut all = Vec::new();
    while let Some(tuple) = sorted.next(&mut host).unwrap() {
        assert_eq!(tuple.live, tuple.bytes[0] & 1 == 0);
        all.push(tuple.bytes.to_vec());
    }
    drop(sorted);
    (all, resources.files.stats().bytes)
}

/// A value of a type, out of few or many.
fn value(random: &mut Random, type_oid: Oid, few: bool) -> Datum<'static> {
    let n = match few {
        true => random.below(20) as i64 - 10,
        false => (random.below(1 << 30) as i64 - (1 << 29)) << 10,
    };
    match type_oid {
        _ if random.below(10) == 0 => Datum::Null,
        oids::INT4 => Datum::Int4(n as i32),
        oids::INT8 => Datum::Int8(n),
        oids::OID => Datum::Oid(n as u32),
        oids::FLOAT8 if n % 7 == 0 => Datum::Float8(f64::NAN),
        oids::FLOAT8 if n % 7 == 1 => Datum::Float8(-0.0),
        oids::FLOAT8 if n % 7 == 2 => Datum::Float8(0.0),
        oids::FLOAT8 => Datum::Float8(n as f64 / 3.0),
        oids::NUMERIC => Datum::Numeric(Box::new(Numeric::Finite { digits: n.into(), scale: 1 })),
        oids::TEXT | oids::BPCHAR => {
            let blanks = " ".repeat(random.below(3) as usize);
            // Few of them shorten what all begin with.
            let start = if n % 997 == 0 { "k" } else { "key " };
            Datum::string(format!("{start}{}{n}{blanks}", ["", "\u{1}"][random.below(2) as usize]))
        }
        _ => panic!("a type of no test"),
    }
}

#[test]
fn tuples_are_sorted_as_the_index_orders_them() {
    use oids::{BPCHAR, FLOAT8, INT4, INT8, NUMERIC, OID, TEXT};
    let mut random = Random(4);
    for types in
        [&[INT8][..], &[INT4, TEXT], &[TEXT], &[OID, INT8], &[FLOAT8], &[NUMERIC], &[BPCHAR]]
    {
        for (memory, options) in [(usize::MAX, 0), (0, 0), (0, 1), (usize::MAX, 2), (0, 3)] {
            let mut shape = shape(types);
            for key in &mut shape.keys {
                (key.descending, key.nulls_first) = (options & 1 != 0, options & 2 != 0);
            }
            let mut tuples = Vec::new();
            for n in 0..6000 {
                let few = random.below(2) == 0;
                let row: Vec<_> = types.iter().map(|t| value(&mut random, *t, few)).collect();
                tuples.push(form_index_tuple(&shape, &row, tid(n * 7919 % 6000)).unwrap());
            }
            let (found, spilled) = sorted(shape.clone(), &tuples, memory);
            assert_eq!(spilled > 0, memory == 0, "{types:?}");
            tuples.sort_by(|a, b| shape.compare_rows(a, b, true).unwrap());
            assert!(found == tuples, "{types:?} {options}");
        }
    }
}

#[test]
fn texts_that_share_less_later_are_sorted() {
    let shape = shape(&[oids::TEXT]);
    for memory in [0, usize::MAX] {
        let text = |n: u64| match n {
            ..12_000 => format!("https://example.org/{}", n * 7919 % 12_000),
            _ => format!("{}{:07}", char::from(b'a' + (n * 31 % 26) as u8), n * 7919 % 12_000),
        };
        let tuple = |n: u64| {
            let place = ItemPointer::new((n / 100) as u32, (n % 100) as u16 + 1);
            form_index_tuple(&shape, &[Datum::string(text(n))], place).unwrap()
        };
        let mut tuples: Vec<Vec<u8>> = (0..24_000).map(tuple).collect();
        let (found, _) = sorted(shape.clone(), &tuples, memory);
        tuples.sort_by(|a, b| shape.compare_rows(a, b, true).unwrap());
        assert!(found == tuples, "with {memory} bytes");
    }
}

/// A table of one number.
struct Table {
    fixture: Fixture,
    backend: Backend,
    heap: Heap,
    /// How many indexes were built.
    built: u32,
}

impl Table {
    fn new() -> Table {
        let fixture = Fixture::with(forebay_aio::MethodKind::Sync, 1024);
        let (backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        Table { fixture, backend, heap, built: 0 }
    }

    fn update(&mut self, tx: &mut Transaction, at: ItemPointer, number: i64) -> ItemPointer {
        let Table { fixture, backend, heap, .. } = self;
        let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
        let updated = fixture.change(backend, tx, |backend, changer| {
            heap.update(backend, changer, at, &tuple_of(number), &columns)
        });
        let Attempt::Done(new) = updated else { panic!("{updated:?}") };
        new.place
    }

    fn commit(&mut self, mut tx: Transaction) {
        self.fixture.xacts.commit(&mut self.backend.io, &mut tx).unwrap();
    }

    /// Builds an index for a transaction.
    fn build(&mut self, tx: &mut Transaction, unique: bool) -> (Built, Vec<ItemPointer>) {
        let Table { fixture, backend, heap, built } = self;
        *built += 1;
        let locator = RelFileLocator { rel: INDEX.rel + *built, ..INDEX };
        fixture.pool.smgr().create(locator, Fork::Main, true).unwrap();
        let index = Index { locator, ..open(fixture, shape(&[oids::INT8])) };
        let author = fixture.author(backend, tx);
        let own = Some(forebay_format::FullXid::new(0, author.xid));
        let sets = &mut fixture.outcomes().sets();
        let changer = Changer { xacts: &fixture.xacts, tx, author, sets, queues: None };
        let horizon = (HorizonKind::Data, 5, own);
        let rows = heap.indexable(changer, horizon, ReadAhead::default()).unwrap();
        let layouts = vec![AttrLayout::INT8];
        let (columns, not_null) = (vec![(0, None)], vec![true]);
        let source = RowSource { layouts, columns, computed: None, not_null, toast: None };
        let resources = resources(fixture, 1 << 20);
        let built = build_index(backend, rows, &source, &index, unique, &resources).unwrap();
        let places = match &built {
            Built::Done(_) => {
                let (_, rows) = pages_of(&index, backend).check();
                rows.into_iter().map(|(_, place)| place).collect()
            }
            Built::Duplicate(_) | Built::Null(_) => Vec::new(),
        };
        (built, places)
    }
}

#[test]
fn an_index_leads_to_the_roots_of_chains() {
    let mut table = Table::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    fixture.load(backend, heap, 0..5);
    let place = |n| ItemPointer::new(0, n);
    let mut reader = Transaction::new();
    let old = table.fixture.xacts.snapshot(&reader);

    // A chain whose old version the reader sees, and one that its author changed twice.
    let mut one = Transaction::new();
    table.update(&mut one, place(1), 10);
    table.commit(one);
    let mut two = Transaction::new();
    let newer = table.update(&mut two, place(2), 20);
    two.next_command().unwrap();
    table.update(&mut two, newer, 30);
    two.next_command().unwrap();
    // A row that is gone for new snapshots only.
    let mut three = Transaction::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    fixture.delete(backend, heap, &mut three, place(3));
    table.commit(three);

    let (built, places) = table.build(&mut two, true);
    let report = BuildReport { blocks: 1, live: 4, entries: 5, broken_chain: true };
    assert_eq!(built, Built::Done(report));
    // Keys 2, 3, 4, 10, 30.
    assert_eq!(places, [place(3), place(4), place(5), place(1), place(2)]);
    drop(old);
    table.commit(two);
    let (built, places) = table.build(&mut reader, true);
    let report = BuildReport { blocks: 1, live: 4, entries: 4, broken_chain: false };
    assert_eq!(built, Built::Done(report), "nobody sees the old versions any more");
    assert_eq!(places, [place(4), place(5), place(1), place(2)]);
}

#[test]
fn live_rows_of_a_unique_index_differ() {
    let mut table = Table::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    fixture.load(backend, heap, [5, 7, 7, 9]);
    let mut tx = Transaction::new();
    let (built, _) = table.build(&mut tx, true);
    let Built::Duplicate(tuple) = built else { panic!("{built:?}") };
    let seven = form_index_tuple(&shape(&[oids::INT8]), &[Datum::Int8(7)], tid(0)).unwrap();
    let order = shape(&[oids::INT8]).compare_rows(&tuple, &seven, false).unwrap();
    assert_eq!(order, Ordering::Equal);
    assert!(matches!(table.build(&mut tx, false).0, Built::Done(_)));
    let mut deleter = Transaction::new();
    let Table { fixture, backend, heap, .. } = &mut table;
    fixture.delete(backend, heap, &mut deleter, ItemPointer::new(0, 2));
    let built = table.build(&mut deleter, true).0;
    assert!(matches!(built, Built::Done(report) if (report.live, report.entries) == (3, 4)));
}
