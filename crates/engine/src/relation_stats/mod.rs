//! PostgreSQL's cumulative statistics of relations: what pg_stat_all_tables shows, and by which
//! autovacuum decides.
//!
//! - `row`: what is known of a relation
//! - `file`: kept over a clean stop
//!
//! ```text
//!   a transaction counts for itself ─ its end ─▶ its session's sums ─ somebody looks ─▶ all sums
//!        (txn: Counts, no lock)                    (a lock of its own)     (one lock)
//! ```
//!
//! Sums of sessions are collected when somebody wants to know them, so nothing is out of date and
//! no timer is needed. They are also collected before a table is truncated or dropped, and before
//! VACUUM or ANALYZE say how many rows there are: what was counted before must not be added later.

mod file;
mod row;

use std::collections::HashMap;
use std::sync::Arc;

use forebay_aio::sync::{Duration, Mutex};
use forebay_txn::{CountedRelation, Counts, RelationCounts};
use forebay_types::Oid;

use crate::clock;

pub(crate) use file::{discard, read, write};
pub use row::{MaintenanceRuns, RelationStats};

/// What a session's transactions counted since it was collected, and when a scan was last counted.
type Sums = HashMap<CountedRelation, (RelationCounts, Option<i64>)>;

/// The sums of a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionCounts(Arc<Mutex<Sums>>);

#[derive(Debug, Default)]
struct All {
    relations: HashMap<CountedRelation, RelationStats>,
    sessions: HashMap<u32, SessionCounts>,
}

/// The statistics of all relations.
#[derive(Debug, Default)]
pub(crate) struct Statistics(Mutex<All>);

/// A run of VACUUM or ANALYZE that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maintained {
    pub(crate) relation: CountedRelation,
    /// Live and dead rows.
    pub(crate) live: u64,
    pub(crate) dead: u64,
    pub(crate) took: Duration,
    /// Whether autovacuum ran it.
    pub(crate) automatic: bool,
}

fn add(sums: &mut Sums, of: CountedRelation, counts: &RelationCounts) {
    let (sum, last_scan) = sums.entry(of).or_default();
    sum.add(counts);
    if counts.scans > 0 {
        *last_scan = Some(clock::now());
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl All {
    fn take(&mut self, sums: Sums) {
        for (of, (counts, last_scan)) in sums {
            self.relations.entry(of).or_default().add(&counts, last_scan);
        }
    }

    /// Collects the sums of all sessions.
    fn collect(&mut self) {
        let sums: Vec<Sums> =
            self.sessions.values().map(|of| std::mem::take(&mut *of.0.lock())).collect();
        sums.into_iter().for_each(|sums| self.take(sums));
    }
}

impl Statistics {
    /// Begins with what the last clean stop kept.
    pub(crate) fn load(&self, relations: HashMap<CountedRelation, RelationStats>) {
        self.0.lock().relations = relations;
    }

    /// A session begins.
    pub(crate) fn enter(&self, session: u32) -> SessionCounts {
        let counts = SessionCounts::default();
        self.0.lock().sessions.insert(session, counts.clone());
        counts
    }

    /// A session ends.
    pub(crate) fn leave(&self, session: u32) {
        let mut all = self.0.lock();
        if let Some(left) = all.sessions.remove(&session) {
            let sums = std::mem::take(&mut *left.0.lock());
            all.take(sums);
        }
    }

    /// Takes what a session's transaction has counted, which has ended, and still has its locks.
    /// The relations `forgotten` of its database `db` are gone.
    pub(crate) fn ended(
        &self,
        session: &SessionCounts,
        counts: Counts,
        committed: bool,
        (db, forgotten): (Oid, &[Oid]),
    ) {
        if counts.is_empty() && forgotten.is_empty() {
            return;
        }
        let stays = |of: &CountedRelation| !forgotten.contains(&of.rel);
        let counted: Vec<_> = counts.end(committed).filter(|(of, _)| stays(of)).collect();
        if forgotten.is_empty() && !counted.iter().any(|(_, counts)| counts.truncated) {
            let mut sums = session.0.lock();
            counted.iter().for_each(|(of, counts)| add(&mut sums, *of, counts));
            return;
        }
        let mut all = self.0.lock();
        all.collect();
        let mut sums = Sums::new();
        counted.iter().for_each(|(of, counts)| add(&mut sums, *of, counts));
        all.take(sums);
        for &rel in forgotten {
            all.relations.remove(&CountedRelation { db, rel });
        }
    }

    /// A database was dropped.
    pub(crate) fn forget_database(&self, db: Oid) {
        let mut all = self.0.lock();
        all.collect();
        all.relations.retain(|relation, _| relation.db != db);
    }

    /// Gives a relation what was counted of another, which it replaces.
    pub(crate) fn copy(&self, from: CountedRelation, to: CountedRelation) {
        let mut all = self.0.lock();
        all.collect();
        if let Some(stats) = all.relations.get(&from).copied() {
            all.relations.insert(to, stats);
        }
    }

    /// A table was vacuumed.
    pub(crate) fn vacuumed(&self, done: &Maintained) {
        let mut all = self.0.lock();
        all.collect();
        let stats = all.relations.entry(done.relation).or_default();
        (stats.live, stats.dead, stats.inserted_since_vacuum) = (done.live, done.dead, 0);
        let runs = if done.automatic { &mut stats.autovacuums } else { &mut stats.vacuums };
        runs.ended(clock::now(), micros(done.took));
    }

    /// A table was analyzed; `all_columns`: not only some of its columns.
    pub(crate) fn analyzed(&self, done: &Maintained, all_columns: bool) {
        let mut all = self.0.lock();
        all.collect();
        let stats = all.relations.entry(done.relation).or_default();
        (stats.live, stats.dead) = (done.live, done.dead);
        if all_columns {
            stats.changed_since_analyze = 0;
        }
        let runs = if done.automatic { &mut stats.autoanalyzes } else { &mut stats.analyzes };
        runs.ended(clock::now(), micros(done.took));
    }

    /// The statistics of all relations of which anything was counted.
    pub(crate) fn get(&self) -> HashMap<CountedRelation, RelationStats> {
        let mut all = self.0.lock();
        all.collect();
        all.relations.clone()
    }
}
