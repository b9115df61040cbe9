//! Identifiers of objects, transactions, blocks, items and relation files.

use std::fmt;

/// Object identifier.
pub type Oid = u32;
/// Transaction id, 32 bits, wrapping; see [`xid_precedes`].
pub type Xid = u32;
/// Number of a command within its transaction.
pub type CommandId = u32;
/// Block number within a relation fork, counted across segment files.
pub type BlockNumber = u32;
/// Number of a line pointer on a page; the first is 1.
pub type OffsetNumber = u16;
/// Timeline of the WAL.
pub type TimelineId = u32;

/// Size of a data page.
pub const BLOCK_SIZE: usize = 8192;
/// Blocks in one segment file of a relation (1 GB).
pub const RELSEG_BLOCKS: u32 = 131_072;

/// No object.
pub const INVALID_OID: Oid = 0;
/// First OID handed to user objects.
pub const FIRST_NORMAL_OID: Oid = 16_384;

/// The first OID of objects that initdb's scripts make. Those below are pinned: everything may
/// depend on them.
pub const FIRST_UNPINNED_OID: Oid = 12_000;
/// No transaction.
pub const INVALID_XID: Xid = 0;
/// The transaction of initdb's bootstrap, which is always committed.
pub const BOOTSTRAP_XID: Xid = 1;
/// The id of frozen tuples, older than all others.
pub const FROZEN_XID: Xid = 2;
/// The first ordinary transaction id, also after a wrap.
pub const FIRST_NORMAL_XID: Xid = 3;
/// No command.
pub const INVALID_COMMAND_ID: CommandId = u32::MAX;
/// No block.
pub const INVALID_BLOCK: BlockNumber = u32::MAX;
/// No item.
pub const INVALID_OFFSET: OffsetNumber = 0;
/// The default tablespace (`base/`).
pub const DEFAULT_TABLESPACE: Oid = 1663;
/// Tablespace of the shared catalogs (`global/`).
pub const GLOBAL_TABLESPACE: Oid = 1664;
/// Directory of PostgreSQL 18's relations inside a tablespace.
pub const TABLESPACE_VERSION_DIR: &str = "PG_18_202506291";

/// Whether this is a normal transaction id, which wraps around.
pub const fn xid_is_normal(xid: Xid) -> bool {
    xid >= FIRST_NORMAL_XID
}

/// Whether `a` is older than `b`. Normal ids compare modulo 2^32; special ids are older than all
/// normal ones.
pub const fn xid_precedes(a: Xid, b: Xid) -> bool {
    if !xid_is_normal(a) || !xid_is_normal(b) { a < b } else { (a.wrapping_sub(b) as i32) < 0 }
}

/// The id that is assigned after `xid`.
pub const fn xid_next(xid: Xid) -> Xid {
    let next = xid.wrapping_add(1);
    if next < FIRST_NORMAL_XID { FIRST_NORMAL_XID } else { next }
}

/// The id that was assigned before `xid`.
pub const fn xid_previous(xid: Xid) -> Xid {
    let previous = xid.wrapping_sub(1);
    if previous < FIRST_NORMAL_XID { u32::MAX } else { previous }
}

/// A transaction id with its epoch, which never wraps around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FullXid(pub u64);

impl FullXid {
    /// Combines an epoch and an id.
    pub const fn new(epoch: u32, xid: Xid) -> Self {
        Self((epoch as u64) << 32 | xid as u64)
    }

    /// How often the id has wrapped around.
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The id without the epoch.
    pub const fn xid(self) -> Xid {
        self.0 as u32
    }

    /// The id that is assigned next; skips the special ids.
    pub const fn next(self) -> Self {
        let next = self.0 + 1;
        if (next as u32) < FIRST_NORMAL_XID {
            Self(next - (next as u32) as u64 + FIRST_NORMAL_XID as u64)
        } else {
            Self(next)
        }
    }
}

