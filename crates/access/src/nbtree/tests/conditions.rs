//! Conditions of all kinds over several columns, compared with a model: arrays, rows, gaps.

use std::cmp::Ordering;

use super::*;

/// The values of a row's columns. None: NULL.
type Key = Vec<Option<i32>>;

/// A condition, as the model understands it.
#[derive(Debug, Clone)]
enum Wish {
    Compare(usize, Operator, i64),
    AnyOf(usize, Vec<Option<i64>>),
    Row(Vec<usize>, Operator, Vec<Option<i64>>),
}

/// An ordering of rows: None if NULLs leave it unknown.
fn compare_rows(columns: &[usize], row: &Key, with: &[Option<i64>]) -> Option<Ordering> {
    for (&column, with) in columns.iter().zip(with) {
        match i64::from(row[column]?).cmp(&(*with)?) {
            Ordering::Equal => {}
            order => return Some(order),
        }
    }
    Some(Ordering::Equal)
}

fn accepts(operator: Operator, order: Option<Ordering>) -> bool {
    order.is_some_and(|order| match operator {
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Equal => order.is_eq(),
        Operator::GreaterOrEqual => order.is_ge(),
        Operator::Greater => order.is_gt(),
        Operator::IsNull | Operator::IsNotNull => unreachable!(),
    })
}

impl Wish {
    fn random(random: &mut Random, columns: usize, values: u32) -> Wish {
        const ORDERS: [Operator; 4] =
            [Operator::Less, Operator::LessOrEqual, Operator::GreaterOrEqual, Operator::Greater];
        let column = random.below(columns as u32) as usize;
        let value = |random: &mut Random| match random.below(40) {
            0 => i64::from(i32::MAX) + 5,
            1 => i64::from(i32::MIN) - 5,
            _ => i64::from(random.below(values + 2)) - 1,
        };
        let nullable = |random: &mut Random| match random.below(12) {
            0 => None,
            _ => Some(value(random)),
        };
        match random.below(8) {
            0 => Wish::Compare(column, Operator::IsNull, 0),
            1 => Wish::Compare(column, Operator::IsNotNull, 0),
            2 | 3 => Wish::Compare(column, Operator::Equal, value(random)),
            4 => Wish::Compare(column, ORDERS[random.below(4) as usize], value(random)),
            5 | 6 => {
                let count = random.below(6);
                Wish::AnyOf(column, (0..count).map(|_| nullable(random)).collect())
            }
            _ => {
                let mut all: Vec<usize> = (0..columns).collect();
                let first = if random.below(4) == 0 { column } else { 0 };
                all.rotate_left(first);
                all.truncate(1 + random.below(columns as u32) as usize);
                let operator = ORDERS[random.below(4) as usize];
                let values = all.iter().map(|_| nullable(random)).collect();
                Wish::Row(all, operator, values)
            }
        }
    }

    fn holds(&self, row: &Key) -> bool {
        match self {
            Wish::Compare(column, Operator::IsNull, _) => row[*column].is_none(),
            Wish::Compare(column, Operator::IsNotNull, _) => row[*column].is_some(),
            Wish::Compare(column, operator, with) => {
                accepts(*operator, compare_rows(&[*column], row, &[Some(*with)]))
            }
            Wish::AnyOf(column, values) => {
                row[*column].is_some_and(|value| values.contains(&Some(i64::from(value))))
            }
            Wish::Row(columns, operator, values) => {
                accepts(*operator, compare_rows(columns, row, values))
            }
        }
    }

    fn conditions(&self, shape: &IndexShape) -> Vec<Condition> {
        let datum = |value: Option<i64>| value.map_or(Datum::Null, Datum::Int8);
        match self {
            Wish::Compare(column, operator, value) => {
                vec![Condition::new(shape, *column, *operator, &Datum::Int8(*value)).unwrap()]
            }
            Wish::AnyOf(column, values) => {
                let values: Vec<_> = values.iter().copied().map(datum).collect();
                vec![Condition::any_of(shape, *column, &values).unwrap()]
            }
            Wish::Row(columns, operator, values) => {
                let values: Vec<_> = values.iter().copied().map(datum).collect();
                Condition::row(shape, columns, *operator, &values).unwrap()
            }
        }
    }
}

