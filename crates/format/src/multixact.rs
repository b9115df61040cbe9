//! `pg_multixact`: sets of transactions that hold one tuple at the same time.
//!
//! A MultiXact has consecutive members. `offsets` says where they begin, and they end where those
//! of the next MultiXact begin. `members` has them in groups of four:
//!
//! ```text
//!   page of offsets:  2048 numbers u32, by MultiXact
//!   page of members:  409 groups, 12 bytes unused
//!
//!   group:  0       4        8        12       16       20
//!           +-------+--------+--------+--------+--------+
//!           | flags | member | member | member | member |
//!           | 4 * u8| u32    | u32    | u32    | u32    |
//!           +-------+--------+--------+--------+--------+
//! ```
//!
//! - member: a transaction id; 0 is no member, and stands where the offset 0 was skipped
//! - flags: the [`MemberStatus`] of each member
//!
//! MultiXacts and offsets have 32 bits and wrap around. MultiXact 0 and offset 0 are not used.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{put, u32_field},
    ids::{BLOCK_SIZE, Xid},
    page::PageBytes,
};

/// A MultiXact's id.
pub type MultiXactId = u32;
/// A member's position.
pub type MemberOffset = u32;

/// No MultiXact.
pub const INVALID_MULTI: MultiXactId = 0;
/// The first MultiXact, also after a wrap.
pub const FIRST_MULTI: MultiXactId = 1;

/// MultiXacts in a page of `offsets`.
pub const OFFSETS_PER_PAGE: u32 = BLOCK_SIZE as u32 / 4;
const MEMBERS_PER_GROUP: u32 = 4;
const GROUP_SIZE: usize = 20;
const GROUPS_PER_PAGE: u32 = (BLOCK_SIZE / GROUP_SIZE) as u32;
/// Members in a page of `members`.
pub const MEMBERS_PER_PAGE: u32 = GROUPS_PER_PAGE * MEMBERS_PER_GROUP;

const _: () = assert!(OFFSETS_PER_PAGE == 2048 && MEMBERS_PER_PAGE == 1636);
const _: () = assert!(GROUP_SIZE == MEMBERS_PER_GROUP as usize * (1 + 4));

/// What a member does to the tuple: a lock of one of four strengths, or an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MemberStatus {
    /// `FOR KEY SHARE`.
    ForKeyShare = 0,
    /// `FOR SHARE`.
    ForShare = 1,
    /// `FOR NO KEY UPDATE`.
    ForNoKeyUpdate = 2,
    /// `FOR UPDATE`.
    ForUpdate = 3,
    /// An update that leaves key columns as they are.
    NoKeyUpdate = 4,
    /// A deletion, or an update of key columns.
    Update = 5,
}

impl MemberStatus {
    /// All of them, by number.
    pub const ALL: [Self; 6] = [
        Self::ForKeyShare,
        Self::ForShare,
        Self::ForNoKeyUpdate,
        Self::ForUpdate,
        Self::NoKeyUpdate,
        Self::Update,
    ];

    /// The status with a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Whether the member changed the tuple, rather than only locking it.
    pub const fn is_update(self) -> bool {
        matches!(self, Self::NoKeyUpdate | Self::Update)
    }

    /// Its name as `pg_waldump` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForKeyShare => "keysh",
            Self::ForShare => "sh",
            Self::ForNoKeyUpdate => "fornokeyupd",
            Self::ForUpdate => "forupd",
            Self::NoKeyUpdate => "nokeyupd",
            Self::Update => "upd",
        }
    }
}

/// A member of a MultiXact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// The transaction.
    pub xid: Xid,
    /// What it does.
    pub status: MemberStatus,
}

/// A stored member has a status that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("MultiXact member {offset} has the unknown status {status}")]
pub struct UnknownStatus {
    /// The member's position.
    pub offset: MemberOffset,
    /// The stored status.
    pub status: u8,
}

