//! INSERT ... ON CONFLICT.
//!
//! ```text
//! row ─ a live row has one of its keys ─────────────────────────────▶ Conflict
//!     ─ none ── inserted tentatively ── entries ── still none ──────▶ Inserted
//!                                              ── there may be one: taken back, again
//! ```
//!
//! The caller that wants to update the other row locks it, whether its snapshot sees it or not. If
//! that row has changed meanwhile, everything begins anew.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use forebay_access::RowWork;
use forebay_access::heap::{Attempt, Refusal};
use forebay_access::toast::is_wide;
use forebay_catalog::{Reader, Table};
use forebay_format::tuple::LockStrength;
use forebay_format::{HeapTuple, ItemPointer, Oid, Xid};
use forebay_txn::locks::LockMode;
use forebay_types::Datum;

use super::changes::{RowWait, Strength, concurrent};
use super::open::Isolation;
use super::rows::{Target, check_insertable, form_checked};
use super::state::{Session, no_transaction};
use super::stored::StoredRow;
use crate::core::InDatabase;
use crate::error::EngineError;

/// What became of a row that was to be inserted unless one of its keys is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It is at this place.
    Done(ItemPointer),
    /// The row at this place is live and has one of its keys.
    Conflict(ItemPointer),
}

impl Session {
    /// Inserts a row, as [`Session::insert_row`] does, unless one of its keys in the unique indexes
    /// `arbiters` is in use. Fails (55000) if one of these is not checked at once.
    pub fn insert_unless_conflict(
        &mut self,
        table: &Arc<Table>,
        values: &[Datum<'_>],
        arbiters: &[Oid],
    ) -> Result<Inserted, EngineError> {
        check_insertable(table)?;
        // A row that is found live must not be pruned before the caller locks it.
        self.snapshot()?;
        let mut tuple = Vec::new();
        form_checked(table, values, &mut tuple)?;
        let mut stored = None;
        if is_wide(&tuple) {
            // Values are not stored while a row with the keys is in sight.
            let conflict =
                self.inserting(table, |Target { backend, entries, .. }| match entries {
                    Some(mut entries) => entries.conflict(backend, &tuple, arbiters),
                    None => Ok(None),
                })?;
            if let Some(place) = conflict {
                return Ok(Inserted::Conflict(place));
            }
            stored = self.toasted(table, &tuple)?;
        }
        let row = stored.as_deref().unwrap_or(&tuple);
        let (inserted, unchecked) =
            self.inserting(table, |Target { backend, heap, author, entries, placed }| {
                let Some(mut entries) = entries else {
                    placed.inserted = 1;
                    let place = heap.insert(backend, author, row)?;
                    return Ok((Inserted::Done(place), Vec::new()));
                };
                loop {
                    if let Some(place) = entries.conflict(backend, &tuple, arbiters)? {
                        return Ok((Inserted::Conflict(place), Vec::new()));
                    }
                    let to = (heap, author);
                    placed.inserted += 1;
                    let row = (row, &tuple[..]);
                    let place = entries.insert_tentatively(backend, to, row, arbiters)?;
                    if let Some(place) = place {
                        return Ok((Inserted::Done(place), entries.unchecked().to_vec()));
                    }
                    placed.taken_back += 1;
                }
            })?;
        if let (Inserted::Conflict(_), Some(row)) = (inserted, &stored) {
            self.take_values_back(table, row)?;
        }
        if let Inserted::Done(place) = inserted {
            self.note_inserted(table, place, &tuple, &unchecked)?;
        }
        Ok(inserted)
    }

    /// Fails (40001) if a row that prevents an insertion is one that a REPEATABLE READ transaction
    /// does not see.
    pub fn check_conflict_seen(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
    ) -> Result<(), EngineError> {
        if self.isolation() != Isolation::RepeatableRead {
            return Ok(());
        }
        self.call(|session, core| {
            let mut visibility = session.visibility(core)?;
            let heap = session.heap(core, table)?;
            if heap.fetch(&mut session.backend, &mut visibility, place)?.is_some() {
                return Ok(());
            }
            let version = heap.any_version(&mut session.backend, place)?;
            let inserter = version.map(|v| HeapTuple::new(&v).map(|v| v.xmin())).transpose()?;
            match inserter {
                Some(xid) if session.is_own(xid)? => Ok(()),
                _ => Err(concurrent("update")),
            }
        })
    }

    /// Locks a row that prevents an insertion, to update it. None: it has changed, and the caller
    /// tries to insert again. `key`: whether the update assigns columns of unique indexes. 21000 if
    /// this command has inserted or updated it, 40001 as for other rows that are locked.
    pub fn lock_conflicting(
        &mut self,
        table: &Arc<Table>,
        place: ItemPointer,
        key: bool,
    ) -> Result<Option<StoredRow>, EngineError> {
        table.check_changeable("update")?;
        let strength = if key { LockStrength::Exclusive } else { LockStrength::NoKeyExclusive };
        let locked = self.call(|session, core| {
            session.check_locked(table, LockMode::RowExclusive)?;
            session.lock_version(core, table, place, strength)
        })?;
        if locked.is_some() {
            self.check_conflict_seen(table, place)?;
        }
        Ok(locked)
    }

    /// The index of a table's constraint, or 0 if that has none. None: there is no such constraint.
    pub fn constraint_index(
        &mut self,
        table: &Table,
        name: &str,
    ) -> Result<Option<Oid>, EngineError> {
        self.call(|session, core| {
            let snapshot = core.xacts.snapshot(&session.running()?.tx);
            let mut reader = Reader::new(&core.database, &mut session.backend, snapshot);
            Ok(reader.constraint(table.oid, name)?.map(|constraint| constraint.index))
        })
    }

    fn lock_version(
        &mut self,
        core: &InDatabase,
        table: &Arc<Table>,
        place: ItemPointer,
        strength: LockStrength,
    ) -> Result<Option<StoredRow>, EngineError> {
        let (work, of) = (RowWork::Lock, Strength::Of(strength));
        let wanted = self.wanted(core, table, of, work, RowWait::Wait)?;
        let attempted = self.attempt(&wanted, place, work, |backend, changer| {
            wanted.heap.lock(backend, changer, place, strength)
        });
        core.locks.give_up_row(&mut self.locks);
        let repeatable = self.isolation() == Isolation::RepeatableRead;
        let version = wanted.heap.any_version(&mut self.backend, place)?;
        match (attempted?, version) {
            (Attempt::Done(()), Some(tuple)) => Ok(Some(StoredRow::new(table, tuple, place)?)),
            (Attempt::Refused(Refusal::Updated { .. }), _) if repeatable => {
                Err(concurrent("update"))
            }
            (Attempt::Refused(Refusal::Deleted), _) if repeatable => Err(concurrent("delete")),
            (Attempt::Refused(Refusal::Updated { .. } | Refusal::Deleted), _) => Ok(None),
            (Attempt::Refused(Refusal::Invisible), Some(tuple))
                if self.is_own(HeapTuple::new(&tuple)?.xmin())? =>
            {
                Err(twice())
            }
            (Attempt::Refused(Refusal::SelfModified(_)), _) => Err(twice()),
            (attempt, _) => {
                let message = format!("the conflicting row {place} cannot be locked: {attempt:?}");
                Err(EngineError::internal(message))
            }
        }
    }

    fn is_own(&self, xid: Xid) -> Result<bool, EngineError> {
        Ok(self.open.as_ref().ok_or_else(no_transaction)?.tx.is_own(xid))
    }
}

/// A command would update a row that it has inserted or updated.
#[cold]
fn twice() -> EngineError {
    let message = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    EngineError::statement("21000", message).with_hint(
        "Ensure that no rows proposed for insertion within the same command have duplicate \
         constrained values.",
    )
}
