mod changes;
mod failures;
mod indexed;
mod locks;
mod pruning;
mod recovery;
mod scans;
mod updates;
mod vacuum;

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
use forebay_aio::sync::thread;
use forebay_format::tuple::LockStrength;
use forebay_format::{
    Fork, HeapTuple, HeapTupleMut, ItemPointer, PageTag, RelFileLocator, tuple as ht,
    tuple::AttrLayout, tuple::form_tuple,
};
use forebay_storage::{Backend, Strategy};
use forebay_testkit::io::methods;
use forebay_txn::Transaction;
use forebay_txn::locks::{Interrupt, InterruptKind};

use super::*;
use crate::error::AccessError;
use crate::tests::fixture::{Fixture, TABLE, batch_of, number_of, sqlstate, tuple_of};

/// Tuples of one int8 that fit a page.
const PER_PAGE: usize = (8192 - 24) / 36;

/// The place of a new version.
fn placed(
    updated: Result<Attempt<NewVersion>, AccessError>,
) -> Result<Attempt<ItemPointer>, AccessError> {
    Ok(match updated? {
        Attempt::Done(NewVersion { place, .. }) => Attempt::Done(place),
        Attempt::Refused(refusal) => Attempt::Refused(refusal),
    })
}

/// The refusal of a change, by a transaction that has not locked the row.
/// A version that transactions hold; `change` as in [`Holders`].
fn held_by<T>(
    xids: Vec<u32>,
    version: ItemPointer,
    change: impl Into<Option<ItemPointer>>,
    strength: LockStrength,
) -> Attempt<T> {
    let (change, queue) = (change.into(), Some(strength));
    Attempt::Refused(Refusal::BeingModified(Holders { xids, version, change, queue }))
}

#[test]
fn rows_appear_to_later_commands_and_after_the_commit() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    let (mut tx, other) = (Transaction::new(), Transaction::new());
    let author = fixture.author(&mut backend, &mut tx);
    assert_eq!(heap.insert(&mut backend, author, &tuple_of(7)).unwrap(), ItemPointer::new(0, 1));
    assert_eq!(
        fixture.numbers(&mut backend, &heap, &tx),
        [0; 0],
        "not to the command that inserted it"
    );
    tx.next_command().unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &tx), [7]);
    assert_eq!(fixture.numbers(&mut backend, &heap, &other), [0; 0]);
    let before = fixture.xacts.snapshot(&other);
    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &other), [7]);
    let mut old = heap.scan(before, ReadAhead::default()).unwrap();
    assert_eq!(old.next(&mut backend).unwrap(), None, "an older snapshot does not see it");
}

#[test]
fn a_batch_tells_where_its_rows_are() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..PER_PAGE as i64 + 5);
    // Block 1 is filled, then block 0 turns out to be full, then the table is extended.
    assert_eq!(heap.space.take(1), Some(1));
    heap.space.give(0, 4000);
    heap.space.give(1, 7000);
    let mut tx = Transaction::new();
    let author = fixture.author(&mut backend, &mut tx);
    let (batch, mut places) = (batch_of(1000..1500), Vec::new());
    heap.insert_batch(&mut backend, author, &batch, Strategy::Normal, Some(&mut places)).unwrap();
    assert_eq!(places.len(), 500);
    assert_eq!((places[0], places.last().unwrap().block), (ItemPointer::new(1, 6), 3));
    for (number, place) in (1000..).zip(places) {
        let tuple = heap.any_version(&mut backend, place).unwrap().unwrap();
        assert_eq!(number_of(&tuple), number);
    }
}

#[test]
fn an_aborted_transaction_leaves_nothing_to_see() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..3);
    let mut tx = Transaction::new();
    let author = fixture.author(&mut backend, &mut tx);
    heap.insert_batch(&mut backend, author, &batch_of(10..1000), Strategy::Normal, None).unwrap();
    tx.next_command().unwrap();
    let deleted = fixture.delete(&mut backend, &heap, &mut tx, ItemPointer::new(0, 1));
    assert_eq!(deleted, Attempt::Done(()));
    tx.next_command().unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &tx).len(), 2 + 990);
    fixture.xacts.abort(&mut backend.io, &mut tx).unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &Transaction::new()), [0, 1, 2]);
}

