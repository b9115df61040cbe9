//! io_method io_uring: the kernel executes; each backend slot has a ring, and any thread reaps it.
//!
//! - The submission queue belongs to the slot's backend alone. Nobody else looks at it: waiters enter the kernel with nothing to
//!   submit.
//! - The completion queue is under the ring's completion lock. Under it a reaper moves every handle it finds from SUBMITTED to
//!   COMPLETED_IO, and only then lets go; so a thread that holds the lock and still sees its handle SUBMITTED knows that the
//!   completion has yet to arrive, and may sleep in the kernel for it, holding the lock. A handle that is COMPLETED_IO is somebody's
//!   to finish, who does not block; its waiters sleep on the handle.
//! - Completions run after the lock is released, so that several threads verify checksums at once.
//! - No IORING_SETUP_SINGLE_ISSUER or DEFER_TASKRUN: with them only the issuer could make completions appear.
//! - A ring stays with its slot, and goes when the method does: longer than anything in flight.
//! - What the kernel cancels (because the thread that submitted it has exited) is executed by whoever reaps it.

use std::sync::OnceLock;

use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue, types};
use smallvec::SmallVec;

use super::{Method, setup_refusal};
use crate::error::{AioError, Errno};
use crate::handle::{HandleState, Word};
use crate::op::OpKind;
use crate::platform::MAX_VECTORS;
use crate::sync::{Mutex, MutexGuard, thread};
use crate::table::{HandleTable, KernelView};

/// Buffered I/Os in flight beyond which the kernel is told not to try in the submitter's time: the copy out of the page cache would
/// run there, one after the other.
const ASYNC_THRESHOLD: usize = 4;

/// Handles that one reaper has taken upon itself to finish.
type Reaped = SmallVec<[u32; 32]>;

struct Ring {
    uring: IoUring,
    completion: Mutex<()>,
}

/// The method.
pub(crate) struct Uring {
    rings: Box<[OnceLock<Ring>]>,
    entries: u32,
}

impl Uring {
    /// Rings for `slots` backends of `per_backend` handles, set up when first needed.
    pub(crate) fn new(slots: usize, per_backend: usize) -> Result<Uring, AioError> {
        super::probe_io_uring()?;
        // Twice as many completions fit; so neither queue overflows.
        let entries = (per_backend as u32).next_power_of_two();
        Ok(Uring { rings: (0..slots).map(|_| OnceLock::new()).collect(), entries })
    }

    fn ring(&self, slot: u32) -> &Ring {
        self.rings[slot as usize].get().expect("a backend that does I/O has its ring")
    }
}

impl Ring {
    /// Takes what has arrived. The guard proves that the completion lock is held.
    fn reap(&self, _held: &MutexGuard<'_, ()>, table: &HandleTable, into: &mut Reaped) {
        // SAFETY: the completion lock excludes every other user of the completion queue.
        let queue = unsafe { self.uring.completion_shared() };
        for entry in queue {
            into.push(take(table, &entry));
        }
    }

    /// Sleeps until something arrives (or a signal does).
    fn sleep(&self, _held: &MutexGuard<'_, ()>) {
        enter(self, 0, 1);
    }

    /// Hands over `count` entries that were just queued.
    fn submit(&self, table: &HandleTable, mut count: u32) {
        while count > 0 {
            let consumed = enter(self, count, 0);
            count -= consumed;
            if consumed == 0 {
                // Out of memory for requests: make some finish.
                reap_and_finish(self, table);
                thread::yield_now();
            }
        }
    }
}

/// One entry into the kernel. What was consumed; 0 when it is to be tried again.
fn enter(ring: &Ring, to_submit: u32, wait_for: u32) -> u32 {
    let flags = if wait_for > 0 { EnterFlags::GETEVENTS } else { EnterFlags::empty() };
    // SAFETY: no argument is passed; the entries queued describe memory that their handles keep alive.
    let entered =
        unsafe { ring.uring.submitter().enter::<libc::sigset_t>(to_submit, wait_for, flags.bits(), None) };
    match entered.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO)) {
        Ok(n) => n as u32,
        Err(libc::EINTR | libc::EAGAIN | libc::EBUSY) => 0,
        Err(e) => {
            // The ring itself is broken: what was submitted can neither be finished nor taken back.
            tracing::error!("io_uring_enter failed: {}", Errno(e));
            std::process::abort();
        }
    }
}

