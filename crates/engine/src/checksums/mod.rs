//! Page checksums of a cluster at rest: check, enable, disable, as PostgreSQL's pg_checksums does.
//!
//! - `cluster`: what pg_control says, and refusals
//! - `walk`: which files there are
//! - `scan`: reads their pages, and writes those that change
//! - `sync`: makes a data directory durable
//!
//! PostgreSQL 15 to 18 and Forebay have the same pages, so clusters of all of them can be
//! processed. Checksums are ignored until pg_control says that pages have them. So after an
//! interrupted run the cluster starts as before. Only the two bytes of the checksum change in a
//! page, so a torn write does no harm.
//!
//! Enabling checks first that every file can be opened for writing and has whole pages. Then it
//! writes, then it syncs every file, also those that it did not write: an interrupted run may have
//! written them without a sync. Last it updates pg_control.

mod cluster;
mod scan;
mod sync;
mod walk;

pub(crate) use cluster::read_outline;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_aio::{AioConfig, BackendType, Namespace, OpenOptions, PosixNamespace, WorkerLimits};
use forebay_format::control;

use crate::clock::unix_seconds;
use crate::config::{EngineConfig, IoMethod};
use crate::disk::Disk;
use crate::error::EngineError;
use crate::io;
use crate::lockfile;

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
        let config = EngineConfig::default();
        ChecksumOptions {
            mode,
            filenode: None,
            io_method: config.io_method,
            direct: config.io_direct.data,
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

/// Checks, enables or disables the checksums of a cluster at rest. Damaged pages are counted, and
/// are not an error.
pub fn checksums(
    dir: &Path,
    options: &ChecksumOptions,
    observer: &mut dyn ChecksumObserver,
) -> Result<ChecksumCounts, EngineError> {
    // Reads are started in their full size, so nothing is merged.
    let config = AioConfig { max_backends: 1, combine_limit: 0, ..AioConfig::default() };
    let namespace: Arc<dyn Namespace> = Arc::new(PosixNamespace::new());
    let workers = WorkerLimits::default();
    let aio = io::open_with(Arc::clone(&namespace), options.io_method, workers, config)?;
    let mut io = aio.backend(BackendType::Standalone)?;

    let path = dir.join(control::PATH);
    let outline = read_outline(&mut io, &path)?;
    cluster::check_outline(&outline, options.mode)?;
    let _still = lockfile::hold_still(&mut Disk::new(&mut io), dir).map_err(|error| {
        cluster::not_shut_down(error.hint().or_else(|| Some(error.to_string())))
    })?;

    let mut counts =
        ChecksumCounts { checksum_version: outline.checksum_version, ..ChecksumCounts::default() };
    if options.mode != ChecksumMode::Disable {
        let tree = walk::Tree::find(&*namespace, dir, &outline, options.filenode.as_deref())?;
        if options.mode == ChecksumMode::Enable {
            tree.check_writable(&*namespace, options.direct)?;
            namespace.open(&path, &OpenOptions::READ_WRITE)?;
        }
        scan::Scan::new(&mut io, &tree, options, observer, &mut counts)?.run()?;
        observer.scanned(&counts);
    }
    if options.mode != ChecksumMode::Check {
        if let Some(how) = options.sync {
            observer.step("syncing data directory");
            sync::sync_cluster(&mut io, dir, how)?;
        }
        observer.step("updating control file");
        counts.checksum_version = u32::from(options.mode == ChecksumMode::Enable);
        let bytes = outline.with_checksum_version(counts.checksum_version, unix_seconds());
        let file = namespace.open(&path, &OpenOptions::READ_WRITE)?;
        cluster::overwrite(&mut io, &file, &bytes, options.sync.is_some())?;
    }
    Ok(counts)
}
