mod databases;
mod golden;
mod indexes;
mod made;
mod origins;
mod rows;
mod trees;

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, Ordering};
use forebay_aio::sync::thread;
use forebay_format::wal::clog::{self, ClogTruncate};
use forebay_format::wal::{DecodedRecord, RecordHeader, Rmgr, xlog};
use forebay_format::{
    Fork, FullXid, HeapTupleMut, ItemPointer, Lsn, Page, PageBytes, PageMut, PageTag,
    RelFileLocator, tuple as ht,
    tuple::{AttrLayout, form_tuple},
};
use forebay_storage::{Backend, Strategy};
use forebay_testkit::files::copy_tree;
use forebay_txn::redo::{ClusterState, Counters, RedoContext, RedoError, RedoRecord};
use forebay_txn::{Outcome, Snapshot, Transaction};
use forebay_wal::{BlockFlags, BlockRef, CheckpointKind, Record};
use proptest::prelude::*;

use super::*;
use crate::heap::{Heap, TupleBatch};
use crate::tests::fixture::{
    FIRST_XID, Fixture, Recovered, TABLE, WAL_START, batch_of, checkpoint, number_of,
};

/// A page without command ids, which redo does not know.
fn masked(page: &PageBytes) -> PageBytes {
    let mut copy = *page;
    if Page::new(page).is_new() {
        return copy;
    }
    let mut view = PageMut(&mut copy);
    for number in 1..=view.page().item_count() {
        if let Some(item) = view.item_mut(number) {
            let mut tuple = HeapTupleMut::new(item).unwrap();
            tuple.set_cid(0);
            let mask = tuple.tuple().infomask();
            tuple.set_infomask(mask & !ht::HEAP_COMBOCID);
        }
    }
    copy
}

fn masked_all(pages: &[PageBytes]) -> Vec<PageBytes> {
    // Unused pages at the end are not in the log.
    let used = pages.iter().rposition(|page| !Page::new(page).is_new()).map_or(0, |last| last + 1);
    pages[..used].iter().map(masked).collect()
}

#[track_caller]
fn assert_same(before: &[PageBytes], after: &[PageBytes]) {
    assert_eq!(before.len(), after.len(), "number of pages");
    for (block, (before, after)) in before.iter().zip(after).enumerate() {
        let difference = before.iter().zip(after.iter()).position(|(a, b)| a != b);
        assert_eq!(difference, None, "block {block} differs at this byte");
    }
}

/// Replays the log over a copy of the files, once and twice. The pages must equal those in memory.
fn crash_and_compare(fixture: &Fixture, backend: &mut Backend, rel: RelFileLocator) {
    fixture.wal.flush_all(&mut backend.io).unwrap();
    let before = masked_all(&fixture.pages(backend, rel));
    let (mut once, _dir) = fixture.recover_copy(1);
    let once = once.pages(rel);
    assert_same(&before, &masked_all(&once));
    let (mut twice, _dir) = fixture.recover_copy(2);
    assert_same(&once, &twice.pages(rel));
}

fn bytes_tuple(len: usize, null: bool) -> Vec<u8> {
    let value = vec![len as u8; len];
    let attrs = [AttrLayout::VARLENA, AttrLayout::INT4];
    let number = 7i32.to_le_bytes();
    form_tuple(&attrs, &[Some(&value), if null { None } else { Some(&number) }]).unwrap()
}

#[test]
fn what_was_committed_survives_and_the_rest_does_not() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..1000);
    let mut aborted = Transaction::new();
    let author = fixture.author(&mut backend, &mut aborted);
    heap.insert_batch(&mut backend, author, &batch_of(5000..5500), Strategy::Normal, None).unwrap();
    fixture.xacts.abort(&mut backend.io, &mut aborted).unwrap();
    let mut running = Transaction::new();
    let author = fixture.author(&mut backend, &mut running);
    heap.insert_batch(&mut backend, author, &batch_of(6000..6500), Strategy::Normal, None).unwrap();
    let gone = ItemPointer::new(0, 4);
    fixture.delete(&mut backend, &heap, &mut running, gone);
    fixture.load(&mut backend, &heap, 1000..1200);

    // Only the log was written, as far as commits flushed it.
    let (mut recovered, copy) = fixture.recover_copy(1);
    let next = recovered.replay(copy.path()).unwrap();
    assert_eq!(next, FullXid::new(0, FIRST_XID + 4));
    recovered.clog.trim(&mut recovered.backend.io, next).unwrap();
    let mut numbers = recovered_numbers(&mut recovered);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1200).collect::<Vec<_>>());
    let Recovered { clog, backend: redo, .. } = &mut recovered;
    let mut status = |xid| clog.status(&mut redo.io, xid).unwrap();
    assert_eq!(
        [FIRST_XID, FIRST_XID + 1, FIRST_XID + 2, FIRST_XID + 3].map(&mut status),
        [Outcome::Committed, Outcome::Aborted, Outcome::InProgress, Outcome::Committed]
    );
    fixture.xacts.abort(&mut backend.io, &mut running).unwrap();
}

