//! io_method posix_aio: `aio_read` and its kin execute, in the C library or the kernel. It is for
//! portability and not for speed: glibc's is a pool of threads that serves the requests of each
//! descriptor one after the other.
//!
//! - An I/O is a request of one control block for each range of memory, up to [`MOST_BLOCKS`]. The
//!   rest is a short transfer, which the finisher continues. Syncs are `aio_fsync`. Operations on a
//!   range have no call, so the issuer executes them.
//! - `lio_listio` is not used: after a partial refusal it does not tell which blocks it has taken,
//!   and systems differ in how they report that. `aio_cancel` is not used either: the handle of an
//!   open I/O keeps its file open, so no close meets an open I/O.
//! - The issuer executes what the system does not take (EAGAIN: its resources have run out).
//! - Only the thread that takes a request out of its handle's slot may use its control blocks. It
//!   sleeps in `aio_suspend` until they are done, calls `aio_return` once on each, and finishes the
//!   I/O. It holds no lock in that time. Other waiters sleep on the handle. (On some systems a
//!   thread in `aio_suspend` could sleep forever if another thread returns the block.) Each request
//!   has its own slot, so a waiter of one I/O never delays a waiter of another.

use std::ptr;

use smallvec::SmallVec;

use crate::error::Errno;
use crate::execute::Request;
use crate::handle::Word;
use crate::method::Method;
use crate::op::OpKind;
use crate::sync::{Mutex, thread};
use crate::table::HandleTable;

/// The maximum number of control blocks of one I/O: macOS gives a process 16.
const MOST_BLOCKS: usize = 16;

/// Hands a control block to the system. False if it was not taken.
///
/// # Safety
/// The block and its memory stay in place until the block has been returned.
type Queue = unsafe fn(OpKind, *mut libc::aiocb) -> bool;

/// The method.
pub(crate) struct PosixAio {
    /// A slot for each handle: its request, if that is in flight and no thread has taken it.
    requests: Box<[Mutex<Option<ControlBlocks>>]>,
    queue: Queue,
}

/// The control blocks of one I/O. The system has them until [`ControlBlocks::settle`].
struct ControlBlocks {
    /// From a boxed slice; raw because the system holds the address.
    blocks: *mut [libc::aiocb],
    /// How many of them, from the first on, the system took.
    queued: usize,
    settled: bool,
}

// SAFETY: POSIX lets any thread of the process ask for and wait for a request.
unsafe impl Send for ControlBlocks {}

unsafe fn enqueue(op: OpKind, block: *mut libc::aiocb) -> bool {
    // macOS only syncs data and metadata together.
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
    /// A method for this many handles.
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

impl ControlBlocks {
    /// Hands an I/O to the system. None if it took nothing of it.
    ///
    /// # Safety
    /// The memory of the I/O stays in place until the request is settled.
    unsafe fn start(io: &Request<'_>, queue: Queue) -> Option<ControlBlocks> {
        let fd = io.file.raw_fd()?;
        let mut blocks = Vec::new();
        match io.op {
            OpKind::Readv | OpKind::Writev => {
                let mut offset = io.offset;
                for v in io.vectors.iter().take(MOST_BLOCKS) {
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
        let mut request = ControlBlocks { blocks, queued: 0, settled: false };
        for n in 0..blocks.len() {
            // SAFETY: the blocks are freed after settling; the caller vouches for the memory.
            if !unsafe { queue(io.op, request.block(n)) } {
                break;
            }
            request.queued += 1;
        }
        (request.queued > 0).then_some(request)
    }

    fn block(&self, n: usize) -> *mut libc::aiocb {
        assert!(n < self.blocks.len());
        self.blocks.cast::<libc::aiocb>().wrapping_add(n)
    }

    /// The blocks that are still in progress.
    fn pending(&self) -> SmallVec<[*const libc::aiocb; MOST_BLOCKS]> {
        // SAFETY: queued blocks that have not been returned.
        let in_progress =
            |b: &*const libc::aiocb| unsafe { libc::aio_error(*b) } == libc::EINPROGRESS;
        (0..self.queued).map(|n| self.block(n).cast_const()).filter(in_progress).collect()
    }

    /// Waits for the end of the request; returns its result.
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
                thread::yield_now();
            }
        }
        let results: SmallVec<[_; MOST_BLOCKS]> =
            (0..self.queued).map(|n| self.take_result(n)).collect();
        gather(&results)
    }

    /// The bytes asked for, and the result.
    fn take_result(&self, n: usize) -> (usize, Result<usize, Errno>) {
        let block = self.block(n);
        // SAFETY: the block was queued, is not in progress, and is returned here, once; its length
        // was set before it was queued.
        let (asked, error, returned) =
            unsafe { ((*block).aio_nbytes, libc::aio_error(block), libc::aio_return(block)) };
        let result = match error {
            0 => usize::try_from(returned).map_err(|_| Errno::IO),
            -1 => Err(Errno::IO), // the system does not know it
            e => Err(Errno(e)),
        };
        (asked, result)
    }
}

impl Drop for ControlBlocks {
    fn drop(&mut self) {
        if !self.settled {
            let _ = self.settle(); // the system still uses the blocks
        }
        // SAFETY: made by Box::into_raw; the system has returned every block it took.
        drop(unsafe { Box::from_raw(self.blocks) });
    }
}

/// Combines the results of blocks to that of one transfer. An error is the result whatever else was
/// transferred; otherwise it is the bytes up to the first gap. Attempts that never ran are gaps.
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
            // Under the lock, so that a waiter that sees it submitted finds the request.
            let mut place = self.requests[index as usize].lock();
            table.begin(index);
            // SAFETY: the handle keeps memory and file until it is collected, which happens after
            // completion.
            *place =
                table.with_request(index, |io| unsafe { ControlBlocks::start(io, self.queue) });
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
            // The slot may hold the request of a later use of the handle.
            if table.word(index) != seen { None } else { place.take() }
        };
        match request {
            Some(mut request) => {
                table.executed(index, request.settle());
                table.finish(index);
            }
            // A waiter has taken it, or the issuer executes it.
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