impl fmt::Display for FullXid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.epoch(), self.xid())
    }
}

/// Fork of a relation; each has files of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Fork {
    /// The data.
    Main = 0,
    /// The free-space map.
    Fsm = 1,
    /// The visibility map.
    Vm = 2,
    /// The initial contents of an unlogged relation.
    Init = 3,
}

impl Fork {
    /// All forks, in order of their numbers.
    pub const ALL: [Self; 4] = [Self::Main, Self::Fsm, Self::Vm, Self::Init];

    /// The fork with a number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Main),
            1 => Some(Self::Fsm),
            2 => Some(Self::Vm),
            3 => Some(Self::Init),
            _ => None,
        }
    }

    /// PostgreSQL's number for it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its name, as in `pg_prewarm`'s argument.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Fsm => "fsm",
            Self::Vm => "vm",
            Self::Init => "init",
        }
    }

    /// The fork with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fork| fork.name() == name)
    }

    /// Suffix of its file name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Fsm => "_fsm",
            Self::Vm => "_vm",
            Self::Init => "_init",
        }
    }
}

/// The directory of a database's files in a tablespace, relative to the data directory.
pub fn database_path(tablespace: Oid, database: Oid) -> String {
    match tablespace {
        GLOBAL_TABLESPACE => "global".to_owned(),
        DEFAULT_TABLESPACE => format!("base/{database}"),
        spc => format!("pg_tblspc/{spc}/{TABLESPACE_VERSION_DIR}/{database}"),
    }
}

/// The physical identity of a relation: tablespace, database, file number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelFileLocator {
    /// Tablespace.
    pub spc: Oid,
    /// Database; 0 for shared relations.
    pub db: Oid,
    /// File number.
    pub rel: Oid,
}

impl RelFileLocator {
    /// Bytes of its stored form: the three numbers, in this order.
    pub const SIZE: usize = 12;

    /// A relation of a database in the default tablespace.
    pub const fn in_default(db: Oid, rel: Oid) -> Self {
        Self { spc: DEFAULT_TABLESPACE, db, rel }
    }

    /// A shared relation.
    pub const fn shared(rel: Oid) -> Self {
        Self { spc: GLOBAL_TABLESPACE, db: INVALID_OID, rel }
    }

    /// The directory of its files, relative to the data directory.
    pub fn directory(&self) -> String {
        database_path(self.spc, self.db)
    }

    /// The path of a fork's first file, relative to the data directory: `base/5/16384_vm`.
    pub fn path(&self, fork: Fork) -> String {
        format!("{}/{}{}", self.directory(), self.rel, fork.suffix())
    }

    /// The path of a fork's segment file: the first has no number, later ones end in `.1`, `.2` and
    /// so on.
    pub fn segment_path(&self, fork: Fork, segment: u32) -> String {
        let path = self.path(fork);
        if segment == 0 { path } else { format!("{path}.{segment}") }
    }

    /// Decodes the stored form.
    pub fn decode(bytes: [u8; Self::SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        Self {
            spc: u32::from_le_bytes([a, b, c, d]),
            db: u32::from_le_bytes([e, f, g, h]),
            rel: u32::from_le_bytes([i, j, k, l]),
        }
    }

    /// Encodes the stored form.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..4].copy_from_slice(&self.spc.to_le_bytes());
        out[4..8].copy_from_slice(&self.db.to_le_bytes());
        out[8..12].copy_from_slice(&self.rel.to_le_bytes());
        out
    }
}

impl fmt::Display for RelFileLocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path(Fork::Main))
    }
}

/// The position of a tuple: block and line pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemPointer {
    /// Block of the relation's main fork.
    pub block: BlockNumber,
    /// Line pointer on it.
    pub offset: OffsetNumber,
}

