//! io_method io_uring: the kernel executes; each backend slot has a ring, and any thread reaps it.
//!
//! - The submission queue belongs to the slot's backend alone. Nobody else looks at it: waiters enter the kernel with nothing to
//!   submit.
//! - Of the threads that wait for I/O of one ring, one leads: it alone takes completions out of the queue, and sleeps in the kernel
//!   for more. A leader whose handle is still SUBMITTED therefore knows that its completion has yet to arrive. The others follow:
//!   they sleep on their handles, so each wakes as soon as its own I/O is finished, whatever the leader still waits for. (Were they
//!   queued for a lock that the leader holds, they would sleep through their own completion.) A leader whose I/O has arrived gives
//!   up the lead, and nudges a follower to take it.
//! - What arrived is finished after the lead is given up, so that several threads verify checksums at once.
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
use crate::sync::atomic::{AtomicBool, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard, thread};
use crate::table::{HandleTable, KernelView};

/// Buffered I/Os in flight beyond which the kernel is told not to try in the submitter's time: the copy out of the page cache would
/// run there, one after the other.
const ASYNC_THRESHOLD: usize = 4;

/// Handles that one reaper has taken upon itself to finish.
type Reaped = SmallVec<[u32; 32]>;

struct Ring {
    uring: IoUring,
    waiting: Mutex<Waiting>,
    /// Someone leads. Changed only under `waiting`; read by sleeping followers without it.
    led: AtomicBool,
}

struct Waiting {
    /// The handles that followers sleep on, one entry for each thread.
    followers: Vec<u32>,
}

/// The method.
pub(crate) struct Uring {
    rings: Box<[OnceLock<Ring>]>,
    entries: u32,
}

impl Uring {
    /// Rings for `slots` backends of `per_backend` handles, set up when first needed.
    pub(crate) fn new(slots: usize, per_backend: usize) -> Result<Uring, AioError> {
        super::probe_io_uring_for(slots)?;
        // Twice as many completions fit; so neither queue overflows.
        let entries = (per_backend as u32).next_power_of_two();
        Ok(Uring { rings: (0..slots).map(|_| OnceLock::new()).collect(), entries })
    }

    fn ring(&self, slot: u32) -> &Ring {
        self.rings[slot as usize].get().expect("a backend that does I/O has its ring")
    }
}

impl Ring {
    /// Takes what has arrived.
    ///
    /// # Safety
    /// The caller leads, or holds `waiting` while nobody does.
    unsafe fn reap(&self, table: &HandleTable, into: &mut Reaped) {
        // SAFETY: the caller excludes every other user of the completion queue.
        let queue = unsafe { self.uring.completion_shared() };
        for entry in queue {
            into.push(take(table, &entry));
        }
    }

    /// Takes the lead once nobody has it. False: the handle has moved on meanwhile.
    fn take_lead(&self, table: &HandleTable, index: u32, seen: Word) -> bool {
        let mut waiting = self.waiting.lock();
        while self.led.load(SeqCst) && table.word(index) == seen {
            waiting.followers.push(index);
            drop(waiting);
            table.wait_change_while(index, seen, || self.led.load(SeqCst));
            waiting = self.waiting.lock();
            let mine = waiting.followers.iter().position(|&f| f == index).expect("entered above");
            waiting.followers.swap_remove(mine);
        }
        if table.word(index) == seen {
            self.led.store(true, SeqCst);
            return true;
        }
        // The nudge to take the lead may have come here: pass it on.
        self.pass_on(table, &waiting);
        false
    }

    /// Leads until the handle has been executed; returns what is to be finished.
    fn lead(&self, table: &HandleTable, index: u32, seen: Word) -> Reaped {
        let mut reaped = Reaped::new();
        loop {
            // SAFETY: this thread leads.
            unsafe { self.reap(table, &mut reaped) };
            if table.word(index) != seen {
                break;
            }
            // Others' completions, and it stays in the lead.
            if reaped.is_empty() {
                enter(self, 0, 1);
            }
            reaped.drain(..).for_each(|other| table.finish(other));
        }
        let waiting = self.waiting.lock();
        self.led.store(false, SeqCst);
        self.pass_on(table, &waiting);
        reaped
    }

    /// Sees to it that a follower takes the lead, if nobody has it.
    fn pass_on(&self, table: &HandleTable, waiting: &MutexGuard<'_, Waiting>) {
        if let Some(&follower) = waiting.followers.first()
            && !self.led.load(SeqCst)
        {
            table.nudge(follower);
        }
    }

    /// Finishes what has arrived, unless someone leads, who will.
    fn collect_arrived(&self, table: &HandleTable) {
        let mut reaped = Reaped::new();
        {
            let _waiting = self.waiting.lock();
            if !self.led.load(SeqCst) {
                // SAFETY: nobody leads, and nobody can begin to while the lock is held.
                unsafe { self.reap(table, &mut reaped) };
            }
        }
        for index in reaped {
            table.finish(index);
        }
    }

    /// Hands over `count` entries that were just queued.
    fn submit(&self, table: &HandleTable, mut count: u32) {
        while count > 0 {
            let consumed = enter(self, count, 0);
            count -= consumed;
            if consumed == 0 {
                // Interrupted, or out of memory for requests: make room.
                self.collect_arrived(table);
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
        (OpKind::Fsync | OpKind::SyncFileRange | OpKind::Allocate | OpKind::Invalid, _) => {
            opcode::Fsync::new(fd).build()
        }
    };
    let flags = if force_async { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
    entry.flags(flags).user_data(user_data)
}

impl Method for Uring {
    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn executes(&self, op: OpKind) -> bool {
        !matches!(op, OpKind::SyncFileRange | OpKind::Allocate)
    }

    fn attach(&self, slot: u32) -> Result<(), AioError> {
        let cell = &self.rings[slot as usize];
        if cell.get().is_none() {
            let uring = IoUring::new(self.entries)
                .map_err(|e| setup_refusal(e.raw_os_error().unwrap_or(libc::EIO)))?;
            let fresh = cell.set(Ring {
                uring,
                waiting: Mutex::new(Waiting { followers: Vec::new() }),
                led: AtomicBool::new(false),
            });
            assert!(fresh.is_ok(), "a slot is attached by one backend at a time");
        }
        Ok(())
    }

    fn executes_by_table(&self) -> bool {
        false
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
        if ring.take_lead(table, index, seen) {
            for index in ring.lead(table, index, seen) {
                table.finish(index);
            }
        }
    }

    fn poll(&self, table: &HandleTable, index: u32) {
        self.ring(table.slot_of(index)).collect_arrived(table);
    }
}
