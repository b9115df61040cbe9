//! Vacuum: what goes, what is frozen, what the maps say, and what recovery makes of it.

use forebay_format::multixact::MemberStatus;
use forebay_format::tuple::Xmax;
use forebay_format::visibility_map::{self as map, ALL_FROZEN, ALL_VISIBLE, VALID_BITS};
use forebay_format::{BlockNumber, Oid, Page, PageBytes};
use forebay_storage::{Pinned, StreamSettings};
use forebay_txn::HorizonKind;

use super::changes::{OneRow, ROW};
use super::*;
use crate::tests::fixture::{FIRST_XID, Recovered};

impl OneRow {
    /// Everything that can be frozen must be, or nothing.
    pub(super) fn cutoffs(&self, freeze: bool) -> Cutoffs {
        let oldest_xid = self.fixture.xacts.procs().horizons(0, None).data.xid();
        let oldest_multi = self.fixture.multis.oldest_in_use();
        let (frozen_xid, min_multi) = (FIRST_XID, 1);
        let (xid_limit, multi_limit) =
            if freeze { (oldest_xid, oldest_multi) } else { (frozen_xid, min_multi) };
        Cutoffs { frozen_xid, min_multi, oldest_xid, oldest_multi, xid_limit, multi_limit }
    }

    fn vacuum_with(&mut self, cutoffs: Cutoffs, all: bool) -> Result<VacuumReport, AccessError> {
        self.vacuum_in(0, cutoffs, all)
    }

    fn vacuum_in(
        &mut self,
        database: Oid,
        cutoffs: Cutoffs,
        all: bool,
    ) -> Result<VacuumReport, AccessError> {
        vacuum_heap(&self.heap, &mut self.backend, database, cutoffs, all, &Interrupt::new())
    }

    fn vacuum(&mut self, freeze: bool) -> VacuumReport {
        let report = self.vacuum_with(self.cutoffs(freeze), false).unwrap();
        self.check_maps();
        report
    }

    pub(super) fn blocks(&self) -> BlockNumber {
        self.heap.pool.nblocks(TABLE, Fork::Main).unwrap()
    }

    /// Deletes rows, and commits.
    pub(super) fn delete_all(&mut self, rows: impl IntoIterator<Item = (BlockNumber, u16)>) {
        let (mut tx, _) = self.begin();
        for (block, offset) in rows {
            let place = ItemPointer::new(block, offset);
            let done = self.fixture.delete(&mut self.backend, &self.heap, &mut tx, place);
            assert_eq!(done, Attempt::Done(()));
        }
        self.end(tx, true);
    }

    pub(super) fn load(&mut self, numbers: impl IntoIterator<Item = i64>) {
        self.fixture.load(&mut self.backend, &self.heap, numbers);
    }

    /// The bits of each block.
    pub(super) fn bits(&mut self) -> Vec<u8> {
        let blocks = self.blocks();
        let pool = self.heap.pool.clone();
        let mut bits = |block| {
            let pin = crate::vm::pin(&pool, &mut self.backend, TABLE, block).unwrap();
            pin.map_or(0, |pin| crate::vm::bits(&pin, block))
        };
        (0..blocks).map(&mut bits).collect()
    }

    /// The map never claims more than the pages have.
    pub(super) fn check_maps(&mut self) {
        let bits = self.bits();
        let pages = self.fixture.pages(&mut self.backend, TABLE);
        check_bits(&pages, &bits);
    }

    /// The same table after a restart: nothing is known of its free space in memory.
    fn forget_space(&mut self) {
        self.heap.space = Arc::default();
    }
}

fn vacuum_heap(
    heap: &Heap,
    backend: &mut Backend,
    database: Oid,
    cutoffs: Cutoffs,
    all: bool,
    interrupt: &Interrupt,
) -> Result<VacuumReport, AccessError> {
    let job = VacuumJob {
        kind: HorizonKind::Data,
        database,
        cutoffs,
        aggressive: all,
        skip_pages: !all,
        eager_failure_rate: 0.0,
        stream: StreamSettings::default(),
        strategy: Strategy::VACUUM,
    };
    heap.vacuum(backend, &job, interrupt, &mut |_, _| Ok(()))
}

