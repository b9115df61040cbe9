//! The page table: which buffer holds a page.
//!
//! ```text
//!   heads:  [ 3 | - | 0 | ... ]      a power of two of them, at least two for each buffer
//!             |       |
//!     descs[3] -> 7   descs[0] -> -  chained by `next` in the descriptors
//! ```
//!
//! Finding a page writes nothing: it follows a chain, and compares tags, while others may change that chain. What it
//! finds is a hint until the caller has pinned the buffer and compared the tag again. A page that is there may be
//! overlooked, if a buffer of its chain moves to another one at that moment; so who finds nothing looks again under
//! the chain's lock before acting on it.
//!
//! Chains change under a lock, one for many of them.

use super::desc::{Descriptor, NONE};
use forebay_aio::sync::atomic::{AtomicU32, Ordering};
use forebay_aio::sync::{Mutex, MutexGuard};
use forebay_format::PageTag;

const LOCKS: usize = 256;

/// How far a look without a lock follows a chain. Longer ones are all but impossible; but a look that is led astray may
/// not go on for ever.
const FAR: usize = 32;

/// A cache line of its own for each lock.
#[repr(align(64))]
struct Padded(Mutex<()>);

/// The page table of one pool.
pub(crate) struct PageTable {
    heads: Box<[AtomicU32]>,
    locks: Box<[Padded]>,
}

/// The right to change the chains of one lock.
pub(crate) struct Chain<'a> {
    head: &'a AtomicU32,
    descs: &'a [Descriptor],
    _lock: MutexGuard<'a, ()>,
}

/// Hash of a tag: multiply and fold; neighbours fall into different places.
pub(crate) fn hash_tag(tag: &PageTag) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |h: u64, v: u64| {
        let m = u128::from(h ^ v) * u128::from(K);
        (m >> 64) as u64 ^ m as u64
    };
    let h = fold(K, u64::from(tag.rel.rel) << 32 | u64::from(tag.block));
    fold(h, (u64::from(tag.rel.spc) << 34 | u64::from(tag.fork.number())) ^ u64::from(tag.rel.db) << 2)
}

impl PageTable {
    pub(crate) fn new(buffers: usize) -> Self {
        let heads = (2 * buffers).next_power_of_two();
        PageTable {
            heads: (0..heads).map(|_| AtomicU32::new(NONE)).collect(),
            locks: (0..LOCKS.min(heads)).map(|_| Padded(Mutex::new(()))).collect(),
        }
    }

    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.heads.len() - 1)
    }

    /// A buffer that seems to hold the page.
    pub(crate) fn hint(&self, descs: &[Descriptor], hash: u64, tag: &PageTag) -> Option<u32> {
        let mut buf = self.heads[self.place(hash)].load(Ordering::Acquire);
        for _ in 0..FAR {
            let desc = descs.get(buf as usize)?;
            if desc.has_tag(tag) {
                return Some(buf);
            }
            buf = desc.next.load(Ordering::Acquire);
        }
        None
    }

    /// Locks the chain that a hash falls into.
    pub(crate) fn lock<'a>(&'a self, descs: &'a [Descriptor], hash: u64) -> Chain<'a> {
        let place = self.place(hash);
        Chain { head: &self.heads[place], descs, _lock: self.locks[place % self.locks.len()].0.lock() }
    }
}

impl Chain<'_> {
    /// The buffer that holds the page.
    pub(crate) fn find(&self, tag: &PageTag) -> Option<u32> {
        let mut buf = self.head.load(Ordering::Relaxed);
        while let Some(desc) = self.descs.get(buf as usize) {
            if desc.has_tag(tag) {
                return Some(buf);
            }
            buf = desc.next.load(Ordering::Relaxed);
        }
        None
    }

    /// Adds a buffer whose page is not there. Its tag is set.
    pub(crate) fn insert(&self, buf: u32) {
        self.descs[buf as usize].next.store(self.head.load(Ordering::Relaxed), Ordering::Release);
        self.head.store(buf, Ordering::Release);
    }

    /// Takes a buffer out. False if it is not there.
    pub(crate) fn remove(&self, buf: u32) -> bool {
        let mut link = self.head;
        loop {
            let at = link.load(Ordering::Relaxed);
            let Some(desc) = self.descs.get(at as usize) else { return false };
            if at == buf {
                // Its own link stays: whoever stands on it finds the way on.
                link.store(desc.next.load(Ordering::Relaxed), Ordering::Release);
                return true;
            }
            link = &desc.next;
        }
    }
}
