//! A stream of reads through scratch memory: combined, several in flight, each part of the memory used again when its
//! read has ended.

use super::DEPTH;
use crate::Backend;
use crate::error::StorageError;
use crate::pool::BufferPool;
use forebay_aio::{IoMemory, Region, WaitRef};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RelFileLocator};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Reads the blocks and drops them.
pub(super) fn read(
    pool: &Arc<BufferPool>,
    be: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    range: Range<BlockNumber>,
) -> Result<u64, StorageError> {
    let combine = pool.config.combine_limit;
    let part = combine as usize * BLOCK_SIZE;
    let scratch = Region::new(part * DEPTH as usize)?;
    if range.len() > (4 * combine * DEPTH) as usize {
        pool.aio().register_memory(&scratch); // pays when each part is used several times
    }
    let mut in_flight: VecDeque<(WaitRef, BlockNumber)> = VecDeque::with_capacity(DEPTH as usize);
    let mut failure = None;
    let (mut at, mut turn) = (range.start, 0usize);
    while at < range.end && failure.is_none() {
        if in_flight.len() == DEPTH as usize {
            failure = finish_oldest(pool, be, rel, fork, &mut in_flight);
        }
        let n = pool.combinable(at).min(range.end - at);
        // The oldest read, whose part this was, has ended.
        let memory =
            IoMemory::new(Arc::clone(&scratch), turn % DEPTH as usize * part, n as usize * BLOCK_SIZE);
        turn += 1;
        match pool.smgr().read_io(rel, fork, at, memory) {
            Ok(read) => in_flight.push_back((be.io.start(read), at)),
            Err(error) => failure = failure.or(Some(error)),
        }
        at += n;
    }
    while !in_flight.is_empty() {
        let later = finish_oldest(pool, be, rel, fork, &mut in_flight);
        failure = failure.or(later);
    }
    failure.map_or(Ok(u64::from(range.end.saturating_sub(range.start))), Err)
}

fn finish_oldest(
    pool: &BufferPool,
    be: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    in_flight: &mut VecDeque<(WaitRef, BlockNumber)>,
) -> Option<StorageError> {
    let (wait, block) = in_flight.pop_front()?;
    let report = be.io.wait(wait).report()?;
    let (got, wanted) = (report.transferred as u32, report.expected as u32);
    let error = report.error?;
    let file = pool.smgr().file_name(rel, fork, block);
    Some(match error.errno() {
        Some(errno) => StorageError::Read { file, block, errno },
        None => StorageError::ShortRead { file, block: block + got / BLOCK_SIZE as u32, got, wanted },
    })
}
