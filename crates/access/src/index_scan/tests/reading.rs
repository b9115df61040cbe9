//! What scans read: how far ahead, how little with a LIMIT, nothing if all is in memory.

use super::*;

const ROWS: i64 = 4000;

/// A shuffled table, three rows to a page, in a pool that could hold it.
fn shuffled_table() -> Table {
    let mut table = Table::over(Fixture::with(MethodKind::Deferred { seed: 1 }, 2048));
    table.load(shuffled(ROWS, &mut Random(2)), 2400);
    table
}

fn all() -> Vec<Row> {
    (0..ROWS).map(|key| (key, key)).collect()
}

#[test]
fn a_cold_scan_reads_ahead_in_both_directions() {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut table = shuffled_table();
        table.make_cold();
        let snapshot = table.snapshot();
        let mut scan = table.scan(snapshot, Vec::new(), ScanOptions::default());
        let mut rows = table.rest(&mut scan, direction);
        if direction == Direction::Backward {
            rows.reverse();
        }
        assert_eq!(rows, all());
        let stats = scan.stats();
        assert!(stats.heap.distance_max >= 16, "{stats:?}");
        assert!(stats.heap.waits * 2 < stats.heap.reads, "{stats:?}");
        assert!(stats.leaves_ahead + 3 >= stats.leaves, "{stats:?}");
    }
}

#[test]
fn a_scan_of_what_is_in_memory_does_not_look_ahead() {
    let mut table = shuffled_table();
    let snapshot = table.snapshot();
    let before = table.reads();
    let mut scan = table.scan(snapshot, Vec::new(), ScanOptions::default());
    for n in 0..ROWS {
        assert_eq!(table.step(&mut scan, Direction::Forward), Some((n, n)));
        let leaves = scan.stats().leaves;
        assert!(leaves <= n as u64 / 100 + 1, "{leaves} leaves for {n} rows");
    }
    let stats = scan.stats();
    assert_eq!((table.reads(), stats.heap.reads, stats.heap.waits), (before, 0, 0));
    assert_eq!((stats.heap.distance_max, stats.leaves_ahead), (1, 0));
    assert_eq!(stats.heap.returned, stats.heap.hits);
}

#[test]
fn a_limit_reads_little_in_vain() {
    for limit in [None, Some(10)] {
        let mut table = shuffled_table();
        let levels = 3;
        table.make_cold();
        let snapshot = table.snapshot();
        let before = table.reads();
        let from = vec![table.condition(Operator::GreaterOrEqual, 1000)];
        let options = ScanOptions { limit, ..ScanOptions::default() };
        let mut scan = table.scan(snapshot, from, options);
        for n in 1000..1010 {
            assert_eq!(table.step(&mut scan, Direction::Forward), Some((n, n)));
        }
        let read = table.reads() - before;
        let most = 10 + levels + if limit.is_some() { 0 } else { 8 };
        assert!(read <= most, "{read} pages for ten rows, {:?}", scan.stats());
    }
}

#[test]
fn a_rescan_gives_up_what_was_read_ahead() {
    let mut table = shuffled_table();
    table.make_cold();
    let snapshot = table.snapshot();
    let mut scan = table.scan(snapshot, Vec::new(), ScanOptions::default());
    for n in 0..200 {
        assert_eq!(table.step(&mut scan, Direction::Forward), Some((n, n)));
    }
    for key in [3000, 17, 2500] {
        scan.rescan(vec![table.condition(Operator::Equal, key)], Some(1)).unwrap();
        let before = table.reads();
        assert_eq!(table.rest(&mut scan, Direction::Forward), [(key, key)]);
        assert!(table.reads() - before <= 3);
    }
}

#[test]
fn no_page_stays_pinned_between_calls() {
    let mut table = shuffled_table();
    table.mark_visible(2);
    let snapshot = table.snapshot();
    for entries_only in [false, true] {
        let options = ScanOptions { entries_only, ..ScanOptions::default() };
        let mut scan = table.scan(snapshot.clone(), Vec::new(), options);
        for n in 0..1000 {
            if n == 400 {
                scan.set_mark();
            }
            assert!(scan.next(&mut table.backend, Direction::Forward).unwrap().is_some());
            let pinned = table.fixture.pool.summary().pinned;
            assert_eq!(pinned, 0);
        }
    }
}

#[test]
fn entries_alone_need_no_rows_on_pages_that_everybody_sees() {
    let mut table = shuffled_table();
    table.mark_visible(1);
    let mut late = Transaction::new();
    let invisible = table.insert(&mut late, (1234, -1), 2400);
    let snapshot = table.snapshot();
    let options = ScanOptions { entries_only: true, ..ScanOptions::default() };
    let mut scan = table.scan(snapshot, Vec::new(), options);
    let mut keys = Vec::new();
    while let Some(row) = scan.next(&mut table.backend, Direction::Forward).unwrap() {
        keys.push(table.key_of(row.tuple));
    }
    assert_eq!(keys, (0..ROWS).collect::<Vec<_>>());
    let stats = scan.stats();
    assert!(stats.all_visible + 3 >= ROWS as u64, "{stats:?}");
    assert!(stats.heap.returned <= 4, "the page of {invisible} and what is next to it: {stats:?}");
    table.abort(late);
}

#[test]
fn entries_of_rows_that_nobody_sees_are_killed() {
    let mut table = Table::new();
    table.load(0..100, 0);
    let mut tx = Transaction::new();
    for number in 0..100 {
        let tid = ItemPointer::new(0, number as u16 + 1);
        if number % 2 == 0 {
            table.delete(&mut tx, tid);
        }
    }
    let old = table.snapshot();
    table.commit(tx);
    let left: Vec<Row> = (0..100).filter(|key| key % 2 == 1).map(|key| (key, key)).collect();
    let killed = |table: &mut Table| {
        let scan = table.index.scan(Vec::new(), Default::default());
        let batch = scan.first(&mut table.backend, Direction::Forward).unwrap().unwrap();
        100 - batch.items().len()
    };
    let read = |table: &mut Table, snapshot| {
        let mut scan = table.scan(snapshot, Vec::new(), ScanOptions::default());
        table.rest(&mut scan, Direction::Forward)
    };
    let now = table.snapshot();
    assert_eq!(read(&mut table, now), left);
    assert_eq!(killed(&mut table), 0, "an older snapshot sees them");
    assert_eq!(read(&mut table, old).len(), 100);
    // That was the last one which did.
    let now = table.snapshot();
    assert_eq!(read(&mut table, now), left);
    assert_eq!(killed(&mut table), 50);
}

#[test]
fn leaves_of_a_long_range_are_read_ahead() {
    let mut table = Table::over(Fixture::with(MethodKind::Deferred { seed: 3 }, 2048));
    table.load(shuffled(30_000, &mut Random(5)), 0);
    table.mark_visible(1);
    for direction in [Direction::Forward, Direction::Backward] {
        table.make_cold();
        let snapshot = table.snapshot();
        let options = ScanOptions { entries_only: true, ..ScanOptions::default() };
        let mut scan = table.scan(snapshot, Vec::new(), options);
        let mut rows = 0;
        while scan.next(&mut table.backend, direction).unwrap().is_some() {
            rows += 1;
        }
        let stats = scan.stats();
        assert_eq!((rows, stats.all_visible), (30_000, 30_000));
        assert!(stats.leaves > 80 && stats.leaves_ahead + 4 >= stats.leaves, "{stats:?}");
        assert!(stats.leaves_ahead <= stats.leaves, "{stats:?}");
    }
}
