//! What waits for the archive, and how far it has come. No I/O, no threads, no clock of its own.
//!
//! ```text
//!   add ──▶ waiting ──take──▶ flying ──transferred──▶ transferred ──(all before it too)──▶ acknowledged: gone
//!              ▲                 │ failed
//!              └── after a time ─┘
//! ```
//!
//! Several are in flight at a time, and each that fails is tried again by itself. What is
//! acknowledged has no gap: only files before which none is left, in the order of their names.

use std::collections::{BTreeMap, BTreeSet};

use forebay_aio::sync::{Duration, Instant};

use crate::names::WalName;

/// Tries before a warning, and the rest between them.
pub(super) const EAGER_TRIES: u32 = 3;
const EAGER_REST: Duration = Duration::from_secs(1);
/// Rests after that: the first, doubled each time, up to the last.
const FIRST_REST: Duration = Duration::from_secs(5);
const LONGEST_REST: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// For its turn.
    Waiting,
    /// For a time to pass.
    Resting(Instant),
    /// Somebody is transferring it.
    Flying,
    /// It is in the archive, durably; others before it are not, or nobody has taken note of it yet.
    Transferred,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    /// When it was first heard of.
    since: Instant,
    /// Tries that failed.
    failures: u32,
}

/// What is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Files that are not known to be archived, in all.
    pub files: usize,
    /// Of them: in flight now.
    pub flying: usize,
    /// Of them: in the archive, and not acknowledged yet.
    pub transferred: usize,
    /// Of them: failed at least once.
    pub failing: usize,
    /// How long the oldest has been waiting.
    pub age: Option<Duration>,
}

/// Files on their way to the archive.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<WalName, Entry>,
    /// Those that wait for their turn.
    waiting: BTreeSet<WalName>,
    /// Those that wait for a time.
    resting: BTreeSet<(Instant, WalName)>,
    flying: usize,
    transferred: usize,
    failing: usize,
    /// When the first of those came that are transferred and not acknowledged.
    unacknowledged_since: Option<Instant>,
}

impl Queue {
    /// A file is to be archived. False: that is known.
    pub fn add(&mut self, name: WalName, now: Instant) -> bool {
        if self.entries.contains_key(&name) {
            return false;
        }
        self.entries.insert(name.clone(), Entry { state: State::Waiting, since: now, failures: 0 });
        self.waiting.insert(name);
        true
    }

