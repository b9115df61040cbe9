//! All versions of a table's rows that are still there, whoever sees them. For the end of a
//! recovery, when no transaction runs: what became of each version is final.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::tuple::HeapTuple;
use forebay_format::{Fork, ItemPointer, Page};
use forebay_storage::{Backend, Strategy};

use super::relation::Heap;
use super::status::{TupleStatus, tuple_status};
use super::tuple_at::{located, tuple_at};
use super::visibility::Visibility;
use crate::error::AccessError;

/// What became of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionFate {
    /// It is the row.
    Live,
    /// Its transaction made the row, and has not committed: there never was such a row.
    NeverInserted,
    /// Its transaction has not committed, and made it of an older version.
    NeverUpdated,
    /// The row was deleted.
    Deleted,
    /// A newer version took its place.
    Replaced,
}

impl Heap {
    /// Shows each version with its fate. `visibility` sees what has committed by now.
    pub fn each_version<E: From<AccessError>>(
        &self,
        backend: &mut Backend,
        visibility: &mut Visibility,
        show: &mut dyn FnMut(HeapTuple<'_>, VersionFate) -> Result<(), E>,
    ) -> Result<(), E> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main).map_err(AccessError::from)?;
        for block in 0..blocks {
            let tag = self.tag(block);
            let read = self.pool.read(backend, tag, Strategy::BulkRead);
            let page = read.map_err(AccessError::from)?.lock_shared().copy();
            let page = Page::new(&page);
            if page.is_new() {
                continue;
            }
            for number in 1..=page.item_count() {
                let Some(tuple) = tuple_at(page, tag, number)? else { continue };
                let place = ItemPointer::new(block, number);
                let fate = version_fate(backend, visibility, tuple, place);
                show(tuple, fate.map_err(|error| located(tag, number, error))?)?;
            }
        }
        Ok(())
    }
}

fn version_fate(
    backend: &mut Backend,
    visibility: &mut Visibility,
    tuple: HeapTuple<'_>,
    place: ItemPointer,
) -> Result<VersionFate, AccessError> {
    Ok(match tuple_status(&mut backend.io, visibility, tuple)? {
        TupleStatus::NotInserted(_) if tuple.is_updated() => VersionFate::NeverUpdated,
        TupleStatus::NotInserted(_) => VersionFate::NeverInserted,
        TupleStatus::Updated(_) if tuple.ctid() == place => VersionFate::Deleted,
        TupleStatus::Updated(_) => VersionFate::Replaced,
        _ => VersionFate::Live,
    })
}
