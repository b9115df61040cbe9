//! The ways to read a table: from its beginning to its end, or through one of its indexes.

use super::aggregate::AggregateKind;
use super::bitmap_paths::bitmap_path;
use super::catalog::Catalog;
use super::estimate::Estimator;
use super::expr::{Expr, conjuncts};
use super::implied::{is_implied, predicate_if_implied};
use super::index_read::{OrderColumn, all_of, filtered, index_condition, ordered};
use super::tree::{Grouping, IndexCondition, IndexRead, Node, TableRead};
use crate::error::Result;
use forebay_engine::TableIndex;
use forebay_types::oids;
use std::sync::Arc;

/// What is wanted of a table.
pub(super) struct Wanted<'q> {
    /// The condition on its rows.
    pub filter: Option<&'q Expr>,
    /// The order, if it matters.
    pub order: &'q [OrderColumn],
    /// Whether the rows' places matter: then they are read from the table.
    pub placed: bool,
    /// The columns that are read of the rows that satisfy the condition.
    pub output: &'q [bool],
}

/// A way to read a table.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// The rows that satisfy the condition.
    pub node: Node,
    /// Whether they come in the order that is wanted.
    pub ordered: bool,
}

/// The ways through indexes. What is read of the table is in `read.decode`.
pub(super) fn index_paths(
    read: &TableRead,
    wanted: &Wanted<'_>,
    catalog: &mut dyn Catalog,
) -> Result<Vec<Path>> {
    let mut usable = Vec::with_capacity(read.table.indexes.len());
    for index in &read.table.indexes {
        if catalog.can_use_index(index)? {
            usable.push(index);
        }
    }
    let paths = usable.iter().filter_map(|index| path(read, index, wanted));
    let mut paths: Vec<Path> = paths.collect();
    let bitmap = bitmap_path(read, wanted.filter, &usable, &mut Estimator::new(catalog))?;
    paths.extend(bitmap.map(|node| Path { node, ordered: false }));
    Ok(paths)
}

fn path(read: &TableRead, index: &Arc<TableIndex>, wanted: &Wanted<'_>) -> Option<Path> {
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    let mut implied = Vec::new();
    let parts = conjuncts(wanted.filter);
    let predicate = predicate_if_implied(index, &parts)?;
    for part in parts {
        // A row that is changed meanwhile is tested again.
        if !wanted.placed && is_implied(predicate, part) {
            implied.push(part.clone());
            continue;
        }
        match index_condition(part, index) {
            Some((condition, test)) => {
                if condition.is_partial() {
                    rest.push(part.clone());
                }
                found.push((condition, test));
            }
            None => rest.push(part.clone()),
        }
    }
    found.sort_by_key(|(condition, _)| condition.key());
    let (conditions, tests): (Vec<IndexCondition>, Vec<Expr>) = found.into_iter().unzip();
    let backward = match wanted.order {
        [] => None,
        order => ordered(index, &conditions, order),
    };
    let computed = tests.iter().filter(|_| !index.trees.expressions.is_empty());
    let entries_only =
        !wanted.placed && covers(read, index, wanted.output, rest.iter().chain(computed));
    if conditions.is_empty() && backward.is_none() && !entries_only && predicate.is_empty() {
        return None;
    }
    let scan = IndexRead {
        read: read.clone(),
        index: Arc::clone(index),
        conditions,
        tests,
        implied,
        backward: backward.unwrap_or(false),
        entries_only,
    };
    let node = filtered(Node::IndexScan(Box::new(scan)), all_of(rest));
    Some(Path { node, ordered: backward.is_some() })
}

/// Whether an index has all columns that are read: these, and those of the conditions that are
/// tested. A name in an index is shorter than in a table.
fn covers<'e>(
    read: &TableRead,
    index: &TableIndex,
    output: &[bool],
    tested: impl Iterator<Item = &'e Expr>,
) -> bool {
    let mut wanted = output.to_vec();
    tested.for_each(|e| e.mark_columns(&mut wanted));
    let mut wanted = wanted.iter().enumerate().filter(|(_, wanted)| **wanted);
    wanted.all(|(column, _)| {
        let plain = read.table.columns.get(column).is_some_and(|c| c.type_oid != oids::NAME);
        plain && index.table_columns().any(|own| own == column)
    })
}

/// The column of which a query wants only the least or the greatest value, and the order in which
/// that is the first one.
pub(super) fn extreme(grouping: &Grouping) -> Option<OrderColumn> {
    let ([], [call]) = (grouping.keys.as_slice(), grouping.calls.as_slice()) else { return None };
    let descending = match call.kind {
        AggregateKind::Min => false,
        AggregateKind::Max => true,
        _ => return None,
    };
    match (&call.arg, &call.filter) {
        (Some(Expr::Column(column)), None) => {
            let (key, order) = (Expr::Column(*column), call.order.clone());
            Some(OrderColumn { key, descending, nulls_first: descending, order })
        }
        _ => None,
    }
}
