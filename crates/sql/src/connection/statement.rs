//! Planned statements.

use crate::column::ColumnDesc;
use crate::parse::Statement;
use crate::plan::{InsertPlan, SelectPlan};
use forebay_types::SqlType;
use std::sync::Arc;

/// A statement's plan.
#[derive(Clone)]
pub enum Plan {
    /// A query.
    Select(Arc<SelectPlan>),
    /// An INSERT.
    Insert(Arc<InsertPlan>),
    /// Anything else, which needs no plan.
    Utility,
}

/// A prepared statement.
pub struct Prepared {
    /// The statement; None for an empty string.
    pub statement: Option<Statement>,
    /// Types of its parameters.
    pub params: Vec<SqlType>,
    /// Its plan.
    pub plan: Plan,
    /// The columns it returns.
    pub columns: Option<Vec<ColumnDesc>>,
}
