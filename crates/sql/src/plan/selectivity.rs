//! Which part of a table's rows a condition leaves, as PostgreSQL estimates it: by the statistics
//! of ANALYZE, or by fixed parts where there are none.
//!
//! Not estimated by statistics: LIKE, and comparisons of other expressions than columns. The ends
//! of a histogram are those of the sample; PostgreSQL looks for newer ones in an index.

use super::column_values::ColumnValues;
use super::expr::{Comparison, Expr, conjuncts};
use super::index_read::column_of;
use super::size::whole_rows;
use super::tid::is_fixed;
use forebay_collation::Collation;
use forebay_engine::{ColumnStatistics, EntrySource, Table, TableIndex};
use forebay_types::{Datum, oids};
use std::sync::Arc;

/// Different values of a column.
pub(super) const DISTINCT: f64 = 200.0;
/// The part of the rows that a range with two ends leaves, that a NULL test leaves, and LIKE.
const RANGE: f64 = 0.005;
const IS_NULL: f64 = 0.005;
const LIKE: f64 = 0.005;
/// The same of a range with one end.
pub(super) const INEQUALITY: f64 = 1.0 / 3.0;
/// A range that is empty by the statistics leaves this part; one that is so by far leaves
/// [`RANGE`].
const EMPTY: f64 = 1e-10;
const FAR_FROM_EMPTY: f64 = -0.01;

/// Elements that an array is taken to have.
pub(super) const UNKNOWN_ELEMENTS: usize = 10;

/// How the values of a table's columns are distributed.
#[derive(Clone, Debug)]
pub(super) struct Distribution<'t> {
    pub table: &'t Table,
    pub rows: f64,
}

/// A column that is compared with something, as if it stood at the left.
struct Compared<'e> {
    column: usize,
    comparison: Comparison,
    value: &'e Expr,
    collation: Option<&'e Collation>,
}

impl<'e> Compared<'e> {
    fn of(condition: &'e Expr) -> Option<Compared<'e>> {
        let (comparison, pair, collation) = match condition {
            Expr::Compare(comparison, pair) => (*comparison, pair, None),
            Expr::Collated(comparison, collation, pair) => (*comparison, pair, Some(&**collation)),
            _ => return None,
        };
        let (a, b) = &**pair;
        let right = |column, value| Some(Compared { column, comparison, value, collation });
        let left = |column, value| {
            Some(Compared { column, comparison: comparison.exchanged(), value, collation })
        };
        match (column_of(a), column_of(b)) {
            (Some(column), _) if is_fixed(b) => right(column, b),
            (_, Some(column)) if is_fixed(a) => left(column, a),
            (Some(column), _) => right(column, b),
            (None, Some(column)) => left(column, a),
            (None, None) => None,
        }
    }
}

/// The ends of a range of a column: the part of the rows that each leaves; None within: not known.
#[derive(Default)]
struct Bounds {
    column: usize,
    lower: Option<Option<f64>>,
    upper: Option<Option<f64>>,
}

/// The smaller part; what is not known counts as [`INEQUALITY`].
fn narrower(known: Option<Option<f64>>, other: Option<f64>) -> Option<Option<f64>> {
    let part = |part: Option<f64>| part.unwrap_or(INEQUALITY);
    Some(match known {
        Some(known) if part(known) <= part(other) => known,
        _ => other,
    })
}

impl Distribution<'_> {
    fn statistics(&self, column: usize) -> Option<&ColumnStatistics> {
        self.table.statistics.get()?.column(column)
    }

    fn nulls(&self, column: usize) -> f64 {
        self.statistics(column).map_or(0.0, |stats| f64::from(stats.null_fraction))
    }

    fn is_unique(&self, column: usize) -> bool {
        let unique = |index: &TableIndex| {
            index.unique
                && index.immediate
                && index.trees.predicate.is_none()
                && index.key_sources().eq([EntrySource::Column(column)])
        };
        self.table.indexes.iter().any(|index| unique(index))
    }

    /// How many different values a column has.
    pub(super) fn distinct(&self, column: usize) -> f64 {
        self.known_distinct(column).unwrap_or_else(|| self.rows.min(DISTINCT))
    }

