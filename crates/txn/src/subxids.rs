//! The ids of a transaction's subtransactions.

use forebay_aio::sync::{Arc, RwLock};
use forebay_format::{FullXid, Xid};

/// The subtransactions of a transaction that have an id and have not aborted, oldest first.
///
/// Clones share the list, so that it takes four bytes an id and no more: the transaction, the list
/// of running transactions and the transaction's snapshots have the same one. A snapshot sees no
/// row of a subtransaction that was rolled back after it was taken. Without a list there was no
/// subtransaction yet: later ones lie beyond the snapshot anyway.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subxids(Option<Arc<RwLock<Vec<Xid>>>>);

impl Subxids {
    /// Whether a clone of it would see what is added to it.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(crate) fn contains(&self, xid: Xid) -> bool {
        self.0.as_ref().is_some_and(|xids| place(&xids.read(), xid).is_ok())
    }

    pub(crate) fn add(&mut self, xid: Xid) {
        self.0.get_or_insert_default().write().push(xid);
    }

    /// Their number.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |xids| xids.read().len())
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Xid> {
        self.0.as_ref().map_or_else(Vec::new, |xids| xids.read().clone())
    }

    /// One of them and those after it.
    pub(crate) fn since(&self, xid: Xid) -> Vec<Xid> {
        let Some(xids) = &self.0 else { return Vec::new() };
        let xids = xids.read();
        let from = place(&xids, xid).expect("a subtransaction with an id is listed");
        xids[from..].to_vec()
    }

    /// All of them with their epochs. `top` is the id of their transaction.
    pub(crate) fn full(&self, top: FullXid) -> Vec<FullXid> {
        self.all().into_iter().map(|xid| full_after(top, xid)).collect()
    }

    /// The youngest, with its epoch. `top` is the id of their transaction.
    pub(crate) fn youngest(&self, top: FullXid) -> Option<FullXid> {
        let last = self.0.as_ref()?.read().last().copied();
        last.map(|xid| full_after(top, xid))
    }

    /// One of them has aborted, and all that began in it: those are the later ones.
    pub(crate) fn remove_since(&self, xid: Xid) {
        let mut xids = self.0.as_ref().expect("a subtransaction with an id is listed").write();
        let from = place(&xids, xid).expect("a subtransaction with an id is listed");
        xids.truncate(from);
    }
}

/// The full id of `xid`, which is younger than `top` by less than 2^31.
fn full_after(top: FullXid, xid: Xid) -> FullXid {
    FullXid(top.0 + u64::from(xid.wrapping_sub(top.xid())))
}

/// The index of an id in the list, or where it would be.
fn place(xids: &[Xid], xid: Xid) -> Result<usize, usize> {
    let Some(&first) = xids.first() else { return Err(0) };
    // They lie within 2^31 of each other, so the distance from the oldest orders them.
    let distance = |x: Xid| x.wrapping_sub(first);
    xids.binary_search_by_key(&distance(xid), |&x| distance(x))
}
