//! What to do with a cluster's checksums, and what was found and done.

use std::path::{Path, PathBuf};

use crate::config::IoMethod;

/// What to do with the checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumMode {
    /// Compares the checksums of all pages.
    Check,
    /// Sets checksums in all pages, and notes that in pg_control.
    Enable,
    /// Notes in pg_control that there are none.
    Disable,
}

/// How to do it.
#[derive(Clone, Debug)]
pub struct ChecksumOptions {
    /// What to do.
    pub mode: ChecksumMode,
    /// Only files with this number, for [`ChecksumMode::Check`].
    pub filenode: Option<String>,
    /// How I/O is executed.
    pub io_method: IoMethod,
    /// Bypass the kernel's page cache.
    pub direct: bool,
    /// Blocks in one read, 1 to [`ChecksumOptions::MAX_COMBINE`].
    pub io_combine_limit: u32,
    /// How to make the changes durable. None: not at all.
    pub sync: Option<SyncMethod>,
}

/// How a data directory is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMethod {
    /// By a sync of each file.
    Fsync,
    /// By a sync of the whole file systems.
    SyncFs,
}

impl ChecksumOptions {
    /// Most blocks in one read.
    pub const MAX_COMBINE: u32 = 128;

    /// This mode, with PostgreSQL's defaults.
    pub fn new(mode: ChecksumMode) -> ChecksumOptions {
        ChecksumOptions {
            mode,
            filenode: None,
            io_method: IoMethod::default(),
            direct: false,
            io_combine_limit: 16,
            sync: Some(SyncMethod::Fsync),
        }
    }
}

/// A page with a wrong checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// The file.
    pub path: PathBuf,
    /// The block's number within the file.
    pub block: u32,
    /// The checksum of the bytes.
    pub calculated: u16,
    /// The checksum in the page.
    pub found: u16,
}

/// Follows the progress. Every method may do nothing.
pub trait ChecksumObserver {
    /// A page is damaged.
    fn bad_block(&mut self, _block: &BadBlock) {}
    /// All pages of a file were read.
    fn file_done(&mut self, _path: &Path) {}
    /// Bytes that were read, of all bytes.
    fn progress(&mut self, _done: u64, _total: u64) {}
    /// The scan is over, and the next step begins: "syncing data directory".
    fn step(&mut self, _what: &str) {}
    /// The files were read; nothing was synced yet.
    fn scanned(&mut self, _counts: &ChecksumCounts) {}
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumCounts {
    /// Files read.
    pub files_scanned: u64,
    /// Blocks read.
    pub blocks_scanned: u64,
    /// Pages with a wrong checksum.
    pub bad_blocks: u64,
    /// Files in which pages changed.
    pub files_written: u64,
    /// Pages that changed.
    pub blocks_written: u64,
    /// The data checksum version in pg_control, afterwards.
    pub checksum_version: u32,
}
