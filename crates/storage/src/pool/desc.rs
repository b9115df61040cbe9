//! One descriptor for each buffer, in one cache line: the state word, the tag, the content lock and
//! the I/O in progress.
//!
//! ```text
//!   state:  | round of I/O (24) | flags .......... | usage (4) | refcount (18) |
//! ```
//!
//! Who may change what:
//! - the tag changes only while a thread owns the buffer alone: refcount 1 and not TAG_VALID. So
//!   whoever holds a pin taken while TAG_VALID was set reads a stable tag;
//! - `next`, the link of a chain in the page table, changes under the lock of the bucket that the
//!   chain belongs to;
//! - VALID is set by the completion of a read, or by the owner of a buffer that it zeroed;
//! - DIRTY is set under the exclusive content lock, and cleared by a write's completion, whose
//!   share-exclusive lock excludes the former: a page never changes while it is written;
//! - READING and WRITING are each set by one issuer and cleared by the completion, in any thread.
//!   An I/O holds a pin of its own, so that an issuer may forget the buffer. The round tells one
//!   I/O from the next, so that a late issuer does not store its reference over that of a later
//!   I/O.
//!
//! A thread that must wait sets WAITERS and parks in [`super::parking`]; whoever changes the state
//! or the lock and sees WAITERS wakes them. With an I/O in progress a waiter completes it through
//! its wait reference instead.

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use forebay_aio::{Errno, WaitRef};
use forebay_format::{Fork, PageTag, RelFileLocator};

/// One pin.
pub(crate) const REF_ONE: u64 = 1;
/// Bits of the reference count.
pub(crate) const REF_MASK: u64 = (1 << 18) - 1;
/// One step of the usage count.
pub(crate) const USAGE_ONE: u64 = 1 << 18;
/// Bits of the usage count.
pub(crate) const USAGE_MASK: u64 = 0xF << 18;
/// The usage count's limit, in steps.
pub(crate) const USAGE_MAX: u64 = 5;
/// The tag is set and the page table knows the buffer.
pub(crate) const TAG_VALID: u64 = 1 << 22;
/// The page is in memory.
pub(crate) const VALID: u64 = 1 << 23;
/// The page is newer than the file.
pub(crate) const DIRTY: u64 = 1 << 24;
/// Someone is filling the page: a read, or an extension.
pub(crate) const READING: u64 = 1 << 25;
/// The page is being written; its issuer's share-exclusive lock belongs to the I/O.
pub(crate) const WRITING: u64 = 1 << 26;
/// The last I/O on the page failed.
pub(crate) const IO_ERROR: u64 = 1 << 27;
/// Someone is parked on this buffer.
pub(crate) const WAITERS: u64 = 1 << 28;
/// Someone waits until their pin is the only one.
pub(crate) const CLEANUP_WANTED: u64 = 1 << 29;
/// Someone waits for any buffer; seen when the last pin is given back.
pub(crate) const BUFFER_WANTED: u64 = 1 << 30;
/// The pool is gone, and pins on this buffer keep its memory.
pub(crate) const ORPHAN: u64 = 1 << 31;
/// What whoever gives back a pin must attend to.
const ATTENTION: u64 = WAITERS | BUFFER_WANTED | ORPHAN;
/// One I/O; the number of I/Os is in the bits from here on, and starts again when they are used up.
const ROUND_ONE: u64 = 1 << 40;

/// No buffer: the end of a chain.
pub(crate) const NONE: u32 = u32::MAX;

/// The reference count of a state word.
pub(crate) const fn refcount(state: u64) -> u64 {
    state & REF_MASK
}

/// The usage count of a state word.
pub(crate) const fn usage(state: u64) -> u64 {
    (state & USAGE_MASK) / USAGE_ONE
}

/// A buffer's descriptor.
#[repr(align(64))]
pub(crate) struct Descriptor {
    /// Reference count, usage count, flags, round.
    pub(crate) state: AtomicU64,
    /// spc and db, rel and block.
    tag: [AtomicU64; 2],
    fork: AtomicU32,
    /// The content lock, see [`super::locking`].
    pub(super) lock: AtomicU32,
    /// The next buffer of a chain in the page table, or [`NONE`].
    pub(crate) next: AtomicU32,
    /// The I/O in progress, once it has a wait reference.
    io: Mutex<IoSlot>,
}

// A checked build's locks are larger.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Descriptor>() == 64 && align_of::<Descriptor>() == 64);

/// What the descriptor knows of its I/O: the wait reference (no generation: none), and why the last
/// one failed.
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
    /// The file ends before the block's end; this many bytes of it were there.
    Short(u32),
    /// It is not a valid page.
    Page(BadPages),
    /// It is not what was written there last.
    Lost,
}

