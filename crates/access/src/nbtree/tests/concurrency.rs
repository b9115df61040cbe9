//! Threads that insert and scan one index at the same time.

use std::collections::BTreeSet;

use forebay_aio::MethodKind;
use forebay_aio::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_aio::sync::thread;

use super::checker::pages_of;
use super::*;

const WRITERS: u32 = 4;

/// Writers insert numbers of their own while scans go both ways: each scan must return, in order,
/// all rows that were there before it began, and none twice.
fn insert_and_scan(rounds: u32, spread: u32) {
    let fixture = Fixture::with(MethodKind::Sync, 1024);
    let index = index(&fixture, shape(&[oids::INT4]));
    let done: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    let all_done = AtomicBool::new(false);
    let key_of = |writer: u32, n: u32| {
        let number = writer + WRITERS * n;
        number.wrapping_mul(2_654_435_761) % spread
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (fixture, index, done) = (&fixture, &index, &done);
                scope.spawn(move || {
                    let mut backend = fixture.backend();
                    for n in 0..rounds {
                        let key = [Datum::Int4(key_of(writer, n) as i32)];
                        let place = tid(writer + WRITERS * n);
                        assert_eq!(insert(index, &mut backend, &key, place), Insertion::Done);
                        done[writer as usize].store(n as usize + 1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            let (fixture, index, done, all_done) = (&fixture, &index, &done, &all_done);
            scope.spawn(move || {
                let mut backend = fixture.backend();
                let mut scans = 0;
                while !all_done.load(Ordering::SeqCst) || scans == 0 {
                    let before: Vec<_> = done.iter().map(|n| n.load(Ordering::SeqCst)).collect();
                    let options = BatchOptions { pin: false, tuples: true };
                    let mut cursor = IndexCursor::new(index.scan(Vec::new(), options));
                    let mut seen = BTreeSet::new();
                    let mut last = None;
                    while let Some(place) = cursor.next(&mut backend, direction).unwrap() {
                        let number = place.block * 100 + u32::from(place.offset) - 1;
                        let key = key_of(number % WRITERS, number / WRITERS);
                        let ordered = match direction {
                            Direction::Forward => last < Some((key, place)),
                            Direction::Backward => last.is_none_or(|last| last > (key, place)),
                        };
                        assert!(ordered, "{direction:?}: {last:?} before {:?}", (key, place));
                        last = Some((key, place));
                        assert!(seen.insert(number));
                    }
                    for (writer, &count) in (0..).zip(&before) {
                        for n in 0..count as u32 {
                            let number = writer + WRITERS * n;
                            assert!(seen.contains(&number), "{direction:?} misses {number}");
                        }
                    }
                    scans += 1;
                }
            });
        }
        let finished: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        all_done.store(true, Ordering::SeqCst);
        finished.into_iter().for_each(|result| result.unwrap());
    });
    let (levels, rows) = pages_of(&index, &mut fixture.backend()).check();
    assert_eq!(rows.len() as u32, WRITERS * rounds);
    assert!(levels[0].incomplete == 0 && levels.len() > 1);
    assert!(fixture.failures.all().is_empty());
}

#[test]
fn scans_find_what_was_there_while_leaves_split() {
    insert_and_scan(4000, 1 << 30);
}

#[test]
fn scans_find_what_was_there_while_duplicates_are_merged() {
    insert_and_scan(4000, 37);
}

#[test]
fn of_those_who_insert_one_key_one_succeeds() {
    let fixture = Fixture::with(MethodKind::Sync, 1024);
    let index = index(&fixture, shape(&[oids::INT4]));
    let won: Vec<AtomicUsize> = (0..3000).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (fixture, index, won) = (&fixture, &index, &won);
            scope.spawn(move || {
                let mut backend = fixture.backend();
                let mut random = Random(u64::from(writer));
                for n in 0..6000 {
                    let key = random.below(3000);
                    let place = tid(writer * 6000 + n);
                    let value = [Datum::Int4(key as i32)];
                    let rows = &mut Rows::default();
                    match put(index, &mut backend, rows, &value, place, true).unwrap() {
                        Insertion::Done => {
                            won[key as usize].fetch_add(1, Ordering::SeqCst);
                        }
                        Insertion::Duplicate(_) => {}
                        Insertion::Wait { .. } => panic!("all rows are live"),
                    }
                }
            });
        }
    });
    let counts: Vec<_> = won.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert!(counts.iter().all(|&count| count <= 1));
    let rows = pages_of(&index, &mut fixture.backend()).check().1;
    assert_eq!(rows.len(), counts.iter().sum::<usize>());
}
