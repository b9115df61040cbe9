//! What plans cost, by PostgreSQL's formulas.

use super::bounding::Bounding;
use super::catalog::Catalog;
use super::expr::{Expr, conjuncts};

use super::selectivity::{DISTINCT, Distribution, UNKNOWN_ELEMENTS};
use super::size::{TableSize, column_width, type_width, whole_rows};
use super::tree::{Change, Grouping, IndexRead, Modify, Node, TableRead};
use crate::error::Result;
use crate::settings::PlanSettings;
use forebay_engine::{EntrySource, Figures, TableIndex};
use forebay_types::{Datum, SqlType};

/// What a plan costs, and what it returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Before the first row.
    pub startup: f64,
    /// Up to the last row.
    pub total: f64,
    /// Its rows.
    pub rows: f64,
    /// Bytes of a row.
    pub width: i64,
    /// Parts of a kind that is switched off.
    pub disabled: u32,
}

impl Estimate {
    /// Whether it is better than another.
    pub(super) fn beats(&self, other: &Estimate) -> bool {
        match self.disabled.cmp(&other.disabled) {
            std::cmp::Ordering::Equal => self.total < other.total,
            less_or_more => less_or_more.is_lt(),
        }
    }
}

/// Pages of a descent from an index's root, in operators.
const PAGE_OPERATORS: f64 = 50.0;
/// Items of an inner page of an index, about.
const FANOUT: f64 = 280.0;
/// Constants from which on PostgreSQL makes a hash table of a list.
const HASHED: usize = 9;
/// Rows of a function whose rows nobody knows.
const FUNCTION_ROWS: f64 = 1000.0;

/// Estimates plans.
pub struct Estimator<'c> {
    catalog: &'c mut dyn Catalog,
    pub(super) settings: PlanSettings,
    /// The table that was looked at last: a plan has but one.
    size: Option<(u32, TableSize)>,
}

