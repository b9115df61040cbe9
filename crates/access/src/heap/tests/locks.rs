//! Row locks: strengths, update chains, waiting.

use forebay_format::multixact::MemberStatus;
use forebay_format::tuple::{LockStrength, Xmax};
use forebay_txn::locks::{LockManager, LockOwner, OwnerId};

use super::changes::{OneRow, ROW};
use super::*;
use crate::error::{AccessError, RowWork};
use crate::tests::fixture::WAL_START;
use LockStrength::{Exclusive, KeyShare, NoKeyExclusive, Share};

const STRENGTHS: [LockStrength; 4] = [KeyShare, Share, NoKeyExclusive, Exclusive];

impl OneRow {
    fn lock(&mut self, tx: &mut Transaction, strength: LockStrength) -> Attempt<()> {
        self.lock_at(tx, ROW, strength)
    }

    fn lock_at(
        &mut self,
        tx: &mut Transaction,
        tid: ItemPointer,
        strength: LockStrength,
    ) -> Attempt<()> {
        self.fixture.change(&mut self.backend, tx, |backend, changer| {
            self.heap.lock(backend, changer, tid, strength)
        })
    }
}

#[test]
fn locks_of_all_strengths_beside_each_other() {
    for held in STRENGTHS {
        for wanted in STRENGTHS {
            let mut row = OneRow::new();
            let ((mut first, a), (mut second, b)) = (row.begin(), row.begin());
            assert_eq!(row.lock(&mut first, held), Attempt::Done(()));
            assert_eq!(row.xmax(), (Xmax::Transaction(held.locker()), vec![(a, held.locker())]));
            let attempt = row.lock(&mut second, wanted);
            if held.conflicts_with(wanted) {
                assert_eq!(attempt, held_by(vec![a], ROW, None, wanted));
            } else {
                assert_eq!(attempt, Attempt::Done(()), "{held:?}, {wanted:?}");
                let members = vec![(a, held.locker()), (b, wanted.locker())];
                assert_eq!(row.xmax(), (Xmax::Multi { lock_only: true }, members));
            }
            assert_eq!(row.seen(), 1);
            row.end(first, true);
            assert_eq!(row.lock(&mut second, wanted), Attempt::Done(()));
            row.end(second, true);
            assert_eq!(row.seen(), 1, "locks change nothing");
        }
    }
}

#[test]
fn a_lock_is_logged_and_a_second_one_of_the_same_transaction_only_if_it_is_stronger() {
    let mut row = OneRow::new();
    let before = row.records(WAL_START).len();
    let (mut tx, own) = row.begin();
    for strength in [Share, KeyShare, Share, Exclusive, NoKeyExclusive] {
        assert_eq!(row.lock(&mut tx, strength), Attempt::Done(()));
    }
    assert_eq!(row.xmax().1, [(own, MemberStatus::ForUpdate)]);
    let records = row.records(WAL_START).split_off(before);
    let masks: Vec<u8> = records.iter().map(|record| record.1[6]).collect();
    assert!(records.iter().all(|record| record.0 == "LOCK"));
    // Only locked, shared; only locked, exclusive, with key columns.
    assert_eq!(masks, [0x02 | 0x04 | 0x08, 0x02 | 0x04 | 0x10]);
    row.end(tx, true);
}

#[test]
fn a_key_share_lock_follows_an_update_that_leaves_keys_as_they_are() {
    use MemberStatus::{ForKeyShare, NoKeyUpdate};
    for committed in [false, true] {
        let mut row = OneRow::new();
        let (mut updater, a) = row.begin();
        let Attempt::Done(place) = row.update(&mut updater, 6) else { panic!() };
        let mut updater = Some(updater);
        if committed {
            row.end(updater.take().unwrap(), true);
        }
        let before = row.records(WAL_START).len();
        let (mut tx, own) = row.begin();
        assert_eq!(row.lock(&mut tx, KeyShare), Attempt::Done(()));
        let members = vec![(a, NoKeyUpdate), (own, ForKeyShare)];
        assert_eq!(row.xmax(), (Xmax::Multi { lock_only: false }, members));
        assert_eq!(row.xmax_at(place).1, [(own, ForKeyShare)], "the newer version is locked too");
        row.at(ROW, |tuple, _| assert_eq!((tuple.ctid(), tuple.is_hot_updated()), (place, true)));
        let names: Vec<String> =
            row.records(WAL_START).split_off(before).into_iter().map(|record| record.0).collect();
        assert_eq!(names, ["LOCK_UPDATED", "LOCK"]);
        if let Some(updater) = updater {
            row.end(updater, true);
        }
        assert_eq!(row.numbers(&Transaction::new()), [6]);
        let refusal = row.lock(&mut tx, Exclusive);
        assert_eq!(refusal, Attempt::Refused(Refusal::Updated { newer: place, by: a }));
        row.end(tx, true);
    }
}

