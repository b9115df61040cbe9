//! Threads that change rows, and one that vacuums, while others read: by one snapshot, a scan of
//! the table, one of the index in either direction, one of its entries alone and one by a bitmap
//! find the same rows.

use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
use forebay_aio::sync::thread;
use forebay_storage::StreamSettings;

use super::*;
use crate::error::AccessError;
use crate::heap::VacuumJob;
use crate::heap::{Cutoffs, DeadItems, IndexCleanup, IndexesJob, Pace, Removed, TableIndexes};
use crate::nbtree::{IndexVacuumJob, IndexVacuumStats};
use crate::tests::fixture::FIRST_XID;

const WRITERS: i64 = 3;

/// Inserts, updates and deletes rows of its own.
fn write(mut table: Table, writer: i64, rounds: i64) {
    let mut random = Random(writer as u64);
    let mut rows: Vec<(i64, ItemPointer)> = Vec::new();
    for round in 0..rounds {
        let mut tx = Transaction::new();
        let mut after = rows.clone();
        for change in 0..8 {
            tx.next_command().unwrap();
            let (key, number) = (i64::from(random.below(400)), round * 100 + change * 10 + writer);
            let nth = random.below(after.len() as u32 + 1) as usize;
            match after.get(nth).copied() {
                Some((old, tid)) if random.below(3) > 0 => {
                    let key = if random.below(3) == 0 { key } else { old };
                    after[nth] = (key, table.update(&mut tx, tid, (key, number)));
                }
                Some((_, tid)) if after.len() > 60 => {
                    after.swap_remove(nth);
                    table.delete(&mut tx, tid);
                }
                _ => {
                    let padding = random.below(200) as usize;
                    after.push((key, table.insert(&mut tx, (key, number), padding)));
                }
            }
        }
        if random.below(6) == 0 {
            table.abort(tx);
        } else {
            table.commit(tx);
            rows = after;
        }
    }
}

/// Compares what scans find until the writers are done.
fn read(mut table: Table, writing: &AtomicUsize, direction: Direction) {
    let mut scans = 0;
    while writing.load(Ordering::SeqCst) > 0 || scans < 2 {
        scans += 1;
        let snapshot = table.snapshot();
        let mut by_index = table.scan(snapshot.clone(), Vec::new(), ScanOptions::default());
        let found = table.rest(&mut by_index, direction);
        assert!(match direction {
            Direction::Forward => found.is_sorted_by_key(|row| row.0),
            Direction::Backward => found.is_sorted_by_key(|row| -row.0),
        });
        let options = ScanOptions { entries_only: true, ..ScanOptions::default() };
        let mut entries = table.scan(snapshot.clone(), Vec::new(), options);
        let mut keys = Vec::new();
        while let Some(row) = entries.next(&mut table.backend, direction).unwrap() {
            keys.push(table.key_of(row.tuple));
        }
        keys.sort_unstable();
        let mut bitmap = TidBitmap::new(1 << 20);
        let scan = table.index.scan(Vec::new(), Default::default());
        Leaves::new(scan, ReadAhead::default())
            .for_each(&mut table.backend, |tid| bitmap.add(tid, false))
            .unwrap();
        let (reader, ahead) = (table.reader(snapshot.clone()), ReadAhead::default());
        let mut rows = BitmapRows::new(&table.heap, bitmap, reader, ahead, Interrupt::new());
        let mut by_bitmap = Vec::new();
        while let Some((row, _)) = rows.next(&mut table.backend).unwrap() {
            by_bitmap.push(row_of(row.tuple));
        }
        let mut of_table = Vec::new();
        let mut scan = table.heap.scan(snapshot, ahead).unwrap();
        while let Some((_, tuple)) = scan.next(&mut table.backend).unwrap() {
            of_table.push(row_of(tuple));
        }
        of_table.sort_unstable();
        for mut rows in [found, by_bitmap] {
            rows.sort_unstable();
            assert_eq!(rows, of_table);
        }
        assert_eq!(keys, of_table.iter().map(|row| row.0).collect::<Vec<_>>(), "entries alone");
    }
}

/// The index of the table, for vacuum.
#[derive(Debug)]
struct Indexes {
    index: Index,
    stats: IndexVacuumStats,
}

impl Indexes {
    fn job(interrupt: &Interrupt) -> IndexVacuumJob<'_> {
        let stream = StreamSettings::default();
        IndexVacuumJob { stream, strategy: Strategy::Normal, interrupt }
    }
}

impl TableIndexes for Indexes {
    fn remove(
        &mut self,
        backend: &mut Backend,
        dead: &DeadItems,
        pace: Pace<'_>,
    ) -> Result<Removed, AccessError> {
        let (interrupt, is_dead) = (Interrupt::new(), |tid| dead.contains(tid));
        let job = Indexes::job(&interrupt);
        self.index.bulk_delete(backend, &job, &is_dead, pace, &mut self.stats)?;
        Ok(Removed::All)
    }

    fn clean_up(&mut self, backend: &mut Backend, pace: Pace<'_>) -> Result<(), AccessError> {
        let interrupt = Interrupt::new();
        self.index.vacuum_cleanup(backend, &Indexes::job(&interrupt), pace, &mut self.stats)
    }
}

/// Vacuums until the writers are done. Returns how many entries went.
fn vacuum(mut table: Table, writing: &AtomicUsize) -> u64 {
    let mut indexes = Indexes { index: table.index.clone(), stats: Default::default() };
    while writing.load(Ordering::SeqCst) > 0 {
        let oldest_xid = table.fixture.xacts.procs().horizons(5, None).data.xid();
        let cutoffs = Cutoffs {
            frozen_xid: FIRST_XID,
            min_multi: 1,
            oldest_xid,
            oldest_multi: table.fixture.multis.oldest_in_use(),
            xid_limit: FIRST_XID,
            multi_limit: 1,
        };
        let job = VacuumJob {
            kind: HorizonKind::Data,
            database: 5,
            cutoffs,
            aggressive: false,
            skip_pages: true,
            eager_failure_rate: 0.0,
            stream: StreamSettings::default(),
            strategy: Strategy::Normal,
        };
        let of_indexes = IndexesJob {
            indexes: &mut indexes,
            cleanup: IndexCleanup::On,
            dead: DeadItems::new(1 << 20),
        };
        let pace: Pace<'_> = &mut |_, _| Ok(());
        let Table { heap, backend, .. } = &mut table;
        heap.vacuum_with(backend, &job, Some(of_indexes), &Interrupt::new(), pace).unwrap();
    }
    indexes.stats.removed
}

#[test]
fn all_scans_of_a_snapshot_agree_while_rows_change() {
    let table = Table::over(Fixture::with(MethodKind::Sync, 256));
    let writing = AtomicUsize::new(WRITERS as usize);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (table, writing) = (table.beside(), &writing);
            scope.spawn(move || {
                write(table, writer, 200);
                writing.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (table, writing) = (table.beside(), &writing);
            scope.spawn(move || read(table, writing, direction));
        }
        let (table, writing) = (table.beside(), &writing);
        let vacuums = scope.spawn(move || vacuum(table, writing));
        assert!(vacuums.join().unwrap() > 0, "vacuum has found dead rows");
    });
    assert!(table.fixture.failures.all().is_empty());
}
