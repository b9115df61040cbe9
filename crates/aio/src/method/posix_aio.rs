//! io_method posix_aio: the C library's or kernel's `aio_read` and kin execute. For portability,
//! not for speed: glibc's is a pool of threads in user space that serves each descriptor's requests
//! one after the other.
//!
//! - An I/O is a request of one control block for each piece of memory, up to [`MOST_BLOCKS`]; what
//!   goes beyond is a short transfer, which its finisher carries on. Syncs are `aio_fsync`.
//!   Operations on a range have no call, and run in the issuer.
//! - `lio_listio` is not used: after a partial refusal it leaves open which blocks it has taken,
//!   and says so differently from system to system. Nor is `aio_cancel`: an open I/O's handle keeps
//!   its file open, so no close ever meets one.
//! - What the system does not take (EAGAIN: its resources have run out) runs in the issuer.
//! - Nobody but the one thread that takes a request out of its handle's place may look at its
//!   control blocks: it sleeps in `aio_suspend` until they are done, calls `aio_return` on each
//!   once, and finishes the I/O. It holds no lock meanwhile, and waits for nothing else. Others
//!   that wait for the I/O sleep on its handle. (A thread in `aio_suspend` for a block that another
//!   thread returns could sleep for ever on some systems.) Each request has its own place, so there
//!   is no lead to pass on, as rings have: who waits for one I/O never holds up another's waiter.

use std::ptr;

use smallvec::SmallVec;

use super::Method;
use crate::error::Errno;
use crate::handle::Word;
use crate::op::OpKind;
use crate::sync::{Mutex, thread};
use crate::table::{HandleTable, KernelView};

/// Most control blocks of one I/O: macOS gives a process 16.
const MOST_BLOCKS: usize = 16;

/// Hands a control block to the system. False: it was not taken.
///
/// # Safety
/// The block, and the memory it describes, stay in place until the block has been returned.
type Queue = unsafe fn(OpKind, *mut libc::aiocb) -> bool;

/// The method.
pub(crate) struct PosixAio {
    /// One place for each handle: what is in flight and in no thread's hands.
    requests: Box<[Mutex<Option<Request>>]>,
    queue: Queue,
}

/// The control blocks of one I/O, all of them with the system until [`Request::settle`].
struct Request {
    /// From a boxed slice; raw, since the system holds the address.
    blocks: *mut [libc::aiocb],
    /// So many of them, from the first on, were taken by the system.
    queued: usize,
    settled: bool,
}

// SAFETY: POSIX lets any thread of the process ask for and wait for a request.
unsafe impl Send for Request {}

unsafe fn enqueue(op: OpKind, block: *mut libc::aiocb) -> bool {
    // macOS knows only the sync of everything.
    let data_only = op == OpKind::Fdatasync && cfg!(not(target_os = "macos"));
    let flavor = if data_only { libc::O_DSYNC } else { libc::O_SYNC };
    // SAFETY: the caller vouches for the block and its memory.
    let rc = unsafe {
        match op {
            OpKind::Readv => libc::aio_read(block),
            OpKind::Writev => libc::aio_write(block),
            _ => libc::aio_fsync(flavor, block),
        }
    };
    rc == 0
}

impl PosixAio {
    /// For so many handles.
    pub(crate) fn new(handles: usize) -> PosixAio {
        PosixAio { requests: (0..handles).map(|_| Mutex::new(None)).collect(), queue: enqueue }
    }
}

fn block(fd: i32, offset: u64) -> Option<libc::aiocb> {
    // SAFETY: a control block is numbers and pointers, for all of which zero is a value.
    let mut block: libc::aiocb = unsafe { std::mem::zeroed() };
    block.aio_fildes = fd;
    block.aio_offset = libc::off_t::try_from(offset).ok()?;
    block.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    Some(block)
}

impl Request {
    /// Hands an I/O to the system. None: it has taken nothing of it.
    ///
    /// # Safety
    /// The memory of the view stays in place until the request is settled.
    unsafe fn start(view: &KernelView<'_>, queue: Queue) -> Option<Request> {
        let fd = view.file.raw_fd()?;
        let mut blocks = Vec::new();
        match view.op {
            OpKind::Readv | OpKind::Writev => {
                let mut offset = view.offset;
                for v in view.vectors.iter().take(MOST_BLOCKS) {
                    let mut block = block(fd, offset)?;
                    block.aio_buf = v.ptr().cast();
                    block.aio_nbytes = v.len();
                    blocks.push(block);
                    offset += v.len() as u64;
                }
            }
            OpKind::Fsync | OpKind::Fdatasync => blocks.push(block(fd, 0)?),
            OpKind::SyncFileRange | OpKind::Allocate | OpKind::Invalid => return None,
        }
        let blocks = Box::into_raw(blocks.into_boxed_slice());
        let mut request = Request { blocks, queued: 0, settled: false };
        // SAFETY: the blocks are freed after settling; the caller vouches for the memory.
        while request.queued < blocks.len()
            && unsafe { queue(view.op, request.block(request.queued)) }
        {
            request.queued += 1;
        }
        (request.queued > 0).then_some(request)
    }

