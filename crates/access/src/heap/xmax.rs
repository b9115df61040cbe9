//! The new xmax of a row that is locked or updated: one transaction, or a MultiXact.

use forebay_aio as aio;
use forebay_format::multixact::{Member, MemberStatus};
use forebay_format::tuple::{HeapTuple, HeapTupleMut, LockStrength, Xmax, XmaxBits};
use forebay_format::wal::heap;
use forebay_format::{Xid, tuple as ht};
use forebay_txn::Outcome;

use super::changer::Changer;
use super::status::holders;
use crate::error::AccessError;

/// An xmax with its flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewXmax {
    pub(super) xmax: Xid,
    pub(super) bits: XmaxBits,
}

impl NewXmax {
    /// The flags as records store them.
    pub(super) fn infobits(&self) -> u8 {
        heap::infobits(self.bits.infomask, self.bits.infomask2)
    }

    /// Whether nobody among them updates the row.
    pub(super) fn is_lock_only(&self) -> bool {
        ht::xmax_is_locked_only(self.bits.infomask)
    }

    /// Writes it into a tuple.
    pub(super) fn store(&self, tuple: &mut HeapTupleMut<'_>) {
        tuple.set_xmax_bits(self.bits);
        tuple.set_xmax(self.xmax);
    }
}

/// The status of one who updates, or only locks, with a strength.
pub(super) fn status_of(strength: LockStrength, updates: bool) -> MemberStatus {
    match strength {
        strength if !updates => strength.locker(),
        LockStrength::Exclusive => MemberStatus::Update,
        LockStrength::NoKeyExclusive => MemberStatus::NoKeyUpdate,
        LockStrength::KeyShare | LockStrength::Share => {
            unreachable!("an update locks its row exclusively")
        }
    }
}

impl Changer<'_> {
    /// The xmax of a tuple that the author locks or updates, beside those who may keep their locks.
    /// May make a MultiXact.
    pub(super) fn new_xmax(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        wanted: MemberStatus,
    ) -> Result<NewXmax, AccessError> {
        let (xmax, own) = (tuple.xmax(), self.author.xid);
        let single = |status| NewXmax { xmax: own, bits: XmaxBits::of_one(status) };
        let multi = match tuple.xmax_kind() {
            Xmax::None | Xmax::UpgradedLockers => None,
            Xmax::Transaction(held) if xmax == own => {
                debug_assert!(!held.is_update(), "a row that {own} has updated is changed again");
                let strength = LockStrength::from(held).max(wanted.into());
                return Ok(single(status_of(strength, wanted.is_update())));
            }
            Xmax::Transaction(held) => {
                let holder = Member { xid: xmax, status: held };
                let members = vec![holder, Member { xid: own, status: wanted }];
                match self.matters(io, holder)? {
                    true => Some(self.sets.in_use()?.create(io, self.xacts, own, members)?),
                    false => None,
                }
            }
            Xmax::Multi { .. } => {
                let mut matters = false;
                for holder in holders(io, self, tuple)? {
                    matters |= self.matters(io, holder)?;
                }
                let member = Member { xid: own, status: wanted };
                match matters {
                    true => Some(self.sets.in_use()?.expand(io, self.xacts, xmax, member)?),
                    false => None,
                }
            }
        };
        let Some(multi) = multi else { return Ok(single(wanted)) };
        let bits = XmaxBits::of_multi(&self.sets.members(io, multi, false)?);
        Ok(NewXmax { xmax: multi, bits })
    }

    /// Whether a holder must stay in the row's xmax: it runs, or it has updated the row.
    fn matters(&self, io: &mut aio::IoBackend, holder: Member) -> Result<bool, AccessError> {
        // In this order: what ends in between is found by its outcome.
        Ok(self.xacts.procs().is_running(holder.xid)
            || holder.status.is_update()
                && self.xacts.clog().status(io, holder.xid)? == Outcome::Committed)
    }

    /// The xmax of the newer version of a tuple that is being updated: those whose locks go on.
    /// They can only be `FOR KEY SHARE`, or the author's own. With `temporary`, the author has
    /// locked the tuple only for the update.
    pub(super) fn kept_lockers(
        &mut self,
        io: &mut aio::IoBackend,
        tuple: HeapTuple<'_>,
        temporary: bool,
    ) -> Result<Option<NewXmax>, AccessError> {
        let members = holders(io, self, tuple)?;
        let stays = members.iter().any(|member| {
            let ends = temporary && member.xid == self.author.xid;
            !ends && self.xacts.procs().is_running(member.xid)
        });
        let bits = match tuple.xmax_kind() {
            Xmax::Multi { .. } => XmaxBits::of_multi(&members),
            _ => XmaxBits::of_one(MemberStatus::ForKeyShare),
        };
        Ok(stays.then_some(NewXmax { xmax: tuple.xmax(), bits }))
    }
}
