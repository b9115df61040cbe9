//! A client's connection: what the server drives.
//!
//! - `mod.rs`: Connection: state, the public operations
//! - `sink.rs`: RowSink and what passes through it
//!
//! Simple protocol: `start_script`, then `step` until `Step::Finished`; every statement of the string runs in
//! one implicit transaction. Extended protocol: `parse`, `bind`, `describe_*`, `execute`, `close_*`, `sync`.
//! When an operation returns an error, the connection has already aborted its implicit transaction or marked
//! the explicit one as failed; the server sends the error and (extended) skips to Sync.

mod sink;

pub use sink::{ColumnDesc, Format, RowRef, RowSink};

use crate::error::{Result, SqlError};
use crate::settings::Settings;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use forebay_engine::Session;

/// Who is connected.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Role name.
    pub user: String,
    /// Database name.
    pub database: String,
    /// The number BackendKeyData told the client; `pg_backend_pid()`.
    pub pid: i32,
    /// What `version()` returns.
    pub version: String,
}

/// A completed command: its tag is its text, such as `INSERT 0 3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTag(pub String);

/// Transaction status of ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: no transaction block.
    Idle,
    /// `T`: in a transaction block.
    InBlock,
    /// `E`: in a failed transaction block.
    Failed,
}

impl TransactionStatus {
    /// The byte of ReadyForQuery.
    pub fn as_byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InBlock => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// A simple-protocol query string, parsed, with the place it has reached.
pub struct Script {
    _private: (),
}

/// What a step of a script came to.
pub enum Step {
    /// A statement completed: send CommandComplete.
    Completed(CommandTag),
    /// The string held no statement: send EmptyQueryResponse (a `Finished` follows).
    EmptyQuery,
    /// COPY FROM STDIN: send CopyInResponse, feed the data, then go on with `step`. `CopyIn::finish` gives the
    /// command tag.
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

/// COPY FROM STDIN, waiting for data. Dropping it without `finish` or `abort` is a bug of the caller; the
/// transaction then fails at its next use.
pub struct CopyIn {
    _private: (),
}

impl CopyIn {
    /// Format of CopyInResponse.
    pub fn format(&self) -> Format {
        Format::Text
    }

    /// Number of columns of CopyInResponse, all in the same format.
    pub fn columns(&self) -> usize {
        0
    }

    /// Takes the payload of a CopyData message, cut anywhere.
    pub fn push(&mut self, _conn: &mut Connection, _data: &[u8]) -> Result<()> {
        Err(SqlError::unsupported("COPY"))
    }

    /// CopyDone: inserts what is left.
    pub fn finish(self, _conn: &mut Connection) -> Result<CommandTag> {
        Err(SqlError::unsupported("COPY"))
    }

    /// CopyFail, or any message that has no place in a COPY: returns the error to send
    /// (57014 `COPY from stdin failed: reason`).
    pub fn abort(self, _conn: &mut Connection, reason: &str) -> SqlError {
        SqlError::new(crate::error::state::QUERY_CANCELED, format!("COPY from stdin failed: {reason}"))
    }
}

/// A session of SQL over the engine.
pub struct Connection {
    _session: Session,
    settings: Box<dyn Settings>,
    _identity: Identity,
    cancel: Arc<AtomicBool>,
}

impl Connection {
    /// A connection over an engine session.
    pub fn new(session: Session, settings: Box<dyn Settings>, identity: Identity) -> Connection {
        Connection {
            _session: session,
            settings: settings,
            _identity: identity,
            cancel: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Set it to true to cancel what runs (57014); cleared when the error is raised, and when a statement starts.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// For ReadyForQuery.
    pub fn transaction_status(&self) -> TransactionStatus {
        TransactionStatus::Idle
    }

    /// The session's settings.
    pub fn settings(&mut self) -> &mut dyn Settings {
        &mut *self.settings
    }

    /// Simple protocol: parses the whole string. A syntax error anywhere fails it all.
    pub fn start_script(&mut self, _sql: &str) -> Result<Script> {
        Ok(Script { _private: () })
    }

    /// Simple protocol: runs the next statement.
    pub fn step(&mut self, _script: &mut Script, _sink: &mut dyn RowSink) -> Result<Step> {
        Ok(Step::Finished)
    }

    /// Parse message: plans `sql` under `name` ("" is the unnamed statement); `types` are parameter types, 0 or
    /// absent to infer.
    pub fn parse(&mut self, _name: &str, _sql: &str, _types: &[u32]) -> Result<()> {
        Err(SqlError::unsupported("Parse"))
    }

    /// Describe (statement): parameter types, and the columns if it returns rows.
    pub fn describe_statement(&mut self, _name: &str) -> Result<(Vec<u32>, Option<Vec<ColumnDesc>>)> {
        Err(SqlError::unsupported("Describe"))
    }

    /// Bind message. `param_formats` and `result_formats` are as in the protocol: none (all text), one (for
    /// all) or one each.
    pub fn bind(
        &mut self,
        _portal: &str,
        _statement: &str,
        _param_formats: &[i16],
        _params: &[Option<&[u8]>],
        _result_formats: &[i16],
    ) -> Result<()> {
        Err(SqlError::unsupported("Bind"))
    }

    /// Describe (portal): columns with the formats the portal was bound with, or none (NoData).
    pub fn describe_portal(&mut self, _portal: &str) -> Result<Option<(Vec<ColumnDesc>, Vec<Format>)>> {
        Err(SqlError::unsupported("Describe"))
    }

    /// Execute message; `max_rows` 0 is no limit.
    pub fn execute(&mut self, _portal: &str, _max_rows: u32, _sink: &mut dyn RowSink) -> Result<Executed> {
        Err(SqlError::unsupported("Execute"))
    }

    /// Close (statement). Closing what is not there is no error.
    pub fn close_statement(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Close (portal).
    pub fn close_portal(&mut self, _name: &str) -> Result<()> {
        Ok(())
    }

    /// Sync message: ends the implicit transaction. Call it also after an error, when Sync is reached.
    pub fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    /// The server failed outside any call (a protocol error in mid-statement): abort as if a statement had.
    pub fn fail(&mut self) {}

    /// Aborts what is open; the client has gone.
    pub fn close(self) {}
}
