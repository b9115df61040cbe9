//! Simple and extended queries.

use super::{Flow, Raw, Session};
use crate::log;
use crate::wire::backend;
use crate::wire::frontend::{self, Frontend, Target};
use forebay_aio::sync::Duration;
use forebay_sql::{Executed, SqlError, Step};

impl Session {
    /// Handles a Query message: one or more statements, up to the first error.
    pub(super) fn simple_query(&mut self, sql: &str) -> Flow {
        if self.hot.log_statements {
            let shown = self.out.encoding().shown(sql);
            log::session(self.pid, format!("statement: {shown}"));
        }
        self.start_clock();
        let result = self.run_script(sql);
        self.stop_clock();
        match result {
            Ok(flow) => flow?,
            Err(e) => self.statement_failed(&e, Some(sql))?,
        }
        self.ready()
    }

    /// Runs a script. The outer result is that of the statements, the inner one of the session.
    fn run_script(&mut self, sql: &str) -> Result<Flow, SqlError> {
        let mut script = self.conn.start_script(sql)?;
        loop {
            self.out.flush_if_full()?;
            match self.conn.step(&mut script, &mut self.out)? {
                Step::Completed(tag) => backend::command_complete(self.out.buffer(), &tag.0),
                Step::EmptyQuery => backend::empty_query(self.out.buffer()),
                Step::CopyIn(copy) => match self.copy_in(*copy) {
                    Ok(done) => backend::command_complete(self.out.buffer(), &done?.0),
                    Err(end) => return Ok(Err(end)),
                },
                Step::Finished => return Ok(Ok(())),
            }
        }
    }

    /// Handles a message of the extended protocol. After an error the session skips everything up
    /// to the next Sync.
    pub(super) fn extended(&mut self, raw: &Raw) -> Flow {
        // As in PostgreSQL, the statement timeout runs from the first message to the end of
        // Execute, or to Sync.
        if !self.clock_runs && raw.kind != b'C' {
            self.start_clock();
        }
        let result =
            self.extended_step(raw).and_then(|flow| self.out.flush_if_full().map(|()| flow));
        if raw.kind == b'E' || result.is_err() {
            self.stop_clock();
        }
        match result {
            Ok(flow) => flow,
            Err(e) => {
                let statement = (raw.kind == b'P').then(|| self.parse_text(raw));
                self.skipping = true;
                self.statement_failed(&e, statement.as_deref())?;
                // The client may wait for the error before it sends Sync, and Flush is skipped too.
                self.flush()
            }
        }
    }

    /// The query text of a Parse message, for the log.
    fn parse_text(&self, raw: &Raw) -> String {
        match frontend::decode(raw.kind, self.reader.body(raw.body.clone()), self.encodings()) {
            Ok(Frontend::Parse(p)) => p.query.into_owned(),
            _ => String::new(),
        }
    }

    fn extended_step(&mut self, raw: &Raw) -> Result<Flow, SqlError> {
        let (encodings, encoding) = (self.encodings(), self.out.encoding());
        let (conn, out) = (&mut self.conn, &mut self.out);
        let message =
            match frontend::decode(raw.kind, self.reader.body(raw.body.clone()), encodings) {
                Ok(message) => message,
                Err(e) => {
                    conn.fail();
                    return Err(e);
                }
            };
        match message {
            Frontend::Parse(p) => {
                if self.hot.log_statements {
                    log::session(self.pid, format!("statement: {}", encoding.shown(&p.query)));
                }
                conn.parse(&p.name, &p.query, &p.types)?;
                backend::parse_complete(out.buffer());
            }
            Frontend::Bind(b) => {
                let (formats, results) = (&b.param_formats, &b.result_formats);
                conn.bind(&b.portal, &b.statement, formats, &b.params, results)?;
                backend::bind_complete(out.buffer());
            }
            Frontend::Describe(Target::Statement(name)) => {
                let (types, columns) = conn.describe_statement(&name)?;
                if types.len() > usize::from(u16::MAX) {
                    return Err(SqlError::new("54000", "too many parameters"));
                }
                backend::parameter_description(out.buffer(), &types);
                match columns {
                    Some(columns) => {
                        backend::row_description(out.buffer(), (&columns, &[]), encoding)
                    }
                    None => backend::no_data(out.buffer()),
                }
            }
            Frontend::Describe(Target::Portal(name)) => match conn.describe_portal(&name)? {
                Some((columns, formats)) => {
                    backend::row_description(out.buffer(), (&columns, &formats), encoding)
                }
                None => backend::no_data(out.buffer()),
            },
            Frontend::Execute { portal, max_rows } => {
                // A COPY reads more messages.
                let portal = portal.into_owned();
                // Zero and less mean all rows. No memory is allocated for the limit.
                let limit = u32::try_from(max_rows).unwrap_or(0);
                match conn.execute(&portal, limit, out)? {
                    Executed::Completed(tag) => backend::command_complete(out.buffer(), &tag.0),
                    Executed::Suspended => backend::portal_suspended(out.buffer()),
                    Executed::EmptyQuery => backend::empty_query(out.buffer()),
                    Executed::CopyIn(copy) => match self.copy_in(*copy) {
                        Ok(done) => backend::command_complete(self.out.buffer(), &done?.0),
                        Err(end) => return Ok(Err(end)),
                    },
                }
            }
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => conn.close_statement(&name)?,
                    Target::Portal(name) => conn.close_portal(&name)?,
                }
                backend::close_complete(out.buffer());
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    /// Starts the statement timeout, if there is one.
    fn start_clock(&mut self) {
        // Clears a timeout of the statement before, which came too late.
        self.registration.connection.take_timed_out();
        if self.hot.statement_timeout > 0 {
            // This comes first: the deadline may pass at once.
            self.conn.keep_cancels(true);
            self.registration.set_deadline(Duration::from_millis(self.hot.statement_timeout));
            self.clock_runs = true;
        }
    }

    /// Stops the statement timeout.
    pub(super) fn stop_clock(&mut self) {
        if self.clock_runs {
            self.registration.clear_deadline();
            self.conn.keep_cancels(false);
            self.clock_runs = false;
        }
    }
}
