//! Insertion slots: how far the log has been copied to the buffers without a gap.
//!
//! An inserter takes a slot before it reserves, and frees it when its record is in the buffers. The
//! slot holds a byte position at or before the start of that record. So the log is copied without a
//! gap up to the lowest position in any slot, or if all slots are free, up to its end:
//!
//! ```text
//!    log     ──copied──┤ copying │ copied │ copying │ copied │  next record
//!                      ▲                  ▲                  ▲
//!    slots          [ 3 ]              [ 7 ]          reservations
//! ```
//!
//! An inserter takes its slot before it reserves, and a thread that calls [`Slots::copied`] reads
//! the end of the log before the slots. So for each record before that end, it sees an occupied
//! slot or one that was freed after the copy. A position that it reads may be out of date, but only
//! too low. It may even be lower than an earlier result, since a slot can be taken with a position
//! that was read long before.
//!
//! To change what all inserters depend on, a thread closes the slots: it waits until all are free,
//! and keeps inserters out. An inserter that takes a slot later sees the change.
//!
//! A thread that waits registers itself before it checks the slots, and a thread that changes a
//! slot looks for registered waiters afterwards. All these accesses are sequentially consistent, so
//! one of the two sees the other.

use Ordering::{Relaxed, SeqCst};
use forebay_aio::sync::{
    Condvar, Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// Number of slots. A copy takes about a microsecond, so more would hardly ever be in use.
const SLOTS: usize = 16;
/// The position in a free slot.
const FREE: u64 = u64::MAX;
/// Checks before a waiter sleeps: about as long as copying a few pages takes.
const SPINS: u32 = if cfg!(shuttle) { 1 } else { 400 };

/// A slot, and counts of what was inserted by its holders, which only the holder changes.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    pos: AtomicU64,
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
    /// Held by a sleeper between its last check and its sleep.
    sleep: Mutex<()>,
    changed: Condvar,
    /// Held while the slots are closed.
    closing: Mutex<()>,
}

impl Slots {
    pub fn new() -> Slots {
        let new = |_| Slot {
            pos: AtomicU64::new(FREE),
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
            closing: Mutex::new(()),
        }
    }

    /// Takes a slot: `preferred` if it is free. `pos` returns the current end of the log, at or
    /// behind which the caller will reserve.
    pub fn enter(&self, preferred: usize, pos: impl Fn() -> u64) -> InsertSlot<'_> {
        loop {
            if let Some(slot) = self.occupy(preferred, pos()) {
                if !self.closed.load(SeqCst) {
                    return slot;
                }
                drop(slot);
                self.wait_until(|| !self.closed.load(SeqCst));
            } else {
                self.wait_for_free_slot();
            }
        }
    }

    fn wait_for_free_slot(&self) {
        self.wait_until(|| self.slots.iter().any(|slot| slot.pos.load(SeqCst) == FREE));
    }

    fn occupy(&self, preferred: usize, pos: u64) -> Option<InsertSlot<'_>> {
        assert!(pos != FREE, "no byte position");
        let order = (0..SLOTS).map(|n| &self.slots[(preferred + n) % SLOTS]);
        for slot in order {
            if slot.pos.compare_exchange(FREE, pos, SeqCst, Relaxed).is_ok() {
                return Some(InsertSlot { slots: self, slot });
            }
        }
        None
    }

    /// Waits until all slots are free, and keeps inserters out until the result is dropped.
    pub fn close(&self) -> ClosedSlots<'_> {
        let closing = self.closing.lock();
        self.closed.store(true, SeqCst);
        self.wait_until(|| self.slots.iter().all(|slot| slot.pos.load(SeqCst) == FREE));
        ClosedSlots { slots: self, _closing: closing }
    }

    /// Everything before the result has been copied. `end` must be an end of the log that was read
    /// before this call.
    pub fn copied(&self, end: u64) -> u64 {
        self.slots.iter().map(|slot| slot.pos.load(SeqCst)).fold(end, u64::min)
    }

    /// Waits until everything before `pos` has been copied. `pos` must not be beyond an end of the
    /// log that was read before this call.
    pub fn wait_copied(&self, pos: u64) {
        self.wait_until(|| self.copied(pos) >= pos);
    }

    /// Sums of what was inserted.
    pub fn tally(&self) -> Tally {
        self.slots.iter().fold(Tally::default(), |sum, slot| Tally {
            records: sum.records + slot.records.load(Relaxed),
            bytes: sum.bytes + slot.bytes.load(Relaxed),
            images: sum.images + slot.images.load(Relaxed),
        })
    }

    fn wait_until(&self, ready: impl Fn() -> bool) {
        for _ in 0..SPINS {
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

    /// Wakes the waiters. To be called after each change that a thread may wait for.
    fn wake(&self) {
        if self.sleepers.load(SeqCst) != 0 {
            drop(self.sleep.lock());
            self.changed.notify_all();
        }
    }
}

/// A slot that its holder occupies; dropping this frees it.
#[derive(Debug)]
pub(crate) struct InsertSlot<'a> {
    slots: &'a Slots,
    slot: &'a Slot,
}

impl InsertSlot<'_> {
    /// The record was reserved at `pos`. Wakes nobody, because waiters wait for the record's end.
    pub fn starts_at(&self, pos: u64) {
        self.slot.pos.store(pos, Ordering::Release);
    }

    /// Everything of the record before `pos` has been copied. To be called before the holder waits
    /// for anything.
    pub fn copied_upto(&self, pos: u64) {
        self.slot.pos.store(pos, SeqCst);
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

impl Drop for InsertSlot<'_> {
    fn drop(&mut self) {
        self.slot.pos.store(FREE, SeqCst);
        self.slots.wake();
    }
}

/// All slots, closed until this is dropped.
#[derive(Debug)]
pub(crate) struct ClosedSlots<'a> {
    slots: &'a Slots,
    _closing: forebay_aio::sync::MutexGuard<'a, ()>,
}

impl<'a> ClosedSlots<'a> {
    /// A slot for the thread that has closed them. It stays occupied when they are opened again.
    pub fn enter(&mut self, pos: u64) -> InsertSlot<'a> {
        loop {
            // Other inserters may hold one for a moment, until they see that the slots are closed.
            if let Some(slot) = self.slots.occupy(0, pos) {
                return slot;
            }
            self.slots.wait_for_free_slot();
        }
    }
}

impl Drop for ClosedSlots<'_> {
    fn drop(&mut self) {
        self.slots.closed.store(false, SeqCst);
        self.slots.wake();
    }
}
