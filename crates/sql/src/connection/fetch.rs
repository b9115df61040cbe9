//! FETCH and MOVE.

use super::extended::not_runnable;
use super::query_rows::{QueryRows, Take, skip};
use super::sink::{CommandTag, Format, RowSink};
use super::state::{Connection, tell};
use super::statement::{Portal, Progress};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::exec::{Host, Row, RowStore};
use crate::parse::{Direction, Fetch, Kind, too_complex};

/// FETCHes in one another, at most: the stack has room for more.
const DEEPEST: u32 = 32;

pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(state::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

impl Connection {
    /// The columns of a FETCH; None: it is a MOVE, or its cursor has no rows or is not there.
    pub(super) fn fetched_columns(&self, fetch: &Fetch) -> Option<Vec<ColumnDesc>> {
        let portal = self.portals.get(&fetch.name).filter(|_| !fetch.is_move)?;
        portal.prepared.columns.clone()
    }

    /// The format in which the simple protocol sends the rows of a statement: text, but for a FETCH
    /// from a cursor that was declared BINARY.
    pub(super) fn simple_format(&self, kind: &Kind) -> Format {
        match kind {
            Kind::Fetch(fetch)
                if self.portals.get(&fetch.name).is_some_and(|p| p.traits.binary) =>
            {
                Format::Binary
            }
            _ => Format::Text,
        }
    }

    /// Runs FETCH. As in PostgreSQL, the client gets no row before all are there.
    pub(super) fn fetch(&mut self, fetch: &Fetch, sink: &mut dyn RowSink) -> Result<RowStore> {
        let mut store = RowStore::new(&self.host);
        self.go(fetch, sink, &mut |values, host| store.push(Row { values, ctid: None }, host))?;
        Ok(store)
    }

    /// Runs MOVE, or a FETCH that the client expects no rows of.
    pub(super) fn move_cursor(
        &mut self,
        fetch: &Fetch,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        let rows = self.go(fetch, sink, &mut skip)?;
        let command = if fetch.is_move { "MOVE" } else { "FETCH" };
        Ok(CommandTag(format!("{command} {rows}")))
    }

    /// Moves a cursor, and hands rows over. The number of rows.
    fn go(&mut self, fetch: &Fetch, sink: &mut dyn RowSink, take: Take<'_>) -> Result<u64> {
        let name = &fetch.name;
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        if let Progress::Active | Progress::Done | Progress::Failed = portal.progress {
            return Err(not_runnable(name));
        }
        if self.fetches == DEEPEST {
            return Err(too_complex());
        }
        let mut run = portal.take();
        self.fetches += 1;
        let moved = self.go_in(&mut run, fetch, sink, take);
        self.fetches -= 1;
        if moved.is_err() {
            run.progress = Progress::Failed;
        }
        if let Some(portal) = self.portals.get_mut(name) {
            portal.put_back(run);
        }
        moved
    }

    fn go_in(
        &mut self,
        portal: &mut Portal,
        fetch: &Fetch,
        sink: &mut dyn RowSink,
        take: Take<'_>,
    ) -> Result<u64> {
        let name = fetch.name.as_str();
        if matches!(portal.progress, Progress::Fresh) && !self.open_rows(portal, name, sink)? {
            return Err(SqlError::new(state::INTERNAL_ERROR, "unsupported portal strategy"));
        }
        let Progress::Query(rows) = &portal.progress else { return Err(not_runnable(name)) };
        if let Some(plan) = rows.plan() {
            self.show_cursors(plan, Some((name, portal)));
        }
        let Progress::Query(rows) = &mut portal.progress else { return Err(not_runnable(name)) };
        go(rows, fetch.direction, fetch.is_move, &mut self.host, &mut |values, host| {
            if host.may_warn() {
                tell(host, sink)?;
            }
            take(values, host)
        })
    }
}

/// Goes in a direction. What a negative number and 0 mean is PostgreSQL's.
fn go(
    rows: &mut QueryRows,
    direction: Direction,
    is_move: bool,
    host: &mut Host,
    take: Take<'_>,
) -> Result<u64> {
    let count = |n: i32| Some(u64::from(n.unsigned_abs()));
    match direction {
        Direction::Absolute(n) if n > 0 => {
            let before = u64::from(n.unsigned_abs()) - 1;
            if before < rows.place() {
                rows.rewind(before, host)?;
            } else {
                rows.forward(Some(before - rows.place()), host, &mut skip)?;
            }
            rows.forward(Some(1), host, take)
        }
        Direction::Absolute(0) => rows.rewind(0, host).map(|()| 0),
        Direction::Absolute(n) => {
            rows.forward(None, host, &mut skip)?;
            back_to(rows, n, host, take)
        }
        Direction::Relative(n) if n > 0 => {
            rows.forward(count(n - 1), host, &mut skip)?;
            rows.forward(Some(1), host, take)
        }
        Direction::Relative(n) if n < 0 => back_to(rows, n, host, take),
        Direction::Forward(Some(n)) if n > 0 => rows.forward(count(n), host, take),
        Direction::Forward(None) => rows.forward(None, host, take),
        Direction::Backward(Some(n)) if n < 0 => rows.forward(count(n), host, take),
        Direction::Backward(Some(n)) if n > 0 => rows.backward(count(n), host, take),
        Direction::Forward(Some(n)) if n < 0 => rows.backward(count(n), host, take),
        Direction::Backward(None) if is_move => {
            let before = rows.place().saturating_sub(1);
            rows.rewind(0, host).map(|()| before)
        }
        Direction::Backward(None) => rows.backward(None, host, take),
        // The row that it is on, again.
        _ if is_move => Ok(u64::from(rows.is_on_row())),
        _ if rows.is_on_row() => {
            rows.backward(Some(1), host, &mut skip)?;
            rows.forward(Some(1), host, take)
        }
        Direction::Backward(_) => rows.backward(Some(0), host, take),
        Direction::Forward(_) | Direction::Relative(_) => Ok(0),
    }
}

/// Goes back by so many rows, and hands the last of them over.
fn back_to(rows: &mut QueryRows, n: i32, host: &mut Host, take: Take<'_>) -> Result<u64> {
    if n < -1 {
        rows.backward(Some(u64::from(n.unsigned_abs()) - 1), host, &mut skip)?;
    }
    rows.backward(Some(1), host, take)
}
