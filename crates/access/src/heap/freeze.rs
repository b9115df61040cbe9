//! Freezing: removing old ids from tuples, so that those ids can be used again.
//!
//! Each tuple of a page gets a plan, if there is something to freeze. Whether the page's plans are
//! executed is decided for all together: they must be if one id is older than a limit.

use forebay_aio as aio;
use forebay_format::Xid;
use forebay_format::ids::{INVALID_XID, xid_is_normal, xid_precedes};
use forebay_format::multixact::{Member, MultiXactId, multi_precedes};
use forebay_format::tuple::{self as ht, HeapTuple, HeapTupleMut, Xmax, XmaxBits};
use forebay_format::wal::prune::FreezePlan;
use forebay_txn::{Outcome, XactManager};

use super::changer::fate_now;
use super::outcomes::RowSets;
use super::prune_plan::{Fact, State};
use super::status::Fate;
use crate::error::AccessError;

/// Which ids a vacuum may freeze, and which it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutoffs {
    /// relfrozenxid: there are no older transactions in the table.
    pub frozen_xid: Xid,
    /// relminmxid: there are no older MultiXacts in the table.
    pub min_multi: MultiXactId,
    /// Older transactions are over for everybody: what they deleted goes, and they can be frozen.
    pub oldest_xid: Xid,
    /// Older MultiXacts can be frozen.
    pub oldest_multi: MultiXactId,
    /// Older transactions must be frozen.
    pub xid_limit: Xid,
    /// Older MultiXacts must be frozen.
    pub multi_limit: MultiXactId,
}

impl Cutoffs {
    /// Whether the table may have ids that must be frozen.
    pub(super) fn has_old_ids(&self) -> bool {
        !xid_precedes(self.xid_limit, self.frozen_xid)
            || !multi_precedes(self.multi_limit, self.min_multi)
    }
}

/// The oldest ids that stay in a page or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    /// The oldest transaction.
    pub xid: Xid,
    /// The oldest MultiXact.
    pub multi: MultiXactId,
}

impl Remaining {
    /// A transaction stays.
    pub(super) fn keep_xid(&mut self, xid: Xid) {
        if xid_precedes(xid, self.xid) {
            self.xid = xid;
        }
    }

    /// A MultiXact stays.
    pub(super) fn keep_multi(&mut self, multi: MultiXactId) {
        if multi_precedes(multi, self.multi) {
            self.multi = multi;
        }
    }
}

/// The ids of a page, as far as vacuum has seen them.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageIds {
    /// Whether an id is so old that the page must be frozen.
    pub(super) must_freeze: bool,
    /// What stays in the table if the page is frozen.
    pub(super) if_frozen: Remaining,
    /// What stays if it is not.
    pub(super) if_left: Remaining,
}

impl PageIds {
    pub(super) fn new(so_far: Remaining) -> PageIds {
        PageIds { must_freeze: false, if_frozen: so_far, if_left: so_far }
    }
}

/// What freezing does to a tuple.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frozen {
    /// None: nothing.
    pub(super) header: Option<FrozenHeader>,
    /// Whether it has no ids then.
    pub(super) totally: bool,
}

/// The new values of a tuple's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrozenHeader {
    xmax: Xid,
    infomask2: u16,
    infomask: u16,
}

impl FrozenHeader {
    /// The header of a tuple as it is.
    pub(crate) fn of(tuple: HeapTuple<'_>) -> FrozenHeader {
        let (infomask2, infomask) = (tuple.infomask2(), tuple.infomask());
        FrozenHeader { xmax: tuple.xmax(), infomask2, infomask }
    }

    /// Whether everybody sees that the tuple was inserted.
    pub(crate) fn xmin_frozen(&self) -> bool {
        self.infomask & ht::HEAP_XMIN_FROZEN == ht::HEAP_XMIN_FROZEN
    }

