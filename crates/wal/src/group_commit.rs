//! Group commit: whether to delay a write or a sync of the log so that other committers can join.
//!
//! Small commit records share the log's last block, and two writes of one block cannot overlap.
//! Left alone, two committers therefore take turns: each waits for the other's write and then for
//! its own. A short wait before the write puts both records into one write.
//!
//! The decision rests on the write before. When it completes, [`GroupCommit`] counts the committers
//! present: those that the write made durable, and those that wait for the next one. Before the
//! next write, if the disk is idle, the first committer waits until as many are present again. It
//! does so only if
//!
//! - the count is small: at most [`MAX_EXPECTED`], and recently never more. Among many committers,
//!   enough arrive during a write anyway;
//! - the wait has not taken longer than the last write did, or than [`MAX_WAIT`]. Beyond the time
//!   of a write, writing twice is as fast;
//! - the last wait brought the expected committers. After each wait that did not, twice as many
//!   writes start without a wait, up to [`MAX_SKIPPED`].
//!
//! A committer that is alone expects nobody, and never waits.
//!
//! A sync waits by the same count, but only for writes that are in flight already: a sync during
//! those writes would slow them down, and they would need another sync.

use forebay_aio::sync::{Duration, Instant};

/// Most committers to wait for, the waiting one included.
const MAX_EXPECTED: usize = 40;
/// Longest wait.
const MAX_WAIT: Duration = Duration::from_micros(300);
/// Most writes that start without a wait after a wait that brought too few.
const MAX_SKIPPED: u32 = 64;

/// The monotonic clock. Under shuttle, where a schedule must not depend on the machine's speed,
/// each reading is a microsecond after the one before.
#[derive(Debug)]
pub(crate) struct Clock {
    #[cfg(shuttle)]
    now: Instant,
}

impl Clock {
    pub fn new() -> Clock {
        Clock {
            #[cfg(shuttle)]
            now: Instant::now(),
        }
    }

    #[cfg(not(shuttle))]
    pub fn now(&mut self) -> Instant {
        Instant::now()
    }

    #[cfg(shuttle)]
    pub fn now(&mut self) -> Instant {
        self.now += Duration::from_micros(1);
        self.now
    }
}

/// How many committers to expect, and how long to wait for them.
#[derive(Debug)]
pub(crate) struct GroupCommit {
    /// Committers present when the last write completed.
    expected: usize,
    /// The highest recent count. It falls by one with each write, because the count fluctuates when
    /// there are many committers.
    recent_max: usize,
    /// When the last write started.
    started: Instant,
    /// Until when to wait before the next one.
    wait_until: Instant,
    /// Committers that wait for others now.
    waiting: usize,
    /// Whether any committer has waited since the last write started.
    has_waited: bool,
    /// Writes still to start without a wait.
    skip: u32,
    /// `skip` as the last wait set it.
    last_skip: u32,
}

impl GroupCommit {
    pub fn new(now: Instant) -> GroupCommit {
        GroupCommit {
            expected: 0,
            recent_max: 0,
            started: now,
            wait_until: now,
            waiting: 0,
            has_waited: false,
            skip: 0,
            last_skip: 0,
        }
    }

    /// Whether a committer waits for others. Nobody should then be woken to write in its place.
    pub fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether waiting is pointless: `present` committers are all that can be expected, or there
    /// are too many for a wait to pay.
    pub fn is_complete(&self, present: usize) -> bool {
        present >= self.expected || self.recent_max > MAX_EXPECTED
    }

    /// Whether the caller should wait before it writes, while `asleep` others wait for that write.
    /// If so, it must call [`GroupCommit::waited`] before it asks again.
    pub fn should_wait(&mut self, asleep: usize, now: Instant) -> bool {
        let present = asleep + self.waiting + 1;
        let waits = !self.is_complete(present) && self.skip == 0 && now < self.wait_until;
        if waits {
            self.waiting += 1;
            self.has_waited = true;
        } else if self.has_waited {
            let too_few = present < self.expected;
            self.last_skip = if too_few { (self.last_skip * 2).clamp(1, MAX_SKIPPED) } else { 0 };
            self.skip = self.last_skip;
            self.has_waited = false;
        }
        waits
    }

    /// A committer that was told to wait has done so.
    pub fn waited(&mut self) {
        assert!(self.waiting > 0, "no committer was told to wait");
        self.waiting -= 1;
    }

    /// A write starts.
    pub fn started(&mut self, now: Instant) {
        self.started = now;
    }

    /// The last write is durable. `present` committers waited for it, wait for the next, or write.
    pub fn completed(&mut self, present: usize, now: Instant) {
        self.expected = present;
        self.recent_max = present.max(self.recent_max.saturating_sub(1));
        self.wait_until = now + now.saturating_duration_since(self.started).min(MAX_WAIT);
        self.skip = self.skip.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_micros(100);

    /// Lets a write with `present` committers start and complete; returns when it completed.
    fn write(group: &mut GroupCommit, start: Instant, present: usize) -> Instant {
        group.started(start);
        group.completed(present, start + WRITE);
        start + WRITE
    }

    #[test]
    fn a_single_committer_never_waits() {
        let start = Instant::now();
        let mut group = GroupCommit::new(start);
        assert!(!group.should_wait(0, start), "at first");
        let now = write(&mut group, start, 1);
        assert!(!group.should_wait(0, now), "after a write of its own");
    }

    #[test]
    fn the_first_committers_wait_for_the_rest() {
        let start = Instant::now();
        let mut group = GroupCommit::new(start);
        let now = write(&mut group, start, 3);
        assert!(group.should_wait(0, now) && group.should_wait(0, now), "two of three");
        assert!(!group.should_wait(0, now), "the third");
        group.waited();
        assert!(group.is_waiting());
        group.waited();
        assert!(!group.is_waiting());
        let now = write(&mut group, now, 3);
        assert!(!group.should_wait(2, now), "two are asleep until somebody writes");
    }

    #[test]
    fn a_wait_ends_after_the_time_of_a_write() {
        let start = Instant::now();
        let mut group = GroupCommit::new(start);
        let now = write(&mut group, start, 2);
        assert!(group.should_wait(0, now + WRITE / 2));
        group.waited();
        assert!(!group.should_wait(0, now + WRITE));
        let now = write(&mut group, now + WRITE, MAX_EXPECTED + 1);
        assert!(!group.should_wait(0, now), "nor for many");
    }

    #[test]
    fn waits_that_bring_too_few_become_rare_until_one_succeeds() {
        let mut now = Instant::now();
        let mut group = GroupCommit::new(now);
        let mut waits = 0;
        for _ in 0..1000 {
            now = write(&mut group, now, 2);
            if group.should_wait(0, now) {
                waits += 1;
                group.waited();
                assert!(!group.should_wait(0, now + WRITE));
            }
        }
        assert!((7 + 13..=7 + 15).contains(&waits), "1 + 2 + 4 ... + 64, then each 65th: {waits}");
        let mut succeeded = false;
        for _ in 0..=MAX_SKIPPED {
            now = write(&mut group, now, 2);
            if group.should_wait(0, now) {
                group.waited();
                assert!(!group.should_wait(1, now));
                succeeded = true;
                break;
            }
        }
        assert!(succeeded);
        now = write(&mut group, now, 2);
        assert!(group.should_wait(0, now), "the last wait brought the other committer");
    }
}