impl<'c> Estimator<'c> {
    /// With the settings of the session.
    pub fn new(catalog: &'c mut dyn Catalog) -> Estimator<'c> {
        let settings = catalog.planning();
        Estimator { catalog, settings, size: None }
    }

    /// What a plan costs.
    pub fn estimate(&mut self, node: &Node) -> Result<Estimate> {
        Ok(match node {
            Node::Filter { input, condition } => match &**input {
                Node::Scan(_)
                | Node::IndexScan(_)
                | Node::BitmapScan(_)
                | Node::TidScan(..)
                | Node::CurrentRow(..) => self.leaf(input, &conjuncts(Some(condition)))?,
                _ => self.filtered(input, condition)?,
            },
            Node::Project { input, output } => {
                let below = self.estimate(input)?;
                let cost = self.operators(output) * below.rows;
                let width = widths(output, input);
                Estimate { total: below.total + cost, width, ..below }
            }
            Node::Aggregate { input, grouping } => self.aggregate(input, grouping)?,
            Node::Sort { input, .. } => {
                let below = self.estimate(input)?;
                self.sorted(below, None)
            }
            Node::LockRows { input, .. } => {
                let below = self.estimate(input)?;
                let total = below.total + self.settings.cpu_tuple_cost * below.rows;
                Estimate { total, ..below }
            }
            Node::Limit { input, limit, offset } => {
                self.limited(input, limit.as_ref(), offset.as_ref())?
            }
            Node::Modify(modify) => self.modified(modify)?,
            leaf => self.leaf(leaf, &[])?,
        })
    }

    fn leaf(&mut self, node: &Node, conditions: &[&Expr]) -> Result<Estimate> {
        let rows_of = |rows: f64, per_row: f64, width: i64| Estimate {
            startup: 0.0,
            total: rows * per_row,
            rows,
            width,
            disabled: 0,
        };
        let settings = self.settings;
        let (tuple, operator) = (settings.cpu_tuple_cost, settings.cpu_operator_cost);
        Ok(match node {
            Node::Scan(read) => self.scan(read, conditions)?,
            Node::IndexScan(scan) => self.index_scan(scan, conditions)?,
            Node::BitmapScan(scan) => self.bitmap_scan(scan)?,
            Node::TidScan(read, _) | Node::CurrentRow(read, _) => {
                let places = if let Node::TidScan(_, tids) = node { tids.len() } else { 1 };
                let width = table_width(read);
                rows_of(places as f64, settings.random_page_cost + tuple, width)
            }
            Node::Values(rows) => {
                let width = rows.first().map_or(0, |row| row.len() as i64 * 4);
                rows_of(rows.len() as f64, tuple + operator, width)
            }
            Node::Series { args, wide } => {
                rows_of(series_rows(args), tuple, if *wide { 8 } else { 4 })
            }
            Node::Result | Node::Function(_) => rows_of(1.0, tuple, 0),
            _ => rows_of(FUNCTION_ROWS, tuple, 0),
        })
    }

    /// How large a table is.
    pub(super) fn size(&mut self, read: &TableRead) -> Result<TableSize> {
        let table = &read.table;
        if let Some((oid, size)) = self.size
            && oid == table.oid
        {
            return Ok(size);
        }
        self.catalog.find_statistics(table)?;
        let size = TableSize::of(table, self.catalog.table_blocks(table)?);
        self.size = Some((table.oid, size));
        Ok(size)
    }

    fn scan(&mut self, read: &TableRead, conditions: &[&Expr]) -> Result<Estimate> {
        let size = self.size(read)?;
        let settings = self.settings;
        let part = Distribution { table: &read.table, rows: size.rows }.all(conditions);
        let per_row = settings.cpu_tuple_cost + self.operators(conditions.iter().copied());
        let startup = self.prepared(conditions);
        Ok(Estimate {
            startup,
            total: startup + settings.seq_page_cost * size.pages + per_row * size.rows,
            rows: whole_rows(size.rows * part),
            width: table_width(read),
            disabled: u32::from(!settings.enable_seqscan),
        })
    }

    fn index_scan(&mut self, scan: &IndexRead, rest: &[&Expr]) -> Result<Estimate> {
        let IndexRead { read, tests, entries_only, .. } = scan;
        let size = self.size(read)?;
        let settings = self.settings;
        let rows = Distribution { table: &read.table, rows: size.rows };
        let tests: Vec<&Expr> = tests.iter().collect();
        let found = rows.all(&scan.all_tests());
        let blocks = self.index_blocks(scan)?;
        let (startup, total) = self.index_cost(scan, &rows, blocks);
        let fetched = whole_rows(found * size.rows);
        let read = |pages: f64| match entries_only {
            true => (pages * (1.0 - size.visible)).ceil(),
            false => pages,
        };
        // The rows' pages in any order, or one after another.
        let random =
            read(self.pages_fetched(fetched, size.pages, blocks)) * settings.random_page_cost;
        let in_order = match read((found * size.pages).ceil()) {
            pages if pages > 0.0 => {
                settings.random_page_cost + (pages - 1.0) * settings.seq_page_cost
            }
            _ => 0.0,
        };
        let ordered = correlation(scan).powi(2);
        let pages = random + ordered * (in_order - random);
        let per_row = settings.cpu_tuple_cost + self.operators(rest.iter().copied());
        let exact = scan.conditions.iter().zip(&tests).filter(|(c, _)| !c.is_partial());
        let both = exact.map(|(_, test)| *test).chain(rest.iter().copied());
        let both: Vec<&Expr> = both.chain(&scan.implied).collect();
        let off = if *entries_only { !settings.enable_indexonlyscan } else { false };
        let prepared = self.prepared(rest);
        Ok(Estimate {
            startup: startup + prepared,
            total: total + prepared + pages + per_row * fetched,
            rows: whole_rows(size.rows * rows.all(&both)),
            width: table_width(&scan.read),
            disabled: u32::from(off || !settings.enable_indexscan),
        })
    }

    /// Blocks of the index of a scan.
    pub(super) fn index_blocks(&mut self, scan: &IndexRead) -> Result<f64> {
        Ok(f64::from(self.catalog.index_blocks(&scan.read.table, &scan.index)?))
    }

    /// What it costs to find the entries: before the first one, and in all.
    pub(super) fn index_cost(
        &self,
        scan: &IndexRead,
        rows: &Distribution<'_>,
        blocks: f64,
    ) -> (f64, f64) {
        let settings = self.settings;
        let index = &scan.index;
        let size = entries_of(index, rows.rows, blocks);
        let bounding = Bounding::of(scan, rows, blocks);
        let (entries, scans) = if index.unique && bounding.one_entry {
            (1.0, bounding.scans)
        } else {
            // Neighbouring descents become one: there are hardly more than leaves.
            let scans = bounding.scans.min((blocks / 3.0).ceil()).max(1.0);
            let tests = scan.with_predicate(bounding.tests.clone());
            ((rows.rows * rows.all(&tests) / scans).round_ties_even(), scans)
        };
        let entries = entries.clamp(1.0, size.max(1.0));
        let pages = match blocks > 1.0 && size > 1.0 {
            true => (entries * blocks / size).ceil(),
            false => 1.0,
        };
        let all = scans * entries;
        let pages = match scans > 1.0 {
            true => self.pages_fetched(scans * pages, blocks, blocks),
            false => pages,
        };
        let tests: f64 = scan.tests.len() as f64 * settings.cpu_operator_cost;
        let mut total =
            pages * settings.random_page_cost + all * (settings.cpu_index_tuple_cost + tests);
        let mut startup = 0.0;
        if size > 1.0 {
            let descent = size.log2().ceil() * settings.cpu_operator_cost;
            (startup, total) = (startup + descent, total + scans * descent);
        }
        let descent = (height(blocks) + 1.0) * PAGE_OPERATORS * settings.cpu_operator_cost;
        (startup + descent, total + scans * descent)
    }

    /// Pages that are read for so many rows at random places (Mackert and Lohman).
    fn pages_fetched(&self, rows: f64, pages: f64, index_pages: f64) -> f64 {
        let pages = pages.max(1.0);
        let cache = (self.settings.effective_cache_size * pages / (pages + index_pages).max(1.0))
            .ceil()
            .max(1.0);
        let fetched = if pages <= cache {
            (2.0 * pages * rows / (2.0 * pages + rows)).min(pages)
        } else {
            let limit = 2.0 * pages * cache / (2.0 * pages - cache);
            match rows <= limit {
                true => 2.0 * pages * rows / (2.0 * pages + rows),
                false => cache + (rows - limit) * (pages - cache) / pages,
            }
        };
        fetched.ceil()
    }

    fn filtered(&mut self, input: &Node, condition: &Expr) -> Result<Estimate> {
        let below = self.estimate(input)?;
        let total = below.total + self.operators([condition]) * below.rows;
        // Columns of no table have no distribution: each part leaves what is left without one.
        let parts = conjuncts(Some(condition)).len();
        let rows = whole_rows(below.rows / 3_f64.powi(i32::try_from(parts).unwrap_or(i32::MAX)));
        Ok(Estimate { total, rows, ..below })
    }

    fn aggregate(&mut self, input: &Node, grouping: &Grouping) -> Result<Estimate> {
        let below = self.estimate(input)?;
        let settings = self.settings;
        let inputs = grouping.calls.iter().flat_map(|call| call.arg.iter().chain(&call.filter));
        let own = grouping.calls.len() as f64 * settings.cpu_operator_cost;
        let keys = grouping.keys.len() as f64 * settings.cpu_operator_cost;
        let startup = below.total + (self.operators(inputs) + own + keys) * below.rows;
        let rows = match (grouping.keys.len(), self.groups(input, grouping, below.rows)?) {
            (0, _) => 1.0,
            (_, Some(groups)) => groups,
            (keys, None) => DISTINCT.powi(i32::try_from(keys).unwrap_or(i32::MAX)).min(below.rows),
        };
        let rows = whole_rows(rows);
        let total = startup + settings.cpu_tuple_cost * rows;
        let width = grouping.calls.iter().map(|call| type_width(call.result)).sum::<i64>()
            + widths(&grouping.keys, input);
        Ok(Estimate { startup, total, rows, width, disabled: below.disabled })
    }

    /// The groups by columns of a table, so many of whose rows come. None: that is not known.
    fn groups(&mut self, input: &Node, grouping: &Grouping, rows: f64) -> Result<Option<f64>> {
        let column = |key: &Expr| match key {
            Expr::Column(column) => Some(*column),
            _ => None,
        };
        let columns: Option<Vec<usize>> = grouping.keys.iter().map(column).collect();
        let read = match input {
            Node::Filter { input, .. } => input.leaf_read().filter(|_| input.input().is_none()),
            other => other.leaf_read().filter(|_| other.input().is_none()),
        };
        let (Some(read), Some(columns)) = (read, columns) else { return Ok(None) };
        let size = self.size(read)?;
        Ok(Distribution { table: &read.table, rows: size.rows }.groups(&columns, rows))
    }

    /// The rows of a plan in order; `most`: only so many of them.
    fn sorted(&self, below: Estimate, most: Option<f64>) -> Estimate {
        let settings = self.settings;
        let rows = below.rows.max(2.0);
        let kept = most.unwrap_or(rows).min(rows).max(1.0);
        let compared = if 2.0 * kept < rows { 2.0 * kept } else { rows };
        let startup = below.total + 2.0 * settings.cpu_operator_cost * rows * compared.log2();
        Estimate {
            startup,
            total: startup + settings.cpu_operator_cost * below.rows,
            disabled: below.disabled + u32::from(!settings.enable_sort),
            ..below
        }
    }

    fn limited(
        &mut self,
        input: &Node,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
    ) -> Result<Estimate> {
        let skip = match offset {
            Some(_) => constant_rows(offset),
            None => Some(0.0),
        };
        let most = kept_rows(limit, offset);
        let below = match input {
            Node::Sort { input, .. } => {
                let below = self.estimate(input)?;
                self.sorted(below, most)
            }
            other => self.estimate(other)?,
        };
        let (run, rows) = (below.total - below.startup, below.rows.max(1.0));
        let at = |row: f64| below.startup + run * (row / rows).min(1.0);
        // What is not known is taken to be a tenth.
        let skip = skip.unwrap_or(rows / 10.0).min(below.rows);
        let count = match limit {
            None => rows - skip,
            Some(_) => constant_rows(limit).unwrap_or(rows / 10.0).min(rows - skip),
        };
        let count = count.max(1.0);
        Ok(Estimate { startup: at(skip), total: at(skip + count), rows: count, ..below })
    }

    fn modified(&mut self, modify: &Modify) -> Result<Estimate> {
        let below = self.estimate(&modify.input)?;
        let rows = if modify.returning.is_some() { below.rows } else { 0.0 };
        let width = if modify.returning.is_some() { below.width } else { 0 };
        Ok(Estimate { rows, width, ..below })
    }

    /// What it costs to evaluate expressions.
    pub(super) fn operators<'e>(&self, list: impl IntoIterator<Item = &'e Expr>) -> f64 {
        list.into_iter().map(operations).sum::<f64>() * self.settings.cpu_operator_cost
    }

