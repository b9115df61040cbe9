//! The kernel's cache: asking the kernel to read ahead, and what it caches of relations.

use crate::error::{StorageError, file_error};
use crate::pool::BufferPool;
use forebay_aio::{Aio, Errno, OpenOptions};
use forebay_format::{BLOCK_SIZE, BlockNumber, Fork, PageTag, RelFileLocator};
use std::ops::Range;
use std::path::Path;

/// Blocks of one request. The kernel silently shortens requests beyond its read-ahead window.
const ADVICE: u32 = 16;

/// Asks the kernel to read the blocks into its cache, and does not wait. The kernel may ignore it.
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
        let (file, offset) = pool.smgr().file_at(&PageTag::new(rel, fork, at))?;
        // An in-memory disk has no descriptors and no cache.
        if let Some(fd) = file.raw_fd() {
            let (offset, len) =
                (offset as libc::off_t, n as libc::off_t * BLOCK_SIZE as libc::off_t);
            // SAFETY: no memory is passed, and the file is open while `file` lives. The advice may
            // fail without harm.
            unsafe { libc::posix_fadvise(fd, offset, len, libc::POSIX_FADV_WILLNEED) };
        }
        at += n;
    }
    Ok(u64::from(range.end.saturating_sub(range.start)))
}

/// Returns how many 4 kB pages of a file the kernel caches, and how many the file has.
pub fn kernel_cached_pages(aio: &Aio, path: &Path) -> Result<(u64, u64), StorageError> {
    let failed = |errno| StorageError::File {
        operation: "inspect the cache of",
        file: path.to_path_buf(),
        errno,
    };
    let file =
        aio.namespace().open(path, &OpenOptions::READ).map_err(|e| file_error("open", path, &e))?;
    let len = aio.namespace().file_len(&file).map_err(|e| file_error("stat", path, &e))? as usize;
    let Some(fd) = file.raw_fd() else { return Err(failed(Errno::OPNOTSUPP)) };
    if len == 0 {
        return Ok((0, 0));
    }
    let last =
        || failed(Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)));
    // SAFETY: a new shared read-only mapping of an open file, at an address of the kernel's choice.
    // Nothing reads through it.
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
    // SAFETY: the mapping was made above, and there are no references into it.
    unsafe { libc::munmap(map, len) };
    result
}

/// What the kernel caches of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCached {
    /// The fork.
    pub fork: Fork,
    /// The segment, from 0.
    pub segment: u32,
    /// The number of 4 kB pages in the file.
    pub pages: u64,
    /// The number of pages that the kernel caches.
    pub cached: u64,
}

impl BufferPool {
    /// Returns what the kernel caches of a relation's files: of all forks and segments, in order.
    pub fn kernel_cache(&self, rel: RelFileLocator) -> Result<Vec<KernelCached>, StorageError> {
        let names = self.aio.namespace();
        let mut found = Vec::new();
        for fork in Fork::ALL {
            if !self.smgr.exists(rel, fork)? {
                continue;
            }
            for segment in 0.. {
                let path = self.smgr.segment_path(rel, fork, segment);
                let exists = names.exists(&path).map_err(|e| file_error("stat", &path, &e))?;
                if segment > 0 && !exists {
                    break;
                }
                let (cached, pages) = kernel_cached_pages(&self.aio, &path)?;
                found.push(KernelCached { fork, segment, pages, cached });
            }
        }
        Ok(found)
    }
}
