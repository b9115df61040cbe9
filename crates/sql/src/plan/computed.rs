//! Expressions and predicates of indexes, as plans have them.

use super::catalog::Catalog;
use super::expr::{Expr, conjuncts};
use super::fold::fold;

use super::lower::{Columns, lower};
use crate::error::Result;
use forebay_engine::nodes::Var;
use forebay_engine::{Column, EntrySource, IndexTrees, TableIndex};

/// The expressions and the predicate of an index, over rows with all columns of its table.
#[derive(Debug, Default)]
pub struct ComputedIndex {
    /// The expressions, in the order of the index's columns.
    pub expressions: Vec<Expr>,
    /// The parts of the predicate, which must all hold.
    pub predicate: Vec<Expr>,
}

/// The columns of a table by their numbers, but for virtual ones: rows do not have them.
struct Numbered<'t>(&'t [Column]);

impl Columns for Numbered<'_> {
    fn index_of(&self, var: &Var) -> Option<usize> {
        let index = usize::try_from(var.varattno).ok()?.checked_sub(1)?;
        let stored = |c: &Column| !c.dropped && c.generated != b'v';
        (var.varno == 1 && self.0.get(index).is_some_and(stored)).then_some(index)
    }
}

impl ComputedIndex {
    /// Makes an index's trees expressions over rows with these columns.
    pub fn new(
        trees: &IndexTrees,
        columns: &[Column],
        catalog: &mut dyn Catalog,
    ) -> Result<ComputedIndex> {
        let mut made = ComputedIndex::default();
        for tree in &trees.expressions {
            let mut expr = lower(tree, &Numbered(columns), catalog)?;
            fold(&mut expr, catalog)?;
            made.expressions.push(expr);
        }
        if let Some(tree) = &trees.predicate {
            let mut condition = lower(tree, &Numbered(columns), catalog)?;
            fold(&mut condition, catalog)?;
            made.predicate = conjuncts(Some(&condition)).into_iter().cloned().collect();
        }
        Ok(made)
    }

    /// Those of an index; None if it has columns alone.
    pub fn of(index: &TableIndex) -> Option<&ComputedIndex> {
        index.computed.as_ref()?.expressions.as_any().downcast_ref()
    }
}

/// What the keys of an index are, as expressions over the table's rows.
pub(super) fn keys(index: &TableIndex) -> Vec<Expr> {
    let computed = ComputedIndex::of(index);
    let key = |source| match source {
        EntrySource::Column(column) => Some(Expr::Column(column)),
        EntrySource::Expression(n) => computed?.expressions.get(n).cloned(),
    };
    index.key_sources().filter_map(key).collect()
}
