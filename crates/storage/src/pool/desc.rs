//! One descriptor for each buffer: the state word, the tag, the content lock and the I/O in progress.
//!
//! ```text
//!   state (64 bits):  | flags ........... | usage (4) | refcount (18) |
//!   lock  (32 bits):  | X | SX | ............ shared holders (24) ... |
//! ```
//!
//! Who may change what:
//! - the tag changes only while a thread owns the buffer alone: refcount 1 and not TAG_VALID. So whoever holds
//!   a pin taken while TAG_VALID was set reads a stable tag;
//! - VALID is set by the completion of a read, or by the owner of a buffer that it zeroed;
//! - DIRTY is set under the exclusive content lock, and cleared by a write's completion, whose share-exclusive
//!   lock excludes the former: a page never changes while it is written;
//! - READING and WRITING are each set by one issuer and cleared by the completion, in any thread. An I/O holds a
//!   pin of its own, so that an issuer may forget the buffer.
//!
//! A thread that must wait sets WAITERS and parks in [`super::parking`]; whoever changes the state or the lock
//! and sees WAITERS wakes them. With an I/O in progress a waiter completes it through its wait reference instead.

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

/// The reference count of a state word.
pub(crate) const fn refcount(state: u64) -> u64 {
    state & REF_MASK
}

/// The usage count of a state word.
pub(crate) const fn usage(state: u64) -> u64 {
    (state & USAGE_MASK) / USAGE_ONE
}

const LOCK_X: u32 = 1 << 31;
const LOCK_SX: u32 = 1 << 30;
const LOCK_SHARED: u32 = (1 << 24) - 1;

/// A buffer's descriptor; a cache line or so.
#[repr(align(64))]
pub(crate) struct Descriptor {
    /// Reference count, usage count and flags.
    pub(crate) state: AtomicU64,
    tag: [AtomicU64; 3],
    lock: AtomicU32,
    /// The I/O in progress, once it has a wait reference.
    io: Mutex<IoSlot>,
}

/// What the descriptor knows of its I/O. `round` tells one I/O from the next, so that a late issuer does not
/// store its reference over that of a later I/O.
#[derive(Default)]
struct IoSlot {
    round: u32,
    wait: Option<WaitRef>,
    /// Why the last I/O failed.
    fault: Option<IoFault>,
}

/// How an I/O failed for one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoFault {
    /// The transfer failed.
    Transfer(Errno),
    /// The file ends before the block's end; this many bytes of it were there.
    Short(u32),
    /// It is not a valid page.
    Page,
}

