//! Locking rows, in four strengths.
//!
//! A lock is a transaction in the row's xmax, or a member of a MultiXact there. `FOR KEY SHARE` may
//! join an update that leaves key columns as they are; then the newer versions are locked too, so
//! that the next one who changes the row finds the lock.

use forebay_format::multixact::Member;
use forebay_format::tuple::{HEAP_HOT_UPDATED, HeapTuple, HeapTupleMut, LockStrength};
use forebay_format::wal::{Rmgr, heap};
use forebay_format::{Fork, ItemPointer, Xid};
use forebay_storage::{Backend, PageWriteGuard, Strategy};

use super::changer::{Attempt, Changer, Holders, Refusal, fate_now, newer};
use super::critical::critical;
use super::map_pin::MapPin;
use super::relation::Heap;
use super::status::{Fate, Observer, TupleStatus, holders, tuple_status, updater};
use super::tuple_at::tuple_at;
use super::xmax::NewXmax;
use crate::error::AccessError;

/// A lock to be written into a version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lock {
    pub(super) xid: Xid,
    pub(super) tid: ItemPointer,
    pub(super) xmax: NewXmax,
    /// Whether it is a newer version of the one that is wanted: its own chain goes on.
    pub(super) newer: bool,
}

/// What becomes of the lock of a version.
enum Step {
    /// It is held already.
    Held,
    /// It is refused.
    Refused(Refusal),
    /// It can be taken. The update that stands beside it, if there is one: its transaction and the
    /// place of the newer version.
    Free(Option<(Xid, ItemPointer)>),
}

impl Heap {
    /// Locks the version of a row at `tid` to the end of the transaction.
    pub fn lock(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tid: ItemPointer,
        strength: LockStrength,
    ) -> Result<Attempt<()>, AccessError> {
        self.lock_version(backend, changer, tid, strength, false)
    }

    /// As [`Heap::lock`], for a row that is followed to its newest version: a version that another
    /// transaction has updated is refused, also if the lock could stand beside the update.
    pub fn lock_newest(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tid: ItemPointer,
        strength: LockStrength,
    ) -> Result<Attempt<()>, AccessError> {
        self.lock_version(backend, changer, tid, strength, true)
    }

    fn lock_version(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tid: ItemPointer,
        strength: LockStrength,
        newest: bool,
    ) -> Result<Attempt<()>, AccessError> {
        changer.sets.begin();
        let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
        let mut map = MapPin::default();
        // The update whose newer versions are locked.
        let mut followed = None;
        loop {
            self.ensure_log_room(backend)?;
            let mut guard = map.lock(self, backend, &pin)?;
            let Some(tuple) = tuple_at(guard.page(), guard.tag(), tid.offset)? else {
                return Ok(Attempt::Refused(Refusal::Invisible));
            };
            let step = self.step(backend, changer, tuple, tid, (strength, newest));
            let update = match step.map_err(|error| self.located(tid, error))? {
                Step::Held => return Ok(Attempt::Done(())),
                Step::Refused(refusal) => return Ok(Attempt::Refused(refusal)),
                Step::Free(update) => update,
            };
            if let Some((updater, next)) = update
                && followed != update
            {
                drop(guard);
                if let Some(refusal) = self.lock_newer(backend, changer, updater, next, strength)? {
                    return Ok(Attempt::Refused(refusal));
                }
                followed = update;
                continue;
            }
            let xmax = changer.new_xmax(&mut backend.io, tuple, strength.locker())?;
            let lock = Lock { xid: changer.author.xid, tid, xmax, newer: false };
            self.mark_locked(backend, &mut guard, &map, lock)?;
            return Ok(Attempt::Done(()));
        }
    }

    /// Whether the author can lock a version now.
    fn step(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tuple: HeapTuple<'_>,
        tid: ItemPointer,
        (strength, newest): (LockStrength, bool),
    ) -> Result<Step, AccessError> {
        let io = &mut backend.io;
        let status = tuple_status(io, changer, tuple)?;
        if let Some(refusal) = changer.final_refusal(status) {
            return Ok(Step::Refused(refusal));
        }
        let members = holders(io, changer, tuple)?;
        let conflicts = |member: &Member| {
            member.status.is_update() && strength.conflicts_with(member.status.into())
        };
        if let TupleStatus::Updated(by) = status
            && (newest || members.iter().any(conflicts))
        {
            return Ok(Step::Refused(newer(tuple, tid, by)));
        }
        let enough = |member: &Member| LockStrength::from(member.status) >= strength;
        if members.iter().any(|member| enough(member) && changer.is_own(member.xid)) {
            return Ok(Step::Held);
        }
        if let Some(refusal) = changer.blocked(io, tuple, tid, status, strength)? {
            return Ok(Step::Refused(refusal));
        }
        let ctid = tuple.ctid();
        Ok(Step::Free(match status {
            TupleStatus::BeingUpdated(by) | TupleStatus::Updated(by) if ctid != tid => {
                Some((by, ctid))
            }
            _ => None,
        }))
    }

