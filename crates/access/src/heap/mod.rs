//! Tables of rows.
//!
//! | file | holds |
//! |---|---|
//! | `relation.rs` | [`Heap`]: a relation with what is needed to work on it |
//! | `critical.rs` | [`PageFailure`]: a page change that fails halfway stops the engine |
//! | `space.rs` | [`SpaceMap`]: blocks with room, so that inserters do not meet on one page |
//! | `status.rs` | a tuple's status, for a snapshot or for now |
//! | `visibility.rs` | [`Visibility`]: which tuples a snapshot sees |
//! | `batch.rs` | [`TupleBatch`]: formed tuples to be inserted |
//! | `insert.rs` | inserting one tuple, or a batch page by page, with their WAL |
//! | `delete.rs` | marking a tuple deleted |
//! | `scan.rs` | [`HeapScan`]: reading a table from its first block to its last |
//!
//! Every change follows one order: lock the page exclusively, mark the buffer dirty, change the
//! page, insert the record, set the page's LSN, unlock. The buffer is dirty before its record
//! exists, so a checkpoint whose redo pointer lies behind the record writes the page. From the
//! first changed byte to the page's LSN nothing may fail: an error or a panic stops the engine.

mod batch;
mod critical;
mod delete;
mod insert;
mod relation;
mod scan;
mod space;
mod status;
#[cfg(test)]
mod tests;
mod visibility;

pub use batch::TupleBatch;
pub use critical::PageFailure;
pub use delete::DeleteOutcome;
pub(crate) use delete::mark_deleted;
pub use insert::Author;
pub use relation::{Heap, Heaps};
pub use scan::{HeapScan, ReadAhead};
pub use space::{RelationSpace, SpaceMap};
pub use visibility::Visibility;
