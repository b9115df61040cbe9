//! Transaction ids that are assigned and not yet over, and the snapshots in use.
//!
//! Only transactions that have written are here, densely: a session that is idle or only reads
//! costs a snapshot nothing. A snapshot holds an `Arc<Running>`, and the array keeps a weak
//! reference to each one: that is how a snapshot is registered with its `xmin`, at no cost when it
//! is taken or dropped.

use std::sync::{Arc, Weak};

use forebay_aio as aio;
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::ids::{INVALID_OID, xid_precedes, xid_previous};
use forebay_format::{FullXid, Oid, Xid};

use crate::error::TxnError;
use crate::subtrans::Subtrans;
use crate::subxids::Subxids;

/// Subtransactions of one transaction that a snapshot lists. With more, it has overflowed: a
/// snapshot must not grow with what one transaction does.
pub(crate) const MAX_CACHED_SUBXIDS: usize = 64;

/// The transactions that were running at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// All older transactions were over.
    pub xmin: Xid,
    /// This transaction and all younger ones had not ended.
    pub xmax: Xid,
    /// Those between that were running, without subtransactions, oldest first.
    pub xids: Arc<[Xid]>,
    /// Their subtransactions, oldest first, without those of transactions that have overflowed.
    pub subxids: Arc<[Xid]>,
    /// Whether a transaction had more subtransactions than a snapshot lists.
    pub overflowed: bool,
    /// The database in which this is used; 0 if it may be any.
    pub database: Oid,
}

impl Running {
    /// No transaction was running, and the next id was `next`.
    pub fn none(next: Xid) -> Running {
        Running {
            xmin: next,
            xmax: next,
            xids: Arc::new([]),
            subxids: Arc::new([]),
            overflowed: false,
            database: INVALID_OID,
        }
    }

    /// Whether `xid` was running, or had not begun. None if only `pg_subtrans` can tell.
    #[inline]
    pub(crate) fn known(&self, xid: Xid) -> Option<bool> {
        if xid_precedes(xid, self.xmin) {
            return Some(false);
        }
        if !xid_precedes(xid, self.xmax) {
            return Some(true);
        }
        match self.lists(&self.xids, xid) || self.lists(&self.subxids, xid) {
            false if self.overflowed => None,
            listed => Some(listed),
        }
    }

    /// All ids lie within 2^31 of xmin, so their distance from it orders them.
    #[inline]
    fn lists(&self, xids: &[Xid], xid: Xid) -> bool {
        let distance = |x: Xid| x.wrapping_sub(self.xmin);
        xids.binary_search_by_key(&distance(xid), |&x| distance(x)).is_ok()
    }

    /// Whether `xid` was running, or had not begun.
    ///
    /// # Panics
    /// If only `pg_subtrans` can tell: use [`Running::contains_in`] where it may have overflowed.
    #[inline]
    pub fn contains(&self, xid: Xid) -> bool {
        self.known(xid).expect("an overflowed snapshot is asked through pg_subtrans")
    }

    /// Whether `xid` was running, or had not begun. Looks for its parent if the list of
    /// subtransactions is not complete.
    pub fn contains_in(
        &self,
        io: &mut aio::IoBackend,
        subtrans: &Subtrans,
        xid: Xid,
    ) -> Result<bool, TxnError> {
        if let Some(known) = self.known(xid) {
            return Ok(known);
        }
        let top = subtrans.topmost(io, xid, self.xmin)?;
        Ok(!xid_precedes(top, self.xmin) && self.lists(&self.xids, top))
    }
}

/// A session's last look at the running transactions: valid until one of them ends. It does not
/// keep that look in use, so it does not hold back the horizon.
#[derive(Debug, Default)]
pub struct LastRunning(Option<(u64, Weak<Running>)>);

/// The oldest transactions that anybody may still count as running, by kind of relation. What an
/// older transaction deleted and committed, nobody sees any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizons {
    /// No snapshot in use, and none taken later, counts an older transaction as running.
    pub considered_running: FullXid,
    /// For relations that all databases share.
    pub shared: FullXid,
    /// For the catalogs of one database.
    pub catalog: FullXid,
    /// For other tables of one database.
    pub data: FullXid,
    /// For temporary tables of one session, which nobody else reads.
    pub temporary: FullXid,
}

