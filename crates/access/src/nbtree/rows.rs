//! What an index must know of its table's rows.

use forebay_format::{ItemPointer, Xid};
use forebay_storage::Backend;

use crate::error::AccessError;
use crate::heap::{RowFate, RowJudge};

/// The rows of an index's table, as of now. The index asks while a leaf is locked.
pub trait TableRows {
    /// What became of the row that an index entry leads to.
    fn fate(&mut self, backend: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError>;

    /// An id that is at least as new as that of any transaction that deleted rows that are
    /// [`RowFate::Gone`]: standby servers cancel queries that may still see them.
    fn newest_gone(&self) -> Xid;
}

impl TableRows for RowJudge<'_> {
    fn fate(&mut self, backend: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError> {
        RowJudge::fate(self, backend, tid)
    }

    fn newest_gone(&self) -> Xid {
        RowJudge::newest_gone(self)
    }
}
