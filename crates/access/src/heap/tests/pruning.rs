//! Pruning on access.

use forebay_format::page::{ItemState, PD_PAGE_FULL};
use forebay_format::wal::prune::HeapPrune;
use forebay_txn::HorizonKind;

use super::changes::{OneRow, ROW};
use super::*;
use crate::tests::fixture::WAL_START;

impl OneRow {
    /// Prunes the first page, if that is worth while.
    fn prune(&mut self) {
        let mut pruner = self.heap.pruner(HorizonKind::Data, 0, None).unwrap();
        let tag = self.heap.tag(0);
        let pin = self.heap.pool.read(&mut self.backend, tag, Strategy::Normal).unwrap();
        pruner.prune(&mut self.backend, &pin).unwrap();
    }

    /// States of the first page's line pointers, its free space and its flags.
    fn page(&mut self) -> (Vec<ItemState>, usize, u16) {
        let tag = self.heap.tag(0);
        let pin = self.heap.pool.read(&mut self.backend, tag, Strategy::Normal).unwrap();
        let guard = pin.lock_shared();
        let page = guard.page();
        let states = (1..=page.item_count()).map(|n| page.item_id(n).unwrap().state);
        (states.collect(), page.heap_free_space(), page.flags())
    }

    /// Updates the row until its page is full, each time in a transaction of its own. Returns the
    /// place of the last version, which is on another page.
    fn update_until_full(&mut self) -> ItemPointer {
        let mut place = ROW;
        let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
        for number in 0.. {
            let (mut tx, _) = self.begin();
            let attempt = self.update_at(&mut tx, place, &tuple_of(number), &columns);
            let Attempt::Done(next) = attempt else { panic!("{attempt:?}") };
            self.end(tx, true);
            place = next;
            if place.block > 0 {
                break;
            }
        }
        place
    }

    /// Main data and block data of the prune records.
    fn prune_records(&mut self) -> Vec<HeapPrune> {
        self.fixture.wal.flush_all(&mut self.backend.io).unwrap();
        let fixture = &self.fixture;
        let mut reader = crate::tests::fixture::reader(&fixture.aio, fixture.dir.path(), WAL_START);
        let mut found = Vec::new();
        while let Some(record) = reader.next(&mut self.backend.io).unwrap() {
            let decoded = record.decode().unwrap();
            let (rmgr, info) = (decoded.header.rmgr, decoded.header.info);
            use forebay_format::wal::{Rmgr, heap};
            if rmgr == Rmgr::HEAP2 && info & heap::OPMASK == heap::PRUNE_ON_ACCESS {
                let data = decoded.block(0).map(|block| block.data);
                found.push(HeapPrune::decode(decoded.main, data).unwrap());
            }
        }
        found
    }
}

#[test]
fn a_chain_that_left_its_page_leaves_one_dead_line_pointer() {
    let mut row = OneRow::new();
    row.update_until_full();
    let (states, _, flags) = row.page();
    assert_eq!((states.len(), flags & PD_PAGE_FULL), (PER_PAGE, PD_PAGE_FULL));
    row.prune();
    let (states, free, flags) = row.page();
    assert_eq!((states, free, flags), (vec![ItemState::Dead], 8164 - 4, 0));
    assert_eq!(row.seen(), 1);
    let records = row.prune_records();
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((&record.dead[..], &record.redirected[..]), (&[1][..], &[][..]));
    assert_eq!(record.unused, (2..=PER_PAGE as u16).collect::<Vec<_>>());
    let last = row.fixture.xacts.next_xid().xid() - 1;
    assert_eq!(record.conflict_horizon, Some(last), "the last version's deleter");
}

#[test]
fn a_live_version_is_redirected_to_and_its_room_is_used_again() {
    let mut row = OneRow::new();
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let mut place = ROW;
    // Far more versions than fit the page.
    for number in 0..5 * PER_PAGE as i64 {
        let (mut tx, _) = row.begin();
        let attempt = row.update_at(&mut tx, place, &tuple_of(number), &columns);
        let Attempt::Done(next) = attempt else { panic!("{attempt:?}") };
        row.end(tx, true);
        place = next;
        row.prune();
    }
    assert_eq!(row.heap.pool.nblocks(TABLE, Fork::Main).unwrap(), 1);
    assert_eq!(row.numbers(&Transaction::new()), [5 * PER_PAGE as i64 - 1]);
    let (states, ..) = row.page();
    assert_eq!(states[0], ItemState::Redirect);
    row.at(place, |tuple, _| assert!(tuple.is_heap_only()));
    assert!(row.prune_records().len() >= 4);
}

