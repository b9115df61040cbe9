//! The counters of pg_stat_progress_create_index, under PostgreSQL's numbers.

use forebay_storage::progress::Command::CreateIndex as C;
use forebay_storage::progress::Counter;

/// Which statement it is: a [`Statement`].
pub const STATEMENT: Counter = Counter::new(C, 0);
/// Transactions to wait for.
pub const LOCKERS_TOTAL: Counter = Counter::new(C, 3);
/// Transactions that have been waited for.
pub const LOCKERS_DONE: Counter = Counter::new(C, 4);
/// The session that is waited for.
pub const CURRENT_LOCKER: Counter = Counter::new(C, 5);
/// The index.
pub const INDEX: Counter = Counter::new(C, 6);
/// Its access method.
pub const ACCESS_METHOD: Counter = Counter::new(C, 8);
/// A [`Phase`].
pub const PHASE: Counter = Counter::new(C, 9);
/// A [`BuildPhase`].
pub const BUILD_PHASE: Counter = Counter::new(C, 10);
/// Entries to load.
pub const TUPLES_TOTAL: Counter = Counter::new(C, 11);
/// Entries that were loaded.
pub const TUPLES_DONE: Counter = Counter::new(C, 12);
/// Blocks to read in this phase.
pub const BLOCKS_TOTAL: Counter = Counter::new(C, 15);
/// Blocks that were read.
pub const BLOCKS_DONE: Counter = Counter::new(C, 16);

/// A statement that builds indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the statements")]
pub enum Statement {
    CreateIndex = 1,
    CreateIndexConcurrently = 2,
    Reindex = 3,
    ReindexConcurrently = 4,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for transactions that do not know of the index.
    WaitForWriters = 1,
    /// Builds the index: see [`BuildPhase`].
    Build = 2,
    /// Waits for transactions that do not put their rows into it.
    WaitForWritersAgain = 3,
    /// Collects the rows that it has.
    ScanIndex = 4,
    /// Sorts them.
    SortRows = 5,
    /// Adds those that it lacks.
    ScanTable = 6,
    /// Waits for snapshots that may see rows which it has not.
    WaitForSnapshots = 7,
    /// Waits for transactions that may read through the index that goes.
    WaitForReaders = 8,
    /// Waits for transactions that put rows into the index that goes.
    WaitForReadersAgain = 9,
}

/// What a build of a B-tree does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildPhase {
    /// Begins.
    Begin = 1,
    /// Reads the table.
    ScanTable = 2,
    /// Sorts the entries.
    Sort = 3,
    /// Writes the tree.
    Load = 5,
}
