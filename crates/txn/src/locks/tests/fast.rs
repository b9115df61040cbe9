//! Weak locks outside the table. Strong requests must find them, and after those they must be noted
//! outside the table again.

use forebay_aio::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Whether a weak lock is noted outside of the table.
fn is_fast(locks: &LockManager, tag: LockTag) -> bool {
    let probe = OwnerId(99);
    let mut owner = locks.enter(probe);
    locks.lock(&mut owner, tag, LockMode::AccessShare, &Interrupt::new()).unwrap();
    let fast = !locks.holds(probe, tag, LockMode::AccessShare);
    locks.unlock_all(&mut owner);
    locks.leave(&owner);
    fast
}

/// Takes a lock in a thread, which returns the owner at its end. Returns once the thread waits.
fn wait_for(
    locks: &Arc<LockManager>,
    mut owner: LockOwner,
    mode: LockMode,
    tag: LockTag,
    interrupt: &Interrupt,
) -> thread::JoinHandle<(LockOwner, Result<(), LockError>)> {
    let before = locks.waits();
    let waiting = thread::spawn({
        let (locks, interrupt) = (Arc::clone(locks), interrupt.clone());
        move || {
            let result = locks.lock(&mut owner, tag, mode, &interrupt);
            (owner, result)
        }
    });
    while locks.waits() == before {
        assert!(!waiting.is_finished(), "{mode} on {tag} did not wait");
        thread::yield_now();
    }
    waiting
}

#[test]
fn a_weak_lock_stays_in_its_owners_list_until_a_strong_one_is_wanted() {
    let locks = Arc::new(LockManager::new());
    let calm = Interrupt::new();
    let (mut a, mut b, c) = (locks.enter(A), locks.enter(B), locks.enter(C));
    for mode in [LockMode::AccessShare, LockMode::RowShare, LockMode::RowExclusive] {
        assert!(!a.holds_at_least(TABLE, mode));
        locks.lock(&mut a, TABLE, mode, &calm).unwrap();
        assert!(a.holds_at_least(TABLE, mode) && !locks.holds(A, TABLE, mode));
    }
    assert!(
        a.holds_at_least(TABLE, LockMode::AccessShare) && !a.holds_at_least(TABLE, LockMode::Share)
    );
    locks.lock(&mut b, TABLE, LockMode::AccessShare, &calm).unwrap();
    locks.lock(&mut b, OTHER, LockMode::AccessShare, &calm).unwrap();
    let writer = wait_for(&locks, c, LockMode::AccessExclusive, TABLE, &calm);
    assert!(
        locks.holds(A, TABLE, LockMode::RowExclusive)
            && locks.holds(B, TABLE, LockMode::AccessShare)
    );
    assert!(!locks.holds(B, OTHER, LockMode::AccessShare), "nobody wants it");
    locks.unlock_all(&mut a);
    assert_eq!(locks.waits(), 1);
    locks.unlock_all(&mut b);
    let (mut c, result) = writer.join().unwrap();
    assert_eq!(result, Ok(()));
    // A strong holder excludes others, and does not conflict with itself.
    assert!(locks.try_acquire(D, TABLE, LockMode::AccessShare).is_err());
    locks.lock(&mut c, TABLE, LockMode::AccessShare, &calm).unwrap();
    let reader = wait_for(&locks, a, LockMode::AccessShare, TABLE, &calm);
    locks.unlock_all(&mut c);
    let (mut a, result) = reader.join().unwrap();
    assert_eq!(result, Ok(()));
    locks.unlock_all(&mut a);
    assert!(is_fast(&locks, TABLE));
}

#[test]
fn an_owner_upgrades_its_own_weak_lock() {
    let locks = LockManager::new();
    let mut a = locks.enter(A);
    for mode in [LockMode::AccessShare, LockMode::Share, LockMode::AccessExclusive] {
        locks.lock(&mut a, TABLE, mode, &Interrupt::new()).unwrap();
        assert!(locks.try_acquire(B, TABLE, LockMode::AccessExclusive).is_err());
    }
    locks.unlock_all(&mut a);
    locks.try_acquire(B, TABLE, LockMode::AccessExclusive).unwrap();
    locks.release_all(B);
    assert!(is_fast(&locks, TABLE));
}

