//! Which indexes find the rows of a table together: bitmaps of the places that each of them finds,
//! of which one is made by AND and OR.
//!
//! Of each index all conditions that it can use count. The arms of an OR may be found by different
//! indexes. Bitmaps are combined by AND as long as that makes the scan cheaper, beginning with each
//! of them: PostgreSQL's search, which does not try all combinations.

use super::bitmap_cost::BitmapEstimate;
use super::estimate::Estimator;
use super::expr::{Comparison, Expr, conjuncts};
use super::implied::implied;
use super::implied::{is_implied, predicate_if_implied};
use super::index_read::{all_of, filtered, index_condition, key_of};
use super::tree::{Bitmap, BitmapRead, IndexRead, Node, TableRead};
use crate::error::Result;
use forebay_engine::TableIndex;
use std::sync::Arc;

/// A bitmap that could be used.
#[derive(Clone)]
struct Candidate {
    bitmap: Bitmap,
    /// The numbers of the conditions that it uses. Behind all of the query's, those of an arm.
    used: Vec<usize>,
    /// Those of which it leaves nothing to be tested. The same numbers.
    settled: Vec<usize>,
    /// What its rows satisfy.
    recheck: Vec<Expr>,
}

impl Candidate {
    fn overlaps(&self, other: &Candidate) -> bool {
        self.used.iter().any(|n| other.used.contains(n))
    }

    /// The rows of both.
    fn and(&self, other: &Candidate) -> Candidate {
        let mut parts = match &self.bitmap {
            Bitmap::And(parts) => parts.clone(),
            one => vec![one.clone()],
        };
        parts.push(other.bitmap.clone());
        let mut both = self.clone();
        both.bitmap = Bitmap::And(parts);
        both.used.extend(&other.used);
        both.settled.extend(&other.settled);
        for test in &other.recheck {
            if !both.recheck.contains(test) {
                both.recheck.push(test.clone());
            }
        }
        both
    }
}

/// The cheapest scan by a bitmap, if an index can find rows at all.
pub(super) fn bitmap_path(
    read: &TableRead,
    filter: Option<&Expr>,
    indexes: &[&Arc<TableIndex>],
    estimator: &mut Estimator<'_>,
) -> Result<Option<Node>> {
    let conditions = conjuncts(filter);
    if indexes.is_empty() || conditions.is_empty() {
        return Ok(None);
    }
    let search = Search { read, conditions, indexes };
    Ok(search.best(estimator)?.map(|best| search.node(best)))
}

struct Search<'s> {
    read: &'s TableRead,
    conditions: Vec<&'s Expr>,
    indexes: &'s [&'s Arc<TableIndex>],
}

