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
//!
//! When the pool grows beyond twice its buckets, their number is doubled: each bucket's pages are
//! divided among it and a new one, for all buckets of a lock at a time. Until then that lock's
//! pages are found under the lock only. The buckets never become fewer.

use super::cache_line::CacheLine;
use super::desc::{Descriptor, NONE};
use super::slab::Slab;
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
    buckets: Slab<Bucket>,
    /// Each with the number of buckets by which its pages are placed.
    locks: Box<[CacheLine<Mutex<usize>>]>,
}

/// A bucket, and the lock that allows changes to it.
pub(crate) struct Locked<'a> {
    bucket: &'a Bucket,
    hash: u64,
    descs: &'a Slab<Descriptor>,
    _lock: MutexGuard<'a, usize>,
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

fn buckets_for(buffers: usize) -> usize {
    (buffers / 2).next_power_of_two()
}

/// The index of a hash's bucket among so many.
fn place(hash: u64, buckets: usize) -> usize {
    (hash >> 32) as usize & (buckets - 1)
}

impl PageTable {
    /// Makes a table for a pool that may grow to `most` buffers.
    pub(crate) fn new(buffers: usize, most: usize) -> Self {
        let most = buckets_for(most.max(buffers));
        // Each lock has at least one bucket.
        let locks = LOCKS.min(most);
        let buckets = buckets_for(buffers).max(locks);
        PageTable {
            buckets: Slab::new(most, buckets, |_| Bucket::new()),
            locks: (0..locks).map(|_| CacheLine(Mutex::new(buckets))).collect(),
        }
    }

    /// Returns the buffer that seems to contain the page.
    pub(crate) fn hint(&self, descs: &Slab<Descriptor>, hash: u64, tag: &PageTag) -> Option<u32> {
        let buckets = &*self.buckets;
        buckets[place(hash, buckets.len())].find(descs, hash, tag)
    }

    /// Locks the bucket of a hash.
    pub(crate) fn lock<'a>(&'a self, descs: &'a Slab<Descriptor>, hash: u64) -> Locked<'a> {
        // The number of locks divides that of the buckets, so this is the bucket's lock.
        let _lock = self.locks[place(hash, self.locks.len())].lock();
        let bucket = &self.buckets[place(hash, *_lock)];
        Locked { bucket, hash, descs, _lock }
    }

    /// Makes the table fit for a pool of this size. Calls must not overlap.
    pub(crate) fn grow(&self, descs: &Slab<Descriptor>, buffers: usize) {
        let wanted = buckets_for(buffers);
        while self.buckets.len() < wanted {
            let before = self.buckets.len();
            self.double(descs, before);
        }
    }

    fn double(&self, descs: &Slab<Descriptor>, before: usize) {
        // Searches without a lock expect twice as many from here on.
        self.buckets.grow(before * 2, |_| Bucket::new());
        for (n, lock) in self.locks.iter().enumerate() {
            let mut buckets = lock.lock();
            for at in (n..before).step_by(self.locks.len()) {
                self.divide(descs, at, before);
            }
            *buckets = before * 2;
        }
    }

    /// Moves the pages of a bucket that belong to the new one, `by` buckets further on.
    fn divide(&self, descs: &Slab<Descriptor>, at: usize, by: usize) {
        let [from, to] = [at, at + by].map(|at| &self.buckets[at]);
        for buf in from.all(descs) {
            let hash = hash_tag(&descs[buf as usize].tag());
            if place(hash, by * 2) != at {
                let known = from.remove(descs, buf);
                debug_assert!(known, "it was there");
                to.insert(descs, hash, buf);
            }
        }
    }
}

