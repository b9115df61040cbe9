//! A checkpoint's schedule: its writes are spread over a share of the time, or of the log, until
//! the next one is due. One with few pages need not take that long: as in PostgreSQL, it rests a
//! tenth of a second for each page at most.

use forebay_aio::sync::{Duration, Instant};
use forebay_format::Lsn;
use forebay_storage::Pace;

use crate::checkpointer::Causes;
use crate::core::Core;

/// How long a sleep lasts before the schedule is checked again.
const REST: Duration = Duration::from_millis(100);

/// Where a checkpoint stands against time and log.
pub(super) struct Schedule<'a> {
    core: &'a Core,
    /// Whether it may be slow.
    spread: bool,
    began: Instant,
    redo: Lsn,
    /// Number of pages written when it slept last.
    rested: usize,
}

impl<'a> Schedule<'a> {
    /// For a checkpoint that begins now, with this redo pointer.
    pub(super) fn new(core: &'a Core, causes: Causes, redo: Lsn) -> Schedule<'a> {
        Schedule { core, spread: !causes.immediate(), began: Instant::now(), redo, rested: 0 }
    }
}

/// Which part of the way to the next checkpoint is behind us, by whichever of time and log is
/// further.
fn passed(elapsed: Duration, timeout: Duration, log: u64, trigger: u64) -> f64 {
    let time = elapsed.as_secs_f64() / timeout.as_secs_f64().max(f64::MIN_POSITIVE);
    time.max(log as f64 / (trigger.max(1) as f64))
}

/// How long a rest after so many pages may be.
fn longest_rest(pages: usize) -> Duration {
    REST.saturating_mul(u32::try_from(pages).unwrap_or(u32::MAX))
}

impl Pace for Schedule<'_> {
    fn is_ahead(&mut self, done: usize, total: usize) -> bool {
        if !self.spread || self.core.checkpointer.requests.is_urgent() {
            return false;
        }
        let writing = self.core.writing();
        let log = self.core.wal.end_lsn().since(self.redo);
        let passed =
            passed(self.began.elapsed(), writing.checkpoint_timeout, log, self.core.wal_trigger());
        done as f64 / total.max(1) as f64 * writing.checkpoint_completion_target > passed
    }

    fn rest(&mut self, done: usize, total: usize) {
        let end = Instant::now() + longest_rest(done - std::mem::replace(&mut self.rested, done));
        while self.is_ahead(done, total) && Instant::now() < end {
            self.core.checkpointer.requests.rest(REST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_are_no_longer_than_their_pages_are_worth() {
        assert_eq!(longest_rest(0), Duration::ZERO);
        assert_eq!(longest_rest(16), Duration::from_millis(1600));
        assert!(longest_rest(usize::MAX) > Duration::from_secs(86_400));
    }

    #[test]
    fn whichever_is_further_counts() {
        let at = |seconds, log| {
            passed(Duration::from_secs(seconds), Duration::from_secs(300), log, 1000)
        };
        assert!((at(30, 0) - 0.1).abs() < 1e-9);
        assert!((at(30, 500) - 0.5).abs() < 1e-9);
        assert!(at(600, 0) > 1.0);
    }
}