/// What a read found whose pages were not all valid; each number below 128, the most blocks a read
/// has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadPages {
    /// The place of this page in the read.
    pub(crate) place: u32,
    /// The read's last place.
    pub(crate) last: u32,
    /// Invalid pages beside the first.
    pub(crate) others: u32,
    /// The place of the first invalid page.
    pub(crate) first: u32,
}

impl BadPages {
    const BITS: u32 = 7;
    const MOST: u32 = (1 << Self::BITS) - 1;

    fn pack(self) -> u32 {
        let numbers = [self.place, self.last, self.others, self.first];
        numbers.iter().fold(0, |packed, number| packed << Self::BITS | (*number).min(Self::MOST))
    }

    fn unpack(packed: u32) -> BadPages {
        let [place, last, others, first] =
            [3, 2, 1, 0].map(|n| packed >> (n * Self::BITS) & Self::MOST);
        BadPages { place, last, others, first }
    }
}

/// A fault, or none, in 32 bits: the kind above, its number below.
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
            _ => Some(IoFault::Lost),
        }
    }
}

impl Descriptor {
    pub(crate) fn new() -> Self {
        Descriptor {
            state: AtomicU64::new(0),
            tag: [AtomicU64::new(0), AtomicU64::new(0)],
            fork: AtomicU32::new(0),
            lock: AtomicU32::new(0),
            next: AtomicU32::new(NONE),
            io: Mutex::new(IoSlot::NONE),
        }
    }

    pub(crate) fn load(&self) -> u64 {
        self.state.load(Ordering::SeqCst)
    }

    // ---- tag

    /// The tag; stable while the caller holds a pin taken with TAG_VALID set, else only a hint.
    pub(crate) fn tag(&self) -> PageTag {
        let [a, b] = [0, 1].map(|i| self.tag[i].load(Ordering::Relaxed));
        let fork = Fork::from_number(self.fork.load(Ordering::Relaxed) as u8).unwrap_or(Fork::Main);
        PageTag {
            rel: RelFileLocator { spc: (a >> 32) as u32, db: a as u32, rel: (b >> 32) as u32 },
            fork,
            block: b as u32,
        }
    }

    /// Is this the tag? As certain as [`Self::tag`].
    pub(crate) fn has_tag(&self, tag: &PageTag) -> bool {
        let [a, b] = tag_words(tag);
        self.tag[1].load(Ordering::Relaxed) == b
            && self.tag[0].load(Ordering::Relaxed) == a
            && self.fork.load(Ordering::Relaxed) == u32::from(tag.fork.number())
    }

    /// Sets the tag. The caller owns the buffer alone.
    pub(crate) fn set_tag(&self, tag: &PageTag) {
        debug_assert!(refcount(self.load()) == 1 && self.load() & TAG_VALID == 0);
        let [a, b] = tag_words(tag);
        self.tag[0].store(a, Ordering::Relaxed);
        self.tag[1].store(b, Ordering::Relaxed);
        self.fork.store(u32::from(tag.fork.number()), Ordering::Relaxed);
    }

    // ---- pins

    /// Pins a buffer if it has a tag, and returns the state before. The usage count rises by one,
    /// or only from 0 to 1 for a ring's access. Unless the caller has the table's chain locked, the
    /// tag is to be compared afterwards.
    pub(crate) fn pin(&self, ring: bool) -> Option<u64> {
        let limit = if ring { 1 } else { USAGE_MAX };
        let mut old = self.state.load(Ordering::Relaxed);
        while old & TAG_VALID != 0 {
            debug_assert!(refcount(old) < REF_MASK);
            let bump = if usage(old) < limit { USAGE_ONE } else { 0 };
            match self.state.compare_exchange_weak(
                old,
                old + REF_ONE + bump,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(old),
                Err(now) => old = now,
            }
        }
        None
    }

    /// Pins a buffer found by walking the descriptors, if its state has all of `required` and
    /// TAG_VALID. Leaves the usage count alone.
    pub(crate) fn pin_if(&self, required: u64) -> bool {
        let required = required | TAG_VALID;
        self.pin_where(|s| s & required == required)
    }

