//! Threads that insert and scan one index at the same time.

use std::collections::BTreeSet;

use forebay_aio::MethodKind;
use forebay_aio::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use forebay_aio::sync::thread;
use forebay_txn::Transaction;

use super::checker::pages_of;
use super::*;

const WRITERS: u32 = 4;
/// Rows that a writer keeps while a vacuum runs: older ones are dead.
const KEPT: u32 = 300;

/// What the threads of a test know of each other. Rows have numbers, which tell the writer.
struct Shared {
    fixture: Fixture,
    index: Index,
    key_of: fn(u32) -> u32,
    /// The number of rows that a writer has inserted, and of those that are dead.
    done: [AtomicUsize; WRITERS as usize],
    dead: [AtomicUsize; WRITERS as usize],
    all_done: AtomicBool,
}

fn number_of(place: ItemPointer) -> u32 {
    place.block * 100 + u32::from(place.offset) - 1
}

impl Shared {
    fn new(key_of: fn(u32) -> u32) -> Shared {
        let fixture = Fixture::with(MethodKind::Sync, 1024);
        let index = index(&fixture, shape(&[oids::INT4]));
        let [done, dead] = [(); 2].map(|()| Default::default());
        Shared { fixture, index, key_of, done, dead, all_done: AtomicBool::new(false) }
    }

    /// Inserts rows, some in each transaction.
    fn write(&self, writer: u32, rows: u32) {
        let mut backend = self.fixture.backend();
        let mut tx = Transaction::new();
        for n in 0..rows {
            self.fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
            let number = writer + WRITERS * n;
            let key = [Datum::Int4((self.key_of)(number) as i32)];
            assert_eq!(insert(&self.index, &mut backend, &key, tid(number)), Insertion::Done);
            self.done[writer as usize].store(n as usize + 1, Ordering::SeqCst);
            if n % 20 == 0 || n == rows - 1 {
                self.fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
                tx = Transaction::new();
            }
        }
    }

    /// Whether a row was dead at some time.
    fn is_dead(&self, number: u32) -> bool {
        let [writer, n] = [number % WRITERS, number / WRITERS].map(|n| n as usize);
        n < self.dead[writer].load(Ordering::SeqCst)
    }

    /// Scans until the writers are done. Each scan must return, in order, all rows that were there
    /// before it began and did not die before it ended, and none twice.
    fn scan(&self, direction: Direction) {
        let mut backend = self.fixture.backend();
        let mut scans = 0;
        while !self.all_done.load(Ordering::SeqCst) || scans == 0 {
            let _snapshot = self.fixture.xacts.snapshot(&Transaction::new());
            let before: Vec<_> = self.done.iter().map(|n| n.load(Ordering::SeqCst)).collect();
            let options = BatchOptions { pin: false, tuples: true };
            let mut cursor = IndexCursor::new(self.index.scan(Vec::new(), options));
            let mut seen = BTreeSet::new();
            let mut last = None;
            while let Some(place) = cursor.next(&mut backend, direction).unwrap() {
                let number = number_of(place);
                assert!(seen.insert(number));
                let [writer, n] = [number % WRITERS, number / WRITERS].map(|n| n as usize);
                if n >= before[writer] {
                    // When a leaf is deleted that was read, its keys belong to the next one.
                    continue;
                }
                let key = (self.key_of)(number);
                let ordered = match direction {
                    Direction::Forward => last < Some((key, place)),
                    Direction::Backward => last.is_none_or(|last| last > (key, place)),
                };
                assert!(ordered, "{direction:?}: {last:?} before {:?}", (key, place));
                last = Some((key, place));
            }
            for (writer, &count) in (0..).zip(&before) {
                for n in 0..count as u32 {
                    let number = writer + WRITERS * n;
                    let found = seen.contains(&number) || self.is_dead(number);
                    assert!(found, "{direction:?} misses {number}");
                }
            }
            scans += 1;
        }
    }

    /// Vacuums until the writers are done, and once more. Returns the number of deleted pages, and
    /// the greatest number of rows that stayed.
    fn vacuum(&self) -> (u32, u64) {
        let mut backend = self.fixture.backend();
        let mut deleted = 0;
        loop {
            let last = self.all_done.load(Ordering::SeqCst);
            for (dead, done) in self.dead.iter().zip(&self.done) {
                let done = done.load(Ordering::SeqCst);
                dead.store(done.saturating_sub(KEPT as usize), Ordering::SeqCst);
            }
            let is_dead = |place| self.is_dead(number_of(place));
            let stats = vacuuming::vacuum(&self.index, &mut backend, &is_dead);
            deleted += stats.newly_deleted;
            if last {
                return (deleted, stats.rows);
            }
        }
    }
}

/// Writers insert numbers of their own while scans go both ways and, perhaps, a vacuum removes the
/// oldest rows of each writer.
fn insert_and_scan(rounds: u32, key_of: fn(u32) -> u32, vacuums: bool) {
    let shared = Shared::new(key_of);
    let mut kept = u64::from(WRITERS * rounds);
    thread::scope(|scope| {
        let shared = &shared;
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || shared.write(writer, rounds))).collect();
        for direction in [Direction::Forward, Direction::Backward] {
            scope.spawn(move || shared.scan(direction));
        }
        let vacuum = vacuums.then(|| scope.spawn(move || shared.vacuum()));
        let finished: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        shared.all_done.store(true, Ordering::SeqCst);
        finished.into_iter().for_each(|result| result.unwrap());
        if let Some(vacuum) = vacuum {
            let (deleted, rows) = vacuum.join().unwrap();
            assert!(deleted > 0);
            assert_eq!(rows, u64::from(WRITERS * KEPT));
            kept = rows;
        }
    });
    let (levels, rows) = pages_of(&shared.index, &mut shared.fixture.backend()).check();
    assert_eq!(rows.len() as u64, kept);
    assert!(levels[0].incomplete == 0 && (levels.len() > 1 || vacuums));
    assert!(shared.fixture.failures.all().is_empty());
    recovery::check_redo(&shared.fixture, &shared.index);
}

/// A number that looks random.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_761) % (1 << 30)
}

#[test]
fn scans_find_what_was_there_while_leaves_split() {
    insert_and_scan(4000, scattered, false);
}

#[test]
fn scans_find_what_was_there_while_duplicates_are_merged() {
    insert_and_scan(4000, |number| scattered(number) % 37, false);
}

#[test]
fn scans_find_what_was_there_while_a_vacuum_runs() {
    insert_and_scan(8000, |number| number / 4000 * 100_000 + scattered(number) % 100_000, true);
}

#[test]
fn scans_find_what_was_there_while_a_vacuum_shortens_posting_lists() {
    insert_and_scan(8000, |number| number / 4000 * 37 + scattered(number) % 37, true);
}

#[test]
fn scans_find_what_was_there_while_the_left_end_is_deleted() {
    insert_and_scan(12_000, |number| number, true);
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
                        other => panic!("all rows are live: {other:?}"),
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
