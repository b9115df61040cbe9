//! Who writes and syncs what: several writes on their way at once, and those who wait for them.
//!
//! ```text
//!            flushed       written                                claimed              copied
//!   ────────────┼─────────────┼──────────────────────────────────────┼────────────────────┼──────
//!     durable   │ to be synced│ piece (on its way) │ piece │ piece   │ for the next piece │
//! ```
//!
//! There is no writer by profession: whoever wants the log to have reached a goal asks
//! [`Flight::step`] what to do, does it, and asks again:
//!
//! - *write* a piece: everything that is copied, from where the last claim ended. Other pieces may
//!   be on their way meanwhile; no block is ever in two of them. So a piece ends at a block's end
//!   unless somebody waits for what is behind it, and after one with a partial block the next waits
//!   until that is written. A segment is written and durable before the first piece of the next one
//!   begins: what a crash leaves behind the end of the log lies in one segment, which `resume`
//!   relies on.
//! - *sync*, where writes are not durable by themselves: what is written without a gap, one sync at
//!   a time; few who commit wait until the writes of all of them are done, so that one sync does
//!   for all, where each would delay the others' writes. (Linux reports a write-back error once for
//!   an open file: of two syncs side by side, the wrong one could hear of it, while the other
//!   succeeds and means nothing. For the same reason there is but one write at a time where
//!   segments are opened with `O_DSYNC` and not `O_DIRECT`.)
//! - *linger* before a write, as others can be expected to want one too in a moment: see
//!   [`company`](crate::company).
//! - *wait*, where others are about it already. Who waits is woken once its goal is reached, the
//!   log has failed, or there is something for it to do: see [`crowd`](crate::crowd). Should
//!   somebody who comes along be faster, so much the better: a thread that runs begins in less time
//!   than it takes to wake one.
//!
//! Each change of state wakes those who have reached their goals, and one for each thing that can
//! be begun now. So whenever something can be begun that somebody wants, somebody is awake to begin
//! it. (Should that one find its goal reached and go home, then a later change has reached it, and
//! has woken somebody itself.)

use std::collections::VecDeque;

use forebay_aio::sync::{
    Arc, Event, Mutex,
    atomic::{AtomicU64, Ordering},
};
use forebay_format::{Lsn, SegmentSize};

use crate::{
    company::{Clock, Company},
    crowd::{Crowds, Goal, Wake},
    position::WAL_BLOCK,
};

/// How far the log has come: for those who only look.
#[derive(Debug)]
pub(crate) struct Progress {
    written: AtomicU64,
    flushed: AtomicU64,
}

impl Progress {
    /// For a log that is durable up to `at`.
    pub fn new(at: Lsn) -> Arc<Progress> {
        Arc::new(Progress { written: AtomicU64::new(at.0), flushed: AtomicU64::new(at.0) })
    }

    /// Everything before this was written to its file.
    pub fn written(&self) -> Lsn {
        Lsn(self.written.load(Ordering::Acquire))
    }

    /// Everything before this is durable.
    pub fn flushed(&self) -> Lsn {
        Lsn(self.flushed.load(Ordering::Acquire))
    }
}

/// What is to be done for a goal.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: it is reached, or the log has failed.
    Done,
    /// Write this, then call [`Flight::wrote`].
    Write(Claim),
    /// Sync the segment that holds the byte before this, then call [`Flight::synced`].
    Sync(Lsn),
    /// Sleep until it rings or calls, then ask again, unless the goal is reached.
    Wait(Arc<Event>),
    /// Let others run, then call [`Flight::lingered`].
    Linger,
}

/// A piece of the log to be written by who got it. It must be written, or the log has failed.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Its first byte; what is written begins with the block that holds it.
    pub from: Lsn,
    /// Behind its last byte, in the same segment.
    pub upto: Lsn,
    /// Pieces on their way, with this one.
    pub in_flight: usize,
}

