//! Buffer descriptors, one for each buffer and of one cache line: the state word, the tag, the
//! content lock and the I/O in progress.
//!
//! ```text
//!           63               44 43               31 30     21 20      18 17            0
//!   state:  | round of I/O (20) | epoch of use (13) | flags (10) | class (3) | refcount (18) |
//! ```
//!
//! Who may change what:
//! - The tag changes only while one thread owns the buffer: refcount 1 and not TAG_VALID. So the
//!   tag is stable for holders of a pin that was taken while TAG_VALID was set.
//! - The class and the epoch of the last use are set by every pin that is a use, with the same
//!   compare-and-swap; see `usage`. They are hints: a use that overtakes another one may be lost.
//! - `next` is the link of a chain in the page table. It changes under the lock of the chain's
//!   bucket.
//! - VALID is set by the completion of a read, or by the owner of a buffer that it zeroed.
//! - DIRTY is set under the exclusive content lock, and cleared by the completion of a write. The
//!   write holds the share-exclusive lock, so a page never changes while it is written.
//! - READING and WRITING are set by one issuer and cleared by the completion, in any thread. An I/O
//!   holds a pin of its own, so that its issuer may forget the buffer. The round tells I/Os apart:
//!   a slow issuer does not overwrite the wait reference of a later I/O.
//!
//! A thread that must wait sets WAITERS and sleeps (see `parking`). A thread that changes the state
//! or the lock and sees WAITERS wakes the sleepers. If an I/O is in progress, a waiter completes it
//! through its wait reference instead.

use super::trace_format::AccessKind;
use super::usage::{CLASS_MASK, Class, EPOCH_MASK, OLD, QUEUED, Use, elapsed, last_use, used_in};
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use forebay_aio::{Errno, WaitRef};
use forebay_format::{Fork, PageTag, RelFileLocator};

/// One pin.
pub(crate) const REF_ONE: u64 = 1;
/// The bits of the reference count.
pub(crate) const REF_MASK: u64 = (1 << 18) - 1;
/// The tag is set, and the page table contains the buffer.
pub(crate) const TAG_VALID: u64 = 1 << 21;
/// The page is in memory.
pub(crate) const VALID: u64 = 1 << 22;
/// The page is newer than the file.
pub(crate) const DIRTY: u64 = 1 << 23;
/// A read or an extension is filling the page.
pub(crate) const READING: u64 = 1 << 24;
/// The page is being written; the I/O owns the share-exclusive lock.
pub(crate) const WRITING: u64 = 1 << 25;
/// The last I/O on the page failed.
pub(crate) const IO_ERROR: u64 = 1 << 26;
/// A thread sleeps until this buffer changes.
pub(crate) const WAITERS: u64 = 1 << 27;
/// A backend waits for the cleanup lock: until its pin is the only one.
pub(crate) const CLEANUP_WANTED: u64 = 1 << 28;
/// A thread waits for any buffer, and is woken when this buffer's last pin is released.
pub(crate) const BUFFER_WANTED: u64 = 1 << 29;
/// The pool is gone, and pins on this buffer keep its memory.
pub(crate) const ORPHAN: u64 = 1 << 30;
/// The flags that the release of a pin must not overlook.
const ATTENTION: u64 = WAITERS | CLEANUP_WANTED | BUFFER_WANTED | ORPHAN;
/// One I/O. The bits from here on number the I/Os, and wrap around.
const ROUND_ONE: u64 = 1 << 44;

/// The parts of the state word fill it, and don't overlap.
const _: () = {
    let parts =
        [REF_MASK, CLASS_MASK, ORPHAN * 2 - TAG_VALID, EPOCH_MASK, ROUND_ONE.wrapping_neg()];
    let (mut at, mut n) = (0, 0);
    while n < parts.len() {
        let bits = parts[n].count_ones();
        assert!(parts[n].trailing_zeros() == at && parts[n].leading_zeros() + bits + at == 64);
        at += bits;
        n += 1;
    }
    assert!(at == 64);
};

/// No buffer; it ends a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// Returns the reference count of a state word.
pub(crate) const fn refcount(state: u64) -> u64 {
    state & REF_MASK
}

/// The bits of the fork's number beside the epoch of arrival.
const FORK_MASK: u32 = 0xff;
/// The lowest bit of the epoch of arrival.
const ARRIVAL_AT: u32 = 8;

/// The descriptor of a buffer.
#[repr(align(64))]
pub(crate) struct Descriptor {
    /// Reference count, class, flags, epoch, round.
    pub(crate) state: AtomicU64,
    /// spc and db, rel and block.
    tag: [AtomicU64; 2],
    /// The fork, and the lowest bits of the epoch in which the page came.
    fork_and_arrival: AtomicU32,
    /// The content lock; see `locking`.
    pub(super) lock: AtomicU32,
    /// The next buffer of a chain in the page table, or [`NONE`].
    pub(crate) next: AtomicU32,
    /// The I/O in progress, once it has a wait reference.
    io: Mutex<IoSlot>,
}

