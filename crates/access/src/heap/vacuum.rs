//! Vacuum of a table without indexes.
//!
//! ```text
//!   visibility map ─▶ blocks to scan ─▶ read stream ─▶ page: prune, freeze ─▶ both maps
//! ```
//!
//! Pages that the map says are all-visible have nothing to prune. They are skipped in runs of 32 or
//! more: shorter gaps would only disturb reading ahead. Only those that are all-frozen are known to
//! have no old ids, so an aggressive vacuum skips no others. The last page is always read: it tells
//! whether the table's end can be cut off. PostgreSQL 18's eager scanning of all-visible pages is
//! left out.
//!
//! A page that somebody uses is not waited for, unless the vacuum is aggressive and the page has an
//! id that must be frozen.

use std::ops::Range;
use std::sync::Arc;

use forebay_format::visibility_map::{self as map, ALL_FROZEN, ALL_VISIBLE, VALID_BITS};
use forebay_format::{BlockNumber, Fork, Oid};
use forebay_storage::{
    Backend, PageWriteGuard, Pinned, ReadStream, Strategy, StreamFlags, StreamSettings,
};
use forebay_txn::HorizonKind;
use forebay_txn::locks::Interrupt;

use super::freeze::{Cutoffs, Remaining};
use super::relation::Heap;
use super::space::EMPTY;
use super::vacuum_page::{Outcome, PageVacuum};
use crate::error::AccessError;
use crate::vm;

/// All-visible pages in a row that are worth skipping.
const WORTH_SKIPPING: u32 = 32;
/// Pages after which the upper levels of the free-space map are brought up to date: 8 GB.
const MAP_EVERY: u32 = 1 << 20;

/// How a table is vacuumed.
#[derive(Debug, Clone, Copy)]
pub struct VacuumJob {
    /// Whose snapshots count.
    pub kind: HorizonKind,
    /// The database of the session.
    pub database: Oid,
    /// Which ids are frozen.
    pub cutoffs: Cutoffs,
    /// Whether all ids must be seen that are not known to be frozen.
    pub aggressive: bool,
    /// Whether pages may be skipped.
    pub skip_pages: bool,
    /// How pages are read ahead.
    pub stream: StreamSettings,
    /// Which buffers it uses.
    pub strategy: Strategy,
}

/// What a vacuum has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VacuumReport {
    /// Pages of the table when it began.
    pub pages: BlockNumber,
    /// Pages read.
    pub scanned: BlockNumber,
    /// Pages up to the last one with a row.
    pub with_rows: BlockNumber,
    /// Rows removed.
    pub removed: u64,
    /// Live rows on the pages read.
    pub live: u64,
    /// Dead rows that somebody may still see.
    pub recently_dead: u64,
    /// Dead rows that stay because their pages were in use, and the number of those pages.
    pub missed: (u64, BlockNumber),
    /// Rows from which ids were removed, and the number of their pages.
    pub frozen: (u64, BlockNumber),
    /// Pages newly all-visible, those of them that are all-frozen, and others newly all-frozen.
    pub marked: [BlockNumber; 3],
    /// The oldest ids that stay in the table. None if pages were skipped that may have older ones.
    pub remaining: Option<Remaining>,
    /// Blocks that the map said were visible although their pages did not.
    pub contradictions: BlockNumber,
}

/// What happened to a page, for those who slow a vacuum down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCost {
    /// Whether a page was read.
    pub read: bool,
    /// Whether it is dirty now, and was not before.
    pub dirtied: bool,
}

/// Called between pages. An error ends the vacuum.
pub type Pace<'a> = &'a mut dyn FnMut(&mut Backend, PageCost) -> Result<(), AccessError>;

impl Heap {
    /// Vacuums the table. The caller's lock excludes other vacuums. The table's figures in the
    /// catalogs are the caller's to store, and its end is the caller's to cut off. A request to
    /// `interrupt` ends a wait for a page.
    pub fn vacuum(
        &self,
        backend: &mut Backend,
        job: &VacuumJob,
        interrupt: &Interrupt,
        pace: Pace<'_>,
    ) -> Result<VacuumReport, AccessError> {
        let blocks = self.pool.nblocks(self.locator, Fork::Main)?;
        let Cutoffs { oldest_xid: xid, oldest_multi: multi, .. } = job.cutoffs;
        let remaining = Remaining { xid, multi };
        let unknown = || AccessError::Internal("vacuum without transactions".to_owned());
        let mut pruner = self.pruner(job.kind, job.database, None).ok_or_else(unknown)?;
        pruner.sets.begin();
        // What is older can be frozen, so it must not be kept as a deletion that somebody sees.
        pruner.raise_horizon(xid);
        let pages = PageVacuum { heap: self.clone(), pruner, cutoffs: job.cutoffs, remaining };
        let (ranges, skips_visible) = self.blocks_to_scan(backend, blocks, job)?;
        let report = VacuumReport { pages: blocks, ..VacuumReport::default() };
        let mut vacuum = Vacuum { pages, map: None, report };
        let mut next = ranges.into_iter().flatten();
        let mut stream = ReadStream::new(
            &self.pool,
            self.locator,
            Fork::Main,
            move || next.next(),
            StreamFlags::MAINTENANCE,
            job.strategy,
            job.stream,
        );
        let mut mapped = 0;
        while let Some(pin) = stream.next(backend)? {
            let (block, was_dirty) = (pin.tag().block, pin.is_dirty());
            vacuum.visit(backend, &pin, job.aggressive, interrupt)?;
            let dirtied = pin.is_dirty() && !was_dirty;
            drop(pin);
            pace(backend, PageCost { read: true, dirtied })?;
            if block - mapped >= MAP_EVERY {
                self.update_free_space_map(backend, mapped..block, pace)?;
                mapped = block;
            }
        }
        if mapped < blocks {
            self.update_free_space_map(backend, mapped..blocks, pace)?;
        }
        self.space.note_map(true);
        let Vacuum { mut report, pages, .. } = vacuum;
        report.remaining = (!skips_visible).then_some(pages.remaining);
        Ok(report)
    }

