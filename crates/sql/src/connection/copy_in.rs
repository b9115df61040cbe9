//! COPY FROM STDIN, waiting for data.

use super::sink::{CommandTag, Format};
use super::state::Connection;
use crate::copy::{CopyParser, TakeRow};
use crate::error::{Result, SqlError, state};
use crate::exec::{Host, Loader, complete, eval};
use crate::plan::{Expr, RowRules};
use forebay_engine::Table;
use forebay_types::Datum;
use std::sync::Arc;

/// Bytes parsed between two looks at whether the batch is full.
const CHUNK: usize = 64 * 1024;

/// COPY FROM STDIN, waiting for data. It ends with `finish` or `abort`; if it is dropped, the next
/// end of the transaction ends it.
pub struct CopyIn {
    pub(super) parser: CopyParser,
    pub(super) loader: Loader,
    /// What is added to the rows that come.
    pub(super) added: Option<Added>,
    pub(super) format: Format,
    pub(super) columns: usize,
    pub(super) table: String,
    pub(super) rows: u64,
    /// The lines of the rows that the loader holds, if they may be refused when it inserts them.
    pub(super) lines: Option<Vec<u64>>,
    pub(super) last: bool,
}

/// What the rows of a COPY get beside what comes.
pub(super) struct Added {
    /// Columns that are not given, by their places among the live ones, and their defaults.
    pub(super) defaults: Vec<(usize, Expr)>,
    /// Generated columns and checks.
    pub(super) rules: Option<Arc<RowRules>>,
    pub(super) table: Arc<Table>,
}

impl Added {
    /// A row with all of its values.
    fn to<'v>(&self, row: &'v [Datum<'v>], host: &mut Host) -> Result<Vec<Datum<'v>>> {
        let mut values: Vec<Datum<'v>> = row.iter().map(Datum::reborrow).collect();
        for (place, default) in &self.defaults {
            if let Some(slot) = values.get_mut(*place) {
                *slot = eval(default, &[], &[], host)?.into_owned();
            }
        }
        let Some(rules) = &self.rules else { return Ok(values) };
        let completed = complete(rules, &self.table, &values, &[], host)?;
        Ok(completed.into_iter().map(Datum::into_owned).collect())
    }
}

impl CopyIn {
    /// Format of CopyInResponse.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Number of columns of CopyInResponse, all in the same format.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Takes the payload of a CopyData message, cut anywhere.
    pub fn push(&mut self, conn: &mut Connection, data: &[u8]) -> Result<()> {
        conn.guard(|conn| {
            for chunk in data.chunks(CHUNK) {
                self.parse(conn, |parser, take| parser.push(chunk, take))?;
                conn.host.check_cancel()?;
                if self.loader.is_full() {
                    self.flush(conn)?;
                }
            }
            Ok(())
        })
    }

    fn parse(
        &mut self,
        conn: &mut Connection,
        run: impl FnOnce(&mut CopyParser, TakeRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let CopyIn { loader, rows, lines, added, .. } = self;
        run(&mut self.parser, &mut |row, line| {
            *rows += 1;
            match added {
                None => loader.push(row)?,
                Some(added) => loader.push(&added.to(row, &mut conn.host)?)?,
            }
            lines.iter_mut().for_each(|lines| lines.push(line));
            Ok(())
        })
    }

    /// Inserts what the loader holds. An error about a row names its line.
    fn flush(&mut self, conn: &mut Connection) -> Result<()> {
        let flushed = self.loader.flush(&mut conn.host);
        let Some(lines) = &mut self.lines else { return flushed };
        let refused = self.loader.refused().and_then(|row| lines.get(row));
        let flushed = flushed.map_err(|error| match refused {
            Some(line) => error.context(format!("COPY {}, line {line}", self.table)),
            None => error,
        });
        lines.clear();
        flushed
    }

    /// CopyDone: inserts what is left.
    pub fn finish(mut self, conn: &mut Connection) -> Result<CommandTag> {
        conn.guard(|conn| {
            self.parse(conn, |parser, take| parser.finish(take))?;
            self.flush(conn)?;
            conn.fire_statement_events()?;
            if self.last {
                conn.end_implicit()?;
            }
            Ok(CommandTag(format!("COPY {}", self.rows)))
        })
    }

    /// CopyFail, or any message that has no place in a COPY: returns the error to send
    /// (57014 `COPY from stdin failed: reason`).
    pub fn abort(self, conn: &mut Connection, reason: &str) -> SqlError {
        conn.fail();
        SqlError::new(state::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
            .context(format!("COPY {}, line {}", self.table, self.rows + 1))
    }
}
