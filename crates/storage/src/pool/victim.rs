//! A buffer for a new page: the ring's next one, or what the clock sweep finds.
//!
//! The hand lowers usage counts as it passes and stops at an unpinned buffer with count 0. A dirty
//! one has its write started and is passed over; a clean one is taken out of the page table and
//! belongs to the caller alone: pinned once, without a tag.

use super::desc::{
    DIRTY, Descriptor, IO_ERROR, READING, REF_ONE, TAG_VALID, USAGE_MASK, USAGE_ONE, VALID,
    WRITING, refcount, usage,
};
use super::write::Started;
use super::{BufferPool, Ring, Strategy, table};
use crate::error::StorageError;
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::{self as aio, IoContext, IoOp};

/// What became of a candidate that a thread had pinned alone.
pub(super) enum Claim {
    /// It is the caller's, and held a page before.
    Evicted,
    /// It is the caller's, and was empty.
    Empty,
    /// Someone else wanted it; the pin is given back.
    Lost,
}

/// Where a search for a victim may go on.
enum Candidate {
    /// A buffer that was idle, pinned by the caller now.
    Pinned(u32),
    /// Something has changed.
    LookAgain,
    /// Without waiting there is nothing to be had.
    Nowhere,
}

impl BufferPool {
    /// A buffer that belongs to the caller alone. None if all are pinned and the caller is not
    /// `patient`.
    pub(super) fn take_victim(
        &self,
        io: &mut aio::Backend,
        strategy: Strategy,
        ring: &mut Ring,
        patient: bool,
    ) -> Result<Option<u32>, StorageError> {
        let context = strategy.context();
        self.counters.allocated();
        let turn = ring.advance();
        if ring.begins_stretch(self.run_limit())
            && matches!(strategy, Strategy::BulkWrite | Strategy::Vacuum)
        {
            self.write_ahead_of_ring(io, ring, context);
        }
        // A buffer that can't be cleaned leaves the ring, as one that others want does.
        if let Some(buf) = turn
            && self.claim_ring_buffer(io, buf)
            && let Ok(Claim::Evicted | Claim::Empty) = self.clean_and_evict(io, buf, context)
        {
            io.count(self.object(), context, IoOp::Reuse, 1);
            return Ok(Some(buf));
        }
        let mut started = Started::default();
        let found = self.search(io, context, patient, &mut started);
        self.leave_started(io, started);
        if let Ok(Some(buf)) = found {
            ring.remember(buf);
        }
        found
    }

    /// Goes on with the clock's hand until a clean buffer is the caller's own.
    fn search(
        &self,
        io: &mut aio::Backend,
        context: IoContext,
        patient: bool,
        started: &mut Started,
    ) -> Result<Option<u32>, StorageError> {
        loop {
            let buf = match self.candidate(io, patient, started)? {
                Candidate::Pinned(buf) => buf,
                Candidate::LookAgain => continue,
                Candidate::Nowhere => return Ok(None),
            };
            if self.desc(buf).load() & DIRTY != 0 {
                if started.is_full() {
                    // Not patient: there is no time for more.
                    self.core.unpin(buf);
                    return Ok(None);
                }
                self.pass_over(io, buf, context, started)?;
                continue;
            }
            match self.evict(buf) {
                Claim::Lost => self.core.unpin(buf),
                Claim::Evicted => {
                    io.count(self.object(), context, IoOp::Evict, 1);
                    return Ok(Some(buf));
                }
                Claim::Empty => return Ok(Some(buf)),
            }
        }
    }

    /// The next buffer that may do.
    fn candidate(
        &self,
        io: &mut aio::Backend,
        patient: bool,
        started: &mut Started,
    ) -> Result<Candidate, StorageError> {
        if started.is_full()
            && patient
            && let Some(buf) = self.await_started(io, started)?
        {
            return Ok(Candidate::Pinned(buf));
        }
        if let Some(buf) = self.sweep() {
            return Ok(Candidate::Pinned(buf));
        }
        if !patient {
            return Ok(Candidate::Nowhere);
        }
        if started.is_empty() {
            self.await_buffer(io)?;
            return Ok(Candidate::LookAgain);
        }
        // All are pinned, some by our own writes.
        Ok(self.await_started(io, started)?.map_or(Candidate::LookAgain, Candidate::Pinned))
    }

