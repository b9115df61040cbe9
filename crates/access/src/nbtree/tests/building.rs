//! Building indexes from sorted rows.

use super::checker::pages_of;
use super::*;

pub(super) fn build(index: &Index, backend: &mut Backend, mut tuples: Vec<Vec<u8>>) {
    tuples.sort_by(|a, b| index.shape.compare_rows(a, b, true).unwrap());
    let mut build = index.build(backend, false).unwrap();
    tuples.iter().for_each(|tuple| build.push(backend, tuple).unwrap());
    build.finish(backend).unwrap();
}

fn new(fixture: &Fixture, shape: IndexShape) -> Index {
    fixture.pool.smgr().create(INDEX, Fork::Main, true).unwrap();
    open(fixture, shape)
}

#[test]
fn a_built_index_has_as_many_pages_as_postgresql_s() {
    let fixture = Fixture::with(forebay_aio::MethodKind::Sync, 1024);
    let mut backend = fixture.backend();
    let index = new(&fixture, shape(&[oids::INT4]));
    let tuple = |n| form_index_tuple(&index.shape, &[Datum::Int4(n)], tid(n as u32)).unwrap();
    build(&index, &mut backend, (0..100_000).map(tuple).collect());
    let pages = pages_of(&index, &mut backend);
    assert_eq!(pages.pages.len(), 276, "as pgbench_accounts_pkey at scale 1");
    let (levels, rows) = pages.check();
    assert_eq!((levels.len(), rows.len()), (2, 100_000));
    assert_eq!(levels[1].pages, 274);
}

#[test]
fn an_index_without_rows_is_built() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = new(&fixture, shape(&[oids::INT4]));
    build(&index, &mut backend, Vec::new());
    assert_eq!(pages_of(&index, &mut backend).check().1.len(), 0);
    insert(&index, &mut backend, &[Datum::Int4(1)], tid(1));
    assert_eq!(pages_of(&index, &mut backend).check().1.len(), 1);
}

#[test]
fn a_built_index_takes_more_rows_and_is_recovered() {
    for (deduplicate, values) in [(true, 40), (false, 40), (true, 100_000)] {
        let fixture = Fixture::with(forebay_aio::MethodKind::Sync, 1024);
        let mut backend = fixture.backend();
        let shape = IndexShape { deduplicate, ..shape(&[oids::TEXT, oids::INT4]) };
        let index = new(&fixture, shape);
        let mut random = Random(9);
        let mut row = |n: u32| {
            let number = random.below(values);
            let text = Datum::string("k".repeat(1 + number as usize % 300));
            ([text, Datum::Int4(number as i32)], tid(n))
        };
        let tuples = (0..8000).map(&mut row);
        let tuples = tuples.map(|(row, tid)| form_index_tuple(&index.shape, &row, tid).unwrap());
        let tuples = tuples.collect();
        build(&index, &mut backend, tuples);
        let (levels, rows) = pages_of(&index, &mut backend).check();
        assert_eq!(rows.len(), 8000);
        let lists = levels.last().unwrap().lists;
        assert_eq!(lists > 0, deduplicate, "{levels:?}");
        for n in 8000..12_000 {
            let (values, place) = row(n);
            insert(&index, &mut backend, &values, place);
        }
        assert_eq!(pages_of(&index, &mut backend).check().1.len(), 12_000);
        recovery::check_redo(&fixture, &index);
    }
}
