//! Queues for rows: they move with their rows, and promise them to the first.

use super::*;

const fn at(offset: u16) -> LockTag {
    LockTag::Tuple { database: 5, relation: 16_384, block: 0, offset }
}

/// Asks for a row in a thread. Returns once it waits. The thread ends when it has the row.
fn wants(
    locks: &Arc<LockManager>,
    owner: OwnerId,
    tag: LockTag,
    interrupt: &Interrupt,
) -> thread::JoinHandle<(LockOwner, Result<(), LockError>)> {
    let waits = locks.waits();
    let thread = thread::spawn({
        let (locks, interrupt) = (Arc::clone(locks), interrupt.clone());
        move || {
            let mut owner = locks.enter(owner);
            let locked = locks.lock_row(&mut owner, tag, LockMode::Exclusive, &interrupt);
            (owner, locked)
        }
    });
    while locks.waits() == waits {
        assert!(!thread.is_finished(), "{owner:?} does not wait");
        thread::yield_now();
    }
    thread
}

fn has(locks: &LockManager, owner: OwnerId, tag: LockTag) -> bool {
    locks.holds(owner, tag, LockMode::Exclusive)
}

/// A backend that has a row.
fn holder(locks: &LockManager, id: OwnerId, tag: LockTag) -> LockOwner {
    let mut owner = locks.enter(id);
    locks.lock_row(&mut owner, tag, LockMode::Exclusive, &Interrupt::new()).unwrap();
    locks.row_taken(&mut owner, tag);
    owner
}

#[test]
fn a_queue_moves_with_its_row() {
    let (locks, calm) = (Arc::new(LockManager::new()), Interrupt::new());
    let mut a = holder(&locks, A, at(1));
    let b = wants(&locks, B, at(1), &calm);
    locks.row_moved(at(1), at(2));
    assert!(has(&locks, A, at(2)) && locks.waiters(at(2)) == 1, "{:?}", locks.list());
    // The row is at its old place for those who come before the update has committed.
    let c = wants(&locks, C, at(1), &calm);
    let d = wants(&locks, D, at(2), &calm);
    locks.row_moved(at(1), at(1));
    assert_eq!(locks.waiters(at(2)), 3);
    locks.unlock_all(&mut a);
    let (mut b, got) = b.join().unwrap();
    assert_eq!(got, Ok(()));
    // The update was rolled back, and the next one puts the row elsewhere.
    locks.row_taken(&mut b, at(1));
    assert!(has(&locks, B, at(1)), "{:?}", locks.list());
    locks.row_moved(at(1), at(3));
    assert!(has(&locks, B, at(3)), "{:?}", locks.list());
    locks.row_moved(at(3), at(4));
    assert_eq!(locks.waiters(at(4)), 2);
    locks.unlock_all(&mut b);
    let (mut c, got) = c.join().unwrap();
    assert_eq!(got, Ok(()));
    locks.unlock_all(&mut c);
    let (mut d, got) = d.join().unwrap();
    assert_eq!(got, Ok(()), "it came last");
    locks.unlock_all(&mut d);
    assert_eq!(locks.list(), []);
    let last = holder(&locks, A, at(3));
    assert!(has(&locks, A, at(3)), "nothing is left of where the queue was");
    drop(last);
}

#[test]
fn a_row_that_is_taken_leaves_its_old_places_to_others() {
    let locks = Arc::new(LockManager::new());
    let mut a = holder(&locks, A, at(1));
    let b = wants(&locks, B, at(1), &Interrupt::new());
    locks.row_moved(at(1), at(2));
    locks.unlock_all(&mut a);
    let (mut b, got) = b.join().unwrap();
    assert_eq!(got, Ok(()));
    let promised = |tag| locks.row_is_promised(C, tag, LockMode::Exclusive, |_| true);
    assert!(promised(at(1)) && promised(at(2)), "B may find it at either");
    locks.row_taken(&mut b, at(2));
    assert!(!promised(at(1)) && promised(at(2)), "{:?}", locks.list());
    locks.row_moved(at(1), at(7));
    assert!(has(&locks, B, at(2)), "another row has been at the old place");
    locks.unlock_all(&mut b);
    assert_eq!(locks.list(), []);
}