    /// The same, unless nothing is known of them.
    pub(super) fn known_distinct(&self, column: usize) -> Option<f64> {
        let known = self.statistics(column).map_or(0.0, |stats| f64::from(stats.distinct));
        let is_bool = self.table.columns.get(column).is_some_and(|c| c.type_oid == oids::BOOL);
        match known {
            _ if self.is_unique(column) => Some(whole_rows(self.rows * (1.0 - self.nulls(column)))),
            known if known > 0.0 => Some(whole_rows(known)),
            part if part < 0.0 && self.rows > 0.0 => Some(whole_rows(-part * self.rows)),
            _ if is_bool && self.statistics(column).is_none() => Some(2.0),
            _ if self.rows < DISTINCT => Some(self.rows),
            _ => None,
        }
    }

    /// The part of the rows in which a column has a value.
    fn equal(&self, column: usize, value: &Expr) -> f64 {
        if matches!(value, Expr::Const(Datum::Null)) {
            return 0.0;
        }
        if self.is_unique(column) && self.rows >= 1.0 {
            return 1.0 / self.rows;
        }
        let distinct = self.distinct(column).max(1.0);
        let Some(stats) = self.statistics(column) else { return 1.0 / distinct };
        let not_null = 1.0 - f64::from(stats.null_fraction);
        let frequencies = || stats.common.iter().map(|(_, frequency)| f64::from(*frequency));
        let Expr::Const(value) = value else {
            // Nobody knows which value it will be.
            return (not_null / distinct).min(frequencies().next().unwrap_or(1.0));
        };
        let values = ColumnValues::of(self.table, column, stats);
        if let Some(frequency) = values.frequency(value) {
            return frequency;
        }
        let others = (distinct - stats.common.len() as f64).max(1.0);
        let rest = (not_null - frequencies().sum::<f64>()).clamp(0.0, 1.0) / others;
        rest.min(frequencies().next_back().unwrap_or(1.0))
    }

    /// The part of the rows in which a column is less or greater than a value. None: not known.
    fn inequality(&self, compared: &Compared<'_>) -> Option<f64> {
        let Compared { column, comparison, value, collation } = *compared;
        let Expr::Const(value) = value else { return None };
        let stats = self.statistics(column)?;
        let values = ColumnValues::of(self.table, column, stats).collated(collation);
        let frequencies: f64 = stats.common.iter().map(|(_, part)| f64::from(*part)).sum();
        let common = values.common_part(comparison, value)?;
        let others = self.distinct(column) - stats.common.len() as f64;
        let of_rest = values.histogram_part(comparison, value, others).unwrap_or(0.5);
        let rest = 1.0 - f64::from(stats.null_fraction) - frequencies;
        Some((common + rest * of_rest).clamp(0.0, 1.0))
    }

    /// The part of the rows for which all conditions hold.
    pub(super) fn all(&self, conditions: &[&Expr]) -> f64 {
        let mut part = 1.0;
        let mut ranges: Vec<Bounds> = Vec::new();
        for condition in conditions {
            let Some(compared) = range(condition) else {
                part *= self.one(condition);
                continue;
            };
            let known = self.inequality(&compared);
            let column = compared.column;
            let at = ranges.iter().position(|bounds| bounds.column == column);
            let at = at.unwrap_or_else(|| {
                ranges.push(Bounds { column, ..Bounds::default() });
                ranges.len() - 1
            });
            let bounds = &mut ranges[at];
            match compared.comparison {
                Comparison::Lt | Comparison::Le => bounds.upper = narrower(bounds.upper, known),
                _ => bounds.lower = narrower(bounds.lower, known),
            }
        }
        for bounds in ranges {
            part *= self.range(&bounds);
        }
        part
    }

    fn range(&self, bounds: &Bounds) -> f64 {
        match (bounds.lower, bounds.upper) {
            (Some(Some(lower)), Some(Some(upper))) => {
                // NULLs are outside of both.
                let part = lower + upper - 1.0 + self.nulls(bounds.column);
                match part {
                    part if part > 0.0 => part,
                    part if part < FAR_FROM_EMPTY => RANGE,
                    _ => EMPTY,
                }
            }
            (Some(_), Some(_)) => RANGE,
            (one, None) | (None, one) => one.flatten().unwrap_or(INEQUALITY),
        }
    }

