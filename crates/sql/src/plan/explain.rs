//! Plans as text, in PostgreSQL's form.
//!
//! Filters and projections have no line of their own: they belong to the operator below them.

use super::deparse::{condition, expression, identifier, index_conditions};
use super::estimate::{Estimate, Estimator, operations};
use super::expr::{Expr, conjuncts};

use super::page_usage::PageUsage;
use super::tid::places;
use super::tree::{
    Bitmap, BitmapRead, Change, ConflictUpdate, IndexRead, Node, OnConflict, SortKey, TableRead,
};
use crate::error::Result;

/// What a node has done.
#[derive(Clone, Debug, Default)]
pub struct Actual {
    /// Rows that it returned.
    pub rows: u64,
    /// Milliseconds up to its first row, and in all.
    pub time: [f64; 2],
    /// What it has done to pages.
    pub pages: PageUsage,
    /// Rows that were tested again and removed, where some were.
    pub rechecked: Option<u64>,
    /// Further lines.
    pub lines: Vec<String>,
}

/// Tells what a node has done. None: it did not run.
pub type Measured<'a, T = Node> = &'a dyn Fn(&T) -> Option<Actual>;

/// What is shown beside the nodes, and what was measured of them.
pub struct Shown<'a> {
    /// COSTS
    pub costs: bool,
    /// TIMING
    pub timing: bool,
    /// BUFFERS
    pub buffers: bool,
    /// ANALYZE
    pub actual: Option<Measured<'a>>,
    /// The same for bitmaps.
    pub bitmaps: Option<Measured<'a, Bitmap>>,
}

/// A line's operator, with the filters and projections above it.
struct Merged<'n> {
    /// The uppermost of them.
    top: &'n Node,
    /// The conditions of the filters, each with the plan over whose rows it is.
    filters: Vec<(&'n Expr, &'n Node)>,
    node: &'n Node,
}

/// The lines that show a plan.
pub fn explain(
    root: &Node,
    shown: &Shown<'_>,
    estimator: &mut Estimator<'_>,
) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let estimate = estimator.estimate(root)?;
    add(root, (0, estimate), shown, estimator, &mut lines)?;
    Ok(lines)
}

fn merged(top: &Node) -> Merged<'_> {
    let (mut node, mut filters) = (top, Vec::new());
    loop {
        node = match node {
            Node::Project { input, .. } => input,
            Node::Filter { input, condition } => {
                filters.push((condition, &**input));
                input
            }
            _ => return Merged { top, filters, node },
        };
    }
}

fn add(
    top: &Node,
    (depth, estimate): (usize, Estimate),
    shown: &Shown<'_>,
    estimator: &mut Estimator<'_>,
    lines: &mut Vec<String>,
) -> Result<()> {
    let merged = merged(top);
    let (arrow, details) = indents(depth);
    let actual = shown.actual.map(|actual| actual(merged.top));
    let title = title(merged.node);
    lines.push(first_line(&format!("{arrow}{title}"), &estimate, shown, actual.as_ref()));
    if estimate.disabled > 0 && is_disabled(merged.node, &estimate, estimator)? {
        lines.push(format!("{details}Disabled: true"));
    }
    let mut add_detail = |text: String| lines.push(format!("{details}{text}"));
    own_details(merged.node).into_iter().for_each(&mut add_detail);
    let own = shown.actual.and_then(|measured| measured(merged.node));
    if let Some(removed) = own.as_ref().and_then(|own| own.rechecked) {
        add_detail(format!("Rows Removed by Index Recheck: {removed}"));
    }
    add_detail_of_filters(&merged, &mut add_detail);
    if let (Some(own), Some(Some(actual))) = (own, &actual) {
        if !merged.filters.is_empty() && own.rows > actual.rows {
            add_detail(format!("Rows Removed by Filter: {}", own.rows - actual.rows));
        }
        own.lines.into_iter().for_each(&mut add_detail);
        if shown.buffers {
            actual.pages.lines().into_iter().for_each(&mut add_detail);
        }
    }
    if let Node::BitmapScan(scan) = merged.node {
        add_bitmap(&scan.bitmap, (scan, merged.node), depth + 1, shown, estimator, lines)?;
    }
    match merged.node.input() {
        Some(input) => {
            let estimate = estimator.estimate_below(merged.node, input)?;
            add(input, (depth + 1, estimate), shown, estimator, lines)
        }
        None => Ok(()),
    }
}

/// What stands before a line's text, and before its details. The text begins six columns behind
/// that of the line above, its details two behind it.
fn indents(depth: usize) -> (String, String) {
    match depth {
        0 => (String::new(), "  ".to_owned()),
        depth => {
            let indent = " ".repeat(6 * depth - 4);
            (format!("{indent}->  "), " ".repeat(6 * depth + 2))
        }
    }
}

