//! A full lock table.

use super::*;

fn of(relation: u32) -> LockTag {
    LockTag::Relation { database: 5, relation }
}

#[test]
fn a_full_table_refuses_locks_of_further_objects() {
    let locks = LockManager::with_room(2, 3);
    let (interrupt, mut owner) = (Interrupt::new(), locks.enter(OwnerId(1)));
    let mode = LockMode::AccessExclusive;
    for relation in 1..=6 {
        locks.lock(&mut owner, of(relation), mode, &interrupt).unwrap();
    }
    let full = locks.lock(&mut owner, of(7), mode, &interrupt).unwrap_err();
    assert_eq!((full.sqlstate(), &full.to_string()[..]), ("53200", "out of shared memory"));
    let hint = "You might need to increase \"max_locks_per_transaction\".";
    assert_eq!(full.hint(), Some(hint));
    assert_eq!(locks.try_lock(&mut owner, of(7), mode), Err(LockError::TableFull));
    // Another mode of an object that is locked needs no room, whoever wants it.
    locks.lock(&mut owner, of(1), LockMode::Share, &interrupt).unwrap();
    let mut other = locks.enter(OwnerId(2));
    let tag = of(1);
    assert_eq!(locks.try_lock(&mut other, tag, mode), Err(LockError::NotAvailable { tag }));
    let xid = locks.wait_for_transaction(&other, 100, || Some(OwnerId(1)), &interrupt);
    assert_eq!(xid, Err(LockError::TableFull));
    // A refusal leaves nothing behind.
    locks.unlock_all(&mut owner);
    for relation in 7..=12 {
        locks.lock(&mut other, of(relation), mode, &interrupt).unwrap();
    }
    locks.unlock_all(&mut other);
    assert_eq!(locks.waits(), 0);
    assert!((1..=12).all(|relation| !locks.holds(OwnerId(2), of(relation), mode)));
}

#[test]
fn weak_locks_beyond_the_own_list_are_in_the_table() {
    let locks = LockManager::with_room(2, 3);
    let (interrupt, mut owner) = (Interrupt::new(), locks.enter(OwnerId(1)));
    let weak = LockMode::AccessShare;
    // Three in the list, six in the table.
    for relation in 1..=9 {
        locks.lock(&mut owner, of(relation), weak, &interrupt).unwrap();
    }
    let in_table = (1..=9).filter(|relation| locks.holds(OwnerId(1), of(*relation), weak)).count();
    assert_eq!(in_table, 6);
    let full = locks.lock(&mut owner, of(10), weak, &interrupt);
    assert_eq!(full, Err(LockError::TableFull));
    let mut other = locks.enter(OwnerId(2));
    // One that would have to be moved into the table.
    let strong = locks.try_lock(&mut other, of(1), LockMode::AccessExclusive);
    assert_eq!(strong, Err(LockError::TableFull));
    locks.unlock(&mut owner, of(9), weak);
    let tag = of(1);
    let strong = locks.try_lock(&mut other, tag, LockMode::AccessExclusive);
    assert_eq!(strong, Err(LockError::NotAvailable { tag }));
    locks.unlock_all(&mut owner);
    locks.try_lock(&mut other, tag, LockMode::AccessExclusive).unwrap();
    locks.unlock_all(&mut other);
    assert!((1..=9).all(|relation| !locks.holds(OwnerId(1), of(relation), weak)));
}
