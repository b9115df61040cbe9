//! Subtransactions: ids, visibility, outcomes, records; horizons by database.

use forebay_aio::sync::atomic::AtomicU32;
use forebay_format::wal::xact::{ABORT, ASSIGNMENT, COMMIT, OPMASK, XactEnd};
use forebay_format::wal::{Rmgr, clog};
use forebay_txn::{HorizonKind, RemovableTest};

use super::*;

/// The fixture's log: kind, transaction and payload of each record of transactions.
fn xact_records(fixture: &Fixture) -> Vec<(u8, Xid, Vec<u8>)> {
    let mut io = fixture.aio.backend(BackendType::Startup).unwrap();
    fixture.wal.flush_all(&mut io).unwrap();
    let mut reader = reader(&fixture.aio, fixture.dir.path(), WAL_START);
    let mut found = Vec::new();
    while let Some(record) = reader.next(&mut io).unwrap() {
        let decoded = record.decode().unwrap();
        if decoded.header.rmgr == Rmgr::XACT {
            found.push((decoded.header.info, decoded.header.xid, decoded.main.to_vec()));
        } else {
            assert_eq!((decoded.header.rmgr, decoded.kind()), (Rmgr::CLOG, clog::ZEROPAGE));
        }
    }
    found
}

fn end(fixture: &Fixture, index: usize) -> (u8, Xid, XactEnd) {
    let (info, xid, main) = xact_records(fixture).swap_remove(index);
    (info & OPMASK, xid, XactEnd::decode(info, &main).unwrap())
}

#[test]
fn children_get_ids_after_their_parents_and_commit_with_them() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let mut tx = Transaction::new();
    tx.begin_sub();
    tx.begin_sub();
    assert_eq!(tx.depth(), 2);
    let inner = xacts.assign(io, &mut tx).unwrap();
    assert_eq!((tx.xid(), inner, tx.current_xid()), (Some(3), 5, Some(5)));
    assert_eq!(xacts.assign(io, &mut tx).unwrap(), inner, "an id is handed out once");
    assert_eq!(xacts.subtrans().parent(io, 5).unwrap(), Some(4));
    assert_eq!(xacts.subtrans().topmost(io, 5, 3).unwrap(), 3);
    tx.release_sub();
    assert_eq!(tx.current_xid(), Some(4));
    tx.begin_sub();
    assert_eq!(tx.current_xid(), None);
    assert_eq!(xacts.assign(io, &mut tx).unwrap(), 6);

    let own = xacts.snapshot(&tx);
    assert!([3, 4, 5, 6].iter().all(|xid| own.is_own(*xid)) && !own.is_own(7));
    let other = xacts.snapshot(&Transaction::new());
    assert!([3, 4, 5, 6].iter().all(|xid| other.is_running(*xid) && !other.is_own(*xid)));
    // One subtransaction is open: it commits with the rest.
    xacts.commit(io, &mut tx).unwrap();
    assert_eq!(tx.depth(), 0);
    let later = xacts.snapshot(&Transaction::new());
    for xid in 3..7 {
        assert!(other.is_running(xid) && !later.is_running(xid));
        assert_eq!(fixture.clog.status(io, xid).unwrap(), Outcome::Committed);
    }
    let (kind, xid, end) = end(&fixture, 0);
    assert_eq!((kind, xid, end.subxacts), (COMMIT, 3, vec![4, 5, 6]));
}

#[test]
fn a_rollback_takes_what_was_released_into_it() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let mut tx = Transaction::new();
    tx.begin_sub();
    xacts.assign(io, &mut tx).unwrap();
    let created = forebay_format::RelFileLocator { rel: 20_000, ..TABLE };
    tx.drop_at_commit(TABLE);
    tx.begin_sub();
    xacts.assign(io, &mut tx).unwrap();
    xacts.drop_at_abort(&mut tx, created);
    tx.release_sub();
    let before = xacts.snapshot(&tx);
    assert!(before.is_own(4) && before.is_own(5));
    let finished = xacts.abort_sub(io, &mut tx).unwrap();
    assert_eq!(finished.drop, [created]);
    // A snapshot that was taken before does not see its rows any more.
    assert!(!before.is_own(4) && !before.is_own(5) && before.is_own(3));
    let other = xacts.snapshot(&Transaction::new());
    assert!(other.is_running(3) && !other.is_running(4) && !other.is_running(5));
    assert!(!xacts.procs().is_running(5) && xacts.procs().is_running(3));
    assert_eq!(fixture.clog.status(io, 4).unwrap(), Outcome::Aborted);
    assert_eq!(fixture.clog.status(io, 5).unwrap(), Outcome::Aborted);
    let (kind, xid, aborted) = end(&fixture, 0);
    assert_eq!((kind, xid, &aborted.subxacts[..]), (ABORT, 4, &[5][..]));
    assert_eq!(aborted.rels, [created]);

    // The same savepoint again.
    tx.begin_sub();
    assert_eq!(xacts.assign(io, &mut tx).unwrap(), 6);
    tx.release_sub();
    let finished = xacts.commit(io, &mut tx).unwrap();
    assert!(finished.drop.is_empty(), "the drop was rolled back");
    let (kind, xid, committed) = end(&fixture, 1);
    assert_eq!((kind, xid, &committed.subxacts[..]), (COMMIT, 3, &[6][..]));
    let statuses = [3, 4, 5, 6].map(|xid| fixture.clog.status(io, xid).unwrap());
    use Outcome::{Aborted, Committed};
    assert_eq!(statuses, [Committed, Aborted, Aborted, Committed]);
    // As redo finds it.
    let replayed = replayed_clog(fixture.dir.path());
    assert_eq!([3, 4, 5, 6].map(|xid| replayed.status(io, xid).unwrap()), statuses);
}

