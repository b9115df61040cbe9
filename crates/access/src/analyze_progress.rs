//! The counters of pg_stat_progress_analyze, under PostgreSQL's numbers.

use forebay_storage::progress::Command::Analyze as C;
use forebay_storage::progress::Counter;

/// A [`Phase`].
pub const PHASE: Counter = Counter::new(C, 0);
/// Blocks of the sample.
pub const BLOCKS_TOTAL: Counter = Counter::new(C, 1);
/// Those that were read.
pub const BLOCKS_DONE: Counter = Counter::new(C, 2);
/// Nanoseconds of rests for the cost of pages, if `track_cost_delay_timing` is on.
pub const DELAY: Counter = Counter::new(C, 8);

/// What ANALYZE does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads the sample.
    Sample = 1,
    /// Computes statistics of columns.
    Compute = 3,
    /// Stores what it has found.
    Finalize = 5,
}
