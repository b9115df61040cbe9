//! Weak locks without the table's mutex.
//!
//! Short statements lock in modes that never conflict with each other ([`LockMode::is_weak`]). A
//! backend notes such a lock in a list of its own, unless somebody holds or wants a strong mode on
//! a relation of the same partition. A strong request first counts itself in the partition; then it
//! moves what the lists have of its relation into the table. Later weak requests go to the table
//! too. So the table, and with it the deadlock search, knows every lock that can make anyone wait.
//!
//! ```text
//! weak:   own list locked ── count is 0? ── noted ── list unlocked        (otherwise: the table)
//! strong: table locked ── count + 1 ── each list locked, searched, unlocked ── the table
//! ```
//!
//! The list's mutex orders the two: either the strong request finds the entry, or the weak one
//! finds the count.
//!
//! Whoever finds the count at 0 after a strong lock was given back knows all that was done under
//! it: the decrement releases that, and the look at the count acquires it.

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU32, Ordering};

use super::{Interrupt, LockError, LockManager, LockMode, LockTag, OwnerId};

const PARTITIONS: usize = 256;

/// Strong locks held or asked for, by partition.
#[derive(Debug)]
pub(super) struct StrongCounts([AtomicU32; PARTITIONS]);

impl Default for StrongCounts {
    fn default() -> StrongCounts {
        StrongCounts(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl StrongCounts {
    fn partition(&self, tag: LockTag) -> &AtomicU32 {
        // The lowest bits tell the numbers of neighbours apart.
        &self.0[tag.relation as usize % PARTITIONS]
    }

    /// A strong lock is asked for.
    pub(super) fn enter(&self, tag: LockTag) {
        self.partition(tag).fetch_add(1, Ordering::Relaxed);
    }

    /// It is given back, or was not had.
    pub(super) fn leave(&self, tag: LockTag) {
        let before = self.partition(tag).fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a strong lock on {tag} was not counted");
    }

    /// Whether there may be one. The caller holds its list's mutex.
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
    /// Takes out what there is of a relation.
    pub(super) fn take(&self, tag: LockTag, mut taken: impl FnMut(LockMode)) {
        self.entries.lock().retain(|(noted, mode)| {
            if *noted == tag {
                taken(*mode);
            }
            *noted != tag
        });
    }
}

/// A backend's locks as it knows them itself: what it holds already costs it nothing.
#[derive(Debug)]
pub struct LockOwner {
    id: OwnerId,
    list: Arc<FastList>,
    /// All that it holds, wherever that is noted.
    held: Vec<(LockTag, u16)>,
    /// Entries made in the list. Others may have moved some of them into the table.
    noted: usize,
    /// Whether it has asked the table for any.
    in_table: bool,
}

impl LockOwner {
    pub(super) fn new(id: OwnerId, list: Arc<FastList>) -> LockOwner {
        LockOwner { id, list, held: Vec::new(), noted: 0, in_table: false }
    }

    pub(super) fn id(&self) -> OwnerId {
        self.id
    }

    /// The modes in which it holds a relation's lock, as a set.
    fn modes(&self, tag: LockTag) -> u16 {
        self.held.iter().find(|(held, _)| *held == tag).map_or(0, |(_, modes)| *modes)
    }

    /// Whether it holds a relation's lock in a mode, or one with a higher number.
    pub fn holds_at_least(&self, tag: LockTag, mode: LockMode) -> bool {
        self.modes(tag) >= mode.bit()
    }

    fn remember(&mut self, tag: LockTag, mode: LockMode) {
        match self.held.iter_mut().find(|(held, _)| *held == tag) {
            Some((_, modes)) => *modes |= mode.bit(),
            None => self.held.push((tag, mode.bit())),
        }
    }

    /// Notes a weak lock, if no strong one can be in its way.
    fn note(&mut self, strong: &StrongCounts, tag: LockTag, mode: LockMode) -> bool {
        let mut entries = self.list.entries.lock();
        let free = !strong.any(tag);
        if free {
            entries.push((tag, mode));
            self.noted += 1;
        }
        free
    }
}

impl LockManager {
    /// Takes a lock for a backend that has entered, as [`LockManager::acquire`] does.
    pub fn lock(
        &self,
        owner: &mut LockOwner,
        tag: LockTag,
        mode: LockMode,
        interrupt: &Interrupt,
    ) -> Result<(), LockError> {
        if owner.modes(tag) & mode.bit() != 0 {
            return Ok(());
        }
        if !mode.is_weak() || !owner.note(&self.strong, tag, mode) {
            // Before the request: it may be granted in the moment in which it is given up.
            owner.in_table = true;
            self.acquire(owner.id, tag, mode, interrupt)?;
        }
        owner.remember(tag, mode);
        Ok(())
    }

    /// Gives back all that a backend holds: the end of its transaction.
    pub fn unlock_all(&self, owner: &mut LockOwner) {
        if owner.noted > 0 {
            let mut entries = owner.list.entries.lock();
            owner.in_table |= entries.len() < owner.noted;
            entries.clear();
            owner.noted = 0;
        }
        if std::mem::take(&mut owner.in_table) {
            self.release_all(owner.id);
        }
        owner.held.clear();
    }
}
