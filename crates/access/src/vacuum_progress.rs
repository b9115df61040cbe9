//! The counters of pg_stat_progress_vacuum, under PostgreSQL's numbers.

use forebay_storage::progress::Command::Vacuum as C;
use forebay_storage::progress::Counter;

/// A [`Phase`].
pub const PHASE: Counter = Counter::new(C, 0);
/// Blocks of the table when the vacuum began.
pub const BLOCKS_TOTAL: Counter = Counter::new(C, 1);
/// Blocks that the first pass has left behind: those that it skips count.
pub const BLOCKS_SCANNED: Counter = Counter::new(C, 2);
/// Blocks that the second pass has left behind.
pub const BLOCKS_VACUUMED: Counter = Counter::new(C, 3);
/// How often dead rows were removed from the indexes.
pub const INDEX_VACUUMS: Counter = Counter::new(C, 4);
/// Bytes of memory for dead line pointers, at most.
pub const MAX_DEAD_BYTES: Counter = Counter::new(C, 5);
/// Bytes of memory that they take.
pub const DEAD_BYTES: Counter = Counter::new(C, 6);
/// Their number.
pub const DEAD_ITEMS: Counter = Counter::new(C, 7);
/// Indexes to be vacuumed or cleaned up.
pub const INDEXES_TOTAL: Counter = Counter::new(C, 8);
/// Indexes that were.
pub const INDEXES_DONE: Counter = Counter::new(C, 9);
/// Nanoseconds of rests for the cost of pages, if `track_cost_delay_timing` is on.
pub const DELAY: Counter = Counter::new(C, 10);

/// What a vacuum does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads the table, and cleans its pages.
    ScanTable = 1,
    /// Removes dead rows from the indexes.
    VacuumIndexes = 2,
    /// Makes the places of dead rows free.
    VacuumTable = 3,
    /// Ends the vacuum of the indexes.
    CleanUpIndexes = 4,
    /// Cuts off the table's empty end.
    Truncate = 5,
    /// Stores what it has found.
    FinalCleanup = 6,
}
