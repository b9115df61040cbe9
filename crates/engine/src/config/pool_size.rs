//! shared_buffers: the size of the buffer pool, or who says it.

use std::fmt;
use std::sync::Arc;

/// How large the buffer pool should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// So many blocks.
    Blocks(usize),
    /// As large as it needs to be and the machine's memory allows, at any time. It begins with
    /// [`PoolSize::DEFAULT`], or with less if that is more than a quarter of the free memory.
    Automatic,
    /// What the embedding program says each time that it is asked. It begins with
    /// [`PoolSize::DEFAULT`].
    Chosen(SizeChooser),
}

/// What a program may know when it chooses the size of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// Blocks that it has.
    pub buffers: usize,
    /// Blocks that it has at least.
    pub least: usize,
    /// Blocks that it may have.
    pub most: usize,
    /// Pages that had to give way to others since the program was asked last.
    pub evicted: u64,
}

/// A program's rule for the number of blocks. A thread of the engine calls it four times a second,
/// so it must not wait. The engine keeps the number within the pool's bounds.
#[derive(Clone)]
pub struct SizeChooser(Arc<dyn Fn(PoolUse) -> usize + Send + Sync>);

impl PoolSize {
    /// PostgreSQL's default, 128 MB.
    pub const DEFAULT: PoolSize = PoolSize::Blocks(DEFAULT);
}

impl From<usize> for PoolSize {
    fn from(blocks: usize) -> PoolSize {
        PoolSize::Blocks(blocks)
    }
}

impl SizeChooser {
    /// A rule.
    pub fn new(choose: impl Fn(PoolUse) -> usize + Send + Sync + 'static) -> SizeChooser {
        SizeChooser(Arc::new(choose))
    }

    pub(crate) fn ask(&self, about: PoolUse) -> usize {
        (self.0)(about)
    }
}

impl fmt::Debug for SizeChooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SizeChooser")
    }
}

/// The same rule, not one that says the same.
impl PartialEq for SizeChooser {
    fn eq(&self, other: &SizeChooser) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SizeChooser {}

/// 128 MB of blocks.
pub(crate) const DEFAULT: usize = 16384;