    /// The next to be transferred.
    pub fn take(&mut self, now: Instant) -> Option<WalName> {
        self.wake(now);
        let name = self.waiting.pop_first()?;
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.state = State::Flying;
        }
        self.flying += 1;
        Some(name)
    }

    /// Those whose rest is over wait for their turn.
    fn wake(&mut self, now: Instant) {
        while let Some((due, _)) = self.resting.first()
            && *due <= now
        {
            let Some((_, name)) = self.resting.pop_first() else { break };
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.state = State::Waiting;
            }
            self.waiting.insert(name);
        }
    }

    /// Whether there is one to be transferred.
    pub fn has_work(&mut self, now: Instant) -> bool {
        self.wake(now);
        !self.waiting.is_empty()
    }

    /// When there will be one, if there is none now.
    pub fn next_due(&self) -> Option<Instant> {
        self.resting.first().map(|(due, _)| *due)
    }

    /// It is in the archive.
    pub fn transferred(&mut self, name: &WalName, now: Instant) {
        if self.land(name, State::Transferred) {
            self.transferred += 1;
            self.unacknowledged_since.get_or_insert(now);
        }
    }

    /// It failed: it rests for a time. How often it has failed, and how long it has been waiting.
    pub fn failed(&mut self, name: &WalName, now: Instant) -> (u32, Duration) {
        let Some(entry) = self.entries.get(name) else { return (0, Duration::ZERO) };
        let (failures, since) = (entry.failures + 1, entry.since);
        let due = now + rest(name, failures);
        if self.land(name, State::Resting(due)) {
            if let Some(entry) = self.entries.get_mut(name) {
                entry.failures = failures;
            }
            self.failing += usize::from(failures == 1);
            self.resting.insert((due, name.clone()));
        }
        (failures, now.saturating_duration_since(since))
    }

    /// It was not tried to the end, and waits for its turn again.
    pub fn put_back(&mut self, name: &WalName) {
        if self.land(name, State::Waiting) {
            self.waiting.insert(name.clone());
        }
    }

    /// Nobody wants it archived any more.
    pub fn drop_file(&mut self, name: &WalName) {
        if self.land(name, State::Waiting) {
            self.forget(name);
        }
    }

    /// A file that flies comes down. False: it does not fly.
    fn land(&mut self, name: &WalName, state: State) -> bool {
        match self.entries.get_mut(name) {
            Some(entry) if entry.state == State::Flying => {
                entry.state = state;
                self.flying -= 1;
                true
            }
            _ => false,
        }
    }

    fn forget(&mut self, name: &WalName) {
        if let Some(entry) = self.entries.remove(name) {
            self.failing -= usize::from(entry.failures > 0);
            self.transferred -= usize::from(entry.state == State::Transferred);
        }
    }

    /// The files that can be acknowledged: transferred, and none is left before them. At most so
    /// many.
    pub fn prefix(&self, most: usize) -> Vec<WalName> {
        let transferred =
            self.entries.iter().take_while(|(_, entry)| entry.state == State::Transferred);
        transferred.take(most).map(|(name, _)| name.clone()).collect()
    }

    /// Whether there are any of those, and since when any has been waiting for it.
    pub fn acknowledgeable(&self) -> Option<Instant> {
        let (_, first) = self.entries.first_key_value()?;
        if first.state == State::Transferred { self.unacknowledged_since } else { None }
    }

    /// How many have been transferred and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.transferred
    }

    /// These have been acknowledged.
    pub fn acknowledged(&mut self, names: &[WalName], now: Instant) {
        names.iter().for_each(|name| self.forget(name));
        self.unacknowledged_since = (self.transferred > 0).then_some(now);
    }

    /// All that rest wait for their turn, and what failed before is forgotten: for a last attempt.
    pub fn rouse(&mut self) {
        for (_, name) in std::mem::take(&mut self.resting) {
            if let Some(entry) = self.entries.get_mut(&name) {
                entry.state = State::Waiting;
            }
            self.waiting.insert(name);
        }
        self.entries.values_mut().for_each(|entry| entry.failures = 0);
        self.failing = 0;
    }

    /// How many are in flight.
    pub fn flying(&self) -> usize {
        self.flying
    }

    /// How much is on its way.
    pub fn backlog(&self, now: Instant) -> Backlog {
        Backlog {
            files: self.entries.len(),
            flying: self.flying,
            transferred: self.transferred,
            failing: self.failing,
            // The first in order is not always the oldest, but few are not in the order in which
            // they came.
            age: self
                .entries
                .values()
                .next()
                .map(|entry| now.saturating_duration_since(entry.since)),
        }
    }
}

