//! Who is about to commit: when a write or a sync of the log is worth a moment's wait for others.
//!
//! Few committers of small records share the log's last block, and writes of one block follow one
//! another. Two of them left to themselves miss each other: whoever is awake first writes alone,
//! and the other waits for that write and for its own. So a write that is done leaves a note of who
//! was there: those whom it brought home, and those who wait for the next. Before the next write,
//! while the disk has nothing else of the log's to do, the first to come waits for as many to be
//! there again, if
//!
//! - they are few ([`MOST`], and of late never more): of many, enough come along while a write is
//!   on its way;
//! - it takes no longer than the last write took: else writing twice is as fast. And never longer
//!   than [`LONGEST`].
//! - the last wait was not in vain. After each one that was, twice as many writes are begun without
//!   waiting (up to [`LONGEST_GRUDGE`]): who has better things to do between commits is not waited
//!   for.
//!
//! A committer on its own finds nobody in the note, and never waits.
//!
//! A sync of what is written waits likewise, but only for writes that are on their way, until as
//! many are there as the note says: it would hold those writes up, and they would need one of their
//! own.

use forebay_aio::sync::{Duration, Instant};

/// Most who are waited for, with the one who waits.
const MOST: usize = 40;
/// Longest wait.
const LONGEST: Duration = Duration::from_micros(300);
/// Most writes without a wait after waits in vain.
const LONGEST_GRUDGE: u32 = 64;

/// The time, and in interleavings of a scheduler's choice, where nothing may depend on the
/// machine's speed, a tick for each look at it.
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

/// What is known of those who commit.
#[derive(Debug)]
pub(crate) struct Company {
    /// How many there were when the last write was done.
    expected: usize,
    /// The most of late: it goes down by one with each write. Of many, now more and now fewer are
    /// seen.
    of_late: usize,
    /// When that one had been begun, and until when to wait before the next.
    begun: Instant,
    until: Instant,
    /// Those who wait for company now, and whether anybody has since the last write was begun.
    waiting: usize,
    has_waited: bool,
    /// Writes to be begun without a wait, and how many that were after the last wait in vain.
    grudge: u32,
    last_grudge: u32,
}

impl Company {
    /// Of nobody.
    pub fn none(now: Instant) -> Company {
        Company {
            expected: 0,
            of_late: 0,
            begun: now,
            until: now,
            waiting: 0,
            has_waited: false,
            grudge: 0,
            last_grudge: 0,
        }
    }

    /// Whether somebody waits for company: who is not waited for may begin nothing in its place.
    pub fn is_awaited(&self) -> bool {
        self.waiting > 0
    }

    /// Whether `here` are as many as can be expected, or too many are expected for a wait to pay.
    pub fn is_complete(&self, here: usize) -> bool {
        here >= self.expected || self.of_late > MOST
    }

    /// Whether to wait before a write, with `asleep` others who want it to be begun. Who does calls
    /// [`Company::waited`] before it asks again.
    pub fn wait(&mut self, asleep: usize, now: Instant) -> bool {
        let here = asleep + self.waiting + 1;
        let waits = !self.is_complete(here) && self.grudge == 0 && now < self.until;
        if waits {
            self.waiting += 1;
            self.has_waited = true;
        } else if self.has_waited {
            let in_vain = here < self.expected;
            self.last_grudge =
                if in_vain { (self.last_grudge * 2).clamp(1, LONGEST_GRUDGE) } else { 0 };
            self.grudge = self.last_grudge;
            self.has_waited = false;
        }
        waits
    }

    /// One that has waited asks again.
    pub fn waited(&mut self) {
        debug_assert!(self.waiting > 0);
        self.waiting -= 1;
    }

    /// A write is begun.
    pub fn begins(&mut self, now: Instant) {
        self.begun = now;
    }

    /// What was begun last is durable. `here` have waited for that, or wait for the next, or write.
    pub fn done(&mut self, here: usize, now: Instant) {
        self.expected = here;
        self.of_late = here.max(self.of_late.saturating_sub(1));
        self.until = now + now.saturating_duration_since(self.begun).min(LONGEST);
        self.grudge = self.grudge.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_micros(100);

    /// A write with `here` committers has just ended, at the time that is returned.
    fn after_a_write(company: &mut Company, begun: Instant, here: usize) -> Instant {
        company.begins(begun);
        company.done(here, begun + WRITE);
        begun + WRITE
    }

    #[test]
    fn nobody_waits_alone() {
        let start = Instant::now();
        let mut company = Company::none(start);
        assert!(!company.wait(0, start), "at first");
        let now = after_a_write(&mut company, start, 1);
        assert!(!company.wait(0, now), "after a write of its own");
    }

    #[test]
    fn the_first_waits_until_all_are_there() {
        let start = Instant::now();
        let mut company = Company::none(start);
        let now = after_a_write(&mut company, start, 3);
        assert!(company.wait(0, now) && company.wait(0, now), "two of three");
        assert!(!company.wait(0, now), "the third");
        company.waited();
        assert!(company.is_awaited());
        company.waited();
        assert!(!company.is_awaited());
        let now = after_a_write(&mut company, now, 3);
        assert!(!company.wait(2, now), "two sleep until somebody writes");
    }

    #[test]
    fn a_wait_ends_after_a_write_s_time() {
        let start = Instant::now();
        let mut company = Company::none(start);
        let now = after_a_write(&mut company, start, 2);
        assert!(company.wait(0, now + WRITE / 2));
        company.waited();
        assert!(!company.wait(0, now + WRITE));
        let now = after_a_write(&mut company, now + WRITE, MOST + 1);
        assert!(!company.wait(0, now), "nor for many");
    }

    #[test]
    fn waits_in_vain_become_rare_and_are_forgiven() {
        let mut now = Instant::now();
        let mut company = Company::none(now);
        let mut waits = 0;
        for _ in 0..1000 {
            now = after_a_write(&mut company, now, 2);
            if company.wait(0, now) {
                waits += 1;
                company.waited();
                assert!(!company.wait(0, now + WRITE));
            }
        }
        assert!((7 + 13..=7 + 15).contains(&waits), "1 + 2 + 4 ... + 64, then each 65th: {waits}");
        let mut forgiven = false;
        for _ in 0..=LONGEST_GRUDGE {
            now = after_a_write(&mut company, now, 2);
            if company.wait(0, now) {
                company.waited();
                assert!(!company.wait(1, now));
                forgiven = true;
                break;
            }
        }
        assert!(forgiven);
        now = after_a_write(&mut company, now, 2);
        assert!(company.wait(0, now), "after one that was not in vain");
    }
}
