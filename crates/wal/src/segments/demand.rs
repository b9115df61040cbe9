//! How many segments will be needed, and waking the thread that prepares them.
//!
//! Inserters state up to which segment they need. The preparing thread keeps some more ready than
//! that: one at first, twice as many each time an inserter had to wait, and one less with each
//! checkpoint. Recycled segments only have to be opened, so in the steady state this costs open
//! files only.
//!
//! After a failure the preparing thread waits before it retries, regardless of requests. An
//! inserter that cannot proceed makes the segment itself. If it succeeds, or an old segment is
//! removed, the preparing thread retries at once.

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};

/// Most segments kept ready beyond those that are needed.
const MOST_AHEAD: u64 = 8;

#[derive(Debug)]
pub(crate) struct Demand {
    /// The last segment that is needed.
    needed: AtomicU64,
    /// How many beyond it are kept ready.
    ahead: AtomicU64,
    /// Segments were requested, and the preparing thread has not taken the request.
    requested: AtomicBool,
    /// There is a reason to retry after a failure, or to stop.
    may_retry: AtomicBool,
    sleep: Mutex<()>,
    changed: Condvar,
}

impl Demand {
    pub fn new(first: u64) -> Demand {
        Demand {
            needed: AtomicU64::new(first),
            ahead: AtomicU64::new(1),
            requested: AtomicBool::new(false),
            may_retry: AtomicBool::new(false),
            sleep: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Segments up to `number` are needed, and those below `ready` are ready. Only two loads unless
    /// a new segment is needed.
    pub fn need(&self, number: u64, ready: u64) {
        if number > self.needed.load(Ordering::Relaxed) {
            self.needed.fetch_max(number, Ordering::AcqRel);
        }
        if number + self.ahead.load(Ordering::Relaxed) >= ready {
            self.request();
        }
    }

    /// Keeps more segments ready, because an inserter had to wait.
    pub fn keep_more(&self) {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.ahead.store((ahead * 2).min(MOST_AHEAD), Ordering::Relaxed);
    }

    /// Keeps fewer segments ready, because a checkpoint has passed.
    pub fn keep_fewer(&self) {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.ahead.store(ahead.saturating_sub(1).max(1), Ordering::Relaxed);
    }

    /// Takes the request, and returns the last segment that should be ready.
    pub fn take_request(&self) -> u64 {
        // First, so that a thread that needs more from now on sends another request.
        self.requested.store(false, Ordering::SeqCst);
        self.needed.load(Ordering::SeqCst) + self.ahead.load(Ordering::Relaxed)
    }

    /// Wakes the thread that prepares segments.
    pub fn request(&self) {
        if !self.requested.load(Ordering::Relaxed) && !self.requested.swap(true, Ordering::SeqCst) {
            self.notify();
        }
    }

    /// Lets the preparing thread retry at once after a failure.
    pub fn allow_retry(&self) {
        self.may_retry.store(true, Ordering::SeqCst);
        self.notify();
    }

    fn notify(&self) {
        let _sleep = self.sleep.lock();
        self.changed.notify_all();
    }

    /// Waits for `time` after a failure, or until a retry is allowed; returns whether it is.
    pub fn wait_to_retry(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut sleep = self.sleep.lock();
        while !self.may_retry.swap(false, Ordering::SeqCst) {
            if self.changed.wait_until(&mut sleep, until).timed_out() {
                return false;
            }
        }
        true
    }

    /// Waits until there is a request, or `time` has passed.
    pub fn wait(&self, time: Duration) {
        let mut sleep = self.sleep.lock();
        if !self.requested.load(Ordering::SeqCst) {
            self.changed.wait_for(&mut sleep, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_does_not_end_the_wait_after_a_failure() {
        let demand = Demand::new(5);
        demand.need(9, 6);
        assert!(!demand.wait_to_retry(Duration::from_millis(1)), "nothing has changed");
        demand.allow_retry();
        assert!(demand.wait_to_retry(Duration::from_secs(86_400)));
        assert!(!demand.wait_to_retry(Duration::from_millis(1)), "it counts once");
    }

    #[test]
    fn more_segments_are_kept_after_a_wait_and_fewer_after_a_checkpoint() {
        let demand = Demand::new(5);
        assert_eq!(demand.take_request(), 6);
        demand.need(7, 9);
        assert!(!demand.requested.load(Ordering::SeqCst), "7 and one more are ready");
        demand.need(8, 9);
        demand.wait(Duration::from_secs(86_400));
        assert_eq!(demand.take_request(), 9);
        demand.need(3, 9);
        assert_eq!(demand.take_request(), 9, "a lower number changes nothing");
        for (times, upto) in [(1, 10), (1, 12), (5, 16)] {
            (0..times).for_each(|_| demand.keep_more());
            assert_eq!(demand.take_request(), upto);
        }
        (0..20).for_each(|_| demand.keep_fewer());
        assert_eq!(demand.take_request(), 9);
    }
}
