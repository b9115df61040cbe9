//! Plans.

use super::aggregate::{AggregateCall, AggregateKind};
use super::expr::Expr;
use super::rowsets::RowFunction;
use super::views::View;
use crate::column::ColumnDesc;
use crate::parse::QualifiedName;
use forebay_engine::Table;
use std::sync::Arc;

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum RowSource {
    /// One row without columns.
    One,
    /// A table; the engine decodes the columns below `decode`.
    Table {
        /// The table.
        table: Arc<Table>,
        /// The schema as written.
        schema: Option<String>,
        /// Number of leading columns decoded.
        decode: usize,
    },
    /// generate_series: start, stop and step.
    Series {
        /// The three arguments, cast to int4 or int8.
        args: Box<[Expr; 3]>,
        /// int8, not int4.
        wide: bool,
    },
    /// A view computed at its first row.
    View(View),
    /// VALUES.
    Values(Vec<Vec<Expr>>),
    /// A single row from a function in FROM.
    Function(Box<Expr>),
    /// The rows of a function in FROM.
    Rows {
        /// The function.
        function: RowFunction,
        /// Its arguments.
        args: Vec<Expr>,
    },
    /// A subquery.
    Subquery(Arc<SelectPlan>),
}

/// Grouping: input rows become group rows of keys and aggregates.
#[derive(Clone, Debug)]
pub struct Grouping {
    /// The keys over input rows; none: one group.
    pub keys: Vec<Expr>,
    /// The aggregates over input rows.
    pub calls: Vec<AggregateCall>,
    /// HAVING over group rows.
    pub having: Option<Expr>,
}

/// A key of ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Index into the output.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// A query.
#[derive(Clone, Debug)]
pub struct SelectPlan {
    /// Where rows come from.
    pub source: RowSource,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates.
    pub grouping: Option<Grouping>,
    /// Output expressions; those past `columns` are only sorted by.
    pub output: Vec<Expr>,
    /// The visible columns.
    pub columns: Vec<ColumnDesc>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
}

impl SelectPlan {
    /// Is it count(*) over a whole table, and nothing else the rows are needed for?
    pub fn counts_only(&self) -> bool {
        matches!(self.source, RowSource::Table { .. })
            && self.filter.is_none()
            && self.grouping.as_ref().is_some_and(|g| {
                g.keys.is_empty()
                    && g.calls
                        .iter()
                        .all(|c| c.kind == AggregateKind::CountStar && c.filter.is_none())
            })
    }

    /// Tells a table source how many columns the expressions need.
    pub(super) fn set_decode(&mut self) {
        let mut needed = self.filter.as_ref().map_or(0, Expr::columns_needed);
        match &self.grouping {
            Some(grouping) => {
                let args = grouping.calls.iter().flat_map(|c| c.arg.iter().chain(&c.filter));
                for e in grouping.keys.iter().chain(args) {
                    needed = needed.max(e.columns_needed());
                }
            }
            None => needed = self.output.iter().fold(needed, |n, e| n.max(e.columns_needed())),
        }
        if let RowSource::Table { decode, .. } = &mut self.source {
            *decode = needed;
        }
    }
}

/// Rows to insert.
#[derive(Clone, Debug)]
pub enum InsertSource {
    /// One expression for each live column of each row.
    Values(Vec<Vec<Expr>>),
    /// A query, and for each live column an expression over its rows.
    Query(Arc<SelectPlan>, Vec<Expr>),
}

/// An INSERT.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    /// The table's name as written.
    pub name: QualifiedName,
    /// The table.
    pub table: Arc<Table>,
    /// The rows.
    pub source: InsertSource,
}