/// Moves the handle of a completion on.
fn take(table: &HandleTable, entry: &cqueue::Entry) -> u32 {
    let index = entry.user_data() as u32;
    debug_assert_eq!((entry.user_data() >> 32) as u32, table.word(index).generation() as u32);
    let result = usize::try_from(entry.result()).map_err(|_| Errno(-entry.result()));
    table.executed(index, result);
    index
}

fn reap_and_finish(ring: &Ring, table: &HandleTable) {
    let mut reaped = Reaped::new();
    if let Some(held) = ring.completion.try_lock() {
        ring.reap(&held, table, &mut reaped);
    }
    for index in reaped {
        table.finish(index);
    }
}

fn describe(view: &KernelView<'_>, user_data: u64, force_async: bool) -> squeue::Entry {
    let fd = types::Fd(view.file.raw_fd().unwrap_or(-1)); // another namespace's file: EBADF
    let count = view.vectors.len().min(MAX_VECTORS) as u32;
    let iov = view.vectors.as_ptr().cast::<libc::iovec>();
    let entry = match (view.op, view.vectors) {
        (OpKind::Readv, [one]) if u32::try_from(one.len()).is_ok() => {
            opcode::Read::new(fd, one.ptr(), one.len() as u32).offset(view.offset).build()
        }
        (OpKind::Writev, [one]) if u32::try_from(one.len()).is_ok() => {
            opcode::Write::new(fd, one.ptr(), one.len() as u32).offset(view.offset).build()
        }
        (OpKind::Readv, _) => opcode::Readv::new(fd, iov, count).offset(view.offset).build(),
        (OpKind::Writev, _) => opcode::Writev::new(fd, iov, count).offset(view.offset).build(),
        (OpKind::Fdatasync, _) => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        (OpKind::Fsync | OpKind::Invalid, _) => opcode::Fsync::new(fd).build(),
    };
    let flags = if force_async { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
    entry.flags(flags).user_data(user_data)
}

impl Method for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn attach(&self, slot: u32) -> Result<(), AioError> {
        let cell = &self.rings[slot as usize];
        if cell.get().is_none() {
            let uring = IoUring::new(self.entries)
                .map_err(|e| setup_refusal(e.raw_os_error().unwrap_or(libc::EIO)))?;
            let fresh = cell.set(Ring { uring, completion: Mutex::new(()) });
            assert!(fresh.is_ok(), "a slot is attached by one backend at a time");
        }
        Ok(())
    }

    fn submit(&self, table: &HandleTable, slot: u32, staged: &[u32], in_flight: usize) {
        let ring = self.ring(slot);
        for (n, &index) in staged.iter().enumerate() {
            let generation = table.word(index).generation();
            let user_data = generation << 32 | u64::from(index);
            let entry = table.with_kernel_view(index, |view| {
                let force_async = in_flight + n > ASYNC_THRESHOLD && !view.file.is_direct();
                describe(&view, user_data, force_async)
            });
            // Before the kernel knows of it: the completion may be reaped at once, by anyone.
            table.begin(index);
            // SAFETY: only the slot's backend uses the submission queue, and it is here. The entry's memory (and its vectors, in
            // the handle's body) stays in place until the handle is collected, which happens after completion.
            let pushed = unsafe { ring.uring.submission_shared().push(&entry) };
            assert!(pushed.is_ok(), "the submission queue has an entry for every handle");
        }
        ring.submit(table, staged.len() as u32);
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        debug_assert_eq!(seen.state(), HandleState::Submitted);
        let ring = self.ring(table.slot_of(index));
        let mut reaped = Reaped::new();
        {
            let held = ring.completion.lock();
            ring.reap(&held, table, &mut reaped);
            if reaped.is_empty() && table.word(index) == seen {
                ring.sleep(&held);
                ring.reap(&held, table, &mut reaped);
            }
        }
        for index in reaped {
            table.finish(index);
        }
    }

    fn poll(&self, table: &HandleTable, index: u32) {
        reap_and_finish(self.ring(table.slot_of(index)), table);
    }
}
