//! Records about `pg_filenode.map` files: they are written whole.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::Cursor,
    relmap::RelMap,
    wal::database::DatabasePlace,
    wal::error::{PayloadError, damaged},
};

/// A map was written.
pub const UPDATE: u8 = 0x00;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        UPDATE => "UPDATE",
        _ => "UNKNOWN",
    }
}

/// Payload of [`UPDATE`]: database and tablespace (4 bytes each), length (4 bytes), the file's
/// bytes. The database of the shared catalogs' map is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapUpdate {
    /// Where the map is.
    pub of: DatabasePlace,
    /// What it holds.
    pub map: RelMap,
}

impl MapUpdate {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = self.map.encode();
        let words = [self.of.db, self.of.spc, bytes.len() as u32].map(u32::to_le_bytes);
        [words.as_flattened(), &bytes].concat()
    }

    /// Decodes it. The map's own checksum must be right.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let mut read = || {
            let of = DatabasePlace { db: cursor.u32()?, spc: cursor.u32()? };
            let len = cursor.count()?;
            let map = RelMap::decode(main.get(12..).filter(|bytes| bytes.len() == len)?).ok()?;
            Some(Self { of, map })
        };
        read().ok_or(damaged("UPDATE"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let mut map = RelMap::new();
        map.set(1259, 1259).unwrap();
        let update = MapUpdate { of: DatabasePlace { db: 5, spc: 1663 }, map };
        let mut bytes = update.encode();
        assert_eq!(bytes.len(), 12 + 524);
        assert_eq!(MapUpdate::decode(&bytes), Ok(update));
        assert!(MapUpdate::decode(&bytes[..bytes.len() - 1]).is_err());
        bytes[20] ^= 1;
        assert!(MapUpdate::decode(&bytes).is_err());
    }
}
