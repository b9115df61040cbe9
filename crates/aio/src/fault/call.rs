//! Calls, as rules and traces see them.

use std::fmt;
use std::ops::BitOr;
use std::path::{Path, PathBuf};

use crate::execute::Request;
use crate::file::File;
use crate::op::OpKind;

/// A set of operations; a [`Call`] has exactly one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ops(u32);

macro_rules! operations {
    ($($(#[$doc:meta])* $op:ident = $bit:literal $name:literal,)*) => {
        /// The names of operations in reports, in the order of their bits.
        const NAMES: [&str; [$($bit),*].len()] = [$($name),*];

        impl Ops {
            $($(#[$doc])* pub const $op: Ops = Ops(1 << $bit);)*
        }
    };
}

operations! {
    /// Reads.
    READ = 0 "read",
    /// Writes.
    WRITE = 1 "write",
    /// Syncs of data and metadata, as I/Os.
    FSYNC = 2 "fsync",
    /// Syncs of data, as I/Os.
    FDATASYNC = 3 "fdatasync",
    /// Starts of write-out, as I/Os.
    SYNC_FILE_RANGE = 4 "sync_file_range",
    /// Allocations, as I/Os.
    FALLOCATE = 5 "fallocate",
    /// Opening a file.
    OPEN = 6 "open",
    /// Making a directory.
    MKDIR = 7 "mkdir",
    /// Renaming, with or without replacing.
    RENAME = 8 "rename",
    /// Removing a file's name.
    UNLINK = 9 "unlink",
    /// Removing a directory.
    RMDIR = 10 "rmdir",
    /// Listing a directory.
    LIST = 11 "list",
    /// Facts about a name or a file: stat, link count, length.
    STAT = 12 "stat",
    /// Truncating or extending a file.
    SET_LEN = 13 "set_len",
    /// Allocation through the namespace.
    ALLOCATE = 14 "allocate",
    /// Reserving space.
    RESERVE = 15 "reserve",
    /// Syncing a file through the namespace.
    SYNC_FILE = 16 "sync_file",
    /// Syncing a directory.
    SYNC_DIR = 17 "sync_dir",
    /// Dropping a file's cached pages.
    FORGET = 18 "forget",
    /// Locking a file.
    LOCK = 19 "lock",
    /// Syncing a whole file system.
    SYNC_FS = 20 "sync_fs",
}

/// How many operations there are.
pub(super) const OPS: usize = NAMES.len();

impl Ops {
    /// Reads and writes.
    pub const TRANSFERS: Ops = Ops(0b11);
    /// Syncs, as I/Os.
    pub const SYNCS: Ops = Ops(0b1100);
    /// All I/Os, but no calls of the namespace.
    pub const IO: Ops = Ops(0b11_1111);
    /// All operations.
    pub const ALL: Ops = Ops((1 << OPS) - 1);

    /// The operation of an I/O.
    pub(super) fn of_kind(op: OpKind) -> Ops {
        match op {
            OpKind::Readv => Ops::READ,
            OpKind::Writev => Ops::WRITE,
            OpKind::Fdatasync => Ops::FDATASYNC,
            OpKind::SyncFileRange => Ops::SYNC_FILE_RANGE,
            OpKind::Allocate => Ops::FALLOCATE,
            OpKind::Fsync | OpKind::Invalid => Ops::FSYNC,
        }
    }

    /// Whether every operation of `other` is in this set.
    pub fn contains(self, other: Ops) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bit of a single operation.
    pub(super) fn index(self) -> usize {
        debug_assert!(self.0.is_power_of_two(), "{self:?} is one operation");
        self.0.trailing_zeros() as usize
    }

    /// The bits of the set.
    pub(super) fn each(self) -> impl Iterator<Item = usize> {
        (0..OPS).filter(move |bit| self.0 & 1 << bit != 0)
    }

    /// The name of a single operation.
    pub fn name(self) -> &'static str {
        NAMES[self.index()]
    }
}

impl BitOr for Ops {
    type Output = Ops;
    fn bitor(self, other: Ops) -> Ops {
        Ops(self.0 | other.0)
    }
}

impl fmt::Debug for Ops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.each().map(|bit| NAMES[bit]).collect();
        f.write_str(&names.join("|"))
    }
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub op: Ops,
    /// The file or directory.
    pub path: PathBuf,
    /// The new name, when renaming.
    pub to: Option<PathBuf>,
    /// The first byte in the file, or 0.
    pub offset: u64,
    /// Bytes to transfer or allocate, or the new length.
    pub len: u64,
    /// Whether the file is direct, or is being opened for direct I/O.
    pub direct: bool,
    /// Whether the file is being opened for writing.
    pub write: bool,
}

impl Call {
    pub(super) fn new(op: Ops, path: &Path) -> Call {
        Call {
            op,
            path: path.to_path_buf(),
            to: None,
            offset: 0,
            len: 0,
            direct: false,
            write: false,
        }
    }

    pub(super) fn on(op: Ops, file: &File, offset: u64, len: u64) -> Call {
        Call { offset, len, direct: file.is_direct(), ..Call::new(op, file.path()) }
    }

    pub(super) fn of(r: &Request<'_>) -> Call {
        Call::on(Ops::of_kind(r.op()), r.file(), r.offset(), r.length())
    }
}
