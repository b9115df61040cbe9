//! The sessions of an engine.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU32, Ordering, fence};
use forebay_format::Xid;
use forebay_format::ids::{BOOTSTRAP_XID, INVALID_XID, xid_precedes};
use forebay_storage::progress::{Progress, RunningCommand};
use forebay_txn::locks::{Interrupt, InterruptKind};
use forebay_types::Oid;

use crate::error::EngineError;
use crate::io::OTHER_BACKENDS;

/// The first session's number. The engine's own backends have smaller numbers.
const FIRST: u32 = OTHER_BACKENDS as u32 + 1;

#[derive(Debug)]
struct State {
    sessions: HashMap<u32, Member>,
    /// Whether each slot is taken.
    slots: Vec<bool>,
    last: u32,
}

#[derive(Debug)]
struct Member {
    interrupt: Interrupt,
    slot: u32,
    shown: Arc<ShownTransaction>,
    progress: Arc<Progress>,
    /// Whether it counts for max_connections: those of the engine's own don't.
    of_client: bool,
    /// The database that it has entered; 0 before it has.
    database: Oid,
    /// The role that it has logged in as; 0 before it has.
    role: Oid,
}

impl Member {
    /// The transaction that it runs.
    fn transaction(&self) -> Option<VirtualId> {
        let number = self.shown.running.load(Ordering::SeqCst);
        (number != 0).then_some((self.slot, number))
    }
}

/// The running transaction of a session, as others see it. Sessions count their transactions.
#[derive(Debug, Default)]
pub(crate) struct ShownTransaction {
    /// The session's slot.
    slot: u32,
    /// Its number, 0 if none runs.
    running: AtomicU32,
    /// The last number.
    last: AtomicU32,
    /// What its statements see: [`NO_SNAPSHOT`], [`TAKING`], or the oldest transaction that ran
    /// when its first one took a snapshot.
    sees: AtomicU32,
}

/// The transaction has taken no snapshot.
const NO_SNAPSHOT: Xid = INVALID_XID;
/// It is about to take its first one.
const TAKING: Xid = BOOTSTRAP_XID;

impl ShownTransaction {
    /// The session begins a transaction.
    pub(crate) fn begin(&self) {
        // Only the session itself changes them.
        let number = self.last.load(Ordering::Relaxed).wrapping_add(1).max(1);
        self.last.store(number, Ordering::Relaxed);
        self.sees.store(NO_SNAPSHOT, Ordering::Relaxed);
        self.running.store(number, Ordering::SeqCst);
    }

    /// Its transaction ends. Returns the transaction's virtual id. Who waits for it counts itself
    /// before it asks whether it runs.
    pub(crate) fn end(&self) -> Option<VirtualId> {
        let number = self.running.swap(0, Ordering::SeqCst);
        (number != 0).then_some((self.slot, number))
    }

    /// Its transaction takes its first snapshot. Who waits for old snapshots may find the snapshot
    /// in use before it is told of its age.
    pub(crate) fn first_snapshot<T>(
        &self,
        take: impl FnOnce() -> T,
        xmin: impl Fn(&T) -> Xid,
    ) -> T {
        self.sees.store(TAKING, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let taken = take();
        self.sees.store(xmin(&taken), Ordering::SeqCst);
        taken
    }

    /// Whether it runs a transaction that may have a snapshot which counts `limit` or an older
    /// transaction as the oldest that ran.
    fn may_see_before(&self, limit: Xid) -> bool {
        match self.sees.load(Ordering::SeqCst) {
            NO_SNAPSHOT => false,
            TAKING => true,
            xmin => !xid_precedes(limit, xmin),
        }
    }
}

/// A transaction that may have no id: its session's slot, and its number in the session.
pub(crate) type VirtualId = (u32, u32);

/// A session's number and slot.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its number, which is not reused soon.
    pub(crate) id: u32,
    /// Its slot: the lowest free one, which is reused at once.
    pub(crate) slot: u32,
    /// Where it shows its running transaction.
    pub(crate) shown: Arc<ShownTransaction>,
    /// Where it shows its long command.
    pub(crate) progress: Arc<Progress>,
}

/// The sessions.
#[derive(Debug)]
pub(crate) struct Registry {
    max: usize,
    state: Mutex<State>,
}

impl Registry {
    /// Room for `max` sessions.
    pub(crate) fn new(max: usize) -> Registry {
        let state = State { sessions: HashMap::new(), slots: Vec::new(), last: FIRST - 1 };
        Registry { max, state: Mutex::new(state) }
    }

