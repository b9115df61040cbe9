//! io_method worker: threads execute I/O from one short queue. `pool` decides when a worker starts,
//! rests and ends.
//!
//! A submitter executes its I/O itself if the queue is full or no worker serves it. A waiter whose
//! I/O is still queued takes it out and executes it, because it needs the result now. So no I/O
//! depends on a worker that is busy, slow to start, or gone. A worker that panics ends its current
//! I/O with an error, ends, and is replaced.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::SmallVec;

mod pool;

use crate::error::{AioError, Errno};
use crate::handle::{HandleState, Word};
use crate::method::Method;
use crate::sync::{Arc, Condvar, Instant, Mutex, thread};
use crate::table::HandleTable;
use crate::workers::{WorkerCounts, WorkerLimits};
use pool::{Numbers, Pool};

/// The maximum number of I/Os that wait for a worker.
const QUEUE_SIZE: usize = 64;

struct Queue {
    /// Submitted handles, oldest first.
    entries: VecDeque<u32>,
    pool: Pool,
}

struct Shared {
    queue: Mutex<Queue>,
    /// What each resting worker sleeps on.
    wakeups: [Condvar; WorkerLimits::MOST],
    table: Arc<HandleTable>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The method.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// Starts the minimum number of workers.
    pub(crate) fn new(table: Arc<HandleTable>, limits: WorkerLimits) -> Result<Workers, AioError> {
        limits.check()?;
        let entries = VecDeque::with_capacity(QUEUE_SIZE);
        let queue = Mutex::new(Queue { entries, pool: Pool::new(limits) });
        let wakeups = std::array::from_fn(|_| Condvar::new());
        let shared = Arc::new(Shared { queue, wakeups, table, threads: Mutex::new(Vec::new()) });
        let method = Workers { shared };
        method.shared.start_missing()?;
        Ok(method)
    }
}

impl Queue {
    fn launch(&mut self) -> Option<usize> {
        self.pool.launch(self.entries.len(), Instant::now)
    }
}

impl Shared {
    /// Starts the workers that the pool lacks.
    fn start_missing(self: &Arc<Self>) -> Result<(), AioError> {
        loop {
            let Some(number) = self.queue.lock().launch() else { return Ok(()) };
            self.start(number)?;
        }
    }

    /// Starts a worker that the pool asks for. If that fails, the other workers do the work.
    fn start_if(self: &Arc<Self>, number: Option<usize>) {
        if let Some(Err(e)) = number.map(|n| self.start(n)) {
            tracing::warn!("{e}");
        }
    }

    fn start(self: &Arc<Self>, number: usize) -> Result<(), AioError> {
        let shared = Arc::clone(self);
        let builder = thread::Builder::new().name(format!("io worker {number}"));
        match builder.spawn(move || shared.live(number)) {
            Ok(started) => {
                let mut threads = self.threads.lock();
                threads.retain(|t| !t.is_finished());
                threads.push(started);
                Ok(())
            }
            Err(e) => {
                self.queue.lock().pool.refused(number);
                let errno = Errno(e.raw_os_error().unwrap_or(libc::EAGAIN));
                Err(AioError::Resource { action: format!("start I/O worker {number}"), errno })
            }
        }
    }

    /// A worker's thread, with the cleanup after a panic.
    fn live(self: &Arc<Self>, number: usize) {
        let in_hand = Cell::new(None);
        if catch_unwind(AssertUnwindSafe(|| self.serve(number, &in_hand))).is_ok() {
            return;
        }
        tracing::error!("I/O worker {number} panicked and is replaced");
        // The replacement is counted before the I/O ends, so that a thread that sees the error also
        // sees the replacement.
        let successor = {
            let mut q = self.queue.lock();
            q.pool.lose(number);
            q.launch()
        };
        if let Some(index) = in_hand.get() {
            self.abandon(index);
        }
        self.start_if(successor);
    }

    fn serve(self: &Arc<Self>, number: usize, in_hand: &Cell<Option<u32>>) {
        let mut idle_since = None;
        let mut q = self.queue.lock();
        q.pool.arrived();
        while !q.pool.too_many() {
            if let Some(index) = q.entries.pop_front() {
                let another = q.launch();
                drop(q);
                self.start_if(another);
                in_hand.set(Some(index));
                self.table.execute_or_die(index);
                in_hand.set(None);
                idle_since = None;
                q = self.queue.lock();
                continue;
            }
            let now = Instant::now();
            let since = *idle_since.get_or_insert(now);
            match q.pool.rest(number, since, now) {
                None => break,
                Some(None) => self.wakeups[number].wait(&mut q),
                Some(Some(until)) => drop(self.wakeups[number].wait_until(&mut q, until)),
            }
            q.pool.woke(number);
        }
        q.pool.retire(number);
        // It may have been called for I/O that is still queued.
        let instead = if q.entries.is_empty() { Numbers::new() } else { q.pool.call(1) };
        drop(q);
        self.wake(&instead);
    }

    fn wake(&self, numbers: &[usize]) {
        for &number in numbers {
            self.wakeups[number].notify_one();
        }
    }

    /// Ends an I/O whose execution panicked.
    fn abandon(&self, index: u32) {
        if self.table.word(index).state() == HandleState::Submitted {
            self.table.executed(index, Err(Errno::IO));
            self.table.finish(index);
        }
    }
}

impl Method for Workers {
    fn name(&self) -> &'static str {
        "worker"
    }

    fn submit(&self, table: &HandleTable, _slot: u32, staged: &[u32], _in_flight: usize) {
        let mut overflow: SmallVec<[u32; 32]> = SmallVec::new();
        let (called, another) = {
            let mut q = self.shared.queue.lock();
            // Under the lock, so that a waiter that sees it submitted finds it in the queue, and
            // depends on no worker.
            for &index in staged {
                table.begin(index);
            }
            let served = q.pool.counts(0).running > 0;
            let room = if served { QUEUE_SIZE - q.entries.len() } else { 0 };
            let (fit, rest) = staged.split_at(room.min(staged.len()));
            q.entries.extend(fit);
            overflow.extend_from_slice(rest);
            (q.pool.call(fit.len()), q.launch())
        };
        self.shared.wake(&called);
        self.shared.start_if(another);
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
            table.execute(index);
        } else {
            table.wait_change(index, seen);
        }
    }

    fn set_worker_limits(&self, limits: WorkerLimits) -> Result<(), AioError> {
        limits.check()?;
        let called = {
            let mut q = self.shared.queue.lock();
            q.pool.set_limits(limits);
            q.pool.call(WorkerLimits::MOST)
        };
        self.shared.wake(&called);
        self.shared.start_missing()
    }

    fn workers(&self) -> Option<WorkerCounts> {
        let q = self.shared.queue.lock();
        Some(q.pool.counts(q.entries.len()))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let called = {
            let mut q = self.shared.queue.lock();
            debug_assert!(q.entries.is_empty(), "every backend has drained its I/O");
            q.pool.stop();
            q.pool.call(WorkerLimits::MOST)
        };
        self.shared.wake(&called);
        let me = thread::current().id();
        // A worker that is starting another one may add it while this thread joins the first.
        loop {
            let Some(t) = self.shared.threads.lock().pop() else { break };
            if t.thread().id() != me {
                let _ = t.join();
            }
        }
    }
}
