//! The rows that committed transactions have left, and which of them a crash may take.

use std::collections::{BTreeMap, VecDeque};

/// The version of each row, by the row's id.
pub(crate) type Rows = BTreeMap<i64, i64>;
/// What a transaction changes: the new version of a row, or None if it is deleted.
pub(crate) type Changes = BTreeMap<i64, Option<i64>>;

/// Applies changes to rows.
pub(crate) fn apply(rows: &mut Rows, changes: &Changes) {
    for (&id, &version) in changes {
        match version {
            Some(version) => rows.insert(id, version),
            None => rows.remove(&id),
        };
    }
}

/// What the committed transactions have left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committed {
    /// After the transactions that are surely durable.
    durable: Rows,
    /// The transactions after those, in the order of their commits. A crash leaves the first of
    /// them, some, or all.
    later: VecDeque<Changes>,
    /// After all of them.
    now: Rows,
    /// The number of commits so far.
    commits: usize,
    /// The last id or version that was used.
    used: i64,
}

impl Committed {
    /// What a transaction sees now.
    pub(crate) fn now(&self) -> &Rows {
        &self.now
    }

    /// A number that no row and no version has had.
    pub(crate) fn fresh(&mut self) -> i64 {
        self.used += 1;
        self.used
    }

    /// Leaves out all numbers up to this one.
    pub(crate) fn skip_to(&mut self, number: i64) {
        self.used = self.used.max(number);
    }

    /// The number of commits so far.
    pub(crate) fn commits(&self) -> usize {
        self.commits
    }

    /// A transaction has committed, or its commit was sent and no answer came.
    pub(crate) fn commit(&mut self, changes: Changes) {
        apply(&mut self.now, &changes);
        self.later.push_back(changes);
        self.commits += 1;
    }

    /// The first `commits` commits are durable.
    pub(crate) fn durable(&mut self, commits: usize) {
        let doubtful = self.commits.saturating_sub(commits);
        while self.later.len() > doubtful {
            apply(&mut self.durable, &self.later.pop_front().expect("there are some"));
        }
    }

    /// Compares with the rows found after the end of a life: what is found is what remained.
    ///
    /// # Errors
    /// What is lost, or there without a commit.
    pub(crate) fn settle(&mut self, found: &[(i64, i64)]) -> Result<(), String> {
        let rows: Rows = found.iter().copied().collect();
        if rows.len() != found.len() {
            return Err(format!("a row is there twice: {found:?}"));
        }
        let mut state = self.durable.clone();
        let mut later = self.later.iter();
        while state != rows {
            let Some(changes) = later.next() else { return Err(self.difference(&rows)) };
            apply(&mut state, changes);
        }
        (self.durable, self.now) = (rows.clone(), rows);
        self.later.clear();
        Ok(())
    }

    fn difference(&self, found: &Rows) -> String {
        let doubtful = self.later.len();
        let in_doubt = |id: &i64| self.later.iter().any(|changes| changes.contains_key(id));
        let all: Vec<i64> = self.durable.keys().chain(found.keys()).copied().collect();
        let differing = all.into_iter().find(|id| self.durable.get(id) != found.get(id));
        let sure = all_but(&self.durable, in_doubt).find(|(id, v)| found.get(id) != Some(v));
        match (sure, differing) {
            (Some((id, version)), _) => format!(
                "row {id} has version {:?} instead of {version}, which is durable",
                found.get(&id)
            ),
            (None, Some(id)) => format!(
                "row {id} has version {:?} after {:?}, which fits none of the {doubtful} commits \
                 in doubt",
                found.get(&id),
                self.durable.get(&id)
            ),
            (None, None) => "the rows fit no state".to_owned(),
        }
    }
}

fn all_but(rows: &Rows, not: impl Fn(&i64) -> bool) -> impl Iterator<Item = (i64, i64)> {
    rows.iter().filter(move |(id, _)| !not(id)).map(|(id, version)| (*id, *version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed() -> Committed {
        let mut committed = Committed::default();
        committed.commit(BTreeMap::from([(1, Some(10)), (2, Some(20))]));
        committed.durable(1);
        committed.commit(BTreeMap::from([(1, Some(11)), (3, Some(30))]));
        committed.commit(BTreeMap::from([(2, None)]));
        committed
    }

    #[test]
    fn a_crash_leaves_the_first_of_the_commits_in_doubt() {
        for left in [&[(1, 10), (2, 20)][..], &[(1, 11), (2, 20), (3, 30)], &[(1, 11), (3, 30)]] {
            assert_eq!(committed().settle(left), Ok(()));
        }
        for wrong in [
            &[(1, 10)][..],
            &[(2, 20)],
            &[(1, 11), (2, 20)],
            &[(1, 10), (2, 20), (3, 30)],
            &[(1, 11), (3, 30), (4, 40)],
            &[(1, 10), (1, 11), (2, 20)],
        ] {
            assert!(committed().settle(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_durable_stays() {
        let mut sure = committed();
        sure.durable(2);
        assert!(sure.clone().settle(&[(1, 10), (2, 20)]).is_err());
        assert_eq!(sure.clone().settle(&[(1, 11), (2, 20), (3, 30)]), Ok(()));
        sure.settle(&[(1, 11), (3, 30)]).expect("right");
        assert!(sure.settle(&[(1, 11), (2, 20), (3, 30)]).is_err(), "what was found stays");
    }
}
