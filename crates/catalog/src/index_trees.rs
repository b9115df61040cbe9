//! The expressions and the predicate of an index.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use crate::nodes::{self, Expr};
use crate::stored_expr::StoredExpr;

/// A tree as pg_index has it. None within: it is stored out of line.
pub type StoredTree = Option<Option<Arc<str>>>;

/// What an index has beside columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexTrees {
    /// The expressions, in the order of the index's columns that have the number 0.
    pub expressions: Vec<Expr>,
    /// The condition on the rows that it has. None: it has all.
    pub predicate: Option<Expr>,
}

impl IndexTrees {
    /// Reads what a row of pg_index has, of an index with so many expressions. Or why it is not
    /// understood.
    pub(crate) fn read(
        expressions: &StoredTree,
        predicate: &StoredTree,
        count: usize,
    ) -> Result<IndexTrees, String> {
        let lost = |what: &str| format!("its {what} is stored out of line");
        let expressions = match expressions {
            None => Vec::new(),
            Some(text) => {
                let text = text.as_ref().ok_or_else(|| lost("list of expressions"))?;
                nodes::read_list(text).map_err(|error| format!("its expressions: {error}"))?
            }
        };
        if expressions.len() != count {
            let found = expressions.len();
            return Err(format!("it has {found} expressions for {count} columns"));
        }
        let predicate = match predicate {
            None => None,
            Some(text) => {
                let text = text.as_ref().ok_or_else(|| lost("predicate"))?;
                Some(nodes::read(text).map_err(|error| format!("its predicate: {error}"))?)
            }
        };
        let trees = IndexTrees { expressions, predicate };
        if trees.columns().iter().any(|number| *number <= 0) {
            return Err("it reads whole rows or system columns".to_owned());
        }
        Ok(trees)
    }

    /// Whether the index has columns alone.
    pub fn is_empty(&self) -> bool {
        self.expressions.is_empty() && self.predicate.is_none()
    }

    /// The numbers of the table's columns that they read.
    pub fn columns(&self) -> Vec<i16> {
        let all = self.expressions.iter().chain(&self.predicate);
        all.flat_map(|expr| StoredExpr::new(expr).columns).collect()
    }
}
