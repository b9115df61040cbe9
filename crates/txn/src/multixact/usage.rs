//! What one transaction does with sets.

use std::collections::VecDeque;

use forebay_aio as aio;
use forebay_aio::sync::Arc;
use forebay_format::Xid;
use forebay_format::multixact::{Member, MultiXactId, multi_precedes};

use super::store::MultiXacts;
use crate::clog::Outcome;
use crate::error::TxnError;
use crate::manager::XactManager;
use crate::shortage::IdWarning;

/// Sets that a transaction remembers.
const REMEMBERED: usize = 256;

/// A transaction's use of sets, from its first one to its end. It keeps them from being removed,
/// and remembers those it has seen: the same members get the same set again.
#[derive(Debug)]
pub struct MultiUse {
    multis: Arc<MultiXacts>,
    /// Sets before this one have no members that ran when the use began.
    visible: MultiXactId,
    /// The first set of which the transaction can have become a member.
    member: MultiXactId,
    /// Most recently used first. Members are sorted.
    recent: VecDeque<(MultiXactId, Vec<Member>)>,
    /// What is to be said about the sets that it made.
    warnings: Vec<IdWarning>,
}

impl MultiUse {
    /// Begins to use sets. Must be called before the transaction can become a member of one.
    pub fn begin(multis: Arc<MultiXacts>) -> MultiUse {
        let (visible, member) = {
            let mut state = multis.state.lock();
            let member = state.next;
            let visible = state.members.oldest().unwrap_or(member);
            state.members.add(member);
            state.visible.add(visible);
            (visible, member)
        };
        MultiUse { multis, visible, member, recent: VecDeque::new(), warnings: Vec::new() }
    }

    /// Takes the warnings about sets that it made: few more can be made.
    pub fn take_warnings(&mut self) -> Vec<IdWarning> {
        std::mem::take(&mut self.warnings)
    }

    /// A set with these members, in the name of the transaction or subtransaction `xid`, which is
    /// one of them. At most one of them updates the row.
    pub fn create(
        &mut self,
        io: &mut aio::IoBackend,
        xacts: &XactManager,
        xid: Xid,
        mut members: Vec<Member>,
    ) -> Result<MultiXactId, TxnError> {
        assert!(!members.is_empty(), "a set has members");
        let updates = members.iter().filter(|member| member.status.is_update()).count();
        assert!(updates <= 1, "new MultiXact has {updates} updating members");
        members.sort_unstable_by_key(|member| (member.xid, member.status));
        if let Some(at) = self.recent.iter().position(|(_, known)| *known == members) {
            return Ok(self.remember_again(at).0);
        }
        let multi = self.multis.create(io, xacts, xid, &members, &mut self.warnings)?;
        self.remember(multi, members);
        Ok(multi)
    }

    /// A set with the members of `multi` that still matter, and `new`: those that run, and one that
    /// has updated the row and committed. `multi` itself if it has `new` already.
    pub fn expand(
        &mut self,
        io: &mut aio::IoBackend,
        xacts: &XactManager,
        multi: MultiXactId,
        new: Member,
    ) -> Result<MultiXactId, TxnError> {
        let old = self.members(io, multi, false)?;
        if old.contains(&new) {
            return Ok(multi);
        }
        let mut members = Vec::with_capacity(old.len() + 1);
        for member in old {
            // In this order: what ends in between is found by its outcome.
            let matters = xacts.procs.is_running(member.xid)
                || (member.status.is_update()
                    && xacts.clog.status(io, member.xid)? == Outcome::Committed);
            if matters {
                members.push(member);
            }
        }
        if new.status.is_update() && members.iter().any(|member| member.status.is_update()) {
            let problem = "has an updating member already";
            return Err(TxnError::MultiXactDamaged { multi, problem });
        }
        members.push(new);
        self.create(io, xacts, new.xid, members)
    }

    /// The members of a set. None of them if the set is only of lockers (`lock_only`) and too old
    /// for one of them to run.
    pub fn members(
        &mut self,
        io: &mut aio::IoBackend,
        multi: MultiXactId,
        lock_only: bool,
    ) -> Result<Vec<Member>, TxnError> {
        if let Some(at) = self.recent.iter().position(|(known, _)| *known == multi) {
            return Ok(self.remember_again(at).1.clone());
        }
        if lock_only && multi_precedes(multi, self.visible) {
            return Ok(Vec::new());
        }
        let mut members = self.multis.members_of(io, multi)?;
        members.sort_unstable_by_key(|member| (member.xid, member.status));
        self.remember(multi, members.clone());
        Ok(members)
    }

    fn remember_again(&mut self, at: usize) -> &(MultiXactId, Vec<Member>) {
        let entry = self.recent.remove(at).expect("the position was found");
        self.recent.push_front(entry);
        self.recent.front().expect("just put there")
    }

    fn remember(&mut self, multi: MultiXactId, members: Vec<Member>) {
        self.recent.truncate(REMEMBERED - 1);
        self.recent.push_front((multi, members));
    }
}

impl Drop for MultiUse {
    fn drop(&mut self) {
        let mut state = self.multis.state.lock();
        state.members.remove(self.member);
        state.visible.remove(self.visible);
    }
}
