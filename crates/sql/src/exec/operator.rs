//! Operators: each pulls rows from the one below it and hands them on, one at a time.
//!
//! An operator is the state of a [`Node`] of the plan; the node has its expressions. The consumer
//! passes a function down that takes each row, which borrows from where it was read, and says
//! whether it wants another. If it does not, the operators keep their places and can go on later.
//!
//! Sort, Aggregate and Modify read all their input when they are opened.

use super::bitmap_scan::BitmapScan;
use super::eval::{Params, eval, eval_all, is_true};
use super::groups::{GroupRows, Groups};
use super::host::Host;
use super::index_scan::IndexScan;
use super::lock::locked;
use super::measure::{Moment, Spent};
use super::modify::{Modified, Modifier};
use super::parallel;
use super::row::{Flow, OwnedRow, Row, Visit};
use super::scan::{Scan, Sieve, TidScan, place_of, place_value};
use super::sort::{Sorted, Sorter};
use crate::error::{Result, SqlError, state};
use crate::plan::{Change, Expr, Grouping, Modify, Node};
use forebay_types::Datum;

/// The state of an operator.
pub(super) enum Operator {
    /// Rows made when it was opened; how many were given out.
    Rows(Vec<OwnedRow>, usize),
    Series(Series),
    Scan(Scan),
    TidScan(TidScan),
    IndexScan(Box<IndexScan>),
    BitmapScan(Box<BitmapScan>),
    /// VALUES: how many rows were given out.
    Values(usize),
    Filter(Box<Operator>),
    Project(Box<Operator>),
    Aggregate(GroupRows),
    Sort(Sorted),
    LockRows(Box<Operator>),
    Modify(Modified),
    Limit(Limit),
}

/// generate_series.
pub(super) struct Series {
    /// The next value, until it is past the end.
    next: Option<i64>,
    stop: i64,
    step: i64,
}

/// LIMIT and OFFSET.
pub(super) struct Limit {
    skip: u64,
    left: Option<u64>,
    /// None: no row is wanted any more.
    input: Option<Box<Operator>>,
}

impl Operator {
    /// Opens an operator and those below it.
    pub(super) fn open(node: &Node, params: Params<'_>, host: &mut Host) -> Result<Operator> {
        let start = host.measures.is_some().then(|| Moment::now(host.page_usage()));
        let opened = Operator::open_node(node, params, host)?;
        let spent = start.map(|start| start.spent(host.page_usage()));
        if let (Some(spent), Some(measures)) = (spent, &mut host.measures) {
            measures.opened(node, &spent);
        }
        Ok(opened)
    }

    #[inline(always)]
    fn open_node(node: &Node, params: Params<'_>, host: &mut Host) -> Result<Operator> {
        let open = |input: &Node, host: &mut Host| {
            Ok::<_, SqlError>(Box::new(Operator::open(input, params, host)?))
        };
        Ok(match node {
            Node::Filter { input, .. } => Operator::Filter(open(input, host)?),
            Node::Project { input, .. } => Operator::Project(open(input, host)?),
            Node::Aggregate { input, grouping } => {
                Operator::Aggregate(aggregated(node, input, grouping, params, host)?)
            }
            Node::Sort { .. } => Operator::Sort(sorted(node, None, params, host)?),
            Node::LockRows { input, .. } => Operator::LockRows(open(input, host)?),
            Node::Modify(modify) => Operator::Modify(modified((node, modify), params, host)?),
            Node::Limit { .. } => Operator::Limit(Limit::open(node, params, host)?),
            leaf => return Operator::open_leaf(leaf, params, host),
        })
    }

    /// The same where at most so many rows are wanted.
    #[inline(never)]
    fn open_limited(
        node: &Node,
        limit: Option<u64>,
        params: Params<'_>,
        host: &mut Host,
    ) -> Result<Operator> {
        Ok(match node {
            Node::Project { input, .. } => {
                let below = Operator::open_limited(input, limit, params, host)?;
                Operator::Project(Box::new(below))
            }
            Node::IndexScan(scan) => {
                Operator::IndexScan(Box::new(IndexScan::open(scan, limit, params, host)?))
            }
            other => Operator::open(other, params, host)?,
        })
    }

