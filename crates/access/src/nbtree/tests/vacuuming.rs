//! Vacuum: which items go, which pages are deleted and used again.

use std::collections::{BTreeSet, HashSet};

use forebay_format::BlockNumber;
use forebay_format::nbtree::{self as nb, DELETED, HALF_DEAD, META_BLOCK, Meta};
use forebay_storage::{Strategy, StreamSettings};
use forebay_txn::Transaction;
use forebay_txn::locks::{Interrupt, InterruptKind};

use super::checker::{Pages, pages_of};
use super::recovery::check_redo;
use super::*;
use crate::heap::PageCost;

/// Vacuums an index, whose rows at some places are dead.
pub(super) fn vacuum(
    index: &Index,
    backend: &mut Backend,
    dead: &dyn Fn(ItemPointer) -> bool,
) -> IndexVacuumStats {
    let interrupt = Interrupt::new();
    let stream = StreamSettings::default();
    let job = IndexVacuumJob { stream, strategy: Strategy::Normal, interrupt: &interrupt };
    let mut stats = IndexVacuumStats::default();
    let pace = &mut |_: &mut Backend, _: PageCost| Ok(());
    index.bulk_delete(backend, &job, dead, pace, &mut stats).unwrap();
    index.vacuum_cleanup(backend, &job, pace, &mut stats).unwrap();
    stats
}

/// What a vacuum does that finds no dead rows in the table.
pub(super) fn clean_up(index: &Index, backend: &mut Backend) -> IndexVacuumStats {
    let interrupt = Interrupt::new();
    let stream = StreamSettings::default();
    let job = IndexVacuumJob { stream, strategy: Strategy::Normal, interrupt: &interrupt };
    let mut stats = IndexVacuumStats::default();
    let pace = &mut |_: &mut Backend, _: PageCost| Ok(());
    index.vacuum_cleanup(backend, &job, pace, &mut stats).unwrap();
    stats
}

/// Lets transactions begin and end, so that pages deleted before may be used again.
pub(super) fn end_transactions(fixture: &Fixture, backend: &mut Backend) {
    for _ in 0..2 {
        let mut tx = Transaction::new();
        fixture.xacts.assign(&mut backend.io, &mut tx).unwrap();
        fixture.xacts.commit(&mut backend.io, &mut tx).unwrap();
    }
}

fn meta(pages: &Pages) -> Meta {
    Meta::of(pages.page(META_BLOCK)).unwrap()
}

/// The numbers of pages that are deleted, and half-dead.
fn gone(pages: &Pages) -> (usize, usize) {
    let count = |flag| {
        let blocks = 0..pages.pages.len() as BlockNumber;
        blocks.filter(|&block| pages.opaque(block).has(flag)).count()
    };
    (count(DELETED), count(HALF_DEAD))
}

/// Checks an index that nobody changes: each page is the meta page, in the tree, or deleted.
pub(super) fn check(index: &Index, backend: &mut Backend, rows: usize) -> Pages {
    let pages = pages_of(index, backend);
    let (levels, found) = pages.check();
    assert_eq!(found.len(), rows);
    let in_tree: usize = levels.iter().map(|level| level.pages).sum();
    let (deleted, half_dead) = gone(&pages);
    assert_eq!((in_tree + deleted + 1, half_dead), (pages.pages.len(), 0));
    pages
}

#[test]
fn items_of_dead_rows_go_and_others_stay() {
    for deduplicate in [false, true] {
        let fixture = Fixture::new();
        let mut backend = fixture.backend();
        let index = index(&fixture, IndexShape { deduplicate, ..shape(&[oids::INT4]) });
        let mut random = Random(3);
        let mut rows = BTreeSet::new();
        let mut next = 0;
        for round in 0..12 {
            for _ in 0..1500 {
                let key = random.below(if round % 2 == 0 { 40 } else { 1 << 20 }) as i32;
                insert(&index, &mut backend, &[Datum::Int4(key)], tid(next));
                rows.insert((key, tid(next)));
                next += 1;
            }
            // Some rows, then all in a range of keys, then nearly all.
            let dead: HashSet<ItemPointer> = rows
                .iter()
                .filter(|(key, _)| match round % 3 {
                    0 => random.below(3) == 0,
                    1 => (1 << 17..3 << 18).contains(key),
                    _ => random.below(50) != 0,
                })
                .map(|row| row.1)
                .collect();
            let before = rows.len();
            rows.retain(|row| !dead.contains(&row.1));
            let stats = vacuum(&index, &mut backend, &|tid| dead.contains(&tid));
            assert_eq!((stats.removed, stats.rows), (dead.len() as u64, rows.len() as u64));
            assert_eq!(before, dead.len() + rows.len());
            let pages = check(&index, &mut backend, rows.len());
            assert_eq!(stats.pages as usize, pages.pages.len());
            assert_eq!(stats.deleted as usize, gone(&pages).0);
            assert_eq!(meta(&pages).deleted_pages, stats.deleted - stats.free);
            for direction in [Direction::Forward, Direction::Backward] {
                let mut cursor = IndexCursor::new(index.scan(Vec::new(), BatchOptions::default()));
                let found = std::iter::from_fn(|| cursor.next(&mut backend, direction).unwrap());
                let mut found: Vec<_> = found.collect();
                if direction == Direction::Backward {
                    found.reverse();
                }
                assert!(found.iter().eq(rows.iter().map(|row| &row.1)), "{direction:?}");
            }
            if round % 4 == 3 {
                end_transactions(&fixture, &mut backend);
            }
        }
        assert!(fixture.failures.all().is_empty());
        check_redo(&fixture, &index);
    }
}

