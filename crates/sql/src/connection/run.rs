//! Running statements.

use super::outcome::Executed;
use super::query_rows::QueryRows;
use super::sink::{Format, RowRef, RowSink};
use super::state::{Connection, tell};
use super::statement::{Plan, Prepared};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, Flow, Host, RowStore};
use crate::parse::{Kind, Statement};
use crate::plan::{Node, locking_words};
use std::sync::Arc;

impl Connection {
    /// Runs a statement of the simple protocol.
    pub(super) fn run_simple(
        &mut self,
        statement: &Statement,
        last: bool,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        if let Kind::Transaction(t) = &*statement.kind {
            return self.transaction_statement(t, sink).map(Executed::Completed);
        }
        self.check_not_failed()?;
        self.start_statement(&statement.kind)?;
        let prepared = self.prepare(statement.clone(), None)?;
        let columns = prepared.columns.as_ref().map_or(0, Vec::len);
        let formats = vec![self.simple_format(&statement.kind); columns];
        let root = match &prepared.plan {
            Plan::Select(plan) => &plan.root,
            Plan::Change(plan) => &plan.root,
            Plan::Declare(plan) => {
                return self.declare(&prepared, plan, &Arc::from([])).map(Executed::Completed);
            }
            Plan::Utility => {
                let Some(columns) = &prepared.columns else {
                    return self.run_utility(&prepared, last, sink);
                };
                let mut rows = QueryRows::complete(self.utility_rows(&prepared, sink)?);
                sink.columns(columns, &formats)?;
                let style = Arc::clone(&self.host.style);
                let sent = rows.forward(None, &mut self.host, &mut |values, _| {
                    sink.row(&RowRef { values, columns, formats: &formats, style: &style })
                })?;
                return Ok(Executed::tagged(prepared.tag(sent)));
            }
        };
        self.check_changes(root)?;
        self.show_cursors(root, None);
        let mut cursor = Cursor::new(root, Arc::from([]));
        cursor.use_workers();
        let Some(columns) = &prepared.columns else {
            let rows = run_to_end(&mut cursor, &mut self.host)?;
            return Ok(Executed::tagged(prepared.plan.tag(rows)));
        };
        if let Plan::Change(_) = &prepared.plan {
            // All rows are changed before the client hears of the first.
            cursor.open(&mut self.host)?;
            self.fire_statement_events()?;
        }
        sink.columns(columns, &formats)?;
        let (rows, _) = run_cursor(&mut cursor, &mut self.host, columns, &formats, 0, sink)?;
        Ok(Executed::tagged(prepared.plan.tag(rows)))
    }

    /// Refuses a plan that changes or locks rows in a read-only transaction, but for those of
    /// temporary tables.
    pub(super) fn check_changes(&self, root: &Node) -> Result<()> {
        if let Node::Modify(modify) = root
            && !modify.table.is_temporary()
        {
            self.check_writable(modify.change.command())?;
        }
        match root.locked() {
            Some((table, lock)) if !table.is_temporary() => {
                self.check_writable(&format!("SELECT {}", locking_words(lock.strength)))
            }
            _ => Ok(()),
        }
    }

    /// Runs a utility statement that returns no rows.
    pub(super) fn run_utility(
        &mut self,
        prepared: &Prepared,
        last: bool,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let Some(statement) = &prepared.statement else { return Ok(Executed::EmptyQuery) };
        match &*statement.kind {
            Kind::Copy(copy) => self.run_copy(copy, &statement.source, last, sink),
            kind => self.run_small(kind, &statement.source, sink).map(Executed::Completed),
        }
    }

    /// Runs a utility statement that returns rows: they are complete before the first is sent.
    pub(super) fn utility_rows(
        &mut self,
        prepared: &Prepared,
        sink: &mut dyn RowSink,
    ) -> Result<RowStore> {
        let Some(statement) = &prepared.statement else {
            return Err(SqlError::new(state::INTERNAL_ERROR, "there is no statement"));
        };
        match &*statement.kind {
            Kind::Fetch(fetch) => self.fetch(fetch, sink),
            Kind::Explain(asked) => self.explain(asked, statement, sink),
            Kind::Show(target) => self.show(target),
            _ => Err(SqlError::new(state::INTERNAL_ERROR, "the statement returns no rows")),
        }
    }
}

/// Runs a plan that returns nothing; the number of rows that it changed.
pub(super) fn run_to_end(cursor: &mut Cursor, host: &mut Host) -> Result<u64> {
    cursor.run(host, &mut |_, _| Ok(Flow::Continue))?;
    Ok(cursor.changed())
}

/// Sends a cursor's rows, at most `max` if it is not 0. The number sent, and whether the end was
/// reached.
pub(super) fn run_cursor(
    cursor: &mut Cursor,
    host: &mut Host,
    columns: &[ColumnDesc],
    formats: &[Format],
    max: u64,
    sink: &mut dyn RowSink,
) -> Result<(u64, bool)> {
    let mut rows = 0u64;
    let style = Arc::clone(&host.style);
    let flow = cursor.run(host, &mut |row, host| {
        if host.may_warn() {
            tell(host, sink)?;
        }
        sink.row(&RowRef { values: row.values, columns, formats, style: &style })?;
        rows += 1;
        Ok(if rows == max { Flow::Rest } else { Flow::Continue })
    })?;
    // With the limit reached the portal is suspended, even if nothing should be left.
    Ok((rows, flow == Flow::Continue && (max == 0 || rows < max)))
}
