//! Reads through scratch memory: combined, with several in flight. Each part of the memory is
//! reused when its read has ended.

use crate::error::StorageError;
use crate::pool::{Backend, BufferPool};
use crate::smgr::Transfer;
use forebay_aio::{HugePages, IoMemory, Region};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RelFileLocator};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Reads in flight at once.
pub(super) const DEPTH: u32 = 32;

/// Reads the blocks and drops them. Returns their number.
pub(super) fn read(
    pool: &Arc<BufferPool>,
    backend: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    range: Range<BlockNumber>,
) -> Result<u64, StorageError> {
    let smgr = pool.smgr();
    let combine = pool.config.combine_limit;
    let part = combine as usize * BLOCK_SIZE;
    // The device is told of fewer pieces if the memory has huge pages.
    let scratch = Region::with_huge_pages(part * DEPTH as usize, HugePages::Transparent)?;
    if range.len() > (4 * combine * DEPTH) as usize {
        pool.aio().register_memory(&scratch); // Worth it if each part is used several times.
    }
    let mut in_flight: VecDeque<Transfer> = VecDeque::with_capacity(DEPTH as usize);
    let mut result = Ok(());
    let (mut at, mut turn) = (range.start, 0usize);
    while at < range.end && result.is_ok() {
        if in_flight.len() == DEPTH as usize
            && let Some(oldest) = in_flight.pop_front()
        {
            result = smgr.finish(&mut backend.io, oldest);
        }
        // A read ends where combined reads of the relation end, so that it lies within one segment.
        let n = pool.combinable(at).min(range.end - at);
        // The read that used this part before has ended.
        let memory = IoMemory::new(
            Arc::clone(&scratch),
            turn % DEPTH as usize * part,
            n as usize * BLOCK_SIZE,
        );
        turn += 1;
        match smgr.start_read(&mut backend.io, rel, fork, at, &memory) {
            Ok(read) => in_flight.push_back(read),
            Err(error) => result = result.and(Err(error)),
        }
        at += n;
    }
    for read in in_flight {
        let ended = smgr.finish(&mut backend.io, read);
        result = result.and(ended);
    }
    result.map(|()| u64::from(range.end.saturating_sub(range.start)))
}
