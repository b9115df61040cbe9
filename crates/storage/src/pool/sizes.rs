//! What a change of the pool's size does to its parts.
//!
//! A buffer that is not in use is *retired*: it has no page and no place, and is pinned once, so
//! that nobody takes it. A larger pool releases those pins. A smaller one takes the places of its
//! last buffers away, so that they get no new pages, and then retires them one by one. Their pages
//! stay in use until they leave.

use super::buffer_pool::BufferPool;
use super::desc::{DIRTY, Descriptor, READING, TAG_VALID, WRITING, refcount};
use super::usage::Class;
use super::victim::Claim;
use forebay_aio::sync::Instant;
use forebay_aio::{self as aio};
use std::ops::Range;

impl BufferPool {
    /// Uses more buffers, which have memory by now.
    pub(crate) fn add_buffers(&self, to: usize) {
        let from = self.buffers();
        self.core.descs.grow(to, |_| Descriptor::retired());
        self.table.grow(&self.core.descs, to);
        self.core.set_size(to);
        self.follow_size(to);
        let new = from as u32..to as u32;
        self.give_places(new.clone(), &new.collect::<Vec<_>>());
    }

    /// Makes what depends on the number of buffers fit.
    pub(crate) fn follow_size(&self, buffers: usize) {
        self.core.set_placed(buffers);
        self.core.budget.resize(buffers);
        self.time.set_buffers(buffers);
        self.ghosts.resize(buffers);
    }

    /// Gives buffers places, and releases those of them that are retired.
    pub(crate) fn give_places(&self, buffers: Range<u32>, retired: &[u32]) {
        buffers.clone().for_each(|buf| self.desc(buf).leave_queue(Class::Unused));
        let next = self.places.in_queue(self.places.turn());
        // Buffers that are free already come first.
        let go_on = [self.is_free_at(self.places.hand()), self.desc(next).load() & TAG_VALID == 0];
        self.places.add(buffers, go_on, |buf, to_queue| self.change_lane(buf, to_queue));
        retired.iter().for_each(|&buf| self.core.unpin(buf));
        self.core.budget.look_again();
    }

    /// Calls `tell` when [`Self::tell_after`] says, on a thread that needs a buffer. Only the first
    /// call has an effect.
    pub fn on_demand(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.demand.set(Box::new(tell));
    }

    /// Tells once that the hand has moved on by so many buffers, or that those of dropped relations
    /// are taken and it sees no other free one.
    pub fn tell_after(&self, buffers: usize) {
        self.demand.tell_at(self.places.hand() + buffers as u64);
    }

    /// Whether so many buffers are free, or half of the pool, judged by two of those that the hand
    /// comes to.
    pub fn has_free(&self, buffers: usize) -> bool {
        let (hand, ahead) = (self.places.hand(), (buffers as u64).min(self.places.clock() / 2));
        [hand + ahead / 2, hand + ahead].into_iter().all(|hand| self.is_free_at(hand))
    }

    pub(super) fn is_free_at(&self, hand: u64) -> bool {
        self.desc(self.places.on_clock(hand)).load() & TAG_VALID == 0
    }

    /// Takes the places of all buffers from `to` on.
    pub(crate) fn take_places(&self, to: u32) {
        let idle = |buf| {
            let state = self.desc(buf).load();
            state & TAG_VALID == 0 || Class::of(state) == Class::Unused
        };
        self.places.remove(to, idle, |buf, to_queue| self.change_lane(buf, to_queue));
        self.freed.forget_from(to);
        self.core.budget.resize(to as usize);
    }

    fn change_lane(&self, buf: u32, to_queue: bool) {
        match to_queue {
            true => self.desc(buf).enter_queue(),
            false => self.desc(buf).leave_queue(Class::Unused),
        }
    }

    /// Retires a buffer that has no place. Returns false if that is not possible now.
    pub(crate) fn retire(&self, buf: u32) -> bool {
        let desc = self.desc(buf);
        let state = desc.load();
        if state & TAG_VALID == 0 {
            return desc.claim(state);
        }
        if state & DIRTY != 0 || refcount(state) > 0 || !desc.pin_if(0) {
            return false;
        }
        match self.evict(buf) {
            Claim::Evicted | Claim::Empty => true,
            Claim::Lost => {
                self.core.unpin(buf);
                false
            }
        }
    }

    /// Completes an I/O on a buffer, or sleeps until it has one, or is not pinned. Returns false if
    /// neither has happened in time.
    pub(crate) fn await_idle(&self, io: &mut aio::IoBackend, buf: u32, until: Instant) -> bool {
        let desc = self.desc(buf);
        let in_flight = || if desc.load() & (READING | WRITING) != 0 { desc.io() } else { None };
        if let Some(wait) = in_flight() {
            io.wait_and_keep(wait);
            return true;
        }
        let ready = || refcount(desc.load()) == 0 || in_flight().is_some();
        self.core.parking.sleep_until_time(buf, desc, ready, until)
    }
}
