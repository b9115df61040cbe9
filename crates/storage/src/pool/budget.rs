//! How many pins each backend may hold, and waiting for one.
//!
//! A backend that waits for a buffer while it holds pins could wait for another one that does the
//! same. So there are two kinds of pins:
//!
//! - *Guaranteed* pins are what a backend works on at one time, at most [`PINS_OF_A_BACKEND`]
//!   pages. Every backend may have them at any time, and waits for a buffer if necessary.
//! - *Spare* pins are for looking ahead, reading many pages and extending by many. Their total is
//!   bounded so that the guaranteed pins of all backends remain. A backend that finds none does
//!   without. They are claimed and given back in numbers. A claimer gets its equal share, or half
//!   of the remaining ones if that is more.
//!
//! A pool may be too small for the guaranteed pins of all backends. It then grants each of these
//! pins by the banker's rule: only if at least one of their holders could still get all of its
//! guaranteed pins. That holder finishes some time, and gives its pins to the next. So no holder of
//! a granted pin waits forever for a buffer.
//!
//! In such pools, and in all small ones, the pins of each backend are counted by its slot of the
//! I/O layer. The counts also tell when all holders of pins wait for another one, which takes a
//! backend with more than its guaranteed pins. The last one to wait then gets an error, since
//! nobody could ever release a pin.

use super::cache_line::CacheLine;
use super::desc::{BUFFER_WANTED, Descriptor, READING, WRITING, refcount};
use crate::error::StorageError;
use forebay_aio::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Mutex};

/// The guaranteed pins of a backend: the page that it reads, one that it fills, and their maps.
const PINS_OF_A_BACKEND: usize = 4;
/// Pools up to this size count pins in any case.
const SMALL: usize = 1024;
/// How long a thread waits for a buffer while no pin at all is released. The holders then wait for
/// something that this thread holds, which the pool cannot see.
const BUFFER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a thread waits for a grant while no pin is released. The rule is cautious, so the
/// thread may go on without a grant.
const GRANT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a thread that has a pin already. It may hold that page's lock, and the others may
/// wait for the lock.
const GRANT_TIMEOUT_OF_HOLDER: Duration = Duration::from_secs(1);
/// The slot of pins that are not counted.
pub(super) const UNCOUNTED: u32 = u32::MAX;

/// How the pins of a pool are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shares {
    /// All spare pins.
    spare: usize,
    /// Spare pins that one claimer may have in any case, as long as there are any.
    share: usize,
    /// The guaranteed pins of all backends, if there are fewer than each may have.
    scarce: Option<usize>,
}

impl Shares {
    fn of(buffers: usize, backends: usize) -> Shares {
        let spare = buffers.saturating_sub(2 * backends).clamp(buffers / 4, buffers / 2);
        let guaranteed = buffers - spare;
        let scarce = (guaranteed < PINS_OF_A_BACKEND * backends).then_some(guaranteed);
        Shares { spare, share: (spare / backends.max(1)).max(1), scarce }
    }
}

/// The pins of one backend.
#[derive(Default)]
struct Held {
    /// Guaranteed pins, including one that it waits for.
    guaranteed: AtomicU32,
    /// Spare pins, without those of streams.
    spare: AtomicU32,
}

/// Threads that wait for a buffer.
#[derive(Default)]
struct Queue {
    /// The slots of their backends.
    slots: Vec<u32>,
    /// How often a buffer became free for them.
    freed: u64,
}

/// The pins of one pool.
pub(crate) struct Budget {
    /// The number of backends that share it.
    backends: usize,
    /// All spare pins.
    all_spare: AtomicI64,
    share: AtomicI64,
    /// The guaranteed pins, if they are scarce.
    guaranteed: Option<Guaranteed>,
    /// The pins of each backend; empty if they are not counted.
    held: Box<[CacheLine<Held>]>,
    /// The number of threads that wait for a buffer.
    waiting: AtomicU32,
    queue: Mutex<Queue>,
    freed: Condvar,
    spare: CacheLine<AtomicI64>,
    /// How often a thread waited because all buffers were pinned.
    waits: AtomicU64,
}

/// The guaranteed pins of all backends.
struct Guaranteed {
    all: AtomicU32,
    granted: Mutex<u32>,
    released: Condvar,
}

impl Budget {
    pub(crate) fn new(buffers: usize, backends: usize) -> Budget {
        Budget::shared_by(buffers, backends, backends)
    }

