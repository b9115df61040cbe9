//! Those who sleep until the log has come as far as they want, in crowds that are woken at once.
//!
//! ```text
//!    flushed         written              claimed
//!   ────┼───────┬───────┼───────┬────────────┼───────────────
//!       │ crowd │ crowd │ crowd │    crowd   │  those to come
//! ```
//!
//! There is a crowd for each piece that was claimed and is not durable yet: those whose goals lie
//! in there. Who wants more than was claimed is one of those to come, who will be the next piece's
//! crowd. As the log becomes durable piece by piece, a crowd goes home as one, by one call to the
//! kernel. Who waits for no more than that a block is written has a bell to itself: that is rare.

use std::collections::VecDeque;

use forebay_aio::sync::{Arc, Event};
use forebay_format::Lsn;

/// What somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// Everything before this is durable.
    Flushed(Lsn),
    /// Everything before this, a block's end, is written.
    Written(Lsn),
}

impl Goal {
    pub fn lsn(self) -> Lsn {
        let (Goal::Flushed(lsn) | Goal::Written(lsn)) = self;
        lsn
    }
}

/// Whom to wake, once the lock is left.
#[derive(Debug)]
pub(crate) enum Wake {
    /// One of those who sleep at it.
    One(Arc<Event>),
    /// All of them.
    All(Arc<Event>),
}

impl Wake {
    pub fn carry_out(&self) {
        match self {
            Wake::One(bell) => bell.wake_one(),
            Wake::All(bell) => bell.set(),
        }
    }
}

/// Some with one bell; none, as long as there is nobody.
#[derive(Debug, Default)]
struct Crowd {
    /// No goal of theirs is beyond.
    upto: Lsn,
    asleep: usize,
    bell: Option<Arc<Event>>,
}

impl Crowd {
    fn join(&mut self) -> Arc<Event> {
        self.asleep += 1;
        Arc::clone(self.bell.get_or_insert_with(|| Arc::new(Event::new())))
    }

    /// Has one of them woken. None: there is nobody.
    fn call_one(&mut self) -> Option<Wake> {
        self.asleep = self.asleep.checked_sub(1)?;
        self.bell.clone().map(Wake::One)
    }

    fn all(self) -> Option<Wake> {
        self.bell.filter(|_| self.asleep > 0).map(Wake::All)
    }
}

/// Everybody who sleeps.
#[derive(Debug, Default)]
pub(crate) struct Crowds {
    /// Of the pieces that are not durable, in order.
    pieces: VecDeque<Crowd>,
    to_come: Crowd,
    /// Who waits for a write alone.
    for_room: Vec<(Lsn, Arc<Event>)>,
    asleep: usize,
}

impl Crowds {
    /// How many sleep.
    pub fn asleep(&self) -> usize {
        self.asleep
    }

    /// The farthest goal of those who want more to be claimed; 0 if there are none.
    pub fn farthest(&self) -> Lsn {
        let flushed = if self.to_come.asleep > 0 { self.to_come.upto } else { Lsn(0) };
        self.for_room.iter().map(|(lsn, _)| *lsn).fold(flushed, Lsn::max)
    }

    /// Another one, who sleeps at this bell from now on.
    pub fn join(&mut self, goal: Goal) -> Arc<Event> {
        self.asleep += 1;
        match goal {
            Goal::Written(lsn) => {
                let bell = Arc::new(Event::new());
                self.for_room.push((lsn, Arc::clone(&bell)));
                bell
            }
            Goal::Flushed(lsn) => {
                let place = self.pieces.partition_point(|crowd| crowd.upto < lsn);
                if let Some(crowd) = self.pieces.get_mut(place) {
                    return crowd.join();
                }
                self.to_come.upto = self.to_come.upto.max(lsn);
                self.to_come.join()
            }
        }
    }

    /// A piece is claimed that ends at `upto`. Those whom it doesn't bring all they want are to ask
    /// again.
    pub fn claimed(&mut self, upto: Lsn, wakes: &mut Vec<Wake>) {
        debug_assert!(self.pieces.back().is_none_or(|last| last.upto < upto));
        let crowd = std::mem::take(&mut self.to_come);
        let fits = crowd.upto <= upto;
        let (crowd, awake) =
            if fits { (crowd, Crowd::default()) } else { (Crowd::default(), crowd) };
        self.asleep -= awake.asleep;
        wakes.extend(awake.all());
        self.pieces.push_back(Crowd { upto, ..crowd });
    }

    /// Everything before `written` is written, and before `flushed`, which ends a piece, durable.
    pub fn reached(&mut self, written: Lsn, flushed: Lsn, wakes: &mut Vec<Wake>) {
        while let Some(crowd) = self.pieces.pop_front_if(|crowd| crowd.upto <= flushed) {
            self.asleep -= crowd.asleep;
            wakes.extend(crowd.all());
        }
        let reached = self.for_room.extract_if(.., |(lsn, _)| *lsn <= written);
        let before = wakes.len();
        wakes.extend(reached.map(|(_, bell)| Wake::All(bell)));
        self.asleep -= wakes.len() - before;
    }

    /// Wakes everybody.
    pub fn disband(&mut self) -> Vec<Wake> {
        let crowds = std::mem::take(self);
        let of_pieces = crowds.pieces.into_iter().chain([crowds.to_come]).filter_map(Crowd::all);
        of_pieces.chain(crowds.for_room.into_iter().map(|(_, bell)| Wake::All(bell))).collect()
    }

