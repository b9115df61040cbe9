//! What the header of a tuple says about lockers, updaters and newer versions.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use super::header::{
    HEAP_COMBOCID, HEAP_HOT_UPDATED, HEAP_KEYS_UPDATED, HEAP_LOCK_MASK, HEAP_MOVED_IN,
    HEAP_MOVED_OFF, HEAP_ONLY_TUPLE, HEAP_UPDATED, HEAP_XMAX_EXCL_LOCK, HEAP_XMAX_INVALID,
    HEAP_XMAX_IS_MULTI, HEAP_XMAX_KEYSHR_LOCK, HEAP_XMAX_LOCK_ONLY, HEAP_XMAX_SHR_LOCK, HeapTuple,
    HeapTupleMut, xmax_is_locked_only,
};
use crate::{
    ids::{CommandId, INVALID_BLOCK, ItemPointer, OffsetNumber},
    multixact::{Member, MemberStatus},
};

/// Offset in ctid: the block number is the token of a speculative insertion.
pub const SPECULATIVE_TOKEN_OFFSET: OffsetNumber = 0xfffe;
/// Offset in ctid: the row moved to another partition.
pub const MOVED_PARTITIONS_OFFSET: OffsetNumber = 0xfffd;
/// Infomask: moved by VACUUM FULL of an old version; cid is that transaction.
pub const HEAP_MOVED: u16 = HEAP_MOVED_OFF | HEAP_MOVED_IN;

/// Strength of a row lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockStrength {
    /// `FOR KEY SHARE`: key columns stay, the row is not deleted.
    KeyShare,
    /// `FOR SHARE`: the row stays as it is.
    Share,
    /// `FOR NO KEY UPDATE`, and updates that leave key columns as they are.
    NoKeyExclusive,
    /// `FOR UPDATE`, deletions, and updates of key columns.
    Exclusive,
}

impl LockStrength {
    /// Whether two transactions can't hold these locks on one row.
    pub const fn conflicts_with(self, other: Self) -> bool {
        // A lock of rank n conflicts with those whose ranks add up to at least 3.
        self as u8 + other as u8 >= 3
    }

    /// The status of a member that only locks.
    pub const fn locker(self) -> MemberStatus {
        match self {
            Self::KeyShare => MemberStatus::ForKeyShare,
            Self::Share => MemberStatus::ForShare,
            Self::NoKeyExclusive => MemberStatus::ForNoKeyUpdate,
            Self::Exclusive => MemberStatus::ForUpdate,
        }
    }
}

impl From<MemberStatus> for LockStrength {
    fn from(status: MemberStatus) -> Self {
        match status {
            MemberStatus::ForKeyShare => Self::KeyShare,
            MemberStatus::ForShare => Self::Share,
            MemberStatus::ForNoKeyUpdate | MemberStatus::NoKeyUpdate => Self::NoKeyExclusive,
            MemberStatus::ForUpdate | MemberStatus::Update => Self::Exclusive,
        }
    }
}

/// Flags about xmax: those of infomask, and those of infomask2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct XmaxBits {
    /// Flags of infomask, among [`HEAP_XMAX_BITS`](super::HEAP_XMAX_BITS).
    pub infomask: u16,
    /// [`HEAP_KEYS_UPDATED`] or 0.
    pub infomask2: u16,
}

impl XmaxBits {
    /// The flags of a tuple with one locker or updater.
    pub const fn of_one(status: MemberStatus) -> Self {
        let infomask = match status {
            MemberStatus::ForKeyShare => HEAP_XMAX_LOCK_ONLY | HEAP_XMAX_KEYSHR_LOCK,
            MemberStatus::ForShare => HEAP_XMAX_LOCK_ONLY | HEAP_XMAX_SHR_LOCK,
            MemberStatus::ForNoKeyUpdate | MemberStatus::ForUpdate => {
                HEAP_XMAX_LOCK_ONLY | HEAP_XMAX_EXCL_LOCK
            }
            MemberStatus::NoKeyUpdate | MemberStatus::Update => 0,
        };
        Self { infomask, infomask2: keys_updated(status) }
    }

    /// The flags of a tuple whose xmax is a MultiXact with these members.
    pub fn of_multi(members: &[Member]) -> Self {
        let strengths = members.iter().map(|member| LockStrength::from(member.status));
        let lock = match strengths.max() {
            // Lock-only without a lock's bit is what old versions stored: Xmax::UpgradedLockers.
            None | Some(LockStrength::KeyShare) => HEAP_XMAX_KEYSHR_LOCK,
            Some(LockStrength::Share) => HEAP_XMAX_SHR_LOCK,
            Some(LockStrength::NoKeyExclusive | LockStrength::Exclusive) => HEAP_XMAX_EXCL_LOCK,
        };
        let updated = members.iter().any(|member| member.status.is_update());
        let lock_only = if updated { 0 } else { HEAP_XMAX_LOCK_ONLY };
        let keys = members.iter().fold(0, |all, member| all | keys_updated(member.status));
        Self { infomask: HEAP_XMAX_IS_MULTI | lock | lock_only, infomask2: keys }
    }
}