/// The set of running transactions, and the snapshots in use.
#[derive(Debug)]
pub struct ProcArray {
    state: Mutex<State>,
    /// Number of transactions and aborted subtransactions that are over. Changed under the mutex.
    ended: AtomicU64,
    /// No older transaction runs. Changed under the mutex, when one ends.
    all_over_before: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Oldest first: ids are assigned in order.
    xids: Vec<FullXid>,
    /// What else is known of each of them.
    entries: Vec<Entry>,
    /// The youngest that is over.
    latest_completed: FullXid,
    /// One for each database that has asked. Valid until a transaction ends: a new one lies beyond
    /// its `xmax` anyway.
    current: Vec<Arc<Running>>,
    /// Every [`Running`] that may be in use by a snapshot, by ascending `xmin`.
    in_use: Vec<Weak<Running>>,
    /// The length of `in_use` at which it is searched for entries that are not in use any more.
    prune_at: usize,
}

/// A running transaction.
#[derive(Debug)]
struct Entry {
    database: Oid,
    /// The backend that runs it.
    backend: u32,
    /// Its subtransactions.
    subxids: Subxids,
}

impl Entry {
    fn has_overflowed(&self) -> bool {
        self.subxids.len() > MAX_CACHED_SUBXIDS
    }
}

/// Entries of `in_use` that are not worth a search.
const PRUNE_MIN: usize = 64;

/// Whether what is used in database `user` is of concern to database `of`. 0 stands for all.
fn concerns(user: Oid, of: Oid) -> bool {
    user == of || user == INVALID_OID || of == INVALID_OID
}

/// The full id of `xid`, which is not younger than `next`.
pub(crate) fn full_before(next: FullXid, xid: Xid) -> FullXid {
    FullXid(next.0.saturating_sub(u64::from(next.xid().wrapping_sub(xid))))
}

impl ProcArray {
    /// No transaction runs, and the next id is `next`.
    pub fn new(next: FullXid) -> ProcArray {
        ProcArray {
            state: Mutex::new(State {
                xids: Vec::new(),
                entries: Vec::new(),
                latest_completed: full_before(next, xid_previous(next.xid())),
                current: Vec::new(),
                in_use: Vec::new(),
                prune_at: PRUNE_MIN,
            }),
            ended: AtomicU64::new(0),
            all_over_before: AtomicU64::new(next.0),
        }
    }

    /// Adds a transaction. The caller holds the lock under which ids are assigned, so ids come in
    /// order, and no younger transaction can end before this one is added.
    pub(crate) fn enter(&self, xid: FullXid, database: Oid, backend: u32) {
        let mut state = self.state.lock();
        debug_assert!(state.xids.last().is_none_or(|last| *last < xid));
        state.xids.push(xid);
        state.entries.push(Entry { database, backend, subxids: Subxids::default() });
    }

    /// Adds a subtransaction of `top` to the transaction's list, under the same lock. Its parent is
    /// in `pg_subtrans`.
    pub(crate) fn enter_sub(&self, top: FullXid, xid: FullXid, list: &mut Subxids) {
        let mut state = self.state.lock();
        debug_assert!(list.youngest(top).unwrap_or(top) < xid);
        list.add(xid.xid());
        if let Some(entry) = state.entry(top).filter(|entry| !entry.subxids.is_shared()) {
            entry.subxids = list.clone();
        }
    }

    /// Removes a transaction with its subtransactions: from now on their outcomes in `pg_xact`
    /// count.
    pub(crate) fn leave(&self, xid: FullXid) {
        let mut state = self.state.lock();
        let mut latest = xid;
        match state.xids.binary_search(&xid) {
            Ok(index) => {
                state.xids.remove(index);
                let entry = state.entries.remove(index);
                latest = entry.subxids.youngest(xid).unwrap_or(xid);
            }
            Err(_) => debug_assert!(false, "transaction {xid} was not running"),
        }
        self.note_end(&mut state, latest);
    }

    /// Removes a subtransaction of `top` that has aborted from the transaction's list, with all
    /// that began in it.
    pub(crate) fn leave_sub(&self, top: FullXid, aborted: FullXid, list: &Subxids) {
        let mut state = self.state.lock();
        let latest = list.youngest(top).unwrap_or(aborted);
        list.remove_since(aborted.xid());
        self.note_end(&mut state, latest);
    }

