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

/// Tells which deleted rows of a relation may be removed. It computes a horizon when it is first
/// asked, and anew only for a transaction that lies beyond it, if some transaction has ended
/// meanwhile. Most scans meet no deleted row, and do not ask.
#[derive(Debug)]
pub struct RemovableTest {
    kind: HorizonKind,
    database: Oid,
    own: Option<FullXid>,
    known: Option<Known>,
}

/// A horizon.
#[derive(Debug, Clone, Copy)]
struct Known {
    horizon: FullXid,
    /// What [`ProcArray::ended`] was before it was computed.
    ended: u64,
}

impl RemovableTest {
    /// A test for relations of `kind` in `database`, in a transaction that has the id `own`.
    pub fn new(kind: HorizonKind, database: Oid, own: Option<FullXid>) -> RemovableTest {
        RemovableTest { kind, database, own, known: None }
    }

    /// The horizon as far as it is known.
    fn known(&mut self, procs: &ProcArray) -> Known {
        self.known.unwrap_or_else(|| self.look(procs))
    }

    fn look(&mut self, procs: &ProcArray) -> Known {
        let ended = procs.ended();
        let now = procs.horizons(self.database, self.own).of(self.kind);
        // A snapshot is dropped, never taken back: a horizon once reached stays valid.
        let horizon = self.known.map_or(now, |before| before.horizon.max(now));
        *self.known.insert(Known { horizon, ended })
    }

    /// Raises the horizon to one that the caller has seen, up to transaction `oldest`.
    ///
    /// A horizon that is computed later may be older: a snapshot that is taken meanwhile counts the
    /// running transactions of all databases, also those that cannot touch this relation.
    pub fn raise_to(&mut self, procs: &ProcArray, oldest: Xid) {
        let known = self.known(procs);
        let seen = near(known.horizon, oldest).unwrap_or(known.horizon);
        self.known = Some(Known { horizon: known.horizon.max(seen), ..known });
    }

    /// Whether everybody sees the end of a transaction: what it deleted and committed, or inserted
    /// and did not commit, may be removed.
    pub fn is_over_for_all(&mut self, procs: &ProcArray, xid: FullXid) -> bool {
        let Known { horizon, ended } = self.known(procs);
        xid < horizon || procs.ended() != ended && xid < self.look(procs).horizon
    }

    /// The same for an id from a tuple.
    pub fn is_xid_over_for_all(&mut self, procs: &ProcArray, xid: Xid) -> bool {
        match near(self.known(procs).horizon, xid) {
            Some(full) => self.is_over_for_all(procs, full),
            // It is frozen.
            None => true,
        }
    }
}

/// The full id of `xid`, which lies within 2^31 of the horizon, on either side. None if that is
/// before the first id.
fn near(horizon: FullXid, xid: Xid) -> Option<FullXid> {
    let distance = i64::from(xid.wrapping_sub(horizon.xid()) as i32);
    horizon.0.checked_add_signed(distance).map(FullXid)
}
