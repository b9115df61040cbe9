//! Changing and locking rows.
//!
//! ```text
//! row ─ nobody in the way ───────────────────────────────▶ Done
//!     ─ held by another ── wait for its end ── again
//!     ─ changed by another, which has committed
//!           READ COMMITTED:  the newest version, locked ──▶ Changed, or Gone if deleted
//!           REPEATABLE READ:                                40001
//! ```
//!
//! The caller of an update that finds `Changed` checks its condition against the newest version,
//! and tries again there.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::borrow::Cow;
use std::sync::Arc;

use forebay_access::heap::{
    Attempt, Author, Changer, Columns, Heap, Refusal, RowQueues, RowWaiter, Visibility,
};
use forebay_access::{AccessError, RowWork};
use forebay_catalog::Table;
use forebay_format::tuple::LockStrength;
use forebay_format::{HeapTuple, ItemPointer, Xid};
use forebay_storage::Backend;
use forebay_txn::locks::{LockMode, OwnerId};
use forebay_types::Datum;

use super::counting::counted;
use super::locks::{count_deadlock, database_of};
use super::open::{Isolation, Open};
use super::state::{Session, no_transaction};
use super::stored::StoredRow;
use crate::core::InDatabase;
use crate::error::EngineError;

/// What became of a row that a statement wanted to change or lock.
#[derive(Clone, Debug)]
pub enum RowOutcome {
    /// It is done. The row's place now: after an update the new version's.
    Done(ItemPointer),
    /// Another transaction changed it first, and has committed (READ COMMITTED only). The newest
    /// version, locked as strongly as the statement needs it. The caller checks its condition
    /// against this version, and tries again at its place. A row that was to be locked is locked.
    Changed(StoredRow),
    /// There is nothing to do: another transaction has deleted it (READ COMMITTED), this command
    /// has changed it already, or the transaction does not see it.
    Gone,
    /// Another transaction holds it, and the caller did not want to wait.
    Held,
}

/// Whether a statement waits for a row that another transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowWait {
    /// Until that transaction ends, or lock_timeout.
    Wait,
    /// Not at all: NOWAIT, SKIP LOCKED.
    NoWait,
}

/// How a row is locked.
#[derive(Clone, Copy)]
pub(super) enum Strength<'a> {
    Of(LockStrength),
    /// As an update to this tuple needs it: that depends on whether key columns change.
    OfUpdate(&'a [u8]),
}

type Attempted<T> = Result<Attempt<T>, AccessError>;

/// What a statement wants of rows of a table.
pub(super) struct Wanted<'a> {
    core: &'a InDatabase,
    table: &'a Arc<Table>,
    pub(super) heap: Heap,
    /// How the row is locked, by the change or before it.
    strength: Strength<'a>,
    /// What is done with the row that the statement has found.
    work: RowWork,
    wait: RowWait,
}

