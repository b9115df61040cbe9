//! What a log is started with.

use std::path::PathBuf;

use forebay_aio::{Op, OpenOptions};
use forebay_format::{Lsn, SegmentSize};

use crate::position::WAL_BLOCK;

/// How written WAL reaches the medium (`wal_sync_method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncMethod {
    /// Write, then `fdatasync`.
    Fdatasync,
    /// Write, then `fsync`.
    Fsync,
    /// Segments are opened with `O_DSYNC`: a write that has returned is durable.
    OpenDatasync,
    /// Segments are opened with `O_SYNC`: a write that has returned is durable, and the file's
    /// times with it.
    OpenSync,
}

impl SyncMethod {
    /// Every method, by PostgreSQL's name. The first is its default here; of two that are as good
    /// the earlier is taken.
    pub const NAMES: [(&'static str, SyncMethod); 4] = [
        ("fdatasync", SyncMethod::Fdatasync),
        ("open_datasync", SyncMethod::OpenDatasync),
        ("fsync", SyncMethod::Fsync),
        ("open_sync", SyncMethod::OpenSync),
    ];

    /// The method of that name.
    pub fn by_name(name: &str) -> Option<SyncMethod> {
        SyncMethod::NAMES.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }

    /// PostgreSQL's name.
    pub fn name(self) -> &'static str {
        match self {
            SyncMethod::Fdatasync => "fdatasync",
            SyncMethod::OpenDatasync => "open_datasync",
            SyncMethod::Fsync => "fsync",
            SyncMethod::OpenSync => "open_sync",
        }
    }

    /// True if segments are opened so that a write is durable by itself.
    pub fn opens_synchronous(self) -> bool {
        matches!(self, SyncMethod::OpenDatasync | SyncMethod::OpenSync)
    }

    /// How files are opened whose writes this method makes durable.
    pub(crate) fn open_options(self) -> OpenOptions {
        match self {
            SyncMethod::Fdatasync | SyncMethod::Fsync => OpenOptions::READ_WRITE,
            SyncMethod::OpenDatasync => OpenOptions::READ_WRITE.dsync(true),
            SyncMethod::OpenSync => OpenOptions::READ_WRITE.sync(true),
        }
    }

    /// The I/O that makes earlier writes durable, where the method needs one.
    pub(crate) fn sync_op(self) -> Option<Op> {
        match self {
            SyncMethod::Fdatasync => Some(Op::Fdatasync),
            SyncMethod::Fsync => Some(Op::Fsync),
            SyncMethod::OpenDatasync | SyncMethod::OpenSync => None,
        }
    }
}

/// Fixed properties of a log.
#[derive(Debug, Clone)]
pub struct WalConfig {
    /// The `pg_wal` directory; it exists.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_size: SegmentSize,
    /// The timeline that is written.
    pub timeline: u32,
    /// System identifier of the cluster, from `pg_control`.
    pub system_id: u64,
    /// How a flush makes WAL durable.
    pub sync_method: SyncMethod,
    /// `io_direct` has `wal`.
    pub direct: bool,
    /// `io_direct` has `wal_init`.
    pub init_direct: bool,
    /// Blocks of WAL buffers; see [`WalConfig::auto_buffers`]. At least 4 are used.
    pub buffers: usize,
    /// Whether a page's first change after a checkpoint is logged with the page's image.
    pub full_page_writes: bool,
    /// Everything contiguous goes out in one write (up to 1 MB). Without, each of its blocks is a
    /// write of its own, all of them on their way at once where they are direct: for comparison.
    pub gather: bool,
    /// Most of these pieces on their way at once, at least 1; see [`WalConfig::WRITES_IN_FLIGHT`].
    pub writes_in_flight: usize,
}

impl WalConfig {
    /// What [`WalConfig::writes_in_flight`] is if nobody knows better: who comes along finds a
    /// place within half of a write's time, and with more at once many committers' writes are
    /// smaller, and their commits fewer (docs/performance.md).
    pub const WRITES_IN_FLIGHT: usize = 2;

    /// A log of this cluster in this directory, on timeline 1 and with defaults for everything
    /// else.
    pub fn new(dir: PathBuf, segment_size: SegmentSize, system_id: u64) -> WalConfig {
        WalConfig {
            dir,
            segment_size,
            timeline: 1,
            system_id,
            sync_method: SyncMethod::Fdatasync,
            direct: false,
            init_direct: false,
            buffers: 64,
            full_page_writes: true,
            gather: true,
            writes_in_flight: WalConfig::WRITES_IN_FLIGHT,
        }
    }

    /// The number of WAL buffers that `wal_buffers = -1` stands for: a thirty-second of the shared
    /// buffers, at least 64 kB, at most one segment.
    pub fn auto_buffers(shared_buffers: usize, segment_size: SegmentSize) -> usize {
        let most = usize::try_from(segment_size.bytes() / WAL_BLOCK).unwrap_or(usize::MAX);
        (shared_buffers / 32).clamp(8, most.max(8))
    }
}

/// Where a log goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// End of the last valid record: the next one is inserted here. A page boundary and the
    /// position just behind that page's header mean the same. With `aborted`, the page at which the
    /// rest was missing.
    pub insert_at: Lsn,
    /// Start of the last valid record, or 0 in a log without records.
    pub prev: Lsn,
    /// Redo pointer of the last checkpoint: pages not newer than it get a full-page image.
    pub redo: Lsn,
    /// A record that the log ends in the middle of, and that later readers must skip.
    pub aborted: Option<AbortedRecord>,
}

/// A record whose first part made it into the log and whose rest did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedRecord {
    /// Start of the incomplete record.
    pub start: Lsn,
    /// Address of the page on which its next part was expected.
    pub missing_page: Lsn,
}
