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
//! `scan_blocks.rs` tells which blocks are read.
//!
//! A page that somebody uses is not waited for, unless the vacuum is aggressive and the page has an
//! id that must be frozen.

use std::ops::Range;

use forebay_format::visibility_map as map;
use forebay_format::{BlockNumber, Fork};
use forebay_storage::{Backend, Pinned, ReadStream, StreamFlags};
use forebay_txn::locks::Interrupt;

use super::freeze::{Cutoffs, Remaining};
use super::relation::Heap;
use super::scan_blocks::ScanBlocks;
use super::vacuum_job::{IndexesJob, Pace, PageCost, VacuumJob, VacuumReport};
use super::vacuum_page::PageVacuum;
use super::vacuum_visit::Vacuum;
use crate::error::AccessError;
use crate::vacuum_progress::{self as shown, Phase};
use crate::vm;

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
        let to_scan = self.blocks_to_scan(backend, blocks, job)?;
        let mut vacuum = self.begin_vacuum(backend, job, indexes, blocks)?;
        let mut stream = ReadStream::new(
            &self.pool,
            self.locator,
            Fork::Main,
            to_scan,
            StreamFlags::MAINTENANCE,
            job.strategy,
            job.stream,
        );
        let mut mapped = 0;
        while let Some((pin, eagerly)) = stream.next_with_data(backend)? {
            let (block, was_dirty) = (pin.tag().block, pin.is_dirty());
            backend.progress.set(shown::BLOCKS_SCANNED, block.into());
            let visited = vacuum.visit(backend, &pin, job.aggressive, interrupt)?;
            vacuum.report.eager += u32::from(eagerly);
            if eagerly
                && let Some(frozen) = visited
                && let Some(all) = stream.source_mut().note_eager(frozen)
            {
                vacuum.report.eager_end = Some(all);
            }
            let dirtied = pin.is_dirty() && !was_dirty;
            drop(pin);
            pace(backend, PageCost { dirtied })?;
            let ends_round = vacuum.has_no_room();
            if ends_round {
                vacuum.end_round(backend, job, false, pace)?;
                backend.progress.set(shown::PHASE, Phase::ScanTable as u64);
            }
            if ends_round || block - mapped >= MAP_EVERY {
                self.update_free_space_map(backend, mapped..block + 1, pace)?;
                mapped = block + 1;
            }
        }
        let skips_visible = stream.source_mut().skips_visible;
        drop(stream);
        backend.progress.set(shown::BLOCKS_SCANNED, blocks.into());
        vacuum.end_round(backend, job, true, pace)?;
        backend.progress.set(shown::BLOCKS_VACUUMED, blocks.into());
        if mapped < blocks {
            self.update_free_space_map(backend, mapped..blocks, pace)?;
        }
        self.space.note_map(true);
        vacuum.clean_up_indexes(backend, pace)?;
        let Vacuum { mut report, pages, .. } = vacuum;
        report.remaining = (!skips_visible).then_some(pages.remaining);
        Ok(report)
    }

    /// A vacuum of so many blocks, before the first one is read.
    fn begin_vacuum<'a>(
        &self,
        backend: &Backend,
        job: &VacuumJob,
        indexes: Option<IndexesJob<'a>>,
        blocks: BlockNumber,
    ) -> Result<Vacuum<'a>, AccessError> {
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
        let report = VacuumReport { pages: blocks, ..VacuumReport::default() };
        backend.progress.set_all(&[
            (shown::PHASE, Phase::ScanTable as u64),
            (shown::BLOCKS_TOTAL, blocks.into()),
        ]);
        Ok(Vacuum { pages, report, indexes })
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

    /// The blocks to read.
    fn blocks_to_scan(
        &self,
        backend: &mut Backend,
        blocks: BlockNumber,
        job: &VacuumJob,
    ) -> Result<ScanBlocks, AccessError> {
        let mut scan = ScanBlocks::new(job.skip_pages, job.aggressive);
        // The map may not have the page.
        let mut map: Option<(BlockNumber, Option<Pinned>)> = None;
        for block in 0..blocks {
            let map_block = map::map_block(block);
            if map.as_ref().is_none_or(|(of, _)| *of != map_block) {
                map = Some((map_block, vm::pin(&self.pool, backend, self.locator, block)?));
            }
            let pin = map.as_ref().and_then(|(_, pin)| pin.as_ref());
            scan.push(pin.map_or(0, |pin| vm::bits(pin, block)));
        }
        if !job.aggressive && job.cutoffs.has_old_ids() {
            // Any number does for the first region's end.
            scan.read_eagerly(job.eager_failure_rate, job.cutoffs.oldest_xid);
        }
        Ok(scan)
    }

    /// Numbers of all-visible and of all-frozen pages.
    pub fn marked_pages(&self, backend: &mut Backend) -> Result<(u32, u32), AccessError> {
        Ok(vm::count(&self.pool, backend, self.locator)?)
    }
}