impl Claim {
    /// Its blocks, each from its first byte in the piece to behind its last.
    pub fn blocks(&self) -> impl Iterator<Item = (Lsn, Lsn)> {
        let (from, upto) = (self.from, self.upto);
        let next = move |at: &Lsn| Some(at.page_start().add(WAL_BLOCK)).filter(|next| *next < upto);
        std::iter::successors(Some(from), next)
            .map(move |at| (at, upto.min(at.page_start().add(WAL_BLOCK))))
    }
}

/// How writes may be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlightRules {
    /// Size of a segment.
    pub segment_size: SegmentSize,
    /// A write that has returned is durable.
    pub durable_writes: bool,
    /// A write only copies to the kernel's cache, in no time: begun during a sync it gains nothing,
    /// and the many who come meanwhile would each write the same block.
    pub cached_writes: bool,
    /// Most pieces on their way.
    pub in_flight: usize,
    /// Most bytes in one: whole blocks, at least one.
    pub piece: u64,
    /// Those who commit at the same time share a write or a sync, so that it pays to wait for them.
    pub shared: bool,
}

/// A write on its way, or one that has ended before an earlier one.
#[derive(Debug)]
struct Piece {
    upto: Lsn,
    done: bool,
}

#[derive(Debug)]
struct State {
    claimed: Lsn,
    written: Lsn,
    flushed: Lsn,
    /// From `written` to `claimed`, in order.
    pieces: VecDeque<Piece>,
    /// Those that are not done.
    on_their_way: usize,
    syncing: bool,
    /// Where the writes end that the next sync waits for, while somebody awaits it.
    sync_behind: Option<Lsn>,
    failed: bool,
    crowds: Crowds,
    company: Company,
    clock: Clock,
}

/// The writes and syncs of one log.
#[derive(Debug)]
pub(crate) struct Flight {
    rules: FlightRules,
    progress: Arc<Progress>,
    state: Mutex<State>,
}

impl Flight {
    /// For a log that is durable up to where `progress` stands.
    pub fn new(rules: FlightRules, progress: Arc<Progress>) -> Flight {
        let at = progress.flushed();
        debug_assert!(
            rules.in_flight > 0 && rules.piece > 0 && rules.piece.is_multiple_of(WAL_BLOCK)
        );
        let mut clock = Clock::new();
        let state = State {
            claimed: at,
            written: at,
            flushed: at,
            pieces: VecDeque::new(),
            on_their_way: 0,
            syncing: false,
            sync_behind: None,
            failed: false,
            crowds: Crowds::default(),
            company: Company::none(clock.now()),
            clock,
        };
        Flight { rules, progress, state: Mutex::new(state) }
    }

