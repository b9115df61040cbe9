//! Vacuum of several indexes at once, by threads beside the session's.
//!
//! ```text
//!   large indexes ─▶ queue ─▶ workers, each with a backend of its own
//!   the others ───▶ leader, which then takes from the queue, too
//! ```
//!
//! An index has one thread. The costs of all threads count together, and each rests for the part
//! that is its own. Workers take no locks: the leader holds the table's, and goes on only when all
//! have ended. A worker that cannot be started is done without.

use std::sync::Arc;

use forebay_access::AccessError;
use forebay_access::heap::{Pace, PageCost};
use forebay_aio::BackendType;
use forebay_aio::sync::atomic::{AtomicU32, Ordering};
use forebay_aio::sync::{Mutex, thread};
use forebay_storage::progress::Progress;
use forebay_storage::{Backend, ReadPolicy};

use crate::core::InDatabase;
use crate::warning::Warning;

/// What the threads of a vacuum have cost since they last rested.
#[derive(Debug, Default)]
pub(super) struct SharedCost {
    balance: AtomicU32,
    /// Threads beside the leader's.
    workers: AtomicU32,
}

impl SharedCost {
    /// Adds what a thread did. True: it is to rest for its own costs.
    pub(super) fn add(&self, added: u32, own: u32, limit: u32) -> bool {
        let before = self.balance.fetch_add(added, Ordering::Relaxed);
        let part = limit / (1 + self.workers.load(Ordering::Relaxed));
        before.saturating_add(added) >= limit && own > part / 2
    }

    /// A thread rests for its costs.
    pub(super) fn settle(&self, own: u32) {
        self.balance.fetch_sub(own, Ordering::Relaxed);
    }
}

/// Slows a worker down.
pub(super) type OwnPace = Box<dyn FnMut(&mut Backend, PageCost) -> Result<(), AccessError>>;

/// How the indexes of a table are vacuumed at once.
pub(super) struct Team<'a> {
    /// Which of them may be a worker's.
    parallel: Vec<bool>,
    /// Workers, at most.
    planned: usize,
    cost: &'a SharedCost,
    /// Makes what slows a worker down.
    pace: &'a (dyn Fn(&Backend) -> OwnPace + Sync),
    /// How a worker's backend reads: its policy, and how many bytes at once.
    reading: (ReadPolicy, usize),
    /// max_parallel_workers
    most_workers: usize,
    /// Warnings of workers that have ended.
    warnings: Mutex<Vec<Warning>>,
    /// What VERBOSE tells.
    told: Vec<String>,
}

impl std::fmt::Debug for Team<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Team").field("planned", &self.planned).finish_non_exhaustive()
    }
}

/// Which indexes may be a worker's, and the number of workers: the leader takes one of them.
pub(super) fn plan(
    blocks: &[u32],
    least: u32,
    requested: Option<u32>,
    most: usize,
) -> (Vec<bool>, usize) {
    let parallel: Vec<bool> = blocks.iter().map(|blocks| *blocks >= least).collect();
    let large = parallel.iter().filter(|parallel| **parallel).count();
    let requested = requested.map_or(usize::MAX, |requested| requested as usize);
    (parallel, large.saturating_sub(1).min(requested).min(most))
}

/// What is left to do, and the first error.
struct Queue<'t, T> {
    left: Vec<&'t mut T>,
    failed: Option<AccessError>,
}

impl<T> Queue<'_, T> {
    /// Nobody begins anything more. The first error stays, unless a worse one follows.
    fn fail(&mut self, error: AccessError) {
        self.left.clear();
        if self.failed.as_ref().is_none_or(|first| badness(first) < badness(&error)) {
            self.failed = Some(error);
        }
    }
}

/// A cancel must not hide an error of another thread, nor either one that stops the engine.
fn badness(error: &AccessError) -> u8 {
    match error {
        AccessError::Wal(error) if error.is_fatal() => 2,
        AccessError::Storage(error) if error.is_fatal() => 2,
        AccessError::Interrupted(_) => 0,
        _ => 1,
    }
}