    /// Opens an operator with none below it. The frames of those above it need no room for this.
    #[inline(never)]
    fn open_leaf(node: &Node, params: Params<'_>, host: &mut Host) -> Result<Operator> {
        Ok(match node {
            Node::Result => Operator::Rows(vec![Vec::new()], 0),
            Node::View(view) => Operator::Rows(super::views::rows(*view, host)?, 0),
            Node::Function(e) => {
                Operator::Rows(vec![vec![eval(e, &[], params, host)?.into_owned()]], 0)
            }
            Node::Rows { function, args } => {
                let values = eval_all(args, &[], params, host)?;
                Operator::Rows(super::rowsets::rows_or_null(*function, &values, host)?, 0)
            }
            Node::Values(_) => Operator::Values(0),
            Node::Scan(read) => Operator::Scan(Scan::open(read, host)?),
            Node::IndexScan(scan) => {
                Operator::IndexScan(Box::new(IndexScan::open(scan, None, params, host)?))
            }
            Node::BitmapScan(scan) => {
                Operator::BitmapScan(Box::new(BitmapScan::open(scan, params, host)?))
            }
            Node::TidScan(_, tids) => Operator::TidScan(TidScan::open(tids, params, host)?),
            Node::CurrentRow(read, name) => Operator::TidScan(TidScan::at(read, name, host)?),
            Node::Series { args, .. } => match Series::open(args, params, host)? {
                Some(series) => Operator::Series(series),
                None => Operator::Rows(Vec::new(), 0),
            },
            _ => unreachable!("operators with one below them are opened with it"),
        })
    }

    /// How many rows it has changed.
    pub(super) fn changed(&self) -> u64 {
        if let Operator::Modify(modified) = self { modified.count } else { 0 }
    }

    /// Hands rows to `visit` until it wants a rest, or none are left (then `Flow::Continue`).
    pub(super) fn run(
        &mut self,
        node: &Node,
        params: Params<'_>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        if let Some(measures) = &mut host.measures
            && measures.begin()
        {
            return self.run_measured(node, params, host, visit);
        }
        match (self, node) {
            (Operator::Rows(rows, given), _) => {
                while let Some(row) = rows.get(*given) {
                    *given += 1;
                    if visit(Row::computed(row), host)? == Flow::Rest {
                        return Ok(Flow::Rest);
                    }
                }
                Ok(Flow::Continue)
            }
            (Operator::Values(given), Node::Values(rows)) => {
                run_values(rows, given, params, host, visit)
            }
            (Operator::Series(series), Node::Series { wide, .. }) => series.run(*wide, host, visit),
            (Operator::Scan(scan), Node::Scan(read)) => scan.run(read, None, host, visit),
            (Operator::TidScan(scan), Node::TidScan(read, _) | Node::CurrentRow(read, _)) => {
                scan.run(read, host, visit)
            }
            (Operator::IndexScan(scan), Node::IndexScan(read)) => scan.run(read, None, host, visit),
            (Operator::BitmapScan(scan), Node::BitmapScan(read)) => {
                scan.run(read, None, params, host, visit)
            }
            (Operator::Filter(input), Node::Filter { input: below, condition }) => {
                input.run_filtered(below, condition, params, host, visit)
            }
            (Operator::Project(input), Node::Project { input: below, output }) => {
                input.run(below, params, host, &mut |row, host| {
                    let values = eval_all(output, row.values, params, host)?;
                    visit(Row { values: &values, ctid: row.ctid }, host)
                })
            }
            (Operator::Aggregate(groups), Node::Aggregate { grouping, .. }) => {
                while let Some(row) = groups.next(grouping, host)? {
                    if visit(Row::computed(&row), host)? == Flow::Rest {
                        return Ok(Flow::Rest);
                    }
                }
                Ok(Flow::Continue)
            }
            (Operator::Sort(rows), Node::Sort { width, placed, .. }) => {
                give_out(rows, Some(*width), *placed, host, visit)
            }
            (Operator::LockRows(input), Node::LockRows { input: below, table, lock }) => {
                input.run(below, params, host, &mut |row, host| {
                    locked(row, below, table, *lock, params, host, visit)
                })
            }
            (Operator::Modify(modified), _) => match &mut modified.returned {
                Some(rows) => give_out(rows, None, false, host, visit),
                None => Ok(Flow::Continue),
            },
            (Operator::Limit(limit), Node::Limit { input, .. }) => {
                limit.run(input, params, host, visit)
            }
            _ => unreachable!("an operator runs with the node that it was opened with"),
        }
    }
}

impl Operator {
    /// Hands on the rows for which a condition is true. A scan tests it before it decodes the rest
    /// of a row.
    #[inline(always)]
    fn run_filtered(
        &mut self,
        node: &Node,
        condition: &Expr,
        params: Params<'_>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        match (&mut *self, node) {
            // Their rows are counted by themselves.
            _ if host.measures.is_some() => {}
            (Operator::Scan(scan), Node::Scan(read)) => {
                let sieve = Sieve::new(condition, params);
                return scan.run(read, Some(&sieve), host, visit);
            }
            (Operator::IndexScan(scan), Node::IndexScan(read)) => {
                let sieve = Sieve::new(condition, params);
                return scan.run(read, Some(&sieve), host, visit);
            }
            (Operator::BitmapScan(scan), Node::BitmapScan(read)) => {
                let sieve = Sieve::new(condition, params);
                return scan.run(read, Some(&sieve), params, host, visit);
            }
            _ => {}
        }
        self.run(node, params, host, &mut |row, host| {
            let wanted = is_true(condition, row.values, params, host)?;
            if wanted { visit(row, host) } else { Ok(Flow::Continue) }
        })
    }
}

