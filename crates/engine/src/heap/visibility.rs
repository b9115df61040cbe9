//! Which tuples a snapshot sees.
//!
//! The question is asked once for each tuple of a scan, and neighbours mostly come from one
//! transaction. So the last inserter and the last deleter that were looked up are remembered: for a
//! snapshot the answer never changes. Hints found on pages are believed; none are set, as with
//! checksums that would have to be logged.

use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::{CommandId, Xid, tuple as ht, tuple::HeapTuple};

use crate::EngineError;
use crate::xact::{Clog, Outcome, Snapshot};

/// Whether a transaction's work is seen: it committed, and had done so when the snapshot was taken.
#[derive(Debug, Clone, Copy)]
struct Known {
    xid: Xid,
    seen: bool,
}

impl Known {
    /// Matches no stored transaction.
    const NOTHING: Known = Known { xid: 0, seen: false };
}

/// A snapshot with what was found out about the transactions met so far.
#[derive(Debug)]
pub struct Visibility {
    snapshot: Snapshot,
    clog: Arc<Clog>,
    inserter: Known,
    deleter: Known,
}

impl Visibility {
    /// Judges by `snapshot`.
    pub fn new(snapshot: Snapshot, clog: Arc<Clog>) -> Visibility {
        Visibility { snapshot, clog, inserter: Known::NOTHING, deleter: Known::NOTHING }
    }

    /// The snapshot it judges by.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Whether the snapshot sees `tuple`. May read `pg_xact`.
    #[inline]
    pub fn sees(
        &mut self,
        io: &mut aio::Backend,
        tuple: HeapTuple<'_>,
    ) -> Result<bool, EngineError> {
        if let Some(seen) = tuple.bytes().first_chunk().and_then(|header| self.sees_at_once(header))
        {
            return Ok(seen);
        }
        self.look_up(io, tuple, tuple.infomask())
    }

    /// The answer for a tuple that nobody has deleted and whose inserter is the one looked up last,
    /// or so old that it does not matter: nearly every tuple of a scan.
    #[inline]
    pub(super) fn sees_at_once(&self, header: &[u8; ht::HEADER_SIZE]) -> Option<bool> {
        let mask = u16::from_le_bytes([header[20], header[21]]);
        let plain = mask & (ht::HEAP_XMAX_INVALID | ht::HEAP_MOVED_OFF | ht::HEAP_MOVED_IN);
        if plain != ht::HEAP_XMAX_INVALID {
            return None;
        }
        let xmin = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let hint = mask & ht::HEAP_XMIN_FROZEN;
        if hint == ht::HEAP_XMIN_FROZEN {
            return Some(true);
        }
        (self.inserter.seen && xmin == self.inserter.xid).then_some(hint != ht::HEAP_XMIN_INVALID)
    }

    /// The rules in full.
    fn look_up(
        &mut self,
        io: &mut aio::Backend,
        tuple: HeapTuple<'_>,
        mask: u16,
    ) -> Result<bool, EngineError> {
        if mask & (ht::HEAP_MOVED_OFF | ht::HEAP_MOVED_IN) != 0 {
            return Err(EngineError::statement(
                "0A000",
                "tuples moved by a VACUUM FULL before version 9.0 are not supported",
            ));
        }
        let xmin = tuple.xmin();
        if tuple.xmin_invalid() {
            return Ok(false);
        }
        if !tuple.xmin_frozen() {
            if self.snapshot.is_own(xmin) {
                let (cmin, _) = self.commands(tuple)?;
                if cmin >= self.snapshot.command() {
                    return Ok(false);
                }
            } else {
                let hinted = mask & ht::HEAP_XMIN_COMMITTED != 0;
                if !self.inserter_is_seen(io, xmin, hinted)? {
                    return Ok(false);
                }
            }
        }
        if mask & ht::HEAP_XMAX_INVALID != 0 || tuple.xmax_is_locked_only() {
            return Ok(true);
        }
        if mask & ht::HEAP_XMAX_IS_MULTI != 0 {
            return Err(EngineError::statement("0A000", "multixacts are not supported"));
        }
        let xmax = tuple.xmax();
        if self.snapshot.is_own(xmax) {
            let (_, cmax) = self.commands(tuple)?;
            return Ok(cmax >= self.snapshot.command());
        }
        Ok(!self.deleter_is_seen(io, xmax, mask & ht::HEAP_XMAX_COMMITTED != 0)?)
    }

    /// The inserting and the deleting command of a tuple of the own transaction. Only the one that
    /// applies means anything, unless it did both.
    fn commands(&self, tuple: HeapTuple<'_>) -> Result<(CommandId, CommandId), EngineError> {
        let cid = tuple.cid();
        if tuple.infomask() & ht::HEAP_COMBOCID == 0 {
            // Without a pair: either inserted by the own transaction, or deleted by it, not both.
            return Ok((cid, cid));
        }
        self.snapshot.combos().resolve(cid).ok_or_else(|| {
            EngineError::internal(format!("tuple has unknown combined command id {cid}"))
        })
    }

    fn inserter_is_seen(
        &mut self,
        io: &mut aio::Backend,
        xid: Xid,
        hinted: bool,
    ) -> Result<bool, EngineError> {
        if self.inserter.xid != xid {
            let seen = !self.snapshot.is_running(xid)
                && (hinted || self.clog.status(io, xid)? == Outcome::Committed);
            self.inserter = Known { xid, seen };
        }
        Ok(self.inserter.seen)
    }

    fn deleter_is_seen(
        &mut self,
        io: &mut aio::Backend,
        xid: Xid,
        hinted: bool,
    ) -> Result<bool, EngineError> {
        if self.deleter.xid != xid {
            let seen = !self.snapshot.is_running(xid)
                && (hinted || self.clog.status(io, xid)? == Outcome::Committed);
            self.deleter = Known { xid, seen };
        }
        Ok(self.deleter.seen)
    }
}
