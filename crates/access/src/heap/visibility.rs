//! Which tuples a snapshot sees.
//!
//! A scan asks for each tuple, and neighbours mostly come from one transaction. So the last
//! inserter and the last updater that were asked for are remembered: for a snapshot the answer does
//! not change. Others are mostly found in the cache of `pg_xact`, without a lock.
//!
//! Hint bits found on pages are believed. None are set: with checksums that would have to be
//! logged.

use forebay_aio as aio;
use forebay_format::ids::xid_precedes;
use forebay_format::tuple::{self as ht, HeapTuple, Xmax};
use forebay_format::{CommandId, Xid};
use forebay_txn::{ComboCommands, Snapshot};

use super::outcomes::{Outcomes, RowSets};
use super::status::{Fate, Observer, Role, TupleStatus, tuple_status};
use crate::error::AccessError;

/// Whether a transaction had committed when the snapshot was taken.
#[derive(Debug, Clone, Copy)]
struct Known {
    xid: Xid,
    seen: bool,
}

impl Known {
    /// Matches no transaction.
    const NOTHING: Known = Known { xid: 0, seen: false };
}

/// A snapshot, and the outcomes of the transactions asked for last.
#[derive(Debug)]
pub struct Visibility {
    snapshot: Snapshot,
    outcomes: Outcomes,
    sets: RowSets,
    inserter: Known,
    updater: Known,
}

impl Visibility {
    /// Decides by `snapshot`. With only a `Clog`, MultiXacts are refused.
    pub fn new(snapshot: Snapshot, outcomes: impl Into<Outcomes>) -> Visibility {
        let outcomes = outcomes.into();
        let sets = outcomes.sets();
        let (inserter, updater) = (Known::NOTHING, Known::NOTHING);
        Visibility { snapshot, outcomes, sets, inserter, updater }
    }

    /// The snapshot by which it decides.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Keeps MultiXacts from being removed from now on: a tuple is judged later, when its row may
    /// have another.
    pub(super) fn keep_multis(&mut self) {
        self.sets.begin();
    }

    /// Whether the snapshot sees `tuple`. May read `pg_xact`.
    #[inline]
    pub fn sees(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
    ) -> Result<bool, AccessError> {
        if let Some(seen) = tuple.bytes().first_chunk().and_then(|header| self.sees_at_once(header))
        {
            return Ok(seen);
        }
        Ok(match tuple_status(io, self, tuple)? {
            TupleStatus::NotInserted(_) | TupleStatus::Updated(_) => false,
            TupleStatus::Live | TupleStatus::Locked | TupleStatus::BeingUpdated(_) => true,
            TupleStatus::UpdatedByOwn(cmax) => cmax >= self.snapshot.command(),
        })
    }

    /// The answer for a tuple, if it takes no lock and no file: for nearly every tuple of a scan.
    /// Without the own transaction's, and those with a MultiXact.
    #[inline]
    pub(super) fn sees_at_once(&mut self, header: &[u8; ht::HEADER_SIZE]) -> Option<bool> {
        let mask = u16::from_le_bytes([header[20], header[21]]);
        if mask & (ht::HEAP_MOVED_OFF | ht::HEAP_MOVED_IN) != 0 {
            return None;
        }
        let xmin = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let inserted = match mask & ht::HEAP_XMIN_FROZEN {
            ht::HEAP_XMIN_FROZEN => true,
            ht::HEAP_XMIN_INVALID => false,
            _ if xmin == self.inserter.xid => self.inserter.seen,
            hint => self.is_known(Role::Inserter, xmin, hint != 0)?,
        };
        if !inserted || mask & ht::HEAP_XMAX_INVALID != 0 {
            return Some(inserted);
        }
        let Xmax::Transaction(status) = HeapTuple::new(header).ok()?.xmax_kind() else {
            return None;
        };
        let xmax = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let hinted = mask & ht::HEAP_XMAX_COMMITTED != 0;
        Some(!status.is_update() || !self.is_known(Role::Updater, xmax, hinted)?)
    }

    /// Whether a transaction had committed when the snapshot was taken, if that can be told at
    /// once.
    #[inline]
    fn is_known(&mut self, role: Role, xid: Xid, hinted: bool) -> Option<bool> {
        let last = *self.last(role);
        if last.xid == xid {
            return Some(last.seen);
        }
        // An own transaction is not older than all that ran.
        if !xid_precedes(xid, self.snapshot.xmin()) && self.snapshot.is_own(xid) {
            return None;
        }
        let seen = self.outcomes.is_known_seen(&self.snapshot, xid, hinted)?;
        *self.last(role) = Known { xid, seen };
        Some(seen)
    }

    #[inline]
    fn last(&mut self, role: Role) -> &mut Known {
        match role {
            Role::Inserter => &mut self.inserter,
            Role::Updater => &mut self.updater,
        }
    }
}

impl Observer for Visibility {
    fn is_own(&self, xid: Xid) -> bool {
        self.snapshot.is_own(xid)
    }

    fn command(&self) -> CommandId {
        self.snapshot.command()
    }

    fn combos(&self) -> &ComboCommands {
        self.snapshot.combos()
    }

    /// Everything that the snapshot does not see counts as aborted.
    fn fate(
        &mut self,
        io: &mut aio::IoBackend,
        role: Role,
        xid: Xid,
        hinted: bool,
    ) -> Result<Fate, AccessError> {
        let seen = match self.is_known(role, xid, hinted) {
            Some(seen) => seen,
            None => {
                let seen = self.outcomes.is_seen(io, &self.snapshot, xid, hinted)?;
                *self.last(role) = Known { xid, seen };
                seen
            }
        };
        Ok(if seen { Fate::Committed } else { Fate::Aborted })
    }

    fn sets(&mut self) -> &mut RowSets {
        &mut self.sets
    }
}