#[test]
fn a_deleted_row_disappears_for_later_commands_and_after_the_commit() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..3);
    let (mut tx, mut other) = (Transaction::new(), Transaction::new());
    let place = ItemPointer::new(0, 2);
    let delete = |backend: &mut Backend, tx: &mut Transaction, place| {
        fixture.delete(backend, &heap, tx, place)
    };
    assert_eq!(delete(&mut backend, &mut tx, place), Attempt::Done(()));
    assert_eq!(
        fixture.numbers(&mut backend, &heap, &tx),
        [0, 1, 2],
        "its own command still sees it"
    );
    assert_eq!(delete(&mut backend, &mut tx, place), Attempt::Refused(Refusal::SelfModified(0)));
    tx.next_command().unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &tx), [0, 2]);
    assert_eq!(delete(&mut backend, &mut tx, place), Attempt::Refused(Refusal::Invisible));
    assert_eq!(fixture.numbers(&mut backend, &heap, &other), [0, 1, 2]);
    let xid = tx.xid().unwrap();
    assert_eq!(
        delete(&mut backend, &mut other, place),
        held_by(vec![xid], place, place, LockStrength::Exclusive)
    );
    let before = fixture.xacts.snapshot(&other);
    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &other), [0, 2]);
    assert_eq!(delete(&mut backend, &mut other, place), Attempt::Refused(Refusal::Deleted));
    assert_eq!(
        delete(&mut backend, &mut other, ItemPointer::new(0, 9)),
        Attempt::Refused(Refusal::Invisible)
    );
    let mut old = heap.scan(before, ReadAhead::default()).unwrap();
    assert_eq!(
        old.count(&mut backend, &Interrupt::new()).unwrap(),
        3,
        "an older snapshot still sees it"
    );
    fixture.xacts.abort(&mut backend.io, &mut other).unwrap();
}

#[test]
fn a_deletion_that_aborted_can_be_done_again() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..1);
    let place = ItemPointer::new(0, 1);
    for commit in [false, true] {
        let mut tx = Transaction::new();
        let outcome = fixture.delete(&mut backend, &heap, &mut tx, place);
        assert_eq!(outcome, Attempt::Done(()));
        if commit {
            fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
        } else {
            fixture.xacts.abort(&mut backend.io, &mut tx).unwrap();
            assert_eq!(fixture.numbers(&mut backend, &heap, &Transaction::new()), [0]);
        }
    }
    assert_eq!(fixture.numbers(&mut backend, &heap, &Transaction::new()), [0; 0]);
}

#[test]
fn rows_inserted_and_deleted_by_one_transaction_keep_both_commands() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    let mut tx = Transaction::new();
    let author = fixture.author(&mut backend, &mut tx);
    let place = heap.insert(&mut backend, author, &tuple_of(1)).unwrap();
    let early = fixture.xacts.snapshot(&tx);
    tx.next_command().unwrap();
    let middle = fixture.xacts.snapshot(&tx);
    fixture.delete(&mut backend, &heap, &mut tx, place);
    tx.next_command().unwrap();
    let late = fixture.xacts.snapshot(&tx);
    let mut count = |snapshot| {
        let mut scan = heap.scan(snapshot, ReadAhead::default()).unwrap();
        scan.count(&mut backend, &Interrupt::new()).unwrap()
    };
    assert_eq!([early, middle, late].map(&mut count), [0, 1, 0]);
    let pin = heap.pool.read(&mut backend, heap.tag(0), Strategy::Normal).unwrap();
    let guard = pin.lock_shared();
    let tuple = HeapTuple::new(guard.page().item(1).unwrap()).unwrap();
    assert_ne!(tuple.infomask() & ht::HEAP_COMBOCID, 0);
    assert_eq!(tuple.infomask2() & ht::HEAP_KEYS_UPDATED, ht::HEAP_KEYS_UPDATED);
    drop(guard);
    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &Transaction::new()), [0; 0]);
}

