//! Records about pg_multixact.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at, put},
    ids::Oid,
    multixact::{Member, MemberOffset, MemberStatus, MultiXactId},
    wal::error::{PayloadError, damaged},
};

/// A page of zeros was added to `offsets`.
pub const ZERO_OFF_PAGE: u8 = 0x00;
/// A page of zeros was added to `members`.
pub const ZERO_MEM_PAGE: u8 = 0x10;
/// A MultiXact was created.
pub const CREATE_ID: u8 = 0x20;
/// Old segments were removed.
pub const TRUNCATE_ID: u8 = 0x30;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        ZERO_OFF_PAGE => "ZERO_OFF_PAGE",
        ZERO_MEM_PAGE => "ZERO_MEM_PAGE",
        CREATE_ID => "CREATE_ID",
        TRUNCATE_ID => "TRUNCATE_ID",
        _ => "UNKNOWN",
    }
}

/// Payload of [`ZERO_OFF_PAGE`] and [`ZERO_MEM_PAGE`]: the page's number, 64 bits.
pub const fn encode_zero_page(page: i64) -> [u8; 8] {
    page.to_le_bytes()
}

/// Decodes the payload of [`ZERO_OFF_PAGE`] and [`ZERO_MEM_PAGE`].
pub fn decode_zero_page(main: &[u8]) -> Result<i64, PayloadError> {
    array_at(main, 0).map(i64::from_le_bytes).ok_or(damaged("ZERO_OFF_PAGE"))
}

/// Payload of [`CREATE_ID`].
///
/// ```text
///   0       4        8       12
///   +-------+--------+-------+-----------------------+
///   | multi | offset | count | members: xid, status  |
///   |       |        |       | 4 bytes each          |
///   +-------+--------+-------+-----------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiXactCreate {
    /// The new MultiXact.
    pub multi: MultiXactId,
    /// Position of its first member.
    pub offset: MemberOffset,
    /// Its members.
    pub members: Vec<Member>,
}

impl MultiXactCreate {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + 8 * self.members.len());
        let head = [self.multi, self.offset, self.members.len() as u32];
        let members = self.members.iter().flat_map(|member| [member.xid, member.status as u32]);
        for number in head.into_iter().chain(members) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        Self::read(&mut Cursor::new(main)).ok_or(damaged("CREATE_ID"))
    }

    fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let (multi, offset, count) = (cursor.u32()?, cursor.u32()?, cursor.count()?);
        let mut members = Cursor::new(cursor.take(count.checked_mul(8)?)?);
        let read = |_| {
            let (xid, status) = (members.u32()?, members.u32()?);
            Some(Member { xid, status: MemberStatus::from_number(status)? })
        };
        Some(Self { multi, offset, members: (0..count).map(read).collect::<Option<_>>()? })
    }
}

/// Payload of [`TRUNCATE_ID`]: five numbers of 4 bytes, in the order of the fields. What lies
/// before the ends is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MultiXactTruncate {
    /// The database that needs the oldest MultiXact kept.
    pub oldest_db: Oid,
    /// The oldest MultiXact that existed.
    pub start_multi: MultiXactId,
    /// The oldest MultiXact that is kept.
    pub end_multi: MultiXactId,
    /// The oldest member that existed.
    pub start_member: MemberOffset,
    /// The oldest member that is kept.
    pub end_member: MemberOffset,
}

impl MultiXactTruncate {
    /// Bytes of its stored form.
    pub const SIZE: usize = 20;

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        let Self { oldest_db, start_multi, end_multi, start_member, end_member } = *self;
        let numbers = [oldest_db, start_multi, end_multi, start_member, end_member];
        for (n, number) in numbers.into_iter().enumerate() {
            put(&mut out, n * 4, number.to_le_bytes());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            Some(Self {
                oldest_db: cursor.u32()?,
                start_multi: cursor.u32()?,
                end_multi: cursor.u32()?,
                start_member: cursor.u32()?,
                end_member: cursor.u32()?,
            })
        };
        read(&mut cursor).ok_or(damaged("TRUNCATE_ID"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn absurd_counts_and_unknown_statuses_are_refused() {
        let member = Member { xid: 700, status: MemberStatus::Update };
        let create = MultiXactCreate { multi: 1, offset: 2, members: vec![member; 3] };
        let bytes = create.encode();
        assert_eq!(MultiXactCreate::decode(&bytes), Ok(create));
        assert!(MultiXactCreate::decode(&bytes[..35]).is_err());
        let mut bad = bytes.clone();
        bad[16] = 6;
        assert!(MultiXactCreate::decode(&bad).is_err());
        bad = bytes;
        bad[8..12].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(MultiXactCreate::decode(&bad).is_err());
        assert!(MultiXactTruncate::decode(&[0; 19]).is_err());
    }
}
