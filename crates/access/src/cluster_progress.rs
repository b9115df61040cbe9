//! The counters of pg_stat_progress_cluster, under PostgreSQL's numbers.

use forebay_storage::progress::Command::Cluster as C;
use forebay_storage::progress::Counter;

/// Which statement it is: 2 is VACUUM FULL.
pub const STATEMENT: Counter = Counter::new(C, 0);
/// A [`Phase`].
pub const PHASE: Counter = Counter::new(C, 1);
/// Rows that were read and stay.
pub const ROWS_SCANNED: Counter = Counter::new(C, 3);
/// Rows in the new file.
pub const ROWS_WRITTEN: Counter = Counter::new(C, 4);
/// Blocks of the old file.
pub const BLOCKS_TOTAL: Counter = Counter::new(C, 5);
/// Those that were read.
pub const BLOCKS_SCANNED: Counter = Counter::new(C, 6);
/// Indexes that were built anew.
pub const INDEXES_REBUILT: Counter = Counter::new(C, 7);

/// What VACUUM FULL does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Moves the rows.
    ScanTable = 1,
    /// Gives the table its new file.
    SwapFiles = 5,
    /// Builds the indexes anew.
    RebuildIndexes = 6,
}