    /// What it costs to prepare the evaluation of conditions.
    pub(super) fn prepared(&self, conditions: &[&Expr]) -> f64 {
        let mut hashed = 0;
        for condition in conditions {
            count_hashed(condition, &mut hashed);
        }
        hashed as f64 * self.settings.cpu_operator_cost
    }

    /// What a plan below an operator costs there. A Sort below a LIMIT keeps few rows; what an
    /// aggregate or a change does not use is not in the rows below it.
    pub fn estimate_below(&mut self, above: &Node, below: &Node) -> Result<Estimate> {
        let estimate = self.estimate(below)?;
        Ok(match (above, below) {
            (Node::Limit { limit, offset, .. }, Node::Sort { input, .. }) => {
                let most = kept_rows(limit.as_ref(), offset.as_ref());
                let input = self.estimate(input)?;
                self.sorted(input, most)
            }
            (Node::Aggregate { grouping, .. }, _) if !matches!(below, Node::Project { .. }) => {
                let mut used = Vec::new();
                let calls = grouping.calls.iter().flat_map(|call| call.arg.iter());
                grouping.keys.iter().chain(calls).for_each(|e| e.mark_columns(&mut used));
                let used = used.iter().enumerate().filter(|(_, used)| **used);
                let width = used.map(|(column, _)| column_of_rows(column, below)).sum();
                Estimate { width, ..estimate }
            }
            (Node::Modify(modify), _) => Estimate { width: changed_width(modify), ..estimate },
            _ => estimate,
        })
    }
}