/// How long a file rests after so many failures: not all at once, and not all at the same time.
fn rest(name: &WalName, failures: u32) -> Duration {
    if failures < EAGER_TRIES {
        return EAGER_REST;
    }
    let doubled = FIRST_REST * 2_u32.saturating_pow((failures - EAGER_TRIES).min(16));
    let rest = doubled.min(LONGEST_REST);
    // Between three quarters and all of it.
    let text =
        name.as_str().bytes().chain(failures.to_le_bytes()).chain(std::process::id().to_le_bytes());
    let hash =
        text.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    rest - rest / 4 * (hash >> 16) / 0x1_0000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(n: u32) -> WalName {
        WalName::parse(&format!("0000000100000000{n:08X}")).expect("a name")
    }

    fn history(n: u32) -> WalName {
        WalName::parse(&format!("{n:08X}.history")).expect("a name")
    }

    #[test]
    fn what_is_acknowledged_has_no_gap() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (1..=5).for_each(|n| assert!(queue.add(name(n), now)));
        assert!(!queue.add(name(3), now), "once");
        for n in 1..=4 {
            assert_eq!(queue.take(now), Some(name(n)));
        }
        queue.transferred(&name(3), now);
        queue.transferred(&name(2), now);
        assert_eq!(queue.acknowledgeable(), None, "1 is missing");
        assert_eq!(queue.prefix(9), []);
        queue.transferred(&name(1), now);
        assert_eq!(queue.prefix(2), [name(1), name(2)]);
        assert_eq!(queue.prefix(9), [name(1), name(2), name(3)]);
        queue.acknowledged(&queue.prefix(9), now);
        assert_eq!(queue.unacknowledged(), 0);
        assert_eq!(queue.backlog(now).files, 2);
    }

    #[test]
    fn a_file_that_fails_is_tried_again_by_itself_and_holds_up_no_transfer() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (1..=3).for_each(|n| assert!(queue.add(name(n), now)));
        assert_eq!(queue.take(now), Some(name(1)));
        assert_eq!(queue.failed(&name(1), now).0, 1);
        for n in 2..=3 {
            assert_eq!(queue.take(now), Some(name(n)));
            queue.transferred(&name(n), now);
        }
        assert_eq!((queue.take(now), queue.acknowledgeable()), (None, None));
        assert_eq!(queue.next_due(), Some(now + EAGER_REST));
        let mut later = now;
        for failures in 2..20 {
            later = queue.next_due().expect("it rests");
            assert_eq!(queue.take(later), Some(name(1)));
            let (times, age) = queue.failed(&name(1), later);
            assert_eq!((times, age), (failures, later - now));
            let rest = queue.next_due().expect("it rests") - later;
            assert!(rest <= LONGEST_REST && rest >= EAGER_REST, "{rest:?}");
        }
        assert_eq!(queue.backlog(later).failing, 1);
        let last = queue.next_due().expect("it rests");
        assert_eq!(queue.take(last), Some(name(1)));
        queue.transferred(&name(1), last);
        assert_eq!(queue.prefix(9).len(), 3);
        queue.acknowledged(&queue.prefix(9), last);
        assert_eq!(queue.backlog(last), Backlog::default());
    }

    #[test]
    fn a_history_file_goes_first_whenever_it_comes() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (1..=3).for_each(|n| assert!(queue.add(name(n), now)));
        assert_eq!(queue.take(now), Some(name(1)));
        queue.transferred(&name(1), now);
        queue.add(history(2), now);
        assert_eq!(queue.prefix(9), [], "not before the history file");
        assert_eq!(queue.take(now), Some(history(2)));
        queue.transferred(&history(2), now);
        assert_eq!(queue.prefix(9), [history(2), name(1)]);
    }

    #[test]
    fn a_file_nobody_wants_any_more_is_no_gap() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (1..=2).for_each(|n| assert!(queue.add(name(n), now)));
        assert_eq!(queue.take(now), Some(name(1)));
        assert_eq!(queue.take(now), Some(name(2)));
        queue.transferred(&name(2), now);
        queue.drop_file(&name(1));
        assert_eq!(queue.prefix(9), [name(2)]);
        assert!(queue.add(name(1), now), "it may come again");
    }

    #[test]
    fn rests_differ_between_files() {
        let rests: BTreeSet<Duration> = (0..50).map(|n| rest(&name(n), 9)).collect();
        assert!(rests.len() > 40, "{} of 50", rests.len());
    }

    proptest! {
        /// Whatever happens in whatever order: each file is acknowledged once, after all before it
        /// that were known then.
        #[test]
        fn nothing_is_lost(steps in proptest::collection::vec((0_u8..6, 0_u32..12), 1..200)) {
            let (mut queue, mut now) = (Queue::default(), Instant::now());
            let (mut known, mut flying) = (BTreeSet::new(), Vec::new());
            for (what, n) in steps {
                now += Duration::from_secs(u64::from(n));
                match what {
                    0 => prop_assert_eq!(queue.add(name(n), now), known.insert(name(n))),
                    1 => flying.extend(queue.take(now)),
                    2 | 3 if !flying.is_empty() => {
                        let name = flying.swap_remove(n as usize % flying.len());
                        if what == 2 { queue.transferred(&name, now) } else { queue.failed(&name, now); }
                    }
                    4 if !flying.is_empty() => queue.put_back(&flying.remove(0)),
                    5 => {
                        let prefix = queue.prefix(n as usize);
                        prop_assert!(prefix.iter().eq(known.iter().take(prefix.len())));
                        queue.acknowledged(&prefix, now);
                        prefix.iter().for_each(|name| { known.remove(name); });
                    }
                    _ => {}
                }
                let backlog = queue.backlog(now);
                prop_assert_eq!(backlog.files, known.len());
                prop_assert_eq!(backlog.flying, flying.len());
                prop_assert_eq!(queue.acknowledgeable().is_some(), !queue.prefix(1).is_empty());
            }
        }
    }
}
