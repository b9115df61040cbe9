//! Setting a page's bits in the visibility map.

use forebay_format::wal::{Rmgr, heap, heap::HeapVisible};
use forebay_format::{Lsn, Xid, visibility_map as map};
use forebay_storage::{Backend, PageWriteGuard, Pinned};
use forebay_wal::{BlockFlags, BlockRef, Record};

use super::critical::critical;
use super::relation::Heap;
use crate::error::AccessError;

impl Heap {
    /// Sets bits of a locked page in its page of the map, and the page's own flag. Returns whether
    /// something changed. `horizon`: standbys cancel queries with older snapshots.
    pub(super) fn set_visible(
        &self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        map_pin: &Pinned,
        horizon: Xid,
        bits: u8,
    ) -> Result<bool, AccessError> {
        assert!(bits & map::ALL_VISIBLE != 0, "a page that is all-frozen is all-visible");
        let block = guard.tag().block;
        let mut map_guard = map_pin.lock_exclusive();
        let new = map_guard.page().is_new();
        let before = if new { 0 } else { map::get(map_guard.page(), block) };
        if before | bits == before && guard.page().is_all_visible() {
            return Ok(false);
        }
        let bits = before | bits;
        // Without checksums the flag leaves the page its LSN, so the page could be written before
        // the commits of its rows.
        let mut commits_first = self.logged && !self.pool.has_checksums();
        forebay_aio::planted_bug!(backend.io.aio(), PageMarkedBeforeCommits, commits_first = false);
        if commits_first {
            self.wal.flush_async_commits(&mut backend.io)?;
        }
        critical(self.failure.as_ref(), "could not mark a page all-visible", || {
            map_guard.mark_dirty();
            if new {
                map_guard.page_mut().init(0);
            }
            map::set(&mut map_guard.page_mut(), block, bits);
            guard.mark_dirty();
            guard.page_mut().set_all_visible(true);
            if !self.logged {
                return Ok(());
            }
            forebay_aio::planted_bug!(backend.io.aio(), VisibilityMapNotLogged, return Ok(()));
            let main = HeapVisible { conflict_horizon: horizon, flags: bits }.encode();
            // Without checksums a torn page has the flag, or has not.
            let checksums = self.pool.has_checksums();
            let image = if checksums { BlockFlags::NONE } else { BlockFlags::NO_IMAGE };
            let (map_tag, tag) = (map_guard.tag(), guard.tag());
            let of_map = BlockRef {
                id: 0,
                tag: map_tag,
                page: Some(&map_guard),
                flags: BlockFlags::NONE,
                data: &[],
            };
            let flags = BlockFlags::STANDARD | image;
            let of_table = BlockRef { id: 1, tag, page: Some(guard), flags, data: &[] };
            let (rmgr, info) = (Rmgr::HEAP2, heap::VISIBLE);
            let blocks = &[of_map, of_table];
            let record = Record { rmgr, info, xid: 0, main: &main, blocks };
            let inserted = self.wal.insert(&mut backend.io, &record)?;
            map_guard.set_lsn(inserted.end);
            forebay_aio::planted_bug!(
                backend.io.aio(),
                VisibilityMapWithoutLsn,
                map_guard.set_lsn(Lsn(0))
            );
            if checksums {
                guard.set_lsn(inserted.end);
            }
            Ok(())
        })?;
        Ok(true)
    }
}
