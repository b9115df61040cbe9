//! The flush pipeline: which thread writes and syncs what, with several writes in flight.
//!
//! ```text
//!            flushed          written                        claimed       copied
//!   ────────────┼────────────────┼──────────────────────────────┼─────────────┼──────
//!     durable   │ awaits a sync  │ write │ write │ write        │ next write  │
//! ```
//!
//! There is no writer thread. A thread that needs the log to reach a goal asks
//! [`FlushPipeline::step`] what to do, does it, and asks again. The answer is one of these:
//!
//! - *Write*: everything that is copied, from where the last claimed write ends. Other writes may
//!   be in flight meanwhile, but no block is ever in two of them. A write therefore ends at a
//!   block's end unless a goal lies behind it, and after a write with a partial block the next one
//!   waits. A segment is complete and durable before the first write to the next one: what a crash
//!   leaves behind the end of the log then lies in one segment, which `resume` relies on.
//! - *Sync*, if writes are not durable by themselves: everything that is written without a gap. One
//!   sync runs at a time. If there are few committers, the sync waits for all their writes, because
//!   one sync then serves all, and a sync during a write delays it.
//! - *Delay* the write, because other committers are expected; see
//!   [`group_commit`](crate::group_commit).
//! - *Wait*, because other threads are doing what is needed. A waiter is woken when its goal is
//!   reached, the log has failed, or there is something for it to do; see
//!   [`waiters`](crate::waiters). A running thread that asks first gets the work instead: it starts
//!   sooner than a waiter wakes up.
//!
//! Linux reports a write-back error only once for an open file. Of two concurrent syncs, the wrong
//! one could get the error, while the other returns success although data is lost. For the same
//! reason, segments that are opened with `O_DSYNC` but not `O_DIRECT` have one write in flight.
//!
//! Each change of state wakes the waiters whose goals are reached, and one waiter for each thing
//! that can start now. So whenever something that a waiter needs can start, some thread is awake to
//! start it. (If that thread finds its own goal reached and returns, the change of state that
//! reached it has woken another.)

use std::collections::VecDeque;

use forebay_aio::sync::{
    Arc, Event, Mutex,
    atomic::{AtomicU64, Ordering},
};
use forebay_format::{Lsn, SegmentSize};

use crate::{
    group_commit::{Clock, GroupCommit},
    position::WAL_BLOCK,
    waiters::{Goal, Waiters, Wake},
};

/// How far the log is written and durable, readable without a lock.
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

/// What the caller must do next for its goal.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing: the goal is reached, or the log has failed.
    Done,
    /// Carry out this write, then call [`FlushPipeline::wrote`].
    Write(Claim),
    /// Sync the segment that holds the byte before this, then call [`FlushPipeline::synced`].
    Sync(Lsn),
    /// Wait on the event, then ask again unless the goal is reached.
    Wait(Arc<Event>),
    /// Let other threads run, then call [`FlushPipeline::delayed`].
    Delay,
}

/// A range of the log that the caller has claimed: it must write it, or the log has failed.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Its first byte. The write begins with the block that holds it.
    pub from: Lsn,
    /// Behind its last byte, in the same segment.
    pub upto: Lsn,
    /// Writes in flight, this one included.
    pub in_flight: usize,
}

impl Claim {
    /// The blocks of the range, each as the part of it that is claimed.
    pub fn blocks(&self) -> impl Iterator<Item = (Lsn, Lsn)> {
        let (from, upto) = (self.from, self.upto);
        let next = move |at: &Lsn| Some(at.page_start().add(WAL_BLOCK)).filter(|next| *next < upto);
        std::iter::successors(Some(from), next)
            .map(move |at| (at, upto.min(at.page_start().add(WAL_BLOCK))))
    }
}

/// Fixed properties of a pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipelineRules {
    /// Size of a segment.
    pub segment_size: SegmentSize,
    /// A write that has returned is durable.
    pub durable_writes: bool,
    /// A write only copies to the kernel's cache, which takes no time. Starting one during a sync
    /// gains nothing: each of the many committers that arrive meanwhile would write the same block.
    pub cached_writes: bool,
    /// Most writes in flight.
    pub max_in_flight: usize,
    /// Most bytes of a write: whole blocks, at least one.
    pub max_write: u64,
    /// Committers can share a write or a sync, so it pays to wait for others.
    pub shared: bool,
}

/// A write in flight, or one that has completed before an earlier one.
#[derive(Debug)]
struct Write {
    upto: Lsn,
    done: bool,
}

