//! The threads that wait for a flush or a write of the log, grouped so that one call wakes a group.
//!
//! ```text
//!    flushed         written              claimed
//!   ────┼───────┬───────┼───────┬────────────┼───────────────
//!       │ group │ group │ group │    group   │ next group
//! ```
//!
//! Each write that has been claimed and is not durable yet has a group of waiters: those whose goal
//! lies in the range that it writes. All of them wait on one event, so that a single system call
//! wakes them when the log is durable up to there. Waiters with goals beyond all claimed writes
//! form the next group; the next claim takes it over. A waiter that needs a block to be written but
//! not synced is rare, and has an event of its own.

use std::collections::VecDeque;

use forebay_aio::sync::{Arc, Event};
use forebay_format::Lsn;

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Everything before this is durable.
    Flushed(Lsn),
    /// Everything before this, the end of a block, is written.
    Written(Lsn),
}

impl Goal {
    pub fn lsn(self) -> Lsn {
        let (Goal::Flushed(lsn) | Goal::Written(lsn)) = self;
        lsn
    }
}

/// A wake-up to send once the pipeline's lock is released.
#[derive(Debug)]
pub(crate) enum Wake {
    /// Wakes one waiter on the event.
    One(Arc<Event>),
    /// Wakes all waiters on the event.
    All(Arc<Event>),
}

impl Wake {
    pub fn send(&self) {
        match self {
            Wake::One(event) => event.wake_one(),
            Wake::All(event) => event.set(),
        }
    }
}

/// Waiters on one event, which exists once there is a waiter.
#[derive(Debug, Default)]
struct Group {
    /// No waiter's goal is beyond this.
    upto: Lsn,
    asleep: usize,
    event: Option<Arc<Event>>,
}

impl Group {
    fn join(&mut self) -> Arc<Event> {
        self.asleep += 1;
        Arc::clone(self.event.get_or_insert_with(|| Arc::new(Event::new())))
    }

    /// Wakes one waiter, if there is any.
    fn wake_one(&mut self) -> Option<Wake> {
        self.asleep = self.asleep.checked_sub(1)?;
        self.event.clone().map(Wake::One)
    }

    fn wake_all(self) -> Option<Wake> {
        self.event.filter(|_| self.asleep > 0).map(Wake::All)
    }
}

/// All waiters of one log.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// One group for each claimed write that is not durable, in order.
    groups: VecDeque<Group>,
    /// Waiters for a flush beyond all claimed writes.
    next: Group,
    /// Waiters for a write alone.
    for_write: Vec<(Lsn, Arc<Event>)>,
    asleep: usize,
}

impl Waiters {
    /// Number of waiters.
    pub fn asleep(&self) -> usize {
        self.asleep
    }

    /// The farthest goal beyond all claimed writes; 0 if there is none.
    pub fn farthest(&self) -> Lsn {
        let flushed = if self.next.asleep > 0 { self.next.upto } else { Lsn(0) };
        self.for_write.iter().map(|(lsn, _)| *lsn).fold(flushed, Lsn::max)
    }

    /// Adds a waiter, and returns the event that it must wait on.
    pub fn join(&mut self, goal: Goal) -> Arc<Event> {
        self.asleep += 1;
        match goal {
            Goal::Written(lsn) => {
                let event = Arc::new(Event::new());
                self.for_write.push((lsn, Arc::clone(&event)));
                event
            }
            Goal::Flushed(lsn) => {
                let first = self.groups.partition_point(|group| group.upto < lsn);
                if let Some(group) = self.groups.get_mut(first) {
                    return group.join();
                }
                self.next.upto = self.next.upto.max(lsn);
                self.next.join()
            }
        }
    }

    /// A write that ends at `upto` is claimed: it takes over the next group. If it does not reach
    /// all of that group's goals, the group is woken instead, and its members ask again.
    pub fn claimed(&mut self, upto: Lsn, wakes: &mut Vec<Wake>) {
        assert!(self.groups.back().is_none_or(|last| last.upto < upto), "claims are in order");
        let group = std::mem::take(&mut self.next);
        let fits = group.upto <= upto;
        let (group, woken) =
            if fits { (group, Group::default()) } else { (Group::default(), group) };
        self.asleep -= woken.asleep;
        wakes.extend(woken.wake_all());
        self.groups.push_back(Group { upto, ..group });
    }

    /// Wakes the waiters whose goals are reached: everything before `written` is written, and
    /// everything before `flushed`, the end of a write, is durable.
    pub fn reached(&mut self, written: Lsn, flushed: Lsn, wakes: &mut Vec<Wake>) {
        while let Some(group) = self.groups.pop_front_if(|group| group.upto <= flushed) {
            self.asleep -= group.asleep;
            wakes.extend(group.wake_all());
        }
        let reached = self.for_write.extract_if(.., |(lsn, _)| *lsn <= written);
        let before = wakes.len();
        wakes.extend(reached.map(|(_, event)| Wake::All(event)));
        self.asleep -= wakes.len() - before;
    }

    /// Wakes all waiters.
    pub fn wake_all(&mut self) -> Vec<Wake> {
        let all = std::mem::take(self);
        let groups = all.groups.into_iter().chain([all.next]).filter_map(Group::wake_all);
        groups.chain(all.for_write.into_iter().map(|(_, event)| Wake::All(event))).collect()
    }