impl Bucket {
    fn chain<'a>(&self, descs: &'a Slab<Descriptor>) -> impl Iterator<Item = u32> + use<'a> {
        let present = |buf: u32| (buf != NONE).then_some(buf);
        std::iter::successors(present(self.more.load(Ordering::Relaxed)), move |&buf| {
            present(descs[buf as usize].next.load(Ordering::Relaxed))
        })
    }

    /// Returns the buffers of all its pages.
    fn all(&self, descs: &Slab<Descriptor>) -> Vec<u32> {
        let near = self.bufs.iter().map(|slot| slot.load(Ordering::Relaxed));
        near.filter(|&buf| buf != NONE).chain(self.chain(descs)).collect()
    }

    fn insert(&self, descs: &Slab<Descriptor>, hash: u64, buf: u32) {
        let Bucket { marks, bufs, more } = self;
        let free = bufs.iter().position(|slot| slot.load(Ordering::Relaxed) == NONE);
        if let Some(at) = free {
            let (word, shift) = (&marks[at / 4], at % 4 * 16);
            let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
            word.store(others | mark(hash) << shift, Ordering::Release);
            bufs[at].store(buf, Ordering::Release);
            return;
        }
        descs[buf as usize].next.store(more.load(Ordering::Relaxed), Ordering::Release);
        more.store(buf, Ordering::Release);
    }

    /// Removes a buffer. Returns false if it is not there.
    fn remove(&self, descs: &Slab<Descriptor>, buf: u32) -> bool {
        if let Some(slot) = self.bufs.iter().find(|slot| slot.load(Ordering::Relaxed) == buf) {
            slot.store(NONE, Ordering::Release);
            return true;
        }
        let next = &descs[buf as usize].next;
        let mut links =
            std::iter::once(&self.more).chain(self.chain(descs).map(|at| &descs[at as usize].next));
        match links.find(|link| link.load(Ordering::Relaxed) == buf) {
            // The removed buffer keeps its link, so that a search that has reached it can go on.
            Some(link) => link.store(next.load(Ordering::Relaxed), Ordering::Release),
            None => return false,
        }
        true
    }
}

impl Locked<'_> {
    /// Returns the buffer that contains the page.
    pub(crate) fn find(&self, tag: &PageTag) -> Option<u32> {
        let found = self.bucket.find(self.descs, self.hash, tag);
        // The chain may be longer than a search without a lock follows.
        let mut chain = self.bucket.chain(self.descs);
        found.or_else(|| chain.find(|&buf| self.descs[buf as usize].has_tag(tag)))
    }

    /// Adds a buffer, whose tag is set. The table does not contain its page.
    pub(crate) fn insert(&self, buf: u32) {
        self.bucket.insert(self.descs, self.hash, buf);
    }

    /// Removes a buffer. Returns false if it is not there.
    pub(crate) fn remove(&self, buf: u32) -> bool {
        self.bucket.remove(self.descs, buf)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use forebay_format::{Fork, RelFileLocator};

    fn tag(block: u32) -> PageTag {
        PageTag::new(RelFileLocator::in_default(5, 16_384), Fork::Main, block)
    }

    fn descs(n: usize) -> Slab<Descriptor> {
        Slab::new(n, n, |_| Descriptor::new())
    }

    fn insert(table: &PageTable, descs: &Slab<Descriptor>, buf: u32, tag: &PageTag, hash: u64) {
        assert!(descs[buf as usize].claim_for_test());
        descs[buf as usize].set_tag(tag);
        table.lock(descs, hash).insert(buf);
    }

    #[test]
    fn pages_are_found_until_they_are_removed() {
        let (table, descs) = (PageTable::new(64, 64), descs(64));
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
        let (table, descs) = (PageTable::new(64, 64), descs(64));
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

    #[test]
    fn a_growing_table_keeps_its_pages() {
        const MOST: u32 = 8192;
        let (table, descs) = (PageTable::new(64, MOST as usize), descs(MOST as usize));
        for buf in 0..MOST {
            insert(&table, &descs, buf, &tag(buf), hash_tag(&tag(buf)));
            if buf.is_power_of_two() {
                table.grow(&descs, buf as usize * 2);
            }
        }
        assert_eq!(table.buckets.len(), MOST as usize / 2);
        for buf in 0..MOST {
            let hash = hash_tag(&tag(buf));
            assert_eq!(table.hint(&descs, hash, &tag(buf)), Some(buf), "also without a lock");
            assert!(table.lock(&descs, hash).remove(buf));
        }
        assert!(table.buckets.iter().all(|bucket| bucket.all(&descs).is_empty()));
    }
}
