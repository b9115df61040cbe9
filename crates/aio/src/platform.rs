//! What differs between operating systems: direct I/O, rename without replacing, allocation, large
//! pages, vectored transfers.
//!
//! Linux is complete. Other systems have the sync and worker methods, buffered, and FreeBSD and
//! macOS also posix_aio; they refuse direct I/O with the reason. `cargo xtask test` compiles for
//! FreeBSD and macOS, but nothing was ever run there.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::OFlags;
use rustix::io::Errno as Sys;

use crate::error::Errno;

/// The flag of open(2) that bypasses the page cache.
pub(crate) fn direct_flag(direct: bool) -> OFlags {
    #[cfg(target_os = "linux")]
    if direct {
        return OFlags::DIRECT;
    }
    let _ = direct;
    OFlags::empty()
}

/// What some systems do to a descriptor after opening, in place of a flag.
pub(crate) fn after_direct_open(_fd: &OwnedFd) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    return Ok(());
    #[cfg(not(target_os = "linux"))]
    return Err(Errno::OPNOTSUPP);
}

/// Renames a file unless the new name exists.
pub(crate) fn rename_noreplace(from: &Path, to: &Path) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // File systems without the flag, and kernels without the call.
            Err(Sys::INVAL | Sys::NOSYS) => {}
            done => return done.map_err(Errno::from),
        }
    }
    // link(2) fails if the new name exists. Both names exist for a moment.
    rustix::fs::link(from, to)?;
    rustix::fs::unlink(from)?;
    Ok(())
}

/// Allocates blocks of zeros. The file grows to hold them unless `keep_len`.
pub(crate) fn allocate(
    fd: BorrowedFd<'_>,
    offset: u64,
    len: u64,
    keep_len: bool,
) -> Result<(), Sys> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::FallocateFlags;
        let flags = if keep_len { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        rustix::fs::fallocate(fd, flags, offset, len)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (fd, offset, len, keep_len);
        Err(Sys::OPNOTSUPP)
    }
}

/// Starts the write-out of a range (0: up to the file's end) without waiting. Since it waits for
/// nothing, it consumes no error of an earlier write-out that the next sync must report.
pub(crate) fn sync_file_range(fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let to_i64 = |n: u64| libc::off64_t::try_from(n).map_err(|_| Errno::INVAL);
        let (offset, len) = (to_i64(offset)?, to_i64(len)?);
        // SAFETY: the call takes no memory.
        let rc = unsafe {
            libc::sync_file_range(fd.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE)
        };
        if rc == 0 { Ok(()) } else { Err(Errno::last()) }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (fd, offset, len);
        Err(Errno::OPNOTSUPP)
    }
}

/// Syncs a file, once.
pub(crate) fn sync(fd: BorrowedFd<'_>, data_only: bool) -> Result<(), Errno> {
    #[cfg(not(any(target_os = "macos", target_os = "ios")))]
    if data_only {
        return rustix::fs::fdatasync(fd).map_err(Errno::from);
    }
    let _ = data_only;
    rustix::fs::fsync(fd).map_err(Errno::from)
}

/// Drops the kernel's cached pages of a file that the disk has. EOPNOTSUPP if the system has no
/// such advice.
pub(crate) fn forget_cached(fd: BorrowedFd<'_>) -> Result<(), Sys> {
    #[cfg(not(target_os = "macos"))]
    return rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
    #[cfg(target_os = "macos")]
    {
        let _ = fd;
        Err(Sys::OPNOTSUPP)
    }
}

/// Whether a region should use large pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Ordinary pages.
    #[default]
    Off,
    /// Transparent large pages, without a reserve. It is only advice, on systems that have it.
    Transparent,
    /// Reserved large pages if there are enough, otherwise transparent ones.
    Try,
    /// Reserved large pages, or an error.
    On,
}

/// A mapping.
pub(crate) struct Mapped {
    pub(crate) ptr: NonNull<u8>,
    pub(crate) len: usize,
    /// Whether it has large pages, or why not although they were wanted.
    pub(crate) huge: Result<bool, Errno>,
}

