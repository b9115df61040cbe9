//! Transaction ids that are assigned and not yet over, and the snapshots in use.
//!
//! A snapshot holds an `Arc<Running>`, and the array keeps a weak reference to each one: that is
//! how a snapshot is registered with its `xmin`, at no cost when it is taken or dropped.

use std::sync::{Arc, Weak};

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::{FullXid, Xid, ids::xid_precedes};

/// The transactions that were running at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// All older transactions were over.
    pub xmin: Xid,
    /// This transaction and all younger ones had not ended.
    pub xmax: Xid,
    /// Those between that were running, oldest first.
    pub xids: Box<[Xid]>,
}

impl Running {
    /// No transaction was running, and the next id was `next`.
    pub fn none(next: Xid) -> Running {
        Running { xmin: next, xmax: next, xids: Box::new([]) }
    }

    /// Whether `xid` was running, or had not begun.
    #[inline]
    pub fn contains(&self, xid: Xid) -> bool {
        if xid_precedes(xid, self.xmin) {
            return false;
        }
        if !xid_precedes(xid, self.xmax) {
            return true;
        }
        // All ids lie within 2^31 of xmin, so their distance from it orders them.
        let distance = |x: Xid| x.wrapping_sub(self.xmin);
        self.xids.binary_search_by_key(&distance(xid), |&x| distance(x)).is_ok()
    }
}

/// A session's last look at the running transactions: valid until one of them ends. It does not
/// keep that look in use, so it does not hold back the horizon.
#[derive(Debug, Default)]
pub struct LastRunning(Option<(u64, Weak<Running>)>);

/// The set of running transactions, and the snapshots in use.
#[derive(Debug)]
pub struct ProcArray {
    state: Mutex<State>,
    /// Number of transactions that are over. Changed under the mutex.
    ended: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Oldest first: ids are assigned in order.
    running: Vec<FullXid>,
    /// The youngest that is over.
    latest_completed: FullXid,
    /// Valid until a transaction ends: a new one lies beyond its `xmax` anyway.
    current: Option<Arc<Running>>,
    /// Every [`Running`] that may be in use by a snapshot, by ascending `xmin`.
    in_use: Vec<Weak<Running>>,
    /// The length of `in_use` at which it is searched for entries that are not in use any more.
    prune_at: usize,
}

/// Entries of `in_use` that are not worth a search.
const PRUNE_MIN: usize = 64;

impl ProcArray {
    /// No transaction runs, and the next id is `next`.
    pub fn new(next: FullXid) -> ProcArray {
        ProcArray {
            state: Mutex::new(State {
                running: Vec::new(),
                latest_completed: FullXid(next.0.saturating_sub(1)),
                current: None,
                in_use: Vec::new(),
                prune_at: PRUNE_MIN,
            }),
            ended: AtomicU64::new(0),
        }
    }

    /// Adds a transaction. The caller holds the lock under which ids are assigned, so ids come in
    /// order, and no younger transaction can end before this one is added.
    pub(crate) fn enter(&self, xid: FullXid) {
        let mut state = self.state.lock();
        debug_assert!(state.running.last().is_none_or(|last| *last < xid));
        state.running.push(xid);
    }

    /// Removes a transaction: from now on its outcome in `pg_xact` counts.
    pub(crate) fn leave(&self, xid: FullXid) {
        let mut state = self.state.lock();
        match state.running.binary_search(&xid) {
            Ok(index) => {
                state.running.remove(index);
            }
            Err(_) => debug_assert!(false, "transaction {xid} was not running"),
        }
        state.latest_completed = state.latest_completed.max(xid);
        state.current = None;
        // Before anyone can hear of the end, through a lock or from the client.
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// The running transactions. Takes no lock if none has ended since the last call.
    pub fn running_since(&self, last: &mut LastRunning) -> Arc<Running> {
        if let Some((ended, running)) = &last.0
            && *ended == self.ended.load(Ordering::Acquire)
            && let Some(running) = running.upgrade()
        {
            return running;
        }
        let mut state = self.state.lock();
        let running = state.running_now();
        last.0 = Some((self.ended.load(Ordering::Relaxed), Arc::downgrade(&running)));
        running
    }

    /// The horizon: no snapshot in use, and none taken later, counts an older transaction as
    /// running. What an older transaction deleted and committed, nobody sees any more.
    pub fn horizon(&self) -> Xid {
        let mut state = self.state.lock();
        let now = state.running_now().xmin;
        // Ids grow with the entries, so the first one in use has the oldest.
        state.in_use.iter().find_map(Weak::upgrade).map_or(now, |running| running.xmin)
    }

    /// The transactions that run now.
    pub fn running(&self) -> Arc<Running> {
        self.state.lock().running_now()
    }

    /// The oldest transaction that runs.
    pub fn oldest(&self) -> Option<FullXid> {
        self.state.lock().running.first().copied()
    }

    /// Number of running transactions.
    pub fn count(&self) -> usize {
        self.state.lock().running.len()
    }

    /// All running transactions, oldest first.
    pub fn all(&self) -> Vec<FullXid> {
        self.state.lock().running.clone()
    }

    /// Whether a transaction runs.
    pub fn is_running(&self, xid: Xid) -> bool {
        self.state.lock().running.iter().any(|x| x.xid() == xid)
    }
}

impl State {
    fn running_now(&mut self) -> Arc<Running> {
        if let Some(current) = &self.current {
            return current.clone();
        }
        let xmax = self.latest_completed.next();
        let xids: Box<[Xid]> =
            self.running.iter().filter(|x| **x < xmax).map(|x| x.xid()).collect();
        let xmin = xids.first().copied().unwrap_or(xmax.xid());
        let current = Arc::new(Running { xmin, xmax: xmax.xid(), xids });
        self.current = Some(current.clone());
        if self.in_use.len() >= self.prune_at {
            self.in_use.retain(|running| running.strong_count() > 0);
            self.prune_at = PRUNE_MIN.max(2 * self.in_use.len());
        }
        self.in_use.push(Arc::downgrade(&current));
        current
    }
}
