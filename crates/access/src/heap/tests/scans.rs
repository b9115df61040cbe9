//! What a scan holds while it looks tuples up, what it does with damaged pages, and how scans of a
//! large table read it together.

use forebay_aio::fault::{FaultPlan, Ops, Rule};
use forebay_aio::{IoOp, MethodKind};
use forebay_format::{BLOCK_SIZE, ItemId};
use forebay_testkit::io::open_faulty;
use forebay_txn::Clog;

use super::*;

/// A heap whose outcomes of transactions are not in memory.
fn cold(fixture: &Fixture, backend: &mut Backend, heap: &Heap) -> Heap {
    fixture.clog.flush(&mut backend.io).unwrap();
    let clog = Arc::new(Clog::new(fixture.aio.clone(), fixture.dir.path(), false));
    heap.clone().with_outcomes(clog.into())
}

#[test]
fn no_page_is_locked_while_pg_xact_is_read() {
    type Read = fn(&Fixture, &Heap, &mut Backend) -> u64;
    let reads: [Read; 3] = [
        |fixture, heap, backend| {
            let snapshot = fixture.xacts.snapshot(&Transaction::new());
            let mut scan = heap.scan(snapshot, ReadAhead::default()).unwrap();
            scan.next_page(backend).unwrap().unwrap() as u64
        },
        |fixture, heap, backend| {
            let snapshot = fixture.xacts.snapshot(&Transaction::new());
            let mut scan = heap.scan(snapshot, ReadAhead::default()).unwrap();
            scan.count(backend, &Interrupt::new()).unwrap()
        },
        |fixture, heap, backend| {
            let snapshot = fixture.xacts.snapshot(&Transaction::new());
            let mut visibility = Visibility::new(snapshot, heap.outcomes.clone());
            let fetched = heap.fetch(backend, &mut visibility, ItemPointer::new(0, 1)).unwrap();
            fetched.map_or(0, |_| 3)
        },
    ];
    for read in reads {
        let plan = FaultPlan::new();
        let fixture = Fixture::over(open_faulty(&plan, MethodKind::Sync), 64);
        let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        fixture.load(&mut backend, &heap, 0..3);
        let heap = cold(&fixture, &mut backend, &heap);
        let held = plan.hold(Rule::on(Ops::READ).path("pg_xact"));
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(&fixture, &heap, &mut fixture.backend()));
            held.await_count(1);
            let pin = heap.pool.read(&mut backend, heap.tag(0), Strategy::Normal).unwrap();
            let free = pin.try_lock_exclusive().is_some();
            drop(pin);
            held.release();
            assert_eq!(reader.join().unwrap(), 3);
            assert!(free, "the page was locked during the read");
        });
    }
}

/// Changes the line pointer of the second row of block 0.
fn damage(backend: &mut Backend, heap: &Heap, change: impl FnOnce(ItemId) -> ItemId) {
    let pin = heap.pool.read(backend, heap.tag(0), Strategy::Normal).unwrap();
    let mut guard = pin.lock_exclusive();
    let id = guard.page().item_id(2).unwrap();
    guard.page_mut().set_item_id(2, change(id));
}

#[test]
fn a_damaged_page_is_reported_and_none_of_its_rows_is_returned() {
    type Damage = fn(ItemId) -> ItemId;
    let damages: [(&str, Damage); 3] = [
        ("leads out of the page", |id| ItemId { len: 0x7fff, ..id }),
        ("leads out of the page", |id| ItemId { offset: 16, ..id }),
        ("(block 0, offset 2 of base/5/16384)", |id| ItemId { len: 8, ..id }),
    ];
    for (text, change) in damages {
        let fixture = Fixture::new();
        let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        let rows = PER_PAGE as i64 + 3;
        fixture.load(&mut backend, &heap, 0..rows);
        damage(&mut backend, &heap, change);
        let scan = || {
            let snapshot = fixture.xacts.snapshot(&Transaction::new());
            heap.scan(snapshot, ReadAhead::default()).unwrap()
        };
        let mut rows_scan = scan();
        let error = rows_scan.next(&mut backend).unwrap_err();
        assert_eq!(error.sqlstate(), "XX001");
        assert!(error.to_string().contains(text), "{error}");
        let next = rows_scan.next(&mut backend).unwrap().map(|(_, tuple)| number_of(tuple));
        assert_eq!(next, Some(PER_PAGE as i64), "the scan goes on behind the page");

        let mut counted = scan();
        let interrupt = Interrupt::new();
        assert_eq!(sqlstate(counted.count(&mut backend, &interrupt)), "XX001");
        let next = counted.next(&mut backend).unwrap().map(|(_, tuple)| number_of(tuple));
        assert_eq!(next, Some(PER_PAGE as i64));
    }
}