#[derive(Debug)]
struct PipelineState {
    claimed: Lsn,
    written: Lsn,
    flushed: Lsn,
    /// The writes from `written` to `claimed`, in order.
    writes: VecDeque<Write>,
    /// Those of them that are not done.
    in_flight: usize,
    syncing: bool,
    /// End of the last write that the next sync waits for; set once a thread awaits that sync.
    sync_behind: Option<Lsn>,
    failed: bool,
    waiters: Waiters,
    group_commit: GroupCommit,
    clock: Clock,
}

/// Coordinates the writes and syncs of one log.
#[derive(Debug)]
pub(crate) struct FlushPipeline {
    rules: PipelineRules,
    progress: Arc<Progress>,
    state: Mutex<PipelineState>,
}

impl FlushPipeline {
    /// For a log that is durable up to where `progress` stands.
    pub fn new(rules: PipelineRules, progress: Arc<Progress>) -> FlushPipeline {
        assert!(rules.max_in_flight > 0, "a write must be able to start");
        assert!(rules.max_write > 0 && rules.max_write.is_multiple_of(WAL_BLOCK));
        let at = progress.flushed();
        let mut clock = Clock::new();
        let state = PipelineState {
            claimed: at,
            written: at,
            flushed: at,
            writes: VecDeque::new(),
            in_flight: 0,
            syncing: false,
            sync_behind: None,
            failed: false,
            waiters: Waiters::default(),
            group_commit: GroupCommit::new(clock.now()),
            clock,
        };
        FlushPipeline { rules, progress, state: Mutex::new(state) }
    }

    /// What to do for `goal`, before which everything has been copied. `copied` returns how far the
    /// log has been copied without a gap.
    pub fn step(&self, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |_| {})
    }

    /// What to do for `goal` after a delay.
    pub fn delayed(&self, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |state| state.group_commit.waited())
    }

    /// The claimed write is done. Returns what to do next for `goal`.
    pub fn wrote(&self, claim: &Claim, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |state| {
            let found = state.writes.binary_search_by_key(&claim.upto, |write| write.upto);
            let write = found.ok().and_then(|n| state.writes.get_mut(n));
            let write = write.filter(|write| !write.done).expect("a claim is written once");
            write.done = true;
            state.in_flight -= 1;
            while let Some(write) = state.writes.pop_front_if(|write| write.done) {
                state.written = write.upto;
            }
            self.progress.written.store(state.written.0, Ordering::Release);
            if self.rules.durable_writes {
                self.advance(state, state.written);
            }
        })
    }

    /// The sync of everything before `upto` has succeeded. Returns what to do next for `goal`.
    pub fn synced(&self, upto: Lsn, goal: Goal, copied: impl FnOnce() -> Lsn) -> Step {
        self.change(goal, copied, |state| {
            assert!(state.syncing && upto <= state.written, "a sync that was asked for");
            state.syncing = false;
            self.advance(state, upto);
        })
    }

    /// The log has failed: nothing starts any more, and nothing more counts as durable.
    pub fn fail(&self) {
        let wakes = {
            let mut state = self.state.lock();
            state.failed = true;
            state.waiters.wake_all()
        };
        wakes.iter().for_each(Wake::send);
    }

    fn advance(&self, state: &mut PipelineState, to: Lsn) {
        if !state.failed {
            assert!(state.flushed <= to, "the durable end of the log moved backwards");
            state.flushed = to;
            let present = state.in_flight + state.waiters.asleep() + 1;
            state.group_commit.completed(present, state.clock.now());
            self.progress.flushed.store(to.0, Ordering::Release);
        }
    }

    /// Changes the state, decides what the caller must do, and wakes other threads.
    fn change(
        &self,
        goal: Goal,
        copied: impl FnOnce() -> Lsn,
        change: impl FnOnce(&mut PipelineState),
    ) -> Step {
        let mut wakes = Vec::new();
        let step = {
            let mut state = self.state.lock();
            change(&mut state);
            let step = state.next_for(goal, &self.rules, copied, &mut wakes);
            state.choose_whom_to_wake(&self.rules, &mut wakes);
            step
        };
        wakes.iter().for_each(Wake::send);
        step
    }
}

