//! Tuples by their line pointers. Errors name the place.

use forebay_format::page::HEADER_SIZE;
use forebay_format::tuple::HeapTuple;
use forebay_format::{ItemPointer, OffsetNumber, Page, PageTag, TupleError};

use super::relation::Heap;
use crate::error::AccessError;

/// The tuple at a line pointer. None if the line pointer does not exist, or leads to no tuple.
#[inline]
pub(crate) fn tuple_at(
    page: Page<'_>,
    tag: PageTag,
    number: OffsetNumber,
) -> Result<Option<HeapTuple<'_>>, AccessError> {
    let Some(id) = page.item_id(number).filter(|id| id.is_normal()) else { return Ok(None) };
    let bytes = page.item(number).filter(|_| usize::from(id.offset) >= HEADER_SIZE);
    let bytes = bytes.ok_or_else(|| stray(tag, number))?;
    HeapTuple::new(bytes).map(Some).map_err(|error| damaged(tag, number, error))
}

#[cold]
pub(super) fn stray(tag: PageTag, number: OffsetNumber) -> AccessError {
    located(tag, number, AccessError::Corrupt("line pointer leads out of the page".to_owned()))
}

#[cold]
pub(super) fn damaged(tag: PageTag, number: OffsetNumber, error: TupleError) -> AccessError {
    located(tag, number, error.into())
}

/// Adds the place of a row to an error that a damaged row may have caused.
pub(super) fn located(tag: PageTag, number: OffsetNumber, error: AccessError) -> AccessError {
    error.in_row(tag.rel, ItemPointer::new(tag.block, number))
}

impl Heap {
    /// Adds the place of a row to an error that a damaged row may have caused.
    pub(super) fn located(&self, tid: ItemPointer, error: AccessError) -> AccessError {
        error.in_row(self.locator, tid)
    }
}
