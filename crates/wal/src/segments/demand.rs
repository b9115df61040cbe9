//! Which segments will be needed, and the bell for who makes them.
//!
//! Those who insert say up to where they need segments. Who prepares them keeps some more ready
//! than that: one at first, twice as many each time somebody came too early all the same, one less
//! with each checkpoint. Recycled segments only have to be opened, so in the steady state this
//! costs nothing but open files.
//!
//! After a failure whoever prepares them sits out a longer time with each attempt, whatever is
//! wanted: an insertion that can't go on without a segment makes it itself. Once one succeeds, or
//! an old segment goes, the time is over.

use forebay_aio::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use forebay_aio::sync::{Condvar, Duration, Instant, Mutex};

/// Most segments kept ready beyond those that were asked for.
const MOST_AHEAD: u64 = 8;

#[derive(Debug)]
pub(crate) struct Demand {
    /// The last segment that was asked for.
    wanted: AtomicU64,
    /// How many beyond it are kept ready.
    ahead: AtomicU64,
    /// The bell has been rung and not been answered.
    rung: AtomicBool,
    /// There is a reason to try again after a failure, or to end.
    relieved: AtomicBool,
    sleep: Mutex<()>,
    bell: Condvar,
}

impl Demand {
    pub fn new(first: u64) -> Demand {
        Demand {
            wanted: AtomicU64::new(first),
            ahead: AtomicU64::new(1),
            rung: AtomicBool::new(false),
            relieved: AtomicBool::new(false),
            sleep: Mutex::new(()),
            bell: Condvar::new(),
        }
    }

    /// Segments up to `number` are needed, those below `ready` are there. Two loads, but at the
    /// beginning of a segment.
    pub fn want(&self, number: u64, ready: u64) {
        if number > self.wanted.load(Ordering::Relaxed) {
            self.wanted.fetch_max(number, Ordering::AcqRel);
        }
        if number + self.ahead.load(Ordering::Relaxed) >= ready {
            self.ring();
        }
    }

    /// Somebody had to wait: more will be kept ready.
    pub fn came_late(&self) {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.ahead.store((ahead * 2).min(MOST_AHEAD), Ordering::Relaxed);
    }

    /// Another checkpoint has passed: a rush may be over.
    pub fn calm(&self) {
        let ahead = self.ahead.load(Ordering::Relaxed);
        self.ahead.store(ahead.saturating_sub(1).max(1), Ordering::Relaxed);
    }

    /// Answers the bell: the last segment that should be ready.
    pub fn answer(&self) -> u64 {
        // First: who asks for more from now on rings again.
        self.rung.store(false, Ordering::SeqCst);
        self.wanted.load(Ordering::SeqCst) + self.ahead.load(Ordering::Relaxed)
    }

    /// Wakes who prepares segments.
    pub fn ring(&self) {
        if !self.rung.load(Ordering::Relaxed) && !self.rung.swap(true, Ordering::SeqCst) {
            let _sleep = self.sleep.lock();
            self.bell.notify_all();
        }
    }

    /// Ends the time that is sat out after a failure.
    pub fn relieve(&self) {
        self.relieved.store(true, Ordering::SeqCst);
        let _sleep = self.sleep.lock();
        self.bell.notify_all();
    }

    /// Sits out `time` after a failure; true if there was relief before.
    pub fn sit_out(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut sleep = self.sleep.lock();
        while !self.relieved.swap(false, Ordering::SeqCst) {
            if self.bell.wait_until(&mut sleep, until).timed_out() {
                return false;
            }
        }
        true
    }

    /// Sleeps until the bell rings, or `time` is over.
    pub fn rest(&self, time: Duration) {
        let mut sleep = self.sleep.lock();
        if !self.rung.load(Ordering::SeqCst) {
            self.bell.wait_for(&mut sleep, time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_do_not_end_what_is_sat_out_and_relief_does() {
        let demand = Demand::new(5);
        demand.want(9, 6);
        assert!(
            !demand.sit_out(Duration::from_millis(1)),
            "somebody wants more, but nothing has changed"
        );
        demand.relieve();
        assert!(demand.sit_out(Duration::from_secs(86_400)));
        assert!(!demand.sit_out(Duration::from_millis(1)), "it counts once");
    }

    #[test]
    fn more_is_kept_ready_after_a_wait_and_less_after_a_calm() {
        let demand = Demand::new(5);
        assert_eq!(demand.answer(), 6);
        demand.want(7, 9);
        assert!(!demand.rung.load(Ordering::SeqCst), "7 and one more are there");
        demand.want(8, 9);
        demand.rest(Duration::from_secs(86_400));
        assert_eq!(demand.answer(), 9);
        demand.want(3, 9);
        assert_eq!(demand.answer(), 9, "a smaller wish changes nothing");
        for (times, upto) in [(1, 10), (1, 12), (5, 16)] {
            (0..times).for_each(|_| demand.came_late());
            assert_eq!(demand.answer(), upto);
        }
        (0..20).for_each(|_| demand.calm());
        assert_eq!(demand.answer(), 9);
    }
}