/// What a reader sees after recovery.
fn recovered_numbers(recovered: &mut Recovered) -> Vec<i64> {
    let snapshot = Snapshot::of_everything(1000);
    let mut visibility = crate::heap::Visibility::new(snapshot, recovered.clog.clone());
    let pages = recovered.pages(TABLE);
    let tuples = pages.iter().flat_map(|page| Page::new(page).items().map(|(_, item)| item));
    let mut numbers = Vec::new();
    for item in tuples {
        let tuple = forebay_format::HeapTuple::new(item).unwrap();
        if visibility.sees(&mut recovered.backend.io, tuple).unwrap() {
            numbers.push(number_of(item));
        }
    }
    numbers
}

/// A step of a history.
#[derive(Debug, Clone)]
enum Step {
    Batch { lengths: Vec<(usize, bool)>, commit: bool },
    Single { len: usize },
    Delete { nth: usize, commit: bool },
    Checkpoint,
    Write,
}

fn steps() -> impl Strategy2<Value = Vec<Step>> {
    let lengths = prop::collection::vec((0usize..2500, any::<bool>()), 1..40);
    let step = prop_oneof![
        4 => (lengths, any::<bool>()).prop_map(|(lengths, commit)| Step::Batch { lengths, commit }),
        3 => (0usize..8000).prop_map(|len| Step::Single { len }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(nth, commit)| Step::Delete { nth, commit }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Write),
    ];
    prop::collection::vec(step, 1..20)
}

use proptest::strategy::Strategy as Strategy2;

fn end(fixture: &Fixture, backend: &mut Backend, tx: &mut Transaction, commit: bool) {
    match commit {
        true => fixture.xacts.commit(&mut backend.io, tx).unwrap(),
        false => fixture.xacts.abort(&mut backend.io, tx).unwrap(),
    };
}

fn run(
    fixture: &Fixture,
    backend: &mut Backend,
    heap: &Heap,
    places: &mut Vec<ItemPointer>,
    step: Step,
) {
    let mut tx = Transaction::new();
    match step {
        Step::Batch { lengths, commit } => {
            let author = fixture.author(backend, &mut tx);
            let mut batch = TupleBatch::new();
            lengths
                .iter()
                .try_for_each(|&(len, null)| batch.push(&bytes_tuple(len, null)))
                .unwrap();
            heap.insert_batch(backend, author, &batch, Strategy::Normal, None).unwrap();
            end(fixture, backend, &mut tx, commit);
        }
        Step::Single { len } => {
            let author = fixture.author(backend, &mut tx);
            places.push(heap.insert(backend, author, &bytes_tuple(len, false)).unwrap());
            end(fixture, backend, &mut tx, true);
        }
        Step::Delete { nth, commit } if !places.is_empty() => {
            let place = places[nth % places.len()];
            fixture.delete(backend, heap, &mut tx, place);
            end(fixture, backend, &mut tx, commit);
        }
        Step::Delete { .. } => {}
        // From here on the first change of each page logs its image.
        Step::Checkpoint => {
            fixture
                .wal
                .begin_checkpoint(&mut backend.io, CheckpointKind::Online { wal_level: 1 })
                .unwrap();
        }
        Step::Write => fixture.write_all(backend),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn redo_restores_the_pages_that_were_lost(steps in steps()) {
        let fixture = Fixture::new();
        let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        let mut places = Vec::new();
        for step in steps {
            run(&fixture, &mut backend, &heap, &mut places, step);
        }
        crash_and_compare(&fixture, &mut backend, TABLE);
    }
}

#[test]
fn images_with_a_hole_are_restored() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..50);
    let kind = CheckpointKind::Online { wal_level: 1 };
    let redo = fixture.wal.begin_checkpoint(&mut backend.io, kind).unwrap();
    fixture.write_all(&mut backend);
    fixture.load(&mut backend, &heap, 50..60);
    fixture.load(&mut backend, &heap, 60..70);
    // The page is torn on disk: redo needs its image.
    let path = fixture.dir.path().join("base/5/16384");
    let mut file = std::fs::read(&path).unwrap();
    file[4096..8192].fill(0xee);
    std::fs::write(&path, &file).unwrap();
    let before = masked_all(&fixture.pages(&mut backend, TABLE));
    let (mut recovered, _copy) = fixture.recover_copy_from(redo, 1);
    assert_same(&before, &masked_all(&recovered.pages(TABLE)));
}