    /// Brings the upper levels of the free-space map up to date.
    pub(super) fn update_free_space_map(
        &self,
        backend: &mut Backend,
        blocks: Range<BlockNumber>,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        let mut check = |backend: &mut Backend| pace(backend, PageCost::default());
        self.free_space_map().vacuum(backend, blocks, &mut check)
    }

    /// The ranges of blocks to read, and whether others may have ids that are not frozen.
    fn blocks_to_scan(
        &self,
        backend: &mut Backend,
        blocks: BlockNumber,
        job: &VacuumJob,
    ) -> Result<(Vec<Range<BlockNumber>>, bool), AccessError> {
        let mut plan = ScanPlan::default();
        // The map may not have the page.
        let mut map: Option<(BlockNumber, Option<Pinned>)> = None;
        for block in 0..blocks {
            let map_block = map::map_block(block);
            if map.as_ref().is_none_or(|(of, _)| *of != map_block) {
                map = Some((map_block, vm::pin(&self.pool, backend, self.locator, block)?));
            }
            let pin = map.as_ref().and_then(|(_, pin)| pin.as_ref());
            let bits = pin.map_or(0, |pin| vm::bits(pin, block));
            let frozen = bits == VALID_BITS;
            let skip = job.skip_pages
                && block + 1 < blocks
                && (frozen || bits & ALL_VISIBLE != 0 && !job.aggressive);
            plan.add(block, skip, frozen);
        }
        Ok((plan.ranges, plan.skips_visible))
    }

    /// Numbers of all-visible and of all-frozen pages.
    pub fn marked_pages(&self, backend: &mut Backend) -> Result<(u32, u32), AccessError> {
        Ok(vm::count(&self.pool, backend, self.locator)?)
    }
}

/// Which blocks are read.
#[derive(Debug, Default)]
struct ScanPlan {
    ranges: Vec<Range<BlockNumber>>,
    /// Whether a skipped page may have ids that are not frozen.
    skips_visible: bool,
    /// The blocks since the last range that can be skipped.
    skippable: u32,
    /// Whether one of them is not known to be frozen.
    visible: bool,
}

impl ScanPlan {
    /// Adds the next block.
    fn add(&mut self, block: BlockNumber, skip: bool, frozen: bool) {
        if skip {
            self.skippable += 1;
            self.visible |= !frozen;
            return;
        }
        let first = if self.skippable >= WORTH_SKIPPING {
            self.skips_visible |= self.visible;
            block
        } else {
            block - self.skippable
        };
        match self.ranges.last_mut() {
            Some(last) if last.end == first => last.end = block + 1,
            _ => self.ranges.push(first..block + 1),
        }
        (self.skippable, self.visible) = (0, false);
    }
}

impl VacuumReport {
    fn add(&mut self, block: BlockNumber, outcome: &Outcome) {
        self.removed += u64::from(outcome.removed);
        self.live += u64::from(outcome.live);
        self.recently_dead += u64::from(outcome.recently_dead);
        self.missed.0 += u64::from(outcome.missed);
        self.missed.1 += u32::from(outcome.missed > 0);
        self.frozen.0 += u64::from(outcome.frozen);
        self.frozen.1 += u32::from(outcome.frozen > 0);
        if outcome.has_rows {
            self.with_rows = block + 1;
        }
    }
}

/// A vacuum in progress.
#[derive(Debug)]
struct Vacuum {
    pages: PageVacuum,
    /// The page of the visibility map used last.
    map: Option<Pinned>,
    report: VacuumReport,
}

