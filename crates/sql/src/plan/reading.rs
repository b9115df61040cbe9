//! Stored expressions, read.

use crate::error::{Result, SqlError, state};
use forebay_engine::nodes;
use std::sync::Arc;

/// Reads a stored expression; `what` it is, for the error.
pub fn stored_expr(tree: Option<&Arc<str>>, what: &str) -> Result<nodes::Expr> {
    let Some(tree) = tree else {
        return Err(SqlError::unsupported(format!("{what}, which is stored out of line,")));
    };
    nodes::read(tree).map_err(|error| match error {
        nodes::NodeError::Damaged { .. } | nodes::NodeError::Value(_) => {
            SqlError::new(state::DATA_CORRUPTED, format!("{what}: {error}"))
        }
        error => SqlError::new(state::FEATURE_NOT_SUPPORTED, format!("{what}: {error}")),
    })
}