/// Begins a checkpoint, and writes `pg_xact`, then the pages. Checks that everything the log says
/// before the redo pointer is in the files.
fn check_checkpoint(fixture: &Fixture, backend: &mut Backend, from: Lsn) -> Lsn {
    let kind = CheckpointKind::Online { wal_level: 1 };
    let redo = fixture.wal.begin_checkpoint(&mut backend.io, kind).unwrap();
    fixture.xacts.gate().wait_for_earlier();
    fixture.write_all(backend);
    fixture.wal.flush_all(&mut backend.io).unwrap();

    let table = std::fs::read(fixture.dir.path().join("base/5/16384")).unwrap();
    let (pages, _) = table.as_chunks::<8192>();
    let outcomes = std::fs::read(fixture.dir.path().join("pg_xact/0000")).unwrap();
    let mut reader = crate::tests::fixture::reader(&fixture.aio, fixture.dir.path(), from);
    while let Some(record) = reader.next(&mut backend.io).unwrap() {
        if record.start >= redo {
            break;
        }
        let decoded = record.decode().unwrap();
        for block in &decoded.blocks {
            let lsn = Page::new(&pages[block.tag.block as usize]).lsn();
            assert!(
                lsn >= record.end,
                "{} has LSN {lsn}, a record ends at {}",
                block.tag,
                record.end
            );
        }
        let xid = decoded.header.xid;
        if decoded.header.rmgr == Rmgr::XACT {
            let status = forebay_format::slru::status(outcomes[..8192].try_into().unwrap(), xid);
            assert_ne!(status, Outcome::InProgress, "transaction {xid} ended at {}", record.end);
        }
    }
    redo
}

#[test]
fn a_checkpoint_misses_no_concurrent_change() {
    let fixture = Arc::new(Fixture::with(forebay_aio::MethodKind::Sync, 1024));
    let heap = fixture.heap(TABLE);
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (fixture, heap, done) = (fixture.clone(), heap.clone(), done.clone());
            thread::spawn(move || {
                let mut backend = fixture.backend();
                for n in 0.. {
                    if done.load(Ordering::SeqCst) {
                        break;
                    }
                    fixture.load(&mut backend, &heap, n..n + 10 * writer + 1);
                }
            })
        })
        .collect();
    let mut backend = fixture.backend();
    let mut from = WAL_START;
    for _ in 0..300 {
        from = check_checkpoint(&fixture, &mut backend, from);
    }
    done.store(true, Ordering::SeqCst);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    check_checkpoint(&fixture, &mut backend, from);
}

#[test]
fn redo_of_a_drop_removes_files_and_forgets_missing_pages() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..50);
    fixture.wal.begin_checkpoint(&mut backend.io, CheckpointKind::Online { wal_level: 1 }).unwrap();
    // After a checkpoint: so the log has neither an image of the page nor a record that makes it.
    fixture.load(&mut backend, &heap, 50..60);
    fixture.load(&mut backend, &heap, 60..70);
    let mut tx = Transaction::new();
    fixture.author(&mut backend, &mut tx);
    tx.drop_at_commit(TABLE);
    let finished = fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    for rel in finished.drop {
        fixture.pool.drop_relation(&mut backend, rel).unwrap();
    }
    let (recovered, copy) = fixture.recover_copy(2);
    assert!(!recovered.pool.smgr().exists(TABLE, Fork::Main).unwrap());
    assert!(
        !copy.path().join("base/5/16384").exists() || is_empty(&copy.path().join("base/5/16384"))
    );
}

fn is_empty(path: &std::path::Path) -> bool {
    std::fs::metadata(path).unwrap().len() == 0
}