/// Bytes that the pool has read.
fn bytes_read(fixture: &Fixture) -> u64 {
    let rows = fixture.aio.stats().snapshot();
    rows.iter().map(|row| row.get(IoOp::Read).bytes).sum()
}

/// A scan that begins where others are.
fn synchronized(fixture: &Fixture, heap: &Heap) -> HeapScan {
    let snapshot = fixture.xacts.snapshot(&Transaction::new());
    let visibility = Visibility::new(snapshot, heap.outcomes.clone());
    HeapScan::synchronized(heap, visibility, ReadAhead::default()).unwrap()
}

/// The number of the next page's first row; None at the end.
fn first_row(scan: &mut HeapScan, backend: &mut Backend) -> Option<i64> {
    scan.next_page(backend).unwrap().map(|_| number_of(scan.tuple(0)))
}

#[test]
fn scans_of_a_large_table_join_each_other_and_read_it_once() {
    join_each_other(1024);
}

#[test]
fn so_do_scans_of_a_table_of_five_pools() {
    join_each_other(2560);
}

/// The pages of the scans pass through a queue of 32 buffers, or stay for a while.
fn join_each_other(blocks: usize) {
    const POOL: usize = 512;
    let fixture = Fixture::with(MethodKind::Sync, POOL);
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..(PER_PAGE * blocks) as i64);
    fixture.write_all(&mut backend);
    fixture.pool.evict_all(&mut backend).unwrap();
    let before = bytes_read(&fixture);
    let mut first = synchronized(&fixture, &heap);
    let mut pages: Vec<i64> = Vec::new();
    while pages.len() < blocks / 2 {
        pages.push(first_row(&mut first, &mut backend).unwrap());
    }
    let mut second = synchronized(&fixture, &heap);
    let (mut first_pages, mut second_pages) = (pages, Vec::new());
    loop {
        let rows = [&mut first, &mut second].map(|scan| first_row(scan, &mut backend));
        first_pages.extend(rows[0]);
        second_pages.extend(rows[1]);
        if rows == [None, None] {
            break;
        }
    }
    let first_of = |block: usize| (block * PER_PAGE) as i64;
    let in_order: Vec<i64> = (0..blocks).map(first_of).collect();
    assert_eq!(first_pages, in_order);
    let joined = second_pages[0] as usize / PER_PAGE;
    assert!((blocks / 2 - 16..blocks / 2).contains(&joined), "it began at block {joined}");
    let around: Vec<i64> = (joined..blocks).chain(0..joined).map(first_of).collect();
    assert_eq!(second_pages, around);
    // The second scan reads for itself what the first one had read before, and what has left the
    // pool by the time it comes there.
    let read = (bytes_read(&fixture) - before) as usize / BLOCK_SIZE;
    assert!(read <= blocks * 3 / 2 + POOL, "{read} blocks were read");
    // The second ended last, and left the place where it began.
    let mut third = synchronized(&fixture, &heap);
    assert_eq!(first_row(&mut third, &mut backend), Some(first_of(joined)));
}

#[test]
fn a_scan_of_a_small_table_begins_at_its_first_block() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..(PER_PAGE * 60) as i64);
    let mut first = synchronized(&fixture, &heap);
    for _ in 0..33 {
        first_row(&mut first, &mut backend).unwrap();
    }
    assert_eq!(first_row(&mut synchronized(&fixture, &heap), &mut backend), Some(0));
}
