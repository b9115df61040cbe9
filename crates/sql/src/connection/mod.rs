//! A client's connection: what the server drives.
//!
//! - `mod.rs`: Connection: its state, scripts of the simple protocol
//! - `extended.rs`: prepared statements and portals
//! - `held.rs`: both by name, within a session's memory
//! - `transaction.rs`: transaction blocks and implicit transactions
//! - `prepared.rs`: statements planned, and kept up to date
//! - `run.rs`: running them
//! - `utility.rs`: running those that are no query
//! - `copy.rs`: COPY, and the state of COPY FROM STDIN
//! - `sink.rs`: RowSink and what passes through it
//!
//! Simple protocol: `start_script`, then `step` until `Step::Finished`; every statement of the
//! string runs in one implicit transaction. Extended protocol: `parse`, `bind`, `describe_*`,
//! `execute`, `close_*`, `sync`. When an operation returns an error, the connection has already
//! aborted its implicit transaction or marked the explicit one as failed; the server sends the
//! error and (extended) skips to Sync.

mod copy;
mod extended;
mod held;
mod prepared;
mod run;
mod sink;
mod transaction;
mod utility;

pub use crate::column::ColumnDesc;
pub use crate::exec::Identity;
pub use copy::CopyIn;
pub use sink::{Format, RowRef, RowSink};
pub use transaction::TransactionStatus;

use crate::error::{Result, SqlError, state};
use crate::exec::Host;
use crate::parse::{Statement, parse_script};
use crate::settings::Settings;
use extended::Portal;
use forebay_engine::Session;
use held::Held;
use prepared::Prepared;
use std::sync::Arc;
use transaction::Transaction;

/// A completed command: its tag is its text, such as `INSERT 0 3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTag(pub String);

/// A simple-protocol query string, parsed, with the place it has reached.
pub struct Script {
    statements: std::vec::IntoIter<Statement>,
    empty: bool,
}

/// What a step of a script came to.
pub enum Step {
    /// A statement completed: send CommandComplete.
    Completed(CommandTag),
    /// The string held no statement: send EmptyQueryResponse (a `Finished` follows).
    EmptyQuery,
    /// COPY FROM STDIN: send CopyInResponse, feed the data, then go on with `step`.
    /// `CopyIn::finish` gives the command tag.
    CopyIn(CopyIn),
    /// Nothing is left: send ReadyForQuery.
    Finished,
}

/// What an extended-protocol Execute came to.
pub enum Executed {
    /// Ran to its end: CommandComplete.
    Completed(CommandTag),
    /// The row limit was reached: PortalSuspended.
    Suspended,
    /// An empty query string: EmptyQueryResponse.
    EmptyQuery,
    /// COPY FROM STDIN: as in [`Step::CopyIn`].
    CopyIn(CopyIn),
}

/// A session of SQL over the engine.
pub struct Connection {
    // Portals hold scans, which go before the session does.
    portals: Held<Portal>,
    prepared: Held<Arc<Prepared>>,
    transaction: Transaction,
    /// The settings' change count when the engine's session was last told of them.
    settings_told: Option<u64>,
    /// Cancels are not forgotten between messages.
    keeps_cancels: bool,
    host: Host,
}

impl Connection {
    /// A connection over an engine session.
    pub fn new(session: Session, settings: Box<dyn Settings>, identity: Identity) -> Connection {
        Connection::with_host(Host::new(Some(session), settings, identity))
    }

    /// A connection without an engine: expressions work, and there are no tables.
    pub fn detached(settings: Box<dyn Settings>, identity: Identity) -> Connection {
        Connection::with_host(Host::new(None, settings, identity))
    }

    fn with_host(host: Host) -> Connection {
        Connection {
            portals: Held::new(held::MOST),
            prepared: Held::new(held::MOST),
            transaction: Transaction::default(),
            settings_told: None,
            keeps_cancels: false,
            host,
        }
    }

    /// For ReadyForQuery.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.transaction.status()
    }

    /// The session's settings.
    pub fn settings(&mut self) -> &mut dyn Settings {
        &mut *self.host.settings
    }

    /// The engine's session, if there is one.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.host.session_if_any()
    }

    /// Simple protocol: parses the whole string. A syntax error anywhere fails it all.
    pub fn start_script(&mut self, sql: &str) -> Result<Script> {
        self.clear_cancel();
        self.prepared.remove("");
        self.portals.remove("");
        self.guard(|conn| {
            let statements = parse_script(sql, conn.host.interrupt())?;
            Ok(Script { empty: statements.is_empty(), statements: statements.into_iter() })
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
            match conn.run_simple(&statement, last, sink)? {
                Executed::CopyIn(copy) => Ok(Step::CopyIn(copy)),
                Executed::Completed(tag) => {
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

    /// A statement is over: sends the warnings of what it left open.
    fn end_statement(&mut self, sink: &mut dyn RowSink) -> Result<()> {
        if let Some(session) = self.host.session_if_any() {
            session.end_command();
        }
        self.send_warnings(sink)
    }

    /// Sends the engine's warnings that arose where nobody could be told: after `sync`, say.
    pub fn send_warnings(&mut self, sink: &mut dyn RowSink) -> Result<()> {
        tell_of_damage(&mut self.host, sink)?;
        let Some(session) = self.host.session_if_any() else { return Ok(()) };
        session
            .take_warnings()
            .try_for_each(|text| sink.notice(&SqlError::warning(state::WARNING, text)))
    }

    /// Forgets a cancel that came before. With `keep`, none that comes later is forgotten until the
    /// next call: a statement timeout runs from Parse to Execute, and may end a statement between
    /// two messages.
    pub fn keep_cancels(&mut self, keep: bool) {
        self.keeps_cancels = false;
        self.clear_cancel();
        self.keeps_cancels = keep;
    }

    /// Forgets a cancel that came between statements.
    fn clear_cancel(&mut self) {
        if self.keeps_cancels {
            return;
        }
        if let Some(session) = self.host.session_if_any() {
            session.interrupt().clear_cancel();
        }
    }

    /// Runs an operation; if it fails, so does the transaction.
    fn guard<T>(&mut self, operation: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let result = operation(self);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// The same for an operation that can tell of damaged pages: what there is to tell comes before
    /// the error.
    fn guard_told<T>(
        &mut self,
        sink: &mut dyn RowSink,
        operation: impl FnOnce(&mut Connection, &mut dyn RowSink) -> Result<T>,
    ) -> Result<T> {
        let result = self.guard(|conn| operation(conn, &mut *sink));
        if result.is_err() {
            // If it can't be sent, neither can the error.
            let _ = tell_of_damage(&mut self.host, sink);
        }
        result
    }

    /// Aborts what is open; the client has gone.
    pub fn close(mut self) {
        self.transaction.forget_block();
        self.fail();
    }
}

/// Sends what there is to tell of damaged pages that were read nevertheless.
fn tell_of_damage(host: &mut Host, sink: &mut dyn RowSink) -> Result<()> {
    let Some(session) = host.session_if_any() else { return Ok(()) };
    for warning in session.take_read_warnings() {
        let mut notice = SqlError::warning(state::DATA_CORRUPTED, warning.to_string());
        if let Some(detail) = warning.detail() {
            notice = notice.detail(detail);
        }
        if let Some(hint) = warning.hint() {
            notice = notice.hint(hint);
        }
        sink.notice(&notice)?;
    }
    Ok(())
}
