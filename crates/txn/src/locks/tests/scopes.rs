//! Locks that end before their transaction, or after it; waits for transactions; what is shown.

use forebay_aio::sync::Duration;

use super::*;

const KEY: LockTag = LockTag::Advisory { database: 5, key: 1, two: false };
const ROW: LockTag = LockTag::Tuple { database: 5, relation: 16384, block: 0, offset: 1 };

/// Whether another backend could have the lock now.
fn is_free(locks: &LockManager, tag: LockTag) -> bool {
    let probe = OwnerId(99);
    let free = locks.try_acquire(probe, tag, LockMode::AccessExclusive).is_ok();
    locks.release_all(probe);
    free
}

#[test]
fn a_rollback_to_a_savepoint_releases_what_came_after() {
    let locks = LockManager::new();
    let mut a = locks.enter(A);
    let tables: Vec<LockTag> =
        (1..5).map(|relation| LockTag::Relation { database: 5, relation }).collect();
    locks.try_lock(&mut a, tables[0], LockMode::AccessShare).unwrap();
    a.begin_sub();
    locks.try_lock(&mut a, tables[0], LockMode::AccessShare).unwrap();
    locks.try_lock(&mut a, tables[0], LockMode::Exclusive).unwrap();
    locks.try_lock(&mut a, tables[1], LockMode::RowExclusive).unwrap();
    a.begin_sub();
    locks.try_lock(&mut a, tables[2], LockMode::AccessExclusive).unwrap();
    a.release_sub();
    a.begin_sub();
    locks.try_lock(&mut a, tables[3], LockMode::AccessShare).unwrap();
    locks.unlock_sub(&mut a);
    assert!(is_free(&locks, tables[3]) && !is_free(&locks, tables[2]));
    locks.unlock_sub(&mut a);
    assert!(is_free(&locks, tables[1]) && is_free(&locks, tables[2]));
    // The lock from before stays, in its own mode.
    assert!(!is_free(&locks, tables[0]));
    assert!(a.holds_at_least(tables[0], LockMode::AccessShare));
    assert!(!a.holds_at_least(tables[0], LockMode::RowShare));
    locks.try_acquire(B, tables[0], LockMode::RowExclusive).unwrap();
    locks.release_all(B);
    locks.unlock_all(&mut a);
    assert!(tables.iter().all(|tag| is_free(&locks, *tag)));
    assert!(locks.list().is_empty());
}

#[test]
fn a_lock_released_early_lets_the_next_one_in() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let mut a = locks.enter(A);
    locks.try_lock(&mut a, ROW, LockMode::Exclusive).unwrap();
    let second = queue(&locks, B, ROW, LockMode::Exclusive, &Interrupt::new(), &send);
    locks.unlock(&mut a, ROW, LockMode::Exclusive);
    assert_eq!(receive.recv().unwrap(), (B, Ok(())));
    second.join().unwrap();
    let taken = locks.try_lock(&mut a, ROW, LockMode::AccessShare);
    assert_eq!(taken, Ok(()), "Exclusive lets readers in");
    assert_eq!(
        locks.try_lock(&mut a, ROW, LockMode::Exclusive),
        Err(LockError::NotAvailable { tag: ROW })
    );
}

