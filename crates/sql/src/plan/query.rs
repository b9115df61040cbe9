//! An analyzed query, and its conversion to a tree of operators.

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
        let read = self.columns_read();
        if let Node::Scan { decode, .. } = &mut self.source {
            *decode = read;
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

    /// The columns of the source that the expressions read.
    fn columns_read(&self) -> Vec<bool> {
        let mut read = Vec::new();
        let mut mark = |expr: &Expr| expr.mark_columns(&mut read);
        self.filter.iter().for_each(&mut mark);
        match &self.grouping {
            Some(Grouping { keys, calls }) => {
                keys.iter().for_each(&mut mark);
                calls.iter().flat_map(|c| c.arg.iter().chain(&c.filter)).for_each(mark);
            }
            None => self.output.iter().for_each(mark),
        }
        read
    }
}

fn filtered(input: Node, condition: Option<Expr>) -> Node {
    match condition {
        None => input,
        Some(condition) => Node::Filter { input: Box::new(input), condition },
    }
}
