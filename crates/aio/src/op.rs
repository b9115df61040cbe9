//! What one asynchronous I/O is.

use std::fmt;

use smallvec::SmallVec;

use crate::completion::{Completion, SharedCompletion};
use crate::file::File;
use crate::memory::IoMemory;
use crate::stats::{IoContext, IoObject, IoOp};
use crate::sync::Arc;

/// An operation with its memory.
#[derive(Clone, Debug)]
pub enum Op {
    /// Read into `memory` from `offset` on.
    Readv {
        /// First byte in the file.
        offset: u64,
        /// Where to.
        memory: IoMemory,
    },
    /// Write `memory` from `offset` on.
    Writev {
        /// First byte in the file.
        offset: u64,
        /// Where from.
        memory: IoMemory,
    },
    /// Make data and metadata durable.
    Fsync,
    /// Make data durable, and the metadata needed to find it.
    Fdatasync,
    /// Let the system begin to write out what it holds of a range. Says nothing about durability: a
    /// sync must follow. EOPNOTSUPP where the system lacks it. A write-out that fails later is told
    /// by the sync, not by this.
    SyncFileRange {
        /// First byte in the file.
        offset: u64,
        /// Bytes; 0: up to the end of the file.
        len: u64,
    },
    /// Allocate the blocks of a range; the file grows to hold it, and what is new reads as zeros.
    /// EOPNOTSUPP where the system or the file system lacks it: who wants the space then writes
    /// zeros.
    Allocate {
        /// First byte in the file.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

impl Op {
    /// Without the memory.
    pub fn kind(&self) -> OpKind {
        match self {
            Op::Readv { .. } => OpKind::Readv,
            Op::Writev { .. } => OpKind::Writev,
            Op::Fsync => OpKind::Fsync,
            Op::Fdatasync => OpKind::Fdatasync,
            Op::SyncFileRange { .. } => OpKind::SyncFileRange,
            Op::Allocate { .. } => OpKind::Allocate,
        }
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpKind {
    /// Not defined yet.
    #[default]
    Invalid,
    /// Gathered read.
    Readv,
    /// Gathered write.
    Writev,
    /// Sync of data and metadata.
    Fsync,
    /// Sync of data.
    Fdatasync,
    /// Start of the write-out of a range.
    SyncFileRange,
    /// Allocation of a range.
    Allocate,
}

impl OpKind {
    /// The name pg_aios shows.
    pub fn name(self) -> &'static str {
        match self {
            OpKind::Invalid => "invalid",
            OpKind::Readv => "readv",
            OpKind::Writev => "writev",
            OpKind::Fsync => "fsync",
            OpKind::Fdatasync => "fdatasync",
            OpKind::SyncFileRange => "sync_file_range",
            OpKind::Allocate => "fallocate",
        }
    }

    /// It moves bytes between a file and memory, and may do so in part.
    pub fn is_transfer(self) -> bool {
        matches!(self, OpKind::Readv | OpKind::Writev)
    }

    /// It makes data durable. One that failed is final.
    pub fn is_sync(self) -> bool {
        matches!(self, OpKind::Fsync | OpKind::Fdatasync)
    }

    /// It is about a range of the file, not the whole.
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
    /// A file as such.
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
    /// Described by its owner.
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

/// Under which row of pg_stat_io, and as what, an I/O is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Object.
    pub object: IoObject,
    /// Context.
    pub context: IoContext,
    /// Read, Write, Extend or Fsync.
    pub op: IoOp,
}

/// Properties of an I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoFlags {
    /// The issuer waits at once: execute it in its thread, with no queue and no hop. But where
    /// others wait for the issuer's I/O by way of its thread (io_uring), the method executes it as
    /// well.
    pub synchronous: bool,
    /// The memory is the issuer's own (temporary relations); shown by pg_aios.
    pub local_memory: bool,
    /// Nobody will ask for the result: the shared completion does all there is to do.
    pub detached: bool,
}

/// One asynchronous I/O, ready to be started.
pub struct Io {
    /// The open file; kept open until completion.
    pub file: File,
    /// What to do.
    pub op: Op,
    /// What for, in messages.
    pub target: Target,
    /// In the order of registration: run in the opposite order, at most [`Completion::MAX`].
    pub completions: SmallVec<[Completion; 1]>,
    /// Words for the completions (buffer numbers).
    pub data: SmallVec<[u32; 16]>,
    /// Properties.
    pub flags: IoFlags,
    /// Under which row of pg_stat_io it counts; None: not at all.
    pub account: Option<Account>,
}

impl Io {
    /// An I/O without completions, flags or account.
    pub fn new(file: File, op: Op, target: Target) -> Io {
        Io {
            file,
            op,
            target,
            completions: SmallVec::new(),
            data: SmallVec::new(),
            flags: IoFlags::default(),
            account: None,
        }
    }

    /// A read.
    pub fn read(file: File, offset: u64, memory: IoMemory, target: Target) -> Io {
        Io::new(file, Op::Readv { offset, memory }, target)
    }

    /// A write.
    pub fn write(file: File, offset: u64, memory: IoMemory, target: Target) -> Io {
        Io::new(file, Op::Writev { offset, memory }, target)
    }

    /// With the shared half of a completion, and the words.
    pub fn completion(
        mut self,
        completion: Arc<dyn SharedCompletion>,
        data: SmallVec<[u32; 16]>,
    ) -> Io {
        self.data = data;
        self.also(Completion::shared(completion))
    }

    /// With one more completion, which runs before those registered so far. Asserts that there are
    /// at most [`Completion::MAX`].
    pub fn also(mut self, completion: Completion) -> Io {
        self.completions.push(completion);
        assert!(
            self.completions.len() <= Completion::MAX,
            "an I/O has at most {} completions",
            Completion::MAX
        );
        self
    }

    /// With an account.
    pub fn account(mut self, object: IoObject, context: IoContext, op: IoOp) -> Io {
        self.account = Some(Account { object, context, op });
        self
    }

    /// With flags.
    pub fn flags(mut self, flags: IoFlags) -> Io {
        self.flags = flags;
        self
    }
}
