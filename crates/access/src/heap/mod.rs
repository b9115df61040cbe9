//! Tables of rows.
//!
//! | file | holds |
//! |---|---|
//! | `relation.rs` | [`Heap`]: a relation with what is needed to work on it |
//! | `copy_fork.rs` | copying a relation page by page, into another file |
//! | `critical.rs` | [`PageFailure`]: a page change that fails halfway stops the engine |
//! | `space.rs` | [`SpaceMap`]: blocks with room, so that inserters do not meet on one page |
//! | `room.rs` | pages to which the free-space map leads |
//! | `outcomes.rs` | [`Outcomes`], [`RowSets`]: outcomes of transactions, MultiXacts |
//! | `tuple_at.rs` | a tuple by its line pointer; errors that name the place |
//! | `status.rs` | a tuple's status, for a snapshot or for now |
//! | `visibility.rs` | [`Visibility`]: which tuples a snapshot sees |
//! | `batch.rs` | [`TupleBatch`]: formed tuples to be inserted |
//! | `insert.rs` | inserting one tuple, or a batch page by page, with their WAL |
//! | `tentative.rs` | inserting a tuple that is confirmed, or taken back, soon |
//! | `changer.rs` | [`Changer`]: a transaction that changes rows; [`Attempt`], [`Refusal`] |
//! | `xmax.rs` | the new xmax of a row that is locked or updated |
//! | `map_pin.rs` | a page's part of the visibility map, pinned before the page is locked |
//! | `delete.rs` | marking a tuple deleted |
//! | `lock.rs` | locking a row, and its newer versions |
//! | `update.rs` | [`Columns`], [`NewVersion`]: putting a newer version on the same page, or on another |
//! | `inplace.rs` | [`Announcement`]: overwriting values of a catalog's row |
//! | `prune_plan.rs` | which versions of a page's rows go |
//! | `prune.rs` | [`Pruner`]: removing versions that nobody sees any more |
//! | `visible.rs` | setting a page's bits in the visibility map |
//! | `freeze.rs` | [`Cutoffs`], [`Remaining`]: removing old ids from tuples |
//! | `dead_items.rs` | [`DeadItems`]: line pointers that indexes still have |
//! | `vacuum_job.rs` | [`VacuumJob`], [`IndexesJob`], [`VacuumReport`]: what vacuum does and did |
//! | `vacuum_page.rs` | vacuum of one page |
//! | `vacuum_visit.rs` | the same with its locks and maps |
//! | `vacuum_indexes.rs` | removing dead line pointers from indexes and table |
//! | `scan_blocks.rs` | which blocks a vacuum reads |
//! | `vacuum.rs` | vacuum of a table |
//! | `old_rows.rs` | the versions that go to a new file, with the ids that stay |
//! | `new_pages.rs` | the pages of a new file |
//! | `truncate.rs` | cutting off a table's empty end |
//! | `wait.rs` | [`RowWaiter`]: waiting for those who hold a row |
//! | `fetch.rs` | single versions by their place |
//! | `page_rows.rs` | [`RowReader`]: the rows of a page that index entries lead to |
//! | `fate.rs` | [`RowJudge`]: what became of the row that an index entry leads to |
//! | `indexable.rs` | [`IndexableScan`]: the versions that a new index leads to |
//! | `shared_blocks.rs` | [`SharedBlocks`]: blocks handed out to scans that share them |
//! | `sample.rs` | [`Sample`]: a random sample of the live rows |
//! | `scan.rs` | [`HeapScan`]: reading a table from its first block to its last |
//! | `versions.rs` | [`VersionFate`]: all versions of a table's rows, and what became of them |
//!
//! Every change follows one order: lock the page exclusively, mark the buffer dirty, change the
//! page, insert the record, set the page's LSN, unlock. The buffer is dirty before its record
//! exists, so a checkpoint whose redo pointer lies behind the record writes the page. From the
//! first changed byte to the page's LSN nothing may fail: an error or a panic stops the engine.

mod batch;
mod changer;
mod copy_fork;
mod critical;
mod dead_items;
mod delete;
mod fate;
mod fetch;
mod freeze;
mod indexable;
mod inplace;
mod insert;
mod lock;
mod map_pin;
mod new_pages;
mod old_rows;
mod outcomes;
mod page_rows;
mod prune;
mod prune_plan;
mod relation;
mod room;
mod sample;
mod scan;
mod scan_blocks;
mod scan_place;
mod shared_blocks;
mod space;
mod status;
mod tentative;
#[cfg(test)]
mod tests;
mod truncate;
mod tuple_at;
mod update;
mod vacuum;
mod vacuum_indexes;
mod vacuum_job;
mod vacuum_page;
mod vacuum_visit;
mod versions;
mod visibility;
mod visible;
mod wait;
mod xmax;

pub use batch::TupleBatch;
pub use changer::{Attempt, Changer, Holders, Refusal, RowQueues};
pub use copy_fork::ForkCopier;
pub use critical::PageFailure;
pub(crate) use critical::critical;
pub use dead_items::DeadItems;
pub(crate) use delete::mark_deleted;
pub use fate::{RemovalCandidate, RowFate, RowJudge};
pub(crate) use freeze::FrozenHeader;
pub use freeze::{Cutoffs, Remaining};
pub use indexable::{Indexable, IndexableScan};
pub use inplace::Announcement;
pub use insert::Author;
pub(crate) use new_pages::NewPages;
pub(crate) use old_rows::OldRow;
pub use outcomes::{Outcomes, RowSets};
pub use page_rows::{PageRow, PageRows, RowReader};
pub use prune::Pruner;
pub use relation::{Heap, Heaps};
pub use sample::{Sample, SampleJob, SampledRow};
pub use scan::{HeapScan, ReadAhead};
pub use shared_blocks::SharedBlocks;
pub use space::{RelationSpace, SpaceMap};
pub(crate) use tuple_at::tuple_at;
pub use update::{Columns, NewVersion};
pub use vacuum_job::{
    IndexCleanup, IndexesJob, Pace, PageCost, Removed, TableIndexes, VacuumJob, VacuumReport,
};
pub(crate) use vacuum_visit::wait_for as wait_for_cleanup;
pub use versions::VersionFate;
pub use visibility::Visibility;
pub use wait::RowWaiter;
