//! Which conditions of an index scan bound the part of the index that it reads, and in how many
//! parts that is: PostgreSQL 18's rules, skip scans included.

use super::expr::Expr;
use super::selectivity::{Distribution, INEQUALITY, UNKNOWN_ELEMENTS};
use super::tree::{IndexCondition, IndexRead};
use forebay_engine::EntrySource;

/// What bounds an index scan.
#[derive(Debug)]
pub(super) struct Bounding<'s> {
    /// The conditions, as expressions.
    pub tests: Vec<&'s Expr>,
    /// Parts of the index that are read, each after a descent from the root.
    pub scans: f64,
    /// Whether each key column is compared with one value.
    pub one_entry: bool,
}

/// The conditions on one key column.
struct OnKey<'s> {
    tests: Vec<&'s Expr>,
    /// Whether they leave single values.
    equal: bool,
    /// The values that they leave, if they are listed.
    listed: f64,
    is_null: bool,
    row: bool,
}

impl<'s> OnKey<'s> {
    fn of(scan: &'s IndexRead, key: usize) -> OnKey<'s> {
        let mut on =
            OnKey { tests: Vec::new(), equal: false, listed: 1.0, is_null: false, row: false };
        let paired = scan.conditions.iter().zip(&scan.tests);
        for (condition, test) in paired.filter(|(condition, _)| condition.key() == key) {
            on.tests.push(test);
            on.equal |= condition.is_equality();
            match condition {
                IndexCondition::AnyOf { values, .. } => on.list(values.len()),
                IndexCondition::AnyOfArray { .. } => on.list(UNKNOWN_ELEMENTS),
                IndexCondition::Null { is_null, .. } => on.is_null |= is_null,
                IndexCondition::Row { .. } => on.row = true,
                IndexCondition::Compare { .. } => {}
            }
        }
        on
    }

    fn list(&mut self, values: usize) {
        self.equal = true;
        self.listed *= (values as f64).max(1.0);
    }
}

impl<'s> Bounding<'s> {
    /// The bounds of a scan of an index with so many blocks.
    pub(super) fn of(scan: &'s IndexRead, rows: &Distribution<'_>, blocks: f64) -> Bounding<'s> {
        let columns: Vec<EntrySource> = scan.index.key_sources().collect();
        let last = scan.conditions.iter().map(IndexCondition::key).max().unwrap_or(0);
        let mut bounding = Bounding { tests: Vec::new(), scans: 1.0, one_entry: false };
        // The number of scans before values were skipped, and whether all keys have one value.
        let (mut before, mut single, mut reached) = (1.0, true, true);
        // Conditions on the next columns do not count until these skips reach them.
        for (key, column) in columns.iter().enumerate().take(last + 1) {
            let on = OnKey::of(scan, key);
            if !on.tests.is_empty() {
                if !reached {
                    break;
                }
                bounding.tests.extend(&on.tests);
                bounding.scans *= on.listed;
                before = bounding.scans;
            }
            single &= on.equal && on.listed == 1.0 && !on.is_null;
            if on.row {
                break;
            }
            if !on.equal && key < last {
                // The values of this column are skipped through one by one, if that is worth while.
                match skipped(*column, &on.tests, rows) {
                    Some(values) if bounding.scans * values <= blocks => bounding.scans *= values,
                    _ => {
                        bounding.scans = before;
                        reached = false;
                    }
                }
            }
            if !reached {
                break;
            }
        }
        bounding.one_entry = single && last + 1 == columns.len() && !scan.conditions.is_empty();
        bounding
    }
}

/// How many values of a column a skip scan visits. None: that is not known, or so few that
/// skipping is not worth while.
fn skipped(source: EntrySource, tests: &[&Expr], rows: &Distribution<'_>) -> Option<f64> {
    let EntrySource::Column(column) = source else { return None };
    let values = rows.known_distinct(column)?;
    if tests.is_empty() {
        // The first value has to be found.
        return Some(values + 1.0);
    }
    let part = rows.all(tests);
    (part >= INEQUALITY).then(|| (values * part).round_ties_even().max(1.0))
}
