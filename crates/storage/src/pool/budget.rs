//! Who may hold how many pins, and waiting for one.
//!
//! Whoever holds a pin while it waits for a buffer could wait for someone who does the same. So
//! pins are of two kinds:
//!
//! - a backend's *few*: what it works on at one time, [`PINS_OF_A_BACKEND`] pages at most. Every
//!   backend may have them at any time; it waits for a buffer if need be;
//! - *spare* ones, for looking ahead, reading many pages and extending by many: all of them
//!   together are bounded so that they leave each backend its few; whoever finds none left gets on
//!   without. They are claimed and given back in numbers. One claimer gets its equal share, or half
//!   of those that are left if that is more.
//!
//! A pool may be too small for all backends' few. There each pin of the few is asked for first, and
//! granted only if at least one of those who then hold some could still get all of its few: it ends
//! some time, and gives them back to the next (the banker's rule). So nobody who has been granted a
//! pin waits for a buffer in vain.
//!
//! In such pools, and in all small ones, the pins of each backend are counted, by its slot of the
//! I/O layer. That tells as well when everyone who holds a pin waits for another one, which takes
//! someone who holds more than a few: then the last to come gets an error, since no one could ever
//! give one back.
//!

use super::OwnLine;
use super::desc::{BUFFER_WANTED, Descriptor, READING, WRITING, refcount};
use crate::error::StorageError;
use forebay_aio::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Mutex};

/// Pins that a backend has at one time beside spare ones: the page that it reads, one that it
/// fills, their maps.
const PINS_OF_A_BACKEND: usize = 4;
/// Up to this size pins are counted in any case.
const SMALL: usize = 1024;
/// How long a thread waits for a buffer while none at all becomes free: whoever holds them waits
/// for something that this thread holds, which the pool can't see.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a thread waits for a grant while none is given back. The rule is cautious, so it may go
/// on without one.
const CAUTION: Duration = Duration::from_secs(5);
/// The same for one that has a pin already: it may have that page locked, and the others may wait
/// for the lock.
const CAUTION_OF_A_HOLDER: Duration = Duration::from_secs(1);
/// The slot of pins that are not counted.
pub(super) const UNCOUNTED: u32 = u32::MAX;

/// How the pins of a pool are shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// Spare pins of all.
    spare: usize,
    /// Spare pins that one claimer may have in any case, as long as there are any.
    share: usize,
    /// Pins that are left for the few of all, if that is less than all of them.
    scarce: Option<usize>,
}

impl Shares {
    fn of(buffers: usize, backends: usize) -> Shares {
        let spare = buffers.saturating_sub(2 * backends).clamp(buffers / 4, buffers / 2);
        let few = buffers - spare;
        let scarce = (few < PINS_OF_A_BACKEND * backends).then_some(few);
        Shares { spare, share: (spare / backends.max(1)).max(1), scarce }
    }
}

/// Pins of one backend.
#[derive(Default)]
struct Held {
    /// Of its few, and one more while it asks for one.
    few: AtomicU32,
    /// Of the spare ones, streams' not included.
    spare: AtomicU32,
}

/// Threads that wait for a buffer.
#[derive(Default)]
struct Queue {
    /// Their backends' slots.
    slots: Vec<u32>,
    /// How often a buffer was given back for them.
    freed: u64,
}

/// The pins of one pool.
pub(crate) struct Budget {
    share: i64,
    few: Option<Few>,
    /// Pins of each backend. None: not counted.
    held: Box<[OwnLine<Held>]>,
    /// How many threads wait for a buffer.
    waiting: AtomicU32,
    queue: Mutex<Queue>,
    freed: Condvar,
    spare: OwnLine<AtomicI64>,
    /// How often a thread found all buffers pinned and waited.
    waits: AtomicU64,
}

/// The few pins of all backends, where they are scarce.
struct Few {
    all: u32,
    granted: Mutex<u32>,
    given_back: Condvar,
}

impl Budget {
    pub(crate) fn new(buffers: usize, backends: usize) -> Budget {
        Budget::shared_by(buffers, backends, backends)
    }

    /// For a pool of which only one backend, in one of `slots` slots, has pins.
    pub(crate) fn of_one(buffers: usize, slots: usize) -> Budget {
        Budget::shared_by(buffers, 1, slots)
    }

