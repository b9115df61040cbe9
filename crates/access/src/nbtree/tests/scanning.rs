//! Scans, compared with a model.

use std::cmp::Ordering;

use super::checker::entries;
use super::*;

type Row = (Vec<Datum<'static>>, ItemPointer);

/// Orders two values as a column does.
fn order(key: &KeyColumn, a: &Datum<'_>, b: &Datum<'_>) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if key.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) => order(key, b, a).reverse(),
        (false, false) => {
            let order = forebay_types::compare(a, b).unwrap();
            if key.descending { order.reverse() } else { order }
        }
    }
}

fn sorted(shape: &IndexShape, mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|(a, m), (b, n)| {
        let columns = shape.keys.iter().zip(a.iter().zip(b));
        columns
            .fold(Ordering::Equal, |o, (k, (a, b))| o.then_with(|| order(k, a, b)))
            .then(m.cmp(n))
    });
    rows
}

fn holds(operator: Operator, value: &Datum<'_>, with: &Datum<'_>) -> bool {
    match operator {
        Operator::IsNull => return value.is_null(),
        Operator::IsNotNull => return !value.is_null(),
        _ if value.is_null() || with.is_null() => return false,
        _ => {}
    }
    let order = forebay_types::compare(value, with).unwrap();
    match operator {
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Equal => order.is_eq(),
        Operator::GreaterOrEqual => order.is_ge(),
        _ => order.is_gt(),
    }
}

const OPERATORS: [Operator; 7] = [
    Operator::Less,
    Operator::LessOrEqual,
    Operator::Equal,
    Operator::GreaterOrEqual,
    Operator::Greater,
    Operator::IsNull,
    Operator::IsNotNull,
];

fn all_of(cursor: &mut IndexCursor, backend: &mut Backend, to: Direction) -> Vec<ItemPointer> {
    std::iter::from_fn(|| cursor.next(backend, to).unwrap()).collect()
}

/// Inserts rows and runs random scans over them.
fn check_scans(shape: IndexShape, rows: Vec<Row>, random: &mut Random, scans: usize) {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape);
    for (values, tid) in &rows {
        assert_eq!(insert(&index, &mut backend, values, *tid), Insertion::Done);
    }
    let rows = sorted(&index.shape, rows);
    let places: Vec<_> = entries(&index, &mut backend).into_iter().map(|entry| entry.1).collect();
    assert_eq!(places, rows.iter().map(|row| row.1).collect::<Vec<_>>(), "the tree's order");
    for _ in 0..scans {
        let conditions: Vec<_> = (0..random.below(4))
            .map(|_| {
                let column = random.below(index.shape.keys.len() as u32) as usize;
                let operator = OPERATORS[random.below(7) as usize];
                let with = rows[random.below(rows.len() as u32) as usize].0[column].clone();
                (column, operator, with)
            })
            .collect();
        let wanted: Vec<_> = rows
            .iter()
            .filter(|row| conditions.iter().all(|(c, o, with)| holds(*o, &row.0[*c], with)))
            .map(|row| row.1)
            .collect();
        let prepared = conditions
            .iter()
            .map(|(c, o, with)| Condition::new(&index.shape, *c, *o, with).unwrap())
            .collect();
        let mut cursor = IndexCursor::new(index.scan(prepared, BatchOptions::default()));
        let forward = all_of(&mut cursor, &mut backend, Direction::Forward);
        assert_eq!(forward, wanted, "{conditions:?}");
        // At the end the cursor turns around.
        let mut backward = all_of(&mut cursor, &mut backend, Direction::Backward);
        backward.reverse();
        assert_eq!(backward, wanted, "back from the end: {conditions:?}");
        let mut cursor = IndexCursor::new(cursor.into_scan());
        let mut backward = all_of(&mut cursor, &mut backend, Direction::Backward);
        backward.reverse();
        assert_eq!(backward, wanted, "backward: {conditions:?}");
    }
    assert!(fixture.failures.all().is_empty());
}

#[test]
fn scans_of_numbers() {
    for (descending, nulls_first) in [(false, false), (true, true), (false, true), (true, false)] {
        let mut random = Random(3);
        let mut shape = shape(&[oids::INT8]);
        shape.keys[0] = KeyColumn { descending, nulls_first, ..shape.keys[0].clone() };
        let rows = (0..3000).map(|n| match random.below(1500) {
            value if value % 10 == 0 => (vec![Datum::Null], tid(n)),
            value => (vec![Datum::Int8(i64::from(value))], tid(n)),
        });
        let rows = rows.collect();
        check_scans(shape, rows, &mut random, 60);
    }
}

