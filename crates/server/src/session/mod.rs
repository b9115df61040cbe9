//! One client's session, on a thread of its own.
//!
//! - `startup`: from the first packet to the first ReadyForQuery
//! - `output`: the buffer of messages to the client; the sink of statements' results
//! - `query`: simple and extended queries
//! - `copy`: COPY FROM STDIN
//!
//! The session handles messages one by one, in order. After an error in an extended query it skips
//! everything up to the next Sync. It sends its output when the client has to see it: at
//! ReadyForQuery, at Flush, when a COPY waits for data, after an error in an extended query, and
//! when the buffer is full.

mod copy;
mod output;
mod query;
pub mod startup;

use crate::log;
use crate::registry::Registration;
use crate::settings::{Key, Lookup, SessionValues, Text, client_encoding, key};
use crate::shared::Shared;
use crate::wire::backend;
use crate::wire::frames::{FrameReader, Next};
use crate::wire::frontend::{self, Encodings, Frontend};
use crate::wire::stream::Stream;
use forebay_aio::sync::Duration;
use forebay_sql::{Connection, Encoding, Settings, Severity, SqlError, TransactionStatus};
use output::Output;
use std::sync::Arc;

/// Why a session ends.
#[derive(Debug)]
enum End {
    /// The client has ended the session or the connection: there is nobody to tell.
    Gone,
    /// The client is told why.
    Fatal(SqlError),
}

impl From<SqlError> for End {
    fn from(e: SqlError) -> End {
        End::Fatal(e)
    }
}

/// The result of a step of the session.
type Flow<T = ()> = Result<T, End>;

