//! FETCH and MOVE.

use super::extended::not_runnable;
use super::query_rows::{QueryRows, Take, skip};
use super::sink::{CommandTag, Format, RowRef, RowSink};
use super::state::{Connection, tell};
use super::statement::{Portal, Progress};
use crate::column::ColumnDesc;
use crate::error::{Result, SqlError, state};
use crate::exec::Host;
use crate::parse::{Direction, Fetch, Kind};

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

    /// Runs FETCH or MOVE. With `announce`, the sink is told of the columns before the first row, or
    /// if there is none: as in PostgreSQL, not if it fails at once.
    pub(super) fn fetch(
        &mut self,
        fetch: &Fetch,
        columns: &[ColumnDesc],
        formats: &[Format],
        mut announce: bool,
        sink: &mut dyn RowSink,
    ) -> Result<CommandTag> {
        let name = &fetch.name;
        let portal = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
        if let Progress::Query(rows) = &portal.progress
            && let Some(plan) = rows.plan().cloned()
        {
            self.show_cursors(&plan, None);
        }
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let moved = run(portal, fetch, &mut self.host, &mut |values, host| {
            if host.may_warn() {
                tell(host, sink)?;
            }
            if std::mem::take(&mut announce) {
                sink.columns(columns, formats)?;
            }
            sink.row(&RowRef { values, columns, formats })
        });
        if moved.is_err() {
            portal.progress = Progress::Failed;
        }
        let rows = moved?;
        if fetch.is_move {
            return Ok(CommandTag(format!("MOVE {rows}")));
        }
        if announce {
            sink.columns(columns, formats)?;
        }
        Ok(CommandTag(format!("FETCH {rows}")))
    }
}

/// Moves a cursor, and hands rows over unless it is a MOVE. The number of rows.
fn run(portal: &mut Portal, fetch: &Fetch, host: &mut Host, take: Take<'_>) -> Result<u64> {
    let rows = match &mut portal.progress {
        Progress::Query(rows) => rows,
        Progress::Fresh => {
            return Err(SqlError::new(state::INTERNAL_ERROR, "unsupported portal strategy"));
        }
        Progress::Done | Progress::Failed => return Err(not_runnable(&fetch.name)),
    };
    match fetch.direction {
        _ if fetch.is_move => go(rows, fetch.direction, true, host, &mut skip),
        direction => go(rows, direction, false, host, take),
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
