//! `pg_subtrans`: the parent of each subtransaction; 2048 transactions a page.
//!
//! It is asked only about transactions that some snapshot may count as running. Nobody runs after a
//! crash, so nothing is synced, and a start makes its pages anew.

use forebay_aio as aio;
use forebay_format::ids::{INVALID_XID, xid_is_normal, xid_precedes, xid_previous};
use forebay_format::subtrans::{self, XACTS_PER_PAGE, page_of};
use forebay_format::{FullXid, Xid};

use crate::clog::Clog;
use crate::error::TxnError;
use crate::slru::{FEW_PAGES, Slru, SlruKind, is_first_on_page};

/// Number of pages until transaction ids wrap around.
const PAGES: i64 = page_of(u32::MAX) + 1;
const KIND: SlruKind = SlruKind {
    dir: "pg_subtrans",
    durable: false,
    per_page: XACTS_PER_PAGE,
    most_pages: FEW_PAGES,
};

/// The parents of subtransactions.
#[derive(Debug)]
pub struct Subtrans {
    slru: Slru,
}

impl Subtrans {
    /// `pg_subtrans` of the data directory that `clog` is of. The next id is `next`, and
    /// transactions from `oldest_active` on may still run.
    pub(crate) fn start(clog: &Clog, oldest_active: FullXid, next: FullXid) -> Subtrans {
        debug_assert!(oldest_active <= next);
        let slru = clog.slru().sibling(KIND);
        let last = page_of(next.xid());
        let mut page = page_of(oldest_active.xid());
        loop {
            slru.zero_page(page);
            if page == last {
                return Subtrans { slru };
            }
            page = (page + 1) % PAGES;
        }
    }

    /// Adds the page of `xid` if `xid` is the first on it, and forgets the pages of transactions
    /// that are older than `oldest()`.
    pub(crate) fn extend(&self, xid: Xid, oldest: impl FnOnce() -> Xid) {
        if is_first_on_page(xid, XACTS_PER_PAGE) {
            self.slru.zero_page(page_of(xid));
            self.slru.forget_before(page_of(oldest()));
        }
    }

    /// Notes the parent of a subtransaction that gets its id.
    pub(crate) fn set_parent(
        &self,
        io: &mut aio::IoBackend,
        xid: Xid,
        parent: Xid,
    ) -> Result<(), TxnError> {
        debug_assert!(xid_is_normal(parent) && xid_precedes(parent, xid));
        self.slru.change(io, page_of(xid), |bytes| {
            let was = subtrans::parent(bytes, xid);
            debug_assert!(was == INVALID_XID || was == parent, "{xid} has parents {was}, {parent}");
            subtrans::set_parent(bytes, xid, parent);
            was != parent
        })
    }

    /// The parent of a transaction that was running at the horizon or later; None if it has none.
    pub fn parent(&self, io: &mut aio::IoBackend, xid: Xid) -> Result<Option<Xid>, TxnError> {
        if !xid_is_normal(xid) {
            return Ok(None);
        }
        let parent = self.slru.read(io, page_of(xid), |bytes| subtrans::parent(bytes, xid));
        let parent = parent.map_err(|error| error.of_status(xid))?;
        Ok(Some(parent).filter(|parent| *parent != INVALID_XID))
    }

    /// The top-level transaction of `xid`, or an ancestor that is older than `xmin`: what is older
    /// than that was over, whatever it was. `xmin` is that of a snapshot in use.
    ///
    /// # Errors
    /// A parent that is not older than its child is damage. So the search ends.
    pub fn topmost(
        &self,
        io: &mut aio::IoBackend,
        mut xid: Xid,
        xmin: Xid,
    ) -> Result<Xid, TxnError> {
        while !xid_precedes(xid, xmin) {
            let Some(parent) = self.parent(io, xid)? else { break };
            if !xid_precedes(parent, xid) {
                return Err(TxnError::ParentNotOlder { xid, parent });
            }
            xid = parent;
        }
        Ok(xid)
    }

    /// Writes the changed pages, so that they can leave the memory. Called by checkpoints.
    pub fn flush(&self, io: &mut aio::IoBackend) -> Result<u64, TxnError> {
        self.slru.flush_behind(io, |_| Ok(()))
    }

    /// Removes the files of transactions older than `oldest`, which no snapshot counts as running.
    /// Called by checkpoints. Returns the number of files.
    pub fn truncate(&self, oldest: Xid) -> Result<u64, TxnError> {
        // `oldest` may be the next id, whose page may not exist yet.
        self.slru.truncate(page_of(xid_previous(oldest)))
    }
}
