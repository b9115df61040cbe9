//! The search for a victim: a buffer for a new page.
//!
//! ```text
//!   buffers that are free: those whose pages were forgotten first; where the hand sees none, those
//!     |                    of the queue, whose turns come
//!   hand: looks at 8 buffers of the clock
//!     |
//!     +- the page of one of them gives way -------------------> the new page is on the clock
//!     |
//!     +- none: the oldest page of the queue
//!          |
//!          +- was used again, and a page of the clock gives way to it: they exchange places,
//!          |    and the new page takes the other one's buffer -> the new page is in the queue
//!          +- otherwise it leaves ----------------------------> the new page is in the queue
//! ```
//!
//! `newcomer` decides which page gives way. A dirty victim's write is started, and the search goes
//! on with others. A clean one is taken out of the page table. Its buffer then belongs to the
//! caller alone: pinned once, without a tag. The page becomes a ghost.
//!
//! Pages in the queue may be pinned, as those that a scan reads ahead. If the search finds only
//! such pages there, any page of the clock must give way, and a pinned one takes its place. Only
//! bulk work whose pages are being written waits for that instead: it is faster than the disk.

use super::backend::Backend;
use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, Descriptor, IO_ERROR, READING, TAG_VALID, VALID, WRITING, refcount};
use super::newcomer::Newcomer;
use super::places::WINDOW;
use super::strategy::Strategy;
use super::table;
use super::trace_format::AccessKind;
use super::usage::{Class, OLD, QUEUED, age, elapsed, last_use};
use super::victim_writes::VictimWrites;
use crate::error::StorageError;
use forebay_aio::sync::atomic::Ordering;
use forebay_aio::sync::thread;
use forebay_aio::{self as aio, IoContext, IoOp, WaitRef};

/// What became of a candidate that the caller had pinned alone.
pub(crate) enum Claim {
    /// It is the caller's. It contained a page before.
    Evicted,
    /// It is the caller's. It was empty.
    Empty,
    /// Another thread wanted it.
    Lost,
}

/// A page that was taken out of the page table.
pub(crate) struct Removed {
    hash: u64,
    /// The state word of its buffer before.
    state: u64,
}

/// A search for a victim.
struct Search {
    newcomer: Newcomer,
    context: IoContext,
    /// Whether the caller waits until a buffer is free.
    may_wait: bool,
    started: VictimWrites,
}

/// A step of a search.
enum Candidate {
    /// A buffer that was idle, which the caller has pinned now.
    Pinned(Found),
    /// A buffer may have become free.
    LookAgain,
    /// All buffers are pinned, and the caller does not wait.
    None,
}

/// An idle buffer that a search has pinned.
struct Found {
    buf: u32,
    /// The page of the queue that takes its place on the clock.
    successor: Option<Successor>,
}

impl From<u32> for Found {
    fn from(buf: u32) -> Found {
        Found { buf, successor: None }
    }
}

/// A page of the queue that moves to the clock.
#[derive(Clone, Copy)]
struct Successor {
    buf: u32,
    /// Its turn in the queue.
    turn: u64,
    /// The position on the clock that becomes its place.
    hand: u64,
    /// Its class there.
    class: Class,
}

/// A page in the queue that is in use, or could not be written.
struct Busy {
    buf: u32,
    turn: u64,
    /// Its write, if it is being written.
    write: Option<WaitRef>,
}

/// So many turns of the queue bulk work looks for a page that is being written: more than it pins
/// itself.
const TURNS_OF_BULK: u64 = 16 * WINDOW;

/// A buffer on the clock that the hand has looked at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) buf: u32,
    /// The position of the hand.
    pub(crate) hand: u64,
    pub(crate) state: u64,
}