    /// What to do for `goal`, before which everything has been copied. `copied` tells how far that
    /// goes at least.
    pub fn step(&self, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |_| {})
    }

    /// What to do for `goal` after lingering.
    pub fn lingered(&self, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |state| state.company.waited())
    }

    /// The piece was written. What to do next for `goal`.
    pub fn wrote(&self, claim: &Claim, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |state| {
            let place = state.pieces.binary_search_by_key(&claim.upto, |piece| piece.upto);
            let piece = place
                .ok()
                .and_then(|place| state.pieces.get_mut(place))
                .filter(|piece| !piece.done);
            debug_assert!(piece.is_some(), "a piece is written once");
            if let Some(piece) = piece {
                piece.done = true;
                state.on_their_way -= 1;
            }
            while let Some(piece) = state.pieces.pop_front_if(|piece| piece.done) {
                state.written = piece.upto;
            }
            self.progress.written.store(state.written.0, Ordering::Release);
            if self.rules.durable_writes {
                self.advance(state, state.written);
            }
        })
    }

    /// The sync of everything before `upto` has succeeded. What to do next for `goal`.
    pub fn synced(&self, upto: Lsn, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |state| {
            debug_assert!(state.syncing && state.flushed <= upto && upto <= state.written);
            state.syncing = false;
            self.advance(state, upto);
        })
    }

    /// The log has failed: from now on nothing is begun, and nothing more becomes durable.
    pub fn fail(&self) {
        let wakes = {
            let mut state = self.state.lock();
            state.failed = true;
            state.crowds.disband()
        };
        wakes.iter().for_each(Wake::carry_out);
    }

    fn advance(&self, state: &mut State, to: Lsn) {
        if !state.failed {
            debug_assert!(state.flushed <= to);
            state.flushed = to;
            let here = state.on_their_way + state.crowds.asleep() + 1;
            state.company.done(here, state.clock.now());
            self.progress.flushed.store(to.0, Ordering::Release);
        }
    }

    /// Changes the state, finds out what the caller is to do, and wakes others.
    fn change(
        &self,
        goal: Goal,
        copied: impl FnOnce() -> Lsn,
        change: impl FnOnce(&mut State),
    ) -> Step {
        let mut wakes = Vec::new();
        let step = {
            let mut state = self.state.lock();
            change(&mut state);
            let step = state.next_for(goal, &self.rules, copied, &mut wakes);
            state.choose_whom_to_wake(&self.rules, &mut wakes);
            step
        };
        wakes.iter().for_each(Wake::carry_out);
        step
    }
}

impl State {
    fn is_reached(&self, goal: Goal) -> bool {
        self.failed
            || match goal {
                Goal::Flushed(lsn) => self.flushed >= lsn,
                Goal::Written(lsn) => self.written >= lsn,
            }
    }

    fn next_for(
        &mut self,
        goal: Goal,
        rules: &FlightRules,
        copied: impl FnOnce() -> Lsn,
        wakes: &mut Vec<Wake>,
    ) -> Step {
        if self.is_reached(goal) {
            return Step::Done;
        }
        if self.wants_to_write(goal, rules) && self.can_write(rules) {
            let now = self.clock.now();
            let is_idle = self.on_their_way == 0 && !self.syncing;
            if is_idle && rules.shared && self.company.wait(self.crowds.asleep(), now) {
                return Step::Linger;
            }
            self.company.begins(now);
            return Step::Write(self.claim(goal, rules, copied(), wakes));
        }
        let here = self.crowds.awaiting_sync(self.written) + usize::from(self.awaits_sync(goal));
        if self.sync_helps(goal, rules) && self.can_sync(rules, here) {
            self.syncing = true;
            self.sync_behind = None;
            return Step::Sync(self.written);
        }
        Step::Wait(self.crowds.join(goal))
    }

    /// Whether it takes another piece to reach the goal, and that piece is to be written now.
    fn wants_to_write(&self, goal: Goal, rules: &FlightRules) -> bool {
        let waits_for_sync = self.writes_wait_for_sync(rules) && matches!(goal, Goal::Flushed(_));
        goal.lsn() > self.claimed && !waits_for_sync
    }

    /// Whether who wants to flush does not write now.
    fn writes_wait_for_sync(&self, rules: &FlightRules) -> bool {
        rules.cached_writes && self.syncing
    }

    /// Whether another piece may begin where the last one ends.
    fn can_write(&self, rules: &FlightRules) -> bool {
        // Those that ended before an earlier one are not counted: a write that takes long holds up
        // no others.
        if self.failed || self.on_their_way >= rules.in_flight {
            return false;
        }
        if rules.segment_size.offset(self.claimed) == 0 {
            return self.pieces.is_empty()
                && (rules.durable_writes || self.flushed == self.claimed);
        }
        let last_is_written = self.pieces.back().is_none_or(|last| last.done);
        self.claimed.page_offset() == 0 || last_is_written
    }

