//! What an index has of rows beside columns: expressions, and a predicate.
//!
//! Whoever evaluates expressions implements [`IndexExpressions`]; this crate knows only the stored
//! bytes of values.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::AccessError;

/// The stored bytes of values; None: NULL.
pub type StoredValues = Vec<Option<Vec<u8>>>;

/// The expressions and the predicate of an index, ready to be evaluated.
pub trait IndexExpressions: fmt::Debug + Send + Sync {
    /// The values of the expressions over a row, in the order of the index's columns. None: the
    /// predicate is not true, so the index has no entry of the row. The row is given by the stored
    /// values of the table's columns, none of them compressed or elsewhere.
    fn evaluate<'v>(
        &self,
        row: &dyn Fn(usize) -> Option<&'v [u8]>,
    ) -> Result<Option<StoredValues>, AccessError>;

    /// An expression as a message about a key shows it.
    fn text(&self, expression: usize) -> &str;

    /// What it is, for the crate that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Where a column of an index has its values from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntrySource {
    /// A column of the table, from 0.
    Column(usize),
    /// One of the index's expressions, from 0.
    Expression(usize),
}

/// How the entries of an index with expressions or a predicate are made.
#[derive(Debug, Clone)]
pub struct ComputedEntries {
    /// Where each column of the index has its values from.
    pub sources: Vec<EntrySource>,
    /// What evaluates them.
    pub expressions: Arc<dyn IndexExpressions>,
}
/// The values of an entry, from those of the table's columns and of the expressions.
pub(crate) fn entry_values<'v>(
    sources: &'v [EntrySource],
    column: impl Fn(usize) -> Option<&'v [u8]> + Clone + 'v,
    computed: &'v StoredValues,
) -> impl Iterator<Item = Option<&'v [u8]>> + Clone + 'v {
    sources.iter().map(move |source| match *source {
        EntrySource::Column(number) => column(number),
        EntrySource::Expression(number) => computed.get(number).and_then(Option::as_deref),
    })
}