    fn note_end(&self, state: &mut State, latest: FullXid) {
        state.latest_completed = state.latest_completed.max(latest);
        state.current.clear();
        // A transaction that enters later has a younger id than all that are over.
        let oldest = state.xids.first().copied().unwrap_or(state.latest_completed.next());
        self.all_over_before.store(oldest.0, Ordering::Release);
        // Before anyone can hear of the end, through a lock or from the client.
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// Changes whenever a transaction or a subtransaction ends.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// The running transactions, for use in a database. Takes no lock if none has ended since the
    /// last call.
    pub fn running_since(&self, last: &mut LastRunning, database: Oid) -> Arc<Running> {
        if let Some((ended, running)) = &last.0
            && *ended == self.ended.load(Ordering::Acquire)
            && let Some(running) = running.upgrade()
            && running.database == database
        {
            return running;
        }
        let mut state = self.state.lock();
        let running = state.running_now(database);
        last.0 = Some((self.ended.load(Ordering::Relaxed), Arc::downgrade(&running)));
        running
    }

    /// The transactions that run now, for use in a database; 0 if it may be any.
    pub fn running(&self, database: Oid) -> Arc<Running> {
        self.state.lock().running_now(database)
    }

    /// The horizon: no snapshot in use, and none taken later, counts an older transaction as
    /// running. What an older transaction deleted and committed, nobody sees any more.
    pub fn horizon(&self) -> Xid {
        let state = self.state.lock();
        state.oldest_of(INVALID_OID).xid()
    }

    /// All horizons, for a session in `database` whose transaction has the id `own`.
    pub fn horizons(&self, database: Oid, own: Option<FullXid>) -> Horizons {
        let state = self.state.lock();
        let all = state.oldest_of(INVALID_OID);
        let data = state.oldest_of(database);
        Horizons {
            considered_running: all,
            shared: all,
            catalog: data,
            data,
            temporary: own.unwrap_or(state.latest_completed.next()),
        }
    }

    /// Whether a snapshot is in use in a database, or in all of them, that counts `limit` or an
    /// older transaction as the oldest one that ran.
    pub fn has_snapshot_up_to(&self, database: Oid, limit: Xid) -> bool {
        let state = self.state.lock();
        let mut in_use = state.in_use.iter().filter_map(Weak::upgrade);
        in_use.any(|running| {
            concerns(running.database, database)
                && !xid_precedes(limit, running.xmin)
                && !state.is_idle(&running)
        })
    }

    /// The oldest transaction that runs.
    pub fn oldest(&self) -> Option<FullXid> {
        self.state.lock().xids.first().copied()
    }

    /// Number of running transactions.
    pub fn count(&self) -> usize {
        self.state.lock().xids.len()
    }

    /// All running transactions, oldest first, without their subtransactions.
    pub fn all(&self) -> Vec<FullXid> {
        self.state.lock().xids.clone()
    }

    /// All running transactions and the youngest one that is over, all older than `next`.
    pub(crate) fn all_before(&self, next: FullXid) -> AllRunning {
        let state = self.state.lock();
        let old = |xid: &&FullXid| **xid < next;
        AllRunning {
            xids: state.xids.iter().filter(old).map(|xid| xid.xid()).collect(),
            subxids: state.listed_subxids().filter(|xid| old(&xid)).map(FullXid::xid).collect(),
            overflowed: state.entries.iter().any(Entry::has_overflowed),
            latest_completed: state.latest_completed,
        }
    }

    /// All running transactions and subtransactions, with the backends that run them.
    pub fn all_with_backends(&self) -> Vec<(Xid, u32)> {
        let state = self.state.lock();
        let entries = state.xids.iter().zip(&state.entries);
        let of = |(xid, entry): (&FullXid, &Entry)| {
            let all = std::iter::once(xid.xid()).chain(entry.subxids.all());
            all.map(|xid| (xid, entry.backend)).collect::<Vec<_>>()
        };
        entries.filter(|(_, entry)| entry.backend != 0).flat_map(of).collect()
    }

    /// All running transactions with their backends, oldest first.
    pub fn runners(&self) -> Vec<(FullXid, u32)> {
        let state = self.state.lock();
        state.xids.iter().zip(&state.entries).map(|(xid, entry)| (*xid, entry.backend)).collect()
    }

    /// Whether a transaction or subtransaction runs.
    pub fn is_running(&self, xid: Xid) -> bool {
        let over_before = FullXid(self.all_over_before.load(Ordering::Acquire));
        if xid_precedes(xid, over_before.xid()) {
            return false;
        }
        self.state.lock().entry_of(xid).is_some()
    }

    /// The backend that runs a transaction or subtransaction; None if it is over.
    pub fn runner(&self, xid: Xid) -> Option<u32> {
        self.state.lock().entry_of(xid).map(|entry| entry.backend)
    }
}

/// All running transactions, for standbys.
#[derive(Debug)]
pub(crate) struct AllRunning {
    pub(crate) xids: Vec<Xid>,
    pub(crate) subxids: Vec<Xid>,
    pub(crate) overflowed: bool,
    pub(crate) latest_completed: FullXid,
}

impl State {
    fn entry(&mut self, top: FullXid) -> Option<&mut Entry> {
        let index = self.xids.binary_search(&top).ok();
        debug_assert!(index.is_some(), "transaction {top} is not running");
        self.entries.get_mut(index?)
    }