#[test]
fn what_a_snapshot_may_see_stays() {
    let mut row = OneRow::new();
    let snapshot = row.fixture.xacts.snapshot(&Transaction::new());
    row.update_until_full();
    row.prune();
    assert_eq!(row.page().0.len(), PER_PAGE, "all is as it was");
    let mut scan = row.heap.scan(snapshot.clone(), ReadAhead::default()).unwrap();
    let (_, tuple) = scan.next(&mut row.backend).unwrap().unwrap();
    assert_eq!(number_of(tuple), 5);
    drop((scan, snapshot));
    row.prune();
    assert_eq!(row.page().0, [ItemState::Dead]);
}

#[test]
fn pruning_waits_for_nobody() {
    let mut row = OneRow::new();
    row.update_until_full();
    let pin = row.heap.pool.read(&mut row.backend, row.heap.tag(0), Strategy::Normal).unwrap();
    row.prune();
    assert_eq!(row.page().0.len(), PER_PAGE, "somebody has the page pinned");
    drop(pin);
    row.prune();
    assert_eq!(row.page().0.len(), 1);
}

#[test]
fn pages_with_room_are_left_alone() {
    let mut row = OneRow::new();
    let (mut tx, _) = row.begin();
    row.update(&mut tx, 6);
    row.end(tx, true);
    row.prune();
    assert_eq!(row.page().0, [ItemState::Normal, ItemState::Normal]);
    row.fixture.load(&mut row.backend, &row.heap, 0..30);
    row.heap.fill_factor = 10;
    row.prune();
    assert_eq!(row.page().0[..2], [ItemState::Redirect, ItemState::Normal], "much is to stay free");
}

#[test]
fn a_scan_prunes_and_leaves_dead_line_pointers() {
    let mut row = OneRow::new();
    row.fill_page();
    let (mut tx, _) = row.begin();
    for offset in 2..=PER_PAGE as u16 {
        let place = ItemPointer::new(0, offset);
        row.fixture.delete(&mut row.backend, &row.heap, &mut tx, place);
    }
    row.end(tx, true);
    let snapshot = row.fixture.xacts.snapshot(&Transaction::new());
    let pruner = row.heap.pruner(HorizonKind::Data, 0, None);
    let mut scan = row.heap.scan(snapshot, ReadAhead::default()).unwrap().pruning(pruner);
    assert_eq!(scan.count(&mut row.backend, &Interrupt::new()).unwrap(), 1);
    let (states, ..) = row.page();
    assert!(states[1..].iter().all(|state| *state == ItemState::Dead), "vacuum frees them");
}

#[test]
fn aborted_versions_go_and_their_line_pointers_are_used_again() {
    let mut row = OneRow::new();
    let (mut tx, _) = row.begin();
    let mut place = ROW;
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    for number in 1..PER_PAGE as i64 {
        tx.next_command().unwrap();
        let attempt = row.update_at(&mut tx, place, &tuple_of(number), &columns);
        let Attempt::Done(next) = attempt else { panic!("{attempt:?}") };
        place = next;
    }
    row.end(tx, false);
    assert_eq!((row.page().0.len(), row.seen()), (PER_PAGE, 1));
    row.prune();
    assert_eq!(row.page().0, [ItemState::Normal]);
    assert_eq!(row.prune_records()[0].conflict_horizon, None, "nobody has seen them");
    let (mut tx, _) = row.begin();
    assert_eq!(row.update(&mut tx, 6), Attempt::Done(ItemPointer::new(0, 2)));
    row.end(tx, true);
}