    /// Wakes one who wants more than `claimed`: where only a write is wanted, one who waits for no
    /// more.
    pub fn call_writer(&mut self, claimed: Lsn, only_written: bool) -> Option<Wake> {
        let place = self.for_room.iter().position(|(lsn, _)| *lsn > claimed);
        let wake = match place {
            Some(place) => Some(Wake::All(self.for_room.remove(place).1)),
            None if only_written => None,
            None => self.to_come.call_one(),
        };
        self.asleep -= usize::from(wake.is_some());
        wake
    }

    /// How many sleep whose goals are before `written`.
    pub fn awaiting_sync(&self, written: Lsn) -> usize {
        self.pieces.iter().take_while(|crowd| crowd.upto <= written).map(|crowd| crowd.asleep).sum()
    }

    /// Wakes one whose goal is before `written` and not durable.
    pub fn call_syncer(&mut self, written: Lsn) -> Option<Wake> {
        let mut written = self.pieces.iter_mut().take_while(|crowd| crowd.upto <= written);
        let wake = written.find_map(Crowd::call_one);
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

    fn is_for_all(wake: &Wake, bell: &Arc<Event>) -> bool {
        matches!(wake, Wake::All(of) if Arc::ptr_eq(of, bell))
    }

    #[test]
    fn who_wants_what_one_piece_brings_goes_home_by_one_bell() {
        let (mut crowds, mut wakes) = (Crowds::default(), Vec::new());
        let bell = crowds.join(flushed(10));
        assert!(Arc::ptr_eq(&bell, &crowds.join(flushed(30))));
        assert_eq!(crowds.farthest(), Lsn(30));
        crowds.claimed(Lsn(30), &mut wakes);
        let late = crowds.join(flushed(20));
        assert!(Arc::ptr_eq(&bell, &late), "one who comes when the piece is on its way");
        let next = crowds.join(flushed(31));
        assert!(!Arc::ptr_eq(&bell, &next));
        assert_eq!((crowds.asleep(), crowds.farthest(), wakes.len()), (4, Lsn(31), 0));
        crowds.reached(Lsn(30), Lsn(0), &mut wakes);
        assert_eq!((wakes.len(), crowds.awaiting_sync(Lsn(30))), (0, 3), "written is not durable");
        crowds.reached(Lsn(30), Lsn(30), &mut wakes);
        assert!(wakes.len() == 1 && is_for_all(&wakes[0], &bell), "{wakes:?}");
        assert_eq!((crowds.asleep(), crowds.awaiting_sync(Lsn(40))), (1, 0));
    }

    #[test]
    fn those_to_whom_a_piece_brings_too_little_ask_again() {
        let (mut crowds, mut wakes) = (Crowds::default(), Vec::new());
        let bell = crowds.join(flushed(10));
        crowds.join(flushed(50));
        crowds.claimed(Lsn(30), &mut wakes);
        assert!(wakes.len() == 1 && is_for_all(&wakes[0], &bell), "{wakes:?}");
        assert_eq!((crowds.asleep(), crowds.farthest()), (0, Lsn(0)));
        let again = crowds.join(flushed(10));
        assert!(!Arc::ptr_eq(&bell, &again), "a bell that was rung lets nobody sleep");
        assert!(!Arc::ptr_eq(&again, &crowds.join(flushed(50))));
    }

    #[test]
    fn each_call_is_for_one_who_sleeps() {
        let (mut crowds, mut wakes) = (Crowds::default(), Vec::new());
        crowds.join(flushed(10));
        crowds.join(flushed(10));
        assert!(crowds.call_syncer(Lsn(10)).is_none(), "nothing is claimed");
        assert!(matches!(crowds.call_writer(Lsn(0), false), Some(Wake::One(_))));
        assert!(crowds.call_writer(Lsn(0), true).is_none(), "nobody waits for a write alone");
        crowds.claimed(Lsn(10), &mut wakes);
        assert!(crowds.call_writer(Lsn(10), false).is_none());
        assert!(matches!(crowds.call_syncer(Lsn(10)), Some(Wake::One(_))));
        assert!(crowds.call_syncer(Lsn(10)).is_none(), "both are awake");
        crowds.reached(Lsn(10), Lsn(10), &mut wakes);
        assert_eq!((crowds.asleep(), wakes.len()), (0, 0));
    }

    #[test]
    fn who_waits_for_a_write_alone_is_woken_by_it() {
        let (mut crowds, mut wakes) = (Crowds::default(), Vec::new());
        let bell = crowds.join(Goal::Written(Lsn(10)));
        crowds.claimed(Lsn(10), &mut wakes);
        assert!(crowds.call_writer(Lsn(10), true).is_none(), "it is claimed");
        crowds.reached(Lsn(10), Lsn(0), &mut wakes);
        assert!(wakes.len() == 1 && is_for_all(&wakes[0], &bell), "{wakes:?}");
        assert_eq!(crowds.asleep(), 0);
    }

    #[test]
    fn everybody_is_woken_at_the_end() {
        let (mut crowds, mut wakes) = (Crowds::default(), Vec::new());
        crowds.join(flushed(10));
        crowds.claimed(Lsn(10), &mut wakes);
        crowds.join(flushed(20));
        crowds.join(Goal::Written(Lsn(20)));
        assert_eq!(crowds.disband().len(), 3);
        assert_eq!((crowds.asleep(), crowds.awaiting_sync(Lsn(20))), (0, 0));
    }
}
