//! Planned statements and portals.

use super::query_rows::QueryRows;
use super::sink::Format;
use crate::column::ColumnDesc;
use crate::exec::NamedRow;
use crate::parse::{Kind, Statement};
use crate::plan::{ChangePlan, SelectPlan};
use crate::views::CursorRow;
use forebay_aio::sync::SystemTime;
use forebay_types::{Datum, SqlType};
use std::sync::Arc;

/// A statement's plan.
#[derive(Clone)]
pub enum Plan {
    /// A query.
    Select(Arc<SelectPlan>),
    /// INSERT, UPDATE or DELETE.
    Change(Arc<ChangePlan>),
    /// DECLARE: the cursor's query.
    Declare(Arc<SelectPlan>),
    /// Anything else, which needs no plan.
    Utility,
}

impl Plan {
    /// The columns it returns, unless it needs no plan.
    pub(super) fn columns(&self) -> Option<&[ColumnDesc]> {
        match self {
            Plan::Select(plan) => Some(&plan.columns),
            Plan::Change(plan) => plan.columns.as_deref(),
            Plan::Declare(_) | Plan::Utility => None,
        }
    }

    /// The command tag of so many rows that it returned or changed.
    pub(super) fn tag(&self, rows: u64) -> String {
        match self {
            Plan::Change(plan) => plan.tag(rows),
            Plan::Select(_) | Plan::Declare(_) | Plan::Utility => format!("SELECT {rows}"),
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
    /// The literals of the plan that name rows.
    pub named_rows: Vec<NamedRow>,
}

impl Prepared {
    /// The command tag of so many rows that it returned or changed.
    pub(super) fn tag(&self, rows: u64) -> String {
        match self.statement.as_ref().map(|statement| &*statement.kind) {
            Some(Kind::Fetch(_)) => format!("FETCH {rows}"),
            Some(Kind::Show(_)) => "SHOW".to_owned(),
            Some(Kind::Explain(_)) => "EXPLAIN".to_owned(),
            _ => self.plan.tag(rows),
        }
    }
}

/// How far a portal is.
pub(super) enum Progress {
    /// Its tables are locked.
    Fresh,
    /// Its rows. The snapshot of a query is that of Bind or DECLARE.
    Query(Box<QueryRows>),
    /// It is running.
    Active,
    /// It has run.
    Done,
    /// It, or the subtransaction that made it, has failed.
    Failed,
}

/// What DECLARE says of a cursor. The protocol's portals have none of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CursorTraits {
    pub scrolls: bool,
    pub holdable: bool,
    pub binary: bool,
}

/// A statement bound to parameters: a portal of the protocol, or a cursor.
pub(super) struct Portal {
    pub prepared: Arc<Prepared>,
    pub plan: Plan,
    pub params: Arc<[Datum<'static>]>,
    pub formats: Vec<Format>,
    pub progress: Progress,
    pub traits: CursorTraits,
    /// The number of subtransactions around it when it was made, less those released since. None:
    /// it is held from an earlier transaction.
    pub level: Option<usize>,
    pub created: SystemTime,
}

impl Portal {
    /// Does it read this table? Until it is closed, also after its last row; but a cursor that is
    /// held reads nothing any more.
    pub(super) fn reads(&self, oid: forebay_engine::Oid) -> bool {
        let (Plan::Select(_), Progress::Query(rows)) = (&self.plan, &self.progress) else {
            return false;
        };
        rows.plan().is_some_and(|plan| plan.tables().any(|(_, table, _)| table.oid == oid))
    }

    /// Does it read a table through the index of that name?
    pub(super) fn reads_through(&self, index: &str) -> bool {
        let Progress::Query(rows) = &self.progress else { return false };
        rows.plan().is_some_and(|plan| plan.reads_through(index))
    }

    /// Whether it needs no transaction: its rows are held over the end of the one it was made in.
    pub(super) fn is_held(&self) -> bool {
        match &self.progress {
            Progress::Query(rows) => self.traits.holdable && rows.plan().is_none(),
            _ => self.level.is_none(),
        }
    }

    /// Takes the portal to run it. What stays is that it is active.
    pub(super) fn take(&mut self) -> Portal {
        let active = Portal {
            prepared: Arc::clone(&self.prepared),
            plan: self.plan.clone(),
            params: Arc::clone(&self.params),
            formats: Vec::new(),
            progress: Progress::Active,
            ..*self
        };
        std::mem::replace(self, active)
    }

    /// Puts it back. A subtransaction that it has released is not around it any more.
    pub(super) fn put_back(&mut self, run: Portal) {
        let level = self.level;
        *self = Portal { level, ..run };
    }

    /// As statements see it.
    pub(super) fn shown(&self, name: &str) -> CursorRow {
        let statement = self.prepared.statement.as_ref().map(|s| Arc::clone(s.source.text()));
        let (plan, ctid) = match &self.progress {
            Progress::Query(rows) => (rows.plan(), rows.ctid()),
            _ => (None, None),
        };
        let locked = plan.and_then(|plan| plan.locked()).map(|(table, _)| table);
        let table = locked.or_else(|| plan.and_then(|plan| plan.current_table()));
        CursorRow {
            name: name.to_owned(),
            statement,
            holdable: self.traits.holdable,
            binary: self.traits.binary,
            scrollable: self.traits.scrolls,
            created: self.created,
            is_query: matches!(self.plan, Plan::Select(_)),
            held: self.is_held(),
            locks: locked.is_some(),
            table: table.map(|table| table.oid),
            ctid,
        }
    }
}
