//! `pg_filenode.map`: the files of the catalogs whose file number is not in `pg_class`, because
//! reading `pg_class` needs them.
//!
//! ```text
//!   0       4       8                                    520   524
//!   +-------+-------+------------------------------------+-----+
//!   | magic | count | 64 pairs: catalog's OID, its file   | crc |
//!   +-------+-------+------------------------------------+-----+
//! ```
//!
//! PostgreSQL 15 has space for 62 pairs, and four bytes behind the crc.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put, u32_at},
    crc,
    ids::Oid,
};

/// Bytes of the file.
pub const FILE_SIZE: usize = 524;
/// Name of the file, in `global` and in each database's directory.
pub const FILE_NAME: &str = "pg_filenode.map";
/// Most pairs it can hold.
pub const MAX_MAPPINGS: usize = 64;

const MAGIC: u32 = 0x0059_2717;
const PAIRS_AT: usize = 8;
const CRC_AT: usize = PAIRS_AT + MAX_MAPPINGS * 8;

const _: () = assert!(CRC_AT + 4 == FILE_SIZE);

/// Bytes of the file in PostgreSQL 15, and most pairs it can hold.
const OLD_FILE_SIZE: usize = 512;
const OLD_MAX_MAPPINGS: usize = 62;

/// Contents of a relation map, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RelMap {
    mappings: Vec<(Oid, Oid)>,
}

/// Why a relation map cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelMapError {
    /// The file has another length.
    #[error("relation mapping file has {0} bytes")]
    BadLength(usize),
    /// The magic number is wrong, or the count impossible.
    #[error("relation mapping file contains invalid data")]
    Invalid,
    /// The checksum differs.
    #[error("relation mapping file contains incorrect checksum")]
    BadCrc,
    /// There is no space for another pair.
    #[error("relation mapping file is full")]
    Full,
}

impl RelMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The file number of a catalog.
    pub fn get(&self, oid: Oid) -> Option<Oid> {
        self.mappings.iter().find(|(mapped, _)| *mapped == oid).map(|&(_, file)| file)
    }

    /// Sets the file number of a catalog.
    pub fn set(&mut self, oid: Oid, file: Oid) -> Result<(), RelMapError> {
        let full = self.mappings.len() == MAX_MAPPINGS;
        match self.mappings.iter_mut().find(|(mapped, _)| *mapped == oid) {
            Some(pair) => pair.1 = file,
            None if full => return Err(RelMapError::Full),
            None => self.mappings.push((oid, file)),
        }
        Ok(())
    }

    /// All pairs of catalog and file number.
    pub fn mappings(&self) -> &[(Oid, Oid)] {
        &self.mappings
    }

    /// Encodes the file.
    pub fn encode(&self) -> [u8; FILE_SIZE] {
        let mut out = [0; FILE_SIZE];
        put(&mut out, 0, MAGIC.to_le_bytes());
        put(&mut out, 4, (self.mappings.len() as u32).to_le_bytes());
        for (n, (oid, file)) in self.mappings.iter().enumerate() {
            put(&mut out, PAIRS_AT + n * 8, oid.to_le_bytes());
            put(&mut out, PAIRS_AT + n * 8 + 4, file.to_le_bytes());
        }
        let crc = crc::crc32c(out.get(..CRC_AT).unwrap_or(&[]));
        put(&mut out, CRC_AT, crc.to_le_bytes());
        out
    }

    /// Decodes the file.
    pub fn decode(bytes: &[u8]) -> Result<Self, RelMapError> {
        Self::decode_sized(bytes, FILE_SIZE, MAX_MAPPINGS)
    }

    /// Decodes a file of a major version.
    pub fn decode_of_version(bytes: &[u8], major: u32) -> Result<Self, RelMapError> {
        match major {
            ..=15 => Self::decode_sized(bytes, OLD_FILE_SIZE, OLD_MAX_MAPPINGS),
            _ => Self::decode(bytes),
        }
    }

    fn decode_sized(bytes: &[u8], size: usize, most: usize) -> Result<Self, RelMapError> {
        if bytes.len() != size {
            return Err(RelMapError::BadLength(bytes.len()));
        }
        let mut cursor = Cursor::new(bytes);
        let (magic, count) = (cursor.u32(), cursor.count());
        let count = count
            .filter(|&count| magic == Some(MAGIC) && count <= most)
            .ok_or(RelMapError::Invalid)?;
        let crc_at = PAIRS_AT + most * 8;
        if u32_at(bytes, crc_at) != bytes.get(..crc_at).map(crc::crc32c) {
            return Err(RelMapError::BadCrc);
        }
        let pairs = (0..count).map(|_| Some((cursor.u32()?, cursor.u32()?)));
        Ok(Self { mappings: pairs.collect::<Option<_>>().ok_or(RelMapError::Invalid)? })
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
        map.set(1249, 16_400).unwrap();
        map.set(1259, 16_401).unwrap();
        assert_eq!((map.get(1259), map.get(1249), map.get(1)), (Some(16_401), Some(16_400), None));
        assert_eq!(RelMap::decode(&map.encode()), Ok(map));
    }

    #[test]
    fn postgresql_15_has_a_shorter_file() {
        let mut map = RelMap::new();
        map.set(1259, 16_400).unwrap();
        let mut bytes = map.encode()[..OLD_FILE_SIZE].to_vec();
        let crc = crc::crc32c(&bytes[..504]);
        bytes[504..508].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(RelMap::decode_of_version(&bytes, 15), Ok(map.clone()));
        assert_eq!(RelMap::decode_of_version(&bytes, 16), Err(RelMapError::BadLength(512)));
        assert_eq!(RelMap::decode_of_version(&map.encode(), 18), Ok(map));
    }

    #[test]
    fn it_holds_64_pairs() {
        let mut map = RelMap::new();
        (0..64).for_each(|oid| map.set(oid, oid).unwrap());
        assert_eq!(map.set(64, 64), Err(RelMapError::Full));
        assert_eq!(RelMap::decode(&map.encode()), Ok(map));
    }

    #[test]
    fn damage_is_found() {
        let good = RelMap::new().encode();
        for at in 0..FILE_SIZE {
            let mut bad = good;
            bad[at] ^= 0x80;
            assert!(RelMap::decode(&bad).is_err(), "byte {at}");
        }
        assert_eq!(RelMap::decode(&good[..523]), Err(RelMapError::BadLength(523)));
    }
}