#[test]
fn branches_of_empty_pages_are_deleted_and_the_fast_root_comes_down() {
    let fixture = Fixture::with(forebay_aio::MethodKind::Sync, 1024);
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::TEXT]));
    // Few items fit a page, so the tree is high.
    let key = |n: u32| Datum::string(format!("{n:05}{}", "x".repeat(900)));
    for n in 0..3000 {
        insert(&index, &mut backend, &[key(n)], tid(n));
    }
    let levels = check(&index, &mut backend, 3000).check().0;
    assert!(levels.len() >= 4 && levels[1].pages > 1, "{levels:?}");
    // A hole over several pages of the level above the leaves.
    vacuum(&index, &mut backend, &|place| (tid(500)..tid(2500)).contains(&place));
    let pages = check(&index, &mut backend, 1000);
    let inner = |pages: &Pages| {
        let deleted = |block: &BlockNumber| pages.opaque(*block).has(DELETED);
        let blocks = (0..pages.pages.len() as BlockNumber).filter(deleted);
        blocks.filter(|&block| pages.opaque(block).level > 0).count()
    };
    assert!(inner(&pages) > 2, "pages above the leaves are deleted, too");
    let rows = |range: std::ops::Range<u32>| range.map(tid).collect::<HashSet<_>>();
    let most = rows(0..2990);
    vacuum(&index, &mut backend, &|place| most.contains(&place));
    let pages = check(&index, &mut backend, 10);
    let meta = meta(&pages);
    assert!(meta.fast_level < meta.level, "{meta:?}");
    for n in 0..2990 {
        insert(&index, &mut backend, &[key(n)], tid(n));
    }
    check(&index, &mut backend, 3000);
    assert!(fixture.failures.all().is_empty());
    check_redo(&fixture, &index);
}

#[test]
fn an_index_does_not_grow_if_rows_come_at_the_right_and_go_at_the_left() {
    let fixture = Fixture::with(forebay_aio::MethodKind::Sync, 1024);
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let mut pages = Vec::new();
    for round in 0..12 {
        for n in round * 4000..(round + 1) * 4000 {
            insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
        }
        let oldest = tid((round * 4000) as u32);
        let stats = vacuum(&index, &mut backend, &|place| place < oldest);
        assert!(round == 0 || stats.newly_deleted > 5, "{stats:?}");
        end_transactions(&fixture, &mut backend);
        pages.push(stats.pages);
    }
    // The pages of one vacuum are free at the next one.
    assert_eq!(pages.iter().max(), pages[..4].iter().max(), "{pages:?}");
    assert_eq!(check(&index, &mut backend, 4000).check().1.len(), 4000);
    check_redo(&fixture, &index);
}

#[test]
fn a_deleted_page_is_not_used_again_as_long_as_a_scan_may_come_to_it() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    let fill = |backend: &mut Backend, from: u32, rows: u32| {
        for n in from..from + rows {
            insert(&index, backend, &[Datum::Int4(n as i32)], tid(n));
        }
    };
    fill(&mut backend, 0, 3000);
    end_transactions(&fixture, &mut backend);
    let before = fixture.xacts.snapshot(&Transaction::new());
    let scan = index.scan(Vec::new(), BatchOptions::default());
    let first = scan.first(&mut backend, Direction::Forward).unwrap().unwrap();
    let stats = vacuum(&index, &mut backend, &|place| place < tid(2900));
    assert!(stats.newly_deleted > 5 && stats.free == 0, "{stats:?}");
    end_transactions(&fixture, &mut backend);
    assert_eq!(clean_up(&index, &mut backend).free, 0, "the snapshot is from before");
    // Nor if the map says that it is free.
    note_all_free(&index, &mut backend);
    fill(&mut backend, 3000, 3000);
    let pages = fixture.pool.nblocks(INDEX, Fork::Main).unwrap();
    assert!(pages > stats.pages + 5, "all new pages are behind the end");
    // The scan goes on from its first leaf, which is gone.
    let next = scan.next(&mut backend, &first, Direction::Forward).unwrap().unwrap();
    assert_eq!(next.items()[0].tid, tid(2900));

    drop(before);
    end_transactions(&fixture, &mut backend);
    let stats = clean_up(&index, &mut backend);
    assert!(stats.scanned && stats.estimated && stats.free == stats.deleted, "{stats:?}");
    assert!(!clean_up(&index, &mut backend).scanned, "there is nothing left to be freed");
    fill(&mut backend, 6000, 2000);
    assert_eq!(fixture.pool.nblocks(INDEX, Fork::Main).unwrap(), pages);
    check(&index, &mut backend, 100 + 5000);
    check_redo(&fixture, &index);
}

