//! Portals: statements bound to parameters.

use super::sink::Format;
use super::statement::{Plan, Prepared};
use crate::exec::Cursor;
use forebay_engine::StatementSnapshot;
use forebay_types::Datum;
use std::sync::Arc;

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
}

impl Portal {
    /// Does it read this table? Until it is closed, also after its last row.
    pub(super) fn reads(&self, oid: forebay_engine::Oid) -> bool {
        let Plan::Select(plan) = &self.plan else { return false };
        plan.root.scans().any(|(_, table)| table.oid == oid)
    }
}
