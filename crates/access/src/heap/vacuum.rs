//! Vacuum of a table.
//!
//! ```text
//!   visibility map ─▶ blocks to scan ─▶ read stream ─▶ page: prune, freeze ─▶ both maps
//!                                                        │
//!                                                 dead line pointers ─▶ `vacuum_indexes`
//! ```
//!
//! The dead line pointers of a table with indexes go in rounds: when there are enough of them, and
//! at the end.
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

use forebay_format::visibility_map::{self as map, ALL_VISIBLE, VALID_BITS};
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, Pinned, ReadStream, StreamFlags};
use forebay_txn::locks::Interrupt;

use super::freeze::{Cutoffs, Remaining};
use super::relation::Heap;
use super::vacuum_job::{IndexesJob, Pace, PageCost, VacuumJob, VacuumReport};
use super::vacuum_page::PageVacuum;
use super::vacuum_visit::Vacuum;
use crate::error::AccessError;
use crate::vm;

/// All-visible pages in a row that are worth skipping.
const WORTH_SKIPPING: u32 = 32;
/// Pages after which the upper levels of the free-space map are brought up to date: 8 GB.
const MAP_EVERY: u32 = 1 << 20;

impl Heap {
    /// Vacuums the table, which has no indexes. The caller's lock excludes other vacuums. The
    /// table's figures in the catalogs are the caller's to store, and its end is the caller's to
    /// cut off. A request to `interrupt` ends a wait for a page.
    pub fn vacuum(
        &self,
        backend: &mut Backend,
        job: &VacuumJob,
        interrupt: &Interrupt,
        pace: Pace<'_>,
    ) -> Result<VacuumReport, AccessError> {
        self.vacuum_with(backend, job, None, interrupt, pace)
    }

    /// Vacuums the table and its indexes, if it has some; see [`Heap::vacuum`].
    pub fn vacuum_with(
        &self,
        backend: &mut Backend,
        job: &VacuumJob,
        indexes: Option<IndexesJob<'_>>,
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
        let (headers, dead, indexed) = (Vec::new(), Vec::new(), indexes.is_some());
        let cutoffs = job.cutoffs;
        let pages = PageVacuum { pruner, cutoffs, remaining, headers, indexed, dead };
        let (ranges, skips_visible) = self.blocks_to_scan(backend, blocks, job)?;
        let report = VacuumReport { pages: blocks, ..VacuumReport::default() };
        let mut vacuum = Vacuum { pages, map: None, report, indexes };
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
            let ends_round = vacuum.has_no_room();
            if ends_round {
                vacuum.end_round(backend, job, false, pace)?;
            }
            if ends_round || block - mapped >= MAP_EVERY {
                self.update_free_space_map(backend, mapped..block + 1, pace)?;
                mapped = block + 1;
            }
        }
        vacuum.end_round(backend, job, true, pace)?;
        if mapped < blocks {
            self.update_free_space_map(backend, mapped..blocks, pace)?;
        }
        self.space.note_map(true);
        vacuum.clean_up_indexes(backend, pace)?;
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
