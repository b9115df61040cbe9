//! `pg_logical/replorigin_checkpoint`: how far the changes of each replication origin had been
//! applied at the last checkpoint.
//!
//! ```text
//!   0       4                                              4 + 16 n   8 + 16 n
//!   +-------+----------------------------------------------+----------+
//!   | magic | origin u16, 6 bytes, position u64; n times   | CRC-32C  |
//!   +-------+----------------------------------------------+----------+
//! ```

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use crate::{bytes::Cursor, crc, lsn::Lsn};

/// The file, below the data directory.
pub const PATH: &str = "pg_logical/replorigin_checkpoint";

const MAGIC: u32 = 0x1257_dade;
const ENTRY_SIZE: usize = 16;
/// No origin, and the one that is not kept track of.
const NO_ORIGINS: [u16; 2] = [0, u16::MAX];

/// Why the file's contents are not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginsError {
    /// It is no such file.
    #[error("replication checkpoint has wrong magic {0} instead of {MAGIC}")]
    Magic(u32),
    /// It is cut off.
    #[error("replication checkpoint has an impossible length of {0} bytes")]
    Length(usize),
    /// The checksum is wrong.
    #[error("replication slot checkpoint has wrong checksum {computed}, expected {stored}")]
    Checksum {
        /// That of the contents.
        computed: u32,
        /// The stored one.
        stored: u32,
    },
}

/// Positions of replication origins in the logs of their servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origins(BTreeMap<u16, Lsn>);

impl Origins {
    /// Decodes the file's contents.
    pub fn decode(bytes: &[u8]) -> Result<Self, OriginsError> {
        let length = OriginsError::Length(bytes.len());
        let (contents, stored) = bytes.split_last_chunk().ok_or(length.clone())?;
        let mut cursor = Cursor::new(contents);
        let magic = cursor.u32().ok_or(length.clone())?;
        if magic != MAGIC {
            return Err(OriginsError::Magic(magic));
        }
        let (entries, rest) = cursor.rest().as_chunks::<ENTRY_SIZE>();
        if !rest.is_empty() {
            return Err(length);
        }
        let (computed, stored) = (crc::crc32c(contents), u32::from_le_bytes(*stored));
        if computed != stored {
            return Err(OriginsError::Checksum { computed, stored });
        }
        let entry = |[low, high, _, _, _, _, _, _, lsn @ ..]: [u8; ENTRY_SIZE]| {
            (u16::from_le_bytes([low, high]), Lsn(u64::from_le_bytes(lsn)))
        };
        Ok(Self(entries.iter().map(|&bytes| entry(bytes)).collect()))
    }

    /// Encodes the file's contents.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_le_bytes().to_vec();
        for (origin, lsn) in &self.0 {
            out.extend_from_slice(&u64::from(*origin).to_le_bytes());
            out.extend_from_slice(&lsn.0.to_le_bytes());
        }
        out.extend_from_slice(&crc::crc32c(&out).to_le_bytes());
        out
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that the changes of an origin were applied up to a position, which only `backward` may
    /// be before the present one.
    pub fn advance(&mut self, origin: u16, to: Lsn, backward: bool) {
        if !NO_ORIGINS.contains(&origin) {
            let present = self.0.entry(origin).or_default();
            *present = if backward { to } else { to.max(*present) };
        }
    }

    /// Forgets an origin.
    pub fn forget(&mut self, origin: u16) {
        self.0.remove(&origin);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn positions_go_forward_unless_told() {
        let mut origins = Origins::default();
        origins.advance(7, Lsn(20), false);
        origins.advance(7, Lsn(10), false);
        origins.advance(u16::MAX, Lsn(10), false);
        origins.advance(3, Lsn(9), true);
        assert_eq!(origins, Origins([(3, Lsn(9)), (7, Lsn(20))].into()));
        origins.advance(7, Lsn(1), true);
        origins.forget(3);
        assert_eq!(origins, Origins([(7, Lsn(1))].into()));
    }

    #[test]
    fn layout_and_damage() {
        let origins = Origins([(0x0102, Lsn(5)), (0x0201, Lsn(u64::MAX))].into());
        let bytes = origins.encode();
        assert_eq!(bytes[..14], [0xde, 0xda, 0x57, 0x12, 2, 1, 0, 0, 0, 0, 0, 0, 5, 0]);
        assert_eq!((bytes.len(), Origins::decode(&bytes)), (40, Ok(origins)));
        for len in 0..bytes.len() {
            assert!(Origins::decode(&bytes[..len]).is_err());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Origins::decode(&damaged).is_err());
        }
        assert_eq!(Origins::decode(&Origins::default().encode()), Ok(Origins::default()));
    }
}