const fn keys_updated(status: MemberStatus) -> u16 {
    match status {
        MemberStatus::ForUpdate | MemberStatus::Update => HEAP_KEYS_UPDATED,
        _ => 0,
    }
}

/// What the flags say about xmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Xmax {
    /// There is none, or it is known to have aborted.
    None,
    /// A transaction.
    Transaction(MemberStatus),
    /// A MultiXact. Its members are in pg_multixact.
    Multi {
        /// None of the members is an updater.
        lock_only: bool,
    },
    /// Lockers that PostgreSQL before 9.3 stored; they are gone.
    UpgradedLockers,
}

impl HeapTuple<'_> {
    /// What the flags say about xmax.
    pub fn xmax_kind(&self) -> Xmax {
        let mask = self.infomask();
        let lock_only = xmax_is_locked_only(mask);
        let keys_updated = self.infomask2() & HEAP_KEYS_UPDATED != 0;
        if mask & HEAP_XMAX_INVALID != 0 {
            return Xmax::None;
        }
        if mask & HEAP_XMAX_IS_MULTI != 0 {
            let upgraded = lock_only && mask & HEAP_LOCK_MASK == 0;
            return if upgraded { Xmax::UpgradedLockers } else { Xmax::Multi { lock_only } };
        }
        Xmax::Transaction(match (lock_only, mask & HEAP_LOCK_MASK) {
            (true, HEAP_XMAX_KEYSHR_LOCK) => MemberStatus::ForKeyShare,
            (true, HEAP_XMAX_SHR_LOCK) => MemberStatus::ForShare,
            // Stored by PostgreSQL before 9.3, which did not tell strengths apart.
            (true, 0) => MemberStatus::ForUpdate,
            (true, _) if keys_updated => MemberStatus::ForUpdate,
            (true, _) => MemberStatus::ForNoKeyUpdate,
            (false, _) if keys_updated => MemberStatus::Update,
            (false, _) => MemberStatus::NoKeyUpdate,
        })
    }

    /// Whether the next version is on the same page, and indexes do not point to it. The updater
    /// may have aborted without that being known.
    pub fn is_hot_updated(&self) -> bool {
        self.infomask2() & HEAP_HOT_UPDATED != 0
            && self.infomask() & HEAP_XMAX_INVALID == 0
            && !self.xmin_invalid()
    }

    /// Whether no index points to it.
    pub fn is_heap_only(&self) -> bool {
        self.infomask2() & HEAP_ONLY_TUPLE != 0
    }

    /// Whether it is the newer version of an updated row.
    pub fn is_updated(&self) -> bool {
        self.infomask() & HEAP_UPDATED != 0
    }

    /// Whether cid stands for a pair of commands, which only its transaction knows.
    pub fn has_combo_cid(&self) -> bool {
        self.infomask() & HEAP_COMBOCID != 0
    }

    /// Whether VACUUM FULL of an old version moved it; then cid is a transaction.
    pub fn is_moved(&self) -> bool {
        self.infomask() & HEAP_MOVED != 0
    }

    /// The token of the speculative insertion that this is, until it is confirmed.
    pub fn speculative_token(&self) -> Option<u32> {
        let ctid = self.ctid();
        (ctid.offset == SPECULATIVE_TOKEN_OFFSET).then_some(ctid.block)
    }

    /// Whether its newer version is in another partition.
    pub fn moved_partitions(&self) -> bool {
        self.ctid() == ItemPointer::new(INVALID_BLOCK, MOVED_PARTITIONS_OFFSET)
    }
}

