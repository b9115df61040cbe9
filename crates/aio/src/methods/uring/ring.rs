//! One backend's ring: its leader and followers, its completions, and what is registered with it.

use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard, OnceLock, thread};

use io_uring::{EnterFlags, IoUring, Submitter, cqueue, squeue};
use smallvec::SmallVec;

use crate::error::Errno;
use crate::handle::Word;
use crate::table::HandleTable;

/// The rings of all slots, set up when first needed. They live as long as the method.
pub(super) type Rings = Box<[OnceLock<Ring>]>;

/// The maximum number of completions that a reaper takes at once. It finishes them before it takes
/// more, so that waiters of the first ones need not wait for the rest.
const AT_ONCE: usize = 8;

/// How many numbers for files there are.
pub(super) const FILES: usize = 128;

/// Whether the kernel has a table of files for a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileTable {
    Registered,
    Refused,
}

/// Handles that a reaper must finish.
pub(super) type Reaped = SmallVec<[u32; AT_ONCE]>;

pub(super) struct Ring {
    uring: IoUring,
    waiting: Mutex<Waiting>,
    /// Whether a thread leads. Changed only under `waiting`; sleeping followers read it without
    /// that lock.
    led: AtomicBool,
    /// Whether it has the registered memory. Changed under the lock of `Buffers`.
    buffers: AtomicBool,
    /// The state of each file number; changed by the slot's backend, and by the thread that closes
    /// the file.
    pub(super) files: [AtomicU8; FILES],
    pub(super) file_table: OnceLock<FileTable>,
    pub(super) counts: Counts,
}

/// Changed only by the slot's backend, except `refused`.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) operations: AtomicU64,
    pub(super) with_memory: AtomicU64,
    pub(super) with_file: AtomicU64,
    pub(super) refused: AtomicU64,
}

/// How long a leader leads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Its own I/O has been executed.
    Executed,
    /// Any I/O of the ring has been executed. Its completion is not taken.
    AnyArrived,
}

struct Waiting {
    /// The handles that followers sleep on, one entry for each thread.
    followers: Vec<u32>,
}

impl Ring {
    /// A ring of `entries` requests.
    pub(super) fn new(entries: u32) -> std::io::Result<Ring> {
        // With this flag (Linux 5.18) a refused request completes with an error, and the rest of
        // its batch is submitted.
        let uring = IoUring::builder().setup_submit_all().build(entries);
        let uring = match uring {
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::new(entries)?,
            other => other?,
        };
        Ok(Ring {
            uring,
            waiting: Mutex::new(Waiting { followers: Vec::new() }),
            led: AtomicBool::new(false),
            buffers: AtomicBool::new(false),
            files: [const { AtomicU8::new(0) }; FILES],
            file_table: OnceLock::new(),
            counts: Counts::default(),
        })
    }