    fn shared_by(buffers: usize, backends: usize, slots: usize) -> Budget {
        let shares = Shares::of(buffers, backends);
        let counted = shares.scarce.is_some() || buffers <= SMALL;
        Budget {
            share: shares.share as i64,
            few: shares.scarce.map(|all| Few {
                all: all as u32,
                granted: Mutex::new(0),
                given_back: Condvar::new(),
            }),
            held: (0..if counted { slots } else { 0 }).map(|_| OwnLine::default()).collect(),
            waiting: AtomicU32::new(0),
            queue: Mutex::new(Queue::default()),
            freed: Condvar::new(),
            spare: OwnLine(AtomicI64::new(shares.spare as i64)),
            waits: AtomicU64::new(0),
        }
    }

    // ---- spare pins

    /// Takes up to `want` spare pins for someone who has `have` of them.
    pub(crate) fn claim(&self, have: u32, want: u32) -> u32 {
        let (have, want) = (i64::from(have), i64::from(want));
        let take =
            |free: i64| want.min(free).min((self.share - have).max((free - have) / 2)).max(0);
        let claimed = self.spare.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            let n = take(free);
            (n > 0).then_some(free - n)
        });
        claimed.map_or(0, take) as u32
    }

    /// Gives claimed pins back.
    pub(crate) fn give_back(&self, n: u32) {
        if n > 0 {
            self.spare.fetch_add(i64::from(n), Ordering::Relaxed);
        }
    }

    // ---- counted pins

    /// One more pin of a backend, or the wish for one. False if it is not granted yet, and not
    /// counted then.
    pub(super) fn enter(&self, slot: u32) -> bool {
        let Some(held) = self.held.get(slot as usize) else { return true };
        let Some(few) = &self.few else {
            held.few.fetch_add(1, Ordering::SeqCst);
            return true;
        };
        let mut granted = few.granted.lock();
        let safe = self.is_safe(few.all, *granted + 1, slot);
        if safe {
            *granted += 1;
            held.few.fetch_add(1, Ordering::SeqCst);
        }
        safe
    }

    /// Waits for what [`Self::enter`] did not grant.
    #[cold]
    pub(super) fn await_grant(&self, slot: u32) {
        let (Some(few), Some(held)) = (&self.few, self.held.get(slot as usize)) else { return };
        let mut granted = few.granted.lock();
        let others_hold_some = |granted: u32| granted > held.few.load(Ordering::SeqCst);
        while !self.is_safe(few.all, *granted + 1, slot) && others_hold_some(*granted) {
            let holds_some = held.few.load(Ordering::SeqCst) > 0;
            let caution = if holds_some { CAUTION_OF_A_HOLDER } else { CAUTION };
            if few.given_back.wait_for(&mut granted, caution).timed_out() {
                break;
            }
        }
        *granted += 1;
        held.few.fetch_add(1, Ordering::SeqCst);
    }

    /// With `granted` pins in all, one of them a new one of `slot`: could someone still get all of
    /// its few?
    fn is_safe(&self, all: u32, granted: u32, slot: u32) -> bool {
        let held = self.held.iter().enumerate().map(|(of, held)| {
            let new = u32::from(of as u32 == slot);
            held.few.load(Ordering::SeqCst) + new
        });
        let most = held.max().unwrap_or(0);
        all >= granted + (PINS_OF_A_BACKEND as u32).saturating_sub(most)
    }

    /// Counts a pin of a backend that needs no buffer, as someone has it already.
    pub(super) fn had(&self, slot: u32) {
        let Some(held) = self.held.get(slot as usize) else { return };
        let granted = self.few.as_ref().map(|few| few.granted.lock());
        held.few.fetch_add(1, Ordering::SeqCst);
        granted.into_iter().for_each(|mut granted| *granted += 1);
    }

    pub(super) fn leave(&self, slot: u32) {
        let Some(held) = self.held.get(slot as usize) else { return };
        match &self.few {
            None => drop(held.few.fetch_sub(1, Ordering::SeqCst)),
            Some(few) => {
                let mut granted = few.granted.lock();
                *granted -= 1;
                held.few.fetch_sub(1, Ordering::SeqCst);
                few.given_back.notify_all();
            }
        }
    }

    /// Are pins counted by backend?
    pub(super) fn counts(&self) -> bool {
        !self.held.is_empty()
    }

    /// Counts a spare pin of a backend.
    pub(super) fn enter_spare(&self, slot: u32) {
        if let Some(held) = self.held.get(slot as usize) {
            held.spare.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Gives a spare pin of a backend back.
    pub(super) fn leave_spare(&self, slot: u32) {
        if let Some(held) = self.held.get(slot as usize) {
            held.spare.fetch_sub(1, Ordering::SeqCst);
        }
        self.give_back(1);
    }

    // ---- waiting for a buffer

    /// To be called after a change that may let someone go on who waits for a buffer: there is I/O
    /// to be waited for.
    pub(crate) fn io_started(&self) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.queue.lock().freed += 1;
            self.freed.notify_all();
        }
    }

    /// To be called when a buffer's last pin was given back that is marked [`BUFFER_WANTED`].
    #[cold]
    pub(crate) fn buffer_freed(&self, desc: &Descriptor) {
        let mut queue = self.queue.lock();
        if queue.slots.is_empty() {
            // Marked under this lock, so that no one's mark is lost.
            desc.state.fetch_and(!BUFFER_WANTED, Ordering::SeqCst);
            return;
        }
        queue.freed += 1;
        self.freed.notify_all();
    }

    /// How often a thread had to wait because all buffers were pinned.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Sleeps until a buffer may be had or has I/O that can be ended. The caller has nothing
    /// staged.
    #[cold]
    pub(crate) fn await_buffer(&self, slot: u32, descs: &[Descriptor]) -> Result<(), StorageError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.slots.push(slot);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = loop {
            // Whoever gives one back after this look sees the mark.
            descs.iter().for_each(Descriptor::want_buffer);
            if descs.iter().any(is_promising) {
                break Ok(());
            }
            if self.all_wait(&queue, descs) {
                break Err(StorageError::NoUnpinnedBuffers);
            }
            let before = queue.freed;
            let late = self.freed.wait_for(&mut queue, PATIENCE).timed_out();
            if late && queue.freed == before {
                break Err(StorageError::NoUnpinnedBuffers);
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        if let Some(at) = queue.slots.iter().position(|&s| s == slot) {
            queue.slots.swap_remove(at);
        }
        result
    }

    /// Does everyone who holds a pin wait for another one?
    fn all_wait(&self, queue: &Queue, descs: &[Descriptor]) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let pins: u64 = descs.iter().map(|desc| refcount(desc.load())).sum();
        // One of each backend's few is the pin that it waits for.
        let count = |held: &OwnLine<Held>| {
            held.few.load(Ordering::SeqCst).saturating_sub(1) + held.spare.load(Ordering::SeqCst)
        };
        let held = queue.slots.iter().filter_map(|&slot| self.held.get(slot as usize));
        pins == held.map(|held| u64::from(count(held))).sum::<u64>()
    }
}

