//! Plans: trees of operators. The executor pulls rows out of the root.
//!
//! ```text
//!   SELECT a, count(*) FROM t WHERE b GROUP BY a HAVING c ORDER BY 2 LIMIT 5
//!
//!   Limit -> Sort -> Project -> Filter (c) -> Aggregate -> Filter (b) -> Scan
//! ```

use super::aggregate::{AggregateCall, AggregateKind};
use super::expr::Expr;
use super::rowsets::RowFunction;
use crate::column::ColumnDesc;
use crate::parse::QualifiedName;
use crate::views::View;
use forebay_engine::Table;
use std::sync::Arc;

/// An operator, with those it pulls its rows from.
#[derive(Clone, Debug)]
pub enum Node {
    /// One row without columns.
    Result,
    /// The rows of a table.
    Scan {
        /// The table.
        table: Arc<Table>,
        /// Its schema as written.
        schema: Option<String>,
        /// Number of leading columns that are decoded; no expression reads one behind them.
        decode: usize,
    },
    /// generate_series.
    Series {
        /// Start, stop and step, cast to int4 or int8.
        args: Box<[Expr; 3]>,
        /// int8, not int4.
        wide: bool,
    },
    /// A view that is computed when the operator is opened.
    View(View),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// A single row with the value of a function in FROM.
    Function(Box<Expr>),
    /// The rows of a function in FROM.
    Rows {
        /// The function.
        function: RowFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// The rows for which a condition is true.
    Filter {
        /// Where they come from.
        input: Box<Node>,
        /// The condition.
        condition: Expr,
    },
    /// Expressions over each row.
    Project {
        /// Where the rows come from.
        input: Box<Node>,
        /// The expressions.
        output: Vec<Expr>,
    },
    /// One row for each group: its keys, then its aggregates.
    Aggregate {
        /// Where the rows come from.
        input: Box<Node>,
        /// Keys and aggregates.
        grouping: Grouping,
    },
    /// The rows in order.
    Sort {
        /// Where they come from.
        input: Box<Node>,
        /// What they are ordered by.
        keys: Vec<SortKey>,
        /// Number of leading columns that go on; the rows are only sorted by the others.
        width: usize,
    },
    /// Some of the rows.
    Limit {
        /// Where they come from.
        input: Box<Node>,
        /// LIMIT.
        limit: Option<Expr>,
        /// OFFSET.
        offset: Option<Expr>,
    },
}

/// Keys of groups, and aggregates over them.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// The keys over input rows; none: one group.
    pub keys: Vec<Expr>,
    /// The aggregates over input rows.
    pub calls: Vec<AggregateCall>,
}

/// A key of ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Index into the row.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

impl Node {
    /// The operator that this one pulls its rows from.
    pub fn input(&self) -> Option<&Node> {
        match self {
            Node::Result
            | Node::Scan { .. }
            | Node::Series { .. }
            | Node::View(_)
            | Node::Values(_)
            | Node::Function(_)
            | Node::Rows { .. } => None,
            Node::Filter { input, .. }
            | Node::Project { input, .. }
            | Node::Aggregate { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. } => Some(input),
        }
    }

    /// The tables that are scanned, with their schemas as written.
    pub fn scans(&self) -> impl Iterator<Item = (Option<&str>, &Arc<Table>)> {
        std::iter::successors(Some(self), |node| node.input()).filter_map(|node| match node {
            Node::Scan { table, schema, .. } => Some((schema.as_deref(), table)),
            _ => None,
        })
    }

    /// The table whose rows are counted, and nothing else is done with them.
    pub fn counted_table(&self) -> Option<&Arc<Table>> {
        let Node::Aggregate { input, grouping: Grouping { keys, calls } } = self else {
            return None;
        };
        let counts = |c: &AggregateCall| c.kind == AggregateKind::CountStar && c.filter.is_none();
        match &**input {
            Node::Scan { table, .. } if keys.is_empty() && calls.iter().all(counts) => Some(table),
            _ => None,
        }
    }
}

/// A query's plan.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// Its rows.
    pub root: Arc<Node>,
    /// Their columns.
    pub columns: Vec<ColumnDesc>,
}

/// An INSERT's plan.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    /// The table's name as written.
    pub name: QualifiedName,
    /// The table.
    pub table: Arc<Table>,
    /// The rows to insert, with a value for each live column.
    pub rows: Arc<Node>,
}
