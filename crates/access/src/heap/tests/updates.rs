//! Updates: on the same page and on another, their records, and what others find.

use forebay_format::multixact::MemberStatus;
use forebay_format::page::PD_PAGE_FULL;
use forebay_format::tuple::Xmax;
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{Lsn, Xid};
use forebay_storage::BufferPool;
use forebay_wal::CheckpointKind;

use super::changes::{OneRow, ROW};
use super::*;
use crate::tests::fixture::{WAL_START, reader};

const LAYOUTS: [AttrLayout; 1] = [AttrLayout::INT8];
const PLAIN: Columns<'static> = Columns { layouts: &LAYOUTS, keys: &[], indexed: &[] };
const KEYED: Columns<'static> = Columns { layouts: &LAYOUTS, keys: &[0], indexed: &[0] };

impl OneRow {
    pub(super) fn update_at(
        &mut self,
        tx: &mut Transaction,
        tid: ItemPointer,
        new: &[u8],
        columns: &Columns<'_>,
    ) -> Attempt<ItemPointer> {
        self.fixture.change(&mut self.backend, tx, |backend, changer| {
            placed(self.heap.update(backend, changer, tid, new, columns))
        })
    }

    pub(super) fn update(&mut self, tx: &mut Transaction, number: i64) -> Attempt<ItemPointer> {
        self.update_at(tx, ROW, &tuple_of(number), &PLAIN)
    }

    pub(super) fn numbers(&mut self, tx: &Transaction) -> Vec<i64> {
        self.fixture.numbers(&mut self.backend, &self.heap, tx)
    }

    /// Kinds of the heap's records since `from`, with their main data.
    pub(super) fn records(&mut self, from: Lsn) -> Vec<(String, Vec<u8>)> {
        let fixture = &self.fixture;
        fixture.wal.flush_all(&mut self.backend.io).unwrap();
        let mut reader = reader(&fixture.aio, fixture.dir.path(), from);
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut self.backend.io).unwrap() {
            let decoded = record.decode().unwrap();
            let info = decoded.header.info;
            let name = match decoded.header.rmgr {
                Rmgr::HEAP => heap::heap_name(info),
                Rmgr::HEAP2 => heap::heap2_name(info),
                _ => continue,
            };
            records.push((name.to_owned(), decoded.main.to_vec()));
        }
        records
    }

    /// Fills the row's page, so that no other version fits.
    pub(super) fn fill_page(&mut self) {
        self.fixture.load(&mut self.backend, &self.heap, 100..100 + PER_PAGE as i64 - 1);
    }
}

fn done(attempt: Attempt<ItemPointer>) -> ItemPointer {
    match attempt {
        Attempt::Done(place) => place,
        other => panic!("{other:?}"),
    }
}

fn names(records: &[(String, Vec<u8>)]) -> Vec<&str> {
    records.iter().map(|record| record.0.as_str()).collect()
}

#[test]
fn the_newer_version_is_seen_from_the_next_command_on() {
    let mut row = OneRow::new();
    let (mut tx, xid) = row.begin();
    let before = row.fixture.xacts.snapshot(&Transaction::new());
    let place = done(row.update(&mut tx, 6));
    assert_eq!(place, ItemPointer::new(0, 2));
    assert_eq!(row.numbers(&tx), [5], "its own command still sees the old version");
    assert_eq!(row.update(&mut tx, 7), Attempt::Refused(Refusal::SelfModified(0)));
    tx.next_command().unwrap();
    assert_eq!(row.numbers(&tx), [6]);
    assert_eq!(row.update(&mut tx, 7), Attempt::Refused(Refusal::Invisible));
    assert_eq!(row.numbers(&Transaction::new()), [5]);
    let (mut other, _) = row.begin();
    let waits = held_by(vec![xid], ROW, place, LockStrength::NoKeyExclusive);
    assert_eq!(row.update(&mut other, 8), waits);
    row.end(tx, true);
    assert_eq!(row.numbers(&other), [6]);
    let newer = Refusal::Updated { newer: place, by: xid };
    assert_eq!(row.update(&mut other, 8), Attempt::Refused(newer));
    let version = row.heap.newer_version(&mut row.backend, place, xid).unwrap();
    assert_eq!(version.map(|tuple| number_of(&tuple)), Some(6));
    assert_eq!(row.heap.newer_version(&mut row.backend, place, xid + 1).unwrap(), None);
    let place = done(row.update_at(&mut other, place, &tuple_of(9), &PLAIN));
    row.end(other, true);
    assert_eq!((place.offset, row.numbers(&Transaction::new())), (3, vec![9]));
    let mut old = row.heap.scan(before, ReadAhead::default()).unwrap();
    let (_, tuple) = old.next(&mut row.backend).unwrap().unwrap();
    assert_eq!(number_of(tuple), 5, "an older snapshot sees the old version");
}

