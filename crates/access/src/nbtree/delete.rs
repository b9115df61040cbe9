//! Making room on a leaf by removing its killed items.
//!
//! The removal has a record, which says how new the removed rows may have been: a standby server
//! cancels queries that may still see them.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::OffsetNumber;
use forebay_format::nbtree as nb;
use forebay_format::wal::nbtree::{BtreeDelete, DELETE};

use super::inserter::{Inserter, Locked};
use super::log::{CHANGED, block, set_lsn};
use super::rows::TableRows;
use crate::error::AccessError;
use crate::heap::critical;

impl Inserter<'_> {
    /// Removes a leaf's killed items.
    pub(super) fn delete_killed(
        &mut self,
        page: &mut Locked,
        rows: &dyn TableRows,
    ) -> Result<(), AccessError> {
        let (index, tag) = (self.index, page.tag().block);
        let opaque = index.opaque(page.page(), tag)?;
        let all = opaque.first_data_item()..=page.page().item_count();
        let killed: Vec<OffsetNumber> = all.filter(|&n| nb::is_killed(page.page(), n)).collect();
        if killed.is_empty() {
            return Ok(());
        }
        for &n in &killed {
            index.tuple(page.page(), tag, n)?;
        }
        let removal = BtreeDelete { deleted: killed, updated: Vec::new() };
        critical(index.failure.as_ref(), "could not remove items of an index", || {
            page.mark_dirty();
            nb::delete_rows(&mut page.page_mut(), &removal.deleted, [])
                .map_err(|error| index.damaged(tag, &error))?;
            let mut data = Vec::new();
            let horizon = index.known.note_gone(rows.newest_gone());
            let of_catalog = index.shape.of_catalog;
            let main = removal.encode_delete(horizon, of_catalog, &mut data);
            let blocks = [block(0, page, CHANGED, &data)];
            let lsn = index.log(self.backend, self.xid, DELETE, &main, &blocks)?;
            set_lsn(lsn, [page]);
            Ok(())
        })
    }
}