pub(super) fn check_bits(pages: &[PageBytes], bits: &[u8]) {
    for (block, (bytes, bits)) in pages.iter().zip(bits).enumerate() {
        let page = Page::new(bytes);
        assert!(bits & ALL_VISIBLE == 0 || page.is_all_visible(), "block {block}: {bits}");
        for item in (1..=page.item_count()).filter_map(|number| page.item(number)) {
            let tuple = HeapTuple::new(item).unwrap();
            let frozen = tuple.xmin_frozen() && tuple.xmax() == 0;
            assert!(bits & ALL_FROZEN == 0 || frozen, "block {block}");
        }
    }
}

#[test]
fn dead_rows_go_and_their_room_is_used_after_a_restart() {
    let mut table = OneRow::new();
    table.load(0..20 * PER_PAGE as i64);
    let blocks = table.blocks();
    let rows = |block| (1..=PER_PAGE as u16 / 2).map(move |offset| (block, offset));
    table.delete_all((2..12).flat_map(rows));
    let report = table.vacuum(false);
    let dead = 10 * (PER_PAGE / 2) as u64;
    assert_eq!((report.removed, report.scanned, report.recently_dead), (dead, blocks, 0));
    assert_eq!(report.live, 20 * PER_PAGE as u64 + 1 - dead);
    assert_eq!(report.marked[0], blocks);
    table.forget_space();
    table.load(0..dead as i64 - 100);
    assert_eq!(table.blocks(), blocks, "the table does not grow");
    table.check_maps();
    assert_eq!(table.seen() as u64, 20 * PER_PAGE as u64 + 1 - 100);
}

#[test]
fn what_somebody_may_see_stays() {
    let mut table = OneRow::new();
    table.load(0..100);
    let snapshot = table.fixture.xacts.snapshot(&Transaction::new());
    table.delete_all((1..=50).map(|offset| (0, offset)));
    let report = table.vacuum(false);
    assert_eq!((report.removed, report.recently_dead, report.live), (0, 50, 51));
    assert_eq!(table.bits(), [0]);
    drop(snapshot);
    assert_eq!(table.vacuum(false).removed, 50);
    assert_eq!(table.bits()[0] & ALL_VISIBLE, ALL_VISIBLE);
}

#[test]
fn what_was_over_goes_although_a_later_snapshot_counts_an_older_one() {
    const DATABASE: Oid = 5;
    let mut table = OneRow::new();
    table.load(0..10);
    let mut elsewhere = Transaction::in_database(DATABASE + 1);
    let older = table.fixture.author(&mut table.backend, &mut elsewhere).xid;
    table.delete_all([(0, 2), (0, 3)]);
    let oldest = |table: &OneRow| table.fixture.xacts.procs().horizons(DATABASE, None).data.xid();
    let cutoffs = Cutoffs { oldest_xid: oldest(&table), ..table.cutoffs(false) };
    let snapshot = table.fixture.xacts.snapshot(&Transaction::in_database(DATABASE));
    assert!(oldest(&table) == older && older < cutoffs.oldest_xid, "the horizon went back");
    let report = table.vacuum_in(DATABASE, cutoffs, false).unwrap();
    assert_eq!((report.removed, report.recently_dead, report.live), (2, 0, 9));
    drop(snapshot);
    table.end(elsewhere, true);
}

#[test]
fn rows_of_running_and_aborted_inserters() {
    let mut table = OneRow::new();
    let (mut tx, _) = table.begin();
    let author = table.fixture.author(&mut table.backend, &mut tx);
    table.heap.insert(&mut table.backend, author, &tuple_of(1)).unwrap();
    let report = table.vacuum(true);
    assert_eq!((report.live, report.removed), (1, 0));
    assert_eq!(table.bits(), [0]);
    table.end(tx, false);
    let report = table.vacuum(true);
    assert_eq!((report.live, report.removed), (1, 1));
    assert_eq!(table.bits(), [VALID_BITS]);
}

