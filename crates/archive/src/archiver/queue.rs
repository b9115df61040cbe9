//! The files to be archived, and how far each has come. It does no I/O and has no clock.
//!
//! ```text
//!   add ──▶ waiting ──take──▶ in transfer ──▶ transferred ──(all before it too)──▶ acknowledged
//!              ▲                   │ failed
//!              └── backing off ◀───┘
//! ```
//!
//! Several files are transferred at a time, and each failed one is retried by itself. Files are
//! acknowledged without a gap: a file only after all files before it, in the order of their names.
//! Acknowledged files leave the queue.

use std::collections::{BTreeMap, BTreeSet};

use forebay_aio::sync::{Duration, Instant};

use crate::names::WalName;

/// Attempts before a warning, and the pause between them.
pub(super) const QUICK_TRIES: u32 = 3;
const QUICK_PAUSE: Duration = Duration::from_secs(1);
/// The pause after that: doubled with each failure, up to a limit.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    /// It waits for its turn.
    Waiting,
    /// It has failed and is retried later.
    BackingOff,
    /// A thread transfers it.
    InTransfer,
    /// The archive has it durably. It is not acknowledged yet.
    Transferred,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: FileState,
    /// When it was added.
    since: Instant,
    /// Failed attempts.
    failures: u32,
}

/// The files that are not acknowledged yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// All of them.
    pub files: usize,
    /// Those that are being transferred.
    pub in_flight: usize,
    /// Those that the archive has already.
    pub transferred: usize,
    /// Those that have failed at least once.
    pub failing: usize,
    /// How long the oldest has been waiting.
    pub age: Option<Duration>,
}

/// The files to be archived.
#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<WalName, Entry>,
    waiting: BTreeSet<WalName>,
    /// Files that back off, and until when.
    backing_off: BTreeSet<(Instant, WalName)>,
    in_flight: usize,
    transferred: usize,
    failing: usize,
    /// When the first file was transferred that is not acknowledged.
    unacknowledged_since: Option<Instant>,
}

impl Queue {
    /// Adds a file. False: it was in the queue already.
    pub fn add(&mut self, name: WalName, now: Instant) -> bool {
        if self.entries.contains_key(&name) {
            return false;
        }
        let entry = Entry { state: FileState::Waiting, since: now, failures: 0 };
        self.entries.insert(name.clone(), entry);
        self.waiting.insert(name);
        true
    }

    fn entry(&mut self, name: &WalName) -> &mut Entry {
        self.entries.get_mut(name).expect("a file stays in the queue until it is acknowledged")
    }

    /// Takes the next file to be transferred.
    pub fn take(&mut self, now: Instant) -> Option<WalName> {
        self.end_pauses(now);
        let name = self.waiting.pop_first()?;
        self.entry(&name).state = FileState::InTransfer;
        self.in_flight += 1;
        Some(name)
    }

    /// Files whose pause is over wait for their turn again.
    fn end_pauses(&mut self, now: Instant) {
        while let Some((due, _)) = self.backing_off.first()
            && *due <= now
        {
            let Some((_, name)) = self.backing_off.pop_first() else { break };
            self.wait(name);
        }
    }

    fn wait(&mut self, name: WalName) {
        self.entry(&name).state = FileState::Waiting;
        self.waiting.insert(name);
    }

    /// Whether a file can be transferred now.
    pub fn has_work(&mut self, now: Instant) -> bool {
        self.end_pauses(now);
        !self.waiting.is_empty()
    }

    /// When the next pause is over.
    pub fn next_due(&self) -> Option<Instant> {
        self.backing_off.first().map(|(due, _)| *due)
    }

    /// The archive has the file.
    pub fn transferred(&mut self, name: &WalName, now: Instant) {
        self.end_transfer(name).state = FileState::Transferred;
        self.transferred += 1;
        self.unacknowledged_since.get_or_insert(now);
    }

    /// The transfer failed, so the file backs off. Returns the number of its failures, and how long
    /// it has been waiting.
    pub fn failed(&mut self, name: &WalName, now: Instant) -> (u32, Duration) {
        let entry = self.end_transfer(name);
        entry.state = FileState::BackingOff;
        entry.failures += 1;
        let (failures, since) = (entry.failures, entry.since);
        self.failing += usize::from(failures == 1);
        self.backing_off.insert((now + pause(name, failures), name.clone()));
        (failures, now.saturating_duration_since(since))
    }

    /// The transfer was interrupted: the file waits for its turn again.
    pub fn put_back(&mut self, name: &WalName) {
        self.end_transfer(name);
        self.wait(name.clone());
    }

    /// The file is not to be archived any more.
    pub fn drop_file(&mut self, name: &WalName) {
        self.end_transfer(name);
        self.forget(name);
    }

    /// The file, which is in transfer and gets another state from the caller.
    fn end_transfer(&mut self, name: &WalName) -> &mut Entry {
        self.in_flight -= 1;
        let entry = self.entry(name);
        assert_eq!(entry.state, FileState::InTransfer, "{name} is not in transfer");
        entry
    }

    fn forget(&mut self, name: &WalName) {
        let entry = self.entries.remove(name).expect("a file is removed from the queue once");
        self.failing -= usize::from(entry.failures > 0);
        self.transferred -= usize::from(entry.state == FileState::Transferred);
    }

