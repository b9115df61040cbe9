//! Pages to be used again: deleted ones, and those of an extension that nobody came to use.
//!
//! Vacuum enters them in the index's free-space map, as wholly free. The map is a hint without a
//! log, so that whoever takes a page from it looks at the page under its lock. A scan that came by
//! before the page was deleted may still hold a link to it. It has a snapshot, so the page stays as
//! it is until nobody has one from before its deletion.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use forebay_format::ids::INVALID_XID;
use forebay_format::nbtree::{self as nb, DELETED};
use forebay_format::wal::nbtree::{BtreeReuse, REUSE_PAGE};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, FullXid, Page};
use forebay_storage::{Backend, Pinned, Strategy};
use forebay_txn::{HorizonKind, RemovableTest};

use super::inserter::Locked;
use super::relation::Index;
use crate::error::AccessError;
use crate::fsm::FreeSpaceMap;

/// What a page is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reuse {
    /// It is part of the tree.
    No,
    /// Nobody ever used it, or PostgreSQL before version 14 deleted it.
    AtOnce,
    /// It was deleted. Nobody may hold a link to it any more who began after this id.
    After(FullXid),
}

impl Index {
    pub(super) fn free_pages(&self) -> FreeSpaceMap<'_> {
        FreeSpaceMap { pool: &self.pool, rel: self.locator }
    }

    /// Whether a page is free, or will be.
    pub(super) fn reuse(&self, page: Page<'_>, block: BlockNumber) -> Result<Reuse, AccessError> {
        if page.is_new() {
            return Ok(Reuse::AtOnce);
        }
        if !self.opaque(page, block)?.has(DELETED) {
            return Ok(Reuse::No);
        }
        let safe_xid = nb::safe_xid(page).map_err(|error| self.damaged(block, &error))?;
        Ok(safe_xid.map_or(Reuse::AtOnce, Reuse::After))
    }

    /// A test whether nobody holds a link to a deleted page any more.
    pub(super) fn removable_test(&self) -> RemovableTest {
        let kind = match self.locator.db {
            0 => HorizonKind::Shared,
            _ if self.shape.of_catalog => HorizonKind::Catalog,
            _ => HorizonKind::Data,
        };
        RemovableTest::new(kind, self.locator.db, None)
    }

    /// Enters a page in the free-space map.
    pub(super) fn note_free(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<(), AccessError> {
        Ok(self.free_pages().record(backend, block, BLOCK_SIZE - 1)?)
    }

    /// A page for new contents, locked: a free one, or one behind the last. The caller makes it
    /// anew. As long as it does not, the page stays free, though the map no longer says so.
    pub(super) fn new_page(&self, backend: &mut Backend) -> Result<Locked, AccessError> {
        if let Some(page) = self.free_page(backend)? {
            return Ok(page);
        }
        loop {
            let rel = self.locator;
            let pages = self.pool.extend(backend, rel, Fork::Main, 1, Strategy::Normal)?;
            let page = pages.into_iter().next().map(Pinned::into_exclusive).ok_or_else(|| {
                AccessError::Internal("an index was extended by no block".to_owned())
            })?;
            // Vacuum may have seen it before, and another backend may have taken it.
            if page.page().is_new() {
                return Ok(page);
            }
        }
    }

    /// A free page. Nobody is waited for: the caller holds locks.
    fn free_page(&self, backend: &mut Backend) -> Result<Option<Locked>, AccessError> {
        let map = self.free_pages();
        while let Some(block) = map.find(backend, BLOCK_SIZE / 2)? {
            map.record(backend, block, 0)?;
            let Some(page) = self.read(backend, block)?.try_into_exclusive() else { continue };
            match self.reuse(page.page(), block)? {
                Reuse::No => {}
                Reuse::AtOnce => return Ok(Some(page)),
                Reuse::After(safe_xid) => {
                    let procs = self.shared.xacts.procs();
                    if self.removable_test().is_over_for_all(procs, safe_xid) {
                        self.log_reuse(backend, block, safe_xid)?;
                        return Ok(Some(page));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Tells standby servers to cancel queries that may hold a link to a page.
    fn log_reuse(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
        safe_xid: FullXid,
    ) -> Result<(), AccessError> {
        let reuse = BtreeReuse {
            rel: self.locator,
            block,
            conflict_horizon: safe_xid,
            is_catalog: self.shape.of_catalog,
        };
        self.log(backend, INVALID_XID, REUSE_PAGE, &reuse.encode(), &[]).map(drop)
    }
}
