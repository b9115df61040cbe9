//! How temporary files are written and read.

use crate::error::StorageError;
use forebay_aio::AlignedBuf;
use forebay_format::BLOCK_SIZE;

/// How a file is written or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TempOptions {
    /// The most blocks of one write or read (io_combine_limit).
    pub combine: u32,
    /// Writes in flight, or reads ahead. With 0 each is waited for at once
    /// (effective_io_concurrency).
    pub depth: u32,
}

impl Default for TempOptions {
    fn default() -> Self {
        TempOptions { combine: 16, depth: 4 }
    }
}

impl TempOptions {
    /// Returns the bytes of one write, which is also the most for one read.
    pub(super) fn bytes(self) -> usize {
        self.combine.clamp(1, 1024) as usize * BLOCK_SIZE
    }

    pub(super) fn buffer(self) -> Result<AlignedBuf, StorageError> {
        Ok(AlignedBuf::zeroed(self.bytes())?)
    }
}