impl HeapTupleMut<'_> {
    /// Marks it as a speculative insertion. Confirming that means setting its own position.
    pub fn set_speculative_token(&mut self, token: u32) {
        self.set_ctid(ItemPointer::new(token, SPECULATIVE_TOKEN_OFFSET));
    }

    /// Marks that its newer version is in another partition.
    pub fn set_moved_partitions(&mut self) {
        self.set_ctid(ItemPointer::new(INVALID_BLOCK, MOVED_PARTITIONS_OFFSET));
    }

    /// Stores the command that deleted or locked it, or a pair of commands.
    pub fn set_cmax(&mut self, cid: CommandId, is_combo: bool) {
        let mask = self.tuple().infomask() & !HEAP_COMBOCID;
        self.set_infomask(if is_combo { mask | HEAP_COMBOCID } else { mask });
        self.set_cid(cid);
    }

    /// Replaces the flags about xmax, and clears those of an earlier move.
    pub fn set_xmax_bits(&mut self, bits: XmaxBits) {
        let tuple = self.tuple();
        let cleared = tuple.infomask() & !(super::HEAP_XMAX_BITS | HEAP_MOVED);
        let cleared2 = tuple.infomask2() & !HEAP_KEYS_UPDATED;
        self.set_infomask(cleared | bits.infomask);
        self.set_infomask2(cleared2 | bits.infomask2);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::tuple::{AttrLayout, form_tuple};

    fn tuple() -> Vec<u8> {
        form_tuple(&[AttrLayout::INT4], &[Some(&[1, 0, 0, 0])]).unwrap()
    }

    #[test]
    fn conflicts_are_those_of_the_documentation() {
        use LockStrength::{Exclusive, KeyShare, NoKeyExclusive, Share};
        let all = [KeyShare, Share, NoKeyExclusive, Exclusive];
        let conflicts = all.map(|a| all.map(|b| u8::from(a.conflicts_with(b))));
        assert_eq!(conflicts, [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]);
    }

    #[test]
    fn flags_of_one_locker_are_read_back() {
        for status in MemberStatus::ALL {
            let mut bytes = tuple();
            let mut tuple = HeapTupleMut::new(&mut bytes).unwrap();
            tuple.set_infomask(!HEAP_XMAX_INVALID);
            tuple.set_infomask2(0xffff);
            tuple.set_xmax_bits(XmaxBits::of_one(status));
            assert_eq!(tuple.tuple().xmax_kind(), Xmax::Transaction(status));
            assert!(!tuple.tuple().is_moved() && tuple.tuple().has_combo_cid());
            assert_eq!(tuple.tuple().xmax_is_locked_only(), !status.is_update());
        }
    }

    #[test]
    fn flags_of_members() {
        let bits = |statuses: &[MemberStatus]| {
            let members: Vec<_> =
                statuses.iter().map(|&status| Member { xid: 700, status }).collect();
            XmaxBits::of_multi(&members)
        };
        use MemberStatus::{ForKeyShare, ForNoKeyUpdate, ForShare, ForUpdate, NoKeyUpdate, Update};
        let of = |infomask, infomask2| XmaxBits { infomask, infomask2 };
        assert_eq!(bits(&[]), of(0x1090, 0));
        assert_eq!(bits(&[ForKeyShare, ForKeyShare]), of(0x1090, 0));
        assert_eq!(bits(&[ForShare, ForKeyShare]), of(0x10d0, 0));
        assert_eq!(bits(&[ForKeyShare, ForNoKeyUpdate]), of(0x10c0, 0));
        assert_eq!(bits(&[ForKeyShare, NoKeyUpdate]), of(0x1040, 0));
        assert_eq!(bits(&[ForUpdate, Update]), of(0x1040, 0x2000));
    }

    #[test]
    fn old_forms_of_xmax() {
        let mut bytes = tuple();
        let mut tuple = HeapTupleMut::new(&mut bytes).unwrap();
        tuple.set_infomask(HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI);
        assert_eq!(tuple.tuple().xmax_kind(), Xmax::None);
        tuple.set_infomask(HEAP_XMAX_IS_MULTI | HEAP_XMAX_LOCK_ONLY);
        assert_eq!(tuple.tuple().xmax_kind(), Xmax::UpgradedLockers);
        tuple.set_infomask(HEAP_XMAX_LOCK_ONLY);
        assert_eq!(tuple.tuple().xmax_kind(), Xmax::Transaction(MemberStatus::ForUpdate));
        // FOR UPDATE before 9.3.
        tuple.set_infomask(HEAP_XMAX_EXCL_LOCK);
        assert_eq!(tuple.tuple().xmax_kind(), Xmax::Transaction(MemberStatus::ForNoKeyUpdate));
    }

    #[test]
    fn commands() {
        let mut bytes = tuple();
        let mut tuple = HeapTupleMut::new(&mut bytes).unwrap();
        tuple.set_cmax(5, true);
        assert_eq!((tuple.tuple().cid(), tuple.tuple().has_combo_cid()), (5, true));
        tuple.set_cmax(6, false);
        assert_eq!((tuple.tuple().cid(), tuple.tuple().has_combo_cid()), (6, false));
    }

    #[test]
    fn special_positions() {
        let mut bytes = tuple();
        let mut tuple = HeapTupleMut::new(&mut bytes).unwrap();
        assert_eq!(
            (tuple.tuple().speculative_token(), tuple.tuple().moved_partitions()),
            (None, false)
        );
        tuple.set_speculative_token(7);
        assert_eq!(tuple.tuple().speculative_token(), Some(7));
        tuple.set_moved_partitions();
        assert!(tuple.tuple().moved_partitions());
        assert_eq!(bytes[12..18], [0xff, 0xff, 0xff, 0xff, 0xfd, 0xff]);
    }
}