    /// Gives a copy of `old` in another file the header, as far as visibility is concerned. It is
    /// in no HOT chain there.
    pub(crate) fn stamp(&self, old: HeapTuple<'_>, new: &mut HeapTupleMut<'_>) {
        let (infomask2, infomask) = (new.tuple().infomask2(), new.tuple().infomask());
        new.set_xmin(old.xmin());
        new.set_xmax(self.xmax);
        new.set_cid(old.cid());
        new.set_infomask2(infomask2 & !ht::HEAP2_XACT_MASK);
        new.set_infomask(infomask & !ht::HEAP_XACT_MASK | self.infomask & ht::HEAP_XACT_MASK);
    }
}

impl From<FrozenHeader> for FreezePlan {
    fn from(header: FrozenHeader) -> FreezePlan {
        let FrozenHeader { xmax, infomask2, infomask } = header;
        FreezePlan { xmax, infomask2, infomask, flags: 0, offsets: Vec::new() }
    }
}

/// What becomes of xmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NewXmax {
    /// There was none.
    None,
    Stays,
    Removed,
    /// A MultiXact becomes its updater, which has committed, or may still run.
    Updater(Xid, bool),
    /// A MultiXact becomes another one.
    Multi(MultiXactId, XmaxBits),
}

/// Freezes tuples of one table.
#[derive(Debug)]
pub(super) struct Freezer<'a> {
    pub(super) cutoffs: &'a Cutoffs,
    pub(super) xacts: &'a XactManager,
    pub(super) sets: &'a mut RowSets,
}

fn corrupt(message: String) -> AccessError {
    AccessError::Corrupt(message)
}

