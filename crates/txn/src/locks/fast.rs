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

use forebay_aio::sync::atomic::{AtomicU32, Ordering};
use forebay_aio::sync::{Duration, Mutex};

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
#[derive(Debug)]
pub(super) struct FastList {
    entries: Mutex<Vec<(LockTag, LockMode)>>,
    /// Entries for which there is room.
    room: usize,
    /// The token of the tentative insertion that is under way, or 0.
    pub(super) insertion: AtomicU32,
}

impl FastList {
    /// No entries, and room for so many.
    pub(super) fn new(room: usize) -> FastList {
        FastList { entries: Mutex::default(), room, insertion: AtomicU32::new(0) }
    }

    /// All entries.
    pub(super) fn entries(&self) -> Vec<(LockTag, LockMode)> {
        self.entries.lock().clone()
    }

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

/// How long a request waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Patience {
    /// Until it is given up; None: forever.
    pub(super) timeout: Option<Duration>,
    /// Until it searches for a deadlock; zero: before it waits.
    pub(super) deadlock_timeout: Duration,
}

/// A backend's place in the queue for a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowPlace {
    /// It wants the row.
    Wanted,
    /// It has taken the row, so deep in subtransactions.
    Taken(usize),
}

/// A backend's own view of its locks: a lock that it holds already costs nothing.
#[derive(Debug)]
pub struct LockOwner {
    id: OwnerId,
    list: Arc<FastList>,
    /// All that it holds, in the list or the table, in the order in which it was taken.
    held: Vec<Held>,
    /// Entries that it has made in the list. Strong requests may have moved some to the table.
    noted: usize,
    /// Whether it has asked the table for a lock.
    in_table: bool,
    /// Number of open subtransactions.
    depth: usize,
    /// The token of its last tentative insertion.
    token: u32,
    /// Its place in the queue for a row. The table knows which row.
    pub(super) row: Option<RowPlace>,
    /// How long it waits for a lock (lock_timeout); None: forever.
    pub timeout: Option<Duration>,
    /// How long it waits before it searches for a deadlock (deadlock_timeout); zero: it searches
    /// before it waits.
    pub deadlock_timeout: Duration,
}

/// A lock that a backend holds, for one or two reasons.
#[derive(Debug)]
struct Held {
    tag: LockTag,
    mode: LockMode,
    /// How deep in subtransactions its transaction took it, if it did. 0: not in one.
    transaction: Option<usize>,
    /// How often its session took it.
    session: u32,
}

/// For how long a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// To the end of the transaction, or to the rollback of the subtransaction.
    Transaction,
    /// Until the session releases it as often as it took it, or ends.
    Session,
}

impl LockOwner {
    pub(super) fn new(id: OwnerId, list: Arc<FastList>) -> LockOwner {
        LockOwner {
            id,
            list,
            held: Vec::new(),
            noted: 0,
            in_table: false,
            depth: 0,
            token: 0,
            row: None,
            timeout: None,
            deadlock_timeout: Duration::ZERO,
        }
    }