impl ItemPointer {
    /// Bytes of its stored form: block (high half, low half), offset.
    pub const SIZE: usize = 6;
    /// The invalid pointer.
    pub const INVALID: Self = Self { block: INVALID_BLOCK, offset: INVALID_OFFSET };

    /// A pointer to an item.
    pub const fn new(block: BlockNumber, offset: OffsetNumber) -> Self {
        Self { block, offset }
    }

    /// Decodes the stored form.
    pub fn decode(bytes: [u8; Self::SIZE]) -> Self {
        let [a, b, c, d, e, f] = bytes;
        let (high, low) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        Self { block: u32::from(high) << 16 | u32::from(low), offset: u16::from_le_bytes([e, f]) }
    }

    /// Encodes the stored form.
    pub fn encode(self) -> [u8; Self::SIZE] {
        let ([a, b], [c, d]) =
            (((self.block >> 16) as u16).to_le_bytes(), (self.block as u16).to_le_bytes());
        let [e, f] = self.offset.to_le_bytes();
        [a, b, c, d, e, f]
    }
}

impl fmt::Display for ItemPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({},{})", self.block, self.offset)
    }
}

/// The identity of a page in the buffer pool and in WAL records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageTag {
    /// Relation.
    pub rel: RelFileLocator,
    /// Fork.
    pub fork: Fork,
    /// Block, counted across segments.
    pub block: BlockNumber,
}

impl PageTag {
    /// The tag of a page.
    pub const fn new(rel: RelFileLocator, fork: Fork, block: BlockNumber) -> Self {
        Self { rel, fork, block }
    }

    /// Number of the segment file that holds it.
    pub const fn segment(&self) -> u32 {
        self.block / RELSEG_BLOCKS
    }

    /// Byte offset in that segment file.
    pub const fn segment_offset(&self) -> u64 {
        (self.block % RELSEG_BLOCKS) as u64 * BLOCK_SIZE as u64
    }
}

impl fmt::Display for PageTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {} of {}", self.block, self.rel.path(self.fork))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_compare_modulo_the_circle() {
        assert!(xid_precedes(3, 4));
        assert!(xid_precedes(u32::MAX, 3));
        assert!(!xid_precedes(3, u32::MAX));
        assert!(xid_precedes(FROZEN_XID, 3));
        assert!(xid_precedes(FROZEN_XID, u32::MAX));
        assert_eq!(xid_next(u32::MAX), FIRST_NORMAL_XID);
        assert_eq!(xid_previous(FIRST_NORMAL_XID), u32::MAX);
        assert_eq!(FullXid::new(0, u32::MAX).next(), FullXid::new(1, FIRST_NORMAL_XID));
    }

    #[test]
    fn paths_are_those_of_postgresql() {
        let rel = RelFileLocator::in_default(5, 16_384);
        assert_eq!(rel.to_string(), "base/5/16384");
        assert_eq!(rel.segment_path(Fork::Vm, 2), "base/5/16384_vm.2");
        assert_eq!(RelFileLocator::shared(1262).path(Fork::Main), "global/1262");
        assert_eq!(
            RelFileLocator { spc: 99, db: 5, rel: 7 }.path(Fork::Fsm),
            "pg_tblspc/99/PG_18_202506291/5/7_fsm"
        );
        let tag = PageTag::new(rel, Fork::Main, RELSEG_BLOCKS + 3);
        assert_eq!((tag.segment(), tag.segment_offset()), (1, 3 * 8192));
        assert_eq!(tag.to_string(), "block 131075 of base/5/16384");
    }

    #[test]
    fn stored_forms_round_trip() {
        let tid = ItemPointer::new(0x0001_0002, 3);
        assert_eq!(tid.encode(), [1, 0, 2, 0, 3, 0]);
        assert_eq!(ItemPointer::decode(tid.encode()), tid);
        let rel = RelFileLocator { spc: 1, db: 2, rel: 3 };
        assert_eq!(RelFileLocator::decode(rel.encode()), rel);
    }
}
