mod fast;
mod room;
mod rows;
mod scopes;

use std::sync::Arc;
use std::sync::mpsc;

use forebay_aio::sync::{Duration, thread};

use super::*;

const TABLE: LockTag = LockTag::Relation { database: 5, relation: 16384 };
const OTHER: LockTag = LockTag::Relation { database: 5, relation: 16385 };
const A: OwnerId = OwnerId(1);
const B: OwnerId = OwnerId(2);
const C: OwnerId = OwnerId(3);
const D: OwnerId = OwnerId(4);

/// PostgreSQL's documented table: rows and columns from AccessShare to AccessExclusive.
const CONFLICTS: [&str; 8] = [
    ".......x", "......xx", "....xxxx", "...xxxxx", "..xx.xxx", "..xxxxxx", ".xxxxxxx", "xxxxxxxx",
];

#[test]
fn conflict_table_is_postgresql_s_and_symmetric() {
    for (row, held) in LockMode::ALL.into_iter().enumerate() {
        for (column, wanted) in LockMode::ALL.into_iter().enumerate() {
            let expected = CONFLICTS[row].as_bytes()[column] == b'x';
            assert_eq!(held.conflicts_with(wanted), expected, "{held} beside {wanted}");
            assert_eq!(held.conflicts_with(wanted), wanted.conflicts_with(held));
            let locks = LockManager::new();
            locks.try_acquire(A, TABLE, held).unwrap();
            assert_eq!(locks.try_acquire(B, TABLE, wanted).is_err(), expected);
        }
    }
}

#[test]
fn a_backend_that_gives_way_is_cancelled_by_who_waits_for_it() {
    let locks = LockManager::new();
    let (holder, mut waiter) = (Interrupt::new(), locks.enter(B));
    let mut owner = locks.enter(A);
    waiter.deadlock_timeout = Duration::from_millis(1);
    waiter.timeout = Some(Duration::from_millis(20));
    let wanted = LockMode::AccessExclusive;
    locks.lock(&mut owner, TABLE, LockMode::ShareUpdateExclusive, &holder).unwrap();
    // It does not give way yet.
    let waited = locks.lock(&mut waiter, TABLE, wanted, &Interrupt::new());
    assert!(waited.is_err() && holder.pending().is_none());
    locks.give_way(&owner, Some(holder.clone()));
    // Nobody waits for what it holds.
    locks.lock(&mut waiter, OTHER, wanted, &Interrupt::new()).unwrap();
    assert_eq!(holder.pending(), None);
    assert!(locks.lock(&mut waiter, TABLE, wanted, &Interrupt::new()).is_err());
    assert_eq!(holder.pending(), Some(InterruptKind::Cancel));
    holder.clear_cancel();
    locks.give_way(&owner, None);
    assert!(locks.lock(&mut waiter, TABLE, wanted, &Interrupt::new()).is_err());
    assert_eq!(holder.pending(), None);
    locks.leave(&owner);
    locks.leave(&waiter);
}

#[test]
fn own_locks_do_not_conflict_and_are_released_together() {
    let locks = LockManager::new();
    for mode in LockMode::ALL {
        locks.acquire(A, TABLE, mode, &Interrupt::new()).unwrap();
        assert!(locks.holds(A, TABLE, mode));
    }
    locks.try_acquire(A, OTHER, LockMode::Share).unwrap();
    assert_eq!(
        locks.try_acquire(B, TABLE, LockMode::AccessShare),
        Err(LockError::NotAvailable { tag: TABLE })
    );
    locks.release_all(A);
    locks.try_acquire(B, TABLE, LockMode::AccessExclusive).unwrap();
    locks.try_acquire(B, OTHER, LockMode::AccessExclusive).unwrap();
    assert!(!locks.holds(A, TABLE, LockMode::AccessShare));
}

/// Starts a thread that waits for a lock and reports when it has it. Returns once it is queued.
fn queue(
    locks: &Arc<LockManager>,
    owner: OwnerId,
    tag: LockTag,
    mode: LockMode,
    interrupt: &Interrupt,
    done: &mpsc::Sender<(OwnerId, Result<(), LockError>)>,
) -> thread::JoinHandle<()> {
    let before = locks.waiters(tag);
    let handle = thread::spawn({
        let (locks, interrupt, done) = (locks.clone(), interrupt.clone(), done.clone());
        move || {
            let result = locks.acquire(owner, tag, mode, &interrupt);
            let _ = done.send((owner, result));
        }
    });
    while locks.waiters(tag) == before {
        assert!(!handle.is_finished(), "{owner:?} does not wait for {tag}");
        thread::yield_now();
    }
    handle
}

