//! Records about databases: their directories are made, copied and removed.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    ids::Oid,
    wal::error::{PayloadError, damaged},
};

/// The files of a database were copied.
pub const CREATE_FILE_COPY: u8 = 0x00;
/// An empty directory was made; records of pages fill it.
pub const CREATE_WAL_LOG: u8 = 0x10;
/// The directories of a database were removed.
pub const DROP: u8 = 0x20;

/// Name of a record's kind.
pub const fn name(kind: u8) -> &'static str {
    match kind {
        CREATE_FILE_COPY => "CREATE_FILE_COPY",
        CREATE_WAL_LOG => "CREATE_WAL_LOG",
        DROP => "DROP",
        _ => "UNKNOWN",
    }
}

/// A database in one tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatabasePlace {
    /// The database.
    pub db: Oid,
    /// The tablespace.
    pub spc: Oid,
}

impl DatabasePlace {
    /// Its directory, relative to the data directory.
    pub fn path(&self) -> String {
        crate::database_path(self.spc, self.db)
    }
}

/// Payload of [`CREATE_FILE_COPY`]: database and tablespace of the copy, then those of the source
/// (4 bytes each).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileCopy {
    /// Where the copy is.
    pub to: DatabasePlace,
    /// What was copied.
    pub from: DatabasePlace,
}

impl FileCopy {
    /// Encodes it.
    pub fn encode(&self) -> [u8; 16] {
        let mut out = [0; 16];
        for (n, oid) in [self.to.db, self.to.spc, self.from.db, self.from.spc].iter().enumerate() {
            put(&mut out, n * 4, oid.to_le_bytes());
        }
        out
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let mut place = || Some(DatabasePlace { db: cursor.u32()?, spc: cursor.u32()? });
        let mut read = || Some(Self { to: place()?, from: place()? });
        read().ok_or(damaged("CREATE_FILE_COPY"))
    }
}

/// Encodes a payload of [`CREATE_WAL_LOG`]: database and tablespace (4 bytes each).
pub fn encode_wal_log(place: DatabasePlace) -> [u8; 8] {
    let mut out = [0; 8];
    put(&mut out, 0, place.db.to_le_bytes());
    put(&mut out, 4, place.spc.to_le_bytes());
    out
}

/// Decodes a payload of [`CREATE_WAL_LOG`].
pub fn decode_wal_log(main: &[u8]) -> Result<DatabasePlace, PayloadError> {
    let mut cursor = Cursor::new(main);
    let mut read = || Some(DatabasePlace { db: cursor.u32()?, spc: cursor.u32()? });
    read().ok_or(damaged("CREATE_WAL_LOG"))
}

/// Payload of [`DROP`]: database, number of tablespaces, tablespaces (4 bytes each).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseDrop {
    /// The database.
    pub db: Oid,
    /// The tablespaces in which it had a directory.
    pub tablespaces: Vec<Oid>,
}

impl DatabaseDrop {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let words = [self.db, self.tablespaces.len() as u32];
        let words = words.iter().chain(&self.tablespaces);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Decodes it.
    pub fn decode(main: &[u8]) -> Result<Self, PayloadError> {
        let mut cursor = Cursor::new(main);
        let mut read = || {
            let (db, count) = (cursor.u32()?, cursor.count()?);
            if count > main.len() / 4 {
                return None;
            }
            let tablespaces = (0..count).map(|_| cursor.u32()).collect::<Option<_>>()?;
            Some(Self { db, tablespaces })
        };
        read().ok_or(damaged("DROP"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let (to, from) = (DatabasePlace { db: 1, spc: 2 }, DatabasePlace { db: 3, spc: 4 });
        let copy = FileCopy { to, from };
        assert_eq!(copy.encode(), [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(FileCopy::decode(&copy.encode()), Ok(copy));
        assert!(FileCopy::decode(&copy.encode()[..15]).is_err());
        assert_eq!(decode_wal_log(&encode_wal_log(to)), Ok(to));
        assert!(decode_wal_log(&[0; 7]).is_err());
        let drop = DatabaseDrop { db: 7, tablespaces: vec![1663, 9] };
        let bytes = drop.encode();
        assert_eq!(bytes, [7, 0, 0, 0, 2, 0, 0, 0, 0x7f, 6, 0, 0, 9, 0, 0, 0]);
        assert_eq!(DatabaseDrop::decode(&bytes), Ok(drop));
        for len in 0..bytes.len() {
            assert!(DatabaseDrop::decode(&bytes[..len]).is_err(), "{len}");
        }
        assert!(DatabaseDrop::decode(&[7, 0, 0, 0, 255, 255, 255, 127]).is_err());
    }
}
