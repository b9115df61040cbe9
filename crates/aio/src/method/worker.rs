//! io_method worker: threads that execute I/O from one short queue.
//!
//! A full queue, or none to serve it, makes the submitter execute its I/O itself. A waiter whose I/O is still queued takes it out and
//! executes it: it needs the result now, and so no I/O ever depends on a worker that is busy, slow to start, or gone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

mod limits;

use super::Method;
use crate::error::{AioError, Errno};
use crate::handle::{HandleState, Word};
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::table::HandleTable;
pub use limits::WorkerLimits;

/// Most I/Os waiting for a worker.
const QUEUE_SIZE: usize = 64;

struct Queue {
    /// Submitted handles, oldest first.
    entries: VecDeque<u32>,
    /// Workers asleep.
    idle: usize,
    /// Workers wanted; those with a higher number leave.
    wanted: usize,
    /// Which workers run, by number.
    running: [bool; WorkerLimits::MOST],
}

struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    table: Arc<HandleTable>,
}

/// The method.
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Workers {
    /// Starts the workers.
    pub(crate) fn new(table: Arc<HandleTable>, limits: WorkerLimits) -> Result<Workers, AioError> {
        let entries = VecDeque::with_capacity(QUEUE_SIZE);
        let queue = Mutex::new(Queue { entries, idle: 0, wanted: 0, running: [false; WorkerLimits::MOST] });
        let shared = Arc::new(Shared { queue, work: Condvar::new(), table });
        let method = Workers { shared, threads: Mutex::new(Vec::new()) };
        method.set_worker_limits(limits)?;
        Ok(method)
    }

    fn spawn_missing(&self) -> Result<(), AioError> {
        let mut threads = self.threads.lock();
        threads.retain(|t| !t.is_finished());
        loop {
            let number = {
                let mut q = self.shared.queue.lock();
                let Some(n) = (0..q.wanted).find(|&n| !q.running[n]) else { return Ok(()) };
                q.running[n] = true;
                n
            };
            let shared = Arc::clone(&self.shared);
            let spawned = thread::Builder::new()
                .name(format!("io worker {number}"))
                .spawn(move || shared.serve(number));
            match spawned {
                Ok(t) => threads.push(t),
                Err(e) => {
                    self.shared.queue.lock().running[number] = false;
                    let errno = Errno(e.raw_os_error().unwrap_or(libc::EAGAIN));
                    return Err(AioError::Resource { action: format!("start I/O worker {number}"), errno });
                }
            }
        }
    }
}

impl Shared {
    /// A worker's life.
    fn serve(&self, number: usize) {
        let mut q = self.queue.lock();
        while number < q.wanted {
            let Some(index) = q.entries.pop_front() else {
                q.idle += 1;
                self.work.wait(&mut q);
                q.idle -= 1;
                continue;
            };
            drop(q);
            self.execute(index);
            q = self.queue.lock();
        }
        q.running[number] = false;
        if !q.entries.is_empty() {
            self.work.notify_one(); // the wake-up meant for the queue may have come to a worker that leaves
        }
    }

    /// Executes one I/O; whatever happens, it ends.
    fn execute(&self, index: u32) {
        if catch_unwind(AssertUnwindSafe(|| self.table.execute(index))).is_err() {
            tracing::error!(index, "the execution of an I/O panicked");
            if self.table.word(index).state() == HandleState::Submitted {
                self.table.executed(index, Err(Errno::IO));
                self.table.finish(index);
            }
        }
    }
}

impl Method for Workers {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        for &index in staged {
            table.begin(index);
        }
        let mut overflow: SmallVec<[u32; 32]> = SmallVec::new();
        let wake = {
            let mut q = self.shared.queue.lock();
            let room = if q.wanted == 0 { 0 } else { QUEUE_SIZE - q.entries.len() };
            let (fit, rest) = staged.split_at(room.min(staged.len()));
            q.entries.extend(fit);
            overflow.extend_from_slice(rest);
            fit.len().min(q.idle)
        };
        for _ in 0..wake {
            self.shared.work.notify_one();
        }
        for index in overflow {
            table.execute(index);
        }
    }

    fn wait(&self, table: &HandleTable, index: u32, seen: Word) {
        let queued = {
            let mut q = self.shared.queue.lock();
            let at = q.entries.iter().position(|&i| i == index);
            if let Some(at) = at {
                q.entries.remove(at);
            }
            at.is_some()
        };
        if queued {
            self.shared.execute(index);
        } else {
            table.wait_change(index, seen);
        }
    }

    fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        limits.check()?;
        self.shared.queue.lock().wanted = limits.max;
        self.shared.work.notify_all();
        self.spawn_missing()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        {
            let mut q = self.shared.queue.lock();
            debug_assert!(q.entries.is_empty(), "every backend has drained its I/O");
            q.wanted = 0;
        }
        self.shared.work.notify_all();
        let me = thread::current().id();
        for t in self.threads.lock().drain(..) {
            if t.thread().id() != me {
                let _ = t.join();
            }
        }
    }
}
