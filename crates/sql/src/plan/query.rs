//! An analyzed query, and its conversion to a tree of operators.

use super::aggregate::AggregateCall;
use super::expr::Expr;
use super::tree::{Grouping, Node, SelectPlan, SortKey};
use crate::column::ColumnDesc;
use std::sync::Arc;

/// A query whose names and types are settled.
pub(super) struct Query {
    /// FROM.
    pub source: Node,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY and aggregates.
    pub grouping: Option<Grouping>,
    /// HAVING, over the rows of groups.
    pub having: Option<Expr>,
    /// Output expressions; rows are only sorted by those past `columns`.
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

impl Query {
    /// Output expressions over a source, in order: no other clause.
    pub(super) fn of(
        source: Node,
        output: Vec<Expr>,
        columns: Vec<ColumnDesc>,
        order: Vec<SortKey>,
    ) -> Query {
        let (filter, grouping, having, limit, offset) = (None, None, None, None, None);
        Query { source, filter, grouping, having, output, columns, order, limit, offset }
    }

    /// The query's plan.
    pub(super) fn plan(mut self) -> SelectPlan {
        let needed = self.columns_needed();
        if let Node::Scan { decode, .. } = &mut self.source {
            *decode = needed;
        }
        let mut node = filtered(self.source, self.filter);
        if let Some(grouping) = self.grouping {
            node = filtered(Node::Aggregate { input: Box::new(node), grouping }, self.having);
        }
        node = Node::Project { input: Box::new(node), output: self.output };
        if !self.order.is_empty() {
            let width = self.columns.len();
            node = Node::Sort { input: Box::new(node), keys: self.order, width };
        }
        if self.limit.is_some() || self.offset.is_some() {
            let (limit, offset) = (self.limit, self.offset);
            node = Node::Limit { input: Box::new(node), limit, offset };
        }
        SelectPlan { root: Arc::new(node), columns: self.columns }
    }

    /// How many leading columns of the source the expressions read.
    fn columns_needed(&self) -> usize {
        let inputs = |call: &AggregateCall| {
            call.arg.iter().chain(&call.filter).map(Expr::columns_needed).max().unwrap_or(0)
        };
        let of = |list: &[Expr]| list.iter().map(Expr::columns_needed).max().unwrap_or(0);
        let filter = self.filter.as_ref().map_or(0, Expr::columns_needed);
        filter.max(match &self.grouping {
            Some(Grouping { keys, calls }) => {
                of(keys).max(calls.iter().map(inputs).max().unwrap_or(0))
            }
            None => of(&self.output),
        })
    }
}

fn filtered(input: Node, condition: Option<Expr>) -> Node {
    match condition {
        None => input,
        Some(condition) => Node::Filter { input: Box::new(input), condition },
    }
}
