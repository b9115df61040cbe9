//! The records of an index.

use forebay_format::wal::{Rmgr, xlog};
use forebay_format::{Lsn, Xid};
use forebay_storage::{Backend, PageWriteGuard};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::relation::Index;
use crate::error::AccessError;

/// A page that a record changes.
pub(super) const CHANGED: BlockFlags = BlockFlags::STANDARD;

/// A page that a record makes anew.
pub(super) fn made() -> BlockFlags {
    BlockFlags::WILL_INIT | BlockFlags::STANDARD
}

/// A page of a record.
pub(super) fn block<'a>(
    id: u8,
    page: &'a PageWriteGuard<'_>,
    flags: BlockFlags,
    data: &'a [u8],
) -> BlockRef<'a> {
    BlockRef { id, tag: page.tag(), page: Some(page), flags, data }
}

impl Index {
    /// Inserts a record, if the index is logged. Returns its end.
    pub(super) fn log(
        &self,
        backend: &mut Backend,
        xid: Xid,
        info: u8,
        main: &[u8],
        blocks: &[BlockRef<'_>],
    ) -> Result<Option<Lsn>, AccessError> {
        if !self.logged {
            return Ok(None);
        }
        forebay_aio::planted_bug!(backend.io.aio(), IndexChangeNotLogged, return Ok(None));
        let record = Record { rmgr: Rmgr::BTREE, info, xid, main, blocks };
        Ok(Some(self.wal.insert(&mut backend.io, &record)?.end))
    }

    /// Logs a page whole, and sets its LSN.
    pub(super) fn log_image(
        &self,
        backend: &mut Backend,
        page: &mut PageWriteGuard<'_>,
    ) -> Result<(), AccessError> {
        if !self.logged {
            return Ok(());
        }
        let flags = BlockFlags::FORCE_IMAGE | BlockFlags::STANDARD;
        let blocks = [block(0, page, flags, &[])];
        let record =
            Record { rmgr: Rmgr::XLOG, info: xlog::FPI, xid: 0, main: &[], blocks: &blocks };
        let inserted = self.wal.insert(&mut backend.io, &record)?;
        page.set_lsn(inserted.end);
        Ok(())
    }
}

/// Sets the LSN of pages that a record changed.
pub(super) fn set_lsn<'g, 'p: 'g>(
    lsn: Option<Lsn>,
    pages: impl IntoIterator<Item = &'g mut PageWriteGuard<'p>>,
) {
    if let Some(lsn) = lsn {
        pages.into_iter().for_each(|page| page.set_lsn(lsn));
    }
}

/// The items of a page as they lie there, for a record that makes the page anew.
pub(super) fn items_of<'a>(page: &'a PageWriteGuard<'_>) -> &'a [u8] {
    let view = page.page();
    view.bytes(view.upper()..view.special()).expect("the items are on the page")
}
