//! DECLARE and CLOSE, and what becomes of cursors when a transaction commits.

use super::fetch::no_cursor;
use super::query_rows::QueryRows;
use super::sink::{CommandTag, Format};
use super::state::Connection;
use super::statement::{CursorTraits, Plan, Portal, Prepared, Progress};
use crate::error::{Result, SqlError, state};
use crate::parse::{Kind, estimated_memory};
use crate::plan::{Node, SelectPlan};
use forebay_aio::sync::SystemTime;
use forebay_engine::Session;
use forebay_types::Datum;
use std::sync::Arc;

impl Connection {
    /// Refuses a name that a portal has.
    pub(super) fn check_cursor_is_new(&self, name: &str) -> Result<()> {
        if !self.portals.contains_key(name) {
            return Ok(());
        }
        let message = format!("cursor \"{name}\" already exists");
        Err(SqlError::new(state::DUPLICATE_CURSOR, message))
    }

    /// Runs DECLARE.
    pub(super) fn declare(
        &mut self,
        prepared: &Prepared,
        plan: &Arc<SelectPlan>,
        params: &Arc<[Datum<'static>]>,
    ) -> Result<CommandTag> {
        let Some(statement) = &prepared.statement else { unreachable!("a DECLARE was planned") };
        let Kind::Declare(declare) = &*statement.kind else {
            unreachable!("a DECLARE was planned")
        };
        if !declare.hold {
            self.require_block("DECLARE CURSOR")?;
        }
        self.check_cursor_is_new(&declare.name)?;
        self.check_changes(&plan.root)?;
        let snapshot = self.host.call_if_any(Session::statement_snapshot)?;
        let scrolls = declare.scroll.unwrap_or_else(|| plan.root.scrolls());
        let root = plan.with_oids(|_| declare.binary);
        let rows = QueryRows::new(&root, params, snapshot, scrolls, &self.host);
        let portal = Portal {
            prepared: Arc::new(Prepared {
                statement: Some(statement.clone()),
                params: Vec::new(),
                plan: Plan::Select(Arc::clone(plan)),
                columns: Some(plan.columns.clone()),
                named_rows: Vec::new(),
            }),
            plan: Plan::Select(Arc::clone(plan)),
            params: Arc::clone(params),
            formats: vec![Format::Text; plan.columns.len()],
            progress: Progress::Query(Box::new(rows)),
            traits: CursorTraits { scrolls, holdable: declare.hold, binary: declare.binary },
            level: Some(self.transaction.savepoints.len()),
            created: SystemTime::now(),
        };
        let params: usize = params.iter().map(Datum::allocated).sum();
        let weight = estimated_memory(statement.source.text()) + params;
        self.portals.insert(&declare.name, portal, weight)?;
        Ok(CommandTag("DECLARE CURSOR".to_owned()))
    }

    /// The transaction is about to commit: reads the rows of its cursors WITH HOLD. If that fails
    /// it must be aborted.
    pub(super) fn hold_cursors(&mut self) -> Result<()> {
        for portal in self.portals.values_mut() {
            if portal.traits.holdable
                && portal.level.is_some()
                && let Progress::Query(rows) = &mut portal.progress
            {
                rows.hold(&mut self.host)?;
            }
        }
        Ok(())
    }

    /// Called before a portal runs, which has been taken out of the map, or a plan of the simple
    /// protocol: shows it the cursors, if it looks at them.
    pub(super) fn show_cursors(&mut self, plan: &Node, running: Option<(&str, &Portal)>) {
        if plan.reads_cursors() {
            let others =
                self.portals.iter().filter(|(name, _)| running.is_none_or(|r| r.0 != *name));
            self.host.cursors = others.chain(running).map(|(name, p)| p.shown(name)).collect();
        }
    }

    /// Runs CLOSE; None is ALL.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<CommandTag> {
        let Some(name) = name else {
            self.portals.clear();
            return Ok(CommandTag("CLOSE CURSOR ALL".to_owned()));
        };
        let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
        if let Progress::Active = portal.progress {
            let message = format!("cannot drop active portal \"{name}\"");
            return Err(SqlError::new(state::INVALID_CURSOR_STATE, message));
        }
        self.portals.remove(name);
        Ok(CommandTag("CLOSE CURSOR".to_owned()))
    }
}