impl Vacuum {
    /// Vacuums a page.
    fn visit(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        aggressive: bool,
        interrupt: &Interrupt,
    ) -> Result<(), AccessError> {
        self.report.scanned += 1;
        let map_block = map::map_block(pin.tag().block);
        let map = match self.map.take().filter(|map| map.tag().block == map_block) {
            Some(map) => map,
            None => {
                let PageVacuum { heap, .. } = &self.pages;
                vm::pin_or_make(&heap.pool, backend, heap.locator, pin.tag().block)?
            }
        };
        self.pages.heap.ensure_log_room_to_delete(backend)?;
        let free = match pin.try_lock_cleanup() {
            Some(guard) => self.clean(backend, guard, pin, &map)?,
            None => match self.look(backend, pin, aggressive)? {
                Some(free) => free,
                None => {
                    let guard = wait_for(backend, pin, interrupt)?;
                    self.clean(backend, guard, pin, &map)?
                }
            },
        };
        self.map = Some(map);
        if let Some(free) = free {
            let PageVacuum { heap, .. } = &self.pages;
            heap.free_space_map().record(backend, pin.tag().block, free)?;
        }
        Ok(())
    }

    /// Looks at a page that somebody uses. Returns its free space, if that is to be noted. None: it
    /// must be frozen.
    fn look(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        aggressive: bool,
    ) -> Result<Option<Option<usize>>, AccessError> {
        let guard = pin.lock_shared();
        if guard.page().is_new() {
            return Ok(Some(None));
        }
        let (outcome, must_freeze) = self.pages.look(backend, guard.page(), pin)?;
        if must_freeze && aggressive {
            return Ok(None);
        }
        self.pages.remaining = outcome.remaining;
        self.report.add(pin.tag().block, &outcome);
        Ok(Some(Some(guard.page().heap_free_space())))
    }

    /// A page under the cleanup lock. Returns its free space.
    fn clean(
        &mut self,
        backend: &mut Backend,
        mut guard: PageWriteGuard<'_>,
        pin: &Pinned,
        map: &Pinned,
    ) -> Result<Option<usize>, AccessError> {
        if guard.page().is_new() {
            return Ok(Some(EMPTY));
        }
        let outcome = self.pages.clean(backend, &mut guard, pin)?;
        self.pages.remaining = outcome.remaining;
        self.report.add(pin.tag().block, &outcome);
        self.mark(backend, &mut guard, map, &outcome)?;
        Ok(Some(guard.page().heap_free_space()))
    }

    /// Marks a page in the visibility map.
    fn mark(
        &mut self,
        backend: &mut Backend,
        guard: &mut PageWriteGuard<'_>,
        map: &Pinned,
        outcome: &Outcome,
    ) -> Result<(), AccessError> {
        let block = guard.tag().block;
        let mut before = vm::bits(map, block);
        if before != 0 && !guard.page().is_all_visible() {
            self.report.contradictions += 1;
            // Also if the page is visible after all: it need not be frozen as the map says.
            vm::clear_locked(&mut map.lock_exclusive(), block, VALID_BITS);
            before = 0;
        }
        // A page without an LSN was never logged, so redo would not find it.
        if !outcome.all_visible || self.pages.heap.logged && guard.page().lsn().0 == 0 {
            return Ok(());
        }
        let (bits, horizon) = match outcome.all_frozen {
            true => (VALID_BITS, 0),
            false => (ALL_VISIBLE, outcome.youngest),
        };
        self.pages.heap.set_visible(backend, guard, map, horizon, bits)?;
        let [visible, both, frozen] = &mut self.report.marked;
        match (before & ALL_VISIBLE != 0, before & ALL_FROZEN != 0, outcome.all_frozen) {
            (false, _, all_frozen) => {
                *visible += 1;
                *both += u32::from(all_frozen);
            }
            (true, false, true) => *frozen += 1,
            _ => {}
        }
        Ok(())
    }
}

/// Waits until nobody else uses a page. A cursor that reads ahead may use it for long.
fn wait_for<'a>(
    backend: &mut Backend,
    pin: &'a Pinned,
    interrupt: &Interrupt,
) -> Result<PageWriteGuard<'a>, AccessError> {
    // Its holder might wait for this backend's I/O.
    backend.io.submit();
    let request = pin.request_cleanup(Arc::new(interrupt.clone()))?;
    loop {
        if let Some(guard) = pin.try_lock_cleanup() {
            return Ok(guard);
        }
        interrupt.wait_for(|| request.is_ready()).map_err(AccessError::Interrupted)?;
        request.finish_write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_runs_are_skipped() {
        let plan = |runs: &[(u32, bool, bool)]| {
            let mut plan = ScanPlan::default();
            let mut block = 0;
            for &(len, skip, frozen) in runs {
                for _ in 0..len {
                    plan.add(block, skip, frozen);
                    block += 1;
                }
            }
            let ranges = plan.ranges.iter().map(|range| (range.start, range.end));
            (ranges.collect::<Vec<_>>(), plan.skips_visible)
        };
        let frozen = (32, true, true);
        assert_eq!(plan(&[(31, true, false), (1, false, false)]), (vec![(0, 32)], false));
        assert_eq!(plan(&[frozen, (1, false, false)]), (vec![(32, 33)], false));
        assert_eq!(plan(&[(32, true, false), (2, false, false)]), (vec![(32, 34)], true));
        let gaps =
            [(1, false, false), frozen, (1, false, false), (9, true, false), (1, false, true)];
        assert_eq!(plan(&gaps), (vec![(0, 1), (33, 44)], false));
        assert_eq!(plan(&[]), (vec![], false));
    }
}
