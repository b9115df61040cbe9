//! Decides when a worker starts, rests and ends. The caller starts and wakes the threads.
//!
//! - If there are fewer than `min`, one is started at once. So a worker that panicked is replaced.
//! - If more I/Os wait than workers are coming, one more is started, up to `max`, at most one in a
//!   `launch_interval`.
//! - A worker above `min` that found nothing to do for `idle_timeout` ends. The one that began to
//!   rest last is called first, so that workers that are not needed rest long enough to end.

use smallvec::SmallVec;

use crate::sync::Instant;
use crate::workers::{WorkerCounts, WorkerLimits};

/// Numbers of workers.
pub(super) type Numbers = SmallVec<[usize; WorkerLimits::MOST]>;

/// The workers.
pub(super) struct Pool {
    limits: WorkerLimits,
    running: [bool; WorkerLimits::MOST],
    /// Workers at rest; the last one began to rest last.
    resting: Vec<usize>,
    /// How many were started or called, and are not yet at the queue.
    coming: usize,
    /// When a worker was last added for load.
    grown: Option<Instant>,
    stopped: bool,
    counts: WorkerCounts,
}

impl Pool {
    pub(super) fn new(limits: WorkerLimits) -> Pool {
        Pool {
            limits,
            running: [false; WorkerLimits::MOST],
            resting: Vec::with_capacity(WorkerLimits::MOST),
            coming: 0,
            grown: None,
            stopped: false,
            counts: WorkerCounts::default(),
        }
    }

    pub(super) fn set_limits(&mut self, limits: WorkerLimits) {
        self.limits = limits;
    }