    /// Whether a sync may begin, which `here` await. It waits for the writes on their way of few,
    /// so that it does for all; not for those that begin meanwhile, or it might wait for ever.
    fn can_sync(&mut self, rules: &FlightRules, here: usize) -> bool {
        if rules.durable_writes || self.flushed == self.written || self.syncing || self.failed {
            return false;
        }
        if self.on_their_way == 0 || self.company.is_complete(here) {
            return true;
        }
        if self.sync_behind.is_none() && here > 0 {
            self.sync_behind = Some(self.claimed);
        }
        self.sync_behind.is_some_and(|upto| self.written >= upto)
    }

    /// Whether a sync of what is written is all that the goal takes.
    fn awaits_sync(&self, goal: Goal) -> bool {
        matches!(goal, Goal::Flushed(lsn) if lsn <= self.written) && !self.is_reached(goal)
    }

    /// Whether a sync of what is written brings the goal, or at least the next segment.
    fn sync_helps(&self, goal: Goal, rules: &FlightRules) -> bool {
        match goal {
            Goal::Flushed(lsn) if lsn <= self.written => true,
            _ => self.sync_opens_segment(rules) && goal.lsn() > self.claimed,
        }
    }

    /// Whether the next segment begins once what is written is durable.
    fn sync_opens_segment(&self, rules: &FlightRules) -> bool {
        self.written == self.claimed && rules.segment_size.offset(self.claimed) == 0
    }

    /// Takes the next piece for somebody who wants `goal`.
    fn claim(
        &mut self,
        goal: Goal,
        rules: &FlightRules,
        copied: Lsn,
        wakes: &mut Vec<Wake>,
    ) -> Claim {
        let from = self.claimed;
        assert!(from < goal.lsn(), "{goal:?} is claimed already: up to {from}");
        // Who has just come to insert may hold back what the slots tell, with a position from
        // before this was copied.
        let wanted = goal.lsn().max(self.crowds.farthest());
        let copied = copied.max(wanted);
        let segment_end = rules.segment_size.start(rules.segment_size.number(from) + 1);
        let mut upto = copied.min(segment_end);
        let whole = upto.page_start();
        if from < whole && wanted <= whole {
            upto = whole;
        }
        upto = upto.min(from.page_start().add(rules.piece));
        self.claimed = upto;
        self.pieces.push_back(Piece { upto, done: false });
        self.on_their_way += 1;
        self.crowds.claimed(upto, wakes);
        Claim { from, upto, in_flight: self.on_their_way }
    }