    pub(super) fn id(&self) -> OwnerId {
        self.id
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// A tentative insertion begins. Returns its token, which is never 0.
    pub fn begin_insertion(&mut self) -> u32 {
        self.token = self.token.checked_add(1).unwrap_or(1);
        let before = self.list.insertion.swap(self.token, Ordering::SeqCst);
        assert_eq!(before, 0, "a backend inserts one row after the other");
        self.token
    }

    /// The tentative insertion under way is over.
    pub(super) fn end_insertion(&self) {
        self.list.insertion.store(0, Ordering::SeqCst);
    }

    pub(super) fn patience(&self) -> Patience {
        Patience { timeout: self.timeout, deadlock_timeout: self.deadlock_timeout }
    }

    fn entry(&mut self, tag: LockTag, mode: LockMode) -> Option<&mut Held> {
        self.held.iter_mut().find(|held| held.tag == tag && held.mode == mode)
    }

    /// Whether it holds an object in this mode.
    pub(super) fn holds(&self, tag: LockTag, mode: LockMode) -> bool {
        self.held.iter().any(|held| held.tag == tag && held.mode == mode)
    }

    /// Whether it holds an object in this mode, or one with a higher number.
    pub fn holds_at_least(&self, tag: LockTag, mode: LockMode) -> bool {
        self.held.iter().any(|held| held.tag == tag && held.mode >= mode)
    }

    /// A subtransaction begins: locks taken from now on end with its rollback.
    pub fn begin_sub(&mut self) {
        self.depth += 1;
    }

    /// The innermost subtransaction was released: its locks are those of the one around it.
    pub fn release_sub(&mut self) {
        let around = self.depth.checked_sub(1).expect("a subtransaction is open");
        self.depth = around;
        for taken in self.held.iter_mut().filter_map(|held| held.transaction.as_mut()) {
            *taken = around.min(*taken);
        }
        if let Some(RowPlace::Taken(taken)) = &mut self.row {
            *taken = around.min(*taken);
        }
    }

    pub(super) fn remember(&mut self, tag: LockTag, mode: LockMode, scope: Scope) {
        let depth = self.depth;
        if self.entry(tag, mode).is_none() {
            self.held.push(Held { tag, mode, transaction: None, session: 0 });
        }
        let held = self.entry(tag, mode).expect("just made, if it was not there");
        match scope {
            Scope::Transaction => held.transaction = held.transaction.or(Some(depth)),
            Scope::Session => held.session += 1,
        }
    }

    /// Gives up one reason for a lock. False if it was not held for that reason.
    pub(super) fn give_up(&mut self, tag: LockTag, mode: LockMode, scope: Scope) -> bool {
        let Some(held) = self.entry(tag, mode) else { return false };
        match scope {
            Scope::Transaction => held.transaction.take().is_some(),
            Scope::Session => {
                let was = held.session;
                held.session = was.saturating_sub(1);
                was > 0
            }
        }
    }

    /// Removes what is held for no reason any more. Returns it.
    pub(super) fn take_given_up(&mut self) -> Vec<(LockTag, LockMode)> {
        let gone = |held: &mut Held| held.transaction.is_none() && held.session == 0;
        self.held.extract_if(.., gone).map(|held| (held.tag, held.mode)).collect()
    }

    /// Gives up what the innermost subtransaction took.
    pub(super) fn give_up_sub(&mut self) {
        let depth = self.depth;
        self.depth = depth.checked_sub(1).expect("a subtransaction is open");
        for held in self.held.iter_mut().filter(|held| held.transaction == Some(depth)) {
            held.transaction = None;
        }
    }

    /// Gives up all that the transaction took, or all that the session took.
    pub(super) fn give_up_all(&mut self, scope: Scope) {
        for held in &mut self.held {
            match scope {
                Scope::Transaction => held.transaction = None,
                Scope::Session => held.session = 0,
            }
        }
        if scope == Scope::Transaction {
            self.depth = 0;
        }
    }

    /// Whether its session holds locks that do not end with the transaction.
    pub(super) fn has_session_locks(&self) -> bool {
        self.held.iter().any(|held| held.session > 0)
    }

    /// Notes a weak lock in the list. False if there may be a strong lock on the object, or if the
    /// list is full.
    pub(super) fn note(&mut self, strong: &StrongCounts, tag: LockTag, mode: LockMode) -> bool {
        let mut entries = self.list.entries.lock();
        let free = entries.len() < self.list.room && !strong.any(tag);
        if free {
            entries.push((tag, mode));
            self.noted += 1;
        }
        free
    }

    /// Removes a weak lock from the list. False if it is not there: it is in the table.
    pub(super) fn unnote(&mut self, tag: LockTag, mode: LockMode) -> bool {
        let mut entries = self.list.entries.lock();
        let Some(at) = entries.iter().position(|entry| *entry == (tag, mode)) else { return false };
        entries.swap_remove(at);
        self.noted -= 1;
        true
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
        self.depth = 0;
        std::mem::take(&mut self.in_table)
    }
}
