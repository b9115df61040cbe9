//! The configuration of a log, and the position at which it resumes.

use std::path::PathBuf;

use forebay_aio::{Op, OpenOptions};
use forebay_format::{Lsn, SegmentSize};

use crate::position::WAL_BLOCK;

/// How written WAL is made durable (`wal_sync_method`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncMethod {
    /// Write, then `fdatasync`.
    Fdatasync,
    /// Write, then `fsync`.
    Fsync,
    /// Segments are opened with `O_DSYNC`: a write that has returned is durable.
    OpenDatasync,
    /// Segments are opened with `O_SYNC`: a write that has returned is durable, and so are the
    /// file's times.
    OpenSync,
}

impl SyncMethod {
    /// All methods with PostgreSQL's names, the default first. Of two that are equally fast, `auto`
    /// takes the earlier.
    pub const NAMES: [(&'static str, SyncMethod); 4] = [
        ("fdatasync", SyncMethod::Fdatasync),
        ("open_datasync", SyncMethod::OpenDatasync),
        ("fsync", SyncMethod::Fsync),
        ("open_sync", SyncMethod::OpenSync),
    ];

    /// The method with a name.
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

    /// Whether segments are opened so that a write is durable by itself.
    pub fn opens_synchronous(self) -> bool {
        matches!(self, SyncMethod::OpenDatasync | SyncMethod::OpenSync)
    }

    /// How this method opens segments.
    pub(crate) fn open_options(self) -> OpenOptions {
        match self {
            SyncMethod::Fdatasync | SyncMethod::Fsync => OpenOptions::READ_WRITE,
            SyncMethod::OpenDatasync => OpenOptions::READ_WRITE.dsync(true),
            SyncMethod::OpenSync => OpenOptions::READ_WRITE.sync(true),
        }
    }

    /// The sync that makes earlier writes durable, if the method needs one.
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
    /// The `pg_wal` directory, which must exist.
    pub dir: PathBuf,
    /// Size of a segment file.
    pub segment_size: SegmentSize,
    /// The timeline to write.
    pub timeline: u32,
    /// System identifier of the cluster, from `pg_control`.
    pub system_id: u64,
    /// How a flush makes WAL durable.
    pub sync_method: SyncMethod,
    /// Whether segments are written with direct I/O (`io_direct` has `wal`).
    pub direct: bool,
    /// Whether new segments are filled with direct I/O (`io_direct` has `wal_init`).
    pub init_direct: bool,
    /// Number of WAL buffers, in blocks; at least 4 are used. See [`WalConfig::auto_buffers`].
    pub buffers: usize,
    /// Whether a page's first change after a checkpoint is logged with an image of the page.
    pub full_page_writes: bool,
    /// Whether contiguous blocks are one write (up to 1 MB). Otherwise each block is a write of its
    /// own, for comparison; with direct I/O these are in flight at the same time.
    pub gather: bool,
    /// Most writes in flight, at least 1; see [`WalConfig::WRITES_IN_FLIGHT`].
    pub writes_in_flight: usize,
}

impl WalConfig {
    /// Default of [`WalConfig::writes_in_flight`]. With two, a committer waits half a write's time
    /// on average before its own write starts. With more, writes of many committers get smaller,
    /// and fewer commits fit into a second.
    pub const WRITES_IN_FLIGHT: usize = 2;

    /// The configuration of a log on timeline 1, with defaults for everything else.
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

    /// The number of WAL buffers for `wal_buffers = -1`: 1/32 of the shared buffers, at least 64
    /// kB, at most one segment.
    pub fn auto_buffers(shared_buffers: usize, segment_size: SegmentSize) -> usize {
        // A segment has at most 1 GB.
        let most = (segment_size.bytes() / WAL_BLOCK) as usize;
        (shared_buffers / 32).clamp(8, most.max(8))
    }
}

/// The position at which a log resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// End of the last valid record, where the next one is inserted. A page boundary is equivalent
    /// to the position just behind that page's header. With `aborted`, the address of the page on
    /// which the incomplete record should have continued.
    pub insert_at: Lsn,
    /// Start of the last valid record, or 0 in a log without records.
    pub prev: Lsn,
    /// Redo pointer of the last checkpoint: a page whose LSN is not beyond it gets a full-page
    /// image.
    pub redo: Lsn,
    /// The incomplete record at the end of the log, which later readers must skip.
    pub aborted: Option<AbortedRecord>,
}

/// A record of which the log has the first part, but not the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedRecord {
    /// Start of the incomplete record.
    pub start: Lsn,
    /// Address of the page on which it should have continued.
    pub missing_page: Lsn,
}