impl BufferPool {
    /// Finds a buffer that belongs to the caller alone, for a page with this hash or for a new one.
    /// The use that needs the page is counted already. None if all are pinned and the caller must
    /// not wait.
    pub(super) fn take_victim(
        &self,
        backend: &mut Backend,
        strategy: Strategy,
        hash: Option<u64>,
        may_wait: bool,
    ) -> Result<Option<u32>, StorageError> {
        self.counters.allocated.add(1);
        let miss = self.begin_miss(backend);
        let distance = hash.and_then(|hash| self.ghosts.elapsed(hash, miss.needed));
        self.counters.count_ghost(distance, self.places.mean_age());
        let newcomer = Newcomer {
            access: strategy.access(),
            distance: distance.map(|distance| distance.min(OLD)),
            away: strategy.away(self.buffers()),
            now: miss.now,
        };
        let Backend { io, trails, .. } = backend;
        let mut trail = trails.of(strategy, self.buffers());
        if let Some(trail) = &trail
            && trail.is_nth(self.run_limit())
        {
            self.write_behind(io, trail, strategy.context());
        }
        let started = VictimWrites::default();
        let mut search = Search { newcomer, context: strategy.context(), may_wait, started };
        let found = self.search(io, &mut search);
        self.forget_writes(io, search.started);
        if let Ok(Some(buf)) = found {
            self.desc(buf).expect(newcomer.access, newcomer.class(), miss.needed);
            hash.into_iter().for_each(|hash| self.ghosts.forget(hash));
            trail.iter_mut().for_each(|trail| trail.add(buf));
        }
        found
    }

    /// Goes through candidates until a clean buffer belongs to the caller.
    fn search(
        &self,
        io: &mut aio::IoBackend,
        search: &mut Search,
    ) -> Result<Option<u32>, StorageError> {
        loop {
            let found = match self.candidate(io, search)? {
                Candidate::Pinned(found) => found,
                Candidate::LookAgain => continue,
                Candidate::None => return Ok(None),
            };
            let state = self.desc(found.buf).load();
            if state & DIRTY != 0 {
                if search.started.is_full() {
                    // The caller must not wait for one of its writes.
                    self.core.unpin(found.buf);
                    return Ok(None);
                }
                self.pass_over(io, found.buf, search.context, &mut search.started)?;
                continue;
            }
            match self.evict(found.buf) {
                Claim::Lost => self.core.unpin(found.buf),
                claim => {
                    self.count_victim(io, search, &claim, state);
                    found.successor.into_iter().for_each(|next| self.give_place(found.buf, next));
                    return Ok(Some(found.buf));
                }
            }
        }
    }

    /// Counts a victim, whose buffer had this state.
    fn count_victim(&self, io: &mut aio::IoBackend, search: &Search, claim: &Claim, state: u64) {
        if state & QUEUED != 0 {
            self.counters.from_queue.add(1);
        }
        if let Claim::Evicted = claim {
            self.counters.evicted.add(1);
            let bulk = search.newcomer.access != AccessKind::Normal;
            let reused = bulk && state & QUEUED != 0;
            let op = if reused { IoOp::Reuse } else { IoOp::Evict };
            io.count(self.object(), search.context, op, 1);
        }
    }

    /// Finds the next candidate.
    fn candidate(
        &self,
        io: &mut aio::IoBackend,
        search: &mut Search,
    ) -> Result<Candidate, StorageError> {
        if search.started.is_full()
            && search.may_wait
            && let Some(buf) = self.await_started(io, &mut search.started)?
        {
            return Ok(Candidate::Pinned(buf.into()));
        }
        if let Some(buf) = self.freed_buffer().or_else(|| self.free_in_queue()) {
            return Ok(Candidate::Pinned(buf.into()));
        }
        if let Some(look) = self.place_for(&search.newcomer) {
            return Ok(Candidate::Pinned(look.buf.into()));
        }
        let bulk = search.newcomer.access != AccessKind::Normal;
        let busy = match self.next_of_queue(search.newcomer.now, bulk) {
            Ok(found) => return Ok(Candidate::Pinned(found)),
            Err(busy) => busy,
        };
        if bulk && let Some(Busy { buf, write: Some(write), .. }) = busy {
            if !search.may_wait {
                return Ok(Candidate::None);
            }
            self.counters.bulk_waited.add(u64::from(!io.is_done(write)));
            io.wait_and_keep(write);
            let state = self.desc(buf).load();
            let idle = state & DIRTY == 0 && self.desc(buf).claim(state);
            return Ok(if idle { Candidate::Pinned(buf.into()) } else { Candidate::LookAgain });
        }
        if let Some(look) = self.least_on_clock() {
            let class = Class::Unused;
            let successor =
                |Busy { buf, turn, .. }| Successor { buf, turn, hand: look.hand, class };
            let found = Found { buf: look.buf, successor: busy.map(successor) };
            return Ok(Candidate::Pinned(found));
        }
        if !search.may_wait {
            return Ok(Candidate::None);
        }
        // All are pinned, perhaps by writes of this search. One that fails ends the search only if
        // so many others have failed too.
        self.counters.victims_waited.add(u64::from(!search.started.is_empty()));
        self.await_buffer(io)?;
        Ok(Candidate::LookAgain)
    }

