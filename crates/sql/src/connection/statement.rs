//! Planned statements and portals.

use super::sink::Format;
use crate::column::ColumnDesc;
use crate::exec::Cursor;
use crate::parse::Statement;
use crate::plan::{ChangePlan, SelectPlan};
use forebay_engine::StatementSnapshot;
use forebay_types::{Datum, SqlType};
use std::sync::Arc;

/// A statement's plan.
#[derive(Clone)]
pub enum Plan {
    /// A query.
    Select(Arc<SelectPlan>),
    /// INSERT, UPDATE or DELETE.
    Change(Arc<ChangePlan>),
    /// Anything else, which needs no plan.
    Utility,
}

impl Plan {
    /// The columns it returns, unless it needs no plan.
    pub(super) fn columns(&self) -> Option<&[ColumnDesc]> {
        match self {
            Plan::Select(plan) => Some(&plan.columns),
            Plan::Change(plan) => plan.columns.as_deref(),
            Plan::Utility => None,
        }
    }

    /// The command tag of so many rows that it returned or changed.
    pub(super) fn tag(&self, rows: u64) -> String {
        match self {
            Plan::Change(plan) => plan.tag(rows),
            Plan::Select(_) | Plan::Utility => format!("SELECT {rows}"),
        }
    }
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
        plan.root.tables().any(|(_, table, _)| table.oid == oid)
    }
}
