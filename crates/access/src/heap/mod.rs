//! Tables of rows.
//!
//! | file | holds |
//! |---|---|
//! | `relation.rs` | [`Heap`]: a relation with what is needed to work on it |
//! | `critical.rs` | [`PageFailure`]: a page change that fails halfway stops the engine |
//! | `space.rs` | [`SpaceMap`]: blocks with room, so that inserters do not meet on one page |
//! | `outcomes.rs` | [`Outcomes`], [`RowSets`]: outcomes of transactions, MultiXacts |
//! | `status.rs` | a tuple's status, for a snapshot or for now |
//! | `visibility.rs` | [`Visibility`]: which tuples a snapshot sees |
//! | `batch.rs` | [`TupleBatch`]: formed tuples to be inserted |
//! | `insert.rs` | inserting one tuple, or a batch page by page, with their WAL |
//! | `changer.rs` | [`Changer`]: who changes rows; [`Attempt`], [`Refusal`] |
//! | `xmax.rs` | the new xmax of a row that is locked or updated |
//! | `map_pin.rs` | a page's part of the visibility map, pinned before the page is locked |
//! | `delete.rs` | marking a tuple deleted |
//! | `lock.rs` | locking a row, and its newer versions |
//! | `update.rs` | [`Columns`]: putting a newer version on the same page, or on another |
//! | `prune_plan.rs` | which versions of a page's rows go |
//! | `prune.rs` | [`Pruner`]: removing versions that nobody sees any more |
//! | `wait.rs` | [`RowWaiter`]: waiting for those who hold a row |
//! | `fetch.rs` | single versions by their place |
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
mod insert;
mod lock;
mod map_pin;
mod outcomes;
mod prune;
mod prune_plan;
mod relation;
mod scan;
mod space;
mod status;
#[cfg(test)]
mod tests;
mod update;
mod visibility;
mod wait;
mod xmax;

pub use batch::TupleBatch;
pub use changer::{Attempt, Changer, Holders, Refusal};
pub use critical::PageFailure;
pub(crate) use delete::mark_deleted;
pub use insert::Author;
pub use outcomes::{Outcomes, RowSets};
pub use prune::Pruner;
pub use relation::{Heap, Heaps};
pub use scan::{HeapScan, ReadAhead};
pub use space::{RelationSpace, SpaceMap};
pub use update::Columns;
pub use visibility::Visibility;
pub use wait::RowWaiter;