#[test]
fn a_subtransaction_without_an_id_leaves_no_trace() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let mut tx = Transaction::new();
    for _ in 0..3 {
        tx.begin_sub();
    }
    xacts.abort_sub(io, &mut tx).unwrap();
    tx.release_sub();
    xacts.assign(io, &mut tx).unwrap();
    assert_eq!((tx.xid(), tx.current_xid()), (Some(3), Some(4)));
    xacts.abort(io, &mut tx).unwrap();
    let records = xact_records(&fixture);
    assert_eq!(records.len(), 1);
    let (kind, xid, aborted) = end(&fixture, 0);
    assert_eq!((kind, xid, aborted.subxacts), (ABORT, 3, vec![4]));
}

/// The parent's page decides: until then those on other pages have committed if it will.
#[test]
fn children_on_other_pages_commit_with_the_parent_s_page() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let io = &mut backend.io;
    let xacts = manager_at(&fixture, FullXid::new(0, 32_766), 3);
    let mut tx = Transaction::new();
    for _ in 0..4 {
        xacts.assign(io, &mut tx).unwrap();
        tx.begin_sub();
    }
    assert_eq!(xacts.procs().all(), [FullXid::new(0, 32_766)]);
    let prepared = fixture.clog.prepare_tree(io, 32_766, &[32_767, 32_768, 32_769]).unwrap();
    fixture.clog.set(io, 32_768, Outcome::SubCommitted).unwrap();
    let xmin = 32_766;
    assert!(!xacts.did_commit(io, 32_768, xmin).unwrap());
    assert!(!xacts.did_commit(io, 32_768, 32_769).unwrap(), "of a crash before xmin");
    fixture.clog.set_tree(io, 32_766, &[32_767], Outcome::Committed).unwrap();
    assert!(xacts.did_commit(io, 32_768, xmin).unwrap(), "as its parent");
    assert!(!xacts.did_commit(io, 32_769, xmin).unwrap());
    prepared.set(Outcome::Committed);
    for xid in 32_766..32_770 {
        assert_eq!(fixture.clog.status(io, xid).unwrap(), Outcome::Committed);
        assert!(xacts.did_commit(io, xid, xmin).unwrap());
    }
    xacts.commit(io, &mut tx).unwrap();
}

/// A reader at any moment: children have committed, or will with their parent, from the moment at
/// which it has, and not before.
#[test]
fn a_tree_on_two_pages_commits_at_one_moment() {
    let fixture = Fixture::new();
    fixture.clog.zero_page(1);
    let now = Arc::new(AtomicU32::new(0));
    const TREES: u32 = 30_000;
    let writer = thread::spawn({
        let (clog, now, mut backend) = (fixture.clog.clone(), now.clone(), fixture.backend());
        move || {
            for tree in 0..TREES {
                now.store(tree, Ordering::SeqCst);
                let outcome = Outcome::Committed;
                clog.set_tree(&mut backend.io, 10 + tree, &[32_768 + tree], outcome).unwrap();
            }
            now.store(TREES, Ordering::SeqCst);
        }
    });
    let mut backend = fixture.backend();
    let mut status = |xid| fixture.clog.status(&mut backend.io, xid).unwrap();
    loop {
        let tree = now.load(Ordering::SeqCst);
        if tree == TREES {
            break;
        }
        let (parent, child) = (10 + tree, 32_768 + tree);
        if status(parent) == Outcome::Committed {
            assert!(matches!(status(child), Outcome::SubCommitted | Outcome::Committed));
        } else if status(child) == Outcome::Committed {
            assert_eq!(status(parent), Outcome::Committed);
        }
    }
    writer.join().unwrap();
}