    /// For a pool that only one backend uses, in one of `slots` slots.
    pub(crate) fn for_one_backend(buffers: usize, slots: usize) -> Budget {
        Budget::shared_by(buffers, 1, slots)
    }

    fn shared_by(buffers: usize, backends: usize, slots: usize) -> Budget {
        let shares = Shares::of(buffers, backends);
        let counted = shares.scarce.is_some() || buffers <= SMALL;
        Budget {
            backends,
            all_spare: AtomicI64::new(shares.spare as i64),
            share: AtomicI64::new(shares.share as i64),
            guaranteed: shares.scarce.map(|all| Guaranteed {
                all: AtomicU32::new(all as u32),
                granted: Mutex::new(0),
                released: Condvar::new(),
            }),
            held: (0..if counted { slots } else { 0 }).map(|_| CacheLine::default()).collect(),
            waiting: AtomicU32::new(0),
            queue: Mutex::new(Queue::default()),
            freed: Condvar::new(),
            spare: CacheLine(AtomicI64::new(shares.spare as i64)),
            waits: AtomicU64::new(0),
        }
    }

    // ---- the pool's size

    /// Returns the least size to which the pool can shrink. Whether pins are counted and granted is
    /// decided when the pool is made, so a large one does not become a small one.
    pub(crate) fn least_buffers(&self) -> usize {
        let roomy = 2 * PINS_OF_A_BACKEND * self.backends;
        match (&self.guaranteed, self.counts()) {
            (Some(_), _) => 16,
            (None, true) => roomy,
            (None, false) => roomy.max(SMALL + 1),
        }
    }

    /// Divides the pins of another number of buffers. Spare pins that are claimed beyond them are
    /// not replaced when they are given back.
    pub(crate) fn resize(&self, buffers: usize) {
        let shares = Shares::of(buffers, self.backends);
        self.share.store(shares.share as i64, Ordering::Relaxed);
        let spare = shares.spare as i64;
        let before = self.all_spare.swap(spare, Ordering::Relaxed);
        self.spare.fetch_add(spare - before, Ordering::Relaxed);
        if let Some(guaranteed) = &self.guaranteed {
            let _granted = guaranteed.granted.lock();
            guaranteed.all.store((buffers - shares.spare) as u32, Ordering::SeqCst);
            guaranteed.released.notify_all();
        }
    }

    // ---- spare pins

