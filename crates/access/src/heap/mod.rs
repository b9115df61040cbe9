//! Tables of rows.
//!
//! | file | holds |
//! |---|---|
//! | `relation.rs` | [`Heap`]: a relation with what is needed to work on it |
//! | `critical.rs` | [`PageFailure`]: a page change that fails halfway stops the engine |
//! | `space.rs` | [`SpaceMap`]: blocks with room, so that inserters do not meet on one page |
//! | `room.rs` | pages to which the free-space map leads |
//! | `outcomes.rs` | [`Outcomes`], [`RowSets`]: outcomes of transactions, MultiXacts |
//! | `tuple_at.rs` | a tuple by its line pointer; errors that name the place |
//! | `status.rs` | a tuple's status, for a snapshot or for now |
//! | `visibility.rs` | [`Visibility`]: which tuples a snapshot sees |
//! | `batch.rs` | [`TupleBatch`]: formed tuples to be inserted |
//! | `insert.rs` | inserting one tuple, or a batch page by page, with their WAL |
//! | `changer.rs` | [`Changer`]: a transaction that changes rows; [`Attempt`], [`Refusal`] |
//! | `xmax.rs` | the new xmax of a row that is locked or updated |
//! | `map_pin.rs` | a page's part of the visibility map, pinned before the page is locked |
//! | `delete.rs` | marking a tuple deleted |
//! | `lock.rs` | locking a row, and its newer versions |
//! | `update.rs` | [`Columns`]: putting a newer version on the same page, or on another |
//! | `inplace.rs` | [`Announcement`]: overwriting values of a catalog's row |
//! | `prune_plan.rs` | which versions of a page's rows go |
//! | `prune.rs` | [`Pruner`]: removing versions that nobody sees any more |
//! | `visible.rs` | setting a page's bits in the visibility map |
//! | `freeze.rs` | [`Cutoffs`], [`Remaining`]: removing old ids from tuples |
//! | `vacuum_page.rs` | vacuum of one page |
//! | `vacuum.rs` | [`VacuumJob`], [`VacuumReport`]: vacuum of a table |
//! | `truncate.rs` | cutting off a table's empty end |
//! | `wait.rs` | [`RowWaiter`]: waiting for those who hold a row |
//! | `fetch.rs` | single versions by their place |
//! | `shared_blocks.rs` | [`SharedBlocks`]: blocks handed out to scans that share them |
//! | `scan.rs` | [`HeapScan`]: reading a table from its first block to its last |
//!
//! Every change follows one order: lock the page exclusively, mark the buffer dirty, change the
//! page, insert the record, set the page's LSN, unlock. The buffer is dirty before its record
//! exists, so a checkpoint whose redo pointer lies behind the record writes the page. From the
//! first changed byte to the page's LSN nothing may fail: an error or a panic stops the engine.

mod batch;
mod changer;
mod critical;
mod delete;
mod fetch;
mod freeze;
mod inplace;
mod insert;
mod lock;
mod map_pin;
mod outcomes;
mod prune;
mod prune_plan;
mod relation;
mod room;
mod scan;
mod shared_blocks;
mod space;
mod status;
#[cfg(test)]
mod tests;
mod truncate;
mod tuple_at;
mod update;
mod vacuum;
mod vacuum_page;
mod visibility;
mod visible;
mod wait;
mod xmax;

pub use batch::TupleBatch;
pub use changer::{Attempt, Changer, Holders, Refusal, RowQueues};
pub use critical::PageFailure;
pub(crate) use delete::mark_deleted;
pub use freeze::{Cutoffs, Remaining};
pub use inplace::Announcement;
pub use insert::Author;
pub use outcomes::{Outcomes, RowSets};
pub use prune::Pruner;
pub use relation::{Heap, Heaps};
pub use scan::{HeapScan, ReadAhead};
pub use shared_blocks::SharedBlocks;
pub use space::{RelationSpace, SpaceMap};
pub use update::Columns;
pub use vacuum::{Pace, PageCost, VacuumJob, VacuumReport};
pub use visibility::Visibility;
pub use wait::RowWaiter;