/// A record with its place in a log.
#[derive(Clone)]
struct Placed<'a> {
    start: Lsn,
    end: Lsn,
    record: DecodedRecord<'a>,
}

/// Feeds single records to redo.
struct Feeder {
    recovered: Recovered,
    _dir: tempfile::TempDir,
    checkpoint: xlog::CheckPoint,
    /// What the last records said of small files.
    cluster: ClusterState,
}

impl Feeder {
    fn new() -> Feeder {
        let fixture = Fixture::new();
        let dir = tempfile::TempDir::new().unwrap();
        copy_tree(fixture.dir.path(), dir.path());
        let (recovered, cluster) = (Recovered::open(dir.path()), ClusterState::default());
        Feeder { recovered, _dir: dir, checkpoint: checkpoint(), cluster }
    }

    /// A page without its checksum.
    fn page(&mut self, tag: PageTag) -> PageBytes {
        let Recovered { pool, backend, .. } = &mut self.recovered;
        let pin = pool.read(backend, tag, Strategy::Normal).unwrap();
        let mut bytes = *pin.lock_shared().copy();
        PageMut(&mut bytes).set_checksum(0);
        bytes
    }

    fn redo(&mut self, records: &[DecodedRecord<'_>]) -> (Result<(), RedoError>, Counters) {
        self.redo_from(0, records)
    }

    /// The first record lies at the place of number `first`.
    fn redo_from(
        &mut self,
        first: u64,
        records: &[DecodedRecord<'_>],
    ) -> (Result<(), RedoError>, Counters) {
        let start = |n: u64| Lsn(0x200_0028 + n * 0x100);
        let placed = |(n, record)| Placed { start: start(n), end: start(n + 1), record };
        self.redo_placed(&(first..).zip(records.iter().cloned()).map(placed).collect::<Vec<_>>())
    }

    fn redo_placed(&mut self, records: &[Placed<'_>]) -> (Result<(), RedoError>, Counters) {
        let Recovered { pool, clog, multis, backend, .. } = &mut self.recovered;
        let mut ctx = RedoContext::new(backend, pool, clog, multis, &self.checkpoint);
        let registry = Registry::new();
        let result = records.iter().try_for_each(|&Placed { start, end, ref record }| {
            registry.redo(&RedoRecord { start, end, record }, &mut ctx)
        });
        let result = result.and_then(|()| ctx.check_missing());
        self.cluster = ctx.cluster.clone();
        (result, ctx.counters)
    }
}

fn record(rmgr: Rmgr, info: u8, xid: u32, main: &[u8]) -> DecodedRecord<'_> {
    let header = RecordHeader { total_len: 0, xid, prev: Lsn(0), info, rmgr, crc: 0 };
    DecodedRecord { header, blocks: Vec::new(), main, origin: None, toplevel_xid: None }
}

fn reference<'a>(block: u32, will_init: bool, data: &'a [u8]) -> forebay_format::wal::BlockRef<'a> {
    let tag = PageTag::new(TABLE, Fork::Main, block);
    forebay_format::wal::BlockRef { id: 0, tag, will_init, image: None, data }
}

#[test]
fn records_of_unknown_kinds_are_refused_by_name() {
    let refused = [
        (Rmgr::HASH, 0xd0, "Hash"),
        (Rmgr::GIN, 0x00, "Gin"),
        (Rmgr::GIST, 0x40, "Gist"),
        (Rmgr::SPGIST, 0x00, "SPGist"),
        (Rmgr::BRIN, 0xb0, "BRIN"),
        (Rmgr::COMMIT_TS, 0x20, "CommitTs"),
        (Rmgr::ORIGIN, 0x20, "ReplicationOrigin"),
        (Rmgr::GENERIC, 0x10, "Generic"),
        (Rmgr::BTREE, 0xf0, "Btree"),
        (Rmgr::SEQ, 0x10, "Sequence"),
        (Rmgr::XACT, 0x10, "Transaction PREPARE"),
        (Rmgr::XACT, 0x30, "Transaction COMMIT_PREPARED"),
        (Rmgr::XACT, 0xc0, "Transaction ABORT_PREPARED"),
        (Rmgr::SMGR, 0x30, "Storage"),
        (Rmgr::XLOG, 0xf0, "XLOG"),
        (Rmgr::STANDBY, 0x30, "Standby"),
        (Rmgr(200), 0, "resource manager 200"),
    ];
    for (rmgr, info, name) in refused {
        let mut hand = Feeder::new();
        let (result, _) = hand.redo(&[record(rmgr, info, 0, &[])]);
        let message = result.unwrap_err().to_string();
        let expected = format!(
            "WAL record at 0/2000028 is of a kind that is not supported: {name}, info 0x{info:02X}"
        );
        assert_eq!(message, expected);
    }
}