/// Does all that is left, beside others.
fn work_off<T>(
    queue: &Mutex<Queue<'_, T>>,
    backend: &mut Backend,
    pace: Pace<'_>,
    one: &(dyn Fn(&mut T, &mut Backend, Pace<'_>) -> Result<(), AccessError> + Sync),
) {
    loop {
        let Some(next) = queue.lock().left.pop() else { return };
        if let Err(error) = one(next, backend, pace) {
            queue.lock().fail(error);
        }
    }
}

impl<'a> Team<'a> {
    /// With workers for some of the indexes, as [`plan`] says. `reading` is how their backends
    /// read: the policy, and how many bytes at once. All sessions together start `most_workers`.
    pub(super) fn new(
        (parallel, planned): (Vec<bool>, usize),
        (cost, pace): (&'a SharedCost, &'a (dyn Fn(&Backend) -> OwnPace + Sync)),
        reading: (ReadPolicy, usize),
        most_workers: usize,
    ) -> Team<'a> {
        let (warnings, told) = (Mutex::default(), Vec::new());
        Team { parallel, planned, cost, pace, reading, most_workers, warnings, told }
    }

    /// Works on all indexes, `what` for: "vacuuming" or "cleanup". With `alone` the leader does.
    pub(super) fn run<T: Send>(
        &mut self,
        core: &InDatabase,
        all: &mut [T],
        (backend, pace): (&mut Backend, Pace<'_>),
        (what, alone): (&str, bool),
        one: &(dyn Fn(&mut T, &mut Backend, Pace<'_>) -> Result<(), AccessError> + Sync),
    ) -> Result<(), AccessError> {
        let (mut left, mut own) = (Vec::new(), Vec::new());
        for (index, parallel) in all.iter_mut().zip(&self.parallel) {
            if *parallel && !alone { left.push(index) } else { own.push(index) }
        }
        let wanted = self.planned.min(left.len().saturating_sub(1));
        left.reverse();
        let queue = Mutex::new(Queue { left, failed: None });
        let launched = {
            let workers: Vec<Worker<'_>> =
                std::iter::from_fn(|| self.worker(core, &backend.progress)).take(wanted).collect();
            self.cost.workers.store(workers.len() as u32, Ordering::Relaxed);
            thread::scope(|scope| {
                let mut launched = 0;
                for worker in workers {
                    let (team, queue) = (&*self, &queue);
                    let thread = thread::Builder::new().name("parallel worker".to_owned());
                    match thread.spawn_scoped(scope, move || worker.run(team, queue, one)) {
                        Ok(_) => launched += 1,
                        Err(error) => not_started(&error),
                    }
                }
                for index in own {
                    if let Err(error) = one(index, backend, pace) {
                        queue.lock().fail(error);
                        break;
                    }
                }
                work_off(&queue, backend, pace, one);
                launched
            })
        };
        self.cost.workers.store(0, Ordering::Relaxed);
        core.counters.workers_wanted.add(wanted as u64);
        core.counters.workers_started.add(launched);
        if wanted > 0 {
            let workers = if launched == 1 { "worker" } else { "workers" };
            self.told.push(format!(
                "launched {launched} parallel vacuum {workers} for index {what} (planned: {wanted})"
            ));
        }
        queue.into_inner().failed.map_or(Ok(()), Err)
    }

    /// The warnings of its workers, and what VERBOSE tells.
    pub(super) fn end(self) -> (Vec<Warning>, Vec<String>) {
        (self.warnings.into_inner(), self.told)
    }

    /// None: no worker can be started.
    fn worker<'c>(&self, core: &'c InDatabase, shown: &Arc<Progress>) -> Option<Worker<'c>> {
        if !core.workers.enter(self.most_workers) {
            return None;
        }
        let place = Place(core);
        match core.aio.backend(BackendType::BackgroundWorker) {
            Ok(mut io) => {
                let (policy, combined) = self.reading;
                io.set_combine_limit(combined);
                let mut backend = Backend::new(io);
                backend.policy = policy;
                // What it does counts for the leader's command.
                backend.progress = Arc::clone(shown);
                Some(Worker { backend, _place: place })
            }
            Err(error) => {
                not_started(&error);
                None
            }
        }
    }
}

/// A worker that is to be started.
struct Worker<'c> {
    // Dropped in this order: the backend waits for its I/O.
    backend: Backend,
    _place: Place<'c>,
}

impl Worker<'_> {
    fn run<T>(
        mut self,
        team: &Team<'_>,
        queue: &Mutex<Queue<'_, T>>,
        one: &(dyn Fn(&mut T, &mut Backend, Pace<'_>) -> Result<(), AccessError> + Sync),
    ) {
        let mut pace = (team.pace)(&self.backend);
        work_off(queue, &mut self.backend, &mut *pace, one);
        let warnings = self.backend.take_read_warnings();
        team.warnings.lock().extend(warnings.into_iter().map(Warning::from));
    }
}

/// A place among the workers that may run.
struct Place<'c>(&'c InDatabase);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.workers.leave();
    }
}

fn not_started(error: &dyn std::fmt::Display) {
    tracing::warn!("could not start a parallel worker: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_txn::locks::InterruptKind;
    use forebay_wal::WalError;

    #[test]
    fn workers_are_fewer_than_large_indexes() {
        let planned = |blocks: &[u32], requested, most| plan(blocks, 64, requested, most).1;
        assert_eq!(planned(&[64, 63, 100, 1000], None, 8), 2);
        assert_eq!(planned(&[64, 63, 100, 1000], None, 1), 1);
        assert_eq!(planned(&[64, 64, 100, 1000], Some(2), 8), 2);
        assert_eq!((planned(&[64, 3], None, 8), planned(&[], Some(5), 8)), (0, 0));
        assert_eq!(plan(&[64, 3], 64, None, 2).0, [true, false]);
    }

    #[test]
    fn the_worst_error_stays() {
        let cancel = || AccessError::Interrupted(InterruptKind::Cancel);
        let other = |text: &str| AccessError::Internal(text.to_owned());
        let fatal = || AccessError::Wal(WalError::Stopped("the log has ended".into()));
        let mut queue = Queue::<()> { left: Vec::new(), failed: None };
        let mut told = Vec::new();
        for error in [cancel(), other("first"), other("second"), cancel(), fatal(), other("third")]
        {
            queue.fail(error);
            told.push(queue.failed.as_ref().map(badness));
        }
        assert_eq!(told, [0, 1, 1, 1, 2, 2].map(Some));
        let mut queue = Queue::<()> { left: Vec::new(), failed: Some(other("first")) };
        queue.fail(other("second"));
        assert_eq!(queue.failed.map(|error| error.to_string()), Some(other("first").to_string()));
    }

    #[test]
    fn each_thread_rests_for_its_own_part() {
        let cost = SharedCost::default();
        assert!(!cost.add(199, 199, 200) && cost.add(1, 200, 200));
        cost.settle(200);
        cost.workers.store(3, Ordering::Relaxed);
        assert!(!cost.add(190, 190, 200));
        assert!(!cost.add(10, 10, 200), "another one with little of its own");
        assert!(cost.add(20, 30, 200));
        cost.settle(30);
        assert!(!cost.add(9, 199, 200), "below the limit again");
    }
}