/// Bytes of the values of expressions over the rows of a plan.
fn widths(list: &[Expr], rows: &Node) -> i64 {
    list.iter().map(|e| width(e, rows)).sum()
}

fn width(e: &Expr, rows: &Node) -> i64 {
    match e {
        Expr::Column(column) => column_of_rows(*column, rows),
        Expr::Cast { to, .. } => type_width(*to),
        Expr::Const(Datum::Text(text)) => text.len() as i64 + 1,
        Expr::Const(Datum::Int8(_)) => 8,
        Expr::Concat(_) | Expr::Call(..) => type_width(SqlType::Text),
        Expr::Compare(..) | Expr::Collated(..) | Expr::And(_) | Expr::Or(_) | Expr::IsNull(_) => 1,
        _ => type_width(SqlType::Int4),
    }
}

/// Bytes of a column of a plan's rows.
fn column_of_rows(column: usize, rows: &Node) -> i64 {
    const PLACE: i64 = 6;
    match rows {
        Node::Project { input, output } => output.get(column).map_or(PLACE, |e| width(e, input)),
        Node::Aggregate { input, grouping } => {
            let call = column.checked_sub(grouping.keys.len());
            match (grouping.keys.get(column), call.and_then(|n| grouping.calls.get(n))) {
                (Some(key), _) => width(key, input),
                (None, Some(call)) => type_width(call.result),
                (None, None) => PLACE,
            }
        }
        Node::Series { wide, .. } => {
            if *wide {
                8
            } else {
                4
            }
        }
        other => match (other.leaf_read(), other.input()) {
            (Some(read), None) => column_width(&read.table, column).unwrap_or(PLACE),
            (_, Some(input)) => column_of_rows(column, input),
            (None, None) => type_width(SqlType::Int4),
        },
    }
}

