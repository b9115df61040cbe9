//! Rows on their way through operators.

use forebay_types::Datum;

/// A row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// Its columns.
    pub values: &'a [Datum<'a>],
    /// Block and number of the stored row, if it is one. Filters, projections and limits keep it;
    /// sorts and groups do not.
    pub ctid: Option<(u32, u16)>,
}

impl<'a> Row<'a> {
    /// A row that is stored nowhere.
    pub(super) fn computed(values: &'a [Datum<'a>]) -> Row<'a> {
        Row { values, ctid: None }
    }
}

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
