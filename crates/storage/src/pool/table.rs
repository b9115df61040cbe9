//! The page table: which buffer contains a page.
//!
//! ```text
//!   bucket (a cache line):  | 8 marks of 16 bits | 8 buffers | more |
//!                                                               |
//!                                         descs[3] -> descs[7] -> -  by `next` in the descriptors
//! ```
//!
//! There is a bucket for about every two buffers, so a bucket rarely overflows into its chain. A
//! mark is a part of the page's hash. It spares a search the descriptors of other pages, which
//! other threads change all the time. All marks are compared at once and without a branch: a
//! mispredicted branch would read such a descriptor too, and move its cache line between
//! processors.
//!
//! A search takes no lock: it reads a bucket while others may change it. Its result is a hint until
//! the caller has pinned the buffer and compared the tag. A search may miss a page if a buffer of
//! the chain moves to another chain at that moment. So a thread that finds nothing searches again
//! under the bucket's lock before it acts on that.
//!
//! Buckets change under a lock that several of them share.

use super::cache_line::CacheLine;
use super::desc::{Descriptor, NONE};
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use forebay_aio::sync::{Mutex, MutexGuard};
use forebay_format::PageTag;

const LOCKS: usize = 256;

/// How many links of a chain a search without a lock follows. Chains are never that long in
/// practice; the bound keeps a search that strays into another chain from running forever.
const FAR: usize = 32;

const ENTRIES: usize = 8;
/// The lowest bit of each of a word's four marks.
const LOWEST: u64 = 0x0001_0001_0001_0001;
/// The highest bit of each.
const HIGHEST: u64 = LOWEST << 15;

#[repr(align(64))]
struct Bucket {
    /// Four in each word, the first one lowest. The mark of an entry without a buffer is arbitrary.
    marks: [AtomicU64; 2],
    bufs: [AtomicU32; ENTRIES],
    more: AtomicU32,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Bucket>() == 64);

/// The page table of one pool.
pub(crate) struct PageTable {
    buckets: Box<[Bucket]>,
    locks: Box<[CacheLine<Mutex<()>>]>,
}

/// A bucket, and the lock that allows changes to it.
pub(crate) struct Locked<'a> {
    bucket: &'a Bucket,
    hash: u64,
    descs: &'a [Descriptor],
    _lock: MutexGuard<'a, ()>,
}

/// Hashes a tag by multiplying and folding; neighbours fall into different buckets.
pub(crate) fn hash_tag(tag: &PageTag) -> u64 {
    const K: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |h: u64, v: u64| {
        let m = u128::from(h ^ v) * u128::from(K);
        (m >> 64) as u64 ^ m as u64
    };
    let h = fold(K, u64::from(tag.rel.rel) << 32 | u64::from(tag.block));
    fold(
        h,
        (u64::from(tag.rel.spc) << 34 | u64::from(tag.fork.number())) ^ u64::from(tag.rel.db) << 2,
    )
}

fn mark(hash: u64) -> u64 {
    hash & 0xffff
}

/// Returns the highest bit of each mark in a word that equals `mark`. Marks above an equal one may
/// be reported by chance.
fn equal_marks(word: u64, mark: u64) -> u64 {
    let differ = word ^ (mark * LOWEST);
    differ.wrapping_sub(LOWEST) & !differ & HIGHEST
}

impl Bucket {
    fn new() -> Self {
        Bucket {
            marks: [AtomicU64::new(0), AtomicU64::new(0)],
            bufs: [(); ENTRIES].map(|()| AtomicU32::new(NONE)),
            more: AtomicU32::new(NONE),
        }
    }

    /// Returns the buffer that seems to contain the page.
    fn find(&self, descs: &[Descriptor], hash: u64, tag: &PageTag) -> Option<u32> {
        let [low, high] =
            [0, 1].map(|n| equal_marks(self.marks[n].load(Ordering::Acquire), mark(hash)));
        // Bit 15 of each 16 stands for an entry of the first word, bit 14 for one of the second.
        let mut equal = low | high >> 1;
        while equal != 0 {
            let bit = equal.trailing_zeros() as usize;
            let at = bit / 16 + (1 - bit % 2) * 4;
            let buf = self.bufs[at % ENTRIES].load(Ordering::Acquire);
            if descs.get(buf as usize).is_some_and(|desc| desc.has_tag(tag)) {
                return Some(buf);
            }
            equal &= equal - 1;
        }
        let mut buf = self.more.load(Ordering::Acquire);
        for _ in 0..FAR {
            let desc = descs.get(buf as usize)?;
            if desc.has_tag(tag) {
                return Some(buf);
            }
            buf = desc.next.load(Ordering::Acquire);
        }
        None
    }
}

impl PageTable {
    pub(crate) fn new(buffers: usize) -> Self {
        let buckets = (buffers / 2).next_power_of_two();
        PageTable {
            buckets: (0..buckets).map(|_| Bucket::new()).collect(),
            locks: (0..LOCKS.min(buckets)).map(|_| CacheLine(Mutex::new(()))).collect(),
        }
    }

