//! Cache invalidations: what commits, in-place updates and standby records tell about catalogs that
//! changed.
//!
//! ```text
//!   0     1        4         8                16
//!   +-----+--------+---------+----------------+
//!   | id  | pad    | db      | hash, relation |   all but files
//!   | id  | backend| locator: 12 bytes        |   files; the backend has 24 bits, high byte first
//!   +-----+--------+---------+----------------+
//! ```
//!
//! An id of 0 or more is the number of a catalog cache. PostgreSQL does not clear the padding.

#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::{
    bytes::{Cursor, put},
    ids::{Oid, RelFileLocator},
};

const CATALOG: i8 = -1;
const RELATION: i8 = -2;
const FILES: i8 = -3;
const RELATION_MAP: i8 = -4;
const SNAPSHOT: i8 = -5;
const RELATION_SYNC: i8 = -6;

/// What is out of date. A database of 0 stands for the shared catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Invalidation {
    /// The entries of a catalog cache with a hash value.
    Entry {
        /// The cache's number, 0 to 127.
        cache: i8,
        /// Database.
        db: Oid,
        /// Hash value of the entry's key.
        hash: u32,
    },
    /// All entries of caches over a catalog.
    Catalog {
        /// Database.
        db: Oid,
        /// The catalog.
        catalog: Oid,
    },
    /// A relation's entry; all relations' if it is 0.
    Relation {
        /// Database.
        db: Oid,
        /// The relation.
        rel: Oid,
    },
    /// What is known of a relation's files.
    Files {
        /// The session that owns them, -1 if they are not temporary.
        backend: i32,
        /// The files.
        rel: RelFileLocator,
    },
    /// `pg_filenode.map`.
    RelationMap {
        /// Database.
        db: Oid,
    },
    /// Snapshots of a catalog.
    Snapshot {
        /// Database.
        db: Oid,
        /// The catalog.
        rel: Oid,
    },
    /// What logical replication knows of a relation; of all if it is 0.
    RelationSync {
        /// Database.
        db: Oid,
        /// The relation.
        rel: Oid,
    },
}

impl Invalidation {
    /// Bytes of its stored form.
    pub const SIZE: usize = 16;

    /// Encodes it; padding is zero.
    ///
    /// # Panics
    /// If a cache's number is negative.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let (id, db, last) = match *self {
            Self::Entry { cache, db, hash } => {
                assert!(cache >= 0, "cache {cache}");
                (cache, db, hash)
            }
            Self::Catalog { db, catalog } => (CATALOG, db, catalog),
            Self::Relation { db, rel } => (RELATION, db, rel),
            Self::Files { backend, rel } => return Self::encode_files(backend, rel),
            Self::RelationMap { db } => (RELATION_MAP, db, 0),
            Self::Snapshot { db, rel } => (SNAPSHOT, db, rel),
            Self::RelationSync { db, rel } => (RELATION_SYNC, db, rel),
        };
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, id.to_le_bytes());
        put(&mut out, 4, db.to_le_bytes());
        put(&mut out, 8, last.to_le_bytes());
        out
    }

    fn encode_files(backend: i32, rel: RelFileLocator) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        put(&mut out, 0, FILES.to_le_bytes());
        put(&mut out, 1, ((backend >> 16) as u8).to_le_bytes());
        put(&mut out, 2, (backend as u16).to_le_bytes());
        put(&mut out, 4, rel.encode());
        out
    }

    /// Decodes it; `None` for an id that does not exist.
    pub fn decode(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let mut cursor = Cursor::new(&bytes);
        let [id, high] = cursor.array()?.map(|byte: u8| byte as i8);
        let low = cursor.u16()?;
        if id == FILES {
            let backend = i32::from(high) << 16 | i32::from(low);
            return Some(Self::Files { backend, rel: RelFileLocator::decode(cursor.array()?) });
        }
        let (db, last) = (cursor.u32()?, cursor.u32()?);
        Some(match id {
            0.. => Self::Entry { cache: id, db, hash: last },
            CATALOG => Self::Catalog { db, catalog: last },
            RELATION => Self::Relation { db, rel: last },
            RELATION_MAP => Self::RelationMap { db },
            SNAPSHOT => Self::Snapshot { db, rel: last },
            RELATION_SYNC => Self::RelationSync { db, rel: last },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let rel = RelFileLocator { spc: 1, db: 2, rel: 3 };
        let all = [
            Invalidation::Entry { cache: 57, db: 5, hash: 0xdead_beef },
            Invalidation::Catalog { db: 5, catalog: 1259 },
            Invalidation::Relation { db: 5, rel: 16_384 },
            Invalidation::Files { backend: -1, rel },
            Invalidation::Files { backend: 70_000, rel },
            Invalidation::RelationMap { db: 0 },
            Invalidation::Snapshot { db: 5, rel: 1259 },
            Invalidation::RelationSync { db: 5, rel: 0 },
        ];
        for message in all {
            assert_eq!(Invalidation::decode(message.encode()), Some(message));
        }
        let mut unknown = [0; 16];
        unknown[0] = 0xf9;
        assert_eq!(Invalidation::decode(unknown), None);
    }
}