#[test]
fn records_for_standbys_change_nothing() {
    let passed = [
        (Rmgr::STANDBY, 0x10),
        (Rmgr::STANDBY, 0x00),
        (Rmgr::XLOG, xlog::NOOP),
        (Rmgr::XLOG, xlog::CHECKPOINT_REDO),
        (Rmgr::XLOG, xlog::SWITCH),
        (Rmgr::XLOG, xlog::FPW_CHANGE),
        (Rmgr::HEAP, 0x30),
        (Rmgr::HEAP2, 0x00),
        (Rmgr::HEAP2, 0x70),
        (Rmgr::XACT, 0x60),
        (Rmgr::BTREE, 0xd0),
        (Rmgr::GIST, 0x20),
        (Rmgr::GIST, 0x70),
        (Rmgr::LOGICAL_MESSAGE, 0x00),
    ];
    for (rmgr, info) in passed {
        let (result, counters) = Feeder::new().redo(&[record(rmgr, info, 0, &[])]);
        result.unwrap();
        assert_eq!(counters, Counters::at(&checkpoint()));
    }
}

#[test]
fn counters_follow_the_records() {
    let oid = xlog::encode_next_oid(24_576);
    let (result, counters) = Feeder::new().redo(&[
        record(Rmgr::XLOG, xlog::NEXTOID, 0, &oid),
        record(Rmgr::XLOG, xlog::NOOP, 90, &[]),
        record(Rmgr::XLOG, xlog::NOOP, 80, &[]),
    ]);
    result.unwrap();
    assert_eq!((counters.next_xid, counters.next_oid), (FullXid::new(0, 91), 24_576));

    let online =
        xlog::CheckPoint { next_xid: FullXid::new(0, 50), next_oid: 1, ..checkpoint() }.encode();
    let shutdown =
        xlog::CheckPoint { next_xid: FullXid::new(0, 60), next_oid: 9, ..checkpoint() }.encode();
    let online = record(Rmgr::XLOG, xlog::CHECKPOINT_ONLINE, 0, &online);
    let (result, counters) = Feeder::new().redo(std::slice::from_ref(&online));
    result.unwrap();
    assert_eq!(
        (counters.next_xid, counters.next_oid),
        (FullXid::new(0, 50), checkpoint().next_oid)
    );
    let (result, counters) =
        Feeder::new().redo(&[online, record(Rmgr::XLOG, xlog::CHECKPOINT_SHUTDOWN, 0, &shutdown)]);
    result.unwrap();
    assert_eq!((counters.next_xid, counters.next_oid), (FullXid::new(0, 60), 9));

    let mut counters = Counters { next_xid: FullXid::new(4, u32::MAX), ..counters };
    counters.advance_past(u32::MAX);
    assert_eq!(counters.next_xid, FullXid::new(5, 3));
    counters.advance_past(u32::MAX - 5);
    assert_eq!(counters.next_xid, FullXid::new(5, 3));
    counters.advance_past(2);
    assert_eq!(counters.next_xid, FullXid::new(5, 3));
}

#[test]
fn the_oldest_transaction_id_follows_the_records() {
    let point = |oldest_xid, oldest_xid_db| {
        xlog::CheckPoint { oldest_xid, oldest_xid_db, ..checkpoint() }.encode()
    };
    let (later, earlier) = (point(70_000, 5), point(50, 6));
    let truncate = ClogTruncate { page: 2, oldest_xid: 80_000, oldest_xid_db: 7 }.encode();
    let online = |main| record(Rmgr::XLOG, xlog::CHECKPOINT_ONLINE, 0, main);
    let removed = record(Rmgr::CLOG, clog::TRUNCATE, 0, &truncate);
    let shutdown = record(Rmgr::XLOG, xlog::CHECKPOINT_SHUTDOWN, 0, &earlier);
    let log = [online(&later), online(&earlier), removed, online(&later), shutdown];
    let oldest = (1..=log.len()).map(|count| {
        let (result, counters) = Feeder::new().redo(&log[..count]);
        result.unwrap();
        (counters.oldest_xid, counters.oldest_xid_db)
    });
    let expected = [(70_000, 5), (70_000, 5), (80_000, 7), (80_000, 7), (50, 6)];
    assert_eq!(oldest.collect::<Vec<_>>(), expected);
}