/// Changes the header of the first tuple in place, as PostgreSQL may have left it.
fn with_header(backend: &mut Backend, heap: &Heap, change: impl FnOnce(&mut HeapTupleMut<'_>)) {
    let pin = heap.pool.read(backend, heap.tag(0), Strategy::Normal).unwrap();
    let mut guard = pin.lock_exclusive();
    guard.mark_dirty();
    change(&mut HeapTupleMut::new(guard.page_mut().item_mut(1).unwrap()).unwrap());
}

#[test]
fn hints_that_postgresql_left_are_believed() {
    type Change = fn(&mut HeapTupleMut<'_>);
    const ANCIENT: u32 = 2_000_000_000;
    let cases: [(&str, Change, Option<usize>); 8] = [
        ("frozen", |t| set(t, 0, ht::HEAP_XMIN_FROZEN, Some(ANCIENT), None), Some(1)),
        ("committed", |t| set(t, 0, ht::HEAP_XMIN_COMMITTED, None, None), Some(1)),
        ("aborted", |t| set(t, 0, ht::HEAP_XMIN_INVALID, None, None), Some(0)),
        ("bootstrap", |t| set(t, 0, 0, Some(1), None), Some(1)),
        ("no inserter", |t| set(t, 0, 0, Some(0), None), Some(0)),
        (
            "locked only",
            |t| {
                set(
                    t,
                    ht::HEAP_XMAX_INVALID,
                    ht::HEAP_XMAX_LOCK_ONLY | ht::HEAP_XMAX_EXCL_LOCK,
                    None,
                    Some(3),
                )
            },
            Some(1),
        ),
        (
            "deleted",
            |t| set(t, ht::HEAP_XMAX_INVALID, ht::HEAP_XMAX_COMMITTED, None, Some(3)),
            Some(0),
        ),
        (
            "multixact",
            |t| set(t, ht::HEAP_XMAX_INVALID, ht::HEAP_XMAX_IS_MULTI, None, Some(3)),
            None,
        ),
    ];
    fn set(t: &mut HeapTupleMut<'_>, clear: u16, set: u16, xmin: Option<u32>, xmax: Option<u32>) {
        let mask = t.tuple().infomask();
        t.set_infomask(mask & !clear | set);
        if let Some(xid) = xmin {
            t.set_xmin(xid);
        }
        if let Some(xid) = xmax {
            t.set_xmax(xid);
        }
    }
    for (what, change, expected) in cases {
        let fixture = Fixture::new();
        let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        fixture.load(&mut backend, &heap, [5]);
        with_header(&mut backend, &heap, change);
        let snapshot = fixture.xacts.snapshot(&Transaction::new());
        let mut scan = heap.scan(snapshot, ReadAhead::default()).unwrap();
        let result = scan.next_page(&mut backend);
        match expected {
            Some(count) => assert_eq!(result.unwrap().unwrap_or(0), count, "{what}"),
            None => assert_eq!(sqlstate(result), "XX000", "{what}"),
        }
    }
}

#[test]
fn a_batch_fills_its_pages() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    let rows = PER_PAGE * 10 + 5;
    fixture.load(&mut backend, &heap, 0..rows as i64);
    assert_eq!(heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 11);
    assert_eq!(
        fixture.numbers(&mut backend, &heap, &Transaction::new()),
        (0..rows as i64).collect::<Vec<_>>(),
        "in order of insertion"
    );
    for (block, page) in fixture.pages(&mut backend, TABLE).iter().enumerate() {
        let page = forebay_format::Page::new(page);
        assert_eq!(usize::from(page.item_count()), if block < 10 { PER_PAGE } else { 5 });
        for (number, item) in page.items() {
            let tuple = HeapTuple::new(item).unwrap();
            assert_eq!(tuple.ctid(), ItemPointer::new(block as u32, number));
            assert_eq!((tuple.xmin(), tuple.xmax(), tuple.cid()), (3, 0, 0));
            assert_eq!(
                (tuple.infomask(), tuple.infomask2(), tuple.hoff()),
                (ht::HEAP_XMAX_INVALID, 1, 24)
            );
        }
        assert!(page.lsn().is_valid());
    }
    // The next batch goes on in the last page.
    fixture.load(&mut backend, &heap, 0..(PER_PAGE - 5) as i64);
    assert_eq!(heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 11);
    fixture.load(&mut backend, &heap, [1]);
    assert_eq!(heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 12);
}

#[test]
fn a_row_that_no_page_holds_is_refused() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    let mut tx = Transaction::new();
    let author = fixture.author(&mut backend, &mut tx);
    let tuple = |len: usize| form_tuple(&[AttrLayout::VARLENA], &[Some(&vec![b'x'; len])]).unwrap();
    let largest = tuple(8160 - 24 - 4);
    assert_eq!(largest.len(), 8160);
    heap.insert(&mut backend, author, &largest).unwrap();
    let error = heap.insert(&mut backend, author, &tuple(8160 - 24 - 3)).unwrap_err();
    assert_eq!(
        (error.sqlstate(), error.to_string().as_str()),
        ("54000", "row is too big: size 8168, maximum size 8160")
    );
    let mut batch = batch_of([1]);
    assert_eq!(sqlstate(batch.push(&tuple(9000))), "54000");
    batch.push(&largest).unwrap();
    assert_eq!(batch.len(), 2);
    heap.insert_batch(&mut backend, author, &batch, Strategy::Normal, None).unwrap();
    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    assert_eq!(heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 3);
}

