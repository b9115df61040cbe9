//! Execution in the calling thread, and the continuation of short transfers for all methods.

use std::os::fd::BorrowedFd;

use smallvec::SmallVec;

use crate::error::Errno;
use crate::file::File;
use crate::memory::{IO_ALIGN, Region};
use crate::op::OpKind;
use crate::platform;
use crate::sync::thread;

/// A range of memory, laid out as the system's `iovec`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Vector(libc::iovec);

// SAFETY: a Vector is an address and a length; code that dereferences it answers for the access.
unsafe impl Send for Vector {}
// SAFETY: as above.
unsafe impl Sync for Vector {}

impl Vector {
    /// A range that begins at `ptr`.
    pub fn new(ptr: *mut u8, len: usize) -> Vector {
        Vector(libc::iovec { iov_base: ptr.cast(), iov_len: len })
    }

    /// Its address.
    pub fn ptr(&self) -> *mut u8 {
        self.0.iov_base.cast()
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.0.iov_len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.iov_len == 0
    }
}

/// A list of vectors; this many need no allocation.
pub(crate) type Vectors = SmallVec<[Vector; 16]>;

/// One attempt at an operation. Only this crate makes requests, from a handle whose region is alive
/// and not in use by others.
pub struct Request<'a> {
    pub(crate) file: &'a File,
    pub(crate) op: OpKind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) vectors: &'a [Vector],
    /// The region of all the vectors; None if there are several or no vectors.
    pub(crate) region: Option<&'a Region>,
}

impl Request<'_> {
    /// The same attempt on fewer bytes. Asserts that `vectors` lie within those of this request, so
    /// that the memory is as valid as before.
    pub fn with_vectors<'b>(&'b self, vectors: &'b [Vector]) -> Request<'b> {
        for v in vectors {
            let (from, to) = (v.ptr() as usize, v.ptr() as usize + v.len());
            let within = |w: &Vector| w.ptr() as usize <= from && to <= w.ptr() as usize + w.len();
            assert!(self.vectors.iter().any(within), "memory outside of the request");
        }
        Request { length: vectors.iter().map(|v| v.len() as u64).sum(), vectors, ..*self }
    }

    /// The file.
    pub fn file(&self) -> &File {
        self.file
    }
    /// The operation.
    pub fn op(&self) -> OpKind {
        self.op
    }
    /// First byte in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }
    /// Bytes of the file concerned: those of the memory, or of the range; 0 for syncs.
    pub fn length(&self) -> u64 {
        self.length
    }
    /// The memory, valid until the attempt returns. Empty for all operations but transfers.
    pub fn vectors(&self) -> &[Vector] {
        self.vectors
    }

    /// A copy of the bytes to write, for executors without a system call. Empty unless this is a
    /// write.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.op == OpKind::Writev {
            for v in self.vectors {
                // SAFETY: a Request describes memory inside a region that its handle keeps alive,
                // and that nobody changes while it is written.
                bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(v.ptr(), v.len()) });
            }
        }
        bytes
    }

    /// Copies what was read into the memory of the request, as far as it fits. Returns how many
    /// bytes; 0 unless this is a read.
    pub fn fill(&self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        if self.op == OpKind::Readv {
            for v in self.vectors {
                let (piece, later) = rest.split_at(rest.len().min(v.len()));
                // SAFETY: a Request describes memory inside a region that its handle keeps alive
                // and owns until completion; `bytes` is borrowed, so it lies elsewhere.
                unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), v.ptr(), piece.len()) };
                rest = later;
            }
        }
        bytes.len() - rest.len()
    }
}

