//! Weak locks without the lock table's mutex.
//!
//! Short statements lock in modes that do not conflict with each other ([`LockMode::is_weak`]). A
//! backend notes such a lock in its own list, unless a backend holds or wants a strong mode on an
//! object of the same partition. A strong request first counts itself in the partition. Then it
//! moves the entries for its object from all lists into the table. Later weak requests go to the
//! table as well. So the table, and the deadlock search, know every lock that can make a backend
//! wait.
//!
//! ```text
//! weak:   own list locked -- count is 0? -- noted -- list unlocked        (otherwise: the table)
//! strong: table locked -- count + 1 -- each list locked, searched, unlocked -- the table
//! ```
//!
//! The list's mutex orders the two: either the strong request finds the entry, or the weak request
//! finds the count.
//!
//! A backend that finds the count at 0 after a strong lock was released sees all that was done
//! under that lock: the decrement releases, and the load of the count acquires.

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU32, Ordering};

use super::mode::LockMode;
use super::tag::{LockTag, OwnerId};

const PARTITIONS: usize = 256;

/// Number of strong locks held or wanted, by partition.
#[derive(Debug)]
pub(super) struct StrongCounts([AtomicU32; PARTITIONS]);

impl Default for StrongCounts {
    fn default() -> StrongCounts {
        StrongCounts(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl StrongCounts {
    fn partition(&self, tag: LockTag) -> &AtomicU32 {
        &self.0[tag.spread() % PARTITIONS]
    }

    /// Counts a request for a strong lock.
    pub(super) fn enter(&self, tag: LockTag) {
        self.partition(tag).fetch_add(1, Ordering::Relaxed);
    }

    /// The lock was released, or not granted.
    pub(super) fn leave(&self, tag: LockTag) {
        let before = self.partition(tag).fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a strong lock on {tag} was not counted");
    }

    /// Whether there may be a strong lock. The caller holds its list's mutex.
    fn any(&self, tag: LockTag) -> bool {
        self.partition(tag).load(Ordering::Acquire) != 0
    }
}

/// A backend's weak locks that are not in the table.
#[derive(Debug, Default)]
pub(super) struct FastList {
    entries: Mutex<Vec<(LockTag, LockMode)>>,
}

impl FastList {
    /// Removes the entries of an object, and shows each to `taken`.
    pub(super) fn take(&self, tag: LockTag, mut taken: impl FnMut(LockMode)) {
        self.entries.lock().retain(|(noted, mode)| {
            if *noted == tag {
                taken(*mode);
            }
            *noted != tag
        });
    }
}

/// A backend's own view of its locks: a lock that it holds already costs nothing.
#[derive(Debug)]
pub struct LockOwner {
    id: OwnerId,
    list: Arc<FastList>,
    /// All that it holds, in the list or the table: the set of modes of each object.
    held: Vec<(LockTag, u16)>,
    /// Entries that it has made in the list. Strong requests may have moved some to the table.
    noted: usize,
    /// Whether it has asked the table for a lock.
    in_table: bool,
}

impl LockOwner {
    pub(super) fn new(id: OwnerId, list: Arc<FastList>) -> LockOwner {
        LockOwner { id, list, held: Vec::new(), noted: 0, in_table: false }
    }

    pub(super) fn id(&self) -> OwnerId {
        self.id
    }

    /// The set of modes in which it holds an object.
    fn modes(&self, tag: LockTag) -> u16 {
        self.held.iter().find(|(held, _)| *held == tag).map_or(0, |(_, modes)| *modes)
    }

    /// Whether it holds an object in this mode.
    pub(super) fn holds(&self, tag: LockTag, mode: LockMode) -> bool {
        self.modes(tag) & mode.bit() != 0
    }

    /// Whether it holds an object in this mode, or one with a higher number.
    pub fn holds_at_least(&self, tag: LockTag, mode: LockMode) -> bool {
        self.modes(tag) >= mode.bit()
    }

    pub(super) fn remember(&mut self, tag: LockTag, mode: LockMode) {
        match self.held.iter_mut().find(|(held, _)| *held == tag) {
            Some((_, modes)) => *modes |= mode.bit(),
            None => self.held.push((tag, mode.bit())),
        }
    }

    /// Notes a weak lock in the list. False if there may be a strong lock on the object.
    pub(super) fn note(&mut self, strong: &StrongCounts, tag: LockTag, mode: LockMode) -> bool {
        let mut entries = self.list.entries.lock();
        let free = !strong.any(tag);
        if free {
            entries.push((tag, mode));
            self.noted += 1;
        }
        free
    }

    /// It is about to ask the table for a lock.
    pub(super) fn use_table(&mut self) {
        self.in_table = true;
    }

    /// Forgets all locks. True if some of them are in the table, to be released there.
    pub(super) fn forget_all(&mut self) -> bool {
        if self.noted > 0 {
            let mut entries = self.list.entries.lock();
            self.in_table |= entries.len() < self.noted;
            entries.clear();
            self.noted = 0;
        }
        self.held.clear();
        std::mem::take(&mut self.in_table)
    }
}
