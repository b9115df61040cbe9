//! Records about replication origins: how far the changes of another server have been applied.
//! Commit records have that, too.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, array_at},
    lsn::Lsn,
    wal::error::{PayloadError, damaged},
};

/// An origin's position was set.
pub const SET: u8 = 0x00;
/// An origin was dropped.
pub const DROP: u8 = 0x10;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        SET => "SET",
        DROP => "DROP",
        _ => "UNKNOWN",
    }
}

/// Payload of [`SET`]: position, origin, flag, padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OriginSet {
    /// Position in the other server's log.
    pub remote: Lsn,
    /// The origin.
    pub origin: u16,
    /// Whether the position may go back.
    pub backward: bool,
}

impl OriginSet {
    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let read = |cursor: &mut Cursor<'_>| {
            let remote = Lsn(cursor.u64()?);
            Some(Self { remote, origin: cursor.u16()?, backward: cursor.u8()? != 0 })
        };
        read(&mut cursor).ok_or(damaged("SET"))
    }
}

/// Decodes the payload of [`DROP`]: the origin.
pub fn decode_drop(main: &[u8]) -> Result<u16, PayloadError> {
    array_at(main, 0).map(u16::from_le_bytes).ok_or(damaged("DROP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let main = [5, 0, 0, 0, 1, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0, 0];
        let set = OriginSet { remote: Lsn(0x1_0000_0005), origin: 7, backward: true };
        assert_eq!(OriginSet::decode(&main), Ok(set));
        assert!(OriginSet::decode(&[0; 10]).is_err());
        assert_eq!((decode_drop(&[7, 0]), decode_drop(&[7]).is_err()), (Ok(7), true));
    }
}
