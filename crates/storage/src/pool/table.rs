//! The page table: which buffer holds a page. Sharded by the tag's hash; each shard is a hash table under a
//! readers-writer lock, so that hits of different pages do not meet.

use forebay_aio::sync::RwLock;
use forebay_format::PageTag;
use hashbrown::HashTable;

const SHARDS: usize = 128;

/// One shard: buffer numbers with their tags.
pub(crate) type Shard = HashTable<(PageTag, u32)>;

/// A cache line of its own for each lock.
#[repr(align(64))]
struct Padded(RwLock<Shard>);

/// The page table of one pool.
pub(crate) struct PageTable {
    shards: Vec<Padded>,
}

/// Hash of a tag: multiply and fold; neighbours fall into different shards.
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
        let per_shard = buffers / SHARDS + 1;
        let shards = (0..SHARDS).map(|_| Padded(RwLock::new(HashTable::with_capacity(per_shard)))).collect();
        PageTable { shards }
    }

    /// The lock of the shard that a hash falls into.
    pub(crate) fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[(hash >> 32) as usize % SHARDS].0
    }
}

/// Finds a page in its shard.
pub(crate) fn find(shard: &Shard, hash: u64, tag: &PageTag) -> Option<u32> {
    shard.find(hash, |(t, _)| t == tag).map(|&(_, buf)| buf)
}

/// Adds a page that is not there.
pub(crate) fn insert(shard: &mut Shard, hash: u64, tag: PageTag, buf: u32) {
    shard.insert_unique(hash, (tag, buf), |(t, _)| hash_tag(t));
}

/// Removes a page if this buffer holds it.
pub(crate) fn remove(shard: &mut Shard, hash: u64, tag: &PageTag, buf: u32) -> bool {
    match shard.find_entry(hash, |(t, b)| t == tag && *b == buf) {
        Ok(entry) => {
            entry.remove();
            true
        }
        Err(_) => false,
    }
}