/// Executes attempts, blocking the calling thread.
pub trait Executor: Send + Sync {
    /// The bytes transferred, which may be fewer than asked for; 0 for all operations but
    /// transfers.
    fn execute(&self, request: &Request<'_>) -> Result<usize, Errno>;
}

/// Executes with the operating system's calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixExecutor;

impl Executor for PosixExecutor {
    fn execute(&self, r: &Request<'_>) -> Result<usize, Errno> {
        let fd: BorrowedFd<'_> = r.file.borrow_fd().ok_or(Errno::BADF)?;
        match r.op {
            OpKind::Readv | OpKind::Writev => {
                use std::os::fd::AsRawFd;
                // SAFETY: Vector is a transparent iovec, so the slice has the layout asked for.
                let iov = unsafe {
                    std::slice::from_raw_parts(
                        r.vectors.as_ptr().cast::<libc::iovec>(),
                        r.vectors.len(),
                    )
                };
                // SAFETY: a Request describes memory inside a region that its handle keeps alive
                // and owns until completion.
                unsafe { platform::transfer(fd.as_raw_fd(), r.op == OpKind::Writev, iov, r.offset) }
            }
            OpKind::Fsync => platform::sync(fd, false).map(|()| 0),
            OpKind::Fdatasync => platform::sync(fd, true).map(|()| 0),
            OpKind::SyncFileRange => platform::sync_file_range(fd, r.offset, r.length).map(|()| 0),
            OpKind::Allocate => Ok(platform::allocate(fd, r.offset, r.length, false).map(|()| 0)?),
            OpKind::Invalid => Err(Errno::INVAL),
        }
    }
}

/// Continues an operation to its end. `first` is the result of the first attempt, if it was made
/// elsewhere (by the kernel, or by another thread).
///
/// Reads stop at the end of the file with a short count. A cancelled attempt never ran (the thread
/// of its ring has exited), so it is made here. A failed sync is final; only a sync that never ran
/// is attempted again.
pub(crate) fn carry_out(
    executor: &dyn Executor,
    whole: &Request<'_>,
    first: Option<Result<usize, Errno>>,
) -> Result<usize, Errno> {
    let expected = whole.length as usize;
    let mut done = 0;
    let mut last = first;
    loop {
        match last {
            None => {}
            Some(Err(Errno::AGAIN)) => thread::yield_now(),
            Some(Err(e)) if e.is_repeatable() => {}
            Some(Err(e)) => return Err(e),
            Some(Ok(_)) if !whole.op.is_transfer() => return Ok(0),
            Some(Ok(n)) => {
                let before = done;
                done += n;
                if done >= expected {
                    return Ok(expected);
                }
                let write = whole.op == OpKind::Writev;
                if whole.file.is_direct() && !done.is_multiple_of(IO_ALIGN) {
                    if !write {
                        return Ok(done); // only the end of a file is unaligned
                    }
                    done -= done % IO_ALIGN; // write the broken piece again
                }
                if write && done == before {
                    // No progress and no reason: a full disk.
                    return Err(Errno::NOSPC);
                }
                if n == 0 {
                    return Ok(done); // the end of the file
                }
            }
        }
        last = Some(if done == 0 {
            executor.execute(whole)
        } else {
            let (vectors, by) = (after(whole.vectors, done), done as u64);
            let (offset, length) = (whole.offset + by, whole.length - by);
            executor.execute(&Request { offset, length, vectors: &vectors, ..*whole })
        });
    }
}

/// The first `most` bytes of `vectors`.
pub(crate) fn before(vectors: &[Vector], mut most: usize) -> Vectors {
    let mut some = Vectors::new();
    for v in vectors {
        let len = v.len().min(most);
        most -= len;
        if len > 0 {
            some.push(Vector::new(v.ptr(), len));
        }
    }
    some
}

/// The rest of `vectors` after their first `skip` bytes.
fn after(vectors: &[Vector], mut skip: usize) -> Vectors {
    let mut rest = Vectors::new();
    for v in vectors {
        let gone = skip.min(v.len());
        skip -= gone;
        if gone < v.len() {
            // The address stays inside the range, since gone < len.
            rest.push(Vector::new(v.ptr().wrapping_add(gone), v.len() - gone));
        }
    }
    rest
}
