//! The search for a victim: a buffer for a new page, from a ring or from the clock sweep.
//!
//! The clock's hand lowers usage counts as it passes, and stops at an unpinned buffer with count 0.
//! If that buffer is dirty, its write is started and the hand moves on. If it is clean, it is taken
//! out of the page table. It then belongs to the caller alone: pinned once, without a tag.

use super::buffer_pool::BufferPool;
use super::desc::{
    DIRTY, Descriptor, IO_ERROR, READING, REF_ONE, TAG_VALID, USAGE_MASK, USAGE_ONE, VALID,
    WRITING, refcount, usage,
};
use super::strategy::{Ring, Strategy};
use super::table;
use super::victim_writes::VictimWrites;
use crate::error::StorageError;
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::{self as aio, IoContext, IoOp};

/// What became of a candidate that the caller had pinned alone.
pub(crate) enum Claim {
    /// It is the caller's. It contained a page before.
    Evicted,
    /// It is the caller's. It was empty.
    Empty,
    /// Another thread wanted it.
    Lost,
}

/// A step of the search for a victim.
enum Candidate {
    /// An idle buffer, which the caller has pinned now.
    Pinned(u32),
    /// A buffer may have become free.
    LookAgain,
    /// All buffers are pinned, and the caller does not wait.
    None,
}

impl BufferPool {
    /// Finds a buffer that belongs to the caller alone. None if all are pinned and the caller must
    /// not wait.
    pub(super) fn take_victim(
        &self,
        io: &mut aio::IoBackend,
        strategy: Strategy,
        ring: &mut Ring,
        may_wait: bool,
    ) -> Result<Option<u32>, StorageError> {
        let context = strategy.context();
        self.counters.allocated.add(1);
        let turn = ring.advance();
        if ring.is_nth_turn(self.run_limit())
            && matches!(strategy, Strategy::BulkWrite | Strategy::Vacuum { .. })
        {
            self.write_ahead_of_ring(io, ring, context);
        }
        // A buffer that cannot be cleaned, or that others want, leaves the ring.
        if let Some(buf) = turn
            && self.claim_ring_buffer(io, buf)
            && let Ok(Claim::Evicted | Claim::Empty) = self.clean_and_evict(io, buf, context)
        {
            io.count(self.object(), context, IoOp::Reuse, 1);
            return Ok(Some(buf));
        }
        let mut started = VictimWrites::default();
        let found = self.search(io, context, may_wait, &mut started);
        self.forget_writes(io, started);
        if let Ok(Some(buf)) = found {
            ring.remember(buf);
        }
        found
    }

    /// Moves the clock's hand until a clean buffer belongs to the caller.
    fn search(
        &self,
        io: &mut aio::IoBackend,
        context: IoContext,
        may_wait: bool,
        started: &mut VictimWrites,
    ) -> Result<Option<u32>, StorageError> {
        loop {
            let buf = match self.candidate(io, may_wait, started)? {
                Candidate::Pinned(buf) => buf,
                Candidate::LookAgain => continue,
                Candidate::None => return Ok(None),
            };
            if self.desc(buf).load() & DIRTY != 0 {
                if started.is_full() {
                    // The caller must not wait for one of its writes.
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

    /// Finds the next candidate.
    fn candidate(
        &self,
        io: &mut aio::IoBackend,
        may_wait: bool,
        started: &mut VictimWrites,
    ) -> Result<Candidate, StorageError> {
        if started.is_full()
            && may_wait
            && let Some(buf) = self.await_started(io, started)?
        {
            return Ok(Candidate::Pinned(buf));
        }
        if let Some(buf) = self.sweep() {
            return Ok(Candidate::Pinned(buf));
        }
        if !may_wait {
            return Ok(Candidate::None);
        }
        if started.is_empty() {
            self.await_buffer(io)?;
            return Ok(Candidate::LookAgain);
        }
        // All are pinned, some of them by writes of this search.
        Ok(self.await_started(io, started)?.map_or(Candidate::LookAgain, Candidate::Pinned))
    }

    /// Completes an I/O that pins a buffer; if there is none, sleeps until a pin is released.
    #[cold]
    fn await_buffer(&self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        io.submit();
        let in_flight = |desc: &Descriptor| match desc.load() & (READING | WRITING) {
            0 => None,
            _ => desc.io(),
        };
        match self.core.descs.iter().find_map(in_flight) {
            Some(wait) => {
                io.wait_and_keep(wait);
                Ok(())
            }
            None => self.core.budget.await_buffer(io.slot(), &self.core.descs),
        }
    }

    /// Pins the ring's buffer if nobody uses it. Waits for its write, which the ring started.
    fn claim_ring_buffer(&self, io: &mut aio::IoBackend, buf: u32) -> bool {
        let desc = self.desc(buf);
        if desc.load() & WRITING != 0
            && let Some(wait) = desc.io()
        {
            if !io.is_done(wait) {
                self.counters.ring_waited.add(1);
            }
            io.wait_and_keep(wait);
        }
        desc.pin_where(|s| refcount(s) == 0 && usage(s) <= 1)
    }

    /// Moves the clock's hand to the next unpinned buffer with usage count 0, and pins it. None if
    /// all buffers were pinned during a whole round.
    fn sweep(&self) -> Option<u32> {
        let buffers = self.core.descs.len() as u64;
        let mut pinned_in_a_row = 0;
        while pinned_in_a_row < buffers {
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            if self.cleaner_wakeup.is_due(hand) {
                self.cleaner_wakeup.wake();
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

    /// Writes a pinned candidate if it is dirty, and evicts its page. After an error or a loss the
    /// caller's pin is released.
    pub(crate) fn clean_and_evict(
        &self,
        io: &mut aio::IoBackend,
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

    /// Takes a clean buffer out of the page table, if the caller's pin is the only one.
    fn evict(&self, buf: u32) -> Claim {
        let desc = self.desc(buf);
        if desc.load() & TAG_VALID == 0 {
            // Only the clock and rings reach buffers without a tag. The first to pin one owns it.
            return if refcount(desc.load()) == 1 { Claim::Empty } else { Claim::Lost };
        }
        if self.remove_from_table(buf, DIRTY) { Claim::Evicted } else { Claim::Lost }
    }

    /// Removes a buffer's tag, if the caller's pin is the only one and the state contains neither
    /// an I/O nor any flag of `unless`.
    pub(crate) fn remove_from_table(&self, buf: u32, unless: u64) -> bool {
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
