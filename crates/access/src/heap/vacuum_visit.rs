//! The first pass of a vacuum over a page: cleaning it, or looking at it if somebody uses it, and
//! both maps.

use std::sync::Arc;

use forebay_format::BlockNumber;
use forebay_format::visibility_map::{ALL_FROZEN, ALL_VISIBLE, VALID_BITS};
use forebay_storage::progress::Progress;
use forebay_storage::{Backend, PageWriteGuard, Pinned};
use forebay_txn::locks::Interrupt;

use super::relation::Heap;
use super::space::EMPTY;
use super::vacuum_job::{IndexCleanup, IndexesJob, VacuumReport};
use super::vacuum_page::{Outcome, PageVacuum};
use crate::error::AccessError;
use crate::vacuum_progress as shown;
use crate::vm;

/// A vacuum in progress.
#[derive(Debug)]
pub(super) struct Vacuum<'a> {
    pub(super) pages: PageVacuum,
    pub(super) report: VacuumReport,
    /// None: the table has no indexes.
    pub(super) indexes: Option<IndexesJob<'a>>,
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

impl Vacuum<'_> {
    pub(super) fn heap(&self) -> &Heap {
        &self.pages.pruner.heap
    }

    /// The page of the visibility map that has a block's bits. It is not kept for the next page: a
    /// vacuum that pauses would keep the pool from becoming smaller.
    pub(super) fn map_page(
        &self,
        backend: &mut Backend,
        block: BlockNumber,
    ) -> Result<Pinned, AccessError> {
        let heap = self.heap();
        Ok(vm::pin_or_make(&heap.pool, backend, heap.locator, block)?)
    }

    /// Vacuums a page. Returns whether it is newly all-frozen. None: somebody uses it.
    pub(super) fn visit(
        &mut self,
        backend: &mut Backend,
        pin: &Pinned,
        aggressive: bool,
        interrupt: &Interrupt,
    ) -> Result<Option<bool>, AccessError> {
        self.report.scanned += 1;
        let frozen = |report: &VacuumReport| report.marked[1] + report.marked[2];
        let (before, mut cleaned) = (frozen(&self.report), true);
        self.pages.dead.clear();
        let block = pin.tag().block;
        let map = self.map_page(backend, block)?;
        self.heap().ensure_log_room_to_delete(backend)?;
        let free = match pin.try_lock_cleanup() {
            Some(guard) => self.clean(backend, guard, pin, &map)?,
            None => match self.look(backend, pin, aggressive)? {
                Some(free) => {
                    cleaned = false;
                    free
                }
                None => {
                    let guard = wait_for(backend, pin, interrupt)?;
                    self.clean(backend, guard, pin, &map)?
                }
            },
        };
        drop(map);
        let comes_again = self.keep_dead_items(&backend.progress, block);
        if let Some(free) = free.filter(|_| !comes_again) {
            self.heap().free_space_map().record(backend, block, free)?;
        }
        Ok(cleaned.then(|| frozen(&self.report) > before))
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
    pub(super) fn mark(
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
        if !outcome.all_visible || self.heap().logged && guard.page().lsn().0 == 0 {
            return Ok(());
        }
        let (bits, horizon) = match outcome.all_frozen {
            true => (VALID_BITS, 0),
            false => (ALL_VISIBLE, outcome.youngest),
        };
        self.heap().set_visible(backend, guard, map, horizon, bits)?;
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

    /// Keeps the dead line pointers of the page that was looked at. Returns whether the page comes
    /// again.
    fn keep_dead_items(&mut self, progress: &Progress, block: BlockNumber) -> bool {
        let dead = &self.pages.dead;
        let Some(job) = self.indexes.as_mut().filter(|_| !dead.is_empty()) else { return false };
        self.report.dead_items.0 += dead.len() as u64;
        self.report.dead_items.1 += 1;
        let wanted = job.cleanup != IndexCleanup::Off;
        if wanted {
            job.dead.add(block, dead);
            progress.set_all(&[
                (shown::DEAD_ITEMS, job.dead.len()),
                (shown::DEAD_BYTES, job.dead.memory() as u64),
            ]);
        }
        wanted
    }
}

/// Waits until nobody else uses a page. A cursor that reads ahead may use it for long.
pub(crate) fn wait_for<'a>(
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
