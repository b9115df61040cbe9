//! Names of objects in the texts of stored trees, from the catalogs.

use crate::analyze::{
    Names as Analysis, finds_function, finds_operator, type_name, type_with_modifier,
};
use crate::error::SqlError;
use forebay_engine::Column;
use forebay_engine::nodes::{Call, Const, Names, NodeError, QualifiedName};
use forebay_types::{Oid, SqlType, to_text};

/// The catalogs, and the table over whose rows a tree is.
pub(super) struct TreeNames<'a> {
    names: &'a mut dyn Analysis,
    table: &'a str,
    columns: &'a [Column],
    /// What a look-up failed with.
    failed: Option<SqlError>,
}

type Result<T> = std::result::Result<T, NodeError>;

impl<'a> TreeNames<'a> {
    pub(super) fn new(
        names: &'a mut dyn Analysis,
        table: &'a str,
        columns: &'a [Column],
    ) -> TreeNames<'a> {
        TreeNames { names, table, columns, failed: None }
    }

    /// The error of a tree that could not be printed.
    pub(super) fn error(&mut self, error: NodeError) -> SqlError {
        self.failed.take().unwrap_or_else(|| SqlError::from(error))
    }

    /// The result of a look-up, whose error is kept.
    fn kept<T>(&mut self, found: Result<T, SqlError>) -> Result<T> {
        found.map_err(|error| {
            let what = error.message.clone();
            self.failed = Some(error);
            NodeError::Unsupported { what }
        })
    }
}