fn is_promising(desc: &Descriptor) -> bool {
    let state = desc.load();
    refcount(state) == 0 || state & (READING | WRITING) != 0 && desc.io().is_some()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_backend_keeps_its_few() {
        for backends in [1, 2, 3, 12, 128, 1000] {
            for buffers in [16, 17, 32, 64, 128, 1000, 16_384] {
                let Shares { spare, share, scarce } = Shares::of(buffers, backends);
                let few = scarce.unwrap_or(PINS_OF_A_BACKEND * backends);
                assert!(spare + few <= buffers, "{buffers} buffers, {backends} backends");
                assert!(share >= 1 && few >= PINS_OF_A_BACKEND && spare >= buffers / 4);
            }
        }
        assert_eq!(Shares::of(16, 100), Shares { spare: 4, share: 1, scarce: Some(12) });
        assert_eq!(Shares::of(16_384, 128), Shares { spare: 8192, share: 64, scarce: None });
    }

    #[test]
    fn pins_are_granted_while_someone_can_get_all_of_his_few() {
        let budget = Budget::new(16, 100);
        assert!((0..9).all(|slot| budget.enter(slot)), "3 are left for one of them");
        assert!(!budget.enter(9));
        assert!((0..3).all(|_| budget.enter(5)));
        assert!(!budget.enter(9) && !budget.enter(0), "all 12 are granted");
        (0..3).for_each(|_| budget.leave(5));
        assert!(!budget.enter(9));
        budget.leave(0);
        assert!(budget.enter(9));
    }

    #[test]
    fn claims_leave_something_for_the_next() {
        let budget = Budget::new(16_384, 128);
        let first = budget.claim(0, 100_000);
        assert_eq!(first, 4096, "half of them");
        assert_eq!(budget.claim(first, 100), 0);
        let others: u32 = (0..126).map(|_| budget.claim(0, 64)).sum();
        assert!(others > 4000, "{others}");
        budget.give_back(first);
        assert_eq!(budget.claim(0, 64), 64);
        let small = Budget::new(16, 12);
        assert_eq!([(); 5].map(|()| small.claim(0, 32)), [2, 1, 1, 0, 0]);
    }
}
