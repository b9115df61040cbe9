//! What a transaction has done to relations: PostgreSQL's cumulative statistics, before they are
//! handed to others at its end.
//!
//! Counts of rows follow subtransactions. Rows that an aborted one inserted are dead; rows that it
//! deleted are alive again. Reads count, whatever becomes of the transaction.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_format::Oid;

/// A relation of a database, or one that all share (`db` 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CountedRelation {
    /// Its database.
    pub db: Oid,
    /// Its OID.
    pub rel: Oid,
}

/// What was counted of a relation, to be added to what was counted before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelationCounts {
    /// Scans that were begun.
    pub scans: u64,
    /// Rows that scans of a table read, or entries that scans of an index returned.
    pub returned: u64,
    /// Rows that were fetched through an index, or by a bitmap.
    pub fetched: u64,
    /// Rows inserted, committed or not.
    pub inserted: u64,
    /// Rows updated, likewise.
    pub updated: u64,
    /// Rows deleted, likewise.
    pub deleted: u64,
    /// Updates that needed no index entries.
    pub hot_updated: u64,
    /// Updates whose new version went to another page.
    pub newpage_updated: u64,
    /// A committed TRUNCATE: what was known of live and dead rows does not hold any more.
    pub truncated: bool,
    /// By how many the live rows grew since then.
    pub live: i64,
    /// By how many the dead rows grew since then.
    pub dead: i64,
    /// Rows that committed changes touched.
    pub changed: u64,
}

/// What the scans of a relation have read. They count here, in whatever thread they are.
#[derive(Debug, Default)]
pub struct ReadCounter {
    returned: AtomicU64,
    fetched: AtomicU64,
}

/// Rows that were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changed {
    inserted: u64,
    updated: u64,
    deleted: u64,
}

/// The changes of the transaction itself, or of a subtransaction that is open in it.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    depth: usize,
    rows: Changed,
    /// What was changed before the table was truncated: the file with it comes back if the level
    /// aborts.
    before_truncation: Option<Changed>,
}

#[derive(Clone, Debug, Default)]
struct Relation {
    counts: RelationCounts,
    /// The levels that have changed it, outermost first.
    levels: Vec<Level>,
    reads: Option<Arc<ReadCounter>>,
}

/// The counts of a running transaction.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    relations: BTreeMap<CountedRelation, Relation>,
    /// track_counts is off.
    disabled: bool,
}

impl ReadCounter {
    /// Counts rows that a scan of a table has read, or entries that a scan of an index returned.
    pub fn returned(&self, rows: usize) {
        self.returned.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Counts rows that were fetched through an index, or by a bitmap.
    pub fn fetched(&self, rows: usize) {
        self.fetched.fetch_add(rows as u64, Ordering::Relaxed);
    }
}

impl Changed {
    fn add(&mut self, other: Changed) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
    }
}

impl Level {
    /// What was changed, if the level aborts: what went to the new file of a truncated table goes
    /// with that.
    fn undone(self) -> Changed {
        self.before_truncation.unwrap_or(self.rows)
    }

    fn truncate(&mut self) {
        self.before_truncation.get_or_insert(self.rows);
        self.rows = Changed::default();
    }
}

impl RelationCounts {
    /// Adds what was counted later.
    pub fn add(&mut self, later: &RelationCounts) {
        let RelationCounts { scans, returned, fetched, .. } = *later;
        self.scans += scans;
        self.returned += returned;
        self.fetched += fetched;
        self.inserted += later.inserted;
        self.updated += later.updated;
        self.deleted += later.deleted;
        self.hot_updated += later.hot_updated;
        self.newpage_updated += later.newpage_updated;
        if later.truncated {
            (self.truncated, self.live, self.dead) = (true, 0, 0);
        }
        self.live += later.live;
        self.dead += later.dead;
        self.changed += later.changed;
    }

    fn count(&mut self, rows: Changed) {
        self.inserted += rows.inserted;
        self.updated += rows.updated;
        self.deleted += rows.deleted;
    }

    /// Changes that were rolled back.
    fn aborted(&mut self, level: Level) {
        let undone = level.undone();
        self.count(undone);
        self.dead += signed(undone.inserted + undone.updated);
    }