impl PipelineState {
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
        rules: &PipelineRules,
        copied: impl FnOnce() -> Lsn,
        wakes: &mut Vec<Wake>,
    ) -> Step {
        if self.is_reached(goal) {
            return Step::Done;
        }
        if self.needs_write(goal, rules) && self.can_write(rules) {
            let now = self.clock.now();
            let is_idle = self.in_flight == 0 && !self.syncing;
            let asleep = self.waiters.asleep();
            if is_idle && rules.shared && self.group_commit.should_wait(asleep, now) {
                return Step::Delay;
            }
            self.group_commit.started(now);
            return Step::Write(self.claim(goal, rules, copied(), wakes));
        }
        let present =
            self.waiters.awaiting_sync(self.written) + usize::from(self.awaits_sync(goal));
        if self.sync_helps(goal, rules) && self.can_sync(rules, present) {
            self.syncing = true;
            self.sync_behind = None;
            return Step::Sync(self.written);
        }
        Step::Wait(self.waiters.join(goal))
    }

    /// Whether the goal needs another write, which need not wait for the sync that runs.
    fn needs_write(&self, goal: Goal, rules: &PipelineRules) -> bool {
        let waits_for_sync = self.writes_wait_for_sync(rules) && matches!(goal, Goal::Flushed(_));
        goal.lsn() > self.claimed && !waits_for_sync
    }

    /// Whether a write for a flush must wait for the sync that runs.
    fn writes_wait_for_sync(&self, rules: &PipelineRules) -> bool {
        rules.cached_writes && self.syncing
    }

    /// Whether another write may start where the last one ends.
    fn can_write(&self, rules: &PipelineRules) -> bool {
        // Writes that have completed before an earlier one don't count: a slow write does not hold
        // up others.
        if self.failed || self.in_flight >= rules.max_in_flight {
            return false;
        }
        if rules.segment_size.offset(self.claimed) == 0 {
            return self.writes.is_empty()
                && (rules.durable_writes || self.flushed == self.claimed);
        }
        let last_is_done = self.writes.back().is_none_or(|last| last.done);
        self.claimed.page_offset() == 0 || last_is_done
    }

    /// Whether a sync may start that `present` committers await. If they are few, it waits for the
    /// writes in flight, so that one sync serves all. It does not wait for writes that start later,
    /// or it might wait forever.
    fn can_sync(&mut self, rules: &PipelineRules, present: usize) -> bool {
        if rules.durable_writes || self.flushed == self.written || self.syncing || self.failed {
            return false;
        }
        if self.in_flight == 0 || self.group_commit.is_complete(present) {
            return true;
        }
        if self.sync_behind.is_none() && present > 0 {
            self.sync_behind = Some(self.claimed);
        }
        self.sync_behind.is_some_and(|upto| self.written >= upto)
    }

    /// Whether the goal needs a sync of what is written, and no more.
    fn awaits_sync(&self, goal: Goal) -> bool {
        matches!(goal, Goal::Flushed(lsn) if lsn <= self.written) && !self.is_reached(goal)
    }

    /// Whether a sync of what is written reaches the goal, or lets the next segment begin.
    fn sync_helps(&self, goal: Goal, rules: &PipelineRules) -> bool {
        match goal {
            Goal::Flushed(lsn) if lsn <= self.written => true,
            _ => self.sync_opens_segment(rules) && goal.lsn() > self.claimed,
        }
    }

    /// Whether the next segment may be written once what is written is durable.
    fn sync_opens_segment(&self, rules: &PipelineRules) -> bool {
        self.written == self.claimed && rules.segment_size.offset(self.claimed) == 0
    }

    /// Claims the next write for a caller that needs `goal`.
    fn claim(
        &mut self,
        goal: Goal,
        rules: &PipelineRules,
        copied: Lsn,
        wakes: &mut Vec<Wake>,
    ) -> Claim {
        let from = self.claimed;
        assert!(from < goal.lsn(), "{goal:?} is claimed already: up to {from}");
        // The slots may report less than what was known to be copied before: an inserter can take a
        // slot with a position that it read earlier.
        let wanted = goal.lsn().max(self.waiters.farthest());
        let copied = copied.max(wanted);
        let segment_end = rules.segment_size.start(rules.segment_size.number(from) + 1);
        let mut upto = copied.min(segment_end);
        let whole = upto.page_start();
        if from < whole && wanted <= whole {
            upto = whole;
        }
        upto = upto.min(from.page_start().add(rules.max_write));
        self.claimed = upto;
        self.writes.push_back(Write { upto, done: false });
        self.in_flight += 1;
        self.waiters.claimed(upto, wakes);
        Claim { from, upto, in_flight: self.in_flight }
    }

    /// Wakes the waiters whose goals are reached, and one for each thing that can start. The latter
    /// come first, because the disk is idle meanwhile.
    fn choose_whom_to_wake(&mut self, rules: &PipelineRules, wakes: &mut Vec<Wake>) {
        let mut reached = Vec::new();
        self.waiters.reached(self.written, self.flushed, &mut reached);
        if self.can_write(rules) && !self.group_commit.is_waiting() {
            wakes.extend(self.waiters.wake_writer(self.claimed, self.writes_wait_for_sync(rules)));
        }
        if self.can_sync(rules, self.waiters.awaiting_sync(self.written)) {
            let mut wake = self.waiters.wake_syncer(self.written);
            if wake.is_none() && self.sync_opens_segment(rules) {
                wake = self.waiters.wake_writer(self.claimed, false);
            }
            wakes.extend(wake);
        }
        wakes.append(&mut reached);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const BEGIN: Lsn = Lsn(1 << 20);

    fn pipeline(durable_writes: bool) -> FlushPipeline {
        let rules = PipelineRules {
            segment_size: SegmentSize::new(1 << 20).expect("size"),
            max_in_flight: 4,
            max_write: 1 << 20,
            shared: true,
            durable_writes,
            cached_writes: false,
        };
        FlushPipeline::new(rules, Progress::new(BEGIN))
    }

    #[test]
    fn what_was_copied_is_written_even_if_the_slots_report_less_now() {
        let pipeline = pipeline(true);
        let (first, second) = (BEGIN.add(100), BEGIN.add(200));
        let Step::Write(claim) = pipeline.step(Goal::Flushed(first), || first) else {
            panic!("nothing is in flight")
        };
        assert!(matches!(pipeline.wrote(&claim, Goal::Flushed(first), || first), Step::Done));
        // An inserter has taken a slot with a position that it read before either was reserved.
        let Step::Write(claim) = pipeline.step(Goal::Flushed(second), || BEGIN) else {
            panic!("nothing is in flight")
        };
        assert_eq!((claim.from, claim.upto), (first, second));
        assert!(matches!(pipeline.wrote(&claim, Goal::Flushed(second), || BEGIN), Step::Done));
    }

    /// Of two committers that commit again and again, the sync of one waits for the other's write.
    #[test]
    fn few_committers_share_a_sync() {
        let pipeline = pipeline(false);
        let ends = [1, 2, 3].map(|n| BEGIN.add(n * WAL_BLOCK));
        let goals = ends.map(Goal::Flushed);
        let write = |n: usize| match pipeline.step(goals[n], || ends[n]) {
            Step::Write(claim) => claim,
            other => panic!("write {n}: {other:?}"),
        };
        let (first, second) = (write(0), write(1));
        let Step::Sync(upto) = pipeline.wrote(&first, goals[0], || ends[1]) else {
            panic!("no other committer is expected yet")
        };
        assert_eq!(upto, ends[0]);
        assert!(matches!(pipeline.synced(upto, goals[0], || ends[1]), Step::Done));
        let third = write(2);
        let Step::Wait(event) = pipeline.wrote(&second, goals[1], || ends[2]) else {
            panic!("the third write is in flight")
        };
        let Step::Sync(upto) = pipeline.wrote(&third, goals[2], || ends[2]) else {
            panic!("everything is written")
        };
        assert_eq!(upto, ends[2]);
        assert!(matches!(pipeline.synced(upto, goals[2], || ends[2]), Step::Done));
        event.wait();
        assert_eq!(pipeline.progress.flushed(), ends[2]);
    }

    /// While others write without end, a commit waits only for the writes that were in flight.
    #[test]
    fn a_sync_does_not_wait_for_later_writes() {
        let pipeline = pipeline(false);
        let end = |n: u64| BEGIN.add(n * WAL_BLOCK);
        let write = |goal: Goal| match pipeline.step(goal, || goal.lsn()) {
            Step::Write(claim) => claim,
            other => panic!("{goal:?}: {other:?}"),
        };
        // Three committers were present at the last sync.
        let writes = [1, 2, 3].map(|n| write(Goal::Written(end(n))));
        let commit = Goal::Flushed(end(1));
        let Step::Sync(upto) = pipeline.wrote(&writes[0], commit, || end(3)) else {
            panic!("a first sync")
        };
        assert!(matches!(pipeline.synced(upto, commit, || end(3)), Step::Done));
        let commit = Goal::Flushed(end(2));
        let Step::Wait(event) = pipeline.wrote(&writes[1], commit, || end(3)) else {
            panic!("the third is not done")
        };
        let later = write(Goal::Written(end(4)));
        assert!(matches!(pipeline.wrote(&writes[2], Goal::Written(end(3)), || end(4)), Step::Done));
        event.wait();
        let Step::Sync(upto) = pipeline.step(commit, || end(4)) else {
            panic!("the fourth started later")
        };
        assert_eq!(upto, end(3));
        assert!(matches!(pipeline.synced(upto, commit, || end(4)), Step::Done));
        assert!(matches!(pipeline.wrote(&later, Goal::Written(end(4)), || end(4)), Step::Done));
    }

    #[test]
    fn a_claim_has_blocks() {
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
