//! Threads that copy files, the largest ones first.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use forebay_aio::sync::{Condvar, Duration, Mutex, thread};
use forebay_aio::{Aio, BackendType};

use super::copy::{Copied, Copier, CopyOptions, Job};
use crate::error::{ArchiveError, Result};

/// How often the progress is reported.
const TICK: Duration = Duration::from_millis(200);

/// The state that the threads share.
struct Shared<'a> {
    jobs: &'a [Job],
    options: CopyOptions,
    /// The next job.
    next: AtomicUsize,
    /// Bytes read.
    read: AtomicU64,
    /// A thread failed: nothing new is begun.
    stop: AtomicBool,
    results: Mutex<Vec<(usize, Option<Copied>)>>,
    failure: Mutex<Option<ArchiveError>>,
    /// How many threads run.
    working: Mutex<usize>,
    thread_ended: Condvar,
}

/// Notes the end of a thread, even by a panic.
struct WorkerGuard<'a>(&'a Shared<'a>);

impl Drop for WorkerGuard<'_> {
    fn drop(&mut self) {
        *self.0.working.lock() -= 1;
        self.0.thread_ended.notify_all();
    }
}

impl Shared<'_> {
    fn work(&self, aio: &Arc<Aio>) -> Result<()> {
        let mut copier = Copier::new(aio.backend(BackendType::Standalone)?, self.options);
        let count = |bytes| {
            self.read.fetch_add(bytes, Ordering::Relaxed);
        };
        while !self.stop.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(at) else { break };
            let copied = copier.copy(job, &count)?;
            self.results.lock().push((at, copied));
        }
        copier.finish()
    }

    fn run(&self, aio: &Arc<Aio>) {
        let _guard = WorkerGuard(self);
        if let Err(error) = self.work(aio) {
            self.stop.store(true, Ordering::Relaxed);
            self.failure.lock().get_or_insert(error);
        }
    }
}

/// Copies all files with `threads` threads. Returns the results in the order of the jobs. The
/// copies are durable then, but not their names. `watch` is called now and then with the number of
/// bytes read; an error from it ends the copying.
pub(super) fn copy_all(
    aio: &Arc<Aio>,
    jobs: &[Job],
    threads: usize,
    options: CopyOptions,
    watch: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Vec<Option<Copied>>> {
    let threads = threads.clamp(1, jobs.len().max(1));
    let shared = Shared {
        jobs,
        options,
        next: AtomicUsize::new(0),
        read: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        results: Mutex::new(Vec::with_capacity(jobs.len())),
        failure: Mutex::new(None),
        working: Mutex::new(threads),
        thread_ended: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.run(aio));
        }
        let mut working = shared.working.lock();
        while *working > 0 {
            shared.thread_ended.wait_for(&mut working, TICK);
            let told = watch(shared.read.load(Ordering::Relaxed));
            if let Err(error) = told {
                shared.stop.store(true, Ordering::Relaxed);
                shared.failure.lock().get_or_insert(error);
            }
        }
    });
    if let Some(error) = shared.failure.into_inner() {
        return Err(error);
    }
    watch(shared.read.into_inner())?;
    let mut results = shared.results.into_inner();
    if results.len() != jobs.len() {
        return Err(ArchiveError::Worker);
    }
    results.sort_unstable_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, copied)| copied).collect())
}
