//! Running statements.

use super::loader::Loader;
use super::outcome::Executed;
use super::sink::{Format, RowRef, RowSink};
use super::state::{Connection, tell};
use super::statement::{Plan, Prepared};
use crate::column::ColumnDesc;
use crate::error::Result;
use crate::exec::{Cursor, Flow, Host};
use crate::parse::{Kind, Statement};
use crate::plan::InsertPlan;
use forebay_types::Datum;
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
        match &prepared.plan {
            Plan::Select(plan) => {
                let formats = vec![Format::Text; plan.columns.len()];
                sink.columns(&plan.columns, &formats)?;
                let mut cursor = Cursor::new(&plan.root, Arc::from([]));
                let (rows, _) =
                    run_cursor(&mut cursor, &mut self.host, &plan.columns, &formats, 0, sink)?;
                Ok(Executed::tagged(format!("SELECT {rows}")))
            }
            Plan::Insert(plan) => self
                .run_insert(plan, &Arc::from([]))
                .map(|n| Executed::tagged(format!("INSERT 0 {n}"))),
            Plan::Utility => {
                if let Some(columns) = &prepared.columns {
                    sink.columns(columns, &vec![Format::Text; columns.len()])?;
                }
                self.run_utility(&prepared, &[], last, sink)
            }
        }
    }

    /// Runs an INSERT; the number of rows.
    pub(super) fn run_insert(
        &mut self,
        plan: &InsertPlan,
        params: &Arc<[Datum<'static>]>,
    ) -> Result<u64> {
        self.check_writable("INSERT")?;
        let mut loader = Loader::new(&plan.table);
        let mut cursor = Cursor::new(&plan.rows, Arc::clone(params));
        // A scan rests while a batch is inserted; its snapshot does not see the new rows.
        while cursor.run(&mut self.host, &mut |row, _| {
            loader.push(row.values)?;
            Ok(if loader.is_full() { Flow::Rest } else { Flow::Continue })
        })? == Flow::Rest
        {
            loader.flush(&mut self.host)?;
        }
        loader.flush(&mut self.host)?;
        Ok(loader.inserted())
    }

    /// Runs a plan that is neither query nor INSERT.
    pub(super) fn run_utility(
        &mut self,
        prepared: &Prepared,
        formats: &[Format],
        last: bool,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        let Some(statement) = &prepared.statement else { return Ok(Executed::EmptyQuery) };
        let columns = prepared.columns.as_deref().unwrap_or_default();
        match &*statement.kind {
            Kind::Copy(copy) => self.run_copy(copy, &statement.source, last, sink),
            kind => self.run_small(kind, columns, formats, sink).map(Executed::Completed),
        }
    }
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
    let flow = cursor.run(host, &mut |row, host| {
        if host.may_warn() {
            tell(host, sink)?;
        }
        sink.row(&RowRef { values: row.values, columns, formats })?;
        rows += 1;
        Ok(if rows == max { Flow::Rest } else { Flow::Continue })
    })?;
    // With the limit reached the portal is suspended, even if nothing should be left.
    Ok((rows, flow == Flow::Continue && (max == 0 || rows < max)))
}
