//! Memory for I/O, always aligned to [`IO_ALIGN`].
//!
//! [`Region`] is shared, raw memory (buffer pools, WAL buffers). An I/O in flight holds an `Arc` of
//! it, so it stays mapped while the kernel uses it. [`AlignedBuf`] is an owned buffer that is safe
//! to use.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use smallvec::SmallVec;

use crate::error::{AioError, Errno};
pub use crate::platform::HugePages;
use crate::platform::{Mapped, discard_memory, map_memory, populate_memory, reserve_memory};
use crate::registration::Mark;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Alignment of all I/O memory, and of offset and length of direct I/O.
pub const IO_ALIGN: usize = 4096;

/// A shared range of mapped memory, zeroed at first. Access is through raw pointers; the user of
/// the region defines the locking.
#[derive(Debug)]
pub struct Region {
    ptr: NonNull<u8>,
    len: usize,
    /// The bytes from the start on that have memory, or may get it at any access.
    occupied: AtomicUsize,
    /// The bytes from the start on that a method has registered.
    #[cfg(target_os = "linux")]
    registered: AtomicUsize,
    huge: Result<bool, Errno>,
    mark: Mark,
}

// SAFETY: a Region is an address range that stays mapped until it is dropped; it hands out raw
// pointers only, so every access is the responsibility of an unsafe block of the user.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` bytes (rounded up to [`IO_ALIGN`]) of zeros.
    pub fn new(len: usize) -> Result<Arc<Region>, AioError> {
        Region::with_huge_pages(len, HugePages::Off)
    }

    /// Maps `len` bytes of zeros, with large pages as asked.
    pub fn with_huge_pages(len: usize, huge: HugePages) -> Result<Arc<Region>, AioError> {
        let len = len.max(1).next_multiple_of(IO_ALIGN);
        let only = if huge == HugePages::On { " in huge pages" } else { "" };
        let mapped = map_memory(len, huge).map_err(|errno| AioError::Resource {
            action: format!("map {len} bytes of I/O memory{only}"),
            errno,
        })?;
        let len = mapped.len;
        Ok(Region::of(mapped, len))
    }

    /// Reserves addresses for `most` bytes, of which the first `len` are occupied as those of other
    /// regions are. [`Region::occupy`] and [`Region::vacate`] change that. There are no reserved
    /// large pages in such a region, but transparent ones unless they are off.
    pub fn reserve(len: usize, most: usize, huge: HugePages) -> Result<Arc<Region>, AioError> {
        let most = most.max(len).max(1).next_multiple_of(IO_ALIGN);
        let mapped = reserve_memory(most, huge != HugePages::Off).map_err(|errno| {
            AioError::Resource { action: format!("reserve {most} bytes of I/O memory"), errno }
        })?;
        Ok(Region::of(mapped, len.next_multiple_of(IO_ALIGN)))
    }

    fn of(Mapped { ptr, len, huge }: Mapped, occupied: usize) -> Arc<Region> {
        assert_eq!(ptr.as_ptr() as usize % IO_ALIGN, 0, "mapped memory is page-aligned");
        Arc::new(Region {
            ptr,
            len,
            occupied: AtomicUsize::new(occupied),
            #[cfg(target_os = "linux")]
            registered: AtomicUsize::new(0),
            huge,
            mark: Mark::default(),
        })
    }

    /// The bytes from the start on that may be used.
    pub fn occupied(&self) -> usize {
        self.occupied.load(Ordering::SeqCst)
    }

    /// Provides memory up to byte `to`, now: if there is not enough, that is an error here and no
    /// signal at a later access. Calls must not overlap, also with [`Region::vacate`].
    pub fn occupy(&self, to: usize) -> Result<(), AioError> {
        let from = self.occupied();
        let to = to.next_multiple_of(IO_ALIGN);
        assert!(from <= to && to <= self.len, "{from} to {to} of {} bytes", self.len);
        if let Err(errno) = populate_memory(self.ptr(from), to - from) {
            // A part may have been provided before the error.
            discard_memory(self.ptr(from), to - from);
            let action = format!("occupy {} more bytes of I/O memory", to - from);
            return Err(AioError::Resource { action, errno });
        }
        self.occupied.store(to, Ordering::SeqCst);
        Ok(())
    }

    /// Gives the memory beyond byte `to` back to the system. Nobody uses it any more, and it must
    /// not be registered: see [`Aio::memory_resized`](crate::Aio::memory_resized).
    pub fn vacate(&self, to: usize) {
        let to = to.next_multiple_of(IO_ALIGN);
        let from = self.occupied.swap(to, Ordering::SeqCst);
        assert!(to <= from, "{to} of {from} bytes");
        discard_memory(self.ptr(to), from - to);
    }

    /// Gives the memory of a part back to the system. It still counts as occupied, but nobody uses
    /// it before [`Region::provide`], and it must not be registered.
    pub fn suspend(&self, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= self.occupied(), "{bytes:?}");
        discard_memory(self.ptr(bytes.start), bytes.len());
    }

    /// Provides memory for a part again, now. What of it has memory keeps that, and its bytes.
    pub fn provide(&self, bytes: Range<usize>) -> Result<(), AioError> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.occupied(), "{bytes:?}");
        populate_memory(self.ptr(bytes.start), bytes.len()).map_err(|errno| {
            let action = format!("provide {} bytes of I/O memory again", bytes.len());
            AioError::Resource { action, errno }
        })
    }

    /// The bytes from the start on that a method has registered.
    #[cfg(target_os = "linux")]
    pub(crate) fn registered(&self) -> usize {
        self.registered.load(Ordering::SeqCst)
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn set_registered(&self, bytes: usize) {
        self.registered.store(bytes, Ordering::SeqCst);
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether large pages were obtained.
    pub fn uses_huge_pages(&self) -> bool {
        self.huge == Ok(true)
    }

    /// Why large pages were not obtained although they were wanted.
    pub fn huge_pages_refused(&self) -> Option<Errno> {
        self.huge.err()
    }

    /// Its registration with a method.
    #[cfg(target_os = "linux")]
    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The address of byte `offset`. Asserts that it is inside.
    pub fn ptr(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "offset {offset} outside of a region of {} bytes", self.len);
        // SAFETY: offset is within the mapping (or one past its end).
        unsafe { self.ptr.as_ptr().add(offset) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // First the registration ends: a ring would keep pointing to the pages, whatever is mapped
        // here later.
        drop(std::mem::take(&mut self.mark));
        crate::platform::unmap_memory(self.ptr, self.len);
    }
}

/// A part of a [`Region`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoSlice {
    /// First byte, a multiple of [`IO_ALIGN`].
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// The memory of one I/O: parts of one region, in file order. The handle keeps the region alive
/// until the I/O is complete.
#[derive(Clone, Debug)]
pub struct IoMemory {
    /// The memory.
    pub region: Arc<Region>,
    /// Its parts, in file order.
    pub slices: SmallVec<[IoSlice; 16]>,
}

impl IoMemory {
    /// Memory of one part.
    pub fn new(region: Arc<Region>, offset: usize, len: usize) -> IoMemory {
        let mut m = IoMemory::empty(region);
        m.push(offset, len);
        m
    }

    /// Memory without parts.
    pub fn empty(region: Arc<Region>) -> IoMemory {
        IoMemory { region, slices: SmallVec::new() }
    }

    /// Appends a part; extends the last one if they are adjacent.
    pub fn push(&mut self, offset: usize, len: usize) {
        if let Some(last) = self.slices.last_mut()
            && last.offset + last.len == offset
        {
            last.len += len;
            return;
        }
        self.slices.push(IoSlice { offset, len });
    }

    /// Bytes in all.
    pub fn len(&self) -> usize {
        self.slices.iter().map(|s| s.len).sum()
    }

    /// No bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An owned, zeroed, aligned buffer that behaves like a `[u8]`.
#[derive(Debug)]
pub struct AlignedBuf {
    region: Arc<Region>,
    /// Where it begins in the region.
    at: usize,
    len: usize,
    /// The rest of the region belongs to other buffers.
    one_of_several: bool,
}

impl AlignedBuf {
    /// A buffer of `len` zeros; its memory is rounded up to [`IO_ALIGN`].
    pub fn zeroed(len: usize) -> Result<AlignedBuf, AioError> {
        Ok(AlignedBuf { region: Region::new(len)?, at: 0, len, one_of_several: false })
    }

    /// `count` buffers of `len` zeros each, side by side in one region, which can be registered at
    /// once.
    pub fn several(count: usize, len: usize, huge: HugePages) -> Result<Vec<AlignedBuf>, AioError> {
        let step = len.max(1).next_multiple_of(IO_ALIGN);
        let all = step.checked_mul(count).ok_or_else(|| AioError::Resource {
            action: format!("map {count} buffers of {len} bytes"),
            errno: Errno(libc::ENOMEM),
        })?;
        let region = Region::with_huge_pages(all, huge)?;
        let part =
            |n| AlignedBuf { region: Arc::clone(&region), at: n * step, len, one_of_several: true };
        Ok((0..count).map(part).collect())
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<AlignedBuf, AioError> {
        let mut buf = AlignedBuf::zeroed(bytes.len())?;
        buf.copy_from_slice(bytes);
        Ok(buf)
    }

    /// Its region, which several buffers may share.
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The memory for an I/O on the whole buffer.
    pub(crate) fn io_memory(&self) -> IoMemory {
        self.io_memory_of(0..self.len)
    }

    /// The memory for an I/O on a part of the buffer.
    pub(crate) fn io_memory_of(&self, part: Range<usize>) -> IoMemory {
        assert!(
            part.start <= part.end && part.end <= self.len,
            "{part:?} of a buffer of {} bytes",
            self.len
        );
        IoMemory::new(Arc::clone(&self.region), self.at + part.start, part.len())
    }

    /// Whether no I/O uses the memory, so that slices are the only access to it. In a region of
    /// several buffers the count of references can't tell.
    fn is_exclusive(&self) -> bool {
        self.one_of_several || Arc::strong_count(&self.region) == 1
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        debug_assert!(self.is_exclusive());
        // SAFETY: the region is mapped for at least `at + len` bytes and initialised (zeroed by the
        // system); this part of it is private to this value: buffers of one region don't overlap,
        // and I/O on it is done only by the synchronous conveniences, while they hold a borrow of
        // this value, and by an `OwnedIo`, which holds the value itself.
        unsafe { std::slice::from_raw_parts(self.region.ptr(self.at), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        debug_assert!(self.is_exclusive());
        // SAFETY: as in `deref`, and `&mut self` excludes other references.
        unsafe { std::slice::from_raw_parts_mut(self.region.ptr(self.at), self.len) }
    }
}