    /// At most `most` of the files that can be acknowledged: those before the first one that is not
    /// transferred.
    pub fn prefix(&self, most: usize) -> Vec<WalName> {
        let transferred =
            self.entries.iter().take_while(|(_, entry)| entry.state == FileState::Transferred);
        transferred.take(most).map(|(name, _)| name.clone()).collect()
    }

    /// If a file can be acknowledged: since when any file has been waiting for it.
    pub fn acknowledgeable(&self) -> Option<Instant> {
        let (_, first) = self.entries.first_key_value()?;
        if first.state == FileState::Transferred { self.unacknowledged_since } else { None }
    }

    /// How many files are transferred and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        self.transferred
    }

    /// Removes files that were acknowledged.
    pub fn acknowledged(&mut self, names: &[WalName], now: Instant) {
        names.iter().for_each(|name| self.forget(name));
        self.unacknowledged_since = (self.transferred > 0).then_some(now);
    }

    /// Ends all pauses and forgets all failures, for a last attempt.
    pub fn retry_all(&mut self) {
        for (_, name) in std::mem::take(&mut self.backing_off) {
            self.wait(name);
        }
        self.entries.values_mut().for_each(|entry| entry.failures = 0);
        self.failing = 0;
    }

    /// How many files are in transfer.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The size of the queue.
    pub fn backlog(&self, now: Instant) -> Backlog {
        Backlog {
            files: self.entries.len(),
            in_flight: self.in_flight,
            transferred: self.transferred,
            failing: self.failing,
            // The first in order is nearly always the oldest.
            age: self
                .entries
                .values()
                .next()
                .map(|entry| now.saturating_duration_since(entry.since)),
        }
    }
}

/// How long a file backs off after its nth failure. Pauses differ between files, so that they are
/// not all retried at once.
fn pause(name: &WalName, failures: u32) -> Duration {
    if failures < QUICK_TRIES {
        return QUICK_PAUSE;
    }
    let doubled = FIRST_PAUSE * 2_u32.saturating_pow((failures - QUICK_TRIES).min(16));
    let pause = doubled.min(LONGEST_PAUSE);
    // Between three quarters and all of it, by an FNV-1a hash.
    let text =
        name.as_str().bytes().chain(failures.to_le_bytes()).chain(std::process::id().to_le_bytes());
    let hash =
        text.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    pause - pause / 4 * (hash >> 16) / 0x1_0000
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
    fn files_are_acknowledged_without_a_gap() {
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
    fn a_failed_file_is_retried_and_delays_no_other_transfer() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        (1..=3).for_each(|n| assert!(queue.add(name(n), now)));
        assert_eq!(queue.take(now), Some(name(1)));
        assert_eq!(queue.failed(&name(1), now).0, 1);
        for n in 2..=3 {
            assert_eq!(queue.take(now), Some(name(n)));
            queue.transferred(&name(n), now);
        }
        assert_eq!((queue.take(now), queue.acknowledgeable()), (None, None));
        assert_eq!(queue.next_due(), Some(now + QUICK_PAUSE));
        let mut later = now;
        for failures in 2..20 {
            later = queue.next_due().expect("it backs off");
            assert_eq!(queue.take(later), Some(name(1)));
            let (times, age) = queue.failed(&name(1), later);
            assert_eq!((times, age), (failures, later - now));
            let pause = queue.next_due().expect("it backs off") - later;
            assert!(pause <= LONGEST_PAUSE && pause >= QUICK_PAUSE, "{pause:?}");
        }
        assert_eq!(queue.backlog(later).failing, 1);
        let last = queue.next_due().expect("it backs off");
        assert_eq!(queue.take(last), Some(name(1)));
        queue.transferred(&name(1), last);
        assert_eq!(queue.prefix(9).len(), 3);
        queue.acknowledged(&queue.prefix(9), last);
        assert_eq!(queue.backlog(last), Backlog::default());
    }

    #[test]
    fn a_history_file_is_archived_first_whenever_it_is_added() {
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
    fn a_dropped_file_is_no_gap() {
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
    fn pauses_differ_between_files() {
        let pauses: BTreeSet<Duration> = (0..50).map(|n| pause(&name(n), 9)).collect();
        assert!(pauses.len() > 40, "{} of 50", pauses.len());
    }

    proptest! {
        /// In any order of calls, each file is acknowledged once, after all files before it that
        /// were in the queue then.
        #[test]
        fn nothing_is_lost(steps in proptest::collection::vec((0_u8..6, 0_u32..12), 1..200)) {
            let (mut queue, mut now) = (Queue::default(), Instant::now());
            let (mut known, mut in_flight) = (BTreeSet::new(), Vec::new());
            for (what, n) in steps {
                now += Duration::from_secs(u64::from(n));
                match what {
                    0 => prop_assert_eq!(queue.add(name(n), now), known.insert(name(n))),
                    1 => in_flight.extend(queue.take(now)),
                    2 if !in_flight.is_empty() => {
                        let name = in_flight.swap_remove(n as usize % in_flight.len());
                        queue.transferred(&name, now);
                    }
                    3 if !in_flight.is_empty() => {
                        let name = in_flight.swap_remove(n as usize % in_flight.len());
                        queue.failed(&name, now);
                    }
                    4 if !in_flight.is_empty() => queue.put_back(&in_flight.remove(0)),
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
                prop_assert_eq!(backlog.in_flight, in_flight.len());
                prop_assert_eq!(queue.acknowledgeable().is_some(), !queue.prefix(1).is_empty());
            }
        }
    }
}