#[test]
fn freezing_leaves_no_ids() {
    let mut table = OneRow::new();
    table.load(0..2 * PER_PAGE as i64);
    let (tx, _) = table.begin();
    // A lock, an update that aborted.
    let mut changer = tx;
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let done = table.update_at(&mut changer, ItemPointer::new(1, 2), &tuple_of(9), &columns);
    assert!(matches!(done, Attempt::Done(_)), "{done:?}");
    table.end(changer, false);
    let report = table.vacuum(true);
    assert_eq!(table.bits(), [VALID_BITS; 3]);
    assert_eq!(report.marked, [3, 3, 0]);
    assert_eq!(report.frozen, (2 * PER_PAGE as u64 + 1, 3));
    let remaining = report.remaining.unwrap();
    assert_eq!(remaining.xid, table.cutoffs(true).oldest_xid, "nothing older is left");
    // A second vacuum leaves frozen rows alone.
    let report = table.vacuum(true);
    assert_eq!((report.frozen, report.marked), ((0, 0), [0; 3]));
    // Without need nothing is frozen.
    table.load([1]);
    let report = table.vacuum(false);
    assert_eq!(report.frozen, (0, 0));
    assert!(report.remaining.unwrap().xid < table.cutoffs(false).oldest_xid);
}

#[test]
fn all_visible_pages_are_skipped_and_then_nothing_is_known_of_their_ids() {
    let mut table = OneRow::new();
    table.load(0..70 * PER_PAGE as i64);
    let blocks = table.blocks();
    table.vacuum(false);
    let report = table.vacuum(false);
    assert_eq!((report.scanned, report.remaining), (1, None), "the last page is always read");
    // An aggressive vacuum reads them, and freezes.
    let report = table.vacuum_with(Cutoffs { ..table.cutoffs(true) }, true).unwrap();
    assert_eq!((report.scanned, report.marked), (blocks, [0, 0, blocks]));
    let report = table.vacuum(false);
    assert_eq!(report.scanned, 1);
    assert!(report.remaining.is_some(), "frozen pages have no ids");
}

#[test]
fn multixacts_are_replaced_by_what_still_matters() {
    use MemberStatus::{ForKeyShare, NoKeyUpdate};
    for (updater_commits, locker_runs) in [(true, true), (false, true), (false, false)] {
        let mut row = OneRow::new();
        let ((locker, a), (updater, b)) = (row.begin(), row.begin());
        row.hold(&[(a, ForKeyShare), (b, NoKeyUpdate)]);
        row.end(updater, updater_commits);
        let mut locker = Some(locker);
        if !locker_runs {
            row.end(locker.take().unwrap(), true);
        }
        let next = row.fixture.multis.counters().next;
        let cutoffs = Cutoffs { multi_limit: next, ..row.cutoffs(false) };
        row.vacuum_with(cutoffs, true).unwrap();
        row.check_maps();
        let (kind, members) = row.xmax();
        match (updater_commits, locker_runs) {
            (true, true) => {
                assert_eq!(kind, Xmax::Multi { lock_only: false });
                assert_eq!(members, [(a, ForKeyShare), (b, NoKeyUpdate)]);
            }
            (false, true) => {
                assert_eq!(kind, Xmax::Multi { lock_only: true });
                assert_eq!(members, [(a, ForKeyShare)]);
            }
            _ => assert_eq!((kind, row.at(ROW, |tuple, _| tuple.xmax())), (Xmax::None, 0)),
        }
        if let Some(locker) = locker {
            row.end(locker, true);
        }
    }
}

#[test]
fn damaged_ids_are_named_with_their_place() {
    let mut row = OneRow::new();
    let cutoffs = Cutoffs { frozen_xid: FIRST_XID + 1000, ..row.cutoffs(false) };
    let xmin = row.at(ROW, |tuple, _| tuple.xmin());
    let error = row.vacuum_with(cutoffs, false).unwrap_err();
    let (limit, rel) = (FIRST_XID + 1000, TABLE);
    let expected =
        format!("found xmin {xmin} from before relfrozenxid {limit} (block 0, offset 1 of {rel})");
    assert_eq!((error.sqlstate(), error.to_string()), ("XX001", expected));
    assert!(row.fixture.failures.all().is_empty());
}

