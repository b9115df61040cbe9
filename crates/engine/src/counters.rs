//! Counters of pg_stat_database.

use forebay_aio::sync::atomic::{AtomicU64, Ordering};

/// A counter that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub(crate) fn count(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// The count.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters since the engine was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Transactions committed.
    pub(crate) commits: Counter,
    /// Transactions rolled back.
    pub(crate) rollbacks: Counter,
    /// Sessions started.
    pub(crate) sessions: Counter,
    /// Deadlocks found.
    pub(crate) deadlocks: Counter,
    /// Parallel workers that statements wanted.
    pub(crate) workers_wanted: Counter,
    /// Parallel workers that they got.
    pub(crate) workers_started: Counter,
}
