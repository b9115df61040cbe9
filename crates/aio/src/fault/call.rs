//! What a rule looks at: an operation of either half of the door.

use std::fmt;
use std::ops::BitOr;
use std::path::{Path, PathBuf};

use crate::execute::Request;
use crate::file::File;
use crate::op::OpKind;

/// A set of operations; a [`Call`] has exactly one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ops(u32);

/// The operations in the order of their bits, with the names that reports use.
const NAMES: [&str; 21] = [
    "read",
    "write",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "fallocate",
    "open",
    "mkdir",
    "rename",
    "unlink",
    "rmdir",
    "list",
    "stat",
    "set_len",
    "allocate",
    "reserve",
    "sync_file",
    "sync_dir",
    "forget",
    "lock",
    "sync_fs",
];

/// Operations there are.
pub(super) const OPS: usize = NAMES.len();

impl Ops {
    /// A gathered read.
    pub const READ: Ops = Ops(1);
    /// A gathered write.
    pub const WRITE: Ops = Ops(1 << 1);
    /// A sync of data and metadata, as an I/O.
    pub const FSYNC: Ops = Ops(1 << 2);
    /// A sync of data, as an I/O.
    pub const FDATASYNC: Ops = Ops(1 << 3);
    /// The start of write-back, as an I/O.
    pub const SYNC_FILE_RANGE: Ops = Ops(1 << 4);
    /// Allocation, as an I/O.
    pub const FALLOCATE: Ops = Ops(1 << 5);
    /// Opening a file.
    pub const OPEN: Ops = Ops(1 << 6);
    /// Making a directory.
    pub const MKDIR: Ops = Ops(1 << 7);
    /// Renaming, with or without replacing.
    pub const RENAME: Ops = Ops(1 << 8);
    /// Removing a file's name.
    pub const UNLINK: Ops = Ops(1 << 9);
    /// Removing a directory.
    pub const RMDIR: Ops = Ops(1 << 10);
    /// Listing a directory.
    pub const LIST: Ops = Ops(1 << 11);
    /// Facts about a name or a file: stat, link count, length.
    pub const STAT: Ops = Ops(1 << 12);
    /// Cutting or extending a file.
    pub const SET_LEN: Ops = Ops(1 << 13);
    /// Allocation through the namespace.
    pub const ALLOCATE: Ops = Ops(1 << 14);
    /// Setting space aside.
    pub const RESERVE: Ops = Ops(1 << 15);
    /// Sync of a file through the namespace.
    pub const SYNC_FILE: Ops = Ops(1 << 16);
    /// Sync of a directory.
    pub const SYNC_DIR: Ops = Ops(1 << 17);
    /// Dropping what the kernel caches of a file.
    pub const FORGET: Ops = Ops(1 << 18);
    /// Locking a file.
    pub const LOCK: Ops = Ops(1 << 19);
    /// Sync of a whole file system.
    pub const SYNC_FS: Ops = Ops(1 << 20);

    /// Reads and writes.
    pub const TRANSFERS: Ops = Ops(0b11);
    /// Syncs as I/Os.
    pub const SYNCS: Ops = Ops(0b1100);
    /// All I/Os: everything but names.
    pub const IO: Ops = Ops(0b11_1111);
    /// Everything.
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

    /// Every operation of `other` is among these.
    pub fn contains(self, other: Ops) -> bool {
        self.0 & other.0 == other.0
    }

    /// The position of a single operation.
    pub(super) fn index(self) -> usize {
        debug_assert!(self.0.is_power_of_two(), "{self:?} is one operation");
        self.0.trailing_zeros() as usize
    }

    /// Each operation of the set.
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

/// One operation, as rules and traces see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which.
    pub op: Ops,
    /// The file or directory.
    pub path: PathBuf,
    /// The new name, when renaming.
    pub to: Option<PathBuf>,
    /// First byte in the file, where there is one.
    pub offset: u64,
    /// Bytes concerned: asked to be transferred, allocated; the new length.
    pub len: u64,
    /// On a file of direct I/O, or to become one.
    pub direct: bool,
    /// When opening: for writing too.
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
