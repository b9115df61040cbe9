//! Vacuum of a table with indexes: rounds in which dead line pointers go.
//!
//! ```text
//!   dead line pointers ─▶ indexes: their entries go ─▶ pages: they become unused ─▶ both maps
//! ```
//!
//! A line pointer must not be used again while an index has an entry for it. So the second pass
//! over the pages comes when all indexes are done. If only few pages have dead line pointers, they
//! stay until a later vacuum.

use forebay_format::{Fork, OffsetNumber};
use forebay_storage::{Backend, Pinned, ReadStream, StreamFlags, WithData};

use super::dead_items::DeadItems;
use super::vacuum_job::{IndexCleanup, IndexesJob, Pace, PageCost, Removed, VacuumJob};
use super::vacuum_visit::Vacuum;
use crate::error::AccessError;
use crate::vacuum_progress::{self as shown, Phase};

/// The part of a table's pages below which dead line pointers may stay.
const FEW_PAGES: f64 = 0.02;
/// Bytes of dead line pointers that may stay.
const FEW_BYTES: usize = 32 << 20;

impl Vacuum<'_> {
    /// Whether a round must be ended before there is room for the dead line pointers of a page.
    pub(super) fn has_no_room(&self) -> bool {
        self.indexes.as_ref().is_some_and(|job| job.dead.is_full())
    }

    /// Removes the dead line pointers found so far, from the indexes and from the table. At the
    /// end of a table a few may stay, if it is the first round.
    pub(super) fn end_round(
        &mut self,
        backend: &mut Backend,
        job: &VacuumJob,
        at_end: bool,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        let Some(IndexesJob { indexes, cleanup, dead }) = &mut self.indexes else { return Ok(()) };
        if *cleanup == IndexCleanup::Off {
            self.report.bypassed = true;
        }
        let dead = dead.take();
        if dead.is_empty() {
            return Ok(());
        }
        let few = f64::from(self.report.dead_items.1) < f64::from(self.report.pages) * FEW_PAGES
            && dead.memory() < FEW_BYTES;
        if at_end && few && *cleanup == IndexCleanup::Auto && self.report.index_scans == 0 {
            self.report.bypassed = true;
            return Ok(());
        }
        backend.progress.set(shown::PHASE, Phase::VacuumIndexes as u64);
        let removed = indexes.remove(backend, &dead, pace)?;
        if removed != Removed::None {
            self.report.index_scans += 1;
            backend.progress.set(shown::INDEX_VACUUMS, self.report.index_scans.into());
        }
        if removed != Removed::All {
            *cleanup = IndexCleanup::Off;
            self.report.bypassed = true;
            return Ok(());
        }
        backend.progress.set(shown::PHASE, Phase::VacuumTable as u64);
        self.free_all(backend, job, &dead, pace)
    }

    /// Ends the vacuum of the indexes.
    pub(super) fn clean_up_indexes(
        &mut self,
        backend: &mut Backend,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        match &mut self.indexes {
            Some(job) if job.cleanup != IndexCleanup::Off => {
                backend.progress.set(shown::PHASE, Phase::CleanUpIndexes as u64);
                job.indexes.clean_up(backend, pace)
            }
            _ => Ok(()),
        }
    }

    /// The second pass: makes dead line pointers unused.
    fn free_all(
        &mut self,
        backend: &mut Backend,
        job: &VacuumJob,
        dead: &DeadItems,
        pace: Pace<'_>,
    ) -> Result<(), AccessError> {
        let mut blocks = dead.blocks();
        let heap = self.heap();
        let mut stream = ReadStream::new(
            &heap.pool,
            heap.locator,
            Fork::Main,
            WithData(move || blocks.next()),
            StreamFlags::MAINTENANCE,
            job.strategy,
            job.stream,
        );
        while let Some((pin, offsets)) = stream.next_with_data(backend)? {
            let was_dirty = pin.is_dirty();
            backend.progress.set(shown::BLOCKS_VACUUMED, pin.tag().block.into());
            self.free(backend, &pin, offsets)?;
            let dirtied = pin.is_dirty() && !was_dirty;
            drop(pin);
            pace(backend, PageCost { dirtied })?;
        }
        Ok(())
    }

    fn free(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        offsets: Vec<OffsetNumber>,
    ) -> Result<(), AccessError> {
        let block = pin.tag().block;
        let map = self.map_page(backend, block)?;
        self.heap().ensure_log_room_to_delete(backend)?;
        let mut guard = pin.lock_exclusive();
        let outcome = self.pages.free(backend, &mut guard, offsets)?;
        self.mark(backend, &mut guard, &map, &outcome)?;
        let free = guard.page().heap_free_space();
        drop(guard);
        drop(map);
        Ok(self.heap().free_space_map().record(backend, block, free)?)
    }
}