#[test]
fn a_commit_fails_whole_while_a_child_s_page_cannot_be_read() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let io = &mut backend.io;
    let error = fixture.clog.prepare_tree(io, 5, &[6, 40_000]).map(drop);
    assert_eq!(sqlstate(error), "XX001");
    assert_eq!(fixture.clog.status(io, 5).unwrap(), Outcome::InProgress);
    // Nothing stays pinned: the page can go.
    fixture.clog.flush(io).unwrap();
}

#[test]
fn more_children_than_are_listed_are_found_through_pg_subtrans() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let mut tx = Transaction::in_database(5).of_backend(12);
    let top = xacts.assign(io, &mut tx).unwrap();
    let mut children = Vec::new();
    for index in 0..130 {
        tx.begin_sub();
        children.push(xacts.assign(io, &mut tx).unwrap());
        match index {
            100 => drop(xacts.abort_sub(io, &mut tx).unwrap()),
            _ => tx.release_sub(),
        }
    }
    let mut ended = Transaction::new();
    let other = xacts.assign(io, &mut ended).unwrap();
    xacts.commit(io, &mut ended).unwrap();

    let snapshot = xacts.snapshot(&Transaction::new());
    let mut running = |xid| snapshot.is_running_in(io, xacts.subtrans(), xid).unwrap();
    assert!(running(top) && !running(other) && running(other + 1) && !running(2));
    assert!(children.iter().all(|child| running(*child)), "the aborted one too, as in PostgreSQL");
    let unlisted = std::panic::AssertUnwindSafe(|| snapshot.is_running(children[0]));
    std::panic::catch_unwind(unlisted).expect_err("only pg_subtrans can tell");
    for (index, child) in children.iter().enumerate() {
        assert_eq!(xacts.procs().is_running(*child), index != 100, "{index}");
    }
    assert!(!xacts.procs().is_running(other) && !xacts.procs().is_running(other + 1));
    assert_eq!(xacts.procs().runner(children[129]), Some(12));
    let running = xacts.running_xacts();
    assert!(running.subxid_overflow && running.subxids.is_empty());
    assert_eq!((running.xids, running.latest_completed), (vec![top], other));

    // Each 64 children are named by one record, the aborted one is not named again.
    let records = xact_records(&fixture);
    let named: Vec<&[u8]> = records
        .iter()
        .filter(|(info, _, _)| info & OPMASK == ASSIGNMENT)
        .map(|(_, _, main)| &main[..])
        .collect();
    assert_eq!(named.len(), 2);
    assert_eq!(named[0].len(), 8 + 64 * 4);
    assert_eq!(named[0][..12], [3, 0, 0, 0, 64, 0, 0, 0, 4, 0, 0, 0]);
    xacts.commit(io, &mut tx).unwrap();
    let snapshot = xacts.snapshot(&Transaction::new());
    assert!(children.iter().all(|child| !snapshot.is_running(*child)));
    assert_eq!(fixture.clog.status(io, children[129]).unwrap(), Outcome::Committed);
    assert_eq!(fixture.clog.status(io, children[100]).unwrap(), Outcome::Aborted);
    assert!(xacts.running_xacts().xids.is_empty());
}

/// A search through all levels for each id, or a copy of all ids for each release, would take
/// minutes.
#[test]
fn many_subtransactions_in_one_another_and_in_a_row() {
    const DEEP: usize = 100_000;
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let mut tx = Transaction::new();
    for _ in 0..DEEP {
        tx.begin_sub();
        xacts.assign(io, &mut tx).unwrap();
    }
    assert_eq!(tx.depth(), DEEP);
    // A few roll back, one with what was released into it.
    for _ in 0..100 {
        tx.release_sub();
    }
    let inner = tx.innermost_xids();
    assert_eq!(inner.len(), 101);
    for _ in 0..100 {
        xacts.abort_sub(io, &mut tx).unwrap();
    }
    for _ in 0..DEEP - 200 {
        tx.release_sub();
    }
    assert_eq!((tx.depth(), tx.subxacts().len()), (0, DEEP - 200));
    assert!(!xacts.procs().is_running(inner[0]) && !xacts.procs().is_running(inner[100]));
    for _ in 0..DEEP {
        tx.begin_sub();
        xacts.assign(io, &mut tx).unwrap();
        tx.release_sub();
    }
    let subxacts = tx.subxacts();
    assert_eq!(subxacts.len(), 2 * DEEP - 200);
    assert!(subxacts.is_sorted() && xacts.procs().is_running(subxacts[DEEP]));
    xacts.commit(io, &mut tx).unwrap();
    assert_eq!(fixture.clog.status(io, subxacts[DEEP]).unwrap(), Outcome::Committed);
    assert_eq!(fixture.clog.status(io, inner[100]).unwrap(), Outcome::Aborted);
}

