//! An analyzed query, and its conversion to a tree of operators.

use super::expr::{Expr, Typed};
use super::tid;
use super::tree::{Grouping, Node, RowLock, SelectPlan, SortKey, TableRead};
use crate::column::ColumnDesc;
use forebay_types::SqlType;
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
    /// Where the expressions of the columns stand, as far as that is known.
    pub positions: Vec<u32>,
    /// ORDER BY.
    pub order: Vec<SortKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// FOR UPDATE and its kind.
    pub lock: Option<RowLock>,
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
        let (lock, positions) = (None, Vec::new());
        Query {
            source,
            filter,
            grouping,
            having,
            output,
            columns,
            positions,
            order,
            limit,
            offset,
            lock,
        }
    }

    /// The columns of its rows as expressions over them. A constant or parameter whose type is
    /// still unknown stands for itself.
    pub(super) fn row(&self) -> Vec<Typed> {
        let column = |(index, desc): (usize, &ColumnDesc)| {
            let expr = match self.output.get(index) {
                Some(unknown) if desc.ty == SqlType::Unknown => unknown.clone(),
                _ => Expr::Column(index),
            };
            Typed::new(expr, desc.ty, self.positions.get(index).copied().unwrap_or(0))
        };
        self.columns.iter().enumerate().map(column).collect()
    }

    /// The query's plan.
    pub(super) fn plan(self) -> SelectPlan {
        let read = self.columns_read();
        let locked = match (&self.source, self.lock) {
            (Node::Scan(read), Some(lock)) => Some((Arc::clone(&read.table), lock)),
            _ => None,
        };
        let mut node = filtered(source_of(self.source, self.filter.as_ref(), read), self.filter);
        if let Some(grouping) = self.grouping {
            node = filtered(Node::Aggregate { input: Box::new(node), grouping }, self.having);
        }
        node = Node::Project { input: Box::new(node), output: self.output };
        if !self.order.is_empty() {
            let width = self.columns.len();
            let placed = locked.is_some();
            node = Node::Sort { input: Box::new(node), keys: self.order, width, placed };
        }
        if let Some((table, lock)) = locked {
            node = Node::LockRows { input: Box::new(node), table, lock };
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

/// Where the rows come from: what is read of a table, and how, depends on the other clauses.
pub(super) fn source_of(source: Node, filter: Option<&Expr>, decode: Vec<bool>) -> Node {
    let Node::Scan(read) = source else { return source };
    let ctid = read.table.columns.len();
    let tids = filter.and_then(|filter| tid::places(filter, ctid));
    let read = TableRead { decode, ..read };
    match tids {
        Some(tids) => Node::TidScan(read, tids),
        None => Node::Scan(read),
    }
}

/// The rows for which a condition is true, if there is one.
pub(super) fn filtered(input: Node, condition: Option<Expr>) -> Node {
    match condition {
        None => input,
        Some(condition) => Node::Filter { input: Box::new(input), condition },
    }
}
