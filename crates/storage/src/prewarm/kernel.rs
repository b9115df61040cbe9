//! The kernel's cache.

use crate::error::StorageError;
use crate::pool::BufferPool;
use crate::smgr;
use forebay_aio::{Aio, Errno, OpenOptions};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, RelFileLocator};
use std::ops::Range;
use std::path::Path;

/// Blocks asked for at once: the kernel shortens larger requests to its read-ahead window without a
/// word.
const ADVICE: u32 = 16;

/// Asks the kernel to read the blocks into its cache. It may take that or not, and nobody waits for
/// it.
pub(super) fn prefetch(
    pool: &BufferPool,
    rel: RelFileLocator,
    fork: Fork,
    range: Range<BlockNumber>,
) -> Result<u64, StorageError> {
    if pool.smgr().is_direct() {
        return Ok(u64::from(range.end.saturating_sub(range.start)));
    }
    let mut at = range.start;
    while at < range.end {
        let n = pool.smgr().room_in_segment(at).min(range.end - at).min(ADVICE);
        let (file, offset) = pool.smgr().file_at(rel, fork, at)?;
        // A disk in memory has no cache before it.
        if let Some(fd) = file.raw_fd() {
            let (offset, len) =
                (offset as libc::off_t, n as libc::off_t * BLOCK_SIZE as libc::off_t);
            // SAFETY: no memory is passed, and the file is open while `file` lives. Advice that
            // fails is no loss.
            unsafe { libc::posix_fadvise(fd, offset, len, libc::POSIX_FADV_WILLNEED) };
        }
        at += n;
    }
    Ok(u64::from(range.end.saturating_sub(range.start)))
}

/// How many of a file's 4 kB pages the kernel caches, and how many it has. For tests and reports.
pub fn kernel_cached_pages(aio: &Aio, path: &Path) -> Result<(u64, u64), StorageError> {
    let failed = |errno| StorageError::File {
        operation: "inspect the cache of",
        file: path.to_path_buf(),
        errno,
    };
    let file = aio
        .namespace()
        .open(path, &OpenOptions::READ)
        .map_err(|e| smgr::file_error("open", path, &e))?;
    let len =
        aio.namespace().file_len(&file).map_err(|e| smgr::file_error("stat", path, &e))? as usize;
    let Some(fd) = file.raw_fd() else { return Err(failed(Errno::OPNOTSUPP)) };
    if len == 0 {
        return Ok((0, 0));
    }
    let last =
        || failed(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)));
    // SAFETY: a fresh shared read-only mapping of an open file at an address of the kernel's
    // choice; it is never read through.
    let map =
        unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
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