    /// Locks the versions of a row from `tid` on, which was made by `inserter`, as long as the
    /// chain goes on. Returns why that is not possible.
    fn lock_newer(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        mut inserter: Xid,
        mut tid: ItemPointer,
        strength: LockStrength,
    ) -> Result<Option<Refusal>, AccessError> {
        loop {
            self.ensure_log_room(backend)?;
            if tid.block >= self.pool.nblocks(self.locator, Fork::Main)? {
                return Err(self.no_newer_version(tid, inserter));
            }
            let pin = self.pool.read(backend, self.tag(tid.block), Strategy::Normal)?;
            let mut map = MapPin::default();
            let mut guard = map.lock(self, backend, &pin)?;
            // A version whose inserter aborted may have been pruned, and its place used again.
            let Some(tuple) = tuple_at(guard.page(), guard.tag(), tid.offset)? else {
                return Ok(None);
            };
            let io = &mut backend.io;
            if tuple.xmin() != inserter
                || fate_now(io, changer.xacts, inserter, false)? == Fate::Aborted
            {
                return Ok(None);
            }
            let judged = self.judge_newer(backend, changer, tuple, tid, strength);
            let (held, refusal) = judged.map_err(|error| self.located(tid, error))?;
            if refusal.is_some() {
                return Ok(refusal);
            }
            let next = updater(&mut backend.io, changer, tuple)?.map(|by| (by, tuple.ctid()));
            if !held {
                let xmax = changer.new_xmax(&mut backend.io, tuple, strength.locker())?;
                let lock = Lock { xid: changer.author.xid, tid, xmax, newer: true };
                self.mark_locked(backend, &mut guard, &map, lock)?;
            }
            match next {
                Some((by, ctid)) if ctid != tid => (inserter, tid) = (by, ctid),
                _ => return Ok(None),
            }
        }
    }

    /// Whether the author holds a newer version already, or why it cannot be locked.
    fn judge_newer(
        &self,
        backend: &mut Backend,
        changer: &mut Changer<'_>,
        tuple: HeapTuple<'_>,
        tid: ItemPointer,
        strength: LockStrength,
    ) -> Result<(bool, Option<Refusal>), AccessError> {
        let mut xids = Vec::new();
        for Member { xid, status } in holders(&mut backend.io, changer, tuple)? {
            if changer.is_own(xid) {
                return Ok((true, None));
            }
            let conflicts = strength.conflicts_with(status.into());
            match fate_now(&mut backend.io, changer.xacts, xid, false)? {
                Fate::Running if conflicts => xids.push(xid),
                Fate::Committed if conflicts && status.is_update() => {
                    return Ok((false, Some(newer(tuple, tid, xid))));
                }
                Fate::Running | Fate::Committed | Fate::Aborted => {}
            }
        }
        // The queue is that of the version where the chain begins, which the author could lock.
        let waits = !xids.is_empty();
        let holders = Holders { xids, version: tid, change: None, queue: None };
        let refusal = Refusal::BeingModified(holders);
        Ok((false, waits.then_some(refusal)))
    }

    /// Writes a lock, with its record.
    pub(super) fn mark_locked(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        map: &MapPin,
        lock: Lock,
    ) -> Result<(), AccessError> {
        forebay_aio::planted_bug!(backend.io.aio(), RowLockNotWritten, return Ok(()));
        let Lock { xid, tid, xmax, newer } = lock;
        let cleared = map.clear_frozen(guard);
        let flags = if cleared.changed() { heap::LOCK_ALL_FROZEN_CLEARED } else { 0 };
        critical(self.failure.as_ref(), "could not lock a row", || {
            guard.mark_dirty();
            let mut page = guard.page_mut();
            let item = page.item_mut(tid.offset).expect("the tuple was read under this lock");
            let mut tuple = HeapTupleMut::new(item)?;
            xmax.store(&mut tuple);
            // An update that was there has aborted. Its trace goes, by the record of an ordinary
            // lock: the place it leads to may be given to a row that the locker updates, which
            // would seem to follow this one.
            let ends_chain = xmax.is_lock_only() && (!newer || tuple.tuple().ctid() != tid);
            if ends_chain {
                tuple.set_infomask2(tuple.tuple().infomask2() & !HEAP_HOT_UPDATED);
                tuple.set_ctid(tid);
            }
            if !self.logged {
                return Ok(());
            }
            let kind = match newer && !ends_chain {
                true => (Rmgr::HEAP2, heap::LOCK_UPDATED),
                false => (Rmgr::HEAP, heap::LOCK),
            };
            let infobits = xmax.infobits();
            let main = heap::HeapDelete { xmax: xmax.xmax, offset: tid.offset, infobits, flags };
            self.log_header_change(backend, guard, cleared, kind, xid, &main.encode())
        })
    }
}