    /// Pins the buffer if its state passes. Leaves the usage count alone.
    pub(crate) fn pin_where(&self, passes: impl Fn(u64) -> bool) -> bool {
        let pin = |s| passes(s).then_some(s + REF_ONE);
        self.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, pin).is_ok()
    }

    /// Pins a buffer that holds a dirty page.
    pub(crate) fn pin_if_dirty(&self) -> bool {
        self.pin_if(DIRTY)
    }

    /// Is the page in memory, and newer than its file?
    pub(crate) fn is_dirty_and_valid(&self) -> bool {
        self.load() & (DIRTY | VALID) == DIRTY | VALID
    }

    /// Pins a buffer without a change of its usage count if its state is as `wanted` says.
    pub(crate) fn pin_alone(&self, wanted: impl Fn(u64) -> bool) -> bool {
        self.state
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |s| wanted(s).then_some(s + REF_ONE))
            .is_ok()
    }

    /// One more pin for someone who already holds one.
    pub(crate) fn pin_again(&self) {
        let old = self.state.fetch_add(REF_ONE, Ordering::SeqCst);
        debug_assert!(refcount(old) > 0);
    }

    /// Gives a pin back if there is nothing else to do then. Nothing is looked at afterwards: the
    /// memory may be gone.
    pub(crate) fn unpin_quietly(&self) -> bool {
        let quiet = |s: u64| (s & ATTENTION == 0).then(|| s - REF_ONE);
        self.state.fetch_update(Ordering::SeqCst, Ordering::Relaxed, quiet).is_ok()
    }

    /// Is there something to do after a pin was given back in this state?
    pub(crate) fn needs_attention(state: u64) -> bool {
        state & ATTENTION != 0
    }

    /// Marks the buffer as one that someone waits for.
    pub(crate) fn want_buffer(&self) {
        self.state.fetch_or(BUFFER_WANTED, Ordering::SeqCst);
    }

    /// Marks a pinned buffer as one whose pool is gone. False if it is not pinned.
    pub(crate) fn orphan(&self) -> bool {
        let mark = |s: u64| (refcount(s) > 0).then_some(s | ORPHAN);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, mark).is_ok()
    }

    /// Gives a pin back. Returns the state before.
    #[must_use]
    pub(crate) fn unpin(&self) -> u64 {
        let old = self.state.fetch_sub(REF_ONE, Ordering::SeqCst);
        debug_assert!(refcount(old) > 0, "unpin of an unpinned buffer");
        old
    }

    /// Owns a fresh buffer, as a victim's taker does.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn claim_for_test(&self) -> bool {
        self.state.compare_exchange(0, REF_ONE, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    // ---- I/O in progress

    /// Begins to fill the page: true if the caller now is the one to do it.
    pub(crate) fn start_reading(&self) -> bool {
        self.state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |s| {
                (s & (VALID | READING) == 0)
                    .then_some(((s | READING) & !IO_ERROR).wrapping_add(ROUND_ONE))
            })
            .is_ok()
    }

    /// Begins a write; the caller holds the share-exclusive lock, and leaves it and one pin to the
    /// I/O.
    pub(crate) fn start_writing(&self) {
        let begin = |s: u64| Some((s | WRITING).wrapping_add(ROUND_ONE));
        let old =
            self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, begin).unwrap_or_default();
        debug_assert!(old & (WRITING | READING) == 0 && old & VALID != 0);
    }

    /// The number of the I/O that the caller started, for [`Self::set_io`].
    pub(crate) fn io_round(&self) -> u32 {
        (self.load() / ROUND_ONE) as u32
    }

    /// Stores the I/O's wait reference, unless that I/O is over. True if someone is parked here.
    #[must_use]
    pub(crate) fn set_io(&self, round: u32, wait: WaitRef) -> bool {
        let mut io = self.io.lock();
        // Under the lock, which the end of an I/O takes too.
        if self.io_round() != round || self.load() & (READING | WRITING) == 0 {
            return false;
        }
        io.set_wait(Some(wait));
        drop(io);
        self.load() & WAITERS != 0
    }

    /// The wait reference of the I/O in progress, if it has one yet.
    pub(crate) fn io(&self) -> Option<WaitRef> {
        self.io.lock().wait()
    }

    /// The wait reference of the write in progress, if it has one yet.
    pub(crate) fn write_io(&self) -> Option<WaitRef> {
        if self.load() & WRITING != 0 { self.io() } else { None }
    }

    /// Why the last I/O failed, once it has ended.
    pub(crate) fn fault(&self) -> Option<IoFault> {
        self.io.lock().fault.unpack()
    }

    /// Ends an I/O: clears and sets flags. Returns true if someone is parked here.
    #[must_use]
    pub(crate) fn end_io(&self, clear: u64, set: u64, fault: Option<IoFault>) -> bool {
        let mut io = self.io.lock();
        io.fault = PackedFault::pack(fault);
        io.set_wait(None);
        let end = |s: u64| Some(((s & !clear) | set).wrapping_add(ROUND_ONE));
        let old =
            self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, end).unwrap_or_default();
        old & WAITERS != 0
    }
}

/// A tag's words, the fork left out.
fn tag_words(tag: &PageTag) -> [u64; 2] {
    let PageTag { rel: RelFileLocator { spc, db, rel }, block, .. } = *tag;
    [u64::from(spc) << 32 | u64::from(db), u64::from(rel) << 32 | u64::from(block)]
}