    fn block(&self, n: usize) -> *mut libc::aiocb {
        assert!(n < self.blocks.len());
        self.blocks.cast::<libc::aiocb>().wrapping_add(n)
    }

    /// The blocks that the system is not through with.
    fn pending(&self) -> SmallVec<[*const libc::aiocb; MOST_BLOCKS]> {
        // SAFETY: queued blocks that have not been returned.
        let in_progress =
            |b: &*const libc::aiocb| unsafe { libc::aio_error(*b) } == libc::EINPROGRESS;
        (0..self.queued).map(|n| self.block(n).cast_const()).filter(in_progress).collect()
    }

    /// Waits for the system to be through with it; what it did.
    fn settle(&mut self) -> Result<usize, Errno> {
        assert!(!std::mem::replace(&mut self.settled, true), "a block is returned once");
        loop {
            let pending = self.pending();
            if pending.is_empty() {
                break;
            }
            // SAFETY: a list of queued blocks, which this thread alone may return; no time limit.
            let rc =
                unsafe { libc::aio_suspend(pending.as_ptr(), pending.len() as i32, ptr::null()) };
            if rc != 0 && Errno::last() != Errno::INTR {
                thread::yield_now(); // it refuses to sleep: ask again
            }
        }
        let results: SmallVec<[_; MOST_BLOCKS]> =
            (0..self.queued).map(|n| self.take_result(n)).collect();
        gather(&results)
    }

    /// Bytes asked for, and the result.
    fn take_result(&self, n: usize) -> (usize, Result<usize, Errno>) {
        let block = self.block(n);
        // SAFETY: the block was queued, is not in progress, and is returned here, once; its length
        // was set before it was queued.
        let (asked, error, returned) =
            unsafe { ((*block).aio_nbytes, libc::aio_error(block), libc::aio_return(block)) };
        let result = match error {
            0 => usize::try_from(returned).map_err(|_| Errno::IO),
            -1 => Err(Errno::IO), // the system denies all knowledge of it
            e => Err(Errno(e)),
        };
        (asked, result)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.settled {
            let _ = self.settle(); // the system still uses the blocks and their memory
        }
        // SAFETY: made by Box::into_raw; the system has returned every block it took.
        drop(unsafe { Box::from_raw(self.blocks) });
    }
}

/// Several blocks' results as that of one transfer: an error is one whatever else was transferred;
/// otherwise what was transferred up to the first gap. Attempts that never ran are gaps.
fn gather(results: &[(usize, Result<usize, Errno>)]) -> Result<usize, Errno> {
    if let Some(e) = results.iter().filter_map(|(_, r)| r.err()).find(|e| !e.is_repeatable()) {
        return Err(e);
    }
    let mut done = 0;
    for (n, &(asked, result)) in results.iter().enumerate() {
        match result {
            Ok(got) => done += got,
            Err(e) if n == 0 => return Err(e),
            Err(_) => break,
        }
        if result != Ok(asked) {
            break;
        }
    }
    Ok(done)
}

impl Method for PosixAio {
    fn name(&self) -> &'static str {
        "posix_aio"
    }

    fn executes(&self, op: OpKind) -> bool {
        op.is_transfer() || op.is_sync()
    }

    fn executes_by_table(&self) -> bool {
        false
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        let mut refused: SmallVec<[u32; 32]> = SmallVec::new();
        for &index in staged {
            // Who finds it submitted and waits for it comes to its place after it was put there.
            let mut place = self.requests[index as usize].lock();
            table.begin(index);
            // SAFETY: the handle keeps memory and file until it is collected, which happens after
            // completion.
            *place =
                table.with_kernel_view(index, |view| unsafe { Request::start(&view, self.queue) });
            if place.is_none() {
                refused.push(index);
            }
        }
        for index in refused {
            table.execute(index);
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        let request = {
            let mut place = self.requests[index as usize].lock();
            // Another use of the handle is not this waiter's.
            if table.word(index) != seen { None } else { place.take() }
        };
        match request {
            Some(mut request) => {
                table.executed(index, request.settle());
                table.finish(index);
            }
            // In the hands of a waiter, or of its issuer, who executes it.
            None => table.wait_change(index, seen),
        }
    }

    fn poll(&self, table: &HandleTable, index: u32) {
        let arrived = {
            let mut place = self.requests[index as usize].lock();
            place.take_if(|request| request.pending().is_empty())
        };
        if let Some(mut request) = arrived {
            table.executed(index, request.settle());
            table.finish(index);
        }
    }
}

#[cfg(test)]
mod tests;