#[test]
fn a_session_keeps_its_locks_and_counts_them() {
    let locks = LockManager::new();
    let mut a = locks.enter(A);
    for _ in 0..2 {
        locks.lock_session(&mut a, KEY, LockMode::Exclusive, None).unwrap();
    }
    a.begin_sub();
    locks.try_lock(&mut a, KEY, LockMode::Exclusive).unwrap();
    locks.try_lock(&mut a, TABLE, LockMode::AccessShare).unwrap();
    locks.unlock_sub(&mut a);
    assert!(!is_free(&locks, KEY) && is_free(&locks, TABLE));
    locks.try_lock(&mut a, TABLE, LockMode::AccessShare).unwrap();
    locks.unlock_all(&mut a);
    assert!(!is_free(&locks, KEY) && is_free(&locks, TABLE), "the transaction is over");
    assert!(locks.unlock_session(&mut a, KEY, LockMode::Exclusive));
    assert!(!is_free(&locks, KEY));
    assert!(!locks.unlock_session(&mut a, KEY, LockMode::Share));
    assert!(locks.unlock_session(&mut a, KEY, LockMode::Exclusive));
    assert!(is_free(&locks, KEY));
    assert!(!locks.unlock_session(&mut a, KEY, LockMode::Exclusive));
    // Of a transaction and its session: both must give it up.
    locks.try_lock(&mut a, KEY, LockMode::Share).unwrap();
    locks.lock_session(&mut a, KEY, LockMode::Share, Some(&Interrupt::new())).unwrap();
    locks.unlock_all_session(&mut a);
    assert!(!is_free(&locks, KEY));
    locks.unlock_all(&mut a);
    assert!(is_free(&locks, KEY));
}

#[test]
fn a_wait_ends_with_its_timeout() {
    let locks = LockManager::new();
    let (mut a, calm) = (locks.enter(A), Interrupt::new());
    locks.try_acquire(B, TABLE, LockMode::AccessExclusive).unwrap();
    a.timeout = Some(Duration::from_millis(1));
    let error = locks.lock(&mut a, TABLE, LockMode::AccessShare, &calm).unwrap_err();
    assert_eq!((error.sqlstate(), error.clone()), ("55P03", LockError::Timeout));
    assert_eq!(error.to_string(), "canceling statement due to lock timeout");
    assert_eq!((locks.waits(), locks.waiters(TABLE)), (0, 0));
    let running = || Some(B);
    let waited = locks.wait_for_transaction(&a, 7, running, &calm);
    assert_eq!(waited, Err(LockError::Timeout));
    locks.release_all(B);
    locks.lock(&mut a, TABLE, LockMode::AccessExclusive, &calm).unwrap();
    assert_eq!(locks.list().len(), 1, "nothing is left of the wait for the transaction");
}

/// Transactions of a test: those that run, and their backends.
#[derive(Clone, Default)]
struct Xacts(Arc<forebay_aio::sync::Mutex<std::collections::HashMap<u32, OwnerId>>>);

impl Xacts {
    fn start(&self, xid: u32, owner: OwnerId) {
        self.0.lock().insert(xid, owner);
    }

    fn end(&self, locks: &LockManager, xid: u32) {
        self.0.lock().remove(&xid);
        locks.transactions_ended(&[xid]);
    }

    /// Waits in a thread. Returns once it is queued.
    fn wait(
        &self,
        locks: &Arc<LockManager>,
        owner: OwnerId,
        xid: u32,
        interrupt: &Interrupt,
    ) -> thread::JoinHandle<Result<(), LockError>> {
        let tag = LockTag::Transaction(xid);
        let before = locks.waiters(tag);
        let waiting = thread::spawn({
            let (locks, xacts, interrupt) = (locks.clone(), self.clone(), interrupt.clone());
            move || {
                let owner = locks.enter(owner);
                let runner = || xacts.0.lock().get(&xid).copied();
                locks.wait_for_transaction(&owner, xid, runner, &interrupt)
            }
        });
        while locks.waiters(tag) == before {
            assert!(!waiting.is_finished());
            thread::yield_now();
        }
        waiting
    }
}

#[test]
fn all_that_wait_for_a_transaction_go_on_at_its_end() {
    let locks = Arc::new(LockManager::new());
    let (xacts, calm, cancelled) = (Xacts::default(), Interrupt::new(), Interrupt::new());
    xacts.start(100, A);
    let waiting = [B, C].map(|owner| xacts.wait(&locks, owner, 100, &calm));
    let stopped = xacts.wait(&locks, D, 100, &cancelled);
    assert_eq!(locks.blocked_by(B), [A]);
    cancelled.request(InterruptKind::Cancel);
    let stopped = stopped.join().unwrap();
    assert_eq!(stopped, Err(LockError::Interrupted(InterruptKind::Cancel)));
    xacts.end(&locks, 99);
    assert_eq!(locks.waits(), 2);
    xacts.end(&locks, 100);
    for waiting in waiting {
        assert_eq!(waiting.join().unwrap(), Ok(()));
    }
    let owner = locks.enter(D);
    assert_eq!(locks.wait_for_transaction(&owner, 100, || None, &calm), Ok(()), "it is over");
    assert!(locks.list().is_empty());
}