    /// Claims up to `want` spare pins for a caller that has `have` of them.
    pub(crate) fn claim(&self, have: u32, want: u32) -> u32 {
        let (have, want) = (i64::from(have), i64::from(want));
        let share = self.share.load(Ordering::Relaxed);
        let take = |free: i64| want.min(free).min((share - have).max((free - have) / 2)).max(0);
        let claimed = self.spare.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            let n = take(free);
            (n > 0).then_some(free - n)
        });
        claimed.map_or(0, take) as u32
    }

    /// Gives claimed pins back.
    pub(crate) fn return_spare(&self, n: u32) {
        if n > 0 {
            self.spare.fetch_add(i64::from(n), Ordering::Relaxed);
        }
    }

    // ---- counted pins

    /// Grants and counts a guaranteed pin of a backend. Returns false if it cannot be granted now.
    pub(super) fn try_grant(&self, slot: u32) -> bool {
        let Some(held) = self.held.get(slot as usize) else { return true };
        let Some(guaranteed) = &self.guaranteed else {
            held.guaranteed.fetch_add(1, Ordering::SeqCst);
            return true;
        };
        let mut granted = guaranteed.granted.lock();
        let safe = self.is_safe(guaranteed, *granted + 1, slot);
        if safe {
            *granted += 1;
            held.guaranteed.fetch_add(1, Ordering::SeqCst);
        }
        safe
    }

    /// Waits for the pin that [`Self::try_grant`] did not grant, and counts it.
    #[cold]
    pub(super) fn await_grant(&self, slot: u32) {
        let guaranteed = self.guaranteed.as_ref().expect("only scarce pins are not granted");
        let held = &self.held[slot as usize];
        let mut granted = guaranteed.granted.lock();
        let others_hold_some = |granted: u32| granted > held.guaranteed.load(Ordering::SeqCst);
        while !self.is_safe(guaranteed, *granted + 1, slot) && others_hold_some(*granted) {
            let holds_some = held.guaranteed.load(Ordering::SeqCst) > 0;
            let timeout = if holds_some { GRANT_TIMEOUT_OF_HOLDER } else { GRANT_TIMEOUT };
            if guaranteed.released.wait_for(&mut granted, timeout).timed_out() {
                break;
            }
        }
        *granted += 1;
        held.guaranteed.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether some backend could still get all of its guaranteed pins, if `granted` are granted
    /// and one of them is a new one of `slot`.
    fn is_safe(&self, guaranteed: &Guaranteed, granted: u32, slot: u32) -> bool {
        let all = guaranteed.all.load(Ordering::SeqCst);
        let held = self.held.iter().enumerate().map(|(of, held)| {
            let new = u32::from(of as u32 == slot);
            held.guaranteed.load(Ordering::SeqCst) + new
        });
        let most = held.fold(0, u32::max);
        all >= granted + (PINS_OF_A_BACKEND as u32).saturating_sub(most)
    }

    /// Counts a second pin on a page that the backend has pinned. It needs no buffer, so it is
    /// granted in any case.
    pub(super) fn count_second_pin(&self, slot: u32) {
        let Some(held) = self.held.get(slot as usize) else { return };
        let granted = self.guaranteed.as_ref().map(|guaranteed| guaranteed.granted.lock());
        held.guaranteed.fetch_add(1, Ordering::SeqCst);
        granted.into_iter().for_each(|mut granted| *granted += 1);
    }

    /// Gives a guaranteed pin back.
    pub(super) fn release(&self, slot: u32) {
        let Some(held) = self.held.get(slot as usize) else { return };
        match &self.guaranteed {
            None => drop(held.guaranteed.fetch_sub(1, Ordering::SeqCst)),
            Some(guaranteed) => {
                let mut granted = guaranteed.granted.lock();
                *granted -= 1;
                held.guaranteed.fetch_sub(1, Ordering::SeqCst);
                guaranteed.released.notify_all();
            }
        }
    }

    /// Whether pins are counted by backend.
    pub(super) fn counts(&self) -> bool {
        !self.held.is_empty()
    }

    /// Counts a claimed spare pin that a backend uses.
    pub(super) fn count_spare(&self, slot: u32) {
        if let Some(held) = self.held.get(slot as usize) {
            held.spare.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Gives a backend's spare pin back.
    pub(super) fn release_spare(&self, slot: u32) {
        if let Some(held) = self.held.get(slot as usize) {
            held.spare.fetch_sub(1, Ordering::SeqCst);
        }
        self.return_spare(1);
    }

    // ---- waiting for a buffer

    /// Wakes the threads that wait for a buffer, because there is an I/O that they can complete, or
    /// because there are more buffers.
    pub(crate) fn look_again(&self) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            self.queue.lock().freed += 1;
            self.freed.notify_all();
        }
    }

    /// Wakes the threads that wait for a buffer, after the last pin on one marked
    /// [`BUFFER_WANTED`] was released.
    #[cold]
    pub(crate) fn buffer_freed(&self, desc: &Descriptor) {
        let mut queue = self.queue.lock();
        if queue.slots.is_empty() {
            // Marks are set under this lock too, so none is lost.
            desc.state.fetch_and(!BUFFER_WANTED, Ordering::SeqCst);
            return;
        }
        queue.freed += 1;
        self.freed.notify_all();
    }

    /// Returns how often a thread had to wait because all buffers were pinned.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Sleeps until one of the buffers with places is free, or has an I/O that can be completed.
    /// Buffers that are left without places can't be had, but their pins count. The caller has no
    /// staged I/O.
    #[cold]
    pub(crate) fn await_buffer<'d, L: Iterator<Item = &'d Descriptor>>(
        &self,
        slot: u32,
        placed: impl Fn() -> &'d [Descriptor],
        left: impl Fn() -> L,
    ) -> Result<(), StorageError> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        queue.slots.push(slot);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let result = loop {
            let descs = placed();
            // A thread that releases a pin after this point sees the mark.
            descs.iter().chain(left()).for_each(Descriptor::want_buffer);
            if descs.iter().any(is_promising) {
                break Ok(());
            }
            if self.all_wait(&queue, descs.iter().chain(left())) {
                break Err(StorageError::NoUnpinnedBuffers);
            }
            let before = queue.freed;
            let late = self.freed.wait_for(&mut queue, BUFFER_TIMEOUT).timed_out();
            if late && queue.freed == before {
                break Err(StorageError::NoUnpinnedBuffers);
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        let at = queue.slots.iter().position(|&s| s == slot).expect("it was queued above");
        queue.slots.swap_remove(at);
        result
    }

    /// Whether all holders of pins wait for another one.
    fn all_wait<'d>(&self, queue: &Queue, descs: impl Iterator<Item = &'d Descriptor>) -> bool {
        if self.held.is_empty() {
            return false;
        }
        let pins: u64 = descs.map(|desc| refcount(desc.load())).sum();
        // One of a backend's guaranteed pins is the one that it waits for.
        let count = |held: &CacheLine<Held>| {
            let guaranteed = held.guaranteed.load(Ordering::SeqCst);
            guaranteed.saturating_sub(1) + held.spare.load(Ordering::SeqCst)
        };
        let held = queue.slots.iter().filter_map(|&slot| self.held.get(slot as usize));
        pins == held.map(|held| u64::from(count(held))).sum::<u64>()
    }
}