impl Operator {
    /// Runs an operator, and notes what it does. Its time is that of its own call without the calls
    /// that it makes upward.
    #[inline(never)]
    fn run_measured(
        &mut self,
        node: &Node,
        params: Params<'_>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        if let Some(measures) = &mut host.measures {
            measures.expect();
        }
        let start = Moment::now(host.page_usage());
        let (mut rows, mut above, mut first) = (0, Spent::default(), None);
        let flow = self.run(node, params, host, &mut |row, host| {
            rows += 1;
            if first.is_none() {
                first = Some(start.spent(host.page_usage()).without(&above));
            }
            let handed = Moment::now(host.page_usage());
            let flow = visit(row, host);
            above.add(&handed.spent(host.page_usage()));
            flow
        });
        let spent = start.spent(host.page_usage()).without(&above);
        if let Some(measures) = &mut host.measures {
            measures.ran(node, rows, first, spent);
            match self {
                Operator::IndexScan(scan) => measures.scanned(node, scan.stats()),
                Operator::BitmapScan(scan) => measures.scanned_by_bitmap(node, scan.stats()),
                _ => {}
            }
        }
        flow
    }
}

/// The rows of groups, over all rows of the input.
fn aggregated(
    node: &Node,
    input: &Node,
    grouping: &Grouping,
    params: Params<'_>,
    host: &mut Host,
) -> Result<GroupRows> {
    if let Some(rows) = parallel::aggregated(node, grouping, params, host, run_over)? {
        return Ok(rows);
    }
    if let Some(table) = node.counted_table()
        && host.measures.is_none()
    {
        let count = host.call(|session| session.count_rows(table))?;
        return Groups::counted(grouping, count, host).rows(host);
    }
    let mut groups = Groups::new(grouping, host);
    Operator::open(input, params, host)?.run(input, params, host, &mut |row, host| {
        groups.add(grouping, row.values, params, host)?;
        Ok(Flow::Continue)
    })?;
    groups.rows(host)
}

/// Hands the rows that a plan makes of those of a scan, which has begun, to `visit`.
fn run_over(
    node: &Node,
    scan: Scan,
    params: Params<'_>,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    fn over(node: &Node, scan: Scan) -> Operator {
        match node {
            Node::Filter { input, .. } => Operator::Filter(Box::new(over(input, scan))),
            Node::Project { input, .. } => Operator::Project(Box::new(over(input, scan))),
            Node::Scan(_) => Operator::Scan(scan),
            _ => unreachable!("workers share a scan, its filters and projections"),
        }
    }
    over(node, scan).run(node, params, host, visit)
}

/// The rows of a Sort's input in order; `keep`: only so many of them are wanted.
fn sorted(node: &Node, keep: Option<u64>, params: Params<'_>, host: &mut Host) -> Result<Sorted> {
    let Node::Sort { input, keys, placed, .. } = node else {
        unreachable!("only a Sort is sorted")
    };
    let mut sorter = Sorter::new(keys, keep, host);
    let (below, output) = match &**input {
        // What a projection computes is moved into the sort rather than copied.
        Node::Project { input, output } => (&**input, Some(output)),
        other => (other, None),
    };
    Operator::open(below, params, host)?.run(below, params, host, &mut |row, host| {
        let mut values = match output {
            Some(output) => eval_all(output, row.values, params, host)?,
            None => row.values.iter().cloned().collect(),
        };
        if *placed {
            // The place stands behind all columns.
            values.push(place_value(row.ctid.expect("the rows are a table's")));
        }
        sorter.push(values.into_iter().map(Datum::into_owned).collect(), host)?;
        Ok(Flow::Continue)
    })?;
    sorter.finish(host)
}

/// The rows of VALUES, from number `given` on.
fn run_values(
    rows: &[Vec<Expr>],
    given: &mut usize,
    params: Params<'_>,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    while let Some(row) = rows.get(*given) {
        *given += 1;
        let values = eval_all(row, &[], params, host)?;
        if visit(Row::computed(&values), host)? == Flow::Rest {
            return Ok(Flow::Rest);
        }
    }
    Ok(Flow::Continue)
}

/// Hands on rows that are kept: of each the first `width` columns, or all; its place is the last
/// column, if it is `placed`.
fn give_out(
    rows: &mut Sorted,
    width: Option<usize>,
    placed: bool,
    host: &mut Host,
    visit: Visit<'_>,
) -> Result<Flow> {
    while let Some(row) = rows.next(host)? {
        let ctid = if placed { row.last().and_then(place_of) } else { None };
        let (values, _) = row.split_at(width.unwrap_or(row.len()));
        if visit(Row { values, ctid }, host)? == Flow::Rest {
            return Ok(Flow::Rest);
        }
    }
    Ok(Flow::Continue)
}

