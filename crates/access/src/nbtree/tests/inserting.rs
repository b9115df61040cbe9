//! Insertion, checked by the structure of the pages.

use super::checker::{entries, pages_of};
use super::*;

/// Inserts numbers, and checks that they are all there, in order.
fn check_numbers(numbers: impl IntoIterator<Item = i32>) -> Vec<checker::Level> {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut model = BTreeMap::new();
    for (n, number) in numbers.into_iter().enumerate() {
        let tid = tid(n as u32);
        assert_eq!(insert(&index, &mut backend, &[Datum::Int4(number)], tid), Insertion::Done);
        model.insert((number, tid), ());
    }
    let (levels, found) = pages_of(&index, &mut backend).check();
    let number = |entry: &checker::Entry| {
        i32::from_le_bytes(entry.0[0].clone().unwrap().try_into().unwrap())
    };
    let found: Vec<_> = found.iter().map(|entry| (number(entry), entry.1)).collect();
    assert_eq!(found, model.into_keys().collect::<Vec<_>>());
    assert!(fixture.failures.all().is_empty());
    levels
}

#[test]
fn an_empty_index_has_no_rows() {
    let fixture = Fixture::new();
    let index = index(&fixture, shape(&[oids::INT4]));
    assert_eq!(entries(&index, &mut fixture.backend()), []);
}

#[test]
fn growing_numbers_fill_leaves_to_the_fill_factor() {
    let levels = check_numbers(0..20_000);
    // 8152 bytes of items, 20 each, at 90 percent: 366 rows and a high key on a page.
    assert_eq!(levels.len(), 2);
    assert_eq!(levels[1].pages, 20_000_usize.div_ceil(366));
}

#[test]
fn shrinking_numbers_split_leaves_in_the_middle() {
    let levels = check_numbers((0..20_000).rev());
    assert!((98..=100).contains(&levels[1].pages), "{levels:?}");
}

#[test]
fn random_numbers_are_in_order() {
    let mut random = Random(1);
    let levels = check_numbers((0..20_000).map(|_| random.below(1 << 30) as i32));
    assert!((60..100).contains(&levels[1].pages), "{levels:?}");
}

#[test]
fn duplicates_share_tuples() {
    let mut random = Random(2);
    let levels = check_numbers((0..20_000).map(|_| random.below(50) as i32));
    assert!(levels[1].lists > 50, "{levels:?}");
    assert!(levels[1].pages < 30, "{levels:?}");
}

#[test]
fn one_value_fills_pages() {
    let levels = check_numbers((0..20_000).map(|_| 7));
    // Lists of 216 rows, six of them on a page.
    assert!((15..=18).contains(&levels[1].pages), "{levels:?}");
}
