//! `IndexCompiler`: who makes expressions and predicates of indexes evaluable.

use std::fmt;
use std::sync::Arc;

use forebay_access::IndexExpressions;

use crate::error::CatalogError;
use crate::index_trees::IndexTrees;
use crate::row_source::RowSource;
use crate::table::Column;

/// Makes trees of indexes evaluable. A crate above implements it; without one, indexes that have
/// some are not understood.
pub trait IndexCompiler: fmt::Debug + Send + Sync {
    /// The trees of an index over the rows of a table with these columns.
    ///
    /// # Errors
    /// [`CatalogError::Refused`] says what is not supported.
    fn compile(
        &self,
        rows: &mut dyn RowSource,
        table: (&str, &[Column]),
        trees: &IndexTrees,
    ) -> Result<Arc<dyn IndexExpressions>, CatalogError>;
}
