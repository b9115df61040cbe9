//! Where the scans of a large table are. Another scan begins there, so that they read each block
//! once together: PostgreSQL's synchronized scans (synchronize_seqscans).
//!
//! ```text
//!   table   | ........ | a scan is here | ............ |
//!           |<- 2nd ---|<---- 1st: what the next scan reads, in this order
//! ```
//!
//! The place is a hint. A scan that comes to its end leaves the place where it began: a scan that
//! is repeated always reads the blocks in the same order.

use forebay_aio::sync::atomic::{AtomicU32, Ordering};
use forebay_format::BlockNumber;

/// A scan tells its place every so many blocks.
const TOLD_EVERY: BlockNumber = 16;

/// The place to which the last scan has come.
#[derive(Debug, Default)]
pub(super) struct ScanPlace(AtomicU32);

impl ScanPlace {
    /// Where a scan of so many blocks begins.
    pub(super) fn start(&self, blocks: BlockNumber) -> BlockNumber {
        let place = self.0.load(Ordering::Relaxed);
        if place < blocks { place } else { 0 }
    }

    /// A scan has come to a block.
    pub(super) fn reach(&self, block: BlockNumber) {
        if block.is_multiple_of(TOLD_EVERY) {
            self.leave_at(block);
        }
    }

    /// A scan has come to its end, and began at `start`.
    pub(super) fn leave_at(&self, start: BlockNumber) {
        self.0.store(start, Ordering::Relaxed);
    }
}