#[test]
fn a_page_in_use_is_only_looked_at() {
    let mut table = OneRow::new();
    table.load(0..10);
    table.delete_all([(0, 3), (0, 4)]);
    let pin = table.heap.pool.read(&mut table.backend, table.heap.tag(0), Strategy::Normal);
    let pin = pin.unwrap();
    let report = table.vacuum(false);
    assert_eq!((report.removed, report.missed, report.live), (0, (2, 1), 9));
    assert_eq!(table.bits(), [0]);
    drop(pin);
    assert_eq!(table.vacuum(false).removed, 2);
}

#[test]
fn a_vacuum_waits_for_a_page_until_it_is_free_or_a_cancel_comes() {
    let mut table = OneRow::new();
    table.load(0..10);
    let pin = table.heap.pool.read(&mut table.backend, table.heap.tag(0), Strategy::Normal);
    let pin = pin.unwrap();
    let (cutoffs, interrupt) = (table.cutoffs(true), Interrupt::new());
    let (heap, mut backend) = (table.heap.clone(), table.fixture.backend());
    let mut vacuum = || vacuum_heap(&heap, &mut backend, 0, cutoffs, true, &interrupt);
    let await_waiter = |pin: &Pinned| {
        while !pin.lock_exclusive().cleanup_is_wanted() {
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        let waiting = scope.spawn(&mut vacuum);
        await_waiter(&pin);
        interrupt.request(InterruptKind::Cancel);
        let ended = waiting.join().unwrap();
        assert!(matches!(ended, Err(AccessError::Interrupted(InterruptKind::Cancel))), "{ended:?}");
    });
    assert!(!pin.lock_exclusive().cleanup_is_wanted());
    interrupt.clear_cancel();
    let report = thread::scope(|scope| {
        let waiting = scope.spawn(&mut vacuum);
        await_waiter(&pin);
        drop(pin);
        waiting.join().unwrap().unwrap()
    });
    assert!(report.frozen.0 >= 10);
}

#[test]
fn recovery_gives_the_same_pages_and_maps() {
    let mut table = OneRow::new();
    table.load(0..5 * PER_PAGE as i64);
    table.fixture.write_all(&mut table.backend);
    table.delete_all((1..4).flat_map(|block| (1..90).map(move |offset| (block, offset))));
    table.vacuum(false);
    table.delete_all((1..PER_PAGE as u16).map(|offset| (4, offset)));
    table.vacuum(true);
    table.delete_all([(0, 1)]);
    table.fixture.wal.flush_all(&mut table.backend.io).unwrap();
    let pages = table.fixture.pages(&mut table.backend, TABLE);
    let bits = table.bits();
    for times in [1, 2] {
        let (mut recovered, _dir) = table.fixture.recover_copy(times);
        let again = recovered.pages(TABLE);
        assert_eq!(again.len(), pages.len());
        for (block, (again, page)) in again.iter().zip(&pages).enumerate() {
            let items = |bytes: &PageBytes| {
                let page = Page::new(bytes);
                let item = |n| {
                    page.item(n).map(|item| HeapTuple::new(item).unwrap().bytes()[..8].to_vec())
                };
                (page.is_all_visible(), (1..=page.item_count()).map(item).collect::<Vec<_>>())
            };
            assert_eq!(items(again), items(page), "block {block}");
        }
        let Recovered { pool, backend, .. } = &mut recovered;
        for (block, bits) in (0..).zip(&bits) {
            let pin = crate::vm::pin(pool, backend, TABLE, block).unwrap().unwrap();
            assert_eq!(map::get(pin.lock_shared().page(), block), *bits, "block {block}");
        }
        check_bits(&again, &bits);
    }
}