impl Freezer<'_> {
    /// Plans to freeze a tuple that stays in its page.
    pub(super) fn prepare(
        &mut self,
        io: &mut aio::IoBackend,
        (tuple, fact): (HeapTuple<'_>, Fact),
        page: &mut PageIds,
    ) -> Result<Frozen, AccessError> {
        let xmin = tuple.xmin();
        let no_xmin = tuple.xmin_frozen() || !xid_is_normal(xmin);
        let freeze_xmin = !no_xmin && self.freezes_xmin(xmin, fact.state)?;
        let xmax = self.new_xmax(io, tuple, fact.updater, page)?;
        let no_xmax = xmax == NewXmax::None;
        let has_ids = !no_xmin || !no_xmax;
        if has_ids && !page.must_freeze {
            page.must_freeze = self.must_freeze(io, tuple, &mut page.if_left)?;
        }
        let totally = (no_xmin || freeze_xmin) && matches!(xmax, NewXmax::None | NewXmax::Removed);
        if !freeze_xmin && matches!(xmax, NewXmax::None | NewXmax::Stays) {
            return Ok(Frozen { header: None, totally });
        }
        let mut header = FrozenHeader::of(tuple);
        if freeze_xmin {
            header.infomask |= ht::HEAP_XMIN_FROZEN;
        }
        header.apply_xmax(xmax);
        Ok(Frozen { header: Some(header), totally })
    }

    /// Whether xmin can be frozen.
    fn freezes_xmin(&self, xmin: Xid, state: State) -> Result<bool, AccessError> {
        let frozen = self.cutoffs.frozen_xid;
        if xid_precedes(xmin, frozen) {
            return Err(corrupt(format!("found xmin {xmin} from before relfrozenxid {frozen}")));
        }
        let freezes = xid_precedes(xmin, self.cutoffs.oldest_xid);
        if freezes && state == State::BeingInserted {
            return Err(corrupt(format!("uncommitted xmin {xmin} needs to be frozen")));
        }
        Ok(freezes)
    }

    fn new_xmax(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        updater: Option<Xid>,
        page: &mut PageIds,
    ) -> Result<NewXmax, AccessError> {
        let (xmax, cutoffs) = (tuple.xmax(), self.cutoffs);
        if tuple.infomask() & ht::HEAP_XMAX_IS_MULTI != 0 {
            let new = self.new_multi(io, tuple, page)?;
            page.must_freeze |= new != NewXmax::Stays;
            return Ok(new);
        }
        if xmax == INVALID_XID {
            return Ok(NewXmax::None);
        }
        if !xid_is_normal(xmax) {
            let infomask = tuple.infomask();
            return Err(corrupt(format!(
                "found raw xmax {xmax} (infomask {infomask:#06x}) not invalid and not multi"
            )));
        }
        if xid_precedes(xmax, cutoffs.frozen_xid) {
            let frozen = cutoffs.frozen_xid;
            return Err(corrupt(format!("found xmax {xmax} from before relfrozenxid {frozen}")));
        }
        if !xid_precedes(xmax, cutoffs.oldest_xid) {
            return Ok(NewXmax::Stays);
        }
        if let Some(by) = updater {
            return Err(corrupt(format!("cannot freeze committed xmax {by}")));
        }
        Ok(NewXmax::Removed)
    }

    /// What becomes of a MultiXact in xmax.
    fn new_multi(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        page: &mut PageIds,
    ) -> Result<NewXmax, AccessError> {
        let (multi, cutoffs) = (tuple.xmax(), self.cutoffs);
        let lock_only = match tuple.xmax_kind() {
            Xmax::Multi { lock_only } if multi != 0 => lock_only,
            // It has aborted, or its lockers are gone.
            _ => return Ok(NewXmax::Removed),
        };
        if multi_precedes(multi, cutoffs.min_multi) {
            let min = cutoffs.min_multi;
            return Err(corrupt(format!("found multixact {multi} from before relminmxid {min}")));
        }
        let members = self.sets.members(io, multi, lock_only)?;
        if multi_precedes(multi, cutoffs.oldest_multi) {
            return self.old_multi(io, multi, &members, lock_only);
        }
        let mut kept = page.if_frozen;
        members.iter().for_each(|member| kept.keep_xid(member.xid));
        let old = |member: &Member| xid_precedes(member.xid, cutoffs.xid_limit);
        if members.is_empty() {
            return Ok(NewXmax::Removed);
        }
        if !members.iter().any(old) && !multi_precedes(multi, cutoffs.multi_limit) {
            page.if_frozen = kept;
            page.if_frozen.keep_multi(multi);
            return Ok(NewXmax::Stays);
        }
        self.replaced_multi(io, multi, members)
    }

    /// What becomes of a MultiXact none of whose members can still run.
    fn old_multi(
        &self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        members: &[Member],
        lock_only: bool,
    ) -> Result<NewXmax, AccessError> {
        let Cutoffs { oldest_xid, oldest_multi, frozen_xid, .. } = *self.cutoffs;
        if members.iter().any(|member| self.xacts.procs().is_running(member.xid)) {
            return Err(corrupt(format!(
                "multixact {multi} from before multi freeze cutoff {oldest_multi} found to be \
                 still running"
            )));
        }
        let updater = members.iter().find(|member| member.status.is_update());
        let Some(&Member { xid, .. }) = updater.filter(|_| !lock_only) else {
            return Ok(NewXmax::Removed);
        };
        if xid_precedes(xid, frozen_xid) {
            return Err(corrupt(format!(
                "multixact {multi} contains update XID {xid} from before relfrozenxid {frozen_xid}"
            )));
        }
        if !xid_precedes(xid, oldest_xid) {
            return Ok(NewXmax::Updater(xid, false));
        }
        if self.xacts.clog().status(io, xid)? == Outcome::Committed {
            return Err(committed_update(multi, xid, oldest_xid));
        }
        Ok(NewXmax::Removed)
    }

    /// What becomes of a MultiXact that cannot stay: its lockers that run and its updater, unless
    /// that has aborted, go on.
    fn replaced_multi(
        &mut self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        members: Vec<Member>,
    ) -> Result<NewXmax, AccessError> {
        let oldest = self.cutoffs.oldest_xid;
        let mut updater = None;
        let mut kept = Vec::new();
        for member in members {
            let Member { xid, status } = member;
            let fate = fate_now(io, self.xacts, xid, false)?;
            let old = xid_precedes(xid, oldest);
            match (status.is_update(), fate) {
                (true, _) if updater.is_some() => {
                    let problem = "has two or more updating members";
                    return Err(corrupt(format!("multixact {multi} {problem}")));
                }
                (true, Fate::Running | Fate::Committed) if old => {
                    return Err(committed_update(multi, xid, oldest));
                }
                (true, Fate::Running | Fate::Committed) => {
                    updater = Some((xid, fate == Fate::Committed));
                    kept.push(member);
                }
                (false, Fate::Running) if old => {
                    return Err(corrupt(format!(
                        "multixact {multi} contains running locker XID {xid} from before removable \
                         cutoff {oldest}"
                    )));
                }
                (false, Fate::Running) => kept.push(member),
                (true, Fate::Aborted) | (false, Fate::Committed | Fate::Aborted) => {}
            }
        }
        if kept.is_empty() {
            return Ok(NewXmax::Removed);
        }
        if let (Some((xid, committed)), 1) = (updater, kept.len()) {
            return Ok(NewXmax::Updater(xid, committed));
        }
        let bits = XmaxBits::of_multi(&kept);
        let new = self.sets.in_use()?.create(io, self.xacts, INVALID_XID, kept)?;
        Ok(NewXmax::Multi(new, bits))
    }

    /// Whether an id of a tuple is so old that it must be frozen. Notes the ids in `left`: those
    /// that stay if it is not frozen.
    pub(super) fn must_freeze(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        left: &mut Remaining,
    ) -> Result<bool, AccessError> {
        let cutoffs = self.cutoffs;
        let mut old = false;
        let mut note = |xid: Xid| {
            if xid_is_normal(xid) {
                left.keep_xid(xid);
                old |= xid_precedes(xid, cutoffs.xid_limit);
            }
        };
        if !tuple.xmin_frozen() {
            note(tuple.xmin());
        }
        let multi = tuple.xmax();
        if tuple.infomask() & ht::HEAP_XMAX_IS_MULTI == 0 {
            note(multi);
            return Ok(old);
        }
        if multi == 0 {
            return Ok(old);
        }
        match tuple.xmax_kind() {
            Xmax::Multi { lock_only } => {
                self.sets.members(io, multi, lock_only)?.iter().for_each(|m| note(m.xid));
                old |= multi_precedes(multi, cutoffs.multi_limit);
            }
            _ => old = true,
        }
        left.keep_multi(multi);
        Ok(old)
    }
}

fn committed_update(multi: MultiXactId, xid: Xid, oldest: Xid) -> AccessError {
    corrupt(format!(
        "multixact {multi} contains committed update XID {xid} from before removable cutoff \
         {oldest}"
    ))
}

impl FrozenHeader {
    fn apply_xmax(&mut self, xmax: NewXmax) {
        let no_xmax = self.infomask & !ht::HEAP_XMAX_BITS;
        match xmax {
            NewXmax::None | NewXmax::Stays => {}
            NewXmax::Removed => {
                self.xmax = INVALID_XID;
                self.infomask = no_xmax | ht::HEAP_XMAX_INVALID;
                self.infomask2 &= !(ht::HEAP_HOT_UPDATED | ht::HEAP_KEYS_UPDATED);
            }
            NewXmax::Updater(xid, committed) => {
                self.xmax = xid;
                self.infomask = no_xmax | if committed { ht::HEAP_XMAX_COMMITTED } else { 0 };
            }
            NewXmax::Multi(multi, bits) => {
                self.xmax = multi;
                self.infomask = no_xmax | bits.infomask;
                self.infomask2 = self.infomask2 & !ht::HEAP_KEYS_UPDATED | bits.infomask2;
            }
        }
    }
}