#[test]
fn only_the_newest_version_is_locked_if_that_is_asked_for() {
    let mut row = OneRow::new();
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let mut place = ROW;
    let mut versions = vec![ROW];
    for number in [6, 7] {
        let (mut tx, _) = row.begin();
        let attempt = row.update_at(&mut tx, place, &tuple_of(number), &columns);
        let Attempt::Done(next) = attempt else { panic!("{attempt:?}") };
        row.end(tx, true);
        versions.push(next);
        place = next;
    }
    let (mut tx, own) = row.begin();
    let mut newest = |row: &mut OneRow, tid| {
        row.fixture.change(&mut row.backend, &mut tx, |backend, changer| {
            row.heap.lock_newest(backend, changer, tid, KeyShare)
        })
    };
    let refused = newest(&mut row, versions[1]);
    let Attempt::Refused(Refusal::Updated { newer, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((newer, row.xmax_at(newer).1), (versions[2], vec![]));
    assert_eq!(newest(&mut row, newer), Attempt::Done(()));
    assert_eq!(row.xmax_at(newer).1, [(own, MemberStatus::ForKeyShare)]);
    // The lock of a key can stand beside the updates.
    assert_eq!(row.lock(&mut tx, KeyShare), Attempt::Done(()));
    row.end(tx, true);
}

#[test]
fn a_chain_whose_end_aborted_is_locked_as_far_as_it_goes() {
    let mut row = OneRow::new();
    let (mut first, _) = row.begin();
    let Attempt::Done(second_place) = row.update(&mut first, 6) else { panic!() };
    row.end(first, true);
    let (mut aborted, _) = row.begin();
    let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
    let Attempt::Done(third_place) =
        row.update_at(&mut aborted, second_place, &tuple_of(7), &columns)
    else {
        panic!()
    };
    row.end(aborted, false);
    let before = row.records(WAL_START).len();
    let (mut tx, own) = row.begin();
    assert_eq!(row.lock(&mut tx, KeyShare), Attempt::Done(()));
    assert_eq!(row.xmax_at(second_place).1, [(own, MemberStatus::ForKeyShare)]);
    assert_eq!(row.xmax_at(third_place).1, []);
    // The place of the third version may be given to another row, which must not seem to follow.
    row.at(second_place, |tuple, _| {
        assert_eq!((tuple.ctid(), tuple.is_hot_updated()), (second_place, false));
    });
    let locks = row.records(WAL_START).split_off(before);
    assert!(locks.iter().all(|record| record.0 == "LOCK"), "{locks:?}");
    row.end(tx, true);
    assert_eq!(row.numbers(&Transaction::new()), [6]);
}

#[test]
fn deleted_rows_cannot_be_locked() {
    let mut row = OneRow::new();
    let ((mut deleter, a), (mut tx, _)) = (row.begin(), row.begin());
    assert_eq!(row.delete(&mut deleter), Attempt::Done(()));
    for strength in STRENGTHS {
        let waits = held_by(vec![a], ROW, ROW, strength);
        assert_eq!(row.lock(&mut tx, strength), waits);
        assert_eq!(row.lock(&mut deleter, strength), Attempt::Refused(Refusal::SelfModified(0)));
    }
    row.end(deleter, true);
    for strength in STRENGTHS {
        assert_eq!(row.lock(&mut tx, strength), Attempt::Refused(Refusal::Deleted));
    }
    let nowhere = row.lock_at(&mut tx, ItemPointer::new(0, 7), Share);
    assert_eq!(nowhere, Attempt::Refused(Refusal::Invisible));
    row.end(tx, true);
}

#[test]
fn a_rolled_back_subtransaction_s_lock_is_gone() {
    let mut row = OneRow::new();
    let ((mut tx, _), (mut other, _)) = (row.begin(), row.begin());
    assert_eq!(row.lock(&mut tx, KeyShare), Attempt::Done(()));
    tx.begin_sub();
    assert_eq!(row.lock(&mut tx, Exclusive), Attempt::Done(()));
    assert!(matches!(row.lock(&mut other, KeyShare), Attempt::Refused(_)));
    row.fixture.xacts.abort_sub(&mut row.backend.io, &mut tx).unwrap();
    assert_eq!(row.lock(&mut other, NoKeyExclusive), Attempt::Done(()));
    assert!(matches!(row.lock(&mut other, Exclusive), Attempt::Refused(_)), "the outer lock stays");
    row.end(tx, true);
    row.end(other, true);
}

/// A table with one row, for several backends.
struct Shared {
    fixture: Fixture,
    heap: Heap,
    locks: LockManager,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let fixture = Fixture::new();
        let heap = fixture.heap(TABLE);
        fixture.load(&mut fixture.backend(), &heap, [5]);
        Arc::new(Shared { fixture, heap, locks: LockManager::new() })
    }

    /// A session with its own backend and a transaction.
    fn session(self: &Arc<Shared>, number: u32) -> Session {
        let (backend, owner) = (self.fixture.backend(), self.locks.enter(OwnerId(number)));
        let (tx, sets) = (Transaction::new().of_backend(number), self.fixture.outcomes().sets());
        Session { shared: Arc::clone(self), backend, owner, tx, sets }
    }

    /// Deletes the row as a backend, and commits.
    fn delete_as(self: &Arc<Shared>, number: u32, waits: bool, interrupt: &Interrupt) -> Changed {
        let mut session = self.session(number);
        let deleted = session
            .run(waits, interrupt, |heap, backend, changer| heap.delete(backend, changer, ROW));
        session.end(true);
        deleted
    }

    /// Deletes the row as a backend in a thread. Returns once it waits.
    fn delete_behind(self: &Arc<Shared>, number: u32, interrupt: &Interrupt) -> Waiter<Changed> {
        let (shared, interrupt) = (self.clone(), interrupt.clone());
        self.behind(number, move || shared.delete_as(number, true, &interrupt))
    }

    /// Runs what makes a backend wait, in a thread. Returns once it waits.
    fn behind<T: Send + 'static>(
        &self,
        number: u32,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Waiter<T> {
        let waiter = thread::spawn(run);
        while self.locks.blocked_by(OwnerId(number)).is_empty() {
            assert!(!waiter.is_finished(), "backend {number} did not wait");
            thread::yield_now();
        }
        waiter
    }
}

type Changed = Result<Attempt<()>, &'static str>;
type Waiter<T> = thread::JoinHandle<T>;

const DONE: Changed = Ok(Attempt::Done(()));

/// A backend with its transaction.
struct Session {
    shared: Arc<Shared>,
    backend: Backend,
    owner: LockOwner,
    tx: Transaction,
    sets: RowSets,
}

impl Session {
    /// Changes or locks the row.
    fn run(
        &mut self,
        waits: bool,
        interrupt: &Interrupt,
        mut change: impl FnMut(
            &Heap,
            &mut Backend,
            &mut Changer<'_>,
        ) -> Result<Attempt<()>, AccessError>,
    ) -> Changed {
        let Session { shared, backend, owner, tx, sets } = self;
        let Shared { fixture, heap, locks } = &**shared;
        let (xacts, author) = (&*fixture.xacts, fixture.author(backend, tx));
        let backend_id = OwnerId(tx.backend());
        let queues = RowQueues { locks, backend: backend_id, database: 5, relation: 16_384 };
        let work = RowWork::Update;
        let mut waiter = RowWaiter { xacts, queues, owner, interrupt, work, waits };
        let in_turn = waits.then_some(queues);
        let mut changer = Changer { xacts, tx, author, sets, queues: in_turn };
        let changed = waiter
            .run(backend, ROW, |backend| change(heap, backend, &mut changer))
            .map_err(|error| error.sqlstate());
        tx.next_command().unwrap();
        changed
    }

    fn lock(&mut self, strength: LockStrength) -> Changed {
        self.run(true, &Interrupt::new(), |heap, backend, changer| {
            heap.lock(backend, changer, ROW, strength)
        })
    }

    /// Updates the row, whose column is not part of a key.
    fn update(&mut self) -> Changed {
        let columns = Columns { layouts: &[AttrLayout::INT8], keys: &[], indexed: &[] };
        self.run(true, &Interrupt::new(), |heap, backend, changer| {
            Ok(match heap.update(backend, changer, ROW, &tuple_of(9), &columns)? {
                Attempt::Done(_) => Attempt::Done(()),
                Attempt::Refused(refusal) => Attempt::Refused(refusal),
            })
        })
    }

    fn delete(&mut self) -> Changed {
        self.run(true, &Interrupt::new(), |heap, backend, changer| {
            heap.delete(backend, changer, ROW)
        })
    }

    /// Does what makes it wait, in a thread. Returns once it waits.
    fn behind(
        mut self,
        change: impl FnOnce(&mut Session) -> Changed + Send + 'static,
    ) -> Waiter<(Session, Changed)> {
        let (shared, number) = (Arc::clone(&self.shared), self.tx.backend());
        shared.behind(number, move || {
            let changed = change(&mut self);
            (self, changed)
        })
    }

    fn end(self, commit: bool) {
        let Session { shared, mut backend, mut owner, mut tx, .. } = self;
        let (xids, xacts) = (Vec::from_iter(tx.xid()), &shared.fixture.xacts);
        match commit {
            true => xacts.commit(&mut backend.io, &mut tx).unwrap(),
            false => xacts.abort(&mut backend.io, &mut tx).unwrap(),
        };
        shared.locks.transactions_ended(&xids);
        shared.locks.unlock_all(&mut owner);
        shared.locks.leave(&owner);
    }
}

#[test]
fn those_who_wait_for_a_row_get_it_in_their_order() {
    for commit in [false, true] {
        let shared = Shared::new();
        let mut backend = shared.fixture.backend();
        let mut tx = Transaction::new().of_backend(1);
        let holder = shared.locks.enter(OwnerId(1));
        shared.fixture.delete(&mut backend, &shared.heap, &mut tx, ROW);
        let xid = tx.xid().unwrap();
        let first = shared.delete_behind(2, &Interrupt::new());
        assert_eq!(shared.locks.blocked_by(OwnerId(2)), [OwnerId(1)]);
        let second = shared.delete_behind(3, &Interrupt::new());
        assert_eq!(shared.locks.blocked_by(OwnerId(3)), [OwnerId(2)], "behind the first");
        let would_wait = Ok(Attempt::Refused(Refusal::WouldWait));
        assert_eq!(shared.delete_as(4, false, &Interrupt::new()), would_wait);
        let interrupt = Interrupt::new();
        let third = shared.delete_behind(5, &interrupt);
        interrupt.request(InterruptKind::Cancel);
        assert_eq!(third.join().unwrap(), Err("57014"));
        match commit {
            true => shared.fixture.xacts.commit(&mut backend.io, &mut tx).unwrap(),
            false => shared.fixture.xacts.abort(&mut backend.io, &mut tx).unwrap(),
        };
        shared.locks.transactions_ended(&[xid]);
        let gone = Ok(Attempt::Refused(Refusal::Deleted));
        let expected = if commit { gone.clone() } else { Ok(Attempt::Done(())) };
        assert_eq!(first.join().unwrap(), expected);
        assert_eq!(second.join().unwrap(), gone);
        assert_eq!(shared.locks.list(), [], "nobody queues any more");
        shared.locks.leave(&holder);
    }
}

#[test]
fn a_locker_that_wants_more_does_not_queue_behind_one_that_waits_for_it() {
    for deletes in [false, true] {
        let shared = Shared::new();
        let [mut first, second, mut third] = [1, 2, 3].map(|number| shared.session(number));
        assert_eq!(first.lock(Share), DONE);
        let second = second.behind(|session| session.lock(Exclusive));
        assert_eq!(third.lock(Share), DONE);
        let third = third.behind(move |session| match deletes {
            true => session.delete(),
            false => session.lock(Exclusive),
        });
        assert_eq!(shared.locks.blocked_by(OwnerId(3)), [OwnerId(1)], "not the second");
        first.end(false);
        let (third, locked) = third.join().unwrap();
        assert_eq!(locked, DONE, "deletes: {deletes}");
        third.end(false);
        let (second, locked) = second.join().unwrap();
        assert_eq!(locked, DONE);
        second.end(true);
    }
}

#[test]
fn lockers_that_update_do_not_queue_behind_one_that_waits_for_them() {
    for commit in [false, true] {
        let shared = Shared::new();
        let [mut first, second, mut third] = [1, 2, 3].map(|number| shared.session(number));
        assert_eq!(first.lock(KeyShare), DONE);
        let second = second.behind(|session| session.lock(Exclusive));
        assert_eq!(third.lock(KeyShare), DONE);
        assert_eq!(first.update(), DONE, "others have locked only the key");
        let third = third.behind(Session::update);
        first.end(commit);
        let updated = |changed| match commit {
            true => matches!(changed, Ok(Attempt::Refused(Refusal::Updated { .. }))),
            false => changed == DONE,
        };
        let (third, changed) = third.join().unwrap();
        assert!(updated(changed), "committed: {commit}");
        third.end(false);
        let (second, locked) = second.join().unwrap();
        assert!(updated(locked), "committed: {commit}");
        second.end(false);
    }
}
