//! Insertion slots: who is inserting, and from where on the log may still have gaps.
//!
//! Who inserts takes a slot before it reserves its place, and leaves it when its record is in the
//! ring. A slot holds a byte position that the record is not before; so what has been copied
//! without a gap ends at the lowest position in any slot, or, if all are free, where the log ends:
//!
//! ```text
//!    log     ──copied──┤ copying │ copied │ copying │ copied │  next record
//!                      ▲                  ▲                  ▲
//!    slots          [ 3 ]              [ 7 ]          reservations
//! ```
//!
//! Taking a slot comes before reserving, and `copied` asks for the end first and looks at the slots
//! then: of each place before that end it sees the slot, or that the slot was left. Positions that
//! it reads may be out of date, then they are too low; even lower than what it told before, as a
//! slot can be taken with a position that was read long ago.
//!
//! Who must be alone closes the slots: those inside leave, nobody enters, and what is changed
//! meanwhile is seen by whoever enters next.
//!
//! Sleepers count themselves before they look, and who changes a slot looks for sleepers afterwards
//! (all sequentially consistent), so one of the two sees the other.

use Ordering::{Relaxed, SeqCst};
use forebay_aio::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Slots: who inserts copies for a microsecond, so that more would hardly ever be taken at once.
const SLOTS: usize = 16;
/// No one is in the slot.
const FREE: u64 = u64::MAX;
/// Looks before sleeping: as long as a copy of a few pages takes.
const LOOKS: u32 = if cfg!(shuttle) { 1 } else { 400 };

/// A slot and what was inserted by way of it. Only who is in it changes the counts.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    floor: AtomicU64,
    records: AtomicU64,
    bytes: AtomicU64,
    images: AtomicU64,
}

/// Sums over all slots.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub records: u64,
    pub bytes: u64,
    pub images: u64,
}

/// The slots of one log.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Box<[Slot]>,
    closed: AtomicBool,
    sleepers: AtomicU32,
    /// Sleepers hold it between their last look and their sleep.
    sleep: Mutex<()>,
    changed: Condvar,
    /// Held by who has closed the slots.
    alone: Mutex<()>,
}

impl Slots {
    pub fn new() -> Slots {
        let new = |_| Slot {
            floor: AtomicU64::new(FREE),
            records: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            images: AtomicU64::new(0),
        };
        Slots {
            slots: (0..SLOTS).map(new).collect(),
            closed: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            sleep: Mutex::new(()),
            changed: Condvar::new(),
            alone: Mutex::new(()),
        }
    }

    /// Takes a slot, `preferred` if it is free. `floor` tells a position that what will be reserved
    /// is not before.
    pub fn enter(&self, preferred: usize, floor: impl Fn() -> u64) -> Occupied<'_> {
        loop {
            if let Some(slot) = self.occupy(preferred, floor()) {
                if !self.closed.load(SeqCst) {
                    return slot;
                }
                drop(slot);
                self.wait_until(|| !self.closed.load(SeqCst));
            } else {
                self.wait_for_a_free_one();
            }
        }
    }

    fn wait_for_a_free_one(&self) {
        self.wait_until(|| self.slots.iter().any(|slot| slot.floor.load(SeqCst) == FREE));
    }

    fn occupy(&self, preferred: usize, floor: u64) -> Option<Occupied<'_>> {
        debug_assert!(floor != FREE);
        let order = (0..SLOTS).map(|n| &self.slots[(preferred + n) % SLOTS]);
        for slot in order {
            if slot.floor.compare_exchange(FREE, floor, SeqCst, Relaxed).is_ok() {
                return Some(Occupied { slots: self, slot });
            }
        }
        None
    }

    /// Waits until nobody inserts, and keeps everybody out.
    pub fn close(&self) -> Closed<'_> {
        let alone = self.alone.lock();
        self.closed.store(true, SeqCst);
        self.wait_until(|| self.slots.iter().all(|slot| slot.floor.load(SeqCst) == FREE));
        Closed { slots: self, _alone: alone }
    }

    /// Everything before this has been copied. `end` is where the log ended before this call.
    pub fn copied(&self, end: u64) -> u64 {
        self.slots.iter().map(|slot| slot.floor.load(SeqCst)).fold(end, u64::min)
    }

    /// Waits until everything before `pos` has been copied. `pos` is not beyond where the log ended
    /// before this call.
    pub fn wait_copied(&self, pos: u64) {
        self.wait_until(|| self.copied(pos) >= pos);
    }

    /// What was inserted.
    pub fn tally(&self) -> Tally {
        self.slots.iter().fold(Tally::default(), |sum, slot| Tally {
            records: sum.records + slot.records.load(Relaxed),
            bytes: sum.bytes + slot.bytes.load(Relaxed),
            images: sum.images + slot.images.load(Relaxed),
        })
    }

    fn wait_until(&self, ready: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, SeqCst);
        let mut asleep = self.sleep.lock();
        while !ready() {
            self.changed.wait(&mut asleep);
        }
        drop(asleep);
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// To be called after a change that somebody may wait for.
    fn wake(&self) {
        if self.sleepers.load(SeqCst) != 0 {
            drop(self.sleep.lock());
            self.changed.notify_all();
        }
    }
}

/// A slot, taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Occupied<'a> {
    slots: &'a Slots,
    slot: &'a Slot,
}

impl Occupied<'_> {
    /// The record turns out not to be before `pos`. Nobody is woken for that: they wait for its
    /// end.
    pub fn begin_at(&self, pos: u64) {
        self.slot.floor.store(pos, Ordering::Release);
    }

    /// What is before `pos` has been copied, and the rest takes time: to be called before waiting
    /// for anything.
    pub fn come_to(&self, pos: u64) {
        self.slot.floor.store(pos, SeqCst);
        self.slots.wake();
    }

    /// Counts a record.
    pub fn count(&self, bytes: u64, images: u64) {
        let add = |counter: &AtomicU64, n| counter.store(counter.load(Relaxed) + n, Relaxed);
        add(&self.slot.records, 1);
        add(&self.slot.bytes, bytes);
        add(&self.slot.images, images);
    }
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        self.slot.floor.store(FREE, SeqCst);
        self.slots.wake();
    }
}

/// All slots, closed until this is dropped.
#[derive(Debug)]
pub(crate) struct Closed<'a> {
    slots: &'a Slots,
    _alone: forebay_aio::sync::MutexGuard<'a, ()>,
}

impl<'a> Closed<'a> {
    /// A slot for whoever has closed them, which may outlast that.
    pub fn enter(&mut self, floor: u64) -> Occupied<'a> {
        loop {
            // Others take one for as long as it takes to see that they are closed.
            if let Some(slot) = self.slots.occupy(0, floor) {
                return slot;
            }
            self.slots.wait_for_a_free_one();
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.slots.closed.store(false, SeqCst);
        self.slots.wake();
    }
}
