//! Threads that copy files beside each other, the largest ones first.

use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use forebay_aio::sync::{Condvar, Duration, Mutex, thread};
use forebay_aio::{Aio, BackendType};

use super::copy::{Copied, Copier, How, Job};
use super::error::BackupError;

/// How often who waits is told how far it is.
const TICK: Duration = Duration::from_millis(200);

/// What the threads share.
struct Shared<'a> {
    jobs: &'a [Job],
    how: How,
    /// Whose turn it is.
    next: AtomicUsize,
    seen: AtomicU64,
    /// Somebody failed: nothing new is begun.
    stop: AtomicBool,
    results: Mutex<Vec<(usize, Option<Copied>)>>,
    failure: Mutex<Option<BackupError>>,
    working: Mutex<usize>,
    ended: Condvar,
}

/// Counts a thread out, however it ends.
struct Leaving<'a>(&'a Shared<'a>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.0.working.lock() -= 1;
        self.0.ended.notify_all();
    }
}

impl Shared<'_> {
    fn work(&self, aio: &Arc<Aio>) -> Result<(), BackupError> {
        let mut copier = Copier::new(aio.backend(BackendType::Standalone)?, self.how)?;
        let seen = |bytes| {
            self.seen.fetch_add(bytes, Ordering::Relaxed);
        };
        while !self.stop.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(at) else { break };
            let copied = copier.copy(job, &seen)?;
            self.results.lock().push((at, copied));
        }
        copier.finish()
    }

    fn run(&self, aio: &Arc<Aio>) {
        let _leaving = Leaving(self);
        if let Err(error) = self.work(aio) {
            self.stop.store(true, Ordering::Relaxed);
            self.failure.lock().get_or_insert(error);
        }
    }
}

/// Copies all files by so many threads; what came of each, in the order of the jobs. All of it is
/// durable then, but for the names. `watch` is told now and then how many bytes were read, and may
/// stop it all.
pub(super) fn copy_all(
    aio: &Arc<Aio>,
    jobs: &[Job],
    threads: usize,
    how: How,
    watch: &mut dyn FnMut(u64) -> Result<(), BackupError>,
) -> Result<Vec<Option<Copied>>, BackupError> {
    let threads = threads.clamp(1, jobs.len().max(1));
    let shared = Shared {
        jobs,
        how,
        next: AtomicUsize::new(0),
        seen: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        results: Mutex::new(Vec::with_capacity(jobs.len())),
        failure: Mutex::new(None),
        working: Mutex::new(threads),
        ended: Condvar::new(),
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.run(aio));
        }
        let mut working = shared.working.lock();
        while *working > 0 {
            shared.ended.wait_for(&mut working, TICK);
            let told = watch(shared.seen.load(Ordering::Relaxed));
            if let Err(error) = told {
                shared.stop.store(true, Ordering::Relaxed);
                shared.failure.lock().get_or_insert(error);
            }
        }
    });
    if let Some(error) = shared.failure.into_inner() {
        return Err(error);
    }
    watch(shared.seen.into_inner())?;
    let mut results = shared.results.into_inner();
    if results.len() != jobs.len() {
        return Err(BackupError::Worker);
    }
    results.sort_unstable_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, copied)| copied).collect())
}
