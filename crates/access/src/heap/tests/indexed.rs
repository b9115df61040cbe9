//! Vacuum of a table with indexes: when its dead line pointers go, and that no index has one that
//! may be used again.

use std::collections::BTreeSet;

use forebay_format::page::ItemState;
use forebay_format::visibility_map::{ALL_VISIBLE, VALID_BITS};
use forebay_format::{BlockNumber, Page};
use forebay_storage::StreamSettings;
use forebay_txn::HorizonKind;

use super::changes::OneRow;
use super::vacuum::check_bits;
use super::*;

/// Room enough.
const ROOM: usize = 1 << 20;

/// Stands for all indexes of a table.
#[derive(Debug)]
struct Entries {
    heap: Heap,
    entries: BTreeSet<(BlockNumber, u16)>,
    /// The dead line pointers of each round.
    rounds: Vec<u64>,
    ended: u32,
    /// Where the removal is given up: before the first index, or after it.
    gives_up: Option<Removed>,
}

impl Entries {
    /// Entries for all line pointers that are in use.
    fn of(table: &mut OneRow) -> Entries {
        let pages = table.fixture.pages(&mut table.backend, TABLE);
        let numbers = |page: &[u8; 8192]| 1..=Page::new(page).item_count();
        let entries = (0..).zip(&pages).flat_map(|(block, page)| {
            let used = |n: &u16| !Page::new(page).item_id(*n).unwrap().is_unused();
            numbers(page).filter(used).map(move |n| (block, n)).collect::<Vec<_>>()
        });
        let (entries, rounds) = (entries.collect(), Vec::new());
        Entries { heap: table.heap.clone(), entries, rounds, ended: 0, gives_up: None }
    }

    /// Where an entry leads.
    fn state(&self, backend: &mut Backend, (block, offset): (BlockNumber, u16)) -> ItemState {
        let tag = PageTag::new(TABLE, Fork::Main, block);
        let pin = self.heap.pool.read(backend, tag, Strategy::Normal).unwrap();
        let guard = pin.lock_shared();
        guard.page().item_id(offset).map_or(ItemState::Unused, |id| id.state)
    }

    /// How many entries lead to dead line pointers. None leads to one that may be used again.
    fn dead(&self, backend: &mut Backend) -> usize {
        let states = self.entries.iter().map(|entry| self.state(backend, *entry));
        let states: Vec<_> = states.collect();
        assert!(!states.contains(&ItemState::Unused), "an entry for another row");
        states.iter().filter(|state| **state == ItemState::Dead).count()
    }
}

impl TableIndexes for Entries {
    fn remove(
        &mut self,
        backend: &mut Backend,
        dead: &DeadItems,
        _: Pace<'_>,
    ) -> Result<Removed, AccessError> {
        if let Some(given_up) = self.gives_up {
            return Ok(given_up);
        }
        self.rounds.push(dead.len());
        let is_dead = |entry: &(u32, u16)| dead.contains(ItemPointer::new(entry.0, entry.1));
        let before = self.entries.clone();
        self.entries.retain(|entry| !is_dead(entry));
        assert_eq!((before.len() - self.entries.len()) as u64, dead.len(), "all of them");
        for entry in before.difference(&self.entries) {
            assert_eq!(self.state(backend, *entry), ItemState::Dead, "{entry:?}");
        }
        Ok(Removed::All)
    }

    fn clean_up(&mut self, _: &mut Backend, _: Pace<'_>) -> Result<(), AccessError> {
        self.ended += 1;
        Ok(())
    }
}

/// Vacuums a table. Everything that can be frozen is, if that is wanted.
fn vacuum(
    heap: &Heap,
    backend: &mut Backend,
    (cutoffs, aggressive): (Cutoffs, bool),
    indexes: IndexesJob<'_>,
) -> VacuumReport {
    let job = VacuumJob {
        kind: HorizonKind::Data,
        database: 0,
        cutoffs,
        aggressive,
        skip_pages: true,
        eager_failure_rate: 0.0,
        stream: StreamSettings::default(),
        strategy: Strategy::VACUUM,
    };
    let (interrupt, pace) = (Interrupt::new(), &mut |_: &mut _, _| Ok(()));
    heap.vacuum_with(backend, &job, Some(indexes), &interrupt, pace).unwrap()
}

