//! What an index must know of its table's rows.

use forebay_format::{ItemPointer, Xid};
use forebay_storage::Backend;

use crate::error::AccessError;

/// What became of a row, all versions that an index entry leads to counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowFate {
    /// A version is live: committed, or inserted by the asking transaction.
    Live,
    /// A running transaction inserts, updates or deletes it. Its end decides.
    InDoubt(Xid),
    /// None is live, but someone may still see one.
    Dead,
    /// Nobody sees any version any more.
    Gone,
}

/// The rows of an index's table.
pub trait TableRows {
    /// What became of the row that an index entry leads to, as of now.
    fn fate(&mut self, backend: &mut Backend, tid: ItemPointer) -> Result<RowFate, AccessError>;

    /// An id that is at least as new as that of any transaction that deleted rows that are
    /// [`RowFate::Gone`]: standby servers cancel queries that may still see them.
    fn newest_gone(&self) -> Xid;
}
