//! Writes that make buffers reusable: of victims that the clock's hand meets dirty, and ahead of a
//! ring's turn.
//!
//! Nobody waits for them if that can be avoided. A victim that is dirty has its write started and
//! is passed over; the hand goes on to a clean one. A page that the log does not cover yet is only
//! passed over: the cleaner flushes the log. Only who meets many dirty ones in one search waits,
//! for the first of those it started, and is counted. A write that failed shows when the page is
//! written again: by the checkpoint, or by who then waits and finds that all it started have
//! failed.

use super::super::desc::{DIRTY, refcount, usage};
use super::super::{BufferPool, Ring};
use super::run::Run;
use crate::error::StorageError;
use forebay_aio::{self as aio, IoContext, WaitRef};
use smallvec::SmallVec;

/// How far ahead of its need, in writes of full size, a ring that dirties its pages writes them.
const RING_WRITES_AHEAD: usize = 8;
/// Writes that one search for a victim starts before it waits for one of them.
const STARTED_BY_A_SEARCH: usize = 8;
/// Pages not covered by the log that one search passes over before it flushes the log itself.
const PASSED_BY_A_SEARCH: u32 = 64;

/// What one search for a victim has done about dirty buffers.
#[derive(Default)]
pub(crate) struct Started {
    writes: SmallVec<[(WaitRef, Run); STARTED_BY_A_SEARCH]>,
    passed: u32,
}

impl Started {
    /// More would be too many: time to wait for one.
    pub(crate) fn is_full(&self) -> bool {
        self.writes.len() == STARTED_BY_A_SEARCH
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl BufferPool {
    /// Passes over a dirty victim that the caller has pinned: starts its write, and that of dirty
    /// neighbours that nobody needs soon. Takes over the pin.
    pub(crate) fn pass_over(
        &self,
        io: &mut aio::Backend,
        buf: u32,
        context: IoContext,
        started: &mut Started,
    ) -> Result<(), StorageError> {
        self.demand.call();
        if !self.lock_pinned_dirty(buf) {
            self.core.unpin(buf);
            return Ok(());
        }
        // The pin goes to the write.
        let run = self.gather_run(buf);
        if started.passed < PASSED_BY_A_SEARCH && !self.is_log_durable(self.run_lsn(&run)) {
            started.passed += 1;
            self.release_run(&run);
            return Ok(());
        }
        self.counters.victim_dirty();
        let wait = self.start_run(io, &run, context)?;
        started.writes.push((wait, run));
        Ok(())
    }

    /// Waits for the first of the writes that a search has started, and takes one of its buffers if
    /// it can. One that failed is no reason to fail, as long as another one did not.
    pub(crate) fn await_started(
        &self,
        io: &mut aio::Backend,
        started: &mut Started,
    ) -> Result<Option<u32>, StorageError> {
        let mut failure = None;
        while !started.is_empty() {
            let (wait, run) = started.writes.remove(0);
            self.counters.victim_waited();
            match self.finish_run(io, wait, &run) {
                Ok(()) => {
                    let idle = |s| s & DIRTY == 0 && refcount(s) == 0 && usage(s) <= 1;
                    return Ok(run
                        .bufs
                        .iter()
                        .copied()
                        .find(|&buf| self.desc(buf).pin_alone(idle)));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    /// The search is over: nobody waits for its writes.
    pub(crate) fn leave_started(&self, io: &mut aio::Backend, started: Started) {
        started.writes.into_iter().for_each(|(wait, _)| io.forget(wait));
    }

    /// The run around a pinned page, if it is dirty and not locked; with a pin of its own.
    fn take_run(&self, buf: u32) -> Option<Run> {
        if !self.lock_pinned_dirty(buf) {
            return None;
        }
        self.desc(buf).pin_again();
        Some(self.gather_run(buf))
    }

    /// Writes a dirty buffer, pinned by the caller, and waits for it. False if it is locked.
    pub(crate) fn clean_victim(
        &self,
        io: &mut aio::Backend,
        buf: u32,
        context: IoContext,
    ) -> Result<bool, StorageError> {
        let Some(run) = self.take_run(buf) else { return Ok(self.desc(buf).load() & DIRTY == 0) };
        io.submit();
        let wait = self.start_run(io, &run, context)?;
        self.counters.victim_waited();
        self.finish_run(io, wait, &run).map(|()| true)
    }

    /// Starts writes of the ring's next dirty buffers, so that they are clean when their turn
    /// comes.
    pub(crate) fn write_ahead_of_ring(
        &self,
        io: &mut aio::Backend,
        ring: &Ring,
        context: IoContext,
    ) {
        for buf in ring.upcoming(RING_WRITES_AHEAD * self.run_limit()) {
            let desc = self.desc(buf);
            if usage(desc.load()) > 1 || refcount(desc.load()) > 0 || !desc.pin_if(DIRTY) {
                continue;
            }
            if !self.lock_pinned_dirty(buf) {
                self.core.unpin(buf);
                continue;
            }
            let run = self.gather_run(buf);
            match self.start_run(io, &run, context) {
                Ok(wait) => io.forget(wait),
                Err(_) => return,
            }
        }
    }
}