/// A session in its main loop.
struct Session {
    shared: Arc<Shared>,
    registration: Registration,
    reader: FrameReader<Stream>,
    out: Output,
    conn: Connection,
    settings: SessionValues,
    /// The version of the server's settings that this session follows.
    server_version: u64,
    hot: Hot,
    /// The settings' change count at the last report to the client.
    reported_at: u64,
    /// The values last reported.
    reported: Vec<(&'static str, String)>,
    pid: i32,
    /// After an error: skip to the next Sync.
    skipping: bool,
    /// The statement timeout is running.
    clock_runs: bool,
    /// The client was told that the session waits for a query.
    idle: bool,
}

/// Settings that every statement needs, kept until one changes.
#[derive(Debug, Default)]
struct Hot {
    /// The settings' change count they were read at.
    at: u64,
    log_statements: bool,
    /// In milliseconds; zero: none.
    statement_timeout: u64,
    /// The same, for the wait for a query outside of transactions.
    idle_timeout: u64,
    /// The same, in a transaction.
    idle_in_transaction_timeout: u64,
    /// client_encoding
    client_encoding: Encoding,
}

/// A message, its bytes still in the read buffer.
struct Raw {
    kind: u8,
    body: std::ops::Range<usize>,
}

impl Session {
    /// Serves the client until it leaves.
    fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.serve_one() {
                return end;
            }
        }
    }

    fn serve_one(&mut self) -> Flow {
        let raw = self.next_message()?;
        self.follow_settings();
        match raw.kind {
            b'X' => Err(End::Gone),
            b'S' => {
                self.skipping = false;
                self.stop_clock();
                let ended = self.conn.sync().and_then(|()| self.conn.send_warnings(&mut self.out));
                if let Err(e) = ended {
                    self.statement_failed(&e, None)?;
                }
                self.ready()
            }
            _ if self.skipping => Ok(()),
            b'P' | b'B' | b'D' | b'E' | b'C' => self.extended(&raw),
            b'H' => self.flush(),
            // These are left over from a COPY that has failed.
            b'd' | b'c' | b'f' => Ok(()),
            _ => match frontend::decode(raw.kind, self.reader.body(raw.body), self.encodings()) {
                Ok(Frontend::Query(sql)) => {
                    let sql = sql.into_owned();
                    self.simple_query(&sql)
                }
                // A password that was not asked for.
                Ok(_) => Err(End::Fatal(frontend::unknown_kind(raw.kind))),
                Err(e) if e.severity == Severity::Fatal => Err(End::Fatal(e)),
                Err(e) => {
                    self.conn.fail();
                    self.report_error(&e, None);
                    self.ready()
                }
            },
        }
    }

    /// How long the session may wait for a query now, and the error if it waits longer.
    fn idle_limit(&self) -> Option<(Duration, SqlError)> {
        let in_transaction = self.conn.transaction_status() != TransactionStatus::Idle;
        let (millis, sqlstate, what) = if in_transaction {
            (self.hot.idle_in_transaction_timeout, "25P03", "idle-in-transaction")
        } else {
            (self.hot.idle_timeout, "57P05", "idle-session")
        };
        let message = || format!("terminating connection due to {what} timeout");
        let error = || SqlError::report(Severity::Fatal, sqlstate, message());
        (millis > 0).then(|| (Duration::from_millis(millis), error()))
    }

    /// Waits for a message.
    fn next_message(&mut self) -> Flow<Raw> {
        let limit = if std::mem::take(&mut self.idle) { self.idle_limit() } else { None };
        if let Some((after, _)) = &limit {
            self.registration.set_idle_deadline(*after);
        }
        let next = self.reader.next(frontend::length_limit);
        if let Some((_, error)) = limit
            && !self.registration.end_idle()
        {
            return Err(End::Fatal(error));
        }
        match next {
            Ok(Next::Message { kind, body }) => Ok(Raw { kind, body }),
            Ok(Next::Eof { .. }) | Err(_) if self.registration.connection.is_leaving() => {
                Err(End::Fatal(leaving()))
            }
            Ok(Next::Eof { cut }) => {
                if cut || self.conn.transaction_status() != TransactionStatus::Idle {
                    let what = "unexpected EOF on client connection with an open transaction";
                    log::session(self.pid, what);
                }
                Err(End::Gone)
            }
            Ok(Next::UnknownKind(kind)) => Err(End::Fatal(frontend::unknown_kind(kind))),
            Ok(Next::BadLength) => {
                Err(SqlError::report(Severity::Fatal, "08P01", "invalid message length").into())
            }
            Err(e) => {
                log::session(self.pid, format!("could not receive data from client: {e}"));
                Err(End::Gone)
            }
        }
    }

    /// Sends all output.
    fn flush(&mut self) -> Flow {
        // The client can't be written to.
        self.out.flush().map_err(|_| End::Gone)
    }

    /// Reports changed settings to the client, and that the session is ready for a query.
    fn ready(&mut self) -> Flow {
        self.report_settings();
        backend::ready_for_query(self.out.buffer(), self.conn.transaction_status());
        // What the statement has set counts for the wait, too.
        self.follow_settings();
        self.idle = true;
        self.flush()
    }

    fn report_settings(&mut self) {
        let count = self.settings.change_count();
        if count == self.reported_at {
            return;
        }
        let now = self.settings.reported();
        for (new, old) in now.iter().zip(&self.reported) {
            if new != old {
                let encoding = self.out.encoding();
                backend::parameter_status(self.out.buffer(), (new.0, &new.1), encoding);
            }
        }
        self.reported = now;
        self.reported_at = count;
    }

    /// The encodings of the texts that come.
    fn encodings(&self) -> Encodings {
        Encodings { database: self.out.encoding(), client: self.hot.client_encoding }
    }

    /// Follows the server's settings after a reload, and reads again what every statement needs
    /// after a change.
    fn follow_settings(&mut self) {
        if self.shared.settings_version() != self.server_version {
            self.server_version = self.shared.settings_version();
            self.settings.follow(self.shared.settings());
        }
        let count = self.settings.change_count();
        if count != self.hot.at {
            let out = &mut self.out;
            self.hot = self.settings.read(|values| {
                out.set_least_severity(values.text(key!("client_min_messages")));
                Hot {
                    at: count,
                    log_statements: values.text(key!("log_statement")) == "all",
                    statement_timeout: values.count(key!("statement_timeout")),
                    idle_timeout: values.count(key!("idle_session_timeout")),
                    idle_in_transaction_timeout: values
                        .count(key!("idle_in_transaction_session_timeout")),
                    client_encoding: client_encoding(values),
                }
            });
        }
    }

    /// Reports a statement's error to client and log. A FATAL one ends the session.
    fn statement_failed(&mut self, e: &SqlError, statement: Option<&str>) -> Flow {
        if matches!(e.severity, Severity::Fatal | Severity::Panic) {
            return Err(End::Fatal(e.clone()));
        }
        if e.sqlstate == "57P01"
            || (e.sqlstate == "57014" && self.registration.connection.is_leaving())
        {
            return Err(End::Fatal(leaving()));
        }
        if self.out.is_broken() {
            return Err(End::Gone);
        }
        let timed_out = e.sqlstate == "57014" && self.registration.connection.take_timed_out();
        let timeout = SqlError::new("57014", "canceling statement due to statement timeout");
        self.report_error(if timed_out { &timeout } else { e }, statement);
        Ok(())
    }

    fn report_error(&mut self, e: &SqlError, statement: Option<&str>) {
        let encoding = self.out.encoding();
        log_error(&self.settings, (self.pid, encoding), e, statement);
        backend::report(self.out.buffer(), e, encoding);
    }
}

/// The error of sessions that a stop ends.
pub fn leaving() -> SqlError {
    SqlError::report(
        Severity::Fatal,
        "57P01",
        "terminating connection due to administrator command",
    )
}

/// Writes an error to the log, as log_min_messages and log_min_error_statement say.
fn log_error(
    settings: &SessionValues,
    (pid, encoding): (i32, Encoding),
    e: &SqlError,
    statement: Option<&str>,
) {
    let wanted = |level: Key<Text>| {
        settings.read(|values| !matches!(values.text(level), "log" | "fatal" | "panic"))
    };
    if e.severity == Severity::Error && !wanted(key!("log_min_messages")) {
        return;
    }
    let mut text = e.message.clone();
    if let Some(position) = e.position {
        text.push_str(&format!(" at character {position}"));
    }
    let line = |kind, text: &str| log::line(kind, Some(pid), &encoding.shown(text));
    line(e.severity.as_str(), &text);
    for (kind, field) in [("DETAIL", &e.detail), ("HINT", &e.hint), ("CONTEXT", &e.context)] {
        if let Some(field) = field {
            line(kind, field);
        }
    }
    if let Some(statement) = statement.filter(|_| wanted(key!("log_min_error_statement"))) {
        line("STATEMENT", statement);
    }
}