    fn committed(&mut self, level: Level) {
        let Changed { inserted, updated, deleted } = level.rows;
        self.count(level.rows);
        if level.before_truncation.is_some() {
            (self.truncated, self.live, self.dead) = (true, 0, 0);
        }
        self.live += signed(inserted) - signed(deleted);
        self.dead += signed(updated) + signed(deleted);
        self.changed += inserted + updated + deleted;
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Relation {
    fn level(&mut self, depth: usize) -> &mut Level {
        if self.levels.last().is_none_or(|level| level.depth < depth) {
            self.levels.push(Level { depth, ..Level::default() });
        }
        let last = self.levels.last_mut().expect("there is one now");
        assert_eq!(last.depth, depth, "levels end in the order of subtransactions");
        last
    }

    /// Takes the level of the innermost subtransaction, if it has changed the relation.
    fn pop(&mut self, depth: usize) -> Option<Level> {
        self.levels.pop_if(|level| level.depth == depth)
    }

    fn release(&mut self, depth: usize) {
        let Some(released) = self.pop(depth) else { return };
        let outer = self.level(depth - 1);
        if released.before_truncation.is_some() {
            // What the released one did before it counts to what the file had then.
            outer.truncate();
        }
        outer.rows.add(released.rows);
    }

    fn end(mut self, committed: bool) -> RelationCounts {
        // Subtransactions that are open end as the transaction does.
        while let Some(depth) = self.levels.last().map(|level| level.depth).filter(|d| *d > 0) {
            match committed {
                true => self.release(depth),
                false => {
                    let level = self.pop(depth).unwrap_or_default();
                    self.counts.aborted(level);
                }
            }
        }
        if let Some(level) = self.pop(0) {
            match committed {
                true => self.counts.committed(level),
                false => self.counts.aborted(level),
            }
        }
        if let Some(reads) = self.reads {
            self.counts.returned += reads.returned.load(Ordering::Relaxed);
            self.counts.fetched += reads.fetched.load(Ordering::Relaxed);
        }
        self.counts
    }
}

impl Counts {
    /// Counts nothing from now on (track_counts).
    pub fn disable(&mut self) {
        self.disabled = true;
    }

    fn relation(&mut self, of: CountedRelation) -> Option<&mut Relation> {
        (!self.disabled).then(|| self.relations.entry(of).or_default())
    }

    /// Counts a scan. What it reads is to be counted there.
    pub(crate) fn scan(&mut self, of: CountedRelation) -> Arc<ReadCounter> {
        self.count(of, |counts| counts.scans += 1);
        self.reads(of)
    }

    /// Where reads of a relation are counted.
    pub(crate) fn reads(&mut self, of: CountedRelation) -> Arc<ReadCounter> {
        match self.relation(of) {
            Some(relation) => Arc::clone(relation.reads.get_or_insert_default()),
            None => Arc::default(),
        }
    }

    /// Counts details of changes: what does not depend on the transaction's outcome.
    pub(crate) fn count(&mut self, of: CountedRelation, count: impl FnOnce(&mut RelationCounts)) {
        if let Some(relation) = self.relation(of) {
            count(&mut relation.counts);
        }
    }

    /// Counts changed rows at a depth of subtransactions.
    fn change(&mut self, of: CountedRelation, depth: usize, change: impl FnOnce(&mut Level)) {
        if let Some(relation) = self.relation(of) {
            change(relation.level(depth));
        }
    }

    pub(crate) fn inserted(&mut self, of: CountedRelation, depth: usize, rows: u64) {
        self.change(of, depth, |level| level.rows.inserted += rows);
    }

    pub(crate) fn updated(&mut self, of: CountedRelation, depth: usize) {
        self.change(of, depth, |level| level.rows.updated += 1);
    }

    pub(crate) fn deleted(&mut self, of: CountedRelation, depth: usize, rows: u64) {
        self.change(of, depth, |level| level.rows.deleted += rows);
    }

    pub(crate) fn truncated(&mut self, of: CountedRelation, depth: usize) {
        self.change(of, depth, Level::truncate);
    }

    /// The subtransaction at a depth was released into the one around it.
    pub(crate) fn release(&mut self, depth: usize) {
        self.relations.values_mut().for_each(|relation| relation.release(depth));
    }

    /// The subtransaction at a depth was aborted. The relations `made` in it are gone.
    pub(crate) fn abort(&mut self, depth: usize, made: &[Oid]) {
        if !made.is_empty() {
            self.relations.retain(|of, _| !made.contains(&of.rel));
        }
        for relation in self.relations.values_mut() {
            if let Some(level) = relation.pop(depth) {
                relation.counts.aborted(level);
            }
        }
    }

    /// Live and dead rows of a relation that the transaction has added so far, as if it had
    /// committed: others do not know of them yet.
    pub fn unreported(&self, of: CountedRelation) -> (i64, i64) {
        let Some(relation) = self.relations.get(&of) else { return (0, 0) };
        let mut sums = (0, relation.counts.dead);
        for Level { rows, .. } in &relation.levels {
            sums.0 += signed(rows.inserted) - signed(rows.deleted);
            sums.1 += signed(rows.updated) + signed(rows.deleted);
        }
        sums
    }

    /// What the transaction comes to, which has ended.
    pub fn end(self, committed: bool) -> impl Iterator<Item = (CountedRelation, RelationCounts)> {
        self.relations.into_iter().map(move |(of, relation)| (of, relation.end(committed)))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: CountedRelation = CountedRelation { db: 5, rel: 16_384 };

    fn ended(counts: Counts, committed: bool) -> RelationCounts {
        let all: Vec<_> = counts.end(committed).collect();
        assert_eq!(all.len(), 1);
        all[0].1
    }

    fn changed(counts: &mut Counts, depth: usize) {
        counts.inserted(T, depth, 10);
        counts.updated(T, depth);
        counts.deleted(T, depth, 3);
    }

    #[test]
    fn an_abort_leaves_inserted_rows_dead() {
        let mut counts = Counts::default();
        changed(&mut counts, 0);
        let committed = ended(counts.clone(), true);
        assert_eq!((committed.inserted, committed.updated, committed.deleted), (10, 1, 3));
        assert_eq!((committed.live, committed.dead, committed.changed), (7, 4, 14));
        let aborted = ended(counts, false);
        assert_eq!((aborted.inserted, aborted.updated, aborted.deleted), (10, 1, 3));
        assert_eq!((aborted.live, aborted.dead, aborted.changed), (0, 11, 0));
    }

    #[test]
    fn a_subtransaction_ends_by_itself() {
        let mut counts = Counts::default();
        counts.inserted(T, 0, 1);
        changed(&mut counts, 1);
        counts.abort(1, &[]);
        let sum = ended(counts.clone(), true);
        assert_eq!((sum.inserted, sum.live, sum.dead, sum.changed), (11, 1, 11, 1));
        // Nothing of the outer level changed the table before the inner one.
        let mut counts = Counts::default();
        changed(&mut counts, 2);
        counts.release(2);
        counts.release(1);
        assert_eq!(ended(counts.clone(), true).live, 7);
        assert_eq!(ended(counts, false).dead, 11);
    }

    #[test]
    fn what_a_truncation_removes_comes_back_with_its_abort() {
        let mut counts = Counts::default();
        counts.inserted(T, 0, 5);
        counts.truncated(T, 0);
        counts.inserted(T, 0, 2);
        counts.truncated(T, 0);
        counts.inserted(T, 0, 1);
        let committed = ended(counts.clone(), true);
        assert!(committed.truncated);
        assert_eq!((committed.inserted, committed.live, committed.dead), (1, 1, 0));
        let aborted = ended(counts, false);
        assert!(!aborted.truncated);
        assert_eq!((aborted.inserted, aborted.dead), (5, 5));
    }

    #[test]
    fn a_truncation_in_a_subtransaction_counts_if_that_does() {
        let mut counts = Counts::default();
        counts.inserted(T, 0, 5);
        counts.truncated(T, 1);
        counts.inserted(T, 1, 2);
        let mut released = counts.clone();
        released.release(1);
        let sum = ended(released, true);
        assert!(sum.truncated && sum.live == 2);
        counts.abort(1, &[]);
        let sum = ended(counts, true);
        assert!(!sum.truncated);
        assert_eq!((sum.live, sum.dead, sum.inserted), (5, 0, 5));
    }

    #[test]
    fn sums_begin_anew_with_a_truncation() {
        let mut sum = RelationCounts { live: 7, dead: 3, inserted: 9, ..RelationCounts::default() };
        let later =
            RelationCounts { truncated: true, live: 1, inserted: 1, ..RelationCounts::default() };
        sum.add(&later);
        assert_eq!((sum.live, sum.dead, sum.inserted, sum.truncated), (1, 0, 10, true));
    }

    #[test]
    fn reads_count_whatever_becomes_of_the_transaction() {
        let mut counts = Counts::default();
        let reads = counts.scan(T);
        reads.returned(20);
        counts.scan(T).returned(2);
        counts.abort(1, &[]);
        counts.reads(T).fetched(3);
        let sum = ended(counts, false);
        assert_eq!((sum.scans, sum.returned, sum.fetched), (2, 22, 3));
    }

    #[test]
    fn nothing_is_counted_if_that_is_off_and_made_relations_go() {
        let mut counts = Counts::default();
        counts.disable();
        changed(&mut counts, 0);
        counts.scan(T).returned(1);
        assert!(counts.is_empty());
        let mut counts = Counts::default();
        changed(&mut counts, 1);
        counts.abort(1, &[T.rel]);
        assert!(counts.is_empty());
    }
}