impl Search<'_> {
    fn best(&self, estimator: &mut Estimator<'_>) -> Result<Option<Candidate>> {
        let mut candidates: Vec<Candidate> =
            self.indexes.iter().filter_map(|index| self.of_index(index, &[])).collect();
        for (number, condition) in self.conditions.iter().enumerate() {
            // An index may find all arms of the OR by itself.
            let taken = candidates.iter().any(|c| c.used.contains(&number));
            if let Expr::Or(arms) = condition
                && !taken
            {
                candidates.extend(self.of_arms(number, arms, estimator)?);
            }
        }
        self.cheapest(candidates, estimator)
    }

    /// What an index finds. `arm`: conditions of an arm of an OR, of which it must use one.
    fn of_index(&self, index: &Arc<TableIndex>, arm: &[&Expr]) -> Option<Candidate> {
        let mut found = Vec::new();
        let (mut used, mut settled) = (Vec::new(), Vec::new());
        let all: Vec<&Expr> = self.conditions.iter().chain(arm).copied().collect();
        let predicate = predicate_if_implied(index, &all)?;
        // In an arm, the index may be of use for its predicate alone.
        let by_arm =
            !predicate.is_empty() && predicate_if_implied(index, &self.conditions).is_none();
        for (number, part) in all.iter().enumerate() {
            if is_implied(predicate, part) {
                used.push(number);
                settled.push(number);
                continue;
            }
            let Some((condition, test)) = index_condition(part, index) else { continue };
            used.push(number);
            // What is only settled in part stays a filter, unless it belongs to an arm.
            let whole = !condition.is_partial();
            settled.extend(whole.then_some(number));
            let recheck = (whole || number >= self.conditions.len()).then(|| (*part).clone());
            found.push((condition, (test, recheck)));
        }
        let in_arm = arm.is_empty() || used.last().is_some_and(|n| *n >= self.conditions.len());
        if found.is_empty() && predicate.is_empty() || !in_arm && !by_arm {
            return None;
        }
        found.sort_by_key(|(condition, _)| condition.key());
        let (conditions, tests): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (tests, recheck): (_, Vec<_>) = tests.into_iter().unzip();
        let mut recheck: Vec<Expr> = recheck.into_iter().flatten().collect();
        for part in predicate {
            if !implied(&recheck.iter().collect::<Vec<_>>(), part) {
                recheck.push(part.clone());
            }
        }
        let implied = Vec::new();
        let scan = IndexRead {
            read: self.read.clone(),
            index: Arc::clone(index),
            conditions,
            tests,
            implied,
            backward: false,
            entries_only: false,
        };
        Some(Candidate { bitmap: Bitmap::Index(Box::new(scan)), used, settled, recheck })
    }

    /// What indexes find of all arms of an OR, if they do.
    fn of_arms(
        &self,
        number: usize,
        arms: &[Expr],
        estimator: &mut Estimator<'_>,
    ) -> Result<Option<Candidate>> {
        let (mut parts, mut tests, mut used) = (Vec::new(), Vec::new(), vec![number]);
        // The conditions that each arm settles: with all of its parts, the OR itself too.
        let mut settled: Vec<usize> = (0..self.conditions.len()).collect();
        let arms = self.grouped(arms);
        for arm in &arms {
            let own = conjuncts(Some(arm));
            let found = self.indexes.iter().filter_map(|index| self.of_index(index, &own));
            let Some(best) = self.cheapest(found.collect(), estimator)? else { return Ok(None) };
            let first = self.conditions.len();
            let whole = (first..first + own.len()).all(|part| best.settled.contains(&part));
            settled.retain(|n| if *n == number { whole } else { best.settled.contains(n) });
            used.extend(best.used.into_iter().filter(|n| *n < self.conditions.len()));
            tests.extend(all_of(best.recheck));
            parts.push(best.bitmap);
        }
        let recheck = if tests.len() == 1 { tests } else { vec![Expr::Or(tests)] };
        let bitmap = if parts.len() == 1 { parts.remove(0) } else { Bitmap::Or(parts) };
        Ok(Some(Candidate { bitmap, used, settled, recheck }))
    }

    /// The arms of an OR; those that compare one key with values are made one.
    fn grouped(&self, arms: &[Expr]) -> Vec<Expr> {
        let key = |arm: &Expr| match arm {
            Expr::Compare(Comparison::Eq, pair) => self.indexes.iter().find_map(|index| {
                let of = |e: &Expr| key_of(e, index).map(|_| e.clone());
                of(&pair.0).or_else(|| of(&pair.1))
            }),
            _ => None,
        };
        let mut groups: Vec<(Option<Expr>, Vec<Expr>)> = Vec::new();
        for arm in arms {
            let key = key(arm);
            let known = groups.iter_mut().find(|(other, _)| key.is_some() && *other == key);
            match known {
                Some((_, group)) => group.push(arm.clone()),
                None => groups.push((key, vec![arm.clone()])),
            }
        }
        let one = |mut group: Vec<Expr>| match group.len() {
            1 => group.remove(0),
            _ => Expr::Or(group),
        };
        groups.into_iter().map(|(_, group)| one(group)).collect()
    }

    /// The cheapest of the bitmaps and of what AND makes of them.
    fn cheapest(
        &self,
        candidates: Vec<Candidate>,
        estimator: &mut Estimator<'_>,
    ) -> Result<Option<Candidate>> {
        let size = estimator.size(self.read)?;
        let mut known: Vec<(BitmapEstimate, Candidate)> = Vec::new();
        for candidate in candidates {
            let estimate = estimator.bitmap(&candidate.bitmap, size, 0.0)?;
            // Of those that use the same conditions one is enough.
            match known.iter_mut().find(|(_, other)| other.used == candidate.used) {
                Some(other) if !candidate.used.is_empty() => {
                    if estimate.cost < other.0.cost {
                        *other = (estimate, candidate);
                    }
                }
                _ => known.push((estimate, candidate)),
            }
        }
        known.sort_by(|(a, _), (b, _)| {
            a.cost.total_cmp(&b.cost).then_with(|| a.part.total_cmp(&b.part))
        });
        let mut best: Option<(f64, Candidate)> = None;
        for (first, (_, begin)) in known.iter().enumerate() {
            let mut group = begin.clone();
            let mut cost = self.cost(&group, estimator)?;
            for (_, other) in known.iter().skip(first + 1) {
                if group.overlaps(other) {
                    continue;
                }
                let both = group.and(other);
                let of_both = self.cost(&both, estimator)?;
                if of_both < cost {
                    (group, cost) = (both, of_both);
                }
            }
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, group));
            }
        }
        Ok(best.map(|(_, best)| best))
    }

    fn cost(&self, candidate: &Candidate, estimator: &mut Estimator<'_>) -> Result<f64> {
        Ok(estimator.bitmap_scan(&self.scan(candidate))?.total)
    }

    fn scan(&self, candidate: &Candidate) -> BitmapRead {
        BitmapRead {
            read: self.read.clone(),
            bitmap: candidate.bitmap.clone(),
            recheck: all_of(candidate.recheck.clone()),
            conditions: self.conditions.iter().map(|e| (*e).clone()).collect(),
        }
    }

    /// The scan, and a filter for what the bitmap does not settle.
    fn node(&self, best: Candidate) -> Node {
        let scan = self.scan(&best);
        let numbered = self.conditions.iter().enumerate();
        let rest = numbered.filter(|(number, _)| !best.settled.contains(number));
        let rest = rest.map(|(_, e)| (*e).clone()).collect();
        filtered(Node::BitmapScan(Box::new(scan)), all_of(rest))
    }
}