#[test]
fn requests_are_granted_in_order_of_arrival() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    let writer = queue(&locks, B, TABLE, LockMode::AccessExclusive, &calm, &send);
    // A later reader waits behind the writer, though it would not conflict with the holder.
    assert!(locks.try_acquire(C, TABLE, LockMode::AccessShare).is_err());
    let reader = queue(&locks, C, TABLE, LockMode::AccessShare, &calm, &send);
    assert!(receive.try_recv().is_err());

    locks.release_all(A);
    assert_eq!(receive.recv().unwrap(), (B, Ok(())));
    assert_eq!(locks.waiters(TABLE), 1);
    locks.release_all(B);
    assert_eq!(receive.recv().unwrap(), (C, Ok(())));
    writer.join().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_release_grants_in_order() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    locks.try_acquire(D, TABLE, LockMode::AccessShare).unwrap();
    let writer = queue(&locks, B, TABLE, LockMode::AccessExclusive, &calm, &send);
    let reader = queue(&locks, C, TABLE, LockMode::AccessShare, &calm, &send);
    locks.release_all(A);
    assert!(!locks.holds(C, TABLE, LockMode::AccessShare), "the reader stays behind the writer");
    assert_eq!(locks.waiters(TABLE), 2);
    locks.release_all(D);
    assert_eq!(receive.recv().unwrap(), (B, Ok(())));
    locks.release_all(B);
    assert_eq!(receive.recv().unwrap(), (C, Ok(())));
    writer.join().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_holder_overtakes_requests_that_wait_for_it() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    let writer = queue(&locks, B, TABLE, LockMode::AccessExclusive, &Interrupt::new(), &send);
    // B waits for A: A may take more at once.
    locks.acquire(A, TABLE, LockMode::RowExclusive, &Interrupt::new()).unwrap();
    locks.release_all(A);
    assert_eq!(receive.recv().unwrap(), (B, Ok(())));
    writer.join().unwrap();
}

#[test]
fn deadlock_fails_the_request_that_completes_the_cycle() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    locks.try_acquire(A, TABLE, LockMode::AccessExclusive).unwrap();
    locks.try_acquire(B, OTHER, LockMode::AccessExclusive).unwrap();
    let first = queue(&locks, A, OTHER, LockMode::RowExclusive, &calm, &send);
    let error = locks.acquire(B, TABLE, LockMode::AccessShare, &calm).unwrap_err();
    assert_eq!(error.sqlstate(), "40P01");
    assert_eq!(error.to_string(), "deadlock detected");
    let LockError::Deadlock { detail } = error else { panic!("{error:?}") };
    assert_eq!(
        detail,
        "Process 2 waits for AccessShareLock on relation 16384 of database 5; blocked by process \
         1.\nProcess 1 waits for RowExclusiveLock on relation 16385 of database 5; blocked by \
         process 2."
    );
    assert!(receive.try_recv().is_err());
    locks.release_all(B);
    assert_eq!(receive.recv().unwrap(), (A, Ok(())));
    first.join().unwrap();
}

#[test]
fn two_upgrades_of_one_lock_deadlock() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    locks.try_acquire(B, TABLE, LockMode::AccessShare).unwrap();
    let first = queue(&locks, A, TABLE, LockMode::AccessExclusive, &calm, &send);
    let error = locks.acquire(B, TABLE, LockMode::AccessExclusive, &calm).unwrap_err();
    assert_eq!(error.sqlstate(), "40P01");
    locks.release_all(B);
    assert_eq!(receive.recv().unwrap(), (A, Ok(())));
    first.join().unwrap();
}

