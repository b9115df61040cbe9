//! Planned statements and portals.

use super::sink::Format;
use crate::column::ColumnDesc;
use crate::exec::Cursor;
use crate::parse::Statement;
use crate::plan::{InsertPlan, SelectPlan};
use forebay_engine::StatementSnapshot;
use forebay_types::{Datum, SqlType};
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

/// How far a portal is.
pub(super) enum Progress {
    /// Its tables are locked. A query's snapshot is from then.
    Fresh(Option<StatementSnapshot>),
    Running(Box<Cursor>),
    Done,
}

/// A statement bound to parameters.
pub(super) struct Portal {
    pub prepared: Arc<Prepared>,
    pub plan: Plan,
    pub params: Arc<[Datum<'static>]>,
    pub formats: Vec<Format>,
    pub progress: Progress,
    /// How many savepoints were open around it when it was made.
    pub level: usize,
}

impl Portal {
    /// Does it read this table? Until it is closed, also after its last row.
    pub(super) fn reads(&self, oid: forebay_engine::Oid) -> bool {
        let Plan::Select(plan) = &self.plan else { return false };
        plan.root.scans().any(|(_, table)| table.oid == oid)
    }
}