#[test]
fn an_update_that_aborted_can_be_done_again() {
    let mut row = OneRow::new();
    for (number, commit) in [(6, false), (7, true)] {
        let (mut tx, _) = row.begin();
        done(row.update(&mut tx, number));
        row.end(tx, commit);
        assert_eq!(row.numbers(&Transaction::new()), [if commit { 7 } else { 5 }]);
    }
}

#[test]
fn headers_of_both_versions() {
    for (columns, hot, status) in [
        (PLAIN, true, MemberStatus::NoKeyUpdate),
        (KEYED, false, MemberStatus::Update),
        (Columns { keys: &[], ..KEYED }, false, MemberStatus::NoKeyUpdate),
    ] {
        let mut row = OneRow::new();
        let (mut tx, xid) = row.begin();
        let place = done(row.update_at(&mut tx, ROW, &tuple_of(6), &columns));
        row.at(ROW, |tuple, page| {
            assert_eq!((tuple.ctid(), tuple.xmax(), tuple.cid()), (place, xid, 0));
            assert_eq!(tuple.xmax_kind(), Xmax::Transaction(status));
            assert_eq!((tuple.is_hot_updated(), tuple.is_heap_only()), (hot, false));
            assert_eq!(page.prune_xid(), xid);
        });
        row.at(place, |tuple, _| {
            assert_eq!((tuple.ctid(), tuple.xmin(), tuple.xmax()), (place, xid, 0));
            assert_eq!(tuple.infomask(), ht::HEAP_XMAX_INVALID | ht::HEAP_UPDATED);
            assert_eq!((tuple.is_hot_updated(), tuple.is_heap_only()), (false, hot));
        });
        // The same value changes no column.
        tx.next_command().unwrap();
        let place = done(row.update_at(&mut tx, place, &tuple_of(6), &columns));
        row.at(place, |tuple, _| assert!(tuple.is_heap_only()));
        row.end(tx, true);
    }
}

#[test]
fn a_version_that_does_not_fit_goes_to_another_page() {
    let mut row = OneRow::new();
    row.fill_page();
    let from = row.fixture.wal.flush_all(&mut row.backend.io).map(|_| WAL_START).unwrap();
    let before = row.records(from).len();
    let (mut tx, xid) = row.begin();
    let place = done(row.update(&mut tx, 6));
    assert_eq!(place, ItemPointer::new(1, 1));
    row.at(ROW, |tuple, page| {
        assert_eq!((tuple.ctid(), tuple.is_hot_updated()), (place, false));
        assert_eq!(page.flags() & PD_PAGE_FULL, PD_PAGE_FULL);
    });
    row.at(place, |tuple, _| {
        assert_eq!((tuple.xmin(), tuple.xmax(), tuple.is_heap_only()), (xid, 0, false));
    });
    assert_eq!(row.xmax().1, [(xid, MemberStatus::NoKeyUpdate)]);
    let records = row.records(from).split_off(before);
    assert_eq!(names(&records), ["LOCK", "UPDATE+INIT"]);
    let lock = heap::HeapDelete::decode(&records[0].1).unwrap();
    assert_eq!((lock.xmax, lock.offset, lock.flags), (xid, 1, 0));
    let update = heap::HeapUpdate::decode(&records[1].1).unwrap();
    assert_eq!((update.old_xmax, update.old_offset, update.new_offset), (xid, 1, 1));
    row.end(tx, true);
    let mut numbers = row.numbers(&Transaction::new());
    numbers.sort_unstable();
    assert_eq!(numbers[..2], [6, 100]);
}

#[test]
fn what_versions_share_is_not_logged() {
    let mut row = OneRow::new();
    let before = row.records(WAL_START).len();
    let (mut tx, _) = row.begin();
    done(row.update(&mut tx, 6));
    let records = row.records(WAL_START).split_off(before);
    assert_eq!(names(&records), ["HOT_UPDATE"]);
    let update = heap::HeapUpdate::decode(&records[0].1).unwrap();
    assert_eq!(update.flags, heap::UPDATE_SUFFIX_FROM_OLD);
    row.end(tx, true);
}

/// Of each record: numbers and forks of its block references.
type References = Vec<Vec<(u8, Fork)>>;