/// Bytes of what a change gets of each row: the new values, and the row's place.
fn changed_width(modify: &Modify) -> i64 {
    const PLACE: i64 = 6;
    let table = &modify.table;
    let live = || (0..table.columns.len()).filter(|index| !table.columns[*index].dropped);
    let width = |index: usize| column_width(table, index).unwrap_or(0);
    match &modify.change {
        Change::Insert(_) => live().map(width).sum(),
        Change::Update(values) => {
            let changed = live().zip(values).filter(|(n, e)| **e != Expr::Column(*n));
            changed.map(|(n, _)| width(n)).sum::<i64>() + PLACE
        }
        Change::Delete => PLACE,
    }
}

/// The rows that LIMIT and OFFSET want, if they are constants.
fn kept_rows(limit: Option<&Expr>, offset: Option<&Expr>) -> Option<f64> {
    let skip = if offset.is_some() { constant_rows(offset)? } else { 0.0 };
    Some(constant_rows(limit)? + skip)
}

fn constant_rows(e: Option<&Expr>) -> Option<f64> {
    match e {
        Some(Expr::Const(Datum::Int8(n))) => Some(*n as f64),
        _ => None,
    }
}

/// Bytes of the columns that are read of a table.
pub(super) fn table_width(read: &TableRead) -> i64 {
    let wanted = read.decode.iter().enumerate().filter(|(_, wanted)| **wanted);
    wanted.filter_map(|(index, _)| column_width(&read.table, index)).sum()
}

/// The entries of an index of so many blocks, of a table with so many rows.
fn entries_of(index: &TableIndex, rows: f64, blocks: f64) -> f64 {
    let Figures { pages, rows: counted, .. } = index.figures;
    if index.trees.predicate.is_none() {
        return rows;
    }
    // The first page has none.
    let (pages, blocks) = (f64::from(pages) - 1.0, (blocks - 1.0).max(0.0));
    match pages > 0.0 && counted >= 0.0 {
        true => (f64::from(counted) / pages * blocks).round_ties_even().min(rows),
        false => rows,
    }
}

/// The correlation between the order of an index and that of the table's rows.
fn correlation(scan: &IndexRead) -> f64 {
    /// That of several columns is less than that of the first one.
    const SEVERAL: f64 = 0.75;
    let statistics = scan.read.table.statistics.get();
    let known = match scan.index.key_sources().next() {
        Some(EntrySource::Column(first)) => {
            statistics.and_then(|all| all.column(first)?.correlation)
        }
        _ => None,
    };
    let known = known.map_or(0.0, f64::from);
    if scan.index.shape.keys.len() > 1 { known * SEVERAL } else { known }
}

/// Levels above the leaves of an index of so many blocks, about.
fn height(blocks: f64) -> f64 {
    let (mut pages, mut height) = ((blocks - 1.0).max(1.0), 0.0);
    while pages > 1.0 {
        (pages, height) = ((pages / FANOUT).ceil(), height + 1.0);
    }
    height
}