impl Session {
    /// Replaces the version of a row at `tid`, which the statement's snapshot sees or `Changed`
    /// gave, by a row of these values: one for each column that is not dropped, of exactly the
    /// column's type. Checks NOT NULL (23502), the row's size (54000), and that its keys are not in
    /// use (23505). The table must be locked in mode `RowExclusive`.
    pub fn update_row(
        &mut self,
        table: &Arc<Table>,
        tid: ItemPointer,
        values: &[Datum<'_>],
    ) -> Result<RowOutcome, EngineError> {
        table.check_changeable("update")?;
        let new = self.new_tuple(table, tid, values)?;
        let columns = columns_of(table);
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            let (mut tuple, mut locked) = (Cow::Borrowed(&new.tuple), false);
            if let Some(plan) = session.plan(table, &new.tuple)? {
                if plan.stores() {
                    locked = true;
                    match session.lock_to_update(core, table, tid, &new.tuple)? {
                        RowOutcome::Done(_) => {}
                        other => return Ok(other),
                    }
                }
                tuple = Cow::Owned(session.store(core, table, &plan)?);
            }
            let strength = Strength::OfUpdate(&new.tuple);
            let work = RowWork::Update;
            let wanted = session.wanted(core, table, strength, work, RowWait::Wait)?;
            // The indexed columns that changed, if the indexes need entries.
            let (mut changed, mut hot) = (None, false);
            let outcome = session.try_row(&wanted, tid, |backend, changer| {
                let (old, to) = ((tid, locked), (&tuple[..], &new.tuple[..]));
                Ok(match wanted.heap.replace(backend, changer, old, to, &columns)? {
                    Attempt::Done(version) => {
                        hot = version.hot;
                        changed = (!version.hot).then_some(version.changed);
                        Attempt::Done(version.place)
                    }
                    Attempt::Refused(refusal) => Attempt::Refused(refusal),
                })
            })?;
            if let RowOutcome::Done(place) = outcome {
                let newpage = place.block != tid.block;
                session.running()?.tx.count_updated(counted(table), hot, newpage);
                let mut unchecked = Vec::new();
                if let Some(changed) = changed
                    && !table.indexes.is_empty()
                {
                    let row = (place, new.for_entries(), &changed[..]);
                    unchecked = session.add_entries(core, table, &wanted.heap, row)?;
                }
                if !table.triggers.is_empty()
                    && let Some(old) = wanted.heap.any_version(&mut session.backend, tid)?
                {
                    let (places, versions) = ((tid, place), (&old[..], &new.tuple[..]));
                    session.note_updated(table, places, versions, &unchecked)?;
                }
                session.remove_values(core, (table, &wanted.heap), tid, Some(&tuple))?;
            }
            Ok(outcome)
        })
    }

    /// Locks a row as an update to this tuple needs it.
    fn lock_to_update(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        tid: ItemPointer,
        tuple: &[u8],
    ) -> Result<RowOutcome, EngineError> {
        let (strength, work) = (Strength::OfUpdate(tuple), RowWork::Update);
        let wanted = self.wanted(core, table, strength, work, RowWait::Wait)?;
        let strength = self.strength(&wanted, tid)?;
        self.try_row(&wanted, tid, |backend, changer| {
            Ok(at(tid, wanted.heap.lock(backend, changer, tid, strength)?))
        })
    }

    /// Deletes the version of a row at `tid`, which the statement's snapshot sees or `Changed`
    /// gave. The table must be locked in mode `RowExclusive`.
    pub fn delete_row(
        &mut self,
        table: &Arc<Table>,
        tid: ItemPointer,
    ) -> Result<RowOutcome, EngineError> {
        table.check_changeable("delete from")?;
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            let strength = Strength::Of(LockStrength::Exclusive);
            let work = RowWork::Delete;
            let wanted = session.wanted(core, table, strength, work, RowWait::Wait)?;
            let outcome = session.try_row(&wanted, tid, |backend, changer| {
                Ok(at(tid, wanted.heap.delete(backend, changer, tid)?))
            })?;
            if let RowOutcome::Done(_) = outcome {
                session.running()?.tx.count_deleted(counted(table), 1);
                if !table.triggers.is_empty()
                    && let Some(old) = wanted.heap.any_version(&mut session.backend, tid)?
                {
                    session.note_deleted(table, tid, &old)?;
                }
                session.remove_values(core, (table, &wanted.heap), tid, None)?;
            }
            Ok(outcome)
        })
    }

    /// Locks the version of a row at `tid`, which the statement's snapshot sees, to the end of the
    /// transaction or the rollback of the subtransaction. The table must be locked in mode
    /// `RowShare`.
    pub fn lock_row(
        &mut self,
        table: &Arc<Table>,
        tid: ItemPointer,
        strength: LockStrength,
        wait: RowWait,
    ) -> Result<RowOutcome, EngineError> {
        table.check_lockable()?;
        self.call(|session, core| {
            session.check_locked(table, LockMode::RowShare)?;
            let wanted =
                session.wanted(core, table, Strength::Of(strength), RowWork::Lock, wait)?;
            session.try_row(&wanted, tid, |backend, changer| {
                Ok(at(tid, wanted.heap.lock(backend, changer, tid, strength)?))
            })
        })
    }

    pub(super) fn wanted<'a>(
        &mut self,
        core: &'a InDatabase,
        table: &'a Arc<Table>,
        strength: Strength<'a>,
        work: RowWork,
        wait: RowWait,
    ) -> Result<Wanted<'a>, EngineError> {
        // As long as the statement has a snapshot, no version goes that is newer than those that it
        // sees.
        self.snapshot()?;
        let heap = self.heap(core, table)?;
        Ok(Wanted { core, table, heap, strength, work, wait })
    }

    /// Changes or locks a row, and says what became of it.
    fn try_row(
        &mut self,
        wanted: &Wanted<'_>,
        tid: ItemPointer,
        attempt: impl FnMut(&mut Backend, &mut Changer<'_>) -> Attempted<ItemPointer>,
    ) -> Result<RowOutcome, EngineError> {
        self.crosscheck(wanted, tid)?;
        let outcome = self.try_to_its_end(wanted, tid, attempt);
        // It may have waited for a row that it does not take in the end.
        wanted.core.locks.give_up_row(&mut self.locks);
        outcome
    }

    /// Fails (40001) if a foreign key's action changes a row that its REPEATABLE READ transaction
    /// does not see.
    fn crosscheck(&mut self, wanted: &Wanted<'_>, tid: ItemPointer) -> Result<(), EngineError> {
        let Open { tx, snapshots, .. } = self.running()?;
        let Some(snapshot) = snapshots.crosscheck(tx) else { return Ok(()) };
        if wanted.work == RowWork::Lock {
            return Ok(());
        }
        let mut visibility = Visibility::new(snapshot, wanted.core.heaps.outcomes.clone());
        match wanted.heap.fetch(&mut self.backend, &mut visibility, tid)? {
            Some(_) => Ok(()),
            None => Err(concurrent("update")),
        }
    }

    fn try_to_its_end(
        &mut self,
        wanted: &Wanted<'_>,
        tid: ItemPointer,
        attempt: impl FnMut(&mut Backend, &mut Changer<'_>) -> Attempted<ItemPointer>,
    ) -> Result<RowOutcome, EngineError> {
        let attempted = self.attempt(wanted, tid, wanted.work, attempt)?;
        let core = wanted.core;
        let refusal = match attempted {
            Attempt::Done(place) => {
                let queues = self.queues(wanted);
                core.locks.row_moved(queues.tag(tid), queues.tag(place));
                return Ok(RowOutcome::Done(place));
            }
            Attempt::Refused(refusal) => refusal,
        };
        let repeatable = self.isolation() == Isolation::RepeatableRead;
        match refusal {
            Refusal::Updated { .. } if repeatable => Err(concurrent("update")),
            Refusal::Deleted if repeatable => Err(concurrent(match wanted.work {
                RowWork::Lock => "update",
                _ => "delete",
            })),
            Refusal::Updated { newer, by } => {
                let strength = self.strength(wanted, tid)?;
                self.follow(wanted, strength, newer, by)
            }
            Refusal::Invisible | Refusal::SelfModified(_) | Refusal::Deleted => {
                Ok(RowOutcome::Gone)
            }
            Refusal::WouldWait => Ok(RowOutcome::Held),
            Refusal::BeingModified(_) => Err(EngineError::internal("a row was not waited for")),
        }
    }

    /// How the version at `tid` is locked to do with it what is wanted.
    fn strength(
        &mut self,
        wanted: &Wanted<'_>,
        tid: ItemPointer,
    ) -> Result<LockStrength, EngineError> {
        let new = match wanted.strength {
            Strength::Of(strength) => return Ok(strength),
            Strength::OfUpdate(_) if wanted.table.key_columns.is_empty() => {
                return Ok(LockStrength::NoKeyExclusive);
            }
            Strength::OfUpdate(new) => HeapTuple::new(new)?,
        };
        match wanted.heap.any_version(&mut self.backend, tid)? {
            Some(old) => Ok(columns_of(wanted.table).strength(HeapTuple::new(&old)?, new)?),
            None => Ok(LockStrength::Exclusive),
        }
    }

    /// Locks the newest version of a row whose next one is at `newer`, made by `by`.
    fn follow(
        &mut self,
        wanted: &Wanted<'_>,
        strength: LockStrength,
        mut newer: ItemPointer,
        mut by: Xid,
    ) -> Result<RowOutcome, EngineError> {
        let Wanted { heap, table, .. } = wanted;
        loop {
            if heap.newer_version(&mut self.backend, newer, by)?.is_none() {
                return Ok(RowOutcome::Gone);
            }
            let work = RowWork::FetchUpdated;
            let locked = self.attempt(wanted, newer, work, |backend, changer| {
                heap.lock_newest(backend, changer, newer, strength)
            })?;
            match locked {
                Attempt::Done(()) => break,
                Attempt::Refused(Refusal::Updated { newer: next, by: updater }) => {
                    (newer, by) = (next, updater);
                }
                Attempt::Refused(Refusal::WouldWait) => return Ok(RowOutcome::Held),
                Attempt::Refused(_) => return Ok(RowOutcome::Gone),
            }
        }
        // With its header as the lock has left it.
        let tuple = heap.newer_version(&mut self.backend, newer, by)?.ok_or_else(|| {
            EngineError::corrupt(format!("the locked row {newer} of {} is gone", table.name))
        })?;
        Ok(RowOutcome::Changed(StoredRow::new(table, tuple, newer)?))
    }

    /// Tries until no transaction that runs stands in the way, or the caller does not wait.
    pub(super) fn attempt<T>(
        &mut self,
        wanted: &Wanted<'_>,
        tid: ItemPointer,
        work: RowWork,
        mut attempt: impl FnMut(&mut Backend, &mut Changer<'_>) -> Attempted<T>,
    ) -> Result<Attempt<T>, EngineError> {
        let Wanted { core, table, wait, .. } = *wanted;
        let (waits, queues) = (wait == RowWait::Wait, self.queues(wanted));
        let Session { open: Some(open), backend, locks, interrupt, .. } = self else {
            return Err(no_transaction());
        };
        let Open { tx, sets, .. } = open;
        let xid = core.xacts.assign(&mut backend.io, tx)?;
        let author = Author { xid, command: tx.use_command() };
        let xacts = &core.xacts;
        let in_turn = waits.then_some(queues);
        let mut changer = Changer { xacts, tx, author, sets, queues: in_turn };
        let mut waiter = RowWaiter { xacts, queues, owner: locks, interrupt, work, waits };
        let attempted = waiter.run(backend, tid, |backend| attempt(backend, &mut changer));
        attempted.map_err(|error| {
            let error = match error {
                AccessError::RowLock { error, work, tid } => {
                    EngineError::RowLock { error, context: work.context(tid, &table.name) }
                }
                error => error.into(),
            };
            count_deadlock(core, error)
        })
    }

    /// The queues for the rows of the table.
    fn queues<'a>(&self, wanted: &Wanted<'a>) -> RowQueues<'a> {
        RowQueues {
            locks: &wanted.core.locks,
            backend: OwnerId(self.id),
            database: database_of(wanted.table),
            relation: wanted.table.oid,
        }
    }
}

/// The columns of a table, as an update needs to know them.
fn columns_of(table: &Table) -> Columns<'_> {
    Columns { layouts: &table.layouts, keys: &table.key_columns, indexed: &table.indexed_columns }
}

/// An attempt that leaves the row where it is.
fn at(tid: ItemPointer, attempt: Attempt<()>) -> Attempt<ItemPointer> {
    match attempt {
        Attempt::Done(()) => Attempt::Done(tid),
        Attempt::Refused(refusal) => Attempt::Refused(refusal),
    }
}

/// The refusal of a row that has changed since the transaction's snapshot.
pub(super) fn concurrent(what: &str) -> EngineError {
    let message = format!("could not serialize access due to concurrent {what}");
    EngineError::statement("40001", message)
}