/// Whether a buffer is free, or has an I/O that can be completed.
fn is_promising(desc: &Descriptor) -> bool {
    let state = desc.load();
    refcount(state) == 0 || state & (READING | WRITING) != 0 && desc.io().is_some()
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_backend_keeps_its_guaranteed_pins() {
        for backends in [1, 2, 3, 12, 128, 1000] {
            for buffers in [16, 17, 32, 64, 128, 1000, 16_384] {
                let Shares { spare, share, scarce } = Shares::of(buffers, backends);
                let guaranteed = scarce.unwrap_or(PINS_OF_A_BACKEND * backends);
                assert!(spare + guaranteed <= buffers, "{buffers} buffers, {backends} backends");
                assert!(share >= 1 && guaranteed >= PINS_OF_A_BACKEND && spare >= buffers / 4);
            }
        }
        assert_eq!(Shares::of(16, 100), Shares { spare: 4, share: 1, scarce: Some(12) });
        assert_eq!(Shares::of(16_384, 128), Shares { spare: 8192, share: 64, scarce: None });
    }

    #[test]
    fn pins_are_granted_while_some_backend_can_get_all_of_its_guaranteed_ones() {
        let budget = Budget::new(16, 100);
        assert!((0..9).all(|slot| budget.try_grant(slot)), "3 are left for one of them");
        assert!(!budget.try_grant(9));
        assert!((0..3).all(|_| budget.try_grant(5)));
        assert!(!budget.try_grant(9) && !budget.try_grant(0), "all 12 are granted");
        (0..3).for_each(|_| budget.release(5));
        assert!(!budget.try_grant(9));
        budget.release(0);
        assert!(budget.try_grant(9));
    }

    #[test]
    fn a_smaller_pool_has_fewer_pins_once_they_are_given_back() {
        let budget = Budget::new(16_384, 128);
        assert_eq!(budget.least_buffers(), 1025);
        assert_eq!(budget.claim(0, 5000), 4096);
        budget.resize(2048);
        assert_eq!(budget.claim(0, 1), 0, "1024 in all, and more are taken");
        budget.return_spare(4096);
        assert_eq!(budget.claim(0, 10_000), 512);
        budget.resize(16_384);
        assert_eq!(budget.spare.load(Ordering::Relaxed), 8192 - 512);
        let small = Budget::new(16, 100);
        assert_eq!(small.least_buffers(), 16);
        assert!((0..9).all(|slot| small.try_grant(slot)) && !small.try_grant(9));
        small.resize(32);
        assert!((9..20).all(|slot| small.try_grant(slot)), "24 guaranteed ones by now");
    }

    #[test]
    fn claims_leave_some_pins_for_the_next() {
        let budget = Budget::new(16_384, 128);
        let first = budget.claim(0, 100_000);
        assert_eq!(first, 4096, "half of them");
        assert_eq!(budget.claim(first, 100), 0);
        let others: u32 = (0..126).map(|_| budget.claim(0, 64)).sum();
        assert!(others > 4000, "{others}");
        budget.return_spare(first);
        assert_eq!(budget.claim(0, 64), 64);
        let small = Budget::new(16, 12);
        assert_eq!([(); 5].map(|()| small.claim(0, 32)), [2, 1, 1, 0, 0]);
    }
}