#[test]
fn a_deadlock_of_a_row_a_table_and_a_transaction() {
    let locks = Arc::new(LockManager::new());
    let (xacts, calm) = (Xacts::default(), Interrupt::new());
    let (send, receive) = mpsc::channel();
    xacts.start(100, A);
    xacts.start(u32::MAX, C);
    locks.try_acquire(B, ROW, LockMode::Exclusive).unwrap();
    let row = xacts.wait(&locks, B, 100, &calm);
    let next = queue(&locks, C, ROW, LockMode::Exclusive, &calm, &send);
    let owner = locks.enter(A);
    let error = locks
        .wait_for_transaction(&owner, u32::MAX, || Some(C), &calm)
        .expect_err("it would wait for itself");
    let LockError::Deadlock { detail } = error else { panic!("{error:?}") };
    assert_eq!(
        detail,
        "Process 1 waits for ShareLock on transaction 4294967295; blocked by process 3.\n\
         Process 3 waits for ExclusiveLock on tuple (0,1) of relation 16384 of database 5; blocked \
         by process 2.\n\
         Process 2 waits for ShareLock on transaction 100; blocked by process 1."
    );
    xacts.end(&locks, 100);
    row.join().unwrap().unwrap();
    locks.release_all(B);
    assert_eq!(receive.recv().unwrap(), (C, Ok(())));
    next.join().unwrap();
    locks.release_all(C);
    xacts.end(&locks, u32::MAX);
    assert!(locks.list().is_empty());
}

/// No end is missed, whenever it comes.
#[test]
fn ends_and_waits_cross() {
    let locks = Arc::new(LockManager::new());
    let xacts = Xacts::default();
    for xid in 10..2000 {
        xacts.start(xid, A);
        let waiters = [B, C].map(|owner| {
            let (locks, xacts) = (locks.clone(), xacts.clone());
            thread::spawn(move || {
                let owner = locks.enter(owner);
                let runner = || xacts.0.lock().get(&xid).copied();
                locks.wait_for_transaction(&owner, xid, runner, &Interrupt::new())
            })
        });
        if xid % 2 == 0 {
            thread::yield_now();
        }
        xacts.end(&locks, xid);
        for waiter in waiters {
            waiter.join().unwrap().unwrap();
        }
    }
    assert!(locks.list().is_empty());
}

#[test]
fn the_list_tells_where_each_lock_is() {
    let locks = Arc::new(LockManager::new());
    let (send, receive) = mpsc::channel();
    let calm = Interrupt::new();
    let mut a = locks.enter(A);
    locks.try_lock(&mut a, OTHER, LockMode::AccessShare).unwrap();
    locks.try_lock(&mut a, ROW, LockMode::AccessExclusive).unwrap();
    let waiting = queue(&locks, B, ROW, LockMode::AccessShare, &calm, &send);
    let mut list: Vec<_> = locks
        .list()
        .into_iter()
        .map(|lock| (lock.owner, lock.tag.kind(), lock.mode.name(), lock.granted, lock.fast))
        .collect();
    list.sort_unstable();
    assert_eq!(
        list,
        [
            (A, "relation", "AccessShareLock", true, true),
            (A, "tuple", "AccessExclusiveLock", true, false),
            (B, "tuple", "AccessShareLock", false, false),
        ]
    );
    assert_eq!((locks.blocked_by(B), locks.blocked_by(A)), (vec![A], vec![]));
    locks.unlock_all(&mut a);
    receive.recv().unwrap().1.unwrap();
    waiting.join().unwrap();
}
