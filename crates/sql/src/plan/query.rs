//! An analyzed query, and its conversion to a tree of operators.

use super::catalog::Catalog;
use super::estimate::cheapest;
use super::expr::Expr;
use super::fold::fold_all;
use super::index_read::{OrderColumn, all_of, filtered};
use super::paths::{Path, Wanted, extreme, index_paths};
use super::tid;
use super::tree::{Grouping, Node, RowLock, SelectPlan, SortKey, TableRead};
use crate::analyze::{ScopeColumn, Typed};
use crate::column::ColumnDesc;
use crate::error::Result;
use forebay_engine::nodes;
use forebay_types::Datum;
use std::sync::Arc;

/// A query whose names and types are settled.
#[derive(Clone)]
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
    /// Those whose types are still unknown.
    pub unknowns: Vec<Option<nodes::Expr>>,
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
    /// Folds the expressions of a query. Its subquery has been folded before.
    pub(super) fn fold(mut self, catalog: &mut dyn Catalog) -> Result<Query> {
        match &mut self.source {
            Node::Series { args, .. } => fold_all(args.iter_mut(), catalog)?,
            Node::Values(rows) => fold_all(rows.iter_mut().flatten(), catalog)?,
            Node::Function(e) => fold_all([&mut **e], catalog)?,
            Node::Rows { args, .. } => fold_all(args, catalog)?,
            Node::Result
            | Node::Scan(_)
            | Node::TidScan(..)
            | Node::IndexScan(_)
            | Node::BitmapScan(_)
            | Node::CurrentRow(..)
            | Node::View(_)
            | Node::Filter { .. }
            | Node::Project { .. }
            | Node::Aggregate { .. }
            | Node::Sort { .. }
            | Node::LockRows { .. }
            | Node::Modify(_)
            | Node::Limit { .. } => {}
        }
        if let Some(Grouping { keys, calls, .. }) = &mut self.grouping {
            for call in calls {
                fold_all(call.arg.iter_mut().chain(&mut call.filter), catalog)?;
            }
            fold_all(keys, catalog)?;
        }
        let Query { having, output, filter, limit, offset, .. } = &mut self;
        let rest = having.iter_mut().chain(output).chain(filter).chain(limit).chain(offset);
        fold_all(rest, catalog)?;
        Ok(self)
    }

    /// Output expressions over a source, in order: no other clause.
    pub(super) fn of(
        source: Node,
        output: Vec<Expr>,
        columns: Vec<ColumnDesc>,
        order: Vec<SortKey>,
    ) -> Query {
        let (filter, grouping, having, limit, offset) = (None, None, None, None, None);
        let (lock, positions, unknowns) = (None, Vec::new(), Vec::new());
        Query {
            source,
            filter,
            grouping,
            having,
            output,
            columns,
            positions,
            unknowns,
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
            let expr = match self.unknowns.get(index) {
                Some(Some(unknown)) => unknown.clone(),
                _ => ScopeColumn::of_desc(desc, index).var(0).into(),
            };
            Typed::new(expr, self.positions.get(index).copied().unwrap_or(0))
        };
        self.columns.iter().enumerate().map(column).collect()
    }

    /// The query's plan: the cheapest. The frames of those who plan subqueries need no room for
    /// this.
    #[inline(never)]
    pub(super) fn plan(self, catalog: &mut dyn Catalog) -> Result<SelectPlan> {
        let mut paths = Vec::new();
        if let Node::Scan(read) = &self.source
            && !read.table.indexes.is_empty()
        {
            let read = self.reading(read);
            let tids = self.filter.as_ref().and_then(|e| tid::places(e, read.table.columns.len()));
            if tids.is_none() {
                paths = self.index_paths(&read, catalog)?;
            }
        }
        if paths.is_empty() {
            return Ok(self.assemble(None));
        }
        let columns = self.columns.clone();
        let others = paths.into_iter().map(|path| self.clone().assemble(Some(path)).root);
        let mut plans: Vec<Node> = others.map(Arc::unwrap_or_clone).collect();
        plans.insert(0, Arc::unwrap_or_clone(self.assemble(None).root));
        Ok(SelectPlan { root: Arc::new(cheapest(plans, catalog)?), columns })
    }

    /// The ways to read the table through its indexes.
    fn index_paths(&self, read: &TableRead, catalog: &mut dyn Catalog) -> Result<Vec<Path>> {
        let placed = self.lock.is_some();
        let order = self.table_order().unwrap_or_default();
        let (mut output, mut used) = (Vec::new(), Vec::new());
        self.mark_output(&mut output, &mut used);
        let output = &output;
        let wanted = Wanted { filter: self.filter.as_ref(), order: &order, placed, output };
        let mut paths = index_paths(read, &wanted, catalog)?;
        let Some(extreme) = self.grouping.as_ref().and_then(extreme) else { return Ok(paths) };
        // The first value that is not NULL, in the right order.
        let not_null = Expr::IsNotNull(Box::new(extreme.key.clone()));
        let parts = self.filter.iter().cloned().chain([not_null]).collect();
        let filter = all_of(parts);
        for nulls_first in [false, true] {
            let order = [OrderColumn { nulls_first, ..extreme.clone() }];
            let wanted = Wanted { filter: filter.as_ref(), order: &order, placed, output };
            let found = index_paths(read, &wanted, catalog)?.into_iter();
            paths.extend(found.filter(|path| path.ordered).map(|path| {
                let one = Some(Expr::Const(Datum::Int8(1)));
                let node = Node::Limit { input: Box::new(path.node), limit: one, offset: None };
                Path { node, ..path }
            }));
        }
        Ok(paths)
    }

    /// The order of the rows, as one of the table's; None: it is that of groups.
    fn table_order(&self) -> Option<Vec<OrderColumn>> {
        if self.grouping.is_some() {
            return None;
        }
        let ordered = |key: &SortKey| {
            Some(OrderColumn {
                key: self.output.get(key.column)?.clone(),
                descending: key.descending,
                nulls_first: key.nulls_first,
                order: key.order.clone(),
            })
        };
        self.order.iter().map(ordered).collect()
    }

    /// The plan with a path through an index, or without one.
    #[inline(never)]
    fn assemble(mut self, path: Option<Path>) -> SelectPlan {
        let locked = match (&self.source, self.lock) {
            (Node::Scan(read), Some(lock)) => Some((Arc::clone(&read.table), lock)),
            _ => None,
        };
        let ordered = self.grouping.is_none() && path.as_ref().is_some_and(|path| path.ordered);
        let mut node = match path {
            Some(path) => path.node,
            None => {
                let source = match &self.source {
                    Node::Scan(read) => source_of(self.reading(read), self.filter.as_ref()),
                    _ => self.source,
                };
                filtered(source, self.filter)
            }
        };
        if let Some(grouping) = self.grouping {
            node = match grouping.keys.is_empty() && grouping.calls.is_empty() {
                // HAVING alone. As in PostgreSQL the table is not read.
                true => Node::Result,
                false => Node::Aggregate { input: Box::new(node), grouping },
            };
            node = filtered(node, self.having);
        }
        if ordered {
            // The columns behind are there to sort by.
            self.output.truncate(self.columns.len());
        }
        node = Node::Project { input: Box::new(node), output: self.output };
        if !self.order.is_empty() && !ordered {
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

    /// What is read of a table: what the expressions read.
    fn reading(&self, read: &TableRead) -> TableRead {
        let (mut decode, mut used) = (Vec::new(), Vec::new());
        self.filter.iter().for_each(|filter| {
            filter.mark_columns(&mut decode);
            filter.mark_whole(&mut used);
        });
        self.mark_output(&mut decode, &mut used);
        read.of_columns(decode, &used)
    }

    /// Marks the columns that are read of rows that satisfy the filter, and those that are read
    /// whole.
    fn mark_output(&self, decode: &mut Vec<bool>, used: &mut Vec<bool>) {
        let mut mark = |expr: &Expr| {
            expr.mark_columns(decode);
            expr.mark_whole(used);
        };
        match &self.grouping {
            Some(Grouping { keys, calls, .. }) => {
                keys.iter().for_each(&mut mark);
                calls.iter().flat_map(|c| c.arg.iter().chain(&c.filter)).for_each(mark);
            }
            None => self.output.iter().for_each(mark),
        }
    }
}

/// How the rows of a table are read without an index.
fn source_of(read: TableRead, filter: Option<&Expr>) -> Node {
    let ctid = read.table.columns.len();
    match filter.and_then(|filter| tid::places(filter, ctid)) {
        Some(tids) => Node::TidScan(read, tids),
        None => Node::Scan(read),
    }
}

/// The rows of a table for which a condition is true, if there is one, in the cheapest way that
/// brings their places along.
pub(super) fn cheapest_source(
    read: TableRead,
    filter: Option<Expr>,
    catalog: &mut dyn Catalog,
) -> Result<Node> {
    let wanted = Wanted { filter: filter.as_ref(), order: &[], placed: true, output: &[] };
    let paths = match read.table.indexes.is_empty() {
        true => Vec::new(),
        false => index_paths(&read, &wanted, catalog)?,
    };
    let source = source_of(read, filter.as_ref());
    if paths.is_empty() || !matches!(source, Node::Scan(_)) {
        return Ok(filtered(source, filter));
    }
    let mut plans = vec![filtered(source, filter)];
    plans.extend(paths.into_iter().map(|path| path.node));
    cheapest(plans, catalog)
}