    /// All buffers are pinned: ends an I/O that pins one, or sleeps until a pin is given back.
    #[cold]
    fn await_buffer(&self, io: &mut aio::Backend) -> Result<(), StorageError> {
        io.submit();
        let in_flight = |desc: &Descriptor| match desc.load() & (READING | WRITING) {
            0 => None,
            _ => desc.io(),
        };
        match self.core.descs.iter().find_map(in_flight) {
            Some(wait) => {
                io.wait(wait);
                Ok(())
            }
            None => self.core.budget.await_buffer(io.slot(), &self.core.descs),
        }
    }

    /// Pins the ring's buffer if nobody uses it; waits for its write-out, which the ring itself
    /// began.
    fn claim_ring_buffer(&self, io: &mut aio::Backend, buf: u32) -> bool {
        let desc = self.desc(buf);
        if desc.load() & WRITING != 0
            && let Some(wait) = desc.io()
        {
            if !io.is_done(wait) {
                self.counters.ring_waited();
            }
            io.wait(wait);
        }
        desc.pin_alone(|s| refcount(s) == 0 && usage(s) <= 1)
    }

    /// Moves the clock's hand to the next unpinned buffer with usage count 0, and pins it. None if
    /// a whole round met pinned buffers only.
    fn sweep(&self) -> Option<u32> {
        let buffers = self.core.descs.len() as u64;
        let mut pinned_in_a_row = 0;
        while pinned_in_a_row < buffers {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            if self.demand.is_due(hand) {
                self.demand.call();
            }
            let at = (hand % buffers) as usize;
            let desc = &self.core.descs[at];
            let state = desc.state.load(Ordering::Relaxed);
            if refcount(state) != 0 {
                pinned_in_a_row += 1;
                continue;
            }
            pinned_in_a_row = 0;
            let claimed = usage(state) == 0;
            let next = if claimed { state + REF_ONE } else { state - USAGE_ONE };
            let swapped = desc
                .state
                .compare_exchange(state, next, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
            if claimed && swapped {
                return Some(at as u32);
            }
        }
        None
    }

    /// Makes a candidate, pinned by the caller, the caller's own. After an error or a loss its pin
    /// is given back.
    pub(super) fn clean_and_evict(
        &self,
        io: &mut aio::Backend,
        buf: u32,
        context: IoContext,
    ) -> Result<Claim, StorageError> {
        if self.desc(buf).load() & DIRTY != 0 {
            match self.clean_victim(io, buf, context) {
                Ok(true) => {}
                Ok(false) => {
                    self.core.unpin(buf);
                    return Ok(Claim::Lost);
                }
                Err(error) => {
                    self.core.unpin(buf);
                    return Err(error);
                }
            }
        }
        let claim = self.evict(buf);
        if let Claim::Lost = claim {
            self.core.unpin(buf);
        }
        Ok(claim)
    }

    /// Takes a clean buffer, pinned by the caller only, out of the page table.
    fn evict(&self, buf: u32) -> Claim {
        let desc = self.desc(buf);
        if desc.load() & TAG_VALID == 0 {
            // Only the clock and rings reach buffers without a tag, and the first to pin it has it.
            return if refcount(desc.load()) == 1 { Claim::Empty } else { Claim::Lost };
        }
        if self.remove_from_table(buf, DIRTY) { Claim::Evicted } else { Claim::Lost }
    }

    /// Takes a buffer's tag away, if the caller's pin is the only one and none of `unless` nor an
    /// I/O is set.
    pub(super) fn remove_from_table(&self, buf: u32, unless: u64) -> bool {
        let desc = self.desc(buf);
        let tag = desc.tag();
        let hash = table::hash_tag(&tag);
        let bucket = self.table.lock(&self.core.descs, hash);
        let taken = desc.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |s| {
            let free =
                refcount(s) == 1 && s & TAG_VALID != 0 && s & (READING | WRITING | unless) == 0;
            free.then_some(s & !(TAG_VALID | VALID | DIRTY | IO_ERROR | USAGE_MASK))
        });
        if taken.is_err() {
            return false;
        }
        let known = bucket.remove(buf);
        debug_assert!(known, "a tagged buffer is in the page table");
        true
    }
}