impl Descriptor {
    pub(crate) fn new() -> Self {
        Descriptor {
            state: AtomicU64::new(0),
            tag: [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)],
            lock: AtomicU32::new(0),
            io: Mutex::new(IoSlot::default()),
        }
    }

    pub(crate) fn load(&self) -> u64 {
        self.state.load(Ordering::SeqCst)
    }

    // ---- tag

    /// The tag; stable while the caller holds a pin taken with TAG_VALID set, else only a hint.
    pub(crate) fn tag(&self) -> PageTag {
        let [a, b, c] = [0, 1, 2].map(|i| self.tag[i].load(Ordering::Relaxed));
        let fork = Fork::from_number((b >> 32) as u8).unwrap_or(Fork::Main);
        PageTag {
            rel: RelFileLocator { spc: (a >> 32) as u32, db: a as u32, rel: b as u32 },
            fork,
            block: c as u32,
        }
    }

    /// Sets the tag. The caller owns the buffer alone.
    pub(crate) fn set_tag(&self, tag: &PageTag) {
        debug_assert!(refcount(self.load()) == 1 && self.load() & TAG_VALID == 0);
        let fork = u64::from(tag.fork.number());
        self.tag[0].store(u64::from(tag.rel.spc) << 32 | u64::from(tag.rel.db), Ordering::Relaxed);
        self.tag[1].store(fork << 32 | u64::from(tag.rel.rel), Ordering::Relaxed);
        self.tag[2].store(u64::from(tag.block), Ordering::Relaxed);
    }

    // ---- pins

    /// Pins a buffer found in the page table, whose shard the caller has locked. Returns the state before.
    /// The usage count rises by one, or only from 0 to 1 for a ring's access.
    pub(crate) fn pin(&self, ring: bool) -> u64 {
        let mut old = self.state.load(Ordering::Relaxed);
        loop {
            debug_assert!(refcount(old) < REF_MASK);
            let limit = if ring { 1 } else { USAGE_MAX };
            let bump = if usage(old) < limit { USAGE_ONE } else { 0 };
            match self.state.compare_exchange_weak(
                old,
                old + REF_ONE + bump,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return old,
                Err(now) => old = now,
            }
        }
    }

    /// Pins a buffer found by walking the descriptors, if its state has all of `required` and TAG_VALID.
    /// Leaves the usage count alone.
    pub(crate) fn pin_if(&self, required: u64) -> bool {
        let required = required | TAG_VALID;
        self.state
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |s| {
                (s & required == required).then_some(s + REF_ONE)
            })
            .is_ok()
    }

    /// One more pin for someone who already holds one.
    pub(crate) fn pin_again(&self) {
        let old = self.state.fetch_add(REF_ONE, Ordering::SeqCst);
        debug_assert!(refcount(old) > 0);
    }

    /// Gives a pin back. True if someone waits for that.
    #[must_use]
    pub(crate) fn unpin(&self) -> bool {
        let old = self.state.fetch_sub(REF_ONE, Ordering::SeqCst);
        debug_assert!(refcount(old) > 0, "unpin of an unpinned buffer");
        old & WAITERS != 0
    }

    // ---- I/O in progress

    /// Begins to fill the page: true if the caller now is the one to do it.
    pub(crate) fn start_reading(&self) -> bool {
        let won = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |s| {
                (s & (VALID | READING) == 0).then_some((s | READING) & !IO_ERROR)
            })
            .is_ok();
        if won {
            self.next_round();
        }
        won
    }

    /// Begins a write; the caller holds the share-exclusive lock, and leaves it and one pin to the I/O.
    pub(crate) fn start_writing(&self) {
        let old = self.state.fetch_or(WRITING, Ordering::SeqCst);
        debug_assert!(old & (WRITING | READING) == 0 && old & VALID != 0);
        self.next_round();
    }

    fn next_round(&self) {
        let mut io = self.io.lock();
        io.fault = None;
        io.round = io.round.wrapping_add(1);
        io.wait = None;
    }

    /// The number of the I/O that the caller started, for [`Self::set_io`].
    pub(crate) fn io_round(&self) -> u32 {
        self.io.lock().round
    }

    /// Stores the I/O's wait reference, unless that I/O is over. True if someone is parked here.
    #[must_use]
    pub(crate) fn set_io(&self, round: u32, wait: WaitRef) -> bool {
        let mut io = self.io.lock();
        if io.round != round || self.load() & (READING | WRITING) == 0 {
            return false;
        }
        io.wait = Some(wait);
        drop(io);
        self.load() & WAITERS != 0
    }

    /// The wait reference of the I/O in progress, if it has one yet.
    pub(crate) fn io(&self) -> Option<WaitRef> {
        self.io.lock().wait
    }

    /// Why the last I/O failed, until the next one starts.
    pub(crate) fn fault(&self) -> Option<IoFault> {
        self.io.lock().fault
    }

    /// Ends an I/O: clears and sets flags. Returns true if someone is parked here.
    #[must_use]
    pub(crate) fn end_io(&self, clear: u64, set: u64, fault: Option<IoFault>) -> bool {
        let mut io = self.io.lock();
        io.fault = fault;
        io.wait = None;
        io.round = io.round.wrapping_add(1);
        let old = self
            .state
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |s| Some((s & !clear) | set))
            .unwrap_or_default();
        old & WAITERS != 0
    }

    // ---- content lock

    pub(crate) fn try_shared(&self) -> bool {
        self.lock
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |l| {
                debug_assert!(l & LOCK_SHARED < LOCK_SHARED);
                (l & LOCK_X == 0).then_some(l + 1)
            })
            .is_ok()
    }

    pub(crate) fn try_share_exclusive(&self) -> bool {
        self.lock
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |l| {
                (l & (LOCK_X | LOCK_SX) == 0).then_some(l | LOCK_SX)
            })
            .is_ok()
    }

    pub(crate) fn try_exclusive(&self) -> bool {
        self.lock.compare_exchange(0, LOCK_X, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// True if an exclusive lock could be taken now.
    pub(crate) fn is_unlocked(&self) -> bool {
        self.lock.load(Ordering::SeqCst) == 0
    }

    /// True if no exclusive lock is held.
    pub(crate) fn allows_shared(&self) -> bool {
        self.lock.load(Ordering::SeqCst) & LOCK_X == 0
    }

    /// True if a share-exclusive lock could be taken now.
    pub(crate) fn allows_share_exclusive(&self) -> bool {
        self.lock.load(Ordering::SeqCst) & (LOCK_X | LOCK_SX) == 0
    }

    /// Each unlock returns true if someone is parked here.
    #[must_use]
    pub(crate) fn unlock_shared(&self) -> bool {
        let old = self.lock.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(old & LOCK_SHARED > 0);
        self.load() & WAITERS != 0
    }

    #[must_use]
    pub(crate) fn unlock_share_exclusive(&self) -> bool {
        let old = self.lock.fetch_and(!LOCK_SX, Ordering::SeqCst);
        debug_assert!(old & LOCK_SX != 0);
        self.load() & WAITERS != 0
    }

    #[must_use]
    pub(crate) fn unlock_exclusive(&self) -> bool {
        let old = self.lock.fetch_and(!LOCK_X, Ordering::SeqCst);
        debug_assert!(old & LOCK_X != 0);
        self.load() & WAITERS != 0
    }
}