// The locks of a shuttle build are larger.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Descriptor>() == 64 && align_of::<Descriptor>() == 64);

/// The I/O in progress (none if there is no generation), and the reason why the last one failed.
struct IoSlot {
    generation: u64,
    index: u32,
    fault: PackedFault,
}

impl IoSlot {
    const NO_GENERATION: u64 = u64::MAX;

    const NONE: IoSlot =
        IoSlot { generation: Self::NO_GENERATION, index: 0, fault: PackedFault(0) };

    fn wait(&self) -> Option<WaitRef> {
        let wait = WaitRef { index: self.index, generation: self.generation };
        (wait.generation != Self::NO_GENERATION).then_some(wait)
    }

    fn set_wait(&mut self, wait: Option<WaitRef>) {
        self.index = wait.map_or(0, |wait| wait.index);
        self.generation = wait.map_or(Self::NO_GENERATION, |wait| wait.generation);
    }
}

/// How an I/O failed for one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoFault {
    /// The transfer failed.
    Transfer(Errno),
    /// The file ends within the block, after this many bytes of it.
    Short(u32),
    /// The page has a bad header or checksum.
    Page(BadPages),
    /// The page is not the one that was written last.
    Lost,
}

/// The invalid pages of one read. A read has at most 128 blocks, so each number is below 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadPages {
    /// The index of this page in the read.
    pub(crate) place: u32,
    /// The index of the read's last page.
    pub(crate) last: u32,
    /// The number of invalid pages besides the first.
    pub(crate) others: u32,
    /// The index of the first invalid page.
    pub(crate) first: u32,
}

impl BadPages {
    const BITS: u32 = 7;
    const MASK: u32 = (1 << Self::BITS) - 1;

    fn pack(self) -> u32 {
        [self.place, self.last, self.others, self.first].iter().fold(0, |packed, &number| {
            assert!(number <= Self::MASK, "a read has at most 128 blocks");
            packed << Self::BITS | number
        })
    }

    fn unpack(packed: u32) -> BadPages {
        let [place, last, others, first] =
            [3, 2, 1, 0].map(|n| packed >> (n * Self::BITS) & Self::MASK);
        BadPages { place, last, others, first }
    }
}

/// A fault, or none, in 32 bits: the kind in the upper 4, its number in the others.
#[derive(Clone, Copy)]
struct PackedFault(u32);

impl PackedFault {
    const NUMBER: u32 = (1 << 28) - 1;

    fn pack(fault: Option<IoFault>) -> PackedFault {
        let (kind, number) = match fault {
            None => (0, 0),
            Some(IoFault::Transfer(errno)) => (1, errno.0.unsigned_abs()),
            Some(IoFault::Short(got)) => (2, got),
            Some(IoFault::Page(bad)) => (3, bad.pack()),
            Some(IoFault::Lost) => (4, 0),
        };
        PackedFault(kind << 28 | number & Self::NUMBER)
    }

    fn unpack(self) -> Option<IoFault> {
        let number = self.0 & Self::NUMBER;
        match self.0 >> 28 {
            0 => None,
            1 => Some(IoFault::Transfer(Errno(number as i32))),
            2 => Some(IoFault::Short(number)),
            3 => Some(IoFault::Page(BadPages::unpack(number))),
            4 => Some(IoFault::Lost),
            kind => unreachable!("a fault of kind {kind}"),
        }
    }
}

impl Descriptor {
    pub(crate) fn new() -> Self {
        Descriptor {
            state: AtomicU64::new(0),
            tag: [AtomicU64::new(0), AtomicU64::new(0)],
            fork_and_arrival: AtomicU32::new(0),
            lock: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            io: Mutex::new(IoSlot::NONE),
        }
    }

    pub(crate) fn load(&self) -> u64 {
        self.state.load(Ordering::SeqCst)
    }

