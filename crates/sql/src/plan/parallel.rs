//! Which aggregates worker threads help with, and how many of them.
//!
//! Workers share the scan of a table and aggregate their rows; the leader combines the results. So
//! what they evaluate must need neither the session nor the order of the rows. Statements that
//! change or lock rows, cursors, and portals that are read in pieces run without workers, as in
//! PostgreSQL: that is decided where they are run.

use super::aggregate::AggregateCall;
use super::expr::Expr;
use super::tree::{Grouping, Node, TableRead};
use forebay_engine::{ParallelSettings, Table};

// PostgreSQL's defaults of the settings with these names.
const CPU_TUPLE_COST: f64 = 0.01;
const CPU_OPERATOR_COST: f64 = 0.0025;
/// Groups for each key, where nothing is known of it.
const GROUPS_OF_A_KEY: f64 = 200.0;
/// Bytes of a value of variable length, where nothing is known of it.
const VARIABLE_WIDTH: f64 = 32.0;
/// Bytes of a row beside its values, and of a page beside its rows.
const ROW_OVERHEAD: f64 = 28.0;
const PAGE_ROOM: f64 = 8168.0;
/// The part of a leader's time that each worker takes.
const LEADER_PART: f64 = 0.3;

/// Whether a worker can evaluate it.
fn is_safe(expr: &Expr) -> bool {
    !expr.any(&|e| match e {
        Expr::Call(function, _) => !function.is_parallel_safe(),
        Expr::AnyOf { test, .. } | Expr::MapArray { element: test, .. } => !is_safe(test),
        Expr::Value(..) => true,
        _ => false,
    })
}

/// Operations in an expression.
fn operations(expr: &Expr) -> usize {
    let own = !matches!(expr, Expr::Const(_) | Expr::Column(_) | Expr::Param(_));
    let mut count = usize::from(own);
    expr.for_each_child(&mut |child| count += operations(child));
    count
}

/// What an aggregate evaluates.
fn inputs(call: &AggregateCall) -> impl Iterator<Item = &Expr> {
    call.arg.iter().chain(&call.filter)
}

/// An aggregate over a table, which workers can help with.
pub struct SharedAggregate<'n> {
    /// The table.
    pub read: &'n TableRead,
    grouping: &'n Grouping,
    /// Operations for each row, aggregation included.
    operations: usize,
}

impl Node {
    /// The aggregate that this is, if workers can help with it.
    pub fn shared_aggregate(&self) -> Option<SharedAggregate<'_>> {
        let Node::Aggregate { input, grouping } = self else { return None };
        let calls = grouping.calls.iter();
        let mut evaluated: Vec<&Expr> = grouping.keys.iter().collect();
        evaluated.extend(calls.flat_map(inputs));
        let mut node = &**input;
        let read = loop {
            node = match node {
                Node::Scan(read) if !read.table.is_temporary() => break read,
                Node::Filter { input, condition } => {
                    evaluated.push(condition);
                    input
                }
                Node::Project { input, output } => {
                    evaluated.extend(output);
                    input
                }
                _ => return None,
            }
        };
        let own = grouping.keys.len() + grouping.calls.len();
        let operations = own + evaluated.iter().copied().map(operations).sum::<usize>();
        let safe = evaluated.into_iter().all(is_safe);
        safe.then_some(SharedAggregate { read, grouping, operations })
    }
}

impl SharedAggregate<'_> {
    /// How many workers are worth while for a table of so many blocks. As in PostgreSQL: one from
    /// min_parallel_table_scan_size on, one more each time the table is three times as large, or as
    /// many as the table's own parameter says; none if what they save is less than what they cost.
    /// Their work is estimated without statistics.
    pub fn workers(&self, blocks: u32, settings: &ParallelSettings) -> usize {
        let workers = match self.read.table.parallel_workers {
            Some(own) => usize::from(own).min(settings.workers_per_gather),
            None => most_workers(blocks, settings),
        };
        if workers == 0 {
            return 0;
        }
        let rows = f64::from(blocks) * rows_of_a_page(&self.read.table);
        let cpu = rows * (CPU_TUPLE_COST + CPU_OPERATOR_COST * self.operations as f64);
        let leader = if settings.leader_participates {
            (1.0 - LEADER_PART * workers as f64).max(0.0)
        } else {
            0.0
        };
        let threads = workers as f64 + leader;
        let keys = i32::try_from(self.grouping.keys.len()).unwrap_or(i32::MAX);
        let groups = GROUPS_OF_A_KEY.powi(keys).min(rows / 10.0).max(1.0);
        let cost = settings.setup_cost + settings.tuple_cost * groups * threads + cpu / threads;
        if cost < cpu { workers } else { 0 }
    }
}

/// How many workers a table of so many blocks has at most.
fn most_workers(blocks: u32, settings: &ParallelSettings) -> usize {
    if blocks < settings.min_table_blocks {
        return 0;
    }
    let (mut workers, mut enough) = (1, u64::from(settings.min_table_blocks).max(1) * 3);
    while workers < settings.workers_per_gather && u64::from(blocks) >= enough {
        (workers, enough) = (workers + 1, enough * 3);
    }
    workers.min(settings.workers_per_gather)
}

/// About how many rows a page of a table has.
fn rows_of_a_page(table: &Table) -> f64 {
    let width = |len: i16| if len < 0 { VARIABLE_WIDTH } else { f64::from(len) };
    let values: f64 = table.layouts.iter().map(|layout| width(layout.len)).sum();
    PAGE_ROOM / (ROW_OVERHEAD + values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_grow_by_one_with_each_tripling() {
        let workers = |blocks, min_table_blocks, workers_per_gather| {
            let settings = ParallelSettings::default();
            let settings = ParallelSettings { min_table_blocks, workers_per_gather, ..settings };
            most_workers(blocks, &settings)
        };
        for (blocks, expected) in
            [(0, 0), (1023, 0), (1024, 1), (3071, 1), (3072, 2), (9215, 2), (9216, 3), (27_648, 4)]
        {
            assert_eq!(workers(blocks, 1024, 1024), expected, "{blocks}");
            assert_eq!(workers(blocks, 1024, 2), expected.min(2), "{blocks}");
        }
        assert_eq!((workers(1 << 20, 1024, 0), workers(0, 0, 4), workers(9, 0, 4)), (0, 1, 3));
        assert_eq!(workers(u32::MAX, 0, 1024), 21);
    }
}
