//! What a size of the buffer pool comes to on this machine.

use forebay_format::BLOCK_SIZE;

use super::read;
use crate::config::{DEFAULT_POOL as DEFAULT, PoolSize};

/// The fewest blocks with which an automatic size begins.
const LEAST: usize = 2048;

impl PoolSize {
    /// The number of blocks to begin with.
    pub(crate) fn at_start(&self) -> usize {
        match self {
            PoolSize::Blocks(blocks) => *blocks,
            PoolSize::Chosen(_) => DEFAULT,
            PoolSize::Automatic => {
                let quarter = read::read().map(|memory| blocks(memory.room / 4));
                quarter.map_or(DEFAULT, |quarter| quarter.clamp(LEAST, DEFAULT))
            }
        }
    }

    /// Whether the pool can be the only cache of data files. If not, the error says why.
    pub(crate) fn as_only_cache(&self) -> Result<(), String> {
        let PoolSize::Blocks(buffers) = self else { return Ok(()) };
        let quarter = read::read().map_or(0, |memory| memory.total / 4);
        let size = bytes(*buffers);
        if size >= quarter {
            return Ok(());
        }
        Err(format!(
            "data files use the kernel's cache because shared_buffers is {} MB, less than a \
             quarter of the memory ({} MB), and not \"auto\"",
            size >> 20,
            quarter >> 20
        ))
    }

    /// The number of blocks that it will have sooner or later, as far as it is known.
    pub(crate) fn expected(&self) -> usize {
        match self {
            PoolSize::Blocks(blocks) => *blocks,
            PoolSize::Chosen(_) => DEFAULT,
            PoolSize::Automatic => read::read().map_or(DEFAULT, |memory| blocks(memory.room)),
        }
    }
}

/// The blocks of so many bytes.
pub(crate) fn blocks(bytes: u64) -> usize {
    (bytes / BLOCK_SIZE as u64) as usize
}

/// The bytes of so many blocks.
pub(crate) fn bytes(blocks: usize) -> u64 {
    blocks as u64 * BLOCK_SIZE as u64
}
