//! Resource managers, which redo records, and the info bits by which each distinguishes its
//! records.

use std::fmt;

/// A resource manager's number, as records store it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rmgr(pub u8);

/// Names in order of their numbers.
const NAMES: [&str; 22] = [
    "XLOG",
    "Transaction",
    "Storage",
    "CLOG",
    "Database",
    "Tablespace",
    "MultiXact",
    "RelMap",
    "Standby",
    "Heap2",
    "Heap",
    "Btree",
    "Hash",
    "Gin",
    "Gist",
    "Sequence",
    "SPGist",
    "BRIN",
    "CommitTs",
    "ReplicationOrigin",
    "Generic",
    "LogicalMessage",
];

impl Rmgr {
    /// The WAL itself: checkpoints, full-page images, counters.
    pub const XLOG: Self = Self(0);
    /// Commit and abort.
    pub const XACT: Self = Self(1);
    /// Creation and truncation of relation files.
    pub const SMGR: Self = Self(2);
    /// pg_xact.
    pub const CLOG: Self = Self(3);
    /// Databases.
    pub const DBASE: Self = Self(4);
    /// Tablespaces.
    pub const TBLSPC: Self = Self(5);
    /// pg_multixact.
    pub const MULTIXACT: Self = Self(6);
    /// pg_filenode.map.
    pub const RELMAP: Self = Self(7);
    /// Records for standbys.
    pub const STANDBY: Self = Self(8);
    /// Heap, the second sixteen kinds.
    pub const HEAP2: Self = Self(9);
    /// Heap.
    pub const HEAP: Self = Self(10);
    /// nbtree.
    pub const BTREE: Self = Self(11);
    /// Hash indexes.
    pub const HASH: Self = Self(12);
    /// GIN indexes.
    pub const GIN: Self = Self(13);
    /// GiST indexes.
    pub const GIST: Self = Self(14);
    /// Sequences.
    pub const SEQ: Self = Self(15);
    /// SP-GiST indexes.
    pub const SPGIST: Self = Self(16);
    /// BRIN indexes.
    pub const BRIN: Self = Self(17);
    /// pg_commit_ts.
    pub const COMMIT_TS: Self = Self(18);
    /// Replication origins.
    pub const ORIGIN: Self = Self(19);
    /// Generic page changes.
    pub const GENERIC: Self = Self(20);
    /// Messages to logical decoding.
    pub const LOGICAL_MESSAGE: Self = Self(21);

    /// Its name as `pg_waldump` prints it; `None` for one that is not built in.
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(usize::from(self.0)).copied()
    }

    /// Whether a record may have this number: it is built in, or in the range for extensions.
    pub fn is_valid(self) -> bool {
        usize::from(self.0) < NAMES.len() || self.0 >= 128
    }
}

impl fmt::Display for Rmgr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "resource manager {}", self.0),
        }
    }
}

/// The bits of `info` that belong to the resource manager.
pub const INFO_RMGR_MASK: u8 = 0xf0;
/// Info flag: the record changes relation files beyond its block references.
pub const INFO_SPECIAL_REL_UPDATE: u8 = 1;
/// Info flag: images serve to check redo.
pub const INFO_CHECK_CONSISTENCY: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Rmgr::HEAP.to_string(), "Heap");
        assert_eq!(Rmgr::GENERIC.to_string(), "Generic");
        assert_eq!(Rmgr::SEQ.to_string(), "Sequence");
        assert_eq!(Rmgr(200).to_string(), "resource manager 200");
        assert!(Rmgr(21).is_valid() && !Rmgr(22).is_valid() && Rmgr(128).is_valid());
    }
}
