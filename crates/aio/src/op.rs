//! [`OpKind`] and [`Target`]: what an I/O does and what it is for, as errors and views name them.

use std::fmt;

use crate::sync::Arc;

named_enum! {
    /// The kind of an operation.
    #[derive(Default)]
    OpKind {
        /// Not defined yet.
        #[default]
        Invalid = "invalid",
        /// Gathered read.
        Readv = "readv",
        /// Gathered write.
        Writev = "writev",
        /// Sync of data and metadata.
        Fsync = "fsync",
        /// Sync of data.
        Fdatasync = "fdatasync",
        /// Start of the write-out of a range.
        SyncFileRange = "sync_file_range",
        /// Allocation of a range.
        Allocate = "fallocate",
    }
}

impl OpKind {
    /// Whether it moves bytes between a file and memory. Only transfers can be done in part.
    pub fn is_transfer(self) -> bool {
        matches!(self, OpKind::Readv | OpKind::Writev)
    }

    /// Whether it makes data durable. A failed sync is final.
    pub fn is_sync(self) -> bool {
        matches!(self, OpKind::Fsync | OpKind::Fdatasync)
    }

    /// Whether it concerns a range of the file and not the whole file.
    pub fn has_range(self) -> bool {
        self.is_transfer() || matches!(self, OpKind::SyncFileRange | OpKind::Allocate)
    }

    /// For messages: "could not VERB".
    pub fn verb(self) -> &'static str {
        match self {
            OpKind::Invalid => "do I/O on",
            OpKind::Readv => "read",
            OpKind::Writev => "write",
            OpKind::Fsync => "fsync",
            OpKind::Fdatasync => "fdatasync",
            OpKind::SyncFileRange => "flush",
            OpKind::Allocate => "allocate space for",
        }
    }

    /// For messages: "PAST only 17 of 8192 bytes".
    pub fn past(self) -> &'static str {
        match self {
            OpKind::Writev => "wrote",
            _ => "read",
        }
    }
}

/// What an I/O is about, for messages and pg_aios.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Target {
    /// A file.
    #[default]
    File,
    /// Blocks of a relation: "block 7 of base/5/16384", "blocks 7..22 of ...".
    Smgr {
        /// Tablespace.
        spc: u32,
        /// Database.
        db: u32,
        /// File number.
        rel: u32,
        /// Suffix of the fork: "", "_fsm", "_vm", "_init".
        fork: &'static str,
        /// First block.
        block: u32,
        /// Blocks.
        count: u32,
        /// A backend's own temporary relation.
        temp: bool,
    },
    /// WAL: "WAL 0/1000000..0/1002000".
    Wal {
        /// First byte's position.
        start: u64,
        /// Position after the last byte.
        end: u64,
    },
    /// A description of the caller's.
    Other(Arc<str>),
}

const DEFAULT_TABLESPACE: u32 = 1663;
const GLOBAL_TABLESPACE: u32 = 1664;

impl Target {
    /// The name pg_aios shows in its column target.
    pub fn name(&self) -> &'static str {
        match self {
            Target::Smgr { .. } => "smgr",
            Target::Wal { .. } => "wal",
            Target::File | Target::Other(_) => "file",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::File => f.write_str("file"),
            Target::Smgr { spc, db, rel, fork, block, count, .. } => {
                if *count > 1 {
                    write!(f, "blocks {block}..{} in file \"", block.wrapping_add(count - 1))?;
                } else {
                    write!(f, "block {block} in file \"")?;
                }
                match *spc {
                    DEFAULT_TABLESPACE => write!(f, "base/{db}/{rel}{fork}\""),
                    GLOBAL_TABLESPACE => write!(f, "global/{rel}{fork}\""),
                    spc => write!(f, "pg_tblspc/{spc}/PG_18_202506291/{db}/{rel}{fork}\""),
                }
            }
            Target::Wal { start, end } => {
                write!(
                    f,
                    "WAL {:X}/{:X}..{:X}/{:X}",
                    start >> 32,
                    *start as u32,
                    end >> 32,
                    *end as u32
                )
            }
            Target::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}