/// Orders keys as the index does.
fn in_order(shape: &IndexShape, a: &Key, b: &Key) -> Ordering {
    let columns = shape.keys.iter().zip(a.iter().zip(b));
    columns.fold(Ordering::Equal, |order, (key, (a, b))| {
        order.then_with(|| {
            let stored = [a, b].map(|value| value.map(i32::to_le_bytes));
            key.compare(
                stored[0].as_ref().map(<[u8; 4]>::as_slice),
                stored[1].as_ref().map(<[u8; 4]>::as_slice),
            )
            .unwrap()
        })
    })
}

/// Walks at random in both directions, and compares each step.
fn walk(
    cursor: &mut IndexCursor,
    backend: &mut Backend,
    wanted: &[ItemPointer],
    random: &mut Random,
) {
    let mut place = None;
    for _ in 0..6 {
        let forward = random.below(2) == 0;
        let to = if forward { Direction::Forward } else { Direction::Backward };
        let mut at = place.unwrap_or(if forward { -1 } else { wanted.len() as i64 });
        for _ in 0..random.below(wanted.len() as u32 + 3) {
            let found = cursor.next(backend, to).unwrap();
            at = (if forward { at + 1 } else { at - 1 }).clamp(-1, wanted.len() as i64);
            let expected = usize::try_from(at).ok().and_then(|at| wanted.get(at));
            assert_eq!(found.as_ref(), expected, "{at} of {}", wanted.len());
            place = Some(at);
        }
    }
}

fn check(shape: IndexShape, rows: usize, values: u32, nulls: bool, seed: u64, scans: usize) {
    let columns = shape.keys.len();
    let mut random = Random(seed);
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape);
    let mut all: Vec<(Key, ItemPointer)> = (0..rows as u32)
        .map(|n| {
            let value = |random: &mut Random| match random.below(9) {
                0 if nulls => None,
                _ => Some(random.below(values) as i32),
            };
            ((0..columns).map(|_| value(&mut random)).collect(), tid(n))
        })
        .collect();
    for (key, tid) in &all {
        let values: Vec<_> =
            key.iter().map(|value| value.map_or(Datum::Null, Datum::Int4)).collect();
        insert(&index, &mut backend, &values, *tid);
    }
    all.sort_by(|(a, m), (b, n)| in_order(&index.shape, a, b).then(m.cmp(n)));
    for _ in 0..scans {
        let wishes: Vec<_> =
            (0..1 + random.below(3)).map(|_| Wish::random(&mut random, columns, values)).collect();
        let wanted: Vec<_> = all
            .iter()
            .filter(|row| wishes.iter().all(|wish| wish.holds(&row.0)))
            .map(|row| row.1)
            .collect();
        let conditions =
            wishes.iter().flat_map(|wish| wish.conditions(&index.shape)).collect::<Vec<_>>();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor =
                IndexCursor::new(index.scan(conditions.clone(), BatchOptions::default()));
            let mut found: Vec<_> =
                std::iter::from_fn(|| cursor.next(&mut backend, direction).unwrap()).collect();
            if direction == Direction::Backward {
                found.reverse();
            }
            assert_eq!(found, wanted, "{direction:?}: {wishes:?}");
        }
        let mut cursor = IndexCursor::new(index.scan(conditions, BatchOptions::default()));
        walk(&mut cursor, &mut backend, &wanted, &mut random);
    }
}

fn shape_of(columns: &[(bool, bool)]) -> IndexShape {
    let mut shape = shape(&vec![oids::INT4; columns.len()]);
    for (key, (descending, nulls_first)) in shape.keys.iter_mut().zip(columns) {
        (key.descending, key.nulls_first) = (*descending, *nulls_first);
    }
    shape
}