    /// For registrations, which any thread may make: the kernel separates them from submissions.
    pub(super) fn submitter(&self) -> Submitter<'_> {
        self.uring.submitter()
    }

    pub(super) fn has_buffers(&self) -> bool {
        self.buffers.load(Relaxed)
    }

    pub(super) fn set_has_buffers(&self, has: bool) {
        self.buffers.store(has, Relaxed);
    }

    /// Queues an entry.
    ///
    /// # Safety
    /// The caller is the slot's backend; the memory of the entry stays in place until its
    /// completion.
    pub(super) unsafe fn push(&self, entry: &squeue::Entry) {
        // SAFETY: only the slot's backend uses the submission queue, and it vouches for the entry.
        let pushed = unsafe { self.uring.submission_shared().push(entry) };
        assert!(pushed.is_ok(), "the submission queue has an entry for every handle");
    }

    /// Takes completions that have arrived, up to [`AT_ONCE`].
    ///
    /// # Safety
    /// The caller leads, or holds `waiting` while no thread leads.
    unsafe fn reap(&self, table: &HandleTable, into: &mut Reaped) {
        // SAFETY: the caller excludes every other user of the completion queue.
        let queue = unsafe { self.uring.completion_shared() };
        for entry in queue.take(AT_ONCE) {
            into.push(self.take(table, &entry));
        }
    }

    /// Takes the lead when no other thread has it. False if the handle has moved on.
    pub(super) fn take_lead(&self, table: &HandleTable, index: u32, seen: Word) -> bool {
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
        // The nudge to take the lead may have come here, so pass it on.
        self.pass_on(table, &waiting);
        false
    }

    /// Leads until the handle has been executed, or until any completion has arrived; returns the
    /// handles to finish.
    pub(super) fn lead(&self, table: &HandleTable, index: u32, seen: Word, until: Until) -> Reaped {
        let mut reaped = Reaped::new();
        loop {
            // SAFETY: this thread leads.
            if until == Until::AnyArrived && unsafe { self.queued() } > 0 {
                break;
            }
            // SAFETY: as above.
            unsafe { self.reap(table, &mut reaped) };
            if table.word(index) != seen {
                break;
            }
            // It finishes completions of others, and keeps the lead.
            if reaped.is_empty() {
                self.enter(0, 1);
            }
            reaped.drain(..).for_each(|other| table.finish(other));
        }
        let waiting = self.waiting.lock();
        self.led.store(false, SeqCst);
        self.pass_on(table, &waiting);
        reaped
    }

    /// Wakes a follower to take the lead, if no thread has it.
    fn pass_on(&self, table: &HandleTable, waiting: &MutexGuard<'_, Waiting>) {
        if let Some(&follower) = waiting.followers.first()
            && !self.led.load(SeqCst)
        {
            table.nudge(follower);
        }
    }

    /// How many completions no thread has taken.
    ///
    /// # Safety
    /// As for [`Self::reap`].
    unsafe fn queued(&self) -> usize {
        // SAFETY: the caller excludes every other user of the completion queue.
        unsafe { self.uring.completion_shared() }.len()
    }

    /// How many completions have arrived that no thread has taken; 0 while a thread leads, because
    /// it takes them.
    pub(super) fn arrived(&self) -> usize {
        let _waiting = self.waiting.lock();
        // SAFETY: nobody leads, and nobody can begin to while the lock is held.
        if self.led.load(SeqCst) { 0 } else { unsafe { self.queued() } }
    }

    /// Finishes up to [`AT_ONCE`] completions that have arrived, unless a thread leads. False if
    /// there were none.
    pub(super) fn collect_arrived(&self, table: &HandleTable) -> bool {
        let mut reaped = Reaped::new();
        {
            let _waiting = self.waiting.lock();
            if !self.led.load(SeqCst) {
                // SAFETY: nobody leads, and nobody can begin to while the lock is held.
                unsafe { self.reap(table, &mut reaped) };
            }
        }
        let some = !reaped.is_empty();
        for index in reaped {
            table.finish(index);
        }
        some
    }

    /// Submits `count` entries that were just queued.
    pub(super) fn submit(&self, table: &HandleTable, mut count: u32) {
        while count > 0 {
            let consumed = self.enter(count, 0);
            count -= consumed;
            if consumed == 0 {
                // The kernel was interrupted, or has no memory for requests: make room.
                self.collect_arrived(table);
                thread::yield_now();
            }
        }
    }

    /// Enters the kernel once. Returns how many entries it consumed; 0 if the caller should try
    /// again.
    fn enter(&self, to_submit: u32, wait_for: u32) -> u32 {
        let flags = if wait_for > 0 { EnterFlags::GETEVENTS } else { EnterFlags::empty() };
        // SAFETY: no argument is passed; the entries queued describe memory that their handles keep
        // alive.
        let entered = unsafe {
            self.submitter().enter::<libc::sigset_t>(to_submit, wait_for, flags.bits(), None)
        };
        match entered.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO)) {
            Ok(n) => n as u32,
            Err(libc::EINTR | libc::EAGAIN | libc::EBUSY) => 0,
            Err(e) => {
                // The ring is broken: what was submitted can neither be finished nor taken back.
                tracing::error!("io_uring_enter failed: {}", Errno(e));
                std::process::abort();
            }
        }
    }

    /// Passes a completion to its handle; returns the handle.
    fn take(&self, table: &HandleTable, entry: &cqueue::Entry) -> u32 {
        let index = entry.user_data() as u32;
        // Checked in every build: a completion of an earlier use would report its success for this
        // one.
        assert_eq!(
            (entry.user_data() >> 32) as u32,
            table.word(index).generation() as u32,
            "a completion belongs to the present use of its handle"
        );
        let mut result = usize::try_from(entry.result()).map_err(|_| Errno(-entry.result()));
        if result == Err(Errno(libc::EFAULT)) {
            // A region is always mapped, so the kernel rejected the registered memory for this
            // file. Nothing was transferred, and the finisher makes the attempt without it.
            self.counts.refused.fetch_add(1, Relaxed);
            result = Err(Errno::CANCELED);
        }
        table.executed(index, result);
        index
    }
}

impl Counts {
    /// Adds one. Only the slot's backend may call this.
    pub(super) fn add(counter: &AtomicU64) {
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::io::Write;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use io_uring::opcode;

    use super::*;
    use crate::execute::PosixExecutor;
    use crate::file::{File, FileFlags};
    use crate::handle::HandleState;
    use crate::io::{Io, Op};
    use crate::op::Target;
    use crate::sync::Arc;
    use crate::table::Body;

    #[test]
    fn a_completion_of_an_earlier_use_is_no_success_of_this_one() {
        if let Err(e) = crate::probe_io_uring() {
            let told = writeln!(
                std::io::stdout(),
                "skipped: a completion of an earlier use needs io_uring: {e}"
            );
            return told.unwrap();
        }
        let (table, ring) =
            (HandleTable::new(1, 1, Arc::new(PosixExecutor)), Ring::new(1).unwrap());
        let file = File::from_object("none".into(), FileFlags::default(), Arc::new(()));
        table.hand_out(0);
        table.define(0, Body::new(Io::new(file, Op::Fsync, Target::File)));
        table.stage(0, false);
        table.begin(0);
        let earlier = table.word(0).generation() - 1;
        // SAFETY: this thread alone uses the ring; the entry names no memory.
        unsafe { ring.push(&opcode::Nop::new().build().user_data(earlier << 32)) };
        assert_eq!(ring.enter(1, 1), 1);
        let taken = catch_unwind(AssertUnwindSafe(|| ring.collect_arrived(&table)));
        assert!(taken.is_err(), "it was taken for this use");
        assert_eq!(table.word(0).state(), HandleState::Submitted);
    }
}