#[test]
fn subtransactions_across_the_wraparound() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let io = &mut backend.io;
    fixture.clog.set_recovering(true);
    let xacts = manager_at(&fixture, FullXid::new(6, u32::MAX - 1), u32::MAX - 1000);
    let mut tx = Transaction::new();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(xacts.assign(io, &mut tx).unwrap());
        tx.begin_sub();
    }
    assert_eq!(ids, [u32::MAX - 1, u32::MAX, 3, 4, 5]);
    assert_eq!(xacts.next_xid(), FullXid::new(7, 6));
    assert_eq!(xacts.subtrans().topmost(io, 5, ids[0]).unwrap(), ids[0]);
    let mut short = Transaction::new();
    assert_eq!(xacts.assign(io, &mut short).unwrap(), 6);
    xacts.commit(io, &mut short).unwrap();
    let snapshot = xacts.snapshot(&Transaction::new());
    assert!(ids.iter().all(|xid| snapshot.is_running(*xid)));
    assert!(!snapshot.is_running(6) && !snapshot.is_running(u32::MAX - 2));
    assert!(snapshot.is_running(7));
    let own = xacts.snapshot(&tx);
    assert!(ids.iter().all(|xid| own.is_own(*xid)));
    tx.release_sub();
    xacts.abort_sub(io, &mut tx).unwrap();
    assert!(own.is_own(4) && !own.is_own(5));
    let horizons = xacts.procs().horizons(0, tx.full_xid());
    assert_eq!(horizons.data, FullXid::new(6, u32::MAX - 1));
    let mut test = RemovableTest::new(HorizonKind::Data, 0, None);
    assert!(test.is_xid_over_for_all(xacts.procs(), u32::MAX - 2));
    assert!(!test.is_xid_over_for_all(xacts.procs(), 6));
    xacts.commit(io, &mut tx).unwrap();
    assert!(!test.is_xid_over_for_all(xacts.procs(), 6), "two snapshots are in use");
    drop((snapshot, own));
    xacts.assign(io, &mut short).unwrap();
    xacts.commit(io, &mut short).unwrap();
    assert!(test.is_xid_over_for_all(xacts.procs(), 6));
    assert!(!test.is_xid_over_for_all(xacts.procs(), 8));
    for (xid, outcome) in ids.iter().zip([Outcome::Committed; 4]) {
        assert_eq!(fixture.clog.status(io, *xid).unwrap(), outcome);
    }
    assert_eq!(fixture.clog.status(io, 5).unwrap(), Outcome::Aborted);
}

#[test]
fn the_youngest_id_that_is_over_is_a_normal_one() {
    let fixture = Fixture::new();
    let xacts = manager_at(&fixture, FullXid::new(7, 3), u32::MAX - 1000);
    let running = xacts.running_xacts();
    assert_eq!((running.next_xid, running.latest_completed), (3, u32::MAX));
    assert_eq!(xacts.procs().horizon(), 3);
}

#[test]
fn each_database_has_a_horizon() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let (mut writer, mut elsewhere) = (Transaction::in_database(5), Transaction::in_database(6));
    let first = FullXid::new(0, xacts.assign(io, &mut elsewhere).unwrap());
    let second = FullXid::new(0, xacts.assign(io, &mut writer).unwrap());
    let mut short = Transaction::in_database(5);
    xacts.assign(io, &mut short).unwrap();
    xacts.commit(io, &mut short).unwrap();
    let next = xacts.next_xid();
    let of = |database| xacts.procs().horizons(database, None);
    assert_eq!((of(5).data, of(5).catalog, of(5).shared), (second, second, first));
    assert_eq!((of(6).data, of(7).data, of(0).data), (first, next, first));
    assert_eq!((of(7).considered_running, of(7).temporary), (first, next));
    assert_eq!(xacts.procs().horizons(5, Some(second)).temporary, second);

    // A snapshot holds back the horizon of its own database, by all that it counts as running.
    let mut last = LastRunning::default();
    let reader = Transaction::in_database(7);
    let snapshot = xacts.snapshot_since(&reader, &mut last);
    assert_eq!((of(7).data, of(8).data), (first, next));
    xacts.commit(io, &mut elsewhere).unwrap();
    assert_eq!((of(6).data, of(7).data, of(5).shared), (next, first, first));
    // A session that goes to another database takes another look.
    let moved = xacts.snapshot_since(&Transaction::in_database(8), &mut last);
    assert_eq!(of(8).data, second, "the writer still runs");
    drop(moved);
    // A snapshot for any database holds back all.
    let any = xacts.snapshot(&Transaction::new());
    assert_eq!(of(8).data, second);
    drop((snapshot, any));
    assert_eq!((of(7).data, of(5).shared, of(5).data), (next, second, second));
    assert_eq!(xacts.procs().horizon(), second.xid());
    xacts.abort(io, &mut writer).unwrap();
    assert_eq!(of(5).shared, next);
}