impl OneRow {
    /// Marks the first pages all-visible and all-frozen, as vacuum does, and begins a checkpoint
    /// that writes them. Returns its redo pointer.
    fn promise(&mut self) -> Lsn {
        let (heap, backend) = (&self.heap, &mut self.backend);
        heap.pool.smgr().create(TABLE, Fork::Vm, true).unwrap();
        let map = heap.pool.zero_page(backend, PageTag::new(TABLE, Fork::Vm, 0)).unwrap();
        let mut guard = map.lock_exclusive();
        guard.page_mut().init(0);
        guard[24] = 0xff;
        guard.mark_dirty();
        drop(guard);
        for block in 0..heap.pool.nblocks(TABLE, Fork::Main).unwrap() {
            let pin = heap.pool.read(backend, heap.tag(block), Strategy::Normal).unwrap();
            let mut guard = pin.lock_exclusive();
            guard.page_mut().set_all_visible(true);
            guard.mark_dirty();
        }
        let kind = CheckpointKind::Online { wal_level: 1 };
        let redo = self.fixture.wal.begin_checkpoint(&mut backend.io, kind).unwrap();
        self.fixture.write_all(backend);
        redo
    }

    /// The map's bits of the first four blocks, with the map's LSN.
    fn map(&mut self) -> (u8, Lsn) {
        map_of(&self.fixture.pool, &mut self.backend)
    }

    /// The block references of the heap's records since `from`.
    fn references(&mut self, from: Lsn) -> References {
        let fixture = &self.fixture;
        fixture.wal.flush_all(&mut self.backend.io).unwrap();
        let mut reader = reader(&fixture.aio, fixture.dir.path(), from);
        let mut records = Vec::new();
        while let Some(record) = reader.next(&mut self.backend.io).unwrap() {
            let decoded = record.decode().unwrap();
            if matches!(decoded.header.rmgr, Rmgr::HEAP | Rmgr::HEAP2) {
                let blocks = decoded.blocks.iter();
                records.push(blocks.map(|block| (block.id, block.tag.fork)).collect());
            }
        }
        records
    }
}

fn map_of(pool: &Arc<BufferPool>, backend: &mut Backend) -> (u8, Lsn) {
    let map = pool.read(backend, PageTag::new(TABLE, Fork::Vm, 0), Strategy::Normal).unwrap();
    let guard = map.lock_shared();
    (guard.page().bytes(24..25).unwrap()[0], guard.page().lsn())
}

#[test]
fn changes_clear_bits_of_the_map_and_their_records_refer_to_it() {
    type Change = fn(&mut OneRow, &mut Transaction);
    use Fork::{Main, Vm};
    // The numbers of references are PostgreSQL 18.6's.
    let cases: [(&str, Change, u8, References); 4] = [
        (
            "insertion",
            |row, tx| {
                let author = row.fixture.author(&mut row.backend, tx);
                row.heap.insert(&mut row.backend, author, &tuple_of(1)).unwrap();
            },
            0xfc,
            vec![vec![(0, Main), (1, Vm)]],
        ),
        (
            "deletion",
            |row, tx| assert_eq!(row.delete(tx), Attempt::Done(())),
            0xfc,
            vec![vec![(0, Main), (1, Vm)]],
        ),
        (
            "update on the page",
            |row, tx| assert_eq!(done(row.update(tx, 6)), ItemPointer::new(0, 2)),
            0xfc,
            vec![vec![(0, Main), (3, Vm)]],
        ),
        (
            "update to another page",
            |row, tx| {
                row.fill_page();
                row.fixture.load(&mut row.backend, &row.heap, [7]);
                row.promise();
                assert_eq!(done(row.update(tx, 6)), ItemPointer::new(1, 2));
            },
            0xf0,
            vec![vec![(0, Main), (1, Vm)], vec![(0, Main), (1, Main), (2, Vm)]],
        ),
    ];
    for (what, change, bits, expected) in cases {
        let mut row = OneRow::new();
        let redo = row.promise();
        let (mut tx, _) = row.begin();
        change(&mut row, &mut tx);
        let references = row.references(redo);
        let last = &references[references.len() - expected.len()..];
        assert_eq!(last, expected, "{what}");
        let (found, lsn) = row.map();
        assert_eq!(found, bits, "{what}");
        assert_eq!(lsn, row.at(ROW, |_, page| page.lsn()), "{what}");
        row.end(tx, true);
        let (mut recovered, _dir) = row.fixture.recover_copy_from(redo, 1);
        let pool = recovered.pool.clone();
        assert_eq!(map_of(&pool, &mut recovered.backend), (bits, lsn), "{what}");
    }
}

#[test]
fn both_pages_cease_to_be_all_visible() {
    let mut row = OneRow::new();
    row.fill_page();
    row.fixture.load(&mut row.backend, &row.heap, [7]);
    row.promise();
    let before = row.records(WAL_START).len();
    let (mut tx, _) = row.begin();
    let place = done(row.update(&mut tx, 6));
    assert!(!row.at(ROW, |_, page| page.is_all_visible()));
    assert!(!row.at(place, |_, page| page.is_all_visible()));
    let records = row.records(WAL_START).split_off(before);
    let lock = heap::HeapDelete::decode(&records[0].1).unwrap();
    assert_eq!(lock.flags, heap::LOCK_ALL_FROZEN_CLEARED);
    let update = heap::HeapUpdate::decode(&records[1].1).unwrap();
    let both = heap::UPDATE_OLD_ALL_VISIBLE_CLEARED | heap::UPDATE_NEW_ALL_VISIBLE_CLEARED;
    assert_eq!(update.flags & both, both);
    row.end(tx, true);
}

