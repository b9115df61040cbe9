//! Tables of rows.
//!
//! | file | holds |
//! |---|---|
//! | `visibility.rs` | which tuples a snapshot sees |
//! | `batch.rs` | [`TupleBatch`]: formed tuples on their way into a table |
//! | `space.rs` | [`SpaceMap`]: which blocks have room, so that inserters keep out of each other's way |
//! | `insert.rs` | one tuple, or a batch that fills page after page, with their WAL |
//! | `delete.rs` | marking a tuple deleted |
//! | `vm.rs` | clearing a page's bits in the visibility map |
//! | `scan.rs` | a table from its first block to its last, a page at a time |
//!
//! A [`Heap`] is a table's physical identity with what is needed to work on it. Every change
//! follows one order: content lock taken exclusively, buffer marked dirty, page changed, record
//! inserted, page LSN set, lock released. The buffer is dirty before its record exists, so a
//! checkpoint whose redo pointer lies behind the record finds it. From the first changed byte to
//! the page's LSN nothing may fail: an error or a panic there stops the engine.

mod batch;
mod delete;
mod insert;
mod scan;
mod space;
#[cfg(test)]
mod tests;
mod visibility;
pub(crate) mod vm;

pub use batch::TupleBatch;
pub use delete::DeleteOutcome;
pub(crate) use delete::mark_deleted;
pub use insert::Author;
pub use scan::{HeapScan, ReadAhead};
pub use space::{RelationSpace, SpaceMap};
pub use visibility::Visibility;

use std::sync::Arc;

use forebay_format::RelFileLocator;
use forebay_storage::{Backend, BufferPool};
use forebay_wal::Wal;

use crate::EngineError;
use crate::fatal::Fatal;
use crate::xact::Clog;

/// A table's main fork and what is needed to work on it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Heap {
    /// The relation.
    pub locator: RelFileLocator,
    /// Shared pages.
    pub pool: Arc<BufferPool>,
    /// The log of changes.
    pub wal: Arc<Wal>,
    /// Whether changes are logged: not those of a temporary table.
    pub logged: bool,
    /// Outcomes of transactions.
    pub clog: Arc<Clog>,
    /// Where there is room.
    pub space: Arc<RelationSpace>,
    /// Stops the engine if a page was changed and the change could not be logged.
    pub(crate) fatal: Arc<Fatal>,
}

impl Heap {
    /// Sees to it that a new row will find room in the log, before the page is locked.
    fn ensure_log_room(&self, be: &mut Backend) -> Result<(), EngineError> {
        if self.logged {
            self.wal.ensure_room(&mut be.io, insert::RECORD_ROOM)?;
        }
        Ok(())
    }

    /// The same for a deletion, which is how room is made on a full disk.
    fn ensure_log_room_to_delete(&self, be: &mut Backend) -> Result<(), EngineError> {
        if self.logged {
            self.wal.ensure_room_to_free_space(&mut be.io, insert::RECORD_ROOM)?;
        }
        Ok(())
    }
}
