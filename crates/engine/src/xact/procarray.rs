//! Transaction ids handed out and not yet over.

use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::{FullXid, Xid, ids::xid_precedes};

/// Who was running at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Everyone older was over.
    pub xmin: Xid,
    /// This one and everyone younger had not ended.
    pub xmax: Xid,
    /// Those between that were running, in order of age, oldest first.
    pub xids: Box<[Xid]>,
}

impl Running {
    /// Nobody below `next`.
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
        // All of them lie within half a circle of xmin: their distance from it orders them.
        let distance = |x: Xid| x.wrapping_sub(self.xmin);
        self.xids.binary_search_by_key(&distance(xid), |&x| distance(x)).is_ok()
    }
}

/// The transactions that ran when a session last asked; valid until one of them ends.
#[derive(Debug, Default)]
pub struct LastRunning(Option<(u64, Arc<Running>)>);

/// The set of running transactions.
#[derive(Debug)]
pub struct ProcArray {
    state: Mutex<State>,
    /// Transactions that are over. It grows under the mutex.
    ended: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Oldest first: ids are handed out in order.
    running: Vec<FullXid>,
    /// The youngest that is over.
    latest_completed: FullXid,
    /// Valid until someone completes: a new transaction lies beyond its `xmax` anyway.
    current: Option<Arc<Running>>,
}

impl ProcArray {
    /// Nobody runs; the first id handed out will be `next`.
    pub fn new(next: FullXid) -> ProcArray {
        ProcArray {
            state: Mutex::new(State {
                running: Vec::new(),
                latest_completed: FullXid(next.0.saturating_sub(1)),
                current: None,
            }),
            ended: AtomicU64::new(0),
        }
    }

    /// Enters a transaction. The caller holds the lock under which ids are handed out, so that they
    /// come in order and no younger one can complete before this one is entered.
    pub(super) fn enter(&self, xid: FullXid) {
        let mut state = self.state.lock();
        debug_assert!(state.running.last().is_none_or(|last| *last < xid));
        state.running.push(xid);
    }

    /// Takes a transaction out: from here on, what `pg_xact` says of it counts.
    pub(super) fn leave(&self, xid: FullXid) {
        let mut state = self.state.lock();
        match state.running.binary_search(&xid) {
            Ok(index) => {
                state.running.remove(index);
            }
            Err(_) => debug_assert!(false, "transaction {xid} was not running"),
        }
        state.latest_completed = state.latest_completed.max(xid);
        state.current = None;
        // Whoever heard of the end, by a lock or from its client, finds it counted.
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// The running transactions; takes no lock if none has ended since the last call.
    pub fn running_since(&self, last: &mut LastRunning) -> Arc<Running> {
        if let Some((ended, running)) = &last.0
            && *ended == self.ended.load(Ordering::Acquire)
        {
            return Arc::clone(running);
        }
        let mut state = self.state.lock();
        let running = state.running_now();
        last.0 = Some((self.ended.load(Ordering::Relaxed), Arc::clone(&running)));
        running
    }

    /// Who runs now.
    pub fn running(&self) -> Arc<Running> {
        self.state.lock().running_now()
    }

    /// The oldest transaction that runs.
    pub fn oldest(&self) -> Option<FullXid> {
        self.state.lock().running.first().copied()
    }

    /// How many run.
    pub fn count(&self) -> usize {
        self.state.lock().running.len()
    }

    /// All that run, oldest first.
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
        current
    }
}