#[test]
fn a_damaged_chain_is_reported_and_the_page_stays() {
    let mut row = OneRow::new();
    row.update_until_full();
    with_header(&mut row.backend, &row.heap, |tuple| tuple.set_xmax(0));
    let before = row.page();
    let mut pruner = row.heap.pruner(HorizonKind::Data, 0, None).unwrap();
    let pin = row.heap.pool.read(&mut row.backend, row.heap.tag(0), Strategy::Normal).unwrap();
    let error = pruner.prune(&mut row.backend, &pin).unwrap_err();
    assert_eq!(error.sqlstate(), "XX001");
    assert!(error.to_string().contains("dead heap-only tuple 2"), "{error}");
    drop(pin);
    assert_eq!((row.page(), row.fixture.failures.all()), (before, vec![]));
}

#[test]
fn readers_updaters_and_pruning_at_once() {
    const THREADS: i64 = 3;
    let fixture = Arc::new(Fixture::new());
    let heap = fixture.heap(TABLE);
    fixture.load(&mut fixture.backend(), &heap, 0..THREADS);
    let done = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (fixture, heap, done) = (fixture.clone(), heap.clone(), done.clone());
            thread::spawn(move || {
                let mut backend = fixture.backend();
                let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
                let mut place = ItemPointer::new(0, thread as u16 + 1);
                for round in 1..=400 {
                    let mut tx = Transaction::new();
                    let new = tuple_of(thread + 10 * round);
                    let attempt = fixture.change(&mut backend, &mut tx, |backend, changer| {
                        placed(heap.update(backend, changer, place, &new, &columns))
                    });
                    let Attempt::Done(next) = attempt else { panic!("{attempt:?}") };
                    place = next;
                    fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
                }
                done.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    let mut backend = fixture.backend();
    let mut last = vec![0; THREADS as usize];
    while done.load(Ordering::SeqCst) < THREADS as usize {
        let snapshot = fixture.xacts.snapshot(&Transaction::new());
        let pruner = heap.pruner(HorizonKind::Data, 0, None);
        let mut scan = heap.scan(snapshot, ReadAhead::default()).unwrap().pruning(pruner);
        let mut seen = Vec::new();
        while let Some((_, tuple)) = scan.next(&mut backend).unwrap() {
            seen.push(number_of(tuple));
        }
        seen.sort_unstable_by_key(|number| number % 10);
        let rows: Vec<i64> = seen.iter().map(|number| number % 10).collect();
        assert_eq!(rows, (0..THREADS).collect::<Vec<_>>(), "each row once");
        assert!(seen.iter().zip(&last).all(|(now, before)| now >= before));
        last = seen;
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let blocks = heap.pool.nblocks(TABLE, Fork::Main).unwrap();
    assert!(blocks <= 1200 / PER_PAGE as u32 + 2, "{blocks} blocks");
}

#[test]
fn insertions_leave_room_to_updates() {
    let mut row = OneRow::new();
    row.heap.fill_factor = 50;
    row.fixture.load(&mut row.backend, &row.heap, 0..1000);
    let (mut tx, _) = row.begin();
    let author = row.fixture.author(&mut row.backend, &mut tx);
    for number in 0..200 {
        row.heap.insert(&mut row.backend, author, &tuple_of(number)).unwrap();
    }
    row.end(tx, true);
    let pages = row.fixture.pages(&mut row.backend, TABLE);
    let free: Vec<usize> =
        pages.iter().map(|page| forebay_format::Page::new(page).heap_free_space()).collect();
    assert!(free[..10].iter().all(|free| (4096..4096 + 36).contains(free)), "{free:?}");
    assert_eq!(row.seen(), 1201);
}

#[test]
fn a_page_without_anything_to_prune_is_looked_at_once() {
    let mut row = OneRow::new();
    row.fill_page();
    let (mut tx, xid) = row.begin();
    assert_eq!(row.delete(&mut tx), Attempt::Done(()));
    row.end(tx, false);
    row.fixture.write_all(&mut row.backend);
    let tag = row.heap.tag(0);
    let hint = |row: &mut OneRow| {
        let pin = row.heap.pool.read(&mut row.backend, tag, Strategy::Normal).unwrap();
        let hint = pin.lock_shared().page().prune_xid();
        (hint, pin.is_dirty())
    };
    assert_eq!(hint(&mut row), (xid, false));
    row.prune();
    assert_eq!(hint(&mut row), (0, false), "the hint is gone, and nothing is written for that");
    row.fixture.pool.evict_all(&mut row.backend).unwrap();
    assert_eq!(hint(&mut row), (xid, false));
}