    /// Adds a session. 53300 if there are too many of clients.
    pub(crate) fn enter(
        &self,
        interrupt: &Interrupt,
        of_client: bool,
    ) -> Result<Entry, EngineError> {
        let mut state = self.state.lock();
        let clients = || state.sessions.values().filter(|member| member.of_client).count();
        if of_client && state.sessions.len() >= self.max && clients() >= self.max {
            return Err(EngineError::statement("53300", "sorry, too many clients already"));
        }
        // Like process ids: positive, and not reused soon.
        let mut id = state.last;
        loop {
            id = if id >= i32::MAX as u32 { FIRST } else { id + 1 };
            if !state.sessions.contains_key(&id) {
                break;
            }
        }
        state.last = id;
        let slot = state.slots.iter().position(|taken| !taken).unwrap_or(state.slots.len());
        match state.slots.get_mut(slot) {
            Some(taken) => *taken = true,
            None => state.slots.push(true),
        }
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let shown = Arc::new(ShownTransaction { slot, ..ShownTransaction::default() });
        let progress = Arc::default();
        let entry = Entry { id, slot, shown: Arc::clone(&shown), progress: Arc::clone(&progress) };
        let interrupt = interrupt.clone();
        let (database, role) = (0, 0);
        let member = Member { interrupt, slot, shown, progress, of_client, database, role };
        state.sessions.insert(id, member);
        Ok(entry)
    }

    /// The virtual ids of the running transactions (slot and number), by session.
    pub(crate) fn transactions(&self) -> HashMap<u32, VirtualId> {
        let state = self.state.lock();
        let of = |(id, member): (&u32, &Member)| Some((*id, member.transaction()?));
        state.sessions.iter().filter_map(of).collect()
    }

    /// The transactions that may have a snapshot which counts `limit` or an older transaction as
    /// the oldest that ran, with their sessions.
    pub(crate) fn seeing_before(&self, limit: Xid) -> Vec<(u32, VirtualId)> {
        fence(Ordering::SeqCst);
        let state = self.state.lock();
        let old = state.sessions.iter().filter(|(_, member)| member.shown.may_see_before(limit));
        let mut found: Vec<_> =
            old.filter_map(|(id, member)| Some((*id, member.transaction()?))).collect();
        found.sort_unstable();
        found
    }

    /// Whether a session runs this transaction.
    pub(crate) fn runs(&self, session: u32, transaction: VirtualId) -> bool {
        let state = self.state.lock();
        let member = state.sessions.get(&session);
        member.and_then(Member::transaction) == Some(transaction)
    }

    /// A session has entered a database as a role. Others may count on it from now on.
    pub(crate) fn entered(&self, id: u32, database: Oid, role: Oid) {
        if let Some(member) = self.state.lock().sessions.get_mut(&id) {
            (member.database, member.role) = (database, role);
        }
    }

    /// The sessions in a database, each with whether it is a client's.
    pub(crate) fn in_database(&self, database: Oid) -> Vec<(u32, bool)> {
        let state = self.state.lock();
        let there = state.sessions.iter().filter(|(_, member)| member.database == database);
        there.map(|(id, member)| (*id, member.of_client)).collect()
    }

    /// Whether a session is logged in as a role.
    pub(crate) fn has_role(&self, role: Oid) -> bool {
        self.state.lock().sessions.values().any(|member| member.role == role)
    }

    /// The long commands that run, by session and its database.
    pub(crate) fn commands(&self) -> Vec<(u32, Oid, RunningCommand)> {
        let state = self.state.lock();
        let of = |(id, member): (&u32, &Member)| {
            Some((*id, member.database, member.progress.running()?))
        };
        state.sessions.iter().filter_map(of).collect()
    }

    /// Number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().sessions.len()
    }

    /// Removes a session.
    pub(crate) fn leave(&self, id: u32) {
        let mut state = self.state.lock();
        let left = state.sessions.remove(&id);
        if let Some(taken) = left.and_then(|member| state.slots.get_mut(member.slot as usize)) {
            *taken = false;
        }
    }

    /// Asks every session to end.
    pub(crate) fn terminate_all(&self) {
        for member in self.state.lock().sessions.values() {
            member.interrupt.request(InterruptKind::Terminate);
        }
    }

    /// Sends a request to a session. False if there is none with this number.
    pub(crate) fn interrupt(&self, id: u32, kind: InterruptKind) -> bool {
        let state = self.state.lock();
        let interrupt = state.sessions.get(&id).map(|member| &member.interrupt);
        if let Some(interrupt) = interrupt {
            interrupt.request(kind);
        }
        interrupt.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_numbers_are_not_reused_at_once() {
        let registry = Registry::new(2);
        let interrupt = Interrupt::new();
        let Entry { id: first, slot: 0, .. } = registry.enter(&interrupt, true).expect("first")
        else {
            panic!("slot")
        };
        let Entry { id: second, slot: 1, .. } =
            registry.enter(&Interrupt::new(), true).expect("second")
        else {
            panic!("slot")
        };
        assert_eq!(registry.enter(&interrupt, true).expect_err("third").sqlstate(), "53300");
        // Those of the engine's own have room in any case.
        let own = registry.enter(&Interrupt::new(), false).expect("beside the others");
        assert_eq!(registry.len(), 3);
        registry.leave(own.id);
        registry.leave(second);
        let third = registry.enter(&Interrupt::new(), true).expect("room again");
        assert!(third.id != first && third.id != second && third.slot == 1);
        assert!(registry.interrupt(first, InterruptKind::Cancel));
        assert_eq!(interrupt.pending(), Some(InterruptKind::Cancel));
        assert!(!registry.interrupt(second, InterruptKind::Cancel));
    }
}