    /// Completes an I/O that pins a buffer; if there is none, sleeps until a pin is released.
    #[cold]
    fn await_buffer(&self, io: &mut aio::IoBackend) -> Result<(), StorageError> {
        io.submit();
        // A buffer that is free may be about to have another place, where a search passes it over.
        thread::yield_now();
        let in_flight = |desc: &Descriptor| match desc.load() & (READING | WRITING) {
            0 => None,
            _ => desc.io(),
        };
        match self.core.descs.iter().find_map(in_flight) {
            Some(wait) => {
                io.wait_and_keep(wait);
                Ok(())
            }
            None => {
                let (placed, left) = (|| self.core.placed_descs(), || self.core.left_descs());
                self.core.budget.await_buffer(io.slot(), placed, left)
            }
        }
    }

    /// Pins a buffer that has a place, and whose page was forgotten.
    fn freed_buffer(&self) -> Option<u32> {
        let claim = |buf: &u32| {
            let state = self.desc(*buf).load();
            state & TAG_VALID == 0 && self.desc(*buf).claim(state)
        };
        let mut freed = std::iter::from_fn(|| self.freed.take());
        let found = freed.find(|buf| self.places.include(*buf) && claim(buf))?;
        if self.freed.is_empty() && !self.is_free_at(self.places.hand()) {
            self.demand.tell_now();
        }
        Some(found)
    }

    // ---- the clock

    /// Looks at the buffers of the clock from a position of the hand on. Returns a free one, or
    /// that of the wanted page that is the least worth: unused before used again, then old before
    /// young. Pages in use are left out.
    pub(crate) fn look(&self, hand: u64, now: u64, wanted: impl Fn(u64) -> bool) -> Option<Look> {
        let mut best: Option<(Look, (bool, u64))> = None;
        for hand in hand..hand + WINDOW.min(self.places.clock()) {
            let buf = self.places.on_clock(hand);
            let state = self.desc(buf).load();
            if refcount(state) != 0 || state & QUEUED != 0 {
                continue;
            }
            let look = Look { buf, hand, state };
            if state & TAG_VALID == 0 {
                return Some(look);
            }
            let worth = (Class::of(state) == Class::Unused, age(state, now));
            if wanted(state) && best.is_none_or(|(_, found)| found < worth) {
                best = Some((look, worth));
            }
        }
        best.map(|(look, _)| look)
    }

    /// Moves the hand on, and wakes the cleaner if it is time.
    fn move_hand(&self, to: u64) {
        self.places.move_hand(to);
        self.demand.note(to);
        if self.cleaner_wakeup.is_due(to, self.places.turn()) {
            self.cleaner_wakeup.wake();
        }
    }

    /// Pins a buffer of the clock that is free or whose page gives way, and moves the hand. None if
    /// there is none among those that the hand looks at.
    pub(crate) fn place_for(&self, newcomer: &Newcomer) -> Option<Look> {
        loop {
            let hand = self.places.hand();
            let found = self.look(hand, newcomer.now, |state| newcomer.displaces(state));
            self.move_hand(found.map_or(hand + WINDOW, |look| look.hand + 1));
            let look = found?;
            if self.desc(look.buf).claim(look.state) {
                if look.state & TAG_VALID != 0 {
                    self.places.note_age(age(look.state, newcomer.now));
                }
                return Some(look);
            }
        }
    }

    /// Pins the buffer of any page on the clock, the least worth one that the hand comes by first.
    /// None if all are pinned.
    fn least_on_clock(&self) -> Option<Look> {
        let mut looked = 0;
        while looked < self.places.clock() {
            let hand = self.places.hand();
            let found = self.look(hand, self.time.epoch(), |_| true);
            self.move_hand(found.map_or(hand + WINDOW, |look| look.hand + 1));
            match found {
                Some(look) if self.desc(look.buf).claim(look.state) => return Some(look),
                Some(_) => looked += 1,
                None => looked += WINDOW,
            }
        }
        None
    }

    // ---- the queue

    /// Pins the buffer whose turn is next if it is free, and the hand sees no free one: a page
    /// leaves only when all buffers have pages.
    fn free_in_queue(&self) -> Option<u32> {
        let buf = self.places.in_queue(self.places.turn());
        let state = self.desc(buf).load();
        let free = state & (TAG_VALID | QUEUED) == QUEUED
            && self.look(self.places.hand(), 0, |_| false).is_none()
            && self.desc(buf).claim(state);
        free.then(|| {
            self.places.next_turn();
            buf
        })
    }