    /// Those whose goals are reached, and one for each thing that can be begun; that one first, as
    /// the disk waits for it.
    fn choose_whom_to_wake(&mut self, rules: &FlightRules, wakes: &mut Vec<Wake>) {
        let mut at_home = Vec::new();
        self.crowds.reached(self.written, self.flushed, &mut at_home);
        if self.can_write(rules) && !self.company.is_awaited() {
            wakes.extend(self.crowds.call_writer(self.claimed, self.writes_wait_for_sync(rules)));
        }
        if self.can_sync(rules, self.crowds.awaiting_sync(self.written)) {
            let mut call = self.crowds.call_syncer(self.written);
            if call.is_none() && self.sync_opens_segment(rules) {
                call = self.crowds.call_writer(self.claimed, false);
            }
            wakes.extend(call);
        }
        wakes.append(&mut at_home);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const BEGIN: Lsn = Lsn(1 << 20);

    fn flight(durable_writes: bool) -> Flight {
        let rules = FlightRules {
            segment_size: SegmentSize::new(1 << 20).expect("size"),
            in_flight: 4,
            piece: 1 << 20,
            shared: true,
            durable_writes,
            cached_writes: false,
        };
        Flight::new(rules, Progress::new(BEGIN))
    }

    #[test]
    fn what_was_copied_once_is_written_whatever_the_slots_tell_now() {
        let flight = flight(true);
        let (first, second) = (BEGIN.add(100), BEGIN.add(200));
        let Step::Write(claim) = flight.step(Goal::Flushed(first), || first) else {
            panic!("nothing is under way")
        };
        assert!(matches!(flight.wrote(&claim, Goal::Flushed(first), || first), Step::Done));
        // Somebody has taken a slot with a position that was read before either was reserved.
        let Step::Write(claim) = flight.step(Goal::Flushed(second), || BEGIN) else {
            panic!("nothing is under way")
        };
        assert_eq!((claim.from, claim.upto), (first, second));
        assert!(matches!(flight.wrote(&claim, Goal::Flushed(second), || BEGIN), Step::Done));
    }

    /// Two who commit again and again: a sync waits for the write of the other one.
    #[test]
    fn few_share_a_sync() {
        let flight = flight(false);
        let ends = [1, 2, 3].map(|n| BEGIN.add(n * WAL_BLOCK));
        let goals = ends.map(Goal::Flushed);
        let write = |n: usize| match flight.step(goals[n], || ends[n]) {
            Step::Write(claim) => claim,
            other => panic!("write {n}: {other:?}"),
        };
        let (first, second) = (write(0), write(1));
        let Step::Sync(upto) = flight.wrote(&first, goals[0], || ends[1]) else {
            panic!("nobody is known to come yet")
        };
        assert_eq!(upto, ends[0]);
        assert!(matches!(flight.synced(upto, goals[0], || ends[1]), Step::Done));
        let third = write(2);
        let Step::Wait(bell) = flight.wrote(&second, goals[1], || ends[2]) else {
            panic!("the third write is on its way")
        };
        let Step::Sync(upto) = flight.wrote(&third, goals[2], || ends[2]) else {
            panic!("all is written")
        };
        assert_eq!(upto, ends[2]);
        assert!(matches!(flight.synced(upto, goals[2], || ends[2]), Step::Done));
        bell.wait();
        assert_eq!(flight.progress.flushed(), ends[2]);
    }

    /// While others' writes follow one another without end, a commit waits for those that were
    /// there.
    #[test]
    fn a_sync_waits_for_no_later_writes() {
        let flight = flight(false);
        let end = |n: u64| BEGIN.add(n * WAL_BLOCK);
        let write = |goal: Goal| match flight.step(goal, || goal.lsn()) {
            Step::Write(claim) => claim,
            other => panic!("{goal:?}: {other:?}"),
        };
        // Three were there at the last sync.
        let pieces = [1, 2, 3].map(|n| write(Goal::Written(end(n))));
        let commit = Goal::Flushed(end(1));
        let Step::Sync(upto) = flight.wrote(&pieces[0], commit, || end(3)) else {
            panic!("a first sync")
        };
        assert!(matches!(flight.synced(upto, commit, || end(3)), Step::Done));
        let commit = Goal::Flushed(end(2));
        let Step::Wait(bell) = flight.wrote(&pieces[1], commit, || end(3)) else {
            panic!("the third is not done")
        };
        let later = write(Goal::Written(end(4)));
        assert!(matches!(flight.wrote(&pieces[2], Goal::Written(end(3)), || end(4)), Step::Done));
        bell.wait();
        let Step::Sync(upto) = flight.step(commit, || end(4)) else {
            panic!("the fourth was not there")
        };
        assert_eq!(upto, end(3));
        assert!(matches!(flight.synced(upto, commit, || end(4)), Step::Done));
        assert!(matches!(flight.wrote(&later, Goal::Written(end(4)), || end(4)), Step::Done));
    }

    #[test]
    fn a_piece_has_blocks() {
        let at = |n| BEGIN.add(n);
        let blocks = |from, upto| {
            Claim { from: at(from), upto: at(upto), in_flight: 1 }.blocks().collect::<Vec<_>>()
        };
        assert_eq!(blocks(100, 200), [(at(100), at(200))]);
        assert_eq!(blocks(0, 8192), [(at(0), at(8192))]);
        assert_eq!(
            blocks(8000, 16_484),
            [(at(8000), at(8192)), (at(8192), at(16_384)), (at(16_384), at(16_484))]
        );
    }
}