/// Operators and functions in an expression. A column that is widened to be compared costs nothing:
/// PostgreSQL has operators for the two types.
pub(super) fn operations(e: &Expr) -> f64 {
    let own = match e {
        Expr::Compare(..)
        | Expr::Collated(..)
        | Expr::Arith(..)
        | Expr::Negate(_)
        | Expr::Concat(_)
        | Expr::Like { .. }
        | Expr::IsDistinct { .. }
        | Expr::NullIf(_)
        | Expr::Call(..) => 1.0,
        Expr::InList { list, .. } if is_hashed(list) => 2.0,
        Expr::InList { list, .. } => list.len() as f64 * 0.5,
        Expr::InArray { .. } => UNKNOWN_ELEMENTS as f64 * 0.5,
        Expr::CompareRows(_, pairs, _) => pairs.len() as f64,
        Expr::Cast { .. } if super::index_read::column_of(e).is_none() => 1.0,
        _ => 0.0,
    };
    let mut sum = own;
    e.for_each_child(&mut |child| sum += operations(child));
    sum
}

/// Counts the values of lists of which PostgreSQL makes hash tables.
fn count_hashed(e: &Expr, count: &mut usize) {
    if let Expr::InList { list, .. } = e
        && is_hashed(list)
    {
        *count += list.len();
    }
    e.for_each_child(&mut |child| count_hashed(child, count));
}

fn is_hashed(list: &[Expr]) -> bool {
    list.len() >= HASHED && list.iter().all(|e| matches!(e, Expr::Const(_)))
}

/// The rows of a series between constants.
fn series_rows(args: &[Expr; 3]) -> f64 {
    let number = |e: &Expr| match e {
        Expr::Const(Datum::Int4(n)) => Some(f64::from(*n)),
        Expr::Const(Datum::Int8(n)) => Some(*n as f64),
        _ => None,
    };
    match args.each_ref().map(number) {
        [Some(start), Some(stop), Some(step)] if step != 0.0 => {
            ((stop - start) / step).floor().max(-1.0) + 1.0
        }
        _ => FUNCTION_ROWS,
    }
}

impl Node {
    /// The table that is read at the bottom of a plan.
    pub fn leaf_read(&self) -> Option<&TableRead> {
        match self {
            Node::Scan(read) | Node::TidScan(read, _) | Node::CurrentRow(read, _) => Some(read),
            Node::IndexScan(scan) => Some(&scan.read),
            Node::BitmapScan(scan) => Some(&scan.read),
            other => other.input().and_then(Node::leaf_read),
        }
    }
}

/// The best of several plans: the first of those that cost least.
pub(super) fn cheapest(plans: Vec<Node>, catalog: &mut dyn Catalog) -> Result<Node> {
    let mut estimator = Estimator::new(catalog);
    let mut best: Option<(Node, Estimate)> = None;
    for plan in plans {
        let estimate = estimator.estimate(&plan)?;
        if best.as_ref().is_none_or(|(_, least)| estimate.beats(least)) {
            best = Some((plan, estimate));
        }
    }
    Ok(best.expect("a plan among which to choose").0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_height_of_an_index_grows_with_its_pages() {
        for (blocks, expected) in [(1.0, 0.0), (2.0, 0.0), (3.0, 1.0), (281.0, 1.0), (283.0, 2.0)] {
            assert_eq!(height(blocks), expected, "{blocks}");
        }
    }

    #[test]
    fn a_series_has_rows() {
        let int = |n| Expr::Const(Datum::Int4(n));
        assert_eq!(series_rows(&[int(1), int(10), int(1)]), 10.0);
        assert_eq!(series_rows(&[int(10), int(1), int(-3)]), 4.0);
        assert_eq!(series_rows(&[int(10), int(1), int(1)]), 0.0);
        assert_eq!(series_rows(&[Expr::Param(0), int(1), int(1)]), FUNCTION_ROWS);
    }

    #[test]
    fn plans_that_are_switched_off_are_taken_last() {
        let of = |total, disabled| Estimate { startup: 0.0, total, rows: 1.0, width: 4, disabled };
        assert!(of(5.0, 0).beats(&of(6.0, 0)));
        assert!(!of(5.0, 0).beats(&of(5.0, 0)));
        assert!(of(500.0, 0).beats(&of(5.0, 1)));
        assert!(!of(5.0, 1).beats(&of(500.0, 0)));
    }
}