/// Maps zeroed memory.
pub(crate) fn map_memory(len: usize, huge: HugePages) -> Result<Mapped, Errno> {
    const HUGE: usize = 2 << 20;
    let reserved = matches!(huge, HugePages::Try | HugePages::On);
    #[cfg(target_os = "linux")]
    let mut got = Ok(false);
    #[cfg(not(target_os = "linux"))]
    let got = if reserved { Err(Errno::OPNOTSUPP) } else { Ok(false) };
    #[cfg(target_os = "linux")]
    if reserved {
        let rounded = len.next_multiple_of(HUGE);
        match map(rounded, libc::MAP_HUGETLB) {
            Ok(ptr) => return Ok(Mapped { ptr, len: rounded, huge: Ok(true) }),
            Err(e) if huge == HugePages::On => return Err(e),
            Err(e) => got = Err(e),
        }
    }
    #[cfg(not(target_os = "linux"))]
    if huge == HugePages::On {
        return Err(Errno::OPNOTSUPP);
    }
    // The kernel aligns a mapping of whole huge pages to them.
    let transparent = cfg!(target_os = "linux") && len >= HUGE && huge != HugePages::Off;
    let len = if transparent { len.next_multiple_of(HUGE) } else { len };
    let ptr = map(len, 0)?;
    #[cfg(target_os = "linux")]
    if transparent {
        // SAFETY: the range was just mapped; the advice does not change its contents.
        unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
    Ok(Mapped { ptr, len, huge: got })
}

/// No swap space is set aside for the memory. Other systems do that by default.
#[cfg(target_os = "linux")]
const UNRESERVED: i32 = libc::MAP_NORESERVE;
#[cfg(not(target_os = "linux"))]
const UNRESERVED: i32 = 0;

/// Reserves addresses for memory that is provided later.
pub(crate) fn reserve_memory(len: usize, large_pages: bool) -> Result<Mapped, Errno> {
    let ptr = map(len, UNRESERVED)?;
    #[cfg(target_os = "linux")]
    if large_pages {
        // SAFETY: the range was just mapped; the advice does not change its contents.
        unsafe { libc::madvise(ptr.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = large_pages;
    Ok(Mapped { ptr, len, huge: Ok(false) })
}

/// Provides memory for mapped addresses, whose contents stay. Systems that can't do that provide it
/// at the first access.
pub(crate) fn populate_memory(ptr: *mut u8, len: usize) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    if len > 0 {
        // The kernel refuses addresses inside of a page.
        let before = ptr.addr() % rustix::param::page_size();
        let (first, len) = (ptr.wrapping_sub(before), len + before);
        // SAFETY: the range is mapped, as whole pages are, and this changes nothing in it.
        let rc = unsafe { libc::madvise(first.cast(), len, libc::MADV_POPULATE_WRITE) };
        // Kernels before 5.14 don't know the advice.
        if rc != 0 && Errno::last() != Errno::INVAL {
            return Err(Errno::last());
        }
    }
    let _ = (ptr, len);
    Ok(())
}

/// Gives the memory of mapped addresses back, as far as they are whole pages of the system. These
/// read as zeros from then on.
pub(crate) fn discard_memory(ptr: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    {
        // The kernel would round the end up.
        let before = ptr.align_offset(rustix::param::page_size()).min(len);
        let whole = (len - before) / rustix::param::page_size() * rustix::param::page_size();
        if whole > 0 {
            let first = ptr.wrapping_add(before);
            // SAFETY: the range is mapped privately, and the caller says that nobody uses it.
            let rc = unsafe { libc::madvise(first.cast(), whole, libc::MADV_DONTNEED) };
            debug_assert_eq!(rc, 0);
        }
    }
    let _ = (ptr, len);
}

fn map(len: usize, extra: libc::c_int) -> Result<NonNull<u8>, Errno> {
    // SAFETY: a fresh anonymous mapping at an address of the system's choice touches no existing
    // memory.
    let ptr = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra,
            -1,
            0,
        )
    };
    if ptr == libc::MAP_FAILED {
        return Err(Errno::last());
    }
    NonNull::new(ptr.cast()).ok_or(Errno(libc::ENOMEM))
}

/// Unmaps what [`map_memory`] mapped.
pub(crate) fn unmap_memory(ptr: NonNull<u8>, len: usize) {
    // SAFETY: the caller owns the mapping and no longer uses it.
    let rc = unsafe { libc::munmap(ptr.as_ptr().cast(), len) };
    debug_assert_eq!(rc, 0);
}

/// One vectored read or write; it may be short.
///
/// # Safety
/// Each vector describes memory that stays valid during the call. During a read nothing else
/// accesses it.
pub(crate) unsafe fn transfer(
    fd: RawFd,
    write: bool,
    iov: &[libc::iovec],
    offset: u64,
) -> Result<usize, Errno> {
    let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    let count = iov.len().min(MAX_VECTORS) as libc::c_int;
    // SAFETY: the caller vouches for the memory; the vectors are a live slice.
    let n = unsafe {
        match (write, iov) {
            (false, [one]) => libc::pread(fd, one.iov_base, one.iov_len, offset),
            (true, [one]) => libc::pwrite(fd, one.iov_base, one.iov_len, offset),
            (false, _) => libc::preadv(fd, iov.as_ptr(), count, offset),
            (true, _) => libc::pwritev(fd, iov.as_ptr(), count, offset),
        }
    };
    usize::try_from(n).map_err(|_| Errno::last())
}

/// The maximum number of vectors of one call (IOV_MAX). Longer lists are continued.
pub(crate) const MAX_VECTORS: usize = 1024;

/// A number that identifies a living thread, for statistics. It is much cheaper than
/// `thread::current().id()`.
pub(crate) fn thread_token() -> usize {
    // SAFETY: no precondition.
    unsafe { libc::pthread_self() as usize }
}