/// A line with costs, and with what was measured. `actual`: None if nothing was, None within if it
/// did not run.
fn first_line(
    text: &str,
    estimate: &Estimate,
    shown: &Shown<'_>,
    actual: Option<&Option<Actual>>,
) -> String {
    let mut line = text.to_owned();
    if shown.costs {
        line.push_str(&costs(estimate));
    }
    match actual {
        None => {}
        Some(None) => line.push_str(" (never executed)"),
        Some(Some(actual)) => {
            let [first, all] = actual.time;
            let time = match shown.timing {
                true => format!("time={first:.3}..{all:.3} "),
                false => String::new(),
            };
            line.push_str(&format!(" (actual {time}rows={}.00 loops=1)", actual.rows));
        }
    }
    line
}

/// A bitmap, and those of which it is made.
fn add_bitmap(
    bitmap: &Bitmap,
    (scan, node): (&BitmapRead, &Node),
    depth: usize,
    shown: &Shown<'_>,
    estimator: &mut Estimator<'_>,
    lines: &mut Vec<String>,
) -> Result<()> {
    let (arrow, details) = indents(depth);
    let title = match bitmap {
        Bitmap::Index(index) => format!("Bitmap Index Scan on {}", identifier(&index.index.name)),
        Bitmap::And(_) => "BitmapAnd".to_owned(),
        Bitmap::Or(_) => "BitmapOr".to_owned(),
    };
    let estimate = estimator.bitmap_shown(bitmap, scan)?;
    let actual = shown.bitmaps.map(|measured| measured(bitmap));
    lines.push(first_line(&format!("{arrow}{title}"), &estimate, shown, actual.as_ref()));
    if let Bitmap::Index(index) = bitmap {
        lines.push(format!("{details}Index Cond: {}", index_conditions(index, node)));
    }
    if let Some(own) = actual.flatten() {
        let pages = if shown.buffers { own.pages.lines() } else { Vec::new() };
        let own = own.lines.into_iter().chain(pages);
        lines.extend(own.map(|line| format!("{details}{line}")));
    }
    bitmap
        .parts()
        .iter()
        .try_for_each(|part| add_bitmap(part, (scan, node), depth + 1, shown, estimator, lines))
}

/// The conditions of the filters, but for those that the node itself takes over.
fn add_detail_of_filters(merged: &Merged<'_>, add: &mut impl FnMut(String)) {
    let each = merged.filters.iter();
    let mut parts: Vec<(&Expr, &Node)> = each
        .flat_map(|&(e, over)| conjuncts(Some(e)).into_iter().map(move |part| (part, over)))
        .collect();
    if let Node::TidScan(read, _) = merged.node {
        parts.retain(|(part, _)| places(part, read.table.columns.len()).is_none());
    }
    // PostgreSQL tests the cheapest first.
    parts.sort_by(|(a, _), (b, _)| operations(a).total_cmp(&operations(b)));
    if !parts.is_empty() {
        add(format!("Filter: {}", condition(&parts)));
    }
}

/// Whether the node itself is of a kind that is switched off, and not only one below it.
fn is_disabled(node: &Node, all: &Estimate, estimator: &mut Estimator<'_>) -> Result<bool> {
    Ok(match node.input() {
        Some(input) => estimator.estimate(input)?.disabled < all.disabled,
        None => true,
    })
}

fn costs(estimate: &Estimate) -> String {
    let Estimate { startup, total, rows, width, .. } = estimate;
    format!("  (cost={startup:.2}..{total:.2} rows={rows:.0} width={width})")
}

/// A table and the name it has in the statement.
fn relation(read: &TableRead) -> String {
    let name = identifier(&read.table.name);
    match &read.alias {
        Some(alias) if *alias != read.table.name => format!("{name} {}", identifier(alias)),
        _ => name,
    }
}