#[test]
fn after_a_start_the_relation_s_end_is_filled_first() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..10);
    heap.pool.extend(&mut backend, TABLE, Fork::Main, 3, Strategy::Normal).unwrap();
    fixture.space.forget(TABLE);
    let heap = fixture.heap(TABLE);
    fixture.load(&mut backend, &heap, 10..20);
    assert_eq!(
        fixture.numbers(&mut backend, &heap, &Transaction::new()),
        (0..20).collect::<Vec<_>>()
    );
    assert_eq!(heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 4);
    let blocks: Vec<u32> = heap.space.rooms().iter().map(|room| room.block).collect();
    assert_eq!(blocks, [3, 2, 1, 0]);
    fixture.load(&mut backend, &heap, 0..(PER_PAGE * 4 - 20) as i64);
    assert_eq!(heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 4, "unused pages are used");
}

fn on_every_method(test: impl Fn(Fixture)) {
    for method in methods() {
        test(Fixture::with(method, 64));
    }
}

#[test]
fn several_backends_fill_one_table_concurrently() {
    on_every_method(|fixture| {
        let fixture = Arc::new(fixture);
        let heap = fixture.heap(TABLE);
        const THREADS: i64 = 4;
        const BATCHES: i64 = 5;
        const ROWS: i64 = 1000;
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (fixture, heap) = (fixture.clone(), heap.clone());
                thread::spawn(move || {
                    let mut backend = fixture.backend();
                    for batch in 0..BATCHES {
                        let first = (thread * BATCHES + batch) * ROWS;
                        fixture.load(&mut backend, &heap, first..first + ROWS);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut backend = fixture.backend();
        let mut numbers = fixture.numbers(&mut backend, &heap, &Transaction::new());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..THREADS * BATCHES * ROWS).collect::<Vec<_>>());
        let needed = (THREADS * BATCHES * ROWS) as usize / PER_PAGE;
        let blocks = heap.pool.nblocks(TABLE, Fork::Main).unwrap() as usize;
        assert!(
            blocks <= needed + 2 * THREADS as usize + 5,
            "{blocks} blocks for {needed} full ones"
        );
    });
}

#[test]
fn a_transaction_is_seen_whole_or_not_at_all() {
    on_every_method(|fixture| {
        let fixture = Arc::new(fixture);
        let heap = fixture.heap(TABLE);
        const ROWS: i64 = 700;
        let (done, rounds) = (Arc::new(AtomicUsize::new(0)), 12);
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (fixture, heap, done) = (fixture.clone(), heap.clone(), done.clone());
                thread::spawn(move || {
                    let mut backend = fixture.backend();
                    for round in 0..rounds {
                        let mut tx = Transaction::new();
                        let author = fixture.author(&mut backend, &mut tx);
                        let batch = batch_of(0..ROWS);
                        heap.insert_batch(&mut backend, author, &batch, Strategy::Normal, None)
                            .unwrap();
                        if (round + writer) % 3 == 0 {
                            fixture.xacts.abort(&mut backend.io, &mut tx).unwrap();
                        } else {
                            fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
                        }
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        let mut backend = fixture.backend();
        let mut last = 0;
        while done.load(Ordering::SeqCst) < 2 {
            let snapshot = fixture.xacts.snapshot(&Transaction::new());
            let mut scan = heap.scan(snapshot, ReadAhead::default()).unwrap();
            let count = scan.count(&mut backend, &Interrupt::new()).unwrap() as i64;
            assert_eq!(count % ROWS, 0, "a part of a transaction is seen");
            assert!(count >= last, "committed rows went away");
            last = count;
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let total = fixture.numbers(&mut backend, &heap, &Transaction::new()).len() as i64;
        assert_eq!(total, 2 * 8 * ROWS);
    });
}

#[test]
fn single_rows_from_several_backends() {
    let fixture = Arc::new(Fixture::new());
    let heap = fixture.heap(TABLE);
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let (fixture, heap) = (fixture.clone(), heap.clone());
            thread::spawn(move || {
                let mut backend = fixture.backend();
                for n in 0..100 {
                    let mut tx = Transaction::new();
                    let author = fixture.author(&mut backend, &mut tx);
                    heap.insert(&mut backend, author, &tuple_of(thread * 100 + n)).unwrap();
                    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut backend = fixture.backend();
    let mut numbers = fixture.numbers(&mut backend, &heap, &Transaction::new());
    numbers.sort_unstable();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
    assert!(heap.pool.nblocks(TABLE, Fork::Main).unwrap() <= 4);
}

#[test]
fn a_table_larger_than_the_pool_is_scanned_cold() {
    on_every_method(|fixture| {
        let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        let rows = (PER_PAGE * 300) as i64;
        fixture.load(&mut backend, &heap, 0..rows);
        fixture.write_all(&mut backend);
        fixture.pool.evict_all(&mut backend).unwrap();
        let tx = Transaction::new();
        let mut scan = heap.scan(fixture.xacts.snapshot(&tx), ReadAhead::default()).unwrap();
        assert_eq!(scan.blocks(), 300);
        let mut expected = 0;
        while let Some(count) = scan.next_page(&mut backend).unwrap() {
            for index in 0..count {
                assert_eq!(number_of(scan.tuple(index)), expected);
                expected += 1;
            }
        }
        assert_eq!(expected, rows);
        assert_eq!(scan.next_page(&mut backend).unwrap(), None);
    });
}

#[test]
fn a_count_can_be_interrupted() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..10);
    let interrupt = Interrupt::new();
    interrupt.request(InterruptKind::Cancel);
    let mut scan =
        heap.scan(fixture.xacts.snapshot(&Transaction::new()), ReadAhead::default()).unwrap();
    assert_eq!(sqlstate(scan.count(&mut backend, &interrupt)), "57014");
}

/// Says on the first page and in the map that all its rows are visible, as vacuum does. All other
/// bits of the map's first byte are set too.
fn promise(backend: &mut Backend, heap: &Heap) {
    heap.pool.smgr().create(TABLE, Fork::Vm, true).unwrap();
    let map = heap.pool.zero_page(backend, PageTag::new(TABLE, Fork::Vm, 0)).unwrap();
    let mut guard = map.lock_exclusive();
    guard.page_mut().init(0);
    guard[24] = 0xff;
    guard.mark_dirty();
    let pin = heap.pool.read(backend, heap.tag(0), Strategy::Normal).unwrap();
    let mut guard = pin.lock_exclusive();
    guard.page_mut().set_all_visible(true);
    guard.mark_dirty();
}

/// The map's first byte, and whether the first page says that all its rows are visible.
fn promised(backend: &mut Backend, heap: &Heap) -> (u8, bool) {
    let map = heap.pool.read(backend, PageTag::new(TABLE, Fork::Vm, 0), Strategy::Normal).unwrap();
    let bits = map.lock_shared().page().bytes(24..25).unwrap()[0];
    let pin = heap.pool.read(backend, heap.tag(0), Strategy::Normal).unwrap();
    let visible = pin.lock_shared().page().is_all_visible();
    (bits, visible)
}

#[test]
fn a_change_clears_all_visible_on_the_page_and_in_the_map() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..3);
    promise(&mut backend, &heap);
    assert_eq!(promised(&mut backend, &heap), (0xff, true));
    fixture.load(&mut backend, &heap, [3]);
    assert_eq!(promised(&mut backend, &heap), (0xfc, false));
    promise(&mut backend, &heap);
    let mut tx = Transaction::new();
    fixture.delete(&mut backend, &heap, &mut tx, ItemPointer::new(0, 1));
    assert_eq!(promised(&mut backend, &heap), (0xfc, false));
    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    assert_eq!(fixture.numbers(&mut backend, &heap, &Transaction::new()), [1, 2, 3]);
}

#[test]
fn bits_that_were_set_meanwhile_are_cleared() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..3);
    let pin = heap.pool.read(&mut backend, heap.tag(0), Strategy::Normal).unwrap();
    let mut map = map_pin::MapPin::default();
    map.look(&heap, &mut backend, 0).unwrap();
    promise(&mut backend, &heap);
    let guard = map.lock(&heap, &mut backend, &pin).unwrap();
    assert!(map.clear(&guard).changed());
    drop(guard);
    assert_eq!(promised(&mut backend, &heap).0, 0xfc);
}

#[test]
fn a_page_without_a_map_is_changed() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..3);
    promise(&mut backend, &heap);
    heap.pool.truncate(&mut backend, TABLE, Fork::Vm, 0).unwrap();
    fixture.load(&mut backend, &heap, [3]);
    assert_eq!(fixture.numbers(&mut backend, &heap, &Transaction::new()), [0, 1, 2, 3]);
}

#[test]
fn relations_do_not_share_blocks_with_room() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (one, two) = (fixture.heap(TABLE), fixture.heap(RelFileLocator::in_default(5, 16_385)));
    fixture.load(&mut backend, &one, 0..5);
    fixture.load(&mut backend, &two, 5..9);
    assert_eq!(fixture.numbers(&mut backend, &one, &Transaction::new()), [0, 1, 2, 3, 4]);
    assert_eq!(fixture.numbers(&mut backend, &two, &Transaction::new()), [5, 6, 7, 8]);
}