impl OneRow {
    fn vacuum_indexed(
        &mut self,
        entries: &mut Entries,
        cleanup: IndexCleanup,
        room: usize,
    ) -> VacuumReport {
        let indexes = IndexesJob { indexes: entries, cleanup, dead: DeadItems::new(room) };
        let freeze = (self.cutoffs(true), false);
        let report = vacuum(&self.heap, &mut self.backend, freeze, indexes);
        self.check_maps();
        report
    }

    /// A table of 60 pages with some dead rows on each of the first ones.
    fn with_dead_rows(pages: BlockNumber) -> (OneRow, Entries) {
        let mut table = OneRow::new();
        table.load(0..60 * PER_PAGE as i64 - 1);
        assert_eq!(table.blocks(), 60);
        let entries = Entries::of(&mut table);
        let rows = (0..pages).flat_map(|block| (3..13).map(move |offset| (block, offset)));
        table.delete_all(rows);
        (table, entries)
    }
}

#[test]
fn dead_line_pointers_go_when_no_index_has_them() {
    let (mut table, mut entries) = OneRow::with_dead_rows(20);
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::Auto, ROOM);
    assert_eq!((report.removed, report.dead_items, report.index_scans), (200, (200, 20), 1));
    assert_eq!((report.bypassed, report.marked), (false, [60, 60, 0]));
    assert_eq!((entries.rounds.as_slice(), entries.ended), (&[200][..], 1));
    assert_eq!((entries.dead(&mut table.backend), entries.entries.len()), (0, 60 * PER_PAGE - 200));
    assert_eq!(table.bits(), [VALID_BITS; 60]);
    table.load(0..200);
    assert_eq!(table.blocks(), 60, "their places are used again");
    // Nothing is dead now.
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::Auto, ROOM);
    assert_eq!((report.dead_items, report.index_scans, report.bypassed), ((0, 0), 0, false));
    assert_eq!((entries.rounds.len(), entries.ended), (1, 2));
}

#[test]
fn a_few_dead_line_pointers_stay_until_they_must_go() {
    let (mut table, mut entries) = OneRow::with_dead_rows(1);
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::Auto, ROOM);
    assert_eq!((report.removed, report.dead_items, report.index_scans), (10, (10, 1), 0));
    assert_eq!((report.bypassed, entries.rounds.len(), entries.ended), (true, 0, 1));
    assert_eq!(entries.dead(&mut table.backend), 10);
    assert_eq!((table.bits()[0], table.bits()[1]), (0, VALID_BITS));
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::On, ROOM);
    assert_eq!((report.removed, report.dead_items, report.index_scans), (0, (10, 1), 1));
    assert_eq!((report.bypassed, entries.dead(&mut table.backend)), (false, 0));
    assert_eq!(table.bits(), [VALID_BITS; 60]);
}

#[test]
fn without_cleanup_they_stay_and_so_does_the_end_of_the_table() {
    let mut table = OneRow::new();
    table.load(0..3 * PER_PAGE as i64 - 1);
    let mut entries = Entries::of(&mut table);
    table.delete_all((1..=PER_PAGE as u16).map(|offset| (2, offset)));
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::Off, ROOM);
    assert_eq!((report.dead_items, report.index_scans), ((PER_PAGE as u64, 1), 0));
    assert_eq!((report.bypassed, report.with_rows), (true, 2));
    assert_eq!((entries.rounds.len(), entries.ended), (0, 0));
    assert_eq!(entries.dead(&mut table.backend), PER_PAGE);
    let go_on = &mut |_: &mut Backend| Ok(true);
    assert_eq!(table.heap.blocks_in_use(&mut table.backend, 3, 2, go_on).unwrap(), 3);
    table.vacuum_indexed(&mut entries, IndexCleanup::On, ROOM);
    let go_on = &mut |_: &mut Backend| Ok(true);
    assert_eq!(table.heap.blocks_in_use(&mut table.backend, 3, 2, go_on).unwrap(), 2);
    assert_eq!(entries.dead(&mut table.backend), 0);
}