#[test]
fn the_empty_end_is_cut_off() {
    let mut table = OneRow::new();
    table.load(0..40 * PER_PAGE as i64);
    table.fixture.write_all(&mut table.backend);
    let blocks = table.blocks();
    let all =
        (5..blocks).flat_map(|block| (1..=PER_PAGE as u16).map(move |offset| (block, offset)));
    let pages = table.fixture.pages(&mut table.backend, TABLE);
    let exists =
        |(block, offset): &(u32, u16)| Page::new(&pages[*block as usize]).item(*offset).is_some();
    table.delete_all(all.filter(exists).collect::<Vec<_>>());
    let report = table.vacuum(false);
    assert_eq!((report.with_rows, report.pages), (5, blocks));
    let go_on = &mut |_: &mut Backend| Ok(true);
    let used = table.heap.blocks_in_use(&mut table.backend, blocks, 0, go_on).unwrap();
    assert_eq!(used, 5);
    let xacts = table.fixture.xacts.clone();
    let no_pace: Pace<'_> = &mut |_, _| Ok(());
    table.heap.cut(&mut table.backend, &xacts, used, no_pace).unwrap();
    assert_eq!((table.blocks(), table.bits().len()), (5, 5));
    table.check_maps();
    let seen = table.seen();
    assert_eq!(seen, 5 * PER_PAGE);
    // The map knows nothing of what is gone, and new rows begin behind the end.
    table.load(0..PER_PAGE as i64);
    assert_eq!(table.blocks(), 6);
    table.fixture.wal.flush_all(&mut table.backend.io).unwrap();
    let (mut recovered, _dir) = table.fixture.recover_copy(2);
    let used = |pages: &[PageBytes]| pages.iter().filter(|page| !Page::new(page).is_new()).count();
    assert_eq!(used(&recovered.pages(TABLE)), 6);
}

#[test]
fn a_damaged_map_of_free_space_is_only_a_hint() {
    let mut table = OneRow::new();
    table.load(0..4 * PER_PAGE as i64);
    table.delete_all((1..PER_PAGE as u16).map(|offset| (1, offset)));
    table.vacuum(false);
    // It promises room where there is none, and behind the end.
    for (block, free) in [(0, 8000), (2, 8000), (900, 8000)] {
        table.heap.free_space_map().record(&mut table.backend, block, free).unwrap();
    }
    table.heap.update_free_space_map(&mut table.backend, 0..1000, &mut |_, _| Ok(())).unwrap();
    table.forget_space();
    let blocks = table.blocks();
    table.load(0..PER_PAGE as i64 - 60);
    assert_eq!(table.blocks(), blocks);
    assert_eq!(table.seen(), 4 * PER_PAGE + 1 - (PER_PAGE - 1) + PER_PAGE - 60);
}

#[test]
fn rows_frozen_at_once_are_seen_by_all_and_marked() {
    let mut table = OneRow::new();
    let old = table.fixture.xacts.snapshot(&Transaction::new());
    let (mut tx, _) = table.begin();
    let author = table.fixture.author(&mut table.backend, &mut tx);
    let mut batch = batch_of(0..3 * PER_PAGE as i64);
    batch.set_frozen(true);
    table.heap.space = Arc::default();
    table.heap.space.first_look();
    table.heap.insert_batch(&mut table.backend, author, &batch, Strategy::Normal, None).unwrap();
    let mut scan = table.heap.scan(old, ReadAhead::default()).unwrap();
    let seen = scan.count(&mut table.backend, &Interrupt::new()).unwrap();
    assert_eq!(seen, 3 * PER_PAGE as u64 + 1);
    table.end(tx, true);
    let bits = table.bits();
    assert_eq!(bits[1..4], [VALID_BITS; 3], "{bits:?}");
    table.check_maps();
    table.fixture.wal.flush_all(&mut table.backend.io).unwrap();
    let (mut recovered, _dir) = table.fixture.recover_copy(1);
    check_bits(&recovered.pages(TABLE), &bits);
}
