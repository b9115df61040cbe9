//! Changes of rows that others hold or have changed: MultiXacts, subtransactions.

use forebay_format::Xid;
use forebay_format::multixact::{Member, MemberStatus};
use forebay_format::tuple::{LockStrength, Xmax, XmaxBits};
use forebay_txn::MultiUse;

use super::*;

pub(super) const ROW: ItemPointer = ItemPointer::new(0, 1);

/// A table with one row, and what tests do with it.
pub(super) struct OneRow {
    pub(super) fixture: Fixture,
    pub(super) heap: Heap,
    pub(super) backend: Backend,
}

impl OneRow {
    pub(super) fn new() -> OneRow {
        OneRow::over(Fixture::new())
    }

    pub(super) fn over(fixture: Fixture) -> OneRow {
        let (mut backend, heap) = (fixture.backend(), fixture.heap(TABLE));
        fixture.load(&mut backend, &heap, [5]);
        OneRow { fixture, heap, backend }
    }

    pub(super) fn begin(&mut self) -> (Transaction, Xid) {
        let mut tx = Transaction::new();
        let xid = self.fixture.author(&mut self.backend, &mut tx).xid;
        (tx, xid)
    }

    pub(super) fn end(&mut self, mut tx: Transaction, commit: bool) {
        let io = &mut self.backend.io;
        match commit {
            true => self.fixture.xacts.commit(io, &mut tx).unwrap(),
            false => self.fixture.xacts.abort(io, &mut tx).unwrap(),
        };
    }

    pub(super) fn delete(&mut self, tx: &mut Transaction) -> Attempt<()> {
        self.fixture.delete(&mut self.backend, &self.heap, tx, ROW)
    }

    /// Gives the row a MultiXact, as PostgreSQL may have left it.
    pub(super) fn hold(&mut self, members: &[(Xid, MemberStatus)]) {
        let members: Vec<Member> =
            members.iter().map(|&(xid, status)| Member { xid, status }).collect();
        let bits = XmaxBits::of_multi(&members);
        let mut of_one = MultiUse::begin(self.fixture.multis.clone());
        let (io, xid) = (&mut self.backend.io, members[0].xid);
        let multi = of_one.create(io, &self.fixture.xacts, xid, members).unwrap();
        with_header(&mut self.backend, &self.heap, |tuple| {
            tuple.set_xmax_bits(bits);
            tuple.set_xmax(multi);
        });
    }

    /// Looks at a version.
    pub(super) fn at<T>(
        &mut self,
        tid: ItemPointer,
        look: impl FnOnce(HeapTuple<'_>, forebay_format::Page<'_>) -> T,
    ) -> T {
        let tag = self.heap.tag(tid.block);
        let pin = self.heap.pool.read(&mut self.backend, tag, Strategy::Normal).unwrap();
        let guard = pin.lock_shared();
        look(HeapTuple::new(guard.page().item(tid.offset).unwrap()).unwrap(), guard.page())
    }

    /// The row's xmax: its kind, and the members.
    pub(super) fn xmax(&mut self) -> (Xmax, Vec<(Xid, MemberStatus)>) {
        self.xmax_at(ROW)
    }

    /// The same of a version.
    pub(super) fn xmax_at(&mut self, tid: ItemPointer) -> (Xmax, Vec<(Xid, MemberStatus)>) {
        let (kind, xmax) = self.at(tid, |tuple, _| (tuple.xmax_kind(), tuple.xmax()));
        let mut members = match kind {
            Xmax::Multi { .. } => {
                let mut of_one = MultiUse::begin(self.fixture.multis.clone());
                of_one.members(&mut self.backend.io, xmax, false).unwrap()
            }
            Xmax::Transaction(status) => vec![Member { xid: xmax, status }],
            Xmax::None | Xmax::UpgradedLockers => Vec::new(),
        };
        members.sort_by_key(|member| member.xid);
        (kind, members.into_iter().map(|member| (member.xid, member.status)).collect())
    }

    /// How many rows a new transaction sees.
    pub(super) fn seen(&mut self) -> usize {
        self.fixture.numbers(&mut self.backend, &self.heap, &Transaction::new()).len()
    }
}

#[test]
fn a_multixact_s_updater_decides_whether_the_row_is_seen() {
    use MemberStatus::{ForKeyShare, NoKeyUpdate, Update};
    for (status, commit) in [(NoKeyUpdate, true), (NoKeyUpdate, false), (Update, true)] {
        let mut row = OneRow::new();
        let ((locker, a), (updater, b)) = (row.begin(), row.begin());
        row.hold(&[(a, ForKeyShare), (b, status)]);
        assert_eq!(row.seen(), 1, "the updater runs");
        row.end(updater, commit);
        assert_eq!(row.seen(), usize::from(!commit), "{status:?}");
        row.end(locker, true);
        assert_eq!(row.seen(), usize::from(!commit), "{status:?}");
    }
}