#[test]
fn without_room_for_all_they_go_in_rounds() {
    let (mut table, mut entries) = OneRow::with_dead_rows(20);
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::Auto, 0);
    assert_eq!((report.removed, report.dead_items, report.index_scans), (200, (200, 20), 20));
    assert_eq!((entries.rounds.as_slice(), entries.ended), (&[10; 20][..], 1));
    assert_eq!(entries.dead(&mut table.backend), 0);
    assert_eq!(table.bits(), [VALID_BITS; 60]);
}

#[test]
fn indexes_that_are_given_up_keep_their_entries() {
    for (given_up, begun) in [(Removed::None, 0), (Removed::Some, 1)] {
        let (mut table, mut entries) = OneRow::with_dead_rows(20);
        entries.gives_up = Some(given_up);
        let report = table.vacuum_indexed(&mut entries, IndexCleanup::Auto, 0);
        assert_eq!((report.index_scans, report.bypassed, entries.ended), (begun, true, 0));
        assert_eq!(report.dead_items, (200, 20));
        assert_eq!(entries.dead(&mut table.backend), 200);
    }
}

#[test]
fn a_page_in_use_gives_its_dead_line_pointers_too() {
    let (mut table, mut entries) = OneRow::with_dead_rows(20);
    table.vacuum_indexed(&mut entries, IndexCleanup::Off, ROOM);
    let pin = table.heap.pool.read(
        &mut table.backend,
        PageTag::new(TABLE, Fork::Main, 0),
        Strategy::Normal,
    );
    let report = table.vacuum_indexed(&mut entries, IndexCleanup::On, ROOM);
    assert_eq!((report.dead_items, report.missed), ((200, 20), (0, 0)));
    assert_eq!(entries.dead(&mut table.backend), 0);
    assert_eq!(table.bits()[0] & ALL_VISIBLE, ALL_VISIBLE, "the second pass does not wait");
    drop(pin);
}

fn job(entries: &mut Entries, cleanup: IndexCleanup) -> IndexesJob<'_> {
    IndexesJob { indexes: entries, cleanup, dead: DeadItems::new(ROOM) }
}

#[test]
fn a_page_that_was_waited_for_gives_them_once() {
    let (mut table, mut entries) = OneRow::with_dead_rows(20);
    let cutoffs = table.cutoffs(false);
    vacuum(&table.heap, &mut table.backend, (cutoffs, false), job(&mut entries, IndexCleanup::Off));
    let pin = table.heap.pool.read(&mut table.backend, table.heap.tag(0), Strategy::Normal);
    let pin = pin.unwrap();
    let (heap, mut backend) = (table.heap.clone(), table.fixture.backend());
    let freeze = (table.cutoffs(true), true);
    let report = thread::scope(|scope| {
        let waiting = scope
            .spawn(|| vacuum(&heap, &mut backend, freeze, job(&mut entries, IndexCleanup::On)));
        while !pin.lock_exclusive().cleanup_is_wanted() {
            thread::yield_now();
        }
        drop(pin);
        waiting.join().unwrap()
    });
    assert_eq!((report.dead_items, report.index_scans), ((200, 20), 1));
    assert_eq!(entries.dead(&mut table.backend), 0);
    assert_eq!(table.bits(), [VALID_BITS; 60]);
}

#[test]
fn recovery_makes_them_unused_too() {
    let (mut table, mut entries) = OneRow::with_dead_rows(0);
    table.fixture.write_all(&mut table.backend);
    table.delete_all((0..20).flat_map(|block| (3..13).map(move |offset| (block, offset))));
    table.vacuum_indexed(&mut entries, IndexCleanup::Auto, ROOM);
    table.fixture.wal.flush_all(&mut table.backend.io).unwrap();
    let pages = table.fixture.pages(&mut table.backend, TABLE);
    let bits = table.bits();
    for times in [1, 2] {
        let (mut recovered, _dir) = table.fixture.recover_copy(times);
        let again = recovered.pages(TABLE);
        for (block, (again, page)) in again.iter().zip(&pages).enumerate() {
            let pointers = |page| Page::new(page).line_pointers().to_vec();
            assert_eq!(pointers(again), pointers(page), "block {block}");
        }
        check_bits(&again, &bits);
    }
}