#[test]
fn a_page_that_stays_missing_is_an_error() {
    let main = [1, 0, 0];
    let data = [1, 0, 0, 8, 24, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut insert = record(Rmgr::HEAP, 0, 5, &main);
    insert.blocks.push(reference(7, false, &data));
    let (result, _) = Feeder::new().redo(std::slice::from_ref(&insert));
    assert_eq!(
        result.unwrap_err().to_string(),
        "WAL contains references to 1 invalid pages, the first of them block 7 of base/5/16384"
    );
    // A later truncation forgets it.
    let cut = forebay_format::wal::smgr::SmgrTruncate { blocks: 7, rel: TABLE, flags: 7 }.encode();
    let (result, _) = Feeder::new().redo(&[insert.clone(), record(Rmgr::SMGR, 0x20, 0, &cut)]);
    result.unwrap();
    let cut = forebay_format::wal::smgr::SmgrTruncate { blocks: 8, rel: TABLE, flags: 7 }.encode();
    let (result, _) = Feeder::new().redo(&[insert, record(Rmgr::SMGR, 0x20, 0, &cut)]);
    assert!(result.is_err());
}

#[test]
fn a_record_that_does_not_fit_its_page_changes_nothing() {
    let main = [1, 0, 0];
    let data = [1, 0, 0, 8, 24, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut init = record(Rmgr::HEAP, 0x80, 5, &main);
    init.blocks.push(reference(2, true, &data));
    let far = [9, 0, 0];
    let mut bad = record(Rmgr::HEAP, 0, 5, &far);
    bad.blocks.push(reference(2, false, &data));
    let mut hand = Feeder::new();
    let (result, _) = hand.redo(&[init, bad]);
    assert_eq!(
        result.unwrap_err().to_string(),
        "WAL record at 0/2000128 does not apply to block 2 of base/5/16384: the tuple's place is \
         taken or there is no room"
    );
    let pages = hand.recovered.pages(TABLE);
    assert_eq!(pages.len(), 3, "the file was extended to the page that was made");
    assert!(Page::new(&pages[0]).is_new() && Page::new(&pages[1]).is_new());
    assert_eq!(
        (Page::new(&pages[2]).item_count(), Page::new(&pages[2]).lsn()),
        (1, Lsn(0x200_0128))
    );
}

#[test]
fn a_page_newer_than_a_record_is_left_alone() {
    let data = [1, 0, 0, 8, 24, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let (first, second) = ([1, 0, 0], [2, 0, 0]);
    let mut init = record(Rmgr::HEAP, 0x80, 5, &first);
    init.blocks.push(reference(0, true, &data));
    let mut insert = record(Rmgr::HEAP, 0, 6, &second);
    insert.blocks.push(reference(0, false, &data));
    let gone = [7, 0, 0, 0, 2, 0, 0x10, 0];
    let mut delete = record(Rmgr::HEAP, 0x10, 7, &gone);
    delete.blocks.push(reference(0, false, &[]));

    let mut hand = Feeder::new();
    hand.redo(&[init, insert.clone(), delete.clone()]).0.unwrap();
    let pages = hand.recovered.pages(TABLE);
    let page = Page::new(&pages[0]);
    assert_eq!((page.item_count(), page.lsn(), page.prune_xid()), (2, Lsn(0x200_0328), 7));
    // xmin, xmax, command, place, flags, length of the header: as PostgreSQL's redo leaves them.
    let expected = [6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0x20, 0, 0, 24, 0];
    assert_eq!(page.item(2).unwrap()[..24], expected);
    hand.redo_from(1, &[insert, delete]).0.unwrap();
    assert_same(&pages, &hand.recovered.pages(TABLE));
}

#[test]
fn damaged_payloads_are_errors_and_no_panics() {
    let kinds = [
        (Rmgr::HEAP, 0x00),
        (Rmgr::HEAP, 0x10),
        (Rmgr::HEAP, 0x20),
        (Rmgr::HEAP, 0x40),
        (Rmgr::HEAP, 0x50),
        (Rmgr::HEAP, 0x60),
        (Rmgr::HEAP, 0x70),
        (Rmgr::HEAP2, 0x10),
        (Rmgr::HEAP2, 0x20),
        (Rmgr::HEAP2, 0x30),
        (Rmgr::HEAP2, 0x40),
        (Rmgr::HEAP2, 0x50),
        (Rmgr::HEAP2, 0x60),
        (Rmgr::BTREE, 0x00),
        (Rmgr::BTREE, 0x10),
        (Rmgr::BTREE, 0x20),
        (Rmgr::BTREE, 0x30),
        (Rmgr::BTREE, 0x40),
        (Rmgr::BTREE, 0x50),
        (Rmgr::BTREE, 0x60),
        (Rmgr::BTREE, 0x70),
        (Rmgr::BTREE, 0x80),
        (Rmgr::BTREE, 0x90),
        (Rmgr::BTREE, 0xa0),
        (Rmgr::BTREE, 0xb0),
        (Rmgr::BTREE, 0xc0),
        (Rmgr::BTREE, 0xe0),
        (Rmgr::SEQ, 0x00),
        (Rmgr::XACT, 0x00),
        (Rmgr::XACT, 0xa0),
        (Rmgr::CLOG, 0x00),
        (Rmgr::CLOG, 0x10),
        (Rmgr::SMGR, 0x10),
        (Rmgr::SMGR, 0x20),
        (Rmgr::XLOG, xlog::CHECKPOINT_ONLINE),
        (Rmgr::XLOG, xlog::NEXTOID),
    ];
    for (rmgr, info) in kinds {
        for main in [&[][..], &[0xff]] {
            let (result, _) = Feeder::new().redo(&[record(rmgr, info, 9, main)]);
            assert!(
                matches!(result, Err(RedoError::Damaged { .. })),
                "{rmgr} {info:x}: {result:?}"
            );
        }
    }
    let page = 131_072i64.to_le_bytes();
    let (result, _) = Feeder::new().redo(&[record(Rmgr::CLOG, 0, 0, &page)]);
    assert!(matches!(result, Err(RedoError::Damaged { .. })));
}

#[test]
fn truncation_and_creation_are_redone() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..1000);
    let blocks = fixture.pool.nblocks(TABLE, Fork::Main).unwrap();
    assert!(blocks > 2);
    let cut = forebay_format::wal::smgr::SmgrTruncate { blocks: 2, rel: TABLE, flags: 7 }.encode();
    let new = RelFileLocator::in_default(5, 20_000);
    let create = forebay_format::wal::smgr::SmgrCreate { rel: new, fork: Fork::Main }.encode();
    for (info, main) in [(0x21, &cut[..]), (0x11, &create[..])] {
        let record = Record { rmgr: Rmgr::SMGR, info, xid: 0, main, blocks: &[] };
        fixture.wal.insert(&mut backend.io, &record).unwrap();
    }
    fixture.wal.flush_all(&mut backend.io).unwrap();
    let (recovered, _copy) = fixture.recover_copy(2);
    assert_eq!(recovered.pool.nblocks(TABLE, Fork::Main).unwrap(), 2);
    assert_eq!(recovered.pool.nblocks(new, Fork::Main).unwrap(), 0);
}

#[test]
fn full_page_image_records_are_redone() {
    let fixture = Fixture::new();
    let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
    fixture.load(&mut backend, &heap, 0..10);
    let tag = PageTag::new(TABLE, Fork::Main, 0);
    let pin = fixture.pool.read(&mut backend, tag, Strategy::Normal).unwrap();
    let mut guard = pin.lock_exclusive();
    guard.mark_dirty();
    guard.page_mut().set_prune_xid(99);
    let flags = BlockFlags::FORCE_IMAGE | BlockFlags::STANDARD;
    let block = BlockRef { id: 0, tag, page: Some(&guard), flags, data: &[] };
    let record = Record { rmgr: Rmgr::XLOG, info: xlog::FPI, xid: 0, main: &[], blocks: &[block] };
    let inserted = fixture.wal.insert(&mut backend.io, &record).unwrap();
    guard.set_lsn(inserted.end);
    drop(guard);
    drop(pin);
    crash_and_compare(&fixture, &mut backend, TABLE);
}