#[test]
fn a_cycle_through_queue_order_alone_is_no_deadlock() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    // A reads TABLE. B holds OTHER and waits to write TABLE. C wants to read TABLE after B queued,
    // and A wants B's lock on OTHER.
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    locks.try_acquire(C, OTHER, LockMode::AccessExclusive).unwrap();
    let writer = queue(&locks, B, TABLE, LockMode::AccessExclusive, &calm, &send);
    let reader = queue(&locks, A, OTHER, LockMode::AccessShare, &calm, &send);
    // C would wait behind B, which waits for A, which waits for C. But C may read beside A.
    locks.acquire(C, TABLE, LockMode::AccessShare, &calm).unwrap();
    locks.release_all(C);
    assert_eq!(receive.recv().unwrap(), (A, Ok(())));
    locks.release_all(A);
    assert_eq!(receive.recv().unwrap(), (B, Ok(())));
    writer.join().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_waiter_overtakes_if_only_the_order_of_its_queue_makes_the_cycle() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    locks.try_acquire(B, OTHER, LockMode::AccessExclusive).unwrap();
    let writer = queue(&locks, D, TABLE, LockMode::AccessExclusive, &calm, &send);
    let reader = queue(&locks, B, TABLE, LockMode::AccessShare, &calm, &send);
    // A waits for B, which waits behind D, which waits for A. But B may read beside A.
    let last = queue(&locks, A, OTHER, LockMode::AccessShare, &calm, &send);
    assert_eq!(receive.recv().unwrap(), (B, Ok(())));
    assert_eq!(locks.waiters(TABLE), 1);
    locks.release_all(B);
    assert_eq!(receive.recv().unwrap(), (A, Ok(())));
    locks.release_all(A);
    assert_eq!(receive.recv().unwrap(), (D, Ok(())));
    for waiting in [writer, reader, last] {
        waiting.join().unwrap();
    }
}

#[test]
fn a_cancelled_wait_leaves_the_queue_to_later_requests() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let (calm, cancelled) = (Interrupt::new(), Interrupt::new());
    locks.try_acquire(A, TABLE, LockMode::AccessShare).unwrap();
    let writer = queue(&locks, B, TABLE, LockMode::AccessExclusive, &cancelled, &send);
    let reader = queue(&locks, C, TABLE, LockMode::AccessShare, &calm, &send);
    cancelled.request(InterruptKind::Cancel);
    let (mut first, mut second) = (receive.recv().unwrap(), receive.recv().unwrap());
    if first.0 == C {
        std::mem::swap(&mut first, &mut second);
    }
    assert_eq!(first, (B, Err(LockError::Interrupted(InterruptKind::Cancel))));
    assert_eq!(second, (C, Ok(())));
    assert_eq!(locks.waiters(TABLE), 0);
    writer.join().unwrap();
    reader.join().unwrap();
}

#[test]
fn a_cancel_does_not_replace_a_terminate() {
    let interrupt = Interrupt::new();
    assert_eq!(interrupt.pending(), None);
    interrupt.request(InterruptKind::Cancel);
    interrupt.clear_cancel();
    assert_eq!(interrupt.pending(), None);
    interrupt.request(InterruptKind::Terminate);
    interrupt.request(InterruptKind::Cancel);
    interrupt.clear_cancel();
    assert_eq!(interrupt.pending(), Some(InterruptKind::Terminate));
}

#[test]
fn tags_of_different_kinds_do_not_conflict() {
    let tags = [
        LockTag::Relation { database: 5, relation: 7 },
        LockTag::Page { database: 5, relation: 7, block: 3 },
        LockTag::Tuple { database: 5, relation: 7, block: 3, offset: 2 },
        LockTag::Transaction(7),
        LockTag::Object { database: 5, class: 1259, object: 7 },
        LockTag::Advisory { database: 5, key: (9 << 32) | 7, two: false },
        LockTag::Advisory { database: 5, key: (9 << 32) | 7, two: true },
        LockTag::VirtualTransaction { backend: 7, local: 9 },
    ];
    let locks = LockManager::new();
    for (owner, tag) in (1..).map(OwnerId).zip(tags) {
        locks.try_acquire(owner, tag, LockMode::AccessExclusive).unwrap();
    }
    let words = tags.map(|tag| tag.to_string());
    assert_eq!(
        words,
        [
            "relation 7 of database 5",
            "page 3 of relation 7 of database 5",
            "tuple (3,2) of relation 7 of database 5",
            "transaction 7",
            "object 7 of class 1259 of database 5",
            "advisory lock [5,9,7,1]",
            "advisory lock [5,9,7,2]",
            "virtual transaction 7/9",
        ]
    );
}
