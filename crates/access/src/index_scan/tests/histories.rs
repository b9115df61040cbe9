//! Random histories: what old and new snapshots see through the index, step by step.

use super::*;

/// A row of the table: its place now.
type Known = (Row, ItemPointer);

/// A transaction at random: a few changes, committed or not.
fn change(table: &mut Table, rows: &mut Vec<Known>, next: &mut i64, random: &mut Random) {
    let mut tx = Transaction::new();
    let mut after = rows.clone();
    for _ in 0..1 + random.below(12) {
        let key = i64::from(random.below(60));
        *next += 1;
        tx.next_command().unwrap();
        match random.below(6) {
            0 | 1 => {
                let padding = random.below(300) as usize;
                let tid = table.insert(&mut tx, (key, *next), padding);
                after.push(((key, *next), tid));
            }
            kind if !after.is_empty() => {
                let n = random.below(after.len() as u32) as usize;
                let ((old, _), tid) = after[n];
                if kind == 2 {
                    after.swap_remove(n);
                    table.delete(&mut tx, tid);
                } else {
                    let row = (if kind == 3 { key } else { old }, *next);
                    after[n] = (row, table.update(&mut tx, tid, row));
                }
            }
            _ => {}
        }
    }
    if random.below(5) == 0 {
        table.abort(tx);
    } else {
        table.commit(tx);
        *rows = after;
    }
}

/// Conditions at random, with what they say.
fn conditions(table: &Table, random: &mut Random) -> (Vec<Condition>, Box<dyn Fn(i64) -> bool>) {
    let (a, b) = (i64::from(random.below(60)), i64::from(random.below(60)));
    match random.below(4) {
        0 => (Vec::new(), Box::new(|_| true)),
        1 => (vec![table.condition(Operator::Equal, a)], Box::new(move |key| key == a)),
        2 => {
            let bounds = [(Operator::GreaterOrEqual, a), (Operator::Less, b)];
            let bounds = bounds.map(|(operator, key)| table.condition(operator, key));
            (bounds.to_vec(), Box::new(move |key| key >= a && key < b))
        }
        _ => {
            let keys = [a, b, (a + b) / 2].map(Datum::Int8);
            let any = Condition::any_of(&table.index.shape, 0, &keys).unwrap();
            (vec![any], Box::new(move |key| [a, b, (a + b) / 2].contains(&key)))
        }
    }
}

fn check(table: &mut Table, snapshot: &Snapshot, rows: &[Row], random: &mut Random) {
    let (wanted, holds) = conditions(table, random);
    let mut expected: Vec<_> = rows.iter().copied().filter(|row| holds(row.0)).collect();
    expected.sort_unstable();
    let mut scan = table.scan(snapshot.clone(), wanted.clone(), ScanOptions::default());
    let forward = table.rest(&mut scan, Direction::Forward);
    assert!(forward.is_sorted_by_key(|row| row.0));
    let mut found = forward.clone();
    found.sort_unstable();
    assert_eq!(found, expected);
    let mut backward = table.rest(&mut scan, Direction::Backward);
    backward.reverse();
    assert_eq!(backward, forward);
    scan.rescan(wanted.clone(), None).unwrap();
    walk(table, &mut scan, &forward, random);

    let mut leaves =
        Leaves::new(table.index.scan(wanted, Default::default()), ReadAhead::default());
    let mut bitmap = TidBitmap::new(1 << 20);
    leaves.for_each(&mut table.backend, |tid| bitmap.add(tid, false)).unwrap();
    if random.below(3) == 0 {
        let blocks = table.heap.pool.nblocks(TABLE, Fork::Main).unwrap();
        bitmap.add_page(random.below(blocks));
    }
    let reader = table.reader(snapshot.clone());
    let interrupt = Interrupt::new();
    let mut scan = BitmapRows::new(&table.heap, bitmap, reader, ReadAhead::default(), interrupt);
    let mut found = Vec::new();
    while let Some((row, recheck)) = scan.next(&mut table.backend).unwrap() {
        let row = row_of(row.tuple);
        assert!(recheck || holds(row.0));
        found.extend(Some(row).filter(|row| holds(row.0)));
    }
    found.sort_unstable();
    assert_eq!(found, expected, "by a bitmap");
}

/// Goes in both directions at random, back to marks, while others insert rows.
fn walk(table: &mut Table, scan: &mut IndexRows, rows: &[Row], random: &mut Random) {
    let (mut place, mut mark) = (None, None);
    for _ in 0..8 {
        let direction = match random.below(3) {
            0 => Direction::Backward,
            _ => Direction::Forward,
        };
        let forward = direction == Direction::Forward;
        for _ in 0..random.below(rows.len() as u32 + 3) {
            let at = place.unwrap_or(if forward { -1 } else { rows.len() as i64 });
            let at = (if forward { at + 1 } else { at - 1 }).clamp(-1, rows.len() as i64);
            let found = table.step(scan, direction);
            assert_eq!(found.as_ref(), usize::try_from(at).ok().and_then(|at| rows.get(at)));
            place = Some(at);
        }
        match random.below(4) {
            0 => {
                scan.set_mark();
                mark = Some(place);
            }
            1 if mark.is_some() => {
                scan.go_to_mark().unwrap();
                place = mark.unwrap();
            }
            2 => {
                let mut tx = Transaction::new();
                for _ in 0..random.below(40) {
                    let key = i64::from(random.below(60));
                    table.insert(&mut tx, (key, -1), 0);
                }
                table.abort(tx);
            }
            _ => {}
        }
    }
}

#[test]
fn snapshots_see_their_rows_through_the_index() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut table = Table::new();
        let (mut rows, mut next) = (Vec::new(), 0);
        let mut snapshots: Vec<(Snapshot, Vec<Row>)> = Vec::new();
        for _ in 0..60 {
            change(&mut table, &mut rows, &mut next, &mut random);
            if random.below(3) == 0 {
                let seen = rows.iter().map(|row| row.0).collect();
                snapshots.push((table.snapshot(), seen));
            }
            if snapshots.len() > 3 {
                snapshots.swap_remove(random.below(4) as usize);
            }
            if random.below(4) == 0 {
                table.make_cold();
            }
            for (snapshot, seen) in &snapshots {
                check(&mut table, snapshot, seen, &mut random);
            }
            if random.below(8) == 0 {
                let now = table.snapshot();
                let seen: Vec<Row> = rows.iter().map(|row| row.0).collect();
                check(&mut table, &now, &seen, &mut random);
            }
        }
        assert!(table.fixture.failures.all().is_empty());
    }
}