fn title(node: &Node) -> String {
    match node {
        Node::Result => "Result".to_owned(),
        Node::Scan(read) => format!("Seq Scan on {}", relation(read)),
        Node::TidScan(read, _) | Node::CurrentRow(read, _) => {
            format!("Tid Scan on {}", relation(read))
        }
        Node::IndexScan(scan) => {
            let IndexRead { read, index, backward, entries_only, .. } = &**scan;
            let only = if *entries_only { "Only " } else { "" };
            let backward = if *backward { "Backward " } else { "" };
            let (index, table) = (identifier(&index.name), relation(read));
            format!("Index {only}Scan {backward}using {index} on {table}")
        }
        Node::BitmapScan(scan) => format!("Bitmap Heap Scan on {}", relation(&scan.read)),
        Node::Series { .. } => "Function Scan on generate_series".to_owned(),
        Node::View(_) | Node::Function(_) | Node::Rows { .. } => "Function Scan".to_owned(),
        Node::Values(rows) if rows.len() == 1 => "Result".to_owned(),
        Node::Values(_) => "Values Scan on \"*VALUES*\"".to_owned(),
        Node::Filter { .. } | Node::Project { .. } => unreachable!("they have no line"),
        Node::Aggregate { grouping, .. } if grouping.keys.is_empty() => "Aggregate".to_owned(),
        Node::Aggregate { .. } => "HashAggregate".to_owned(),
        Node::Sort { .. } => "Sort".to_owned(),
        Node::LockRows { .. } => "LockRows".to_owned(),
        Node::Limit { .. } => "Limit".to_owned(),
        Node::Modify(modify) => {
            let verb = match modify.change {
                Change::Insert(_) => "Insert",
                Change::Update(_) => "Update",
                Change::Delete => "Delete",
            };
            let name = identifier(&modify.table.name);
            match &modify.change {
                Change::Insert(Some(conflict)) if conflict.alias != modify.table.name => {
                    format!("{verb} on {name} {}", identifier(&conflict.alias))
                }
                _ => format!("{verb} on {name}"),
            }
        }
    }
}

/// What a node does, in lines.
fn own_details(node: &Node) -> Vec<String> {
    match node {
        Node::IndexScan(scan) if !scan.conditions.is_empty() => {
            vec![format!("Index Cond: {}", index_conditions(scan, node))]
        }
        Node::BitmapScan(scan) => {
            let recheck = scan.recheck.as_ref();
            let parts: Vec<(&Expr, &Node)> =
                conjuncts(recheck).into_iter().map(|part| (part, node)).collect();
            let shown = || format!("Recheck Cond: {}", condition(&parts));
            recheck.map(|_| shown()).into_iter().collect()
        }
        Node::TidScan(_, tids) => {
            let place = |e: &Expr| format!("(ctid = {})", expression(e, node));
            let places: Vec<String> = tids.iter().map(place).collect();
            vec![match places.as_slice() {
                [one] => format!("TID Cond: {one}"),
                several => format!("TID Cond: ({})", several.join(" OR ")),
            }]
        }
        Node::CurrentRow(_, cursor) => {
            vec![format!("TID Cond: CURRENT OF {}", identifier(cursor))]
        }
        Node::Aggregate { input, grouping } if !grouping.keys.is_empty() => {
            let keys: Vec<String> = grouping.keys.iter().map(|e| shown_key(e, input)).collect();
            vec![format!("Group Key: {}", keys.join(", "))]
        }
        Node::Sort { input, keys, .. } => {
            let keys: Vec<String> = keys.iter().map(|key| sort_key(key, input)).collect();
            vec![format!("Sort Key: {}", keys.join(", "))]
        }
        Node::Modify(modify) => match &modify.change {
            Change::Insert(Some(conflict)) => conflict_details(conflict, node),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn conflict_details(conflict: &OnConflict, node: &Node) -> Vec<String> {
    let resolution = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
    let mut lines = vec![format!("Conflict Resolution: {resolution}")];
    if conflict.chosen {
        let names: Vec<&str> = conflict.arbiters.iter().map(|index| index.name.as_str()).collect();
        lines.push(format!("Conflict Arbiter Indexes: {}", names.join(", ")));
    }
    if let Some(ConflictUpdate { filter: Some(filter), .. }) = &conflict.update {
        lines.push(format!("Conflict Filter: {}", condition(&[(filter, node)])));
    }
    lines
}

/// A key: what is no column is in parentheses.
fn shown_key(e: &Expr, rows: &Node) -> String {
    let text = expression(e, rows);
    match source_of(e, rows) {
        true => text,
        false => format!("({text})"),
    }
}

/// Whether an expression is a column of a table, below projections and groups.
fn source_of(e: &Expr, rows: &Node) -> bool {
    let Expr::Column(column) = e else { return false };
    match rows {
        Node::Project { input, output } => output.get(*column).is_some_and(|e| source_of(e, input)),
        Node::Aggregate { input, grouping } => {
            grouping.keys.get(*column).is_some_and(|e| source_of(e, input))
        }
        Node::Filter { input, .. } | Node::Limit { input, .. } | Node::Sort { input, .. } => {
            source_of(e, input)
        }
        _ => true,
    }
}

fn sort_key(key: &SortKey, rows: &Node) -> String {
    let column = shown_key(&Expr::Column(key.column), rows);
    let descending = if key.descending { " DESC" } else { "" };
    let nulls = match (key.descending, key.nulls_first) {
        (false, true) => " NULLS FIRST",
        (true, false) => " NULLS LAST",
        _ => "",
    };
    format!("{column}{descending}{nulls}")
}