/// Changes all rows of the input.
#[inline(never)]
fn modified(
    (node, modify): (&Node, &Modify),
    params: Params<'_>,
    host: &mut Host,
) -> Result<Modified> {
    let mut modifier = Modifier::new(modify, host);
    let mut input = Operator::open(&modify.input, params, host)?;
    let mut take = |row: Row<'_>, host: &mut Host| modifier.take(row, params, host);
    if let Err(error) = input.run(&modify.input, params, host, &mut take) {
        return Err(modifier.ended_by(error, host));
    }
    let modified = modifier.finish(host)?;
    if let (Some(measures), Change::Insert(Some(_))) = (&mut host.measures, &modify.change) {
        measures.conflicted(node, modified.conflicts);
    }
    Ok(modified)
}

impl Limit {
    fn open(node: &Node, params: Params<'_>, host: &mut Host) -> Result<Limit> {
        let Node::Limit { input, limit, offset } = node else {
            unreachable!("only a Limit limits")
        };
        let skip = row_count(offset.as_ref(), "OFFSET", "2201X", params, host)?.unwrap_or(0);
        let left = row_count(limit.as_ref(), "LIMIT", "2201W", params, host)?;
        if left == Some(0) {
            return Ok(Limit { skip, left, input: None });
        }
        let keep = left.map(|n| n.saturating_add(skip));
        let input = match &**input {
            sort @ Node::Sort { .. } if host.measures.is_none() => {
                Operator::Sort(sorted(sort, keep, params, host)?)
            }
            other => Operator::open_limited(other, keep, params, host)?,
        };
        Ok(Limit { skip, left, input: Some(Box::new(input)) })
    }

    fn run(
        &mut self,
        node: &Node,
        params: Params<'_>,
        host: &mut Host,
        visit: Visit<'_>,
    ) -> Result<Flow> {
        let Limit { skip, left, input } = self;
        let Some(operator) = input else { return Ok(Flow::Continue) };
        let flow = operator.run(node, params, host, &mut |row, host| {
            if *skip > 0 {
                *skip -= 1;
                return Ok(Flow::Continue);
            }
            let flow = visit(row, host)?;
            if let Some(left) = left.as_mut() {
                *left -= 1;
            }
            Ok(if *left == Some(0) { Flow::Rest } else { flow })
        })?;
        if *left == Some(0) {
            *input = None;
            return Ok(Flow::Continue);
        }
        Ok(flow)
    }
}

/// The value of LIMIT or OFFSET; NULL is no limit.
fn row_count(
    e: Option<&Expr>,
    clause: &str,
    negative: &'static str,
    params: Params<'_>,
    host: &mut Host,
) -> Result<Option<u64>> {
    let Some(e) = e else { return Ok(None) };
    match eval(e, &[], params, host)? {
        Datum::Null => Ok(None),
        Datum::Int8(n) => match u64::try_from(n) {
            Ok(n) => Ok(Some(n)),
            Err(_) => Err(SqlError::new(negative, format!("{clause} must not be negative"))),
        },
        other => {
            let message = format!("{clause} is no bigint: {other:?}");
            Err(SqlError::new(state::INTERNAL_ERROR, message))
        }
    }
}

impl Series {
    /// None if an argument is NULL.
    fn open(args: &[Expr; 3], params: Params<'_>, host: &mut Host) -> Result<Option<Series>> {
        let mut values = [None; 3];
        for (slot, arg) in values.iter_mut().zip(args) {
            *slot = match eval(arg, &[], params, host)? {
                Datum::Int4(v) => Some(i64::from(v)),
                Datum::Int8(v) => Some(v),
                _ => None,
            };
        }
        let [Some(start), Some(stop), Some(step)] = values else { return Ok(None) };
        if step == 0 {
            let message = "step size cannot equal zero";
            return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
        }
        Ok(Some(Series { next: Some(start), stop, step }))
    }

    fn run(&mut self, wide: bool, host: &mut Host, visit: Visit<'_>) -> Result<Flow> {
        let Series { next, stop, step } = self;
        while let Some(v) = *next {
            if (*step > 0 && v > *stop) || (*step < 0 && v < *stop) {
                break;
            }
            // A series ends before its type overflows.
            *next = v.checked_add(*step).filter(|n| wide || i32::try_from(*n).is_ok());
            let value = if wide { Datum::Int8(v) } else { Datum::Int4(v as i32) };
            if visit(Row::computed(&[value]), host)? == Flow::Rest {
                return Ok(Flow::Rest);
            }
            host.step()?;
        }
        *next = None;
        Ok(Flow::Continue)
    }
}