    /// Takes turns of the queue until one has a buffer for a new page: that of the oldest page, or
    /// that of the page on the clock which gives way to it. Otherwise returns the oldest page that
    /// it has seen; for bulk work, the oldest that is being written if there is one.
    fn next_of_queue(&self, now: u64, bulk: bool) -> Result<Found, Option<Busy>> {
        let mut busy: Option<Busy> = None;
        for looked in 0..TURNS_OF_BULK.min(self.places.queue()) {
            let is_written = busy.as_ref().is_some_and(|busy| busy.write.is_some());
            if looked >= WINDOW && (is_written || !bulk) {
                break;
            }
            let turn = self.places.next_turn();
            if self.cleaner_wakeup.is_due(self.places.hand(), turn) {
                self.cleaner_wakeup.wake();
            }
            let buf = self.places.in_queue(turn);
            let desc = self.desc(buf);
            let state = desc.load();
            let Class::Queued(access) = Class::of(state) else {
                continue; // It is about to have another place.
            };
            let distance = elapsed(last_use(state), desc.arrival());
            if state & TAG_VALID != 0 && distance > 0 {
                let used_again = Newcomer::again(access, distance, now);
                if let Some(look) = self.place_for(&used_again) {
                    let (class, hand) = (used_again.class(), look.hand);
                    let successor = Some(Successor { buf, turn, hand, class });
                    return Ok(Found { buf: look.buf, successor });
                }
            }
            // What could not be written moves to the clock, so that the queue goes on.
            let cannot_leave = state & DIRTY != 0 && state & IO_ERROR != 0;
            if !cannot_leave && desc.claim(state) {
                return Ok(buf.into());
            }
            let write = if bulk { desc.write_io() } else { None };
            if busy.is_none() || !is_written && write.is_some() {
                busy = Some(Busy { buf, turn, write });
            }
        }
        Err(busy)
    }

    /// Gives the place of an owned buffer on the clock to a page of the queue. The buffer gets that
    /// page's place.
    fn give_place(&self, owned: u32, to: Successor) {
        self.places.exchange((to.turn, to.buf), (to.hand, owned), || {
            self.desc(owned).enter_queue();
            self.desc(to.buf).leave_queue(to.class);
        });
    }

    // ---- eviction

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

    /// Takes a clean buffer out of the page table, if the caller's pin is the only one, and makes
    /// its page a ghost.
    pub(super) fn evict(&self, buf: u32) -> Claim {
        let desc = self.desc(buf);
        if desc.load() & TAG_VALID == 0 {
            // Only searches reach buffers without a tag. The first to pin one owns it.
            return if refcount(desc.load()) == 1 { Claim::Empty } else { Claim::Lost };
        }
        let Some(Removed { hash, state }) = self.remove_from_table(buf, DIRTY) else {
            return Claim::Lost;
        };
        let now = self.time.epoch();
        self.ghosts.add(hash, now.wrapping_sub(elapsed(now, last_use(state))));
        Claim::Evicted
    }

    /// Removes a buffer's tag, if the caller's pin is the only one and the state contains neither
    /// an I/O nor any flag of `unless`. The class stays, which tells the buffer's place.
    pub(crate) fn remove_from_table(&self, buf: u32, unless: u64) -> Option<Removed> {
        let hash = table::hash_tag(&self.desc(buf).tag());
        let bucket = self.table.lock(&self.core.descs, hash);
        let state = self.remove_from_bucket(&bucket, buf, unless)?;
        Some(Removed { hash, state })
    }

    /// The same with the lock of the tag's bucket. Returns the state before.
    pub(crate) fn remove_from_bucket(
        &self,
        bucket: &table::Locked<'_>,
        buf: u32,
        unless: u64,
    ) -> Option<u64> {
        let taken = self.desc(buf).state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |s| {
            let free =
                refcount(s) == 1 && s & TAG_VALID != 0 && s & (READING | WRITING | unless) == 0;
            free.then_some(s & !(TAG_VALID | VALID | DIRTY | IO_ERROR))
        });
        let state = taken.ok()?;
        let known = bucket.remove(buf);
        debug_assert!(known, "a tagged buffer is in the page table");
        Some(state)
    }
}
