//! What the indexes of an engine share: the transactions, which tell when a deleted page may be
//! used again, and the running vacuums.
//!
//! A vacuum goes through an index in the order of its blocks. A split may move items from a leaf
//! that it has still to come to, to a page of lower number that was free: it would miss them. So
//! each vacuum has a cycle id, and a split during a vacuum stamps both halves with it.

use std::fmt;
use std::sync::Arc;

use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicUsize, Ordering};
use forebay_format::RelFileLocator;
use forebay_format::nbtree::MAX_CYCLE_ID;
use forebay_txn::XactManager;

use crate::error::AccessError;

/// What the indexes of an engine share.
pub struct SharedIndexes {
    pub(super) xacts: Arc<XactManager>,
    running: Mutex<Running>,
    /// Number of running vacuums. Most splits find none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Running {
    last: u16,
    vacuums: Vec<(RelFileLocator, u16)>,
}

/// Without the transactions, which would show the log and all of the engine.
impl fmt::Debug for SharedIndexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedIndexes").field("running", &self.running).finish_non_exhaustive()
    }
}

impl SharedIndexes {
    /// The state shared by the indexes of an engine with these transactions.
    pub fn new(xacts: Arc<XactManager>) -> SharedIndexes {
        SharedIndexes { xacts, running: Mutex::default(), count: AtomicUsize::new(0) }
    }

    /// The cycle id of the vacuum that runs over an index, or 0. A split asks when it has locked
    /// the page and the right half: so a vacuum that begins later still comes to both.
    pub(super) fn cycle_of(&self, locator: RelFileLocator) -> u16 {
        if self.count.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let running = self.running.lock();
        running.vacuums.iter().find(|(of, _)| *of == locator).map_or(0, |(_, id)| *id)
    }

    /// Begins a vacuum of an index. Its name is for a message.
    pub(super) fn begin_vacuum(
        &self,
        locator: RelFileLocator,
        name: &str,
    ) -> Result<VacuumCycle<'_>, AccessError> {
        let mut running = self.running.lock();
        if running.vacuums.iter().any(|(of, _)| *of == locator) {
            let problem = format!("multiple active vacuums for index \"{name}\"");
            return Err(AccessError::Internal(problem));
        }
        running.last = running.last % MAX_CYCLE_ID + 1;
        let id = running.last;
        running.vacuums.push((locator, id));
        self.count.fetch_add(1, Ordering::SeqCst);
        Ok(VacuumCycle { shared: self, locator, id })
    }
}

/// A running vacuum.
#[derive(Debug)]
pub(super) struct VacuumCycle<'a> {
    shared: &'a SharedIndexes,
    locator: RelFileLocator,
    pub(super) id: u16,
}

impl Drop for VacuumCycle<'_> {
    fn drop(&mut self) {
        let mut running = self.shared.running.lock();
        running.vacuums.retain(|(of, _)| *of != self.locator);
        self.shared.count.fetch_sub(1, Ordering::SeqCst);
    }
}
