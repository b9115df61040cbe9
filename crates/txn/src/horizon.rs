//! Whether anybody can still see what a committed transaction deleted.

use forebay_format::{FullXid, Oid, Xid};

use crate::procarray::{Horizons, ProcArray};

/// Whose snapshots count for a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HorizonKind {
    /// A relation that all databases share.
    Shared,
    /// A catalog of one database.
    Catalog,
    /// Another table of one database.
    Data,
    /// A temporary table of the own session.
    Temporary,
}

impl Horizons {
    /// The horizon for relations of a kind.
    pub fn of(&self, kind: HorizonKind) -> FullXid {
        match kind {
            HorizonKind::Shared => self.shared,
            HorizonKind::Catalog => self.catalog,
            HorizonKind::Data => self.data,
            HorizonKind::Temporary => self.temporary,
        }
    }
}

/// Tells which deleted rows of a relation may be removed. It remembers a horizon, and computes it
/// anew only for a transaction that lies beyond it, if some transaction has ended meanwhile.
#[derive(Debug)]
pub struct RemovableTest {
    kind: HorizonKind,
    database: Oid,
    own: Option<FullXid>,
    horizon: FullXid,
    /// What [`ProcArray::ended`] was before the horizon was computed.
    ended: u64,
}

impl RemovableTest {
    /// A test for relations of `kind` in `database`, in a transaction that has the id `own`.
    pub fn new(
        procs: &ProcArray,
        kind: HorizonKind,
        database: Oid,
        own: Option<FullXid>,
    ) -> RemovableTest {
        let ended = procs.ended();
        let horizon = procs.horizons(database, own).of(kind);
        RemovableTest { kind, database, own, horizon, ended }
    }

    /// The horizon, as far as it is known.
    pub fn horizon(&self) -> FullXid {
        self.horizon
    }

    /// Whether everybody sees the end of a transaction: what it deleted and committed, or inserted
    /// and did not commit, may be removed.
    pub fn is_over_for_all(&mut self, procs: &ProcArray, xid: FullXid) -> bool {
        if xid < self.horizon {
            return true;
        }
        let ended = procs.ended();
        if ended == self.ended {
            return false;
        }
        let horizon = procs.horizons(self.database, self.own).of(self.kind);
        // A snapshot is dropped, never taken back: a horizon once reached stays valid.
        self.horizon = self.horizon.max(horizon);
        self.ended = ended;
        xid < self.horizon
    }

    /// The same for an id from a tuple.
    pub fn is_xid_over_for_all(&mut self, procs: &ProcArray, xid: Xid) -> bool {
        // Ids of tuples lie within 2^31 of the horizon, on either side.
        let distance = i64::from(xid.wrapping_sub(self.horizon.xid()) as i32);
        match self.horizon.0.checked_add_signed(distance) {
            Some(full) => self.is_over_for_all(procs, FullXid(full)),
            // Before the first id: it is frozen.
            None => true,
        }
    }
}
