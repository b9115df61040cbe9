//! What the record of a transaction's end says of its changes.
//!
//! A subtransaction that aborts takes the notes made in it along; what is released stays.

use forebay_format::wal::invalidation::Invalidation;
use forebay_format::wal::xact::{DroppedStats, XINFO_HAS_AE_LOCKS, XactEnd};
use forebay_format::{Oid, RelFileLocator};

/// Kind of the statistics of relations, as stored.
const RELATION_STATS: i32 = 2;

/// How far back a message about a relation is looked for, so that it is not said for each column.
const RECENT: usize = 256;

/// Something that goes if the transaction ends in this way.
#[derive(Debug, Clone, Copy)]
struct Pending<T> {
    what: T,
    at_commit: bool,
}

/// The changes, in their order.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Files.
    drops: Vec<Pending<RelFileLocator>>,
    /// Statistics of relations.
    stats: Vec<Pending<Oid>>,
    invalidations: Vec<Invalidation>,
    /// Whether it has locked a relation exclusively, which standbys know.
    pub(crate) exclusive_locks: bool,
}

/// How many there were when a subtransaction began.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct NotesBefore {
    drops: usize,
    stats: usize,
    invalidations: usize,
}

impl Notes {
    pub(crate) fn before(&self) -> NotesBefore {
        NotesBefore {
            drops: self.drops.len(),
            stats: self.stats.len(),
            invalidations: self.invalidations.len(),
        }
    }

    /// Takes away those of a subtransaction.
    pub(crate) fn split_off(&mut self, before: NotesBefore) -> Notes {
        Notes {
            drops: self.drops.split_off(before.drops),
            stats: self.stats.split_off(before.stats),
            invalidations: self.invalidations.split_off(before.invalidations),
            exclusive_locks: self.exclusive_locks,
        }
    }

    pub(crate) fn drop_file(&mut self, what: RelFileLocator, at_commit: bool) {
        self.drops.push(Pending { what, at_commit });
    }

    /// Whether the relation's files were made since a subtransaction began.
    pub(crate) fn has_made(&self, rel: RelFileLocator, since: NotesBefore) -> bool {
        self.drops.iter().skip(since.drops).any(|drop| !drop.at_commit && drop.what == rel)
    }

    pub(crate) fn drop_stats(&mut self, what: Oid, at_commit: bool) {
        self.stats.push(Pending { what, at_commit });
    }

    pub(crate) fn invalidate(&mut self, message: Invalidation) {
        let mut recent = self.invalidations.iter().rev().take(RECENT);
        let again = matches!(message, Invalidation::Relation { .. })
            && recent.any(|known| *known == message);
        if !again {
            self.invalidations.push(message);
        }
    }

    pub(crate) fn invalidations(&self) -> &[Invalidation] {
        &self.invalidations
    }

    /// The relations whose statistics go if the transaction commits, or if it aborts.
    pub(crate) fn forgotten_stats(&self, commit: bool) -> Vec<Oid> {
        at(&self.stats, commit).collect()
    }

    /// The record of a commit or an abort in a database, but for its time and subtransactions.
    pub(crate) fn end(&self, commit: bool, (db, tablespace): (Oid, Oid)) -> XactEnd {
        let stats = |object: Oid| DroppedStats { kind: RELATION_STATS, db, object: object.into() };
        let invalidations = if commit { self.messages() } else { Vec::new() };
        XactEnd {
            flags: if self.exclusive_locks { XINFO_HAS_AE_LOCKS } else { 0 },
            db: (!invalidations.is_empty()).then_some((db, tablespace)),
            rels: at(&self.drops, commit).collect(),
            dropped_stats: at(&self.stats, commit).map(stats).collect(),
            invalidations,
            ..XactEnd::default()
        }
    }

    /// The invalidations as stored: entries of caches first.
    fn messages(&self) -> Vec<[u8; Invalidation::SIZE]> {
        let is_entry = |message: &&Invalidation| matches!(message, Invalidation::Entry { .. });
        let (entries, others): (Vec<_>, Vec<_>) = self.invalidations.iter().partition(is_entry);
        entries.into_iter().chain(others).map(Invalidation::encode).collect()
    }
}

fn at<T: Copy>(pending: &[Pending<T>], commit: bool) -> impl Iterator<Item = T> {
    pending.iter().filter(move |pending| pending.at_commit == commit).map(|pending| pending.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtransaction_takes_its_notes_along() {
        let rel = |number| RelFileLocator::in_default(5, number);
        let mut notes = Notes::default();
        notes.drop_file(rel(1), true);
        notes.drop_stats(1, true);
        let before = notes.before();
        notes.drop_file(rel(2), false);
        notes.drop_stats(2, false);
        notes.drop_file(rel(3), true);
        notes.invalidate(Invalidation::Relation { db: 5, rel: 2 });
        let aborted = notes.split_off(before).end(false, (5, 1663));
        assert_eq!((aborted.rels, aborted.dropped_stats[0].object), (vec![rel(2)], 2));
        assert!(aborted.invalidations.is_empty() && aborted.db.is_none());
        let committed = notes.end(true, (5, 1663));
        assert_eq!(committed.rels, [rel(1)]);
        let stats = DroppedStats { kind: RELATION_STATS, db: 5, object: 1 };
        assert_eq!(committed.dropped_stats, [stats]);
        assert_eq!((committed.flags, committed.db), (0, None));
        assert!(notes.end(false, (5, 1663)).rels.is_empty());
    }

    #[test]
    fn invalidations_of_entries_come_first_and_relations_once() {
        let entry = |hash| Invalidation::Entry { cache: 57, db: 5, hash };
        let relation = Invalidation::Relation { db: 5, rel: 16_384 };
        let mut notes = Notes { exclusive_locks: true, ..Notes::default() };
        for message in [entry(1), relation, entry(2), relation] {
            notes.invalidate(message);
        }
        let end = notes.end(true, (5, 1663));
        let expected = [entry(1), entry(2), relation].map(|message| message.encode());
        assert_eq!(end.invalidations, expected);
        assert_eq!((end.flags, end.db), (XINFO_HAS_AE_LOCKS, Some((5, 1663))));
    }
}