#[test]
fn scans_of_several_columns() {
    let mut random = Random(4);
    let mut shape = shape(&[oids::INT4, oids::TEXT, oids::NUMERIC]);
    shape.keys[1].descending = true;
    shape.keys[2].nulls_first = true;
    let value = |random: &mut Random, column| match (random.below(8), column) {
        (0, _) => Datum::Null,
        (_, 0) => Datum::Int4(random.below(5) as i32),
        (_, 1) => {
            let length = random.below(40) as usize;
            let text = "forebay holds water ".repeat(3);
            Datum::string(text[..length].to_owned())
        }
        _ => {
            let digits = i64::from(random.below(50));
            Datum::numeric(forebay_types::Numeric::Finite { digits: digits.into(), scale: 1 })
        }
    };
    let rows = (0..4000)
        .map(|n| ((0..3).map(|column| value(&mut random, column)).collect(), tid(n)))
        .collect();
    check_scans(shape, rows, &mut random, 150);
}

#[test]
fn scans_of_long_texts() {
    let mut random = Random(5);
    let rows = (0..1500)
        .map(|n| {
            let length = random.below(900) as usize;
            let first = char::from(b'a' + random.below(26) as u8);
            (vec![Datum::string(first.to_string().repeat(length))], tid(n))
        })
        .collect();
    check_scans(shape(&[oids::TEXT]), rows, &mut random, 60);
}

#[test]
fn a_cursor_turns_around_and_goes_back_to_its_mark() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..2000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let at_least = |n| Condition::new(&index.shape, 0, Operator::GreaterOrEqual, &Datum::Int4(n));
    let options = BatchOptions { pin: true, tuples: true };
    let mut cursor = IndexCursor::new(index.scan(vec![at_least(500).unwrap()], options));
    let (up, down) = (Direction::Forward, Direction::Backward);
    let mut step = |cursor: &mut IndexCursor, to| cursor.next(&mut backend, to).unwrap();
    assert_eq!(step(&mut cursor, up), Some(tid(500)));
    assert_eq!(step(&mut cursor, up), Some(tid(501)));
    cursor.set_mark();
    assert_eq!(cursor.upcoming(up).next(), Some(tid(502)));
    for n in 502..1500 {
        assert_eq!(step(&mut cursor, up), Some(tid(n)));
    }
    let tuple = cursor.tuple().unwrap();
    assert_eq!(tuple.heap_tid(), Some(tid(1499)));
    for n in (1000..1499).rev() {
        assert_eq!(step(&mut cursor, down), Some(tid(n)));
    }
    cursor.go_to_mark();
    assert_eq!(step(&mut cursor, down), Some(tid(500)));
    assert_eq!(step(&mut cursor, down), None);
    assert_eq!(step(&mut cursor, down), None);
    assert_eq!(step(&mut cursor, up), Some(tid(500)));
    cursor.restart(vec![at_least(1999).unwrap()]);
    assert_eq!(step(&mut cursor, up), Some(tid(1999)));
    assert_eq!(step(&mut cursor, up), None);
    cursor.restart(vec![at_least(2000).unwrap()]);
    assert_eq!(step(&mut cursor, up), None);
}

#[test]
fn killed_items_are_passed_over_and_removed_before_a_split() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..300 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let scan = index.scan(Vec::new(), BatchOptions::default());
    let batch = scan.first(&mut backend, Direction::Forward).unwrap().unwrap();
    let even: Vec<usize> = (0..300).step_by(2).collect();
    scan.kill(&batch, &even).unwrap();
    let left: Vec<_> = entries(&index, &mut backend).into_iter().map(|entry| entry.1).collect();
    assert_eq!(left, (1..300).step_by(2).map(tid).collect::<Vec<_>>());
    // A page that has changed is left alone.
    insert(&index, &mut backend, &[Datum::Int4(1000)], tid(1000));
    scan.kill(&batch, &[1]).unwrap();
    let batch = scan.first(&mut backend, Direction::Forward).unwrap().unwrap();
    assert_eq!(batch.items().len(), 151);
    for n in 300..550 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let (levels, rows) = checker::pages_of(&index, &mut backend).check();
    assert_eq!((levels.len(), rows.len()), (1, 401), "the page was not split");
    assert!(fixture.failures.all().is_empty());
}
