//! The page table: which buffer holds a page.
//!
//! ```text
//!   bucket (a cache line):  | hash, buffer | hash, buffer | ... 7 of them | more |
//!                                                                             |
//!                                                        descs[3] -> descs[7] -> -   by `next` in the descriptors
//! ```
//!
//! There is a bucket for every two buffers or so, hence the rest of a full one, in a chain, is hardly ever there. Half of the
//! hash beside the buffer's number keeps a search from descriptors of other pages, which other threads change all the time.
//!
//! Finding a page writes nothing: it looks through a bucket while others may change it. What it finds is a hint until the
//! caller has pinned the buffer and compared the tag. A page that is there may be overlooked, if a buffer of its chain
//! moves to another one at that moment; so who finds nothing looks again under the bucket's lock before acting on it.
//!
//! Buckets change under a lock, one for many of them.

use super::OwnLine;
use super::desc::{Descriptor, NONE};
use forebay_aio::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use forebay_aio::sync::{Mutex, MutexGuard};
use forebay_format::PageTag;

const LOCKS: usize = 256;

/// How far a look without a lock follows a chain. Longer ones are all but impossible; but a look that is led astray may
/// not go on for ever.
const FAR: usize = 32;

/// Half of a page's hash above, the buffer below.
type Entry = u64;

/// No buffer.
const EMPTY: Entry = NONE as u64;

#[repr(align(64))]
struct Bucket {
    entries: [AtomicU64; 7],
    more: AtomicU32,
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Bucket>() == 64);

/// The page table of one pool.
pub(crate) struct PageTable {
    buckets: Box<[Bucket]>,
    locks: Box<[OwnLine<Mutex<()>>]>,
}

/// The right to change the buckets of one lock; and one of them.
pub(crate) struct Locked<'a> {
    bucket: &'a Bucket,
    hash: u64,
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

fn entry(hash: u64, buf: u32) -> Entry {
    hash << 32 | u64::from(buf)
}

impl Bucket {
    fn new() -> Self {
        Bucket { entries: [(); 7].map(|()| AtomicU64::new(EMPTY)), more: AtomicU32::new(NONE) }
    }

    /// The buffer that holds the page, as far as one can see.
    fn find(&self, descs: &[Descriptor], hash: u64, tag: &PageTag) -> Option<u32> {
        let holds = |buf: u32| descs.get(buf as usize).is_some_and(|desc| desc.has_tag(tag));
        for slot in &self.entries {
            let found = slot.load(Ordering::Acquire);
            let buf = found as u32;
            if found == entry(hash, buf) && holds(buf) {
                return Some(buf);
            }
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
            locks: (0..LOCKS.min(buckets)).map(|_| OwnLine(Mutex::new(()))).collect(),
        }
    }

    fn place(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    /// A buffer that seems to hold the page.
    pub(crate) fn hint(&self, descs: &[Descriptor], hash: u64, tag: &PageTag) -> Option<u32> {
        self.buckets[self.place(hash)].find(descs, hash, tag)
    }

    /// Locks the bucket that a hash falls into.
    pub(crate) fn lock<'a>(&'a self, descs: &'a [Descriptor], hash: u64) -> Locked<'a> {
        let place = self.place(hash);
        let _lock = self.locks[place % self.locks.len()].lock();
        Locked { bucket: &self.buckets[place], hash, descs, _lock }
    }
}

impl Locked<'_> {
    /// The buffer that holds the page.
    pub(crate) fn find(&self, tag: &PageTag) -> Option<u32> {
        let found = self.bucket.find(self.descs, self.hash, tag);
        // A chain longer than one may follow without a lock.
        found.or_else(|| self.chain().find(|&buf| self.descs[buf as usize].has_tag(tag)))
    }

    fn chain(&self) -> impl Iterator<Item = u32> + '_ {
        let present = |buf: u32| (buf != NONE).then_some(buf);
        std::iter::successors(present(self.bucket.more.load(Ordering::Relaxed)), move |&buf| {
            present(self.descs[buf as usize].next.load(Ordering::Relaxed))
        })
    }

    /// Adds a buffer whose page is not there. Its tag is set.
    pub(crate) fn insert(&self, buf: u32) {
        let free = self.bucket.entries.iter().find(|slot| slot.load(Ordering::Relaxed) == EMPTY);
        if let Some(slot) = free {
            slot.store(entry(self.hash, buf), Ordering::Release);
            return;
        }
        let more = &self.bucket.more;
        self.descs[buf as usize].next.store(more.load(Ordering::Relaxed), Ordering::Release);
        more.store(buf, Ordering::Release);
    }

    /// Takes a buffer out. False if it is not there.
    pub(crate) fn remove(&self, buf: u32) -> bool {
        let this = entry(self.hash, buf);
        if let Some(slot) = self.bucket.entries.iter().find(|slot| slot.load(Ordering::Relaxed) == this) {
            slot.store(EMPTY, Ordering::Release);
            return true;
        }
        let next = &self.descs[buf as usize].next;
        let mut links =
            std::iter::once(&self.bucket.more).chain(self.chain().map(|at| &self.descs[at as usize].next));
        match links.find(|link| link.load(Ordering::Relaxed) == buf) {
            // Its own link stays: whoever stands on it finds the way on.
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
    fn a_full_bucket_goes_on_in_a_chain() {
        const N: u32 = 60;
        let (table, descs) = (PageTable::new(64), descs(64));
        // As if all had the same hash.
        for buf in 0..N {
            insert(&table, &descs, buf, &tag(buf), 7);
        }
        assert!((0..N).all(|buf| table.lock(&descs, 7).find(&tag(buf)) == Some(buf)));
        let near = (0..N).filter(|&buf| table.hint(&descs, 7, &tag(buf)).is_some()).count();
        assert_eq!(near, 7 + FAR, "the rest is found under the lock only");
        for buf in (0..N).rev().step_by(2).chain((0..N).step_by(2)) {
            assert!(table.lock(&descs, 7).remove(buf));
            assert!(!table.lock(&descs, 7).remove(buf));
            assert_eq!(table.lock(&descs, 7).find(&tag(buf)), None);
        }
    }
}
