//! Measurements on the machine at hand: page checksums and the I/O path, as tables for people and
//! JSON for programs.
//!
//! - `checksum`: every variant of the page checksum, in the processor's cache and from memory,
//!   beside reading alone
//! - `io`: runs the plan; `plan`: which runs there are; `flow`: one run: a window of reads or
//!   writes
//! - `file`: the private file that is read and written; `align`: memory that is not aligned
//! - `pool`: the buffer pool on relation files: scans, prewarming, random changes, a checkpoint
//! - `wal`: the write-ahead log: commits, insertion alone, bulk insertion
//! - `archive`: the archiver: many marks, segments stored in a directory
//! - `report`: what the I/O runs gave; `table`, `json`: how it is shown
//! - `measure`: clocks, medians
//!
//! Runs take turns, round after round, so that whatever else the machine does hits all of them;
//! medians are shown with the smallest and the largest value.

mod align;
mod archive;
mod checksum;
mod file;
mod flow;
mod io;
mod json;
mod measure;
mod plan;
mod pool;
mod report;
mod table;
mod wal;

use std::path::PathBuf;

use forebay_aio::AioError;
use forebay_archive::ArchiveError;
use forebay_wal::WalError;

pub use align::{ALIGNMENT_OFFSETS, AlignmentRow};
pub use archive::{ArchiveBench, ArchiveReport, MarksRow, StoreRow, bench_archive};
pub use checksum::{
    CRC_SIZES, ChecksumBench, ChecksumReport, CrcRow, TouchRow, VariantRow, bench_checksum,
};
pub use io::bench_io;
pub use measure::Spread;
pub use plan::{Case, IoBench, IoTable, MethodChoice, Operation, Pattern};
pub use pool::{PoolBench, PoolReport, PoolRow, PoolTask, Way, bench_pool};
pub use report::{CaseResult, IoReport, MethodAvailability};
pub use wal::{
    AskDevice, BulkRow, CommitRow, DeviceJob, DeviceRow, InsertRow, WAL_SYNC_METHODS, WalBench,
    WalReport, WalTable, WalWay, bench_wal,
};

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The disk.
    #[error(transparent)]
    Disk(#[from] AioError),
    /// The write-ahead log.
    #[error(transparent)]
    Log(#[from] WalError),
    /// The archiver.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// No room for the file.
    #[error("there is not enough space in \"{}\": {needed} bytes are needed, {free} are free", dir.display())]
    NoSpace {
        /// Where.
        dir: PathBuf,
        /// The file's size, and something to spare.
        needed: u64,
        /// What there is.
        free: u64,
    },
    /// A path that is neither a directory nor a file with pages.
    #[error("\"{}\" {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An absurd wish.
    #[error("{0}")]
    Options(String),
    /// What was read is not what was written.
    #[error("a page of the test file came back with a wrong checksum: block {block}")]
    Damaged {
        /// Its number.
        block: u64,
    },
}