#[test]
fn a_row_is_promised_to_the_first_unless_it_waits() {
    let (locks, calm) = (Arc::new(LockManager::new()), Interrupt::new());
    let promised = |owner, tag, mode, runs| locks.row_is_promised(owner, tag, mode, |_| runs);
    assert!(!promised(B, at(1), LockMode::Exclusive, true), "nobody queues");
    let a = holder(&locks, A, at(1));
    locks.row_moved(at(1), at(2));
    for tag in [at(1), at(2)] {
        assert!(promised(B, tag, LockMode::Exclusive, true));
        assert!(!promised(A, tag, LockMode::Exclusive, true), "it is its own");
        assert!(!promised(B, tag, LockMode::AccessShare, true), "both can have it");
    }
    assert!(!promised(B, at(3), LockMode::Exclusive, true), "another row");
    let first = thread::spawn({
        let (locks, calm) = (Arc::clone(&locks), calm.clone());
        move || locks.wait_for_transaction(&a, 7, || Some(D), &calm)
    });
    while locks.waits() == 0 {
        thread::yield_now();
    }
    assert!(!promised(B, at(2), LockMode::Exclusive, true), "the first waits for another");
    assert!(promised(B, at(2), LockMode::Exclusive, false), "it is about to wake up");
    locks.transactions_ended(&[7]);
    assert_eq!(first.join().unwrap(), Ok(()));
    assert!(promised(B, at(2), LockMode::Exclusive, true));
}

#[test]
fn a_row_is_given_up_with_its_subtransaction_or_for_another_row() {
    let locks = LockManager::new();
    let (mut a, calm) = (locks.enter(A), Interrupt::new());
    let lock = |a: &mut LockOwner, tag| locks.lock_row(a, tag, LockMode::Exclusive, &calm);
    a.begin_sub();
    a.begin_sub();
    lock(&mut a, at(1)).unwrap();
    locks.row_taken(&mut a, at(1));
    a.release_sub();
    locks.give_up_row(&mut a);
    assert!(has(&locks, A, at(1)), "it has the row");
    locks.unlock_sub(&mut a);
    assert_eq!(locks.list(), [], "the subtransaction around was rolled back");
    lock(&mut a, at(1)).unwrap();
    locks.row_taken(&mut a, at(1));
    a.begin_sub();
    locks.unlock_sub(&mut a);
    assert!(has(&locks, A, at(1)), "it was locked before");
    lock(&mut a, at(2)).unwrap();
    assert!(has(&locks, A, at(2)) && !has(&locks, A, at(1)));
    locks.give_up_row(&mut a);
    assert_eq!(locks.list(), [], "it was only wanted");
}

#[test]
fn a_wait_for_a_row_that_has_moved_can_be_ended() {
    let locks = Arc::new(LockManager::new());
    let mut a = holder(&locks, A, at(1));
    let interrupt = Interrupt::new();
    let b = wants(&locks, B, at(1), &interrupt);
    locks.row_moved(at(1), at(2));
    interrupt.request(InterruptKind::Cancel);
    let (_, got) = b.join().unwrap();
    assert_eq!(got, Err(LockError::Interrupted(InterruptKind::Cancel)));
    assert_eq!((locks.waits(), locks.waiters(at(2))), (0, 0));
    locks.unlock_all(&mut a);
    assert_eq!(locks.list(), []);
}

#[test]
fn a_deadlock_is_searched_for_after_deadlock_timeout() {
    let locks = Arc::new(LockManager::new());
    let calm = Interrupt::new();
    let mut owners = [A, B].map(|id| locks.enter(id));
    for (owner, tag) in owners.iter_mut().zip([TABLE, OTHER]) {
        locks.lock(owner, tag, LockMode::AccessExclusive, &calm).unwrap();
        owner.deadlock_timeout = Duration::from_secs(86_400);
    }
    let [mut a, mut b] = owners;
    b.deadlock_timeout = Duration::from_millis(1);
    let waiter = thread::spawn({
        let (locks, calm) = (Arc::clone(&locks), calm.clone());
        move || {
            let got = locks.lock(&mut a, OTHER, LockMode::Share, &calm);
            locks.unlock_all(&mut a);
            got
        }
    });
    // B searches once: nobody would find a circle that A closes later, before its day is over.
    while locks.waiters(OTHER) == 0 {
        assert!(!waiter.is_finished(), "A does not wait");
        thread::yield_now();
    }
    let got = locks.lock(&mut b, TABLE, LockMode::Share, &calm);
    assert!(matches!(got, Err(LockError::Deadlock { .. })), "{got:?}");
    locks.unlock_all(&mut b);
    assert_eq!(waiter.join().unwrap(), Ok(()), "it goes on");
}