    fn listed_subxids(&self) -> impl Iterator<Item = FullXid> {
        let entries = self.xids.iter().zip(&self.entries);
        let listed = entries.filter(|(_, entry)| !entry.has_overflowed());
        listed.flat_map(|(top, entry)| entry.subxids.full(*top))
    }

    /// What is known of the transaction that `xid` is, or is a subtransaction of.
    fn entry_of(&self, xid: Xid) -> Option<&Entry> {
        let base = self.xids.first()?.xid();
        if xid_precedes(xid, base) {
            return None;
        }
        // All that run lie within 2^31 of the oldest.
        let distance = |x: Xid| x.wrapping_sub(base);
        // A subtransaction is younger than its transaction.
        let older = match self.xids.binary_search_by_key(&distance(xid), |x| distance(x.xid())) {
            Ok(index) => return self.entries.get(index),
            Err(index) => self.entries.get(..index)?,
        };
        older.iter().find(|entry| entry.subxids.contains(xid))
    }

    /// The oldest transaction that runs in `database`, or that a snapshot in use there counts as
    /// running; 0 stands for all databases.
    fn oldest_of(&self, database: Oid) -> FullXid {
        let next = self.latest_completed.next();
        let mut pairs = self.xids.iter().zip(&self.entries);
        let running = pairs.find(|(_, entry)| concerns(entry.database, database));
        // Ids grow with the entries, so the first one in use has the oldest.
        let mut in_use = self.in_use.iter().filter_map(Weak::upgrade);
        let snapshot =
            in_use.find(|running| concerns(running.database, database) && !self.is_idle(running));
        let snapshot = snapshot.map_or(next, |running| full_before(next, running.xmin));
        running.map_or(next, |(xid, _)| *xid).min(snapshot).min(next)
    }

    /// Whether only `current` holds it, and the caller. A session may take it at this moment, but
    /// then it sees what a snapshot taken anew would see.
    fn is_idle(&self, running: &Arc<Running>) -> bool {
        Arc::strong_count(running) == 2 && self.current.iter().any(|r| Arc::ptr_eq(r, running))
    }

    fn running_now(&mut self, database: Oid) -> Arc<Running> {
        if let Some(current) = self.current.iter().find(|r| r.database == database) {
            return Arc::clone(current);
        }
        let running = match self.current.first() {
            Some(other) => Running { database, ..Running::clone(other) },
            None => self.collect(database),
        };
        let running = Arc::new(running);
        self.current.push(Arc::clone(&running));
        if self.in_use.len() >= self.prune_at {
            self.in_use.retain(|running| running.strong_count() > 0);
            self.prune_at = PRUNE_MIN.max(2 * self.in_use.len());
        }
        self.in_use.push(Arc::downgrade(&running));
        running
    }

    fn collect(&self, database: Oid) -> Running {
        let xmax = self.latest_completed.next();
        let older = |xid: &&FullXid| **xid < xmax;
        let xids: Arc<[Xid]> = self.xids.iter().take_while(older).map(|xid| xid.xid()).collect();
        let mut subxids: Vec<FullXid> = self.listed_subxids().filter(|xid| older(&xid)).collect();
        subxids.sort_unstable();
        Running {
            xmin: xids.first().copied().unwrap_or(xmax.xid()),
            xmax: xmax.xid(),
            xids,
            subxids: subxids.iter().map(|xid| xid.xid()).collect(),
            overflowed: self.entries.iter().any(Entry::has_overflowed),
            database,
        }
    }
}