    /// The part of the rows for which a condition holds.
    fn one(&self, condition: &Expr) -> f64 {
        let part = match condition {
            Expr::Compare(comparison, _) | Expr::Collated(comparison, ..) => {
                match (comparison, Compared::of(condition)) {
                    (Comparison::Eq, None) => 1.0 / DISTINCT,
                    (Comparison::Ne, None) => 1.0 - 1.0 / DISTINCT,
                    (Comparison::Eq, Some(of)) => self.equal(of.column, of.value),
                    (Comparison::Ne, Some(of)) => self.unequal(of.column, of.value),
                    _ => INEQUALITY,
                }
            }
            Expr::InList { expr, list, negated, .. } => {
                self.in_list(column_of(expr), list, *negated)
            }
            Expr::InArray { expr, array, negated, .. } => {
                // Nobody knows how many elements it has.
                let unknown = vec![(**array).clone(); UNKNOWN_ELEMENTS];
                self.in_list(column_of(expr), &unknown, *negated)
            }
            Expr::CompareRows(comparison, pairs, collations) => {
                let first = Box::new(pairs.first().expect("rows have columns").clone());
                let compared = match collations.first() {
                    Some(Some(by)) => Expr::Collated(*comparison, Arc::clone(by), first),
                    _ => Expr::Compare(*comparison, first),
                };
                self.all(&[&compared])
            }
            Expr::IsNull(e) => self.is_null(e),
            Expr::IsNotNull(e) => 1.0 - self.is_null(e),
            Expr::Like { negated, .. } => {
                if *negated {
                    1.0 - LIKE
                } else {
                    LIKE
                }
            }
            Expr::Not(inner) => 1.0 - self.all(&conjuncts(Some(inner))),
            Expr::And(_) => self.all(&conjuncts(Some(condition))),
            Expr::Or(list) => list.iter().fold(0.0, |sum, e| {
                let part = self.all(&conjuncts(Some(e)));
                sum + part - sum * part
            }),
            Expr::Const(Datum::Bool(true)) => 1.0,
            Expr::Const(_) => 0.0,
            Expr::Column(column) if self.statistics(*column).is_some() => {
                self.equal(*column, &Expr::Const(Datum::Bool(true)))
            }
            Expr::Column(_) | Expr::IsBool { .. } => 0.5,
            Expr::Call(..) => INEQUALITY,
            _ => 0.5,
        };
        part.clamp(0.0, 1.0)
    }

    fn unequal(&self, column: usize, value: &Expr) -> f64 {
        match value {
            Expr::Const(Datum::Null) => 0.0,
            value => 1.0 - self.equal(column, value) - self.nulls(column),
        }
    }

    fn is_null(&self, e: &Expr) -> f64 {
        let stats = column_of(e).and_then(|column| self.statistics(column));
        stats.map_or(IS_NULL, |stats| f64::from(stats.null_fraction))
    }

    /// IN: the values exclude each other, unless their parts say otherwise.
    fn in_list(&self, column: Option<usize>, list: &[Expr], negated: bool) -> f64 {
        let parts = list.iter().map(|value| match (column, negated) {
            (Some(column), false) => self.equal(column, value),
            (Some(column), true) => self.unequal(column, value),
            (None, false) => 1.0 / DISTINCT,
            (None, true) => 1.0 - 1.0 / DISTINCT,
        });
        let (mut independent, mut disjoint) = if negated { (1.0, 1.0) } else { (0.0, 0.0) };
        for part in parts {
            let part = part.clamp(0.0, 1.0);
            if negated {
                independent *= part;
                disjoint += part - 1.0;
            } else {
                independent += part - independent * part;
                disjoint += part;
            }
        }
        if (0.0..=1.0).contains(&disjoint) { disjoint } else { independent }
    }

    /// How many different combinations of values of columns there are in so many of the rows. None:
    /// not all of the columns have statistics.
    pub(super) fn groups(&self, columns: &[usize], rows: f64) -> Option<f64> {
        if columns.iter().any(|column| self.statistics(*column).is_none()) {
            return None;
        }
        /// Several columns have hardly ever more combinations than this part of the rows.
        const COMBINED: f64 = 0.1;
        let each = columns.iter().map(|column| self.distinct(*column));
        let most = each.clone().fold(1.0, f64::max);
        let all: f64 = each.product();
        let limit = match columns.len() {
            1 => self.rows,
            _ => (self.rows * COMBINED).max(most).min(self.rows),
        };
        let all = all.min(limit).max(1.0);
        // Of the groups some have none of the rows that are left.
        let found = match rows < self.rows {
            true => all * (1.0 - ((self.rows - rows) / self.rows).powf(self.rows / all)),
            false => all,
        };
        Some(whole_rows(found).min(rows))
    }
}

/// The range of a column that a condition names.
fn range(condition: &Expr) -> Option<Compared<'_>> {
    let compared = Compared::of(condition).filter(|compared| is_fixed(compared.value))?;
    (!matches!(compared.comparison, Comparison::Eq | Comparison::Ne)).then_some(compared)
}
