//! Writes that make buffers reusable: of dirty victims, and of what a load or vacuum has filled.
//!
//! A search for a victim avoids waiting for writes. It starts the write of a dirty victim and moves
//! on to a clean one. If the log is not yet durable up to the victim's LSN, it only moves on: the
//! cleaner flushes the log. A search that meets many dirty victims waits for the first of its
//! writes; a counter tells how often.
//!
//! If such a write fails, the error is reported when the page is written again: by the checkpoint,
//! or by a search that waits and finds that all of its writes have failed.

use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, refcount};
use super::run::Run;
use super::trail::Trail;
use crate::error::StorageError;
use forebay_aio::{self as aio, IoContext, WaitRef};
use smallvec::SmallVec;

/// How much a load or vacuum writes behind itself at a time, in writes of full size.
const WRITES_BEHIND: usize = 8;
/// Writes that a search for a victim starts before it waits for one of them.
const STARTED_BY_A_SEARCH: usize = 8;
/// Pages with an LSN that is not durable that a search passes over before it flushes the log.
const PASSED_BY_A_SEARCH: u32 = 64;

/// What a search for a victim has done about dirty buffers.
#[derive(Default)]
pub(crate) struct VictimWrites {
    /// The writes, and the victim that each was started for.
    writes: SmallVec<[(WaitRef, Run, u32); STARTED_BY_A_SEARCH]>,
    passed: u32,
}

impl VictimWrites {
    /// Whether the search has started as many writes as it may.
    pub(crate) fn is_full(&self) -> bool {
        self.writes.len() == STARTED_BY_A_SEARCH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl BufferPool {
    /// Passes over a dirty victim that the caller has pinned. Starts its write, together with dirty
    /// neighbours that are not needed soon. Takes over the pin.
    pub(crate) fn pass_over(
        &self,
        io: &mut aio::IoBackend,
        buf: u32,
        context: IoContext,
        started: &mut VictimWrites,
    ) -> Result<(), StorageError> {
        self.cleaner_wakeup.wake();
        if !self.lock_pinned_dirty(buf) {
            self.core.unpin(buf);
            return Ok(());
        }
        // The pin goes over to the write.
        let run = self.gather_run(buf);
        if started.passed < PASSED_BY_A_SEARCH && !self.is_log_durable(self.run_lsn(&run)) {
            started.passed += 1;
            self.release_run(&run);
            return Ok(());
        }
        self.counters.victims_dirty.add(1);
        let wait = self.start_run(io, &run, context)?;
        started.writes.push((wait, run, buf));
        Ok(())
    }

    /// Waits for the first of the search's writes, and pins its victim if it is idle. A failed
    /// write is ignored if another one succeeds.
    pub(crate) fn await_started(
        &self,
        io: &mut aio::IoBackend,
        started: &mut VictimWrites,
    ) -> Result<Option<u32>, StorageError> {
        let mut failure = None;
        while !started.writes.is_empty() {
            let (wait, run, victim) = started.writes.remove(0);
            self.counters.victims_waited.add(1);
            match self.finish_run(io, wait, &run) {
                Ok(()) => {
                    let state = self.desc(victim).load();
                    let idle = state & DIRTY == 0 && self.desc(victim).claim(state);
                    return Ok(idle.then_some(victim));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// Ends the search: nobody waits for its writes.
    pub(crate) fn forget_writes(&self, io: &mut aio::IoBackend, started: VictimWrites) {
        started.writes.into_iter().for_each(|(wait, ..)| io.forget(wait));
    }

    /// Collects the run around a pinned page if it is dirty and not locked. The run has its own
    /// pin.
    fn take_run(&self, buf: u32) -> Option<Run> {
        if !self.lock_pinned_dirty(buf) {
            return None;
        }
        self.desc(buf).pin_again();
        Some(self.gather_run(buf))
    }

    /// Writes a dirty buffer that the caller has pinned, and waits. Returns false if it is locked.
    pub(crate) fn clean_victim(
        &self,
        io: &mut aio::IoBackend,
        buf: u32,
        context: IoContext,
    ) -> Result<bool, StorageError> {
        let Some(run) = self.take_run(buf) else { return Ok(self.desc(buf).load() & DIRTY == 0) };
        io.submit();
        let wait = self.start_run(io, &run, context)?;
        self.counters.victims_waited.add(1);
        self.finish_run(io, wait, &run).map(|()| true)
    }

    /// Starts to write the oldest dirty buffers of a trail. If the log is not durable up to their
    /// LSN it is flushed for the older half: the flush serves all others, so there are half as
    /// many.
    pub(super) fn write_behind(&self, io: &mut aio::IoBackend, trail: &Trail, context: IoContext) {
        let most = WRITES_BEHIND * self.run_limit();
        for (n, buf) in trail.oldest(most).enumerate() {
            // The trail may have been left in another pool.
            let Some(desc) = self.core.descs.get(buf as usize) else { return };
            let state = desc.load();
            if self.is_in_demand(state) || refcount(state) > 0 || !desc.pin_if(DIRTY) {
                continue;
            }
            if !self.lock_pinned_dirty(buf) {
                self.core.unpin(buf);
                continue;
            }
            let run = self.gather_run(buf);
            if n >= most / 2 && !self.is_log_durable(self.run_lsn(&run)) {
                self.release_run(&run);
                return;
            }
            match self.start_run(io, &run, context) {
                Ok(wait) => io.forget(wait),
                Err(_) => return,
            }
        }
    }
}
