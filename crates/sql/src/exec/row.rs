//! Rows on their way through operators.

use super::host::Host;
use crate::error::Result;
use forebay_engine::ItemPointer;
use forebay_types::Datum;

/// A row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its columns.
    pub values: &'a [Datum<'a>],
    /// The place of the stored row, if it is one.
    pub ctid: Option<ItemPointer>,
}

impl<'a> Row<'a> {
    /// A row that is stored nowhere.
    pub(super) fn computed(values: &'a [Datum<'a>]) -> Row<'a> {
        Row { values, ctid: None }
    }
}

/// What takes rows.
pub type Visit<'v> = &'v mut dyn FnMut(Row<'_>, &mut Host) -> Result<Flow>;

/// A row that borrows nothing.
pub(super) type OwnedRow = Vec<Datum<'static>>;

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next row is wanted.
    Continue,
    /// No more rows for now.
    Rest,
}