/// Whether `a` is older than `b`; ids compare modulo 2^32.
pub const fn multi_precedes(a: MultiXactId, b: MultiXactId) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The id that is assigned after `multi`.
pub const fn multi_next(multi: MultiXactId) -> MultiXactId {
    let next = multi.wrapping_add(1);
    if next == INVALID_MULTI { FIRST_MULTI } else { next }
}

/// The page of `offsets` that holds a MultiXact.
pub const fn offsets_page(multi: MultiXactId) -> i64 {
    (multi / OFFSETS_PER_PAGE) as i64
}

const fn offset_at(multi: MultiXactId) -> usize {
    (multi % OFFSETS_PER_PAGE) as usize * 4
}

/// Where the members of a MultiXact begin, from its page of `offsets`. 0: it was not stored.
pub fn offset(page: &PageBytes, multi: MultiXactId) -> MemberOffset {
    u32_field(page, offset_at(multi))
}

/// Stores where the members of a MultiXact begin.
pub fn set_offset(page: &mut PageBytes, multi: MultiXactId, offset: MemberOffset) {
    put(page, offset_at(multi), offset.to_le_bytes());
}

/// The page of `members` that holds a member.
pub const fn members_page(offset: MemberOffset) -> i64 {
    (offset / MEMBERS_PER_PAGE) as i64
}

/// Where in its page a member's flags and its transaction are.
const fn member_at(offset: MemberOffset) -> (usize, usize) {
    let group = (offset / MEMBERS_PER_GROUP % GROUPS_PER_PAGE) as usize * GROUP_SIZE;
    let index = (offset % MEMBERS_PER_GROUP) as usize;
    (group + index, group + MEMBERS_PER_GROUP as usize + index * 4)
}

/// A member, from its page of `members`; `None` if none is stored there.
pub fn member(page: &PageBytes, offset: MemberOffset) -> Result<Option<Member>, UnknownStatus> {
    let (flags_at, xid_at) = member_at(offset);
    let xid = u32_field(page, xid_at);
    let stored = page.get(flags_at).copied().expect("an offset in the page");
    if xid == 0 {
        return Ok(None);
    }
    let status = MemberStatus::from_number(u32::from(stored))
        .ok_or(UnknownStatus { offset, status: stored })?;
    Ok(Some(Member { xid, status }))
}

/// Stores a member.
pub fn set_member(page: &mut PageBytes, offset: MemberOffset, member: Member) {
    let (flags_at, xid_at) = member_at(offset);
    put(page, flags_at, [member.status as u8]);
    put(page, xid_at, member.xid.to_le_bytes());
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!((offsets_page(2047), offsets_page(2048), offset_at(2049)), (0, 1, 4));
        assert_eq!((members_page(1635), members_page(1636)), (0, 1));
        assert_eq!(member_at(5), (21, 28));
        assert_eq!(member_at(1635), (8163, 8176));
        assert_eq!(member_at(1636), (0, 4));
        assert_eq!(members_page(u32::MAX), 2_625_285);
    }

    #[test]
    fn ids_wrap() {
        assert!(multi_precedes(u32::MAX, 1) && multi_precedes(1, 2) && !multi_precedes(2, 2));
        assert_eq!((multi_next(u32::MAX), multi_next(7)), (1, 8));
    }

    #[test]
    fn each_member_has_its_own_bytes() {
        let mut page = [0; BLOCK_SIZE];
        let of = |offset: u32| Member {
            xid: 1000 + offset,
            status: MemberStatus::ALL[offset as usize % 6],
        };
        (0..MEMBERS_PER_PAGE).for_each(|offset| set_member(&mut page, offset, of(offset)));
        for offset in 0..MEMBERS_PER_PAGE {
            assert_eq!(member(&page, offset), Ok(Some(of(offset))));
        }
        assert!(page[8180..].iter().all(|&byte| byte == 0));
        page[0] = 6;
        assert_eq!(member(&page, 0), Err(UnknownStatus { offset: 0, status: 6 }));
        page[4..8].fill(0);
        assert_eq!(member(&page, 0), Ok(None));
        set_offset(&mut page, 2049, 77);
        assert_eq!((offset(&page, 2049), page[4]), (77, 77));
    }
}