#[test]
fn items_that_moved_to_a_page_passed_before_are_found() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..3000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    vacuum(&index, &mut backend, &|place| place < tid(1500));
    end_transactions(&fixture, &mut backend);
    clean_up(&index, &mut backend);
    let before = fixture.pool.nblocks(INDEX, Fork::Main).unwrap();
    let mut other = fixture.backend();
    let (interrupt, stream) = (Interrupt::new(), StreamSettings::default());
    let job = IndexVacuumJob { stream, strategy: Strategy::Normal, interrupt: &interrupt };
    let mut stats = IndexVacuumStats::default();
    // Once the free pages are passed, the last leaves are split, and half of each goes there.
    let mut scanned = 0;
    let pace = &mut |_: &mut Backend, _: PageCost| {
        scanned += 1;
        if scanned == before - 3 {
            for n in 0..1500 {
                insert(&index, &mut other, &[Datum::Int4(2500 + n / 3)], tid(5000 + n as u32));
            }
        }
        Ok(())
    };
    index.bulk_delete(&mut backend, &job, &|place| place < tid(5000), pace, &mut stats).unwrap();
    assert_eq!(fixture.pool.nblocks(INDEX, Fork::Main).unwrap(), before, "free pages were used");
    assert_eq!(stats.removed, 1500);
    check(&index, &mut backend, 1500);
}

#[test]
fn pages_beside_an_incomplete_split_stay() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..4000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let left = super::interrupted::interrupt_split(&index, &mut backend, 4);
    let dead = |place: ItemPointer| place < tid(3900);
    vacuum(&index, &mut backend, &dead);
    let pages = pages_of(&index, &mut backend);
    let right = pages.opaque(left).next;
    assert!(![left, right].iter().any(|&block| pages.opaque(block).is_ignored()));
    assert_eq!(pages.check().0[1].incomplete, 1);
    // An insertion completes the split; then they can go.
    let tuple = |block: BlockNumber, n| nb::Tuple::new(nb::item(pages.page(block), n).unwrap());
    let key = tuple(left, nb::HIGH_KEY).unwrap();
    let mut values = key.values(1);
    let Some(forebay_format::varlena::Varlena::Plain(bytes)) =
        values.next(index.shape.layouts[0]).unwrap()
    else {
        panic!("an int4");
    };
    let key = i32::from_le_bytes(bytes.try_into().unwrap());
    insert(&index, &mut backend, &[Datum::Int4(key - 1)], tid(0));
    vacuum(&index, &mut backend, &dead);
    let pages = check(&index, &mut backend, 100);
    assert!([left, right].iter().all(|&block| pages.opaque(block).has(DELETED)));
}

/// Fills the map with wrong entries, as a crash may leave them.
fn note_all_free(index: &Index, backend: &mut Backend) {
    let pages = index.pool.nblocks(INDEX, Fork::Main).unwrap();
    for block in 0..pages {
        index.note_free(backend, block).unwrap();
    }
    let mut check = |_: &mut Backend| Ok::<(), AccessError>(());
    index.free_pages().vacuum(backend, 0..pages, &mut check).unwrap();
}

#[test]
fn free_pages_that_are_in_use_after_all_are_passed_over() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..2000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    note_all_free(&index, &mut backend);
    for n in 2000..4000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let checked = pages_of(&index, &mut backend);
    assert_eq!(checked.check().1.len(), 4000);
}

#[test]
fn a_vacuum_waits_for_a_scan_that_keeps_its_leaf() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let index = index(&fixture, shape(&[oids::INT4]));
    for n in 0..1000 {
        insert(&index, &mut backend, &[Datum::Int4(n)], tid(n as u32));
    }
    let scan = index.scan(Vec::new(), BatchOptions { pin: true, tuples: false });
    let mut batch = scan.first(&mut backend, Direction::Forward).unwrap().unwrap();
    // It does not wait if it is told not to.
    let interrupt = Interrupt::new();
    interrupt.request(InterruptKind::Cancel);
    let stream = StreamSettings::default();
    let job = IndexVacuumJob { stream, strategy: Strategy::Normal, interrupt: &interrupt };
    let run = |dead: &dyn Fn(ItemPointer) -> bool| {
        let pace = &mut |_: &mut Backend, _: PageCost| Ok(());
        let stats = &mut IndexVacuumStats::default();
        index.bulk_delete(&mut fixture.backend(), &job, dead, pace, stats)
    };
    // Also if no item of the leaf goes: the scan may be about to look at rows.
    let error = run(&|_| false).unwrap_err();
    assert!(matches!(error, AccessError::Interrupted(InterruptKind::Cancel)), "{error}");
    batch.unpin();
    run(&|place| place < tid(500)).unwrap();
    check(&index, &mut backend, 500);
    assert_eq!(batch.items()[0].tid, tid(0));
}