#[test]
fn a_deletion_waits_for_those_of_a_multixact_who_run() {
    use MemberStatus::{ForKeyShare, ForShare, NoKeyUpdate};
    let mut row = OneRow::new();
    let ((first, a), (second, b), (third, c)) = (row.begin(), row.begin(), row.begin());
    row.hold(&[(a, ForKeyShare), (b, ForShare), (c, NoKeyUpdate)]);
    let (mut tx, xid) = row.begin();
    let mut blockers = |row: &mut OneRow| match row.delete(&mut tx) {
        Attempt::Refused(Refusal::BeingModified(holders)) => holders.xids,
        other => panic!("{other:?}"),
    };
    assert_eq!(blockers(&mut row), [a, b, c]);
    row.end(second, true);
    row.end(third, false);
    assert_eq!(blockers(&mut row), [a]);
    row.end(first, true);
    assert_eq!(row.delete(&mut tx), Attempt::Done(()));
    assert_eq!(row.xmax().1, [(xid, MemberStatus::Update)], "nobody is left to be kept");
    row.end(tx, true);
    assert_eq!(row.seen(), 0);
}

#[test]
fn a_row_that_a_member_has_updated_is_not_deleted() {
    use MemberStatus::{ForKeyShare, Update};
    let mut row = OneRow::new();
    let ((locker, a), (updater, b)) = (row.begin(), row.begin());
    row.hold(&[(a, ForKeyShare), (b, Update)]);
    row.end(updater, true);
    let (mut tx, _) = row.begin();
    assert_eq!(row.delete(&mut tx), Attempt::Refused(Refusal::Deleted));
    with_header(&mut row.backend, &row.heap, |tuple| tuple.set_ctid(ItemPointer::new(3, 4)));
    let newer = Refusal::Updated { newer: ItemPointer::new(3, 4), by: b };
    assert_eq!(row.delete(&mut tx), Attempt::Refused(newer));
    row.end(tx, false);
    row.end(locker, true);
}

#[test]
fn own_locks_do_not_stand_in_the_way() {
    use MemberStatus::{ForKeyShare, ForUpdate, Update};
    let mut row = OneRow::new();
    let ((other, a), (mut tx, own)) = (row.begin(), row.begin());
    row.hold(&[(own, ForUpdate), (a, ForKeyShare)]);
    row.end(other, true);
    assert_eq!(row.delete(&mut tx), Attempt::Done(()));
    let (kind, members) = row.xmax();
    assert_eq!(kind, Xmax::Multi { lock_only: false });
    assert_eq!(members, [(own, ForUpdate), (own, Update)]);
    assert_eq!(row.delete(&mut tx), Attempt::Refused(Refusal::SelfModified(0)));
    row.end(tx, true);
    assert_eq!(row.seen(), 0);
}

#[test]
fn a_subtransaction_s_deletion_goes_with_its_rollback() {
    let mut row = OneRow::new();
    let (mut tx, _) = row.begin();
    tx.begin_sub();
    assert_eq!(row.delete(&mut tx), Attempt::Done(()));
    assert_eq!(row.delete(&mut tx), Attempt::Refused(Refusal::SelfModified(0)));
    tx.next_command().unwrap();
    assert_eq!(row.delete(&mut tx), Attempt::Refused(Refusal::Invisible));
    let see = |row: &mut OneRow, tx: &Transaction| {
        row.fixture.numbers(&mut row.backend, &row.heap, tx).len()
    };
    assert_eq!(see(&mut row, &tx), 0, "its own transaction sees the deletion");
    row.fixture.xacts.abort_sub(&mut row.backend.io, &mut tx).unwrap();
    assert_eq!(see(&mut row, &tx), 1);
    tx.begin_sub();
    assert_eq!(row.delete(&mut tx), Attempt::Done(()));
    tx.release_sub();
    tx.next_command().unwrap();
    assert_eq!((see(&mut row, &tx), row.seen()), (0, 1));
    row.end(tx, true);
    assert_eq!(row.seen(), 0);
}

#[test]
fn overflowed_snapshots_know_all_subtransactions() {
    let mut row = OneRow::new();
    let (mut tx, _) = row.begin();
    for number in 0..100 {
        tx.begin_sub();
        let author = row.fixture.author(&mut row.backend, &mut tx);
        row.heap.insert(&mut row.backend, author, &tuple_of(number)).unwrap();
        tx.release_sub();
    }
    let before = row.fixture.xacts.snapshot(&Transaction::new());
    assert_eq!(row.seen(), 1);
    row.end(tx, true);
    assert_eq!(row.seen(), 101);
    let mut old = row.heap.scan(before, ReadAhead::default()).unwrap();
    assert_eq!(old.count(&mut row.backend, &Interrupt::new()).unwrap(), 1);
}

#[test]
fn strengths_of_locks_decide_who_waits() {
    use LockStrength::{Exclusive, KeyShare, NoKeyExclusive, Share};
    let mut row = OneRow::new();
    let ((locker, _), (mut tx, _)) = (row.begin(), row.begin());
    for held in [KeyShare, Share, NoKeyExclusive, Exclusive] {
        row.hold(&[(locker.xid().unwrap(), held.locker())]);
        for wanted in [NoKeyExclusive, Exclusive] {
            let refused = row.fixture.change(&mut row.backend, &mut tx, |backend, changer| {
                let pin = row.heap.pool.read(backend, row.heap.tag(0), Strategy::Normal)?;
                let guard = pin.lock_shared();
                let tuple = HeapTuple::new(guard.page().item(1).unwrap())?;
                changer.refusal(&mut backend.io, tuple, ROW, wanted)
            });
            assert_eq!(refused.is_some(), held.conflicts_with(wanted), "{held:?}, {wanted:?}");
        }
    }
    row.end(tx, false);
    row.end(locker, false);
}
