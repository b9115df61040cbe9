//! Prewarming: reading a relation ahead of use, in three ways; and what the kernel caches of it.
//!
//! | module | what it holds |
//! |---|---|
//! | `scratch` | reading the blocks into scratch memory |
//! | `kernel` | asking the kernel to read, and how much of a file it caches |

mod kernel;
mod scratch;

pub use kernel::{KernelCached, kernel_cached_pages};

use crate::error::StorageError;
use crate::pool::{Backend, BufferPool, Strategy};
use crate::stream::{ReadStream, StreamFlags, StreamSettings};
use forebay_format::{BlockNumber, Fork, RelFileLocator};
use scratch::DEPTH;
use std::ops::Range;
use std::sync::Arc;

/// Where prewarming reads the blocks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrewarmMode {
    /// The kernel's cache: asks the kernel to read ahead, and does not wait. With direct I/O there
    /// is no such cache, and nothing happens; the same is true of PostgreSQL.
    Prefetch,
    /// Scratch memory, without verification. This fills the kernel's cache, if files go through it.
    Read,
    /// The buffer pool.
    Buffer,
}

/// Reads blocks `range` of a fork ahead of use, and returns their number.
pub fn prewarm(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    range: Range<BlockNumber>,
    mode: PrewarmMode,
) -> Result<u64, StorageError> {
    match mode {
        PrewarmMode::Prefetch => kernel::prefetch(pool, rel, fork, range),
        PrewarmMode::Read => scratch::read(pool, backend, rel, fork, range),
        PrewarmMode::Buffer => load_blocks(pool, backend, (rel, fork), range),
    }
}

/// Reads blocks of a fork into the pool, in the order in which they are given. Returns their
/// number.
pub fn load_blocks(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    (rel, fork): (RelFileLocator, Fork),
    blocks: impl IntoIterator<Item = BlockNumber>,
) -> Result<u64, StorageError> {
    let mut blocks = blocks.into_iter();
    let mut stream = ReadStream::new(
        pool,
        rel,
        fork,
        move || blocks.next(),
        StreamFlags::FULL,
        Strategy::Normal,
        StreamSettings::new(DEPTH, pool.config.combine_limit),
    );
    let mut read = 0;
    while stream.next(backend)?.is_some() {
        read += 1;
    }
    Ok(read)
}

impl BufferPool {
    /// Reads a whole fork ahead of use; see [`prewarm`].
    pub fn prewarm(
        self: &Arc<Self>,
        backend: &mut Backend,
        rel: RelFileLocator,
        fork: Fork,
        mode: PrewarmMode,
    ) -> Result<u64, StorageError> {
        let blocks = self.nblocks(rel, fork)?;
        prewarm(self, backend, rel, fork, 0..blocks, mode)
    }
}
