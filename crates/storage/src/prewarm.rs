//! Bringing a relation into memory, and a look at what the kernel caches.

use crate::error::StorageError;
use crate::pool::{BufferPool, Strategy};
use crate::stream::{ReadStream, StreamFlags};
use crate::{Backend, smgr};
use forebay_aio::{Aio, Errno, IoMemory, OpenOptions, Region, WaitRef};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RelFileLocator};
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Where prewarm brings the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrewarmMode {
    /// Reads them and drops them: into the kernel's cache, if files go through it.
    Read,
    /// Into the buffer pool.
    Buffer,
}

/// Reads in flight at once.
const DEPTH: u32 = 32;

/// Reads blocks `range` of a fork, and returns how many.
pub fn prewarm(
    pool: &Arc<BufferPool>,
    be: &mut Backend,
    rel: RelFileLocator,
    fork: Fork,
    range: Range<BlockNumber>,
    mode: PrewarmMode,
) -> Result<u64, StorageError> {
    match mode {
        PrewarmMode::Read => read_only(pool, be, rel, fork, range),
        PrewarmMode::Buffer => {
            let (mut next, end) = (range.start, range.end);
            let blocks = move || {
                let block = (next < end).then_some(next);
                next = next.saturating_add(1);
                block
            };
            let combine = pool.config.combine_limit;
            let mut stream =
                ReadStream::new(pool, rel, fork, blocks, StreamFlags::FULL, Strategy::Normal, DEPTH, combine);
            let mut n = 0;
            while stream.next(be)?.is_some() {
                n += 1;
            }
            Ok(n)
        }
    }
}

/// Reads through scratch memory, combined, several reads in flight.
fn read_only(
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

/// How many of a file's 4 kB pages the kernel caches, and how many it has. For tests and reports.
pub fn kernel_cached_pages(aio: &Aio, path: &Path) -> Result<(u64, u64), StorageError> {
    let failed =
        |errno| StorageError::File { operation: "inspect the cache of", file: path.to_path_buf(), errno };
    let file =
        aio.namespace().open(path, &OpenOptions::READ).map_err(|e| smgr::file_error("open", path, &e))?;
    let len = aio.namespace().file_len(&file).map_err(|e| smgr::file_error("stat", path, &e))? as usize;
    let Some(fd) = file.raw_fd() else { return Err(failed(Errno::OPNOTSUPP)) };
    if len == 0 {
        return Ok((0, 0));
    }
    let last = || failed(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)));
    // SAFETY: a fresh shared read-only mapping of an open file at an address of the kernel's choice; it is never
    // read through.
    let map = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
    if map == libc::MAP_FAILED {
        return Err(last());
    }
    // SAFETY: sysconf has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut resident = vec![0u8; len.div_ceil(page)];
    // SAFETY: the mapping has `len` bytes, and the vector a byte for each of its pages.
    let done = unsafe { libc::mincore(map, len, resident.as_mut_ptr()) };
    let result = if done == 0 {
        Ok((resident.iter().filter(|&&r| r & 1 != 0).count() as u64, resident.len() as u64))
    } else {
        Err(last())
    };
    // SAFETY: the mapping was made above, and nothing refers to it.
    unsafe { libc::munmap(map, len) };
    result
}