#[test]
fn a_deadlock_through_weak_locks_is_found() {
    let locks = Arc::new(LockManager::new());
    let calm = Interrupt::new();
    let (mut a, mut b) = (locks.enter(A), locks.enter(B));
    locks.lock(&mut a, TABLE, LockMode::AccessShare, &calm).unwrap();
    locks.lock(&mut b, OTHER, LockMode::RowExclusive, &calm).unwrap();
    let first = wait_for(&locks, a, LockMode::AccessExclusive, OTHER, &calm);
    let error = locks.lock(&mut b, TABLE, LockMode::AccessExclusive, &calm).unwrap_err();
    let LockError::Deadlock { detail } = error else { panic!("{error:?}") };
    assert_eq!(
        detail,
        "Process 2 waits for AccessExclusiveLock on relation 16384 of database 5; blocked by \
         process 1.\nProcess 1 waits for AccessExclusiveLock on relation 16385 of database 5; \
         blocked by process 2."
    );
    locks.unlock_all(&mut b);
    let (mut a, result) = first.join().unwrap();
    assert_eq!(result, Ok(()));
    locks.unlock_all(&mut a);
    assert!(is_fast(&locks, TABLE) && is_fast(&locks, OTHER));
}

#[test]
fn a_refused_strong_lock_leaves_weak_ones_outside_the_table() {
    let locks = Arc::new(LockManager::new());
    let (calm, cancelled) = (Interrupt::new(), Interrupt::new());
    let (mut a, b) = (locks.enter(A), locks.enter(B));
    locks.lock(&mut a, TABLE, LockMode::RowExclusive, &calm).unwrap();
    assert!(locks.try_acquire(C, TABLE, LockMode::AccessExclusive).is_err());
    assert!(is_fast(&locks, TABLE));
    let waiting = wait_for(&locks, b, LockMode::Exclusive, TABLE, &cancelled);
    // A reader may overtake the waiter, a writer may not.
    assert!(!is_fast(&locks, TABLE));
    cancelled.request(InterruptKind::Cancel);
    let (mut b, result) = waiting.join().unwrap();
    assert_eq!(result, Err(LockError::Interrupted(InterruptKind::Cancel)));
    locks.unlock_all(&mut b);
    assert!(is_fast(&locks, TABLE));
    locks.unlock_all(&mut a);
    assert!(!locks.holds(A, TABLE, LockMode::RowExclusive));
}

#[test]
fn weak_and_strong_locks_exclude_each_other_in_any_order() {
    const ROUNDS: usize = 3_000;
    let locks = Arc::new(LockManager::new());
    let inside = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let threads: Vec<_> = (1..=4)
        .map(|id| {
            let (locks, inside) = (Arc::clone(&locks), Arc::clone(&inside));
            thread::spawn(move || {
                let mut owner = locks.enter(OwnerId(id));
                let (readers, writers) = &*inside;
                for round in 0..ROUNDS {
                    let writes = round % 8 == id as usize;
                    let mode =
                        if writes { LockMode::AccessExclusive } else { LockMode::AccessShare };
                    locks.lock(&mut owner, TABLE, mode, &Interrupt::new()).unwrap();
                    let mine = if writes { writers } else { readers };
                    mine.fetch_add(1, Ordering::SeqCst);
                    if writes {
                        let found =
                            (readers.load(Ordering::SeqCst), writers.load(Ordering::SeqCst));
                        assert_eq!(found, (0, 1));
                    } else {
                        assert_eq!(writers.load(Ordering::SeqCst), 0);
                    }
                    mine.fetch_sub(1, Ordering::SeqCst);
                    locks.unlock_all(&mut owner);
                }
                locks.leave(&owner);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(is_fast(&locks, TABLE));
}
