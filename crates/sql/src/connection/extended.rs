//! The extended protocol: prepared statements and portals.

use super::outcome::Executed;
use super::query_rows::QueryRows;
use super::run::run_to_end;
use super::sink::{Format, RowRef, RowSink};
use super::state::{Connection, tell};
use super::statement::{CursorTraits, Plan, Portal, Prepared, Progress};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::exec::{Cursor, oid_of};
use crate::parse::{Kind, Statement, estimated_memory, parse_script};
use crate::plan::{ChangePlan, is_reg};
use forebay_aio::sync::SystemTime;
use forebay_engine::{Session, StatementSnapshot};
use forebay_types::{Datum, SqlType, TextStyle, binary_in, text_in_as};
use std::sync::Arc;

pub(super) fn no_statement(name: &str) -> SqlError {
    let message = if name.is_empty() {
        "unnamed prepared statement does not exist".to_owned()
    } else {
        format!("prepared statement \"{name}\" does not exist")
    };
    SqlError::new(state::INVALID_SQL_STATEMENT_NAME, message)
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(state::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}

fn protocol(message: String) -> SqlError {
    SqlError::new(state::PROTOCOL_VIOLATION, message)
}

/// Whether the statement ends a transaction, or goes back to a savepoint: only such statements run
/// in a failed block.
fn ends_transaction(prepared: &Prepared) -> bool {
    let Some(statement) = &prepared.statement else { return true };
    matches!(&*statement.kind, Kind::Transaction(statement) if statement.leaves_failed())
}

impl Connection {
    /// Parse message: plans `sql` under `name` ("" is the unnamed statement); `types` are parameter
    /// types, 0 or absent to infer.
    pub fn parse(&mut self, name: &str, sql: &str, types: &[u32]) -> Result<()> {
        self.clear_cancel();
        self.guard(|conn| {
            let mut statements = parse_script(sql, conn.host.encoding(), conn.host.interrupt())?;
            if statements.len() > 1 {
                let message = "cannot insert multiple commands into a prepared statement";
                return Err(SqlError::new(state::SYNTAX_ERROR, message));
            }
            let statement = statements.pop();
            let weight = estimated_memory(sql);
            if let Some(statement) = &statement
                && !matches!(&*statement.kind, Kind::Transaction(_))
            {
                conn.check_not_failed()?;
                conn.start_statement(&statement.kind)?;
            }
            let prepared = match statement {
                None => Prepared {
                    statement: None,
                    params: Vec::new(),
                    plan: Plan::Utility,
                    columns: None,
                    named_rows: Vec::new(),
                },
                Some(statement) => conn.prepare(statement, Some(types))?,
            };
            if !ends_transaction(&prepared) {
                conn.check_not_failed()?;
            }
            if !name.is_empty() && conn.prepared.contains_key(name) {
                let message = format!("prepared statement \"{name}\" already exists");
                return Err(SqlError::new(state::DUPLICATE_PREPARED_STATEMENT, message));
            }
            conn.host.check_cancel()?;
            conn.prepared.insert(name, Arc::new(prepared), weight)
        })
    }

    fn statement(&self, name: &str) -> Result<Arc<Prepared>> {
        self.prepared.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    /// Describe (statement): parameter types, and the columns if it returns rows.
    pub fn describe_statement(
        &mut self,
        name: &str,
    ) -> Result<(Vec<u32>, Option<Vec<ColumnDesc>>)> {
        self.guard(|conn| {
            let prepared = conn.statement(name)?;
            if prepared.columns.is_some() {
                conn.check_not_failed()?;
            }
            Ok((prepared.params.iter().map(|t| t.oid()).collect(), prepared.columns.clone()))
        })
    }

    /// Bind message: locks the statement's tables. `param_formats` and `result_formats` are as in
    /// the protocol: none (all text), one (for all) or one each.
    pub fn bind(
        &mut self,
        portal: &str,
        statement: &str,
        param_formats: &[i16],
        params: &[Option<&[u8]>],
        result_formats: &[i16],
    ) -> Result<()> {
        self.clear_cancel();
        self.guard(|conn| {
            let prepared = conn.statement(statement)?;
            if param_formats.len() > 1 && param_formats.len() != params.len() {
                return Err(protocol(format!(
                    "bind message has {} parameter formats but {} parameters",
                    param_formats.len(),
                    params.len()
                )));
            }
            if params.len() != prepared.params.len() {
                return Err(protocol(format!(
                    "bind message supplies {} parameters, but prepared statement \"{statement}\" \
                     requires {}",
                    params.len(),
                    prepared.params.len()
                )));
            }
            if let Some(statement) = &prepared.statement
                && !ends_transaction(&prepared)
            {
                conn.check_not_failed()?;
                conn.start_statement(&statement.kind)?;
            }
            if !portal.is_empty() {
                conn.check_cursor_is_new(portal)?;
            }
            let mut values = Vec::with_capacity(params.len());
            for (i, (bytes, ty)) in params.iter().zip(&prepared.params).enumerate() {
                let format = Format::from_code(pick(param_formats, i))?;
                let value = match (*bytes, *ty, format) {
                    // A name is looked up.
                    (Some(name), ty, Format::Text) if is_reg(ty.oid()) => {
                        let TextStyle { encoding, client, .. } = *conn.host.style;
                        let name = encoding.received(client, name)?;
                        Datum::Oid(oid_of(&name, ty.oid(), &mut conn.host)?)
                    }
                    (bytes, ty, format) => {
                        parameter(bytes, ty, format, i, portal, &conn.host.style)?
                    }
                };
                values.push(value);
                conn.host.step()?;
            }
            let bytes: usize = params.iter().flatten().map(|bytes| bytes.len()).sum();
            let weight = bytes + params.len() * size_of::<Datum<'static>>();
            let plan = conn.lock_plan(&prepared)?;
            let prepared = conn.with_columns_now(prepared)?;
            if let Plan::Select(plan) = &plan {
                conn.check_changes(&plan.root)?;
            }
            let snapshot = conn.portal_snapshot(&plan)?;
            let formats = result_codes(result_formats, prepared.columns.as_deref())?;
            let portal_state = conn.new_portal(prepared, plan, values.into(), formats, snapshot);
            conn.host.check_cancel()?;
            conn.portals.insert(portal, portal_state, weight)
        })
    }

    /// The snapshot of Bind. As in PostgreSQL, a query uses it; other statements take theirs when
    /// they are executed.
    fn portal_snapshot(&mut self, plan: &Plan) -> Result<Option<StatementSnapshot>> {
        match plan {
            Plan::Select(plan) => {
                self.check_changes(&plan.root)?;
                self.host.call_if_any(Session::statement_snapshot)
            }
            _ => Ok(None),
        }
    }

    /// A portal of the protocol.
    fn new_portal(
        &self,
        prepared: Arc<Prepared>,
        plan: Plan,
        params: Arc<[Datum<'static>]>,
        formats: Vec<Format>,
        snapshot: Option<StatementSnapshot>,
    ) -> Portal {
        let progress = match &plan {
            Plan::Select(plan) => {
                let binary = |n: usize| formats.get(n) == Some(&Format::Binary);
                let root = plan.with_oids(binary);
                let rows = QueryRows::new(&root, &params, snapshot, false, &self.host);
                Progress::Query(Box::new(rows))
            }
            _ => Progress::Fresh,
        };
        let (traits, level) = (CursorTraits::default(), Some(self.transaction.savepoints.len()));
        let created = SystemTime::now();
        Portal { prepared, plan, params, formats, progress, traits, level, created }
    }

    /// A statement whose columns are those of a cursor, with the columns that this has now.
    fn with_columns_now(&mut self, prepared: Arc<Prepared>) -> Result<Arc<Prepared>> {
        let Some(Kind::Fetch(fetch)) = prepared.statement.as_ref().map(|s| &*s.kind) else {
            return Ok(prepared);
        };
        let columns = self.fetched_columns(fetch);
        if columns == prepared.columns {
            return Ok(prepared);
        }
        let (statement, params) = (prepared.statement.clone(), prepared.params.clone());
        let (plan, named_rows) = (prepared.plan.clone(), prepared.named_rows.clone());
        Ok(Arc::new(Prepared { statement, params, plan, columns, named_rows }))
    }

    /// Describe (portal): columns with the formats the portal was bound with, or none (NoData).
    pub fn describe_portal(
        &mut self,
        portal: &str,
    ) -> Result<Option<(Vec<ColumnDesc>, Vec<Format>)>> {
        self.guard(|conn| {
            let found = conn.portals.get(portal).ok_or_else(|| no_portal(portal))?;
            if found.prepared.columns.is_some() {
                conn.check_not_failed()?;
            }
            Ok(found.prepared.columns.clone().map(|columns| (columns, found.formats.clone())))
        })
    }

    /// Execute message; `max_rows` 0 is no limit.
    pub fn execute(
        &mut self,
        portal: &str,
        max_rows: u32,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        self.clear_cancel();
        self.guard_told(sink, |conn, sink| {
            let found = conn.portals.get(portal).ok_or_else(|| no_portal(portal))?;
            let prepared = Arc::clone(&found.prepared);
            let Some(statement) = &prepared.statement else { return Ok(Executed::EmptyQuery) };
            // As in PostgreSQL, it is forgotten what a portal would have done that has failed.
            if !ends_transaction(&prepared) || matches!(found.progress, Progress::Failed) {
                conn.check_not_failed()?;
            }
            let found = conn.portals.get_mut(portal).ok_or_else(|| no_portal(portal))?;
            let mut run = found.take();
            let result = conn.execute_portal(&mut run, statement, portal, max_rows, sink);
            if result.is_err() {
                run.progress = Progress::Failed;
            }
            // It may have ended the transaction, and all portals with it.
            if let Some(found) = conn.portals.get_mut(portal) {
                found.put_back(run);
            }
            let executed = result?;
            conn.fire_statement_events()?;
            if !ends_transaction(&prepared) {
                conn.transaction.implicit_block |= conn.transaction.running && !conn.in_block();
            }
            conn.end_statement(sink)?;
            Ok(executed)
        })
    }

    fn execute_portal(
        &mut self,
        portal: &mut Portal,
        statement: &Statement,
        name: &str,
        max_rows: u32,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        match portal.progress {
            Progress::Query(_) | Progress::Fresh => self.start_portal(statement)?,
            Progress::Active | Progress::Done | Progress::Failed => return Err(not_runnable(name)),
        }
        if matches!(portal.progress, Progress::Query(_)) || self.open_rows(portal, name, sink)? {
            return self.execute_query(portal, name, max_rows, sink);
        }
        portal.progress = Progress::Done;
        let prepared = Arc::clone(&portal.prepared);
        match &portal.plan {
            Plan::Change(plan) => {
                let plan = self.plan_to_run(&prepared, plan, (name, portal))?;
                let mut cursor = Cursor::new(&plan.root, Arc::clone(&portal.params));
                let rows = run_to_end(&mut cursor, &mut self.host)?;
                Ok(Executed::tagged(plan.tag(rows)))
            }
            Plan::Declare(_) => match self.lock_plan(&prepared)? {
                Plan::Declare(plan) => {
                    self.declare(&prepared, &plan, &portal.params).map(Executed::Completed)
                }
                _ => unreachable!("the statement is a DECLARE"),
            },
            Plan::Select(_) => Err(not_runnable(name)),
            Plan::Utility => self.run_utility(&prepared, false, sink),
        }
    }

    /// Runs a portal whose rows are complete before the first of them is sent: RETURNING, FETCH,
    /// SHOW. False if it returns none.
    pub(super) fn open_rows(
        &mut self,
        portal: &mut Portal,
        name: &str,
        sink: &mut dyn RowSink,
    ) -> Result<bool> {
        let prepared = Arc::clone(&portal.prepared);
        if prepared.columns.is_none() {
            return Ok(false);
        }
        let rows = match &portal.plan {
            Plan::Change(plan) => {
                let plan = self.plan_to_run(&prepared, plan, (name, portal))?;
                QueryRows::new(&plan.root, &portal.params, None, false, &self.host)
            }
            Plan::Utility => {
                self.check_columns(&prepared)?;
                QueryRows::complete(self.utility_rows(&prepared, sink)?)
            }
            Plan::Select(_) | Plan::Declare(_) => return Ok(false),
        };
        portal.progress = Progress::Query(Box::new(rows));
        Ok(true)
    }

    /// Fails if the cursor that a FETCH reads has other columns than when its portal was made.
    fn check_columns(&self, prepared: &Prepared) -> Result<()> {
        if let Some(Kind::Fetch(fetch)) = prepared.statement.as_ref().map(|s| &*s.kind)
            && let Some(now) = self.fetched_columns(fetch)
            && Some(&now) != prepared.columns.as_ref()
        {
            let message = "cached plan must not change result type";
            return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
        }
        Ok(())
    }

    /// The plan of a portal that changes rows, which is about to run.
    fn plan_to_run(
        &mut self,
        prepared: &Prepared,
        plan: &Arc<ChangePlan>,
        portal: (&str, &Portal),
    ) -> Result<Arc<ChangePlan>> {
        let plan = self.change_plan(prepared, plan)?;
        self.check_changes(&plan.root)?;
        self.show_cursors(&plan.root, Some(portal));
        Ok(plan)
    }

    /// Begins the execution of a portal, unless its statement begins or ends a transaction.
    fn start_portal(&mut self, statement: &Statement) -> Result<()> {
        match &*statement.kind {
            Kind::Transaction(_) => Ok(()),
            kind => self.start_statement(kind),
        }
    }

    /// Sends rows of a query's portal.
    fn execute_query(
        &mut self,
        portal: &mut Portal,
        name: &str,
        max_rows: u32,
        sink: &mut dyn RowSink,
    ) -> Result<Executed> {
        if let Plan::Select(plan) = &portal.plan {
            self.show_cursors(&plan.root, Some((name, portal)));
        }
        let Portal { prepared, formats, progress, .. } = portal;
        let Progress::Query(rows) = progress else { return Err(not_runnable(name)) };
        let columns = prepared.columns.as_deref().unwrap_or_default();
        let max = (max_rows > 0).then_some(u64::from(max_rows));
        if max.is_none() {
            rows.use_workers();
        }
        let style = Arc::clone(&self.host.style);
        let sent = rows.forward(max, &mut self.host, &mut |values, host| {
            if host.may_warn() {
                tell(host, sink)?;
            }
            sink.row(&RowRef { values, columns, formats, style: &style })
        })?;
        // With the limit reached it is suspended, even if nothing should be left.
        if max == Some(sent) {
            return Ok(Executed::Suspended);
        }
        Ok(Executed::tagged(prepared.tag(sent)))
    }

    /// The plan of a statement that changes rows. It is made anew if the transaction itself has
    /// truncated the table since Bind, and refused if it has dropped it. Others can't have: the
    /// tables are locked.
    fn change_plan(
        &mut self,
        prepared: &Prepared,
        plan: &Arc<ChangePlan>,
    ) -> Result<Arc<ChangePlan>> {
        let same = !self.host.session()?.has_changed_catalogs();
        if same || self.lock_tables(&Plan::Change(Arc::clone(plan)))? {
            return Ok(Arc::clone(plan));
        }
        let oid = plan.modify().table.oid;
        match self.host.table_by_oid(oid)? {
            Some(_) => match self.lock_plan(prepared)? {
                Plan::Change(plan) => Ok(plan),
                _ => unreachable!("the statement changes rows"),
            },
            None => {
                let message = format!("could not open relation with OID {oid}");
                Err(SqlError::new(state::INTERNAL_ERROR, message))
            }
        }
    }

    /// Close (statement). Closing what is not there is no error.
    pub fn close_statement(&mut self, name: &str) -> Result<()> {
        self.prepared.remove(name);
        Ok(())
    }

    /// Close (portal).
    pub fn close_portal(&mut self, name: &str) -> Result<()> {
        self.portals.remove(name);
        Ok(())
    }

    /// Sync message: ends the implicit transaction. Call it also after an error, when Sync is
    /// reached.
    pub fn sync(&mut self) -> Result<()> {
        self.guard(Connection::end_implicit)
    }
}

pub(super) fn not_runnable(name: &str) -> SqlError {
    let message = format!("portal \"{name}\" cannot be run");
    SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// The code for one of several: none means 0, one means all.
fn pick(codes: &[i16], i: usize) -> i16 {
    match codes {
        [one] => *one,
        many => many.get(i).copied().unwrap_or(0),
    }
}

fn result_codes(codes: &[i16], columns: Option<&[ColumnDesc]>) -> Result<Vec<Format>> {
    let width = columns.map_or(0, <[ColumnDesc]>::len);
    if codes.len() > 1 && codes.len() != width {
        return Err(protocol(format!(
            "bind message has {} result formats but query has {width} columns",
            codes.len()
        )));
    }
    (0..width).map(|i| Format::from_code(pick(codes, i))).collect()
}

/// Reads a parameter.
fn parameter(
    bytes: Option<&[u8]>,
    ty: SqlType,
    format: Format,
    i: usize,
    portal: &str,
    style: &TextStyle<'_>,
) -> Result<Datum<'static>> {
    let Some(bytes) = bytes else { return Ok(Datum::Null) };
    let number = i + 1;
    let place = if portal.is_empty() {
        format!("unnamed portal parameter ${number}")
    } else {
        format!("portal \"{portal}\" parameter ${number}")
    };
    match format {
        Format::Text => {
            let text = style.encoding.received(style.client, bytes)?;
            let ty = if ty == SqlType::Regclass { SqlType::Oid } else { ty };
            let context = |e| SqlError::from(e).context(format!("{place} = '...'"));
            text_in_as(&text, ty, -1, style).map(Datum::into_owned).map_err(context)
        }
        Format::Binary => match binary_in(bytes, ty, style.encoding) {
            Ok(value) => Ok(value.into_owned()),
            Err(e) if e.is_too_long_binary() => Err(SqlError::new(
                state::INVALID_BINARY_REPRESENTATION,
                format!("incorrect binary data format in bind parameter {number}"),
            )),
            Err(e) => Err(SqlError::from(e).context(place)),
        },
    }
}