#[test]
fn key_share_locks_go_over_to_the_newer_version() {
    use MemberStatus::{ForKeyShare, NoKeyUpdate};
    for full in [false, true] {
        let mut row = OneRow::new();
        if full {
            row.fill_page();
        }
        let ((locker, a), (mut tx, own)) = (row.begin(), row.begin());
        row.hold(&[(a, ForKeyShare)]);
        let place = done(row.update(&mut tx, 6));
        let (kind, members) = row.xmax();
        assert_eq!(kind, Xmax::Multi { lock_only: false });
        assert!(members.contains(&(a, ForKeyShare)) && members.contains(&(own, NoKeyUpdate)));
        let (_, kept) = row.xmax_at(place);
        assert!(kept.contains(&(a, ForKeyShare)), "{kept:?}");
        assert_eq!(row.numbers(&Transaction::new())[0], 5);
        row.end(tx, true);
        // A deletion of the newer version waits for the locker.
        let (mut other, _) = row.begin();
        let wait: Vec<Xid> = vec![a];
        let attempt = row.fixture.delete(&mut row.backend, &row.heap, &mut other, place);
        assert_eq!(attempt, held_by(wait, place, None, LockStrength::Exclusive));
        row.end(locker, true);
        let attempt = row.fixture.delete(&mut row.backend, &row.heap, &mut other, place);
        assert_eq!(attempt, Attempt::Done(()));
        row.end(other, true);
    }
}

#[test]
fn concurrent_updates_of_a_full_table_lose_nothing() {
    const THREADS: i64 = 4;
    const ROUNDS: i64 = 60;
    let fixture = Arc::new(Fixture::new());
    let heap = fixture.heap(TABLE);
    fixture.load(&mut fixture.backend(), &heap, (0..THREADS).flat_map(|_| 0..PER_PAGE as i64));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let (fixture, heap) = (fixture.clone(), heap.clone());
            thread::spawn(move || {
                let mut backend = fixture.backend();
                let mut place = ItemPointer::new(thread as u32, 1);
                for round in 0..ROUNDS {
                    let mut tx = Transaction::new();
                    let new = tuple_of(1000 * (thread + 1) + round);
                    let attempt = fixture.change(&mut backend, &mut tx, |backend, changer| {
                        placed(heap.update(backend, changer, place, &new, &PLAIN))
                    });
                    let next = done(attempt);
                    if round % 3 == 0 {
                        fixture.xacts.abort(&mut backend.io, &mut tx).unwrap();
                    } else {
                        fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
                        place = next;
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut numbers = fixture.numbers(&mut fixture.backend(), &heap, &Transaction::new());
    numbers.retain(|number| *number >= 1000);
    numbers.sort_unstable();
    let last = (1..=THREADS).map(|thread| 1000 * thread + ROUNDS - 1);
    assert_eq!(numbers, last.collect::<Vec<_>>());
}

#[test]
fn single_versions_are_found_by_their_place() {
    let mut row = OneRow::new();
    let (mut tx, xid) = row.begin();
    let place = done(row.update(&mut tx, 6));
    let found = |row: &mut OneRow, tid| {
        let snapshot = row.fixture.xacts.snapshot(&Transaction::new());
        let mut visibility = Visibility::new(snapshot, row.fixture.outcomes());
        let found = row.heap.fetch(&mut row.backend, &mut visibility, tid).unwrap();
        found.map(|tuple| number_of(&tuple))
    };
    assert_eq!((found(&mut row, ROW), found(&mut row, place)), (Some(5), None));
    row.end(tx, true);
    assert_eq!((found(&mut row, ROW), found(&mut row, place)), (None, Some(6)));
    for nowhere in [ItemPointer::new(0, 3), ItemPointer::new(0, 0), ItemPointer::new(9, 1)] {
        assert_eq!(found(&mut row, nowhere), None);
        let error = row.heap.newer_version(&mut row.backend, nowhere, xid).unwrap_err();
        let ItemPointer { block, offset } = nowhere;
        let expected = format!(
            "the version of a row that transaction {xid} made is missing (block {block}, offset \
             {offset} of {TABLE})"
        );
        assert_eq!((error.sqlstate(), error.to_string()), ("XX001", expected));
    }
    let mut newer = |tid| row.heap.newer_version(&mut row.backend, tid, xid).unwrap().is_some();
    assert!(newer(place) && !newer(ROW), "the place of another row");
}
