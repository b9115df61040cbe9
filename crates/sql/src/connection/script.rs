//! The simple protocol: query strings of any number of statements.

use super::outcome::{Executed, Step};
use super::sink::RowSink;
use super::state::Connection;
use crate::error::Result;
use crate::parse::{Statement, parse_script};

/// A simple-protocol query string, parsed, with the place it has reached.
pub struct Script {
    statements: std::vec::IntoIter<Statement>,
    empty: bool,
    /// It has more than one statement.
    several: bool,
}

impl Connection {
    /// Simple protocol: parses the whole string. A syntax error anywhere fails it all.
    pub fn start_script(&mut self, sql: &str) -> Result<Script> {
        self.clear_cancel();
        self.prepared.remove("");
        self.portals.remove("");
        self.guard(|conn| {
            let statements = parse_script(sql, conn.host.encoding(), conn.host.interrupt())?;
            let (empty, several) = (statements.is_empty(), statements.len() > 1);
            Ok(Script { statements: statements.into_iter(), empty, several })
        })
    }

    /// Simple protocol: runs the next statement.
    pub fn step(&mut self, script: &mut Script, sink: &mut dyn RowSink) -> Result<Step> {
        self.guard_told(sink, |conn, sink| {
            if std::mem::take(&mut script.empty) {
                return Ok(Step::EmptyQuery);
            }
            let Some(statement) = script.statements.next() else {
                conn.end_implicit()?;
                conn.send_warnings(sink)?;
                return Ok(Step::Finished);
            };
            let last = script.statements.len() == 0;
            conn.transaction.implicit_block |= script.several && !conn.in_block();
            match conn.run_simple(&statement, last, sink)? {
                Executed::CopyIn(copy) => Ok(Step::CopyIn(copy)),
                Executed::Completed(tag) => {
                    conn.fire_statement_events()?;
                    // Nothing is acknowledged before it is durable.
                    if last {
                        conn.end_implicit()?;
                    }
                    conn.end_statement(sink)?;
                    Ok(Step::Completed(tag))
                }
                Executed::Suspended | Executed::EmptyQuery => Ok(Step::Finished),
            }
        })
    }
}