    /// Tells all workers to end.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(super) fn counts(&self, queued: usize) -> WorkerCounts {
        WorkerCounts { resting: self.resting.len(), queued, ..self.counts }
    }

    fn least(&self) -> usize {
        self.limits.min.min(self.limits.max)
    }

    /// The number of a worker to start now, with `queued` I/Os in the queue. It counts as running
    /// from now on.
    pub(super) fn launch(&mut self, queued: usize, now: impl FnOnce() -> Instant) -> Option<usize> {
        if self.stopped {
            return None;
        }
        if self.counts.running >= self.least() {
            let needed = queued > self.coming && self.resting.is_empty();
            if !needed || self.counts.running >= self.limits.max {
                return None;
            }
            let now = now();
            if self
                .grown
                .is_some_and(|at| now.saturating_duration_since(at) < self.limits.launch_interval)
            {
                return None;
            }
            self.grown = Some(now);
        }
        let number = self.running.iter().position(|r| !r)?;
        self.running[number] = true;
        self.counts.running += 1;
        self.counts.started += 1;
        self.coming += 1;
        Some(number)
    }

    /// Takes back a worker whose thread could not be started.
    pub(super) fn refused(&mut self, number: usize) {
        self.forget(number);
        self.counts.started -= 1;
        self.coming -= 1;
    }

    /// Calls up to `n` resting workers; the caller wakes them.
    pub(super) fn call(&mut self, n: usize) -> Numbers {
        let called: Numbers = (0..n).map_while(|_| self.resting.pop()).collect();
        self.coming += called.len();
        called
    }

    /// A started worker is at the queue.
    pub(super) fn arrived(&mut self) {
        self.coming -= 1;
    }

    /// Lets a worker rest that found nothing to do since `since`. None: it must end. Otherwise
    /// until when it rests, if there is a limit.
    pub(super) fn rest(
        &mut self,
        number: usize,
        since: Instant,
        now: Instant,
    ) -> Option<Option<Instant>> {
        let until = since
            .checked_add(self.limits.idle_timeout)
            .filter(|_| self.counts.running > self.least());
        if until.is_some_and(|until| now >= until) {
            return None;
        }
        self.resting.push(number);
        Some(until)
    }

    /// A worker rests no longer: it was called, or woke by itself.
    pub(super) fn woke(&mut self, number: usize) {
        match self.resting.iter().position(|&r| r == number) {
            Some(at) => drop(self.resting.remove(at)),
            None => self.coming -= 1,
        }
    }

    /// Whether there are too many workers.
    pub(super) fn too_many(&self) -> bool {
        self.stopped || self.counts.running > self.limits.max
    }

    /// A worker ends.
    pub(super) fn retire(&mut self, number: usize) {
        self.forget(number);
        self.counts.retired += 1;
    }

    /// A worker panicked.
    pub(super) fn lose(&mut self, number: usize) {
        self.forget(number);
        self.counts.lost += 1;
    }

    fn forget(&mut self, number: usize) {
        assert!(std::mem::replace(&mut self.running[number], false), "worker {number} runs");
        self.counts.running -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Duration;

    const LIMITS: WorkerLimits = WorkerLimits {
        min: 2,
        max: 4,
        idle_timeout: Duration::from_secs(60),
        launch_interval: Duration::from_millis(100),
    };

    fn at(start: Instant, ms: u64) -> impl FnOnce() -> Instant {
        move || start + Duration::from_millis(ms)
    }

    /// A pool whose minimum number of workers has arrived and rests.
    fn settled(start: Instant) -> Pool {
        let mut pool = Pool::new(LIMITS);
        for number in 0..LIMITS.min {
            assert_eq!(
                pool.launch(0, || panic!("what is missing is started at any time")),
                Some(number)
            );
            pool.arrived();
            assert_eq!(pool.rest(number, start, start), Some(None), "these stay");
        }
        assert_eq!(pool.launch(0, || panic!("nothing waits")), None);
        pool
    }

    #[test]
    fn it_grows_one_at_a_time_while_work_waits() {
        let start = Instant::now();
        let mut pool = settled(start);
        assert_eq!(pool.call(3).as_slice(), [1, 0], "the last to rest is the first to be called");
        assert_eq!(pool.launch(2, || panic!("two are on their way")), None);
        assert_eq!(pool.launch(3, at(start, 0)), Some(2));
        assert_eq!(pool.launch(4, at(start, 99)), None, "too soon");
        assert_eq!(pool.launch(3, at(start, 100)), None, "three are on their way");
        assert_eq!(pool.launch(4, at(start, 100)), Some(3));
        assert_eq!(pool.launch(64, at(start, 100_000)), None, "no more than the most");
        assert_eq!(
            (pool.counts(9).running, pool.counts(9).queued, pool.counts(9).started),
            (4, 9, 4)
        );
    }

    #[test]
    fn a_refused_start_is_repeated_after_the_interval() {
        let start = Instant::now();
        let mut pool = settled(start);
        pool.call(2);
        assert_eq!(pool.launch(3, at(start, 0)), Some(2));
        pool.refused(2);
        assert_eq!(pool.counts(0).running, 2);
        assert_eq!(pool.launch(3, at(start, 50)), None);
        assert_eq!(pool.launch(3, at(start, 100)), Some(2));
    }

    #[test]
    fn it_shrinks_to_the_least_after_the_timeout() {
        let start = Instant::now();
        let mut pool = settled(start);
        pool.call(2);
        for (number, ms) in [(2, 0), (3, 100)] {
            assert_eq!(pool.launch(9, at(start, ms)), Some(number));
        }
        for number in 0..4 {
            pool.arrived();
            let until = start + LIMITS.idle_timeout;
            assert_eq!(pool.rest(number, start, start), Some(Some(until)));
        }
        let late = start + LIMITS.idle_timeout;
        for (number, goes) in [(3, true), (0, true), (1, false), (2, false)] {
            pool.woke(number);
            assert_eq!(pool.rest(number, start, late).is_none(), goes);
            if goes {
                pool.retire(number);
            }
        }
        let counts = pool.counts(0);
        assert_eq!((counts.running, counts.resting, counts.retired), (2, 2, 2));
    }

    #[test]
    fn workers_that_panic_are_replaced_at_once() {
        let mut pool = settled(Instant::now());
        pool.call(1);
        pool.woke(1);
        pool.lose(1);
        assert_eq!(pool.launch(0, || panic!("at any time")), Some(1));
        assert_eq!((pool.counts(0).running, pool.counts(0).lost), (2, 1));
    }

    #[test]
    fn limits_change_and_the_pool_stops() {
        let start = Instant::now();
        let mut pool = settled(start);
        pool.set_limits(WorkerLimits { min: 3, max: 1, ..LIMITS });
        assert!(pool.too_many(), "where the least is above the most, the most counts");
        assert_eq!(pool.launch(64, || panic!("not asked for")), None);
        pool.call(2);
        pool.woke(0);
        pool.retire(0);
        assert!(!pool.too_many());
        pool.stop();
        assert!(pool.too_many());
        pool.woke(1);
        pool.retire(1);
        assert_eq!(pool.launch(64, || panic!("stopped")), None);
    }
}