#[test]
fn conditions_on_columns_with_few_values() {
    check(shape_of(&[(false, false); 3]), 3000, 6, true, 11, 150);
    check(shape_of(&[(true, true), (false, true), (true, false)]), 2000, 6, true, 12, 150);
}

#[test]
fn conditions_on_columns_with_many_values() {
    check(shape_of(&[(false, false), (false, false)]), 4000, 300, true, 13, 100);
    check(shape_of(&[(false, false), (true, true)]), 4000, 40, false, 14, 100);
    check(shape_of(&[(false, false)]), 4000, 1000, true, 15, 100);
}

/// Rows (a, b) with a below `groups`, b below `each`.
fn pairs(fixture: &Fixture, groups: i32, each: i32) -> Index {
    let index = index(fixture, shape(&[oids::INT4, oids::INT4]));
    let mut backend = fixture.backend();
    for n in 0..groups * each {
        let values = [Datum::Int4(n / each), Datum::Int4(n % each)];
        insert(&index, &mut backend, &values, tid(n as u32));
    }
    index
}

/// Counts the batches of a scan, and the items in them.
fn batches(index: &Index, backend: &mut Backend, conditions: Vec<Condition>) -> (usize, usize) {
    let scan = index.scan(conditions, BatchOptions::default());
    let mut next = scan.first(backend, Direction::Forward).unwrap();
    let (mut batches, mut items) = (0, 0);
    while let Some(batch) = next {
        (batches, items) = (batches + 1, items + batch.items().len());
        next = scan.next(backend, &batch, Direction::Forward).unwrap();
    }
    (batches, items)
}

#[test]
fn values_that_are_near_are_found_on_the_same_leaf() {
    let fixture = Fixture::new();
    let index = pairs(&fixture, 1, 20_000);
    let mut backend = fixture.backend();
    let zero = Condition::new(&index.shape, 0, Operator::Equal, &Datum::Int4(0)).unwrap();
    let some = |step: usize| {
        let values: Vec<_> = (0..20_000).step_by(step).map(Datum::Int4).collect();
        vec![zero.clone(), Condition::any_of(&index.shape, 1, &values).unwrap()]
    };
    let leaves = batches(&index, &mut backend, Vec::new()).0;
    assert_eq!(batches(&index, &mut backend, some(10)), (leaves, 2000));
    let (far, items) = batches(&index, &mut backend, some(4000));
    assert_eq!((far, items), (5, 5), "one leaf for each value, of {leaves}");
}

#[test]
fn a_missing_first_column_is_skipped() {
    let fixture = Fixture::new();
    let index = pairs(&fixture, 5, 4000);
    let mut backend = fixture.backend();
    let seven = Condition::new(&index.shape, 1, Operator::Equal, &Datum::Int4(7)).unwrap();
    let before = fixture.looks();
    assert_eq!(batches(&index, &mut backend, vec![seven]), (5, 5));
    let pages = fixture.looks() - before;
    assert!(pages < 50, "{pages} pages were looked at");
}

#[test]
fn contradictory_conditions_read_nothing() {
    let fixture = Fixture::new();
    let index = pairs(&fixture, 2, 10);
    let mut backend = fixture.backend();
    let condition = |column, operator, value| {
        Condition::new(&index.shape, column, operator, &Datum::Int8(value)).unwrap()
    };
    let before = fixture.looks();
    let (less, greater) = (condition(1, Operator::Less, 3), condition(1, Operator::Greater, 7));
    assert_eq!(batches(&index, &mut backend, vec![less, greater]), (0, 0));
    let never = condition(0, Operator::Equal, 1 << 40);
    assert_eq!(batches(&index, &mut backend, vec![never]), (0, 0));
    let none = Condition::any_of(&index.shape, 0, &[Datum::Null]).unwrap();
    assert_eq!(batches(&index, &mut backend, vec![none]), (0, 0));
    assert_eq!(fixture.looks(), before);
}
