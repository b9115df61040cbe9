//! What an index must know of its table's rows.

use forebay_format::{ItemPointer, Xid};
use forebay_storage::Backend;

use crate::error::AccessError;
use crate::heap::{RemovalCandidate, RowFate, RowJudge};

/// The rows of an index's table, as of now. The index asks while a leaf is locked.
pub trait TableRows {
    /// What became of the row that an index entry leads to.
    fn fate(&mut self, backend: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError>;

    /// Finds out which of several rows of one block nobody sees any more. Returns the newest
    /// transaction that deleted a version of those, or 0: standby servers cancel queries that may
    /// still see them.
    fn removable(
        &mut self,
        backend: &mut Backend,
        rows: &mut [RemovalCandidate],
    ) -> Result<Xid, AccessError>;
}

impl TableRows for RowJudge<'_> {
    fn fate(&mut self, backend: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError> {
        RowJudge::fate(self, backend, tid)
    }

    fn removable(
        &mut self,
        backend: &mut Backend,
        rows: &mut [RemovalCandidate],
    ) -> Result<Xid, AccessError> {
        RowJudge::removable(self, backend, rows)
    }
}
