//! A size of the buffer pool, as it is said.

use forebay_format::BLOCK_SIZE;

use super::{machine, target};
use crate::config::EngineConfig;

/// How large the buffer pool should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolSize {
    /// So many blocks.
    Blocks(usize),
    /// As large as the machine's memory and the limits of control groups allow, at any time.
    Automatic,
}

impl PoolSize {
    /// The number of blocks to begin with.
    pub fn at_start(self) -> usize {
        match self {
            PoolSize::Blocks(blocks) => blocks,
            PoolSize::Automatic => {
                let first = machine::read().map_or(0, |memory| target::first_size(&memory));
                blocks(first).max(EngineConfig::default().shared_buffers)
            }
        }
    }
}

pub(super) fn blocks(bytes: u64) -> usize {
    (bytes / BLOCK_SIZE as u64) as usize
}

pub(super) fn bytes(blocks: usize) -> u64 {
    blocks as u64 * BLOCK_SIZE as u64
}