    /// Wakes one waiter whose goal is beyond `claimed`, so that it claims a write. With
    /// `only_written`, it picks only among the waiters for a write alone.
    pub fn wake_writer(&mut self, claimed: Lsn, only_written: bool) -> Option<Wake> {
        let found = self.for_write.iter().position(|(lsn, _)| *lsn > claimed);
        let wake = match found {
            Some(n) => Some(Wake::All(self.for_write.remove(n).1)),
            None if only_written => None,
            None => self.next.wake_one(),
        };
        self.asleep -= usize::from(wake.is_some());
        wake
    }

    /// Number of waiters whose goals are before `written`: they wait for a sync.
    pub fn awaiting_sync(&self, written: Lsn) -> usize {
        self.groups.iter().take_while(|group| group.upto <= written).map(|group| group.asleep).sum()
    }

    /// Wakes one waiter whose goal is before `written` and not durable, so that it syncs.
    pub fn wake_syncer(&mut self, written: Lsn) -> Option<Wake> {
        let mut written = self.groups.iter_mut().take_while(|group| group.upto <= written);
        let wake = written.find_map(Group::wake_one);
        self.asleep -= usize::from(wake.is_some());
        wake
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn flushed(lsn: u64) -> Goal {
        Goal::Flushed(Lsn(lsn))
    }

    fn wakes_all(wake: &Wake, event: &Arc<Event>) -> bool {
        matches!(wake, Wake::All(of) if Arc::ptr_eq(of, event))
    }

    #[test]
    fn waiters_that_one_write_covers_share_an_event() {
        let (mut waiters, mut wakes) = (Waiters::default(), Vec::new());
        let event = waiters.join(flushed(10));
        assert!(Arc::ptr_eq(&event, &waiters.join(flushed(30))));
        assert_eq!(waiters.farthest(), Lsn(30));
        waiters.claimed(Lsn(30), &mut wakes);
        let late = waiters.join(flushed(20));
        assert!(Arc::ptr_eq(&event, &late), "a waiter that joins while the write is in flight");
        let next = waiters.join(flushed(31));
        assert!(!Arc::ptr_eq(&event, &next));
        assert_eq!((waiters.asleep(), waiters.farthest(), wakes.len()), (4, Lsn(31), 0));
        waiters.reached(Lsn(30), Lsn(0), &mut wakes);
        assert_eq!((wakes.len(), waiters.awaiting_sync(Lsn(30))), (0, 3), "written is not durable");
        waiters.reached(Lsn(30), Lsn(30), &mut wakes);
        assert!(wakes.len() == 1 && wakes_all(&wakes[0], &event), "{wakes:?}");
        assert_eq!((waiters.asleep(), waiters.awaiting_sync(Lsn(40))), (1, 0));
    }

    #[test]
    fn a_group_beyond_the_end_of_its_write_is_woken_to_ask_again() {
        let (mut waiters, mut wakes) = (Waiters::default(), Vec::new());
        let event = waiters.join(flushed(10));
        waiters.join(flushed(50));
        waiters.claimed(Lsn(30), &mut wakes);
        assert!(wakes.len() == 1 && wakes_all(&wakes[0], &event), "{wakes:?}");
        assert_eq!((waiters.asleep(), waiters.farthest()), (0, Lsn(0)));
        let again = waiters.join(flushed(10));
        assert!(!Arc::ptr_eq(&event, &again), "an event that was set cannot be waited on");
        assert!(!Arc::ptr_eq(&again, &waiters.join(flushed(50))));
    }

    #[test]
    fn each_wake_up_of_one_is_for_a_waiter_that_is_asleep() {
        let (mut waiters, mut wakes) = (Waiters::default(), Vec::new());
        waiters.join(flushed(10));
        waiters.join(flushed(10));
        assert!(waiters.wake_syncer(Lsn(10)).is_none(), "nothing is claimed");
        assert!(matches!(waiters.wake_writer(Lsn(0), false), Some(Wake::One(_))));
        assert!(waiters.wake_writer(Lsn(0), true).is_none(), "nobody waits for a write alone");
        waiters.claimed(Lsn(10), &mut wakes);
        assert!(waiters.wake_writer(Lsn(10), false).is_none());
        assert!(matches!(waiters.wake_syncer(Lsn(10)), Some(Wake::One(_))));
        assert!(waiters.wake_syncer(Lsn(10)).is_none(), "both are awake");
        waiters.reached(Lsn(10), Lsn(10), &mut wakes);
        assert_eq!((waiters.asleep(), wakes.len()), (0, 0));
    }

    #[test]
    fn a_waiter_for_a_write_alone_is_woken_by_that_write() {
        let (mut waiters, mut wakes) = (Waiters::default(), Vec::new());
        let event = waiters.join(Goal::Written(Lsn(10)));
        waiters.claimed(Lsn(10), &mut wakes);
        assert!(waiters.wake_writer(Lsn(10), true).is_none(), "it is claimed");
        waiters.reached(Lsn(10), Lsn(0), &mut wakes);
        assert!(wakes.len() == 1 && wakes_all(&wakes[0], &event), "{wakes:?}");
        assert_eq!(waiters.asleep(), 0);
    }

    #[test]
    fn a_failure_wakes_all_waiters() {
        let (mut waiters, mut wakes) = (Waiters::default(), Vec::new());
        waiters.join(flushed(10));
        waiters.claimed(Lsn(10), &mut wakes);
        waiters.join(flushed(20));
        waiters.join(Goal::Written(Lsn(20)));
        assert_eq!(waiters.wake_all().len(), 3);
        assert_eq!((waiters.asleep(), waiters.awaiting_sync(Lsn(20))), (0, 0));
    }
}