    /// The index of the bucket for a hash.
    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Returns the buffer that seems to contain the page.
    pub(crate) fn hint(&self, descs: &[Descriptor], hash: u64, tag: &PageTag) -> Option<u32> {
        self.buckets[self.place(hash)].find(descs, hash, tag)
    }

    /// Locks the bucket of a hash.
    pub(crate) fn lock<'a>(&'a self, descs: &'a [Descriptor], hash: u64) -> Locked<'a> {
        let place = self.place(hash);
        let _lock = self.locks[place % self.locks.len()].lock();
        Locked { bucket: &self.buckets[place], hash, descs, _lock }
    }
}

impl Locked<'_> {
    /// Returns the buffer that contains the page.
    pub(crate) fn find(&self, tag: &PageTag) -> Option<u32> {
        let found = self.bucket.find(self.descs, self.hash, tag);
        // The chain may be longer than a search without a lock follows.
        found.or_else(|| self.chain().find(|&buf| self.descs[buf as usize].has_tag(tag)))
    }

    fn chain(&self) -> impl Iterator<Item = u32> + '_ {
        let present = |buf: u32| (buf != NONE).then_some(buf);
        std::iter::successors(present(self.bucket.more.load(Ordering::Relaxed)), move |&buf| {
            present(self.descs[buf as usize].next.load(Ordering::Relaxed))
        })
    }

    /// Adds a buffer, whose tag is set. The table does not contain its page.
    pub(crate) fn insert(&self, buf: u32) {
        let Bucket { marks, bufs, more } = self.bucket;
        let free = bufs.iter().position(|slot| slot.load(Ordering::Relaxed) == NONE);
        if let Some(at) = free {
            let (word, shift) = (&marks[at / 4], at % 4 * 16);
            let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
            word.store(others | mark(self.hash) << shift, Ordering::Release);
            bufs[at].store(buf, Ordering::Release);
            return;
        }
        self.descs[buf as usize].next.store(more.load(Ordering::Relaxed), Ordering::Release);
        more.store(buf, Ordering::Release);
    }

    /// Removes a buffer. Returns false if it is not there.
    pub(crate) fn remove(&self, buf: u32) -> bool {
        if let Some(slot) = self.bucket.bufs.iter().find(|slot| slot.load(Ordering::Relaxed) == buf)
        {
            slot.store(NONE, Ordering::Release);
            return true;
        }
        let next = &self.descs[buf as usize].next;
        let mut links = std::iter::once(&self.bucket.more)
            .chain(self.chain().map(|at| &self.descs[at as usize].next));
        match links.find(|link| link.load(Ordering::Relaxed) == buf) {
            // The removed buffer keeps its link, so that a search that has reached it can go on.
            Some(link) => link.store(next.load(Ordering::Relaxed), Ordering::Release),
            None => return false,
        }
        true
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use forebay_format::{Fork, RelFileLocator};

    fn tag(block: u32) -> PageTag {
        PageTag::new(RelFileLocator::in_default(5, 16_384), Fork::Main, block)
    }

    fn descs(n: usize) -> Vec<Descriptor> {
        (0..n).map(|_| Descriptor::new()).collect()
    }

    fn insert(table: &PageTable, descs: &[Descriptor], buf: u32, tag: &PageTag, hash: u64) {
        assert!(descs[buf as usize].claim_for_test());
        descs[buf as usize].set_tag(tag);
        table.lock(descs, hash).insert(buf);
    }

    #[test]
    fn pages_are_found_until_they_are_removed() {
        let (table, descs) = (PageTable::new(64), descs(64));
        for buf in 0..64 {
            insert(&table, &descs, buf, &tag(buf), hash_tag(&tag(buf)));
        }
        for buf in (0..64).step_by(3) {
            assert!(table.lock(&descs, hash_tag(&tag(buf))).remove(buf));
        }
        for buf in 0..64 {
            let hash = hash_tag(&tag(buf));
            let want = (buf % 3 != 0).then_some(buf);
            assert_eq!(table.hint(&descs, hash, &tag(buf)), want);
            assert_eq!(table.lock(&descs, hash).find(&tag(buf)), want);
            assert_eq!(table.lock(&descs, hash).remove(buf), want.is_some());
        }
    }

    #[test]
    fn a_full_bucket_continues_in_a_chain() {
        const N: u32 = 60;
        let (table, descs) = (PageTable::new(64), descs(64));
        // All with the same hash.
        for buf in 0..N {
            insert(&table, &descs, buf, &tag(buf), 7);
        }
        assert!((0..N).all(|buf| table.lock(&descs, 7).find(&tag(buf)) == Some(buf)));
        let near = (0..N).filter(|&buf| table.hint(&descs, 7, &tag(buf)).is_some()).count();
        assert_eq!(near, ENTRIES + FAR, "the rest is found under the lock only");
        for buf in (0..N).rev().step_by(2).chain((0..N).step_by(2)) {
            assert!(table.lock(&descs, 7).remove(buf));
            assert!(!table.lock(&descs, 7).remove(buf));
            assert_eq!(table.lock(&descs, 7).find(&tag(buf)), None);
        }
    }
}
