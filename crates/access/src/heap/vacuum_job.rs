//! What a vacuum is to do, and what it has done.

use std::fmt::Debug;

use forebay_format::{BlockNumber, Oid};
use forebay_storage::{Backend, Strategy, StreamSettings};
use forebay_txn::HorizonKind;

use super::dead_items::DeadItems;
use super::freeze::{Cutoffs, Remaining};
use crate::error::AccessError;

/// How a table is vacuumed.
#[derive(Debug, Clone, Copy)]
pub struct VacuumJob {
    /// Whose snapshots count.
    pub kind: HorizonKind,
    /// The database of the session.
    pub database: Oid,
    /// Which ids are frozen.
    pub cutoffs: Cutoffs,
    /// Whether all ids must be seen that are not known to be frozen.
    pub aggressive: bool,
    /// Whether pages may be skipped.
    pub skip_pages: bool,
    /// The part of the pages that may fail to be frozen where pages are read for that alone;
    /// 0: none are (vacuum_max_eager_freeze_failure_rate).
    pub eager_failure_rate: f64,
    /// How pages are read ahead.
    pub stream: StreamSettings,
    /// Which buffers it uses.
    pub strategy: Strategy,
}

/// How far the removal of entries from a table's indexes has come. It is given up when the table
/// has become so old that its vacuum must not lose time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// They are gone from all indexes.
    All,
    /// It was given up on the way.
    Some,
    /// It was given up before the first index.
    None,
}

/// The indexes of a table, as its vacuum needs them.
pub trait TableIndexes: Debug {
    /// Removes the entries of dead rows from all of them.
    fn remove(
        &mut self,
        backend: &mut Backend,
        dead: &DeadItems,
        pace: Pace<'_>,
    ) -> Result<Removed, AccessError>;

    /// Ends their vacuum.
    fn clean_up(&mut self, backend: &mut Backend, pace: Pace<'_>) -> Result<(), AccessError>;
}

/// Whether dead rows go from indexes (`INDEX_CLEANUP`, `vacuum_index_cleanup`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexCleanup {
    /// If there are more than a few.
    #[default]
    Auto,
    /// In any case.
    On,
    /// Not at all.
    Off,
}

/// How a table's indexes are vacuumed.
#[derive(Debug)]
pub struct IndexesJob<'a> {
    /// Not ready ones are left out.
    pub indexes: &'a mut dyn TableIndexes,
    /// Whether dead rows go.
    pub cleanup: IndexCleanup,
    /// Room for those found.
    pub dead: DeadItems,
}

/// What a vacuum has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// Pages of the table when it began.
    pub pages: BlockNumber,
    /// Pages read.
    pub scanned: BlockNumber,
    /// Pages that could have been skipped, and were read to freeze them.
    pub eager: BlockNumber,
    /// How many of these were frozen, if that was enough and no more were read.
    pub eager_end: Option<BlockNumber>,
    /// Pages up to the last one with a row.
    pub with_rows: BlockNumber,
    /// Rows removed.
    pub removed: u64,
    /// Live rows on the pages read.
    pub live: u64,
    /// Dead rows that somebody may still see.
    pub recently_dead: u64,
    /// Dead rows that stay because their pages were in use, and the number of those pages.
    pub missed: (u64, BlockNumber),
    /// Rows from which ids were removed, and the number of their pages.
    pub frozen: (u64, BlockNumber),
    /// Pages newly all-visible, those of them that are all-frozen, and others newly all-frozen.
    pub marked: [BlockNumber; 3],
    /// The oldest ids that stay in the table. None if pages were skipped that may have older ones.
    pub remaining: Option<Remaining>,
    /// Blocks that the map said were visible although their pages did not.
    pub contradictions: BlockNumber,
    /// Dead line pointers of a table with indexes, and the number of their pages.
    pub dead_items: (u64, BlockNumber),
    /// How often they were removed from the indexes.
    pub index_scans: u32,
    /// Whether they stay in the indexes and in the table.
    pub bypassed: bool,
}

/// What happened to a page, for those who slow a vacuum down. The backend's counters tell whether
/// it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCost {
    /// Whether it is dirty now, and was not before.
    pub dirtied: bool,
}

/// Called between pages. An error ends the vacuum.
pub type Pace<'a> = &'a mut dyn FnMut(&mut Backend, PageCost) -> Result<(), AccessError>;