    /// Replaces the state word by what `change` makes of it, and returns the old one.
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut old = self.load();
        loop {
            let new = change(old);
            let swapped =
                self.state.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::SeqCst);
            match swapped {
                Ok(_) => return old,
                Err(now) => old = now,
            }
        }
    }

    // ---- tag

    /// Returns the tag. It is stable if the caller's pin was taken while TAG_VALID was set;
    /// otherwise it is a hint.
    pub(crate) fn tag(&self) -> PageTag {
        let [a, b] = [0, 1].map(|i| self.tag[i].load(Ordering::Relaxed));
        let number = (self.fork_and_arrival.load(Ordering::Relaxed) & FORK_MASK) as u8;
        let fork = Fork::from_number(number).expect("only `set_tag` stores a fork's number");
        PageTag {
            rel: RelFileLocator { spc: (a >> 32) as u32, db: a as u32, rel: (b >> 32) as u32 },
            fork,
            block: b as u32,
        }
    }

    /// Whether this is the tag; as certain as [`Self::tag`].
    pub(crate) fn has_tag(&self, tag: &PageTag) -> bool {
        let [a, b] = tag_words(tag);
        self.tag[1].load(Ordering::Relaxed) == b
            && self.tag[0].load(Ordering::Relaxed) == a
            && self.fork_and_arrival.load(Ordering::Relaxed) & FORK_MASK
                == u32::from(tag.fork.number())
    }

    /// Returns the lowest bits of the epoch in which the page came; as certain as [`Self::tag`].
    pub(crate) fn arrival(&self) -> u64 {
        u64::from(self.fork_and_arrival.load(Ordering::Relaxed) >> ARRIVAL_AT)
    }

    /// Sets the tag, and the epoch of arrival to that in the state word. Only the buffer's owner
    /// may do so.
    pub(crate) fn set_tag(&self, tag: &PageTag) {
        debug_assert!(refcount(self.load()) == 1 && self.load() & TAG_VALID == 0);
        let [a, b] = tag_words(tag);
        self.tag[0].store(a, Ordering::Relaxed);
        self.tag[1].store(b, Ordering::Relaxed);
        let arrival = (last_use(self.load()) as u32) << ARRIVAL_AT;
        let fork = u32::from(tag.fork.number());
        self.fork_and_arrival.store(arrival | fork, Ordering::Relaxed);
    }

    // ---- pins

    /// Pins a buffer that has a tag, and returns the state before. Without a use the class and the
    /// epoch stay the same. Unless the caller holds the lock of the tag's bucket, it must compare
    /// the tag afterwards.
    pub(crate) fn pin(&self, used: Option<Use>) -> Option<u64> {
        let mut old = self.state.load(Ordering::Relaxed);
        while old & TAG_VALID != 0 {
            debug_assert!(refcount(old) < REF_MASK);
            let marked = used.map_or(old, |used| used.mark(old));
            match self.state.compare_exchange_weak(
                old,
                marked + REF_ONE,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(old),
                Err(now) => old = now,
            }
        }
        None
    }

    /// Pins the buffer if its state contains TAG_VALID and all of `required`. This is no use.
    pub(crate) fn pin_if(&self, required: u64) -> bool {
        let required = required | TAG_VALID;
        self.pin_where(|s| s & required == required)
    }

    /// Pins the buffer if its state passes the test. This is no use.
    pub(crate) fn pin_where(&self, passes: impl Fn(u64) -> bool) -> bool {
        let pin = |s| passes(s).then_some(s + REF_ONE);
        self.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, pin).is_ok()
    }

    /// Whether the page is in memory and newer than its file.
    pub(crate) fn is_dirty_and_valid(&self) -> bool {
        self.load() & (DIRTY | VALID) == DIRTY | VALID
    }

    /// Adds a pin for a holder of one.
    pub(crate) fn pin_again(&self) {
        let old = self.state.fetch_add(REF_ONE, Ordering::SeqCst);
        debug_assert!(refcount(old) > 0);
    }

    /// Releases a pin if that requires no further action. Does not touch the descriptor afterwards:
    /// its memory may be gone.
    pub(crate) fn unpin_quietly(&self) -> bool {
        let quiet = |s: u64| (s & ATTENTION == 0).then(|| s - REF_ONE);
        self.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, quiet).is_ok()
    }

    /// Whether the release of a pin in this state requires further action.
    pub(crate) fn needs_attention(state: u64) -> bool {
        state & ATTENTION != 0
    }

    /// Records that a thread waits for a buffer.
    pub(crate) fn want_buffer(&self) {
        self.state.fetch_or(BUFFER_WANTED, Ordering::SeqCst);
    }

    /// Marks a pinned buffer whose pool is being dropped. Returns false if it is not pinned.
    pub(crate) fn orphan(&self) -> bool {
        let mark = |s: u64| (refcount(s) > 0).then_some(s | ORPHAN);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, mark).is_ok()
    }

    /// Releases a pin, and returns the state before.
    #[must_use]
    pub(crate) fn unpin(&self) -> u64 {
        let old = self.state.fetch_sub(REF_ONE, Ordering::SeqCst);
        debug_assert!(refcount(old) > 0, "unpin of an unpinned buffer");
        old
    }

    /// Pins an unpinned buffer, if its state is still this one.
    pub(crate) fn claim(&self, state: u64) -> bool {
        let pinned = state + REF_ONE;
        let (success, failure) = (Ordering::SeqCst, Ordering::Relaxed);
        refcount(state) == 0 && self.state.compare_exchange(state, pinned, success, failure).is_ok()
    }

    /// Sets class and epoch for a page that comes to a buffer of the caller's. In the queue it is
    /// `access` that counts, and on the clock `class`.
    pub(crate) fn expect(&self, access: AccessKind, class: Class, epoch: u64) {
        self.update(|s| {
            let queued = s & QUEUED != 0;
            used_in(if queued { Class::Queued(access) } else { class }.put(s), epoch)
        });
    }

    /// Makes the descriptor of a buffer that is not in use yet: pinned once, without a tag. So are
    /// those that a smaller pool has given up.
    pub(crate) fn retired() -> Self {
        let desc = Descriptor::new();
        desc.state.store(REF_ONE, Ordering::SeqCst);
        desc
    }

    /// Moves a buffer from the clock to the queue.
    pub(crate) fn enter_queue(&self) {
        self.update(|s| Class::Queued(AccessKind::Normal).put(s));
    }

    /// Moves a page from the queue to the clock, where it has this class.
    pub(crate) fn leave_queue(&self, class: Class) {
        self.update(|s| if s & QUEUED != 0 { class.put(s) } else { s });
    }

    /// Makes an age that has grown beyond [`OLD`] that age again, before it wraps around.
    pub(crate) fn keep_old(&self, now: u64) {
        let is_older = |s: u64| s & TAG_VALID != 0 && elapsed(now, last_use(s)) > OLD;
        if is_older(self.state.load(Ordering::Relaxed)) {
            self.update(|s| if is_older(s) { used_in(s, now.wrapping_sub(OLD)) } else { s });
        }
    }

    /// Takes ownership of an unused buffer, as the search for a victim does.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn claim_for_test(&self) -> bool {
        self.state.compare_exchange(0, REF_ONE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    // ---- I/O in progress

    /// Begins to fill the page. Returns true if the caller is the one to do it.
    pub(crate) fn start_reading(&self) -> bool {
        self.state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |s| {
                (s & (VALID | READING) == 0)
                    .then_some(((s | READING) & !IO_ERROR).wrapping_add(ROUND_ONE))
            })
            .is_ok()
    }

    /// Begins a write. The caller's share-exclusive lock and one of its pins go over to the I/O.
    pub(crate) fn start_writing(&self) {
        let old = self.update(|s| (s | WRITING).wrapping_add(ROUND_ONE));
        debug_assert!(old & (WRITING | READING) == 0 && old & VALID != 0);
    }

    /// Returns the round of the I/O that the caller started, for [`Self::set_io`].
    pub(crate) fn io_round(&self) -> u32 {
        (self.load() / ROUND_ONE) as u32
    }

    /// Stores the I/O's wait reference, unless that I/O is over. Returns true if threads sleep
    /// here.
    #[must_use]
    pub(crate) fn set_io(&self, round: u32, wait: WaitRef) -> bool {
        let mut io = self.io.lock();
        // Checked under the lock, which the end of an I/O takes too.
        if self.io_round() != round || self.load() & (READING | WRITING) == 0 {
            return false;
        }
        io.set_wait(Some(wait));
        drop(io);
        self.load() & WAITERS != 0
    }

    /// Returns the wait reference of the I/O in progress, if it has one yet.
    pub(crate) fn io(&self) -> Option<WaitRef> {
        self.io.lock().wait()
    }

    /// Returns the wait reference of the write in progress, if it has one yet.
    pub(crate) fn write_io(&self) -> Option<WaitRef> {
        if self.load() & WRITING != 0 { self.io() } else { None }
    }

    /// Returns the reason why the last I/O failed, once it has ended.
    pub(crate) fn fault(&self) -> Option<IoFault> {
        self.io.lock().fault.unpack()
    }

    /// Ends an I/O: clears and sets flags. Returns true if threads sleep here.
    #[must_use]
    pub(crate) fn end_io(&self, clear: u64, set: u64, fault: Option<IoFault>) -> bool {
        let mut io = self.io.lock();
        io.fault = PackedFault::pack(fault);
        io.set_wait(None);
        let old = self.update(|s| ((s & !clear) | set).wrapping_add(ROUND_ONE));
        old & WAITERS != 0
    }
}

/// Returns a tag's words, without the fork.
fn tag_words(tag: &PageTag) -> [u64; 2] {
    let PageTag { rel: RelFileLocator { spc, db, rel }, block, .. } = *tag;
    [u64::from(spc) << 32 | u64::from(db), u64::from(rel) << 32 | u64::from(block)]
}
