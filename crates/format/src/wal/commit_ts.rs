//! Records about pg_commit_ts: new pages, and removal of old ones. Commit records have the
//! timestamps.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at, put},
    ids::Xid,
    wal::error::{PayloadError, damaged},
};

/// A page of zeros was added.
pub const ZEROPAGE: u8 = 0x00;
/// Old segments were removed.
pub const TRUNCATE: u8 = 0x10;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        ZEROPAGE => "ZEROPAGE",
        TRUNCATE => "TRUNCATE",
        _ => "UNKNOWN",
    }
}

/// Decodes the payload of [`ZEROPAGE`]: the page's number, 64 bits.
pub fn decode_zero_page(main: &[u8]) -> Result<i64, PayloadError> {
    array_at(main, 0).map(i64::from_le_bytes).ok_or(damaged("ZEROPAGE"))
}

/// Payload of [`TRUNCATE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitTsTruncate {
    /// The first page that is kept.
    pub page: i64,
    /// The oldest transaction that is kept.
    pub oldest_xid: Xid,
}

impl CommitTsTruncate {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 12] {
        let mut out = [0; 12];
        put(&mut out, 0, self.page.to_le_bytes());
        put(&mut out, 8, self.oldest_xid.to_le_bytes());
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read =
            |cursor: &mut Cursor<'_>| Some(Self { page: cursor.i64()?, oldest_xid: cursor.u32()? });
        read(&mut cursor).ok_or(damaged("TRUNCATE"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        assert_eq!(decode_zero_page(&3_i64.to_le_bytes()), Ok(3));
        assert!(decode_zero_page(&[0; 7]).is_err());
        let truncate = CommitTsTruncate { page: 1, oldest_xid: 32_768 };
        assert_eq!(CommitTsTruncate::decode(&truncate.encode()), Ok(truncate));
        assert!(CommitTsTruncate::decode(&[0; 11]).is_err());
    }
}
