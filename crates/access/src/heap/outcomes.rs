//! What rows need to know of transactions.

use std::sync::Arc;

use forebay_aio as aio;
use forebay_format::Xid;
use forebay_format::ids::xid_precedes;
use forebay_format::multixact::{FIRST_MULTI, Member, MultiXactId};
use forebay_txn::{Clog, IdWarning, MultiUse, MultiXacts, Outcome, Snapshot, XactManager};

use crate::error::AccessError;

/// Outcomes of transactions, parents of subtransactions, members of MultiXacts.
#[derive(Debug, Clone)]
pub struct Outcomes {
    clog: Arc<Clog>,
    /// None while only outcomes are known. Then MultiXacts are refused.
    live: Option<Live>,
}

#[derive(Debug, Clone)]
struct Live {
    xacts: Arc<XactManager>,
    multis: Arc<MultiXacts>,
}

impl From<Arc<Clog>> for Outcomes {
    fn from(clog: Arc<Clog>) -> Outcomes {
        Outcomes { clog, live: None }
    }
}

impl Outcomes {
    /// All that a running engine knows.
    pub fn new(xacts: Arc<XactManager>, multis: Arc<MultiXacts>) -> Outcomes {
        Outcomes { clog: Arc::clone(xacts.clog()), live: Some(Live { xacts, multis }) }
    }

    /// The transactions of the engine, if it runs.
    pub(super) fn xacts(&self) -> Option<&Arc<XactManager>> {
        self.live.as_ref().map(|live| &live.xacts)
    }

    /// The oldest MultiXact that a row of a new table can get.
    pub fn oldest_multi(&self) -> MultiXactId {
        self.live.as_ref().map_or(FIRST_MULTI, |live| live.multis.oldest_in_use())
    }

    /// A use of MultiXacts that has not begun.
    pub fn sets(&self) -> RowSets {
        RowSets { multis: self.live.as_ref().map(|live| live.multis.clone()), in_use: None }
    }

    /// Whether a transaction other than the own ones had committed when the snapshot was taken.
    /// `hinted`: it has committed by now. None if that must be looked up.
    #[inline]
    pub(super) fn is_known_seen(
        &self,
        snapshot: &Snapshot,
        xid: Xid,
        hinted: bool,
    ) -> Option<bool> {
        let status = || self.clog.known_status(xid);
        if !snapshot.is_known_running(xid)? {
            return Some(hinted || status()? == Outcome::Committed);
        }
        // A snapshot counts ids as running that are assigned after it, and others that never are.
        let assigned = xid_precedes(xid, snapshot.xmax())
            || matches!(status()?, Outcome::Committed | Outcome::Aborted);
        assigned.then_some(false)
    }

    /// The same, looked up if it must be.
    pub(super) fn is_seen(
        &self,
        io: &mut aio::IoBackend,
        snapshot: &Snapshot,
        xid: Xid,
        hinted: bool,
    ) -> Result<bool, AccessError> {
        let running = match &self.live {
            Some(live) => snapshot.is_running_in(io, live.xacts.subtrans(), xid)?,
            None => snapshot.is_running(xid),
        };
        if running {
            // A snapshot counts ids as running that are assigned after it.
            if let Some(live) = self.live.as_ref().filter(|_| !xid_precedes(xid, snapshot.xmax())) {
                live.xacts.check_assigned(xid)?;
            }
            return Ok(false);
        }
        Ok(hinted || self.clog.status(io, xid)? == Outcome::Committed)
    }
}

/// A transaction's or a scan's use of MultiXacts. It begins when it is needed.
#[derive(Debug, Default)]
pub struct RowSets {
    /// None: MultiXacts are refused.
    multis: Option<Arc<MultiXacts>>,
    in_use: Option<MultiUse>,
}

impl RowSets {
    /// Begins the use. A transaction calls this before its id stands in a row: from then on others
    /// may make it a member.
    pub(super) fn begin(&mut self) {
        if let (None, Some(multis)) = (&self.in_use, &self.multis) {
            self.in_use = Some(MultiUse::begin(Arc::clone(multis)));
        }
    }

    /// Ends the use. To be called after the transaction has left the running ones: until then
    /// others may make it a member of a MultiXact, which must be kept.
    pub fn end(&mut self) {
        self.in_use = None;
    }

    /// Takes the warnings about MultiXacts that it made.
    pub fn take_warnings(&mut self) -> Vec<IdWarning> {
        self.in_use.as_mut().map(MultiUse::take_warnings).unwrap_or_default()
    }

    /// The MultiXacts in use.
    pub(super) fn in_use(&mut self) -> Result<&mut MultiUse, AccessError> {
        self.begin();
        self.in_use.as_mut().ok_or(AccessError::Unsupported("multixacts"))
    }

    /// The members of a MultiXact.
    pub(crate) fn members(
        &mut self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        lock_only: bool,
    ) -> Result<Vec<Member>, AccessError> {
        Ok(self.in_use()?.members(io, multi, lock_only)?)
    }
}
