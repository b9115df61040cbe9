//! The configuration of a pool.

use super::trace::PageTrace;
use forebay_aio::HugePages;
use std::sync::Arc;

/// How a pool is made.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// The number of 8 kB buffers; at least 16.
    pub buffers: usize,
    /// The most buffers that [`BufferPool::resize`](crate::BufferPool::resize) may give it later.
    /// Addresses are reserved for them. 0: as many as it has.
    pub max_buffers: usize,
    /// Blocks in one read or write, 1 to 128 (io_combine_limit).
    pub combine_limit: u32,
    /// Whether page checksums are set and verified.
    pub checksums: bool,
    /// Whether to use huge pages for the pool's memory.
    pub huge_pages: HugePages,
    /// Writes in flight at once during a checkpoint.
    pub write_depth: usize,
    /// Where to record which pages are pinned.
    pub trace: Option<Arc<PageTrace>>,
}

impl Default for PoolConfig {
    fn default() -> Self {
        PoolConfig {
            buffers: 16_384,
            max_buffers: 0,
            combine_limit: 16,
            checksums: true,
            huge_pages: HugePages::Try,
            write_depth: 16,
            trace: None,
        }
    }
}
