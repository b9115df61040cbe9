//! Records about tablespaces: their links are made and removed.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    ids::Oid,
    wal::error::{PayloadError, damaged},
};

/// A tablespace was made.
pub const CREATE: u8 = 0x00;
/// A tablespace was removed.
pub const DROP: u8 = 0x10;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        CREATE => "CREATE",
        DROP => "DROP",
        _ => "UNKNOWN",
    }
}

/// Payload of [`CREATE`]: tablespace (4 bytes), its location, ended by a zero byte. A tablespace
/// within the data directory has an empty location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablespaceCreate {
    /// The tablespace.
    pub oid: Oid,
    /// Its directory.
    pub location: String,
}

impl TablespaceCreate {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        [&self.oid.to_le_bytes(), self.location.as_bytes(), &[0]].concat()
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let read = || {
            let (oid, rest) = main.split_first_chunk::<4>()?;
            let location = rest.split(|byte| *byte == 0).next().filter(|l| l.len() < rest.len())?;
            let location = std::str::from_utf8(location).ok()?.to_owned();
            Some(Self { oid: u32::from_le_bytes(*oid), location })
        };
        read().ok_or(damaged("CREATE"))
    }
}

/// Encodes a payload of [`DROP`]: the tablespace.
pub fn encode_drop(oid: Oid) -> [u8; 4] {
    oid.to_le_bytes()
}

/// Decodes a payload of [`DROP`].
pub fn decode_drop(main: &[u8]) -> Result<Oid, PayloadError> {
    Cursor::new(main).u32().ok_or(damaged("DROP"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let create = TablespaceCreate { oid: 9, location: "/a".to_owned() };
        assert_eq!(create.encode(), [9, 0, 0, 0, b'/', b'a', 0]);
        assert_eq!(TablespaceCreate::decode(&create.encode()), Ok(create));
        let in_place = TablespaceCreate { oid: 9, location: String::new() };
        assert_eq!(TablespaceCreate::decode(&in_place.encode()), Ok(in_place));
        assert!(TablespaceCreate::decode(&[9, 0, 0, 0, b'/']).is_err());
        assert!(TablespaceCreate::decode(&[9, 0, 0]).is_err());
        assert_eq!(decode_drop(&encode_drop(9)), Ok(9));
        assert!(decode_drop(&[9]).is_err());
    }
}