#[test]
fn a_removable_row_is_found_after_the_snapshot_is_gone() {
    let fixture = Fixture::new();
    let mut backend = fixture.backend();
    let (xacts, io) = (&fixture.xacts, &mut backend.io);
    let reader = xacts.snapshot(&Transaction::new());
    let mut deletes = Transaction::new();
    xacts.assign(io, &mut deletes).unwrap();
    let xid = deletes.full_xid().unwrap();
    let mut test = RemovableTest::new(HorizonKind::Shared, 5, None);
    xacts.commit(io, &mut deletes).unwrap();
    assert!(!test.is_over_for_all(xacts.procs(), xid), "the reader sees the row");
    drop(reader);
    let mut other = Transaction::new();
    xacts.assign(io, &mut other).unwrap();
    xacts.abort(io, &mut other).unwrap();
    assert!(test.is_over_for_all(xacts.procs(), xid));
    assert!(!test.is_over_for_all(xacts.procs(), xacts.next_xid()));
}

/// Whoever is not in a snapshot has an outcome, and a transaction has that of its children.
#[test]
fn snapshots_agree_with_outcomes_while_transactions_end() {
    let fixture = Fixture::new();
    // Ids soon reach the next pages of pg_xact and pg_subtrans.
    let start = FullXid::new(0, 32_768 - 300);
    let xacts = Arc::new(manager_at(&fixture, start, 3));
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| {
            let (xacts, mut backend) = (xacts.clone(), fixture.backend());
            thread::spawn(move || {
                let io = &mut backend.io;
                for round in 0..60 {
                    let mut tx = Transaction::in_database(5);
                    for depth in 0..(round + writer) % 5 {
                        xacts.assign(io, &mut tx).unwrap();
                        if depth > 1 {
                            xacts.abort_sub(io, &mut tx).unwrap();
                        }
                        tx.begin_sub();
                    }
                    xacts.assign(io, &mut tx).unwrap();
                    match round % 3 {
                        0 => drop(xacts.abort(io, &mut tx).unwrap()),
                        _ => drop(xacts.commit(io, &mut tx).unwrap()),
                    }
                }
            })
        })
        .collect();
    let reader = thread::spawn({
        let (xacts, mut backend, done) = (xacts.clone(), fixture.backend(), done.clone());
        move || {
            let (io, mut last) = (&mut backend.io, LastRunning::default());
            let mut looks = 0;
            while !done.load(Ordering::SeqCst) || looks == 0 {
                let snapshot = xacts.snapshot_since(&Transaction::in_database(5), &mut last);
                assert!(xacts.procs().horizon() <= snapshot.xmin());
                for xid in start.xid()..snapshot.xmax() {
                    let parent = xacts.subtrans().parent(io, xid);
                    if snapshot.is_running(xid) {
                        let parent = parent.unwrap();
                        assert!(parent.is_none_or(|parent| snapshot.is_running(parent)), "{xid}");
                        continue;
                    }
                    let outcome = xacts.clog().status(io, xid).unwrap();
                    assert!(
                        matches!(outcome, Outcome::Committed | Outcome::Aborted),
                        "{xid} is over, and {outcome:?}"
                    );
                }
                looks += 1;
            }
        }
    });
    for writer in writers {
        writer.join().unwrap();
    }
    done.store(true, Ordering::SeqCst);
    reader.join().unwrap();
    assert_eq!(xacts.procs().count(), 0);
    let mut io = fixture.aio.backend(BackendType::Startup).unwrap();
    fixture.wal.flush_all(&mut io).unwrap();
    let replayed = replayed_clog(fixture.dir.path());
    for xid in start.xid()..xacts.next_xid().xid() {
        let live = fixture.clog.status(&mut io, xid).unwrap();
        assert_eq!(replayed.status(&mut io, xid).unwrap(), live, "{xid}");
    }
}
