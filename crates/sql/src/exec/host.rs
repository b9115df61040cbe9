//! What running statements use: the engine's session, the settings, who is connected.

use super::measure::Measures;
use super::modes::{Mode, Modes};
use crate::error::{Result, SqlError, state};
use crate::plan::{Catalog, PageUsage};
use crate::settings::{IsolationLevel, SetScope, SettingRow, Settings, Shown};
use crate::views::CursorRow;
use forebay_aio::IoBackend;
use forebay_aio::sync::{Duration, Instant};
use forebay_engine::{
    Engine, EngineError, Interrupt, Isolation, ParallelSettings, Part, Session, SharedValues,
    Table, TempOptions, compressed_value,
};
use forebay_types::{Datum, Encoding, Oid, Repr, TextStyle};
use std::cell::Cell;
use std::sync::Arc;

/// Who is connected.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Role name.
    pub user: String,
    /// Database name.
    pub database: String,
    /// The number that BackendKeyData gave the client; `pg_backend_pid()`.
    pub pid: i32,
    /// What `version()` returns.
    pub version: String,
}

/// A literal that names a row: its type, its text, and the row's OID.
pub type NamedRow = (Oid, Box<str>, Oid);

/// Warnings of a statement that are kept until they are sent; later ones are dropped.
const MOST_WARNINGS: usize = 100;

/// What a running statement uses. Without a session there are no tables and no transactions, but
/// expressions can be evaluated.
pub struct Host {
    session: Option<Session>,
    /// A worker's way to values that are stored out of line.
    pub(super) values: Option<SharedValues>,
    /// Settings.
    pub settings: Box<dyn Settings>,
    /// Who is connected.
    pub identity: Identity,
    /// The running transaction's modes.
    pub modes: Modes,
    /// What text forms depend on, and when the transaction began.
    pub style: Arc<TextStyle<'static>>,
    /// When the statement began, in microseconds since 2000.
    pub statement_time: i64,
    warnings: Vec<SqlError>,
    /// The session's cursors, when a statement began that looks at them.
    pub cursors: Vec<CursorRow>,
    /// What the running plan does, for EXPLAIN ANALYZE.
    pub measures: Option<Measures>,
    /// Whether the plan that is being opened may use worker threads.
    pub(super) uses_workers: bool,
    random: u64,
    /// The rows that literals named, while a statement is planned that is kept.
    pub(super) noted: Option<Vec<NamedRow>>,
    /// The roles as which statements run, if SET ROLE or SET SESSION AUTHORIZATION have a say.
    roles: Option<Roles>,
    /// Steps since the last test for a cancel.
    pub(super) steps: Cell<u32>,
}

/// The roles as which statements run.
#[derive(Clone, Debug)]
struct Roles {
    current: Arc<str>,
    session_user: Arc<str>,
    superuser: bool,
}

/// There is no relation with this OID.
pub fn could_not_open(oid: u32) -> SqlError {
    SqlError::new(state::INTERNAL_ERROR, format!("could not open relation with OID {oid}"))
}

impl Host {
    /// A host over an engine session.
    pub fn new(session: Option<Session>, settings: Box<dyn Settings>, identity: Identity) -> Host {
        let now = forebay_aio::sync::SystemTime::now()
            .duration_since(forebay_aio::sync::UNIX_EPOCH)
            .unwrap_or_default();
        let random =
            (now.as_nanos() as u64 ^ u64::from(identity.pid.unsigned_abs()).rotate_left(32)) | 1;
        let encoding = session.as_ref().map_or_else(Encoding::default, Session::encoding);
        let (modes, warnings, cursors) = (Modes::default(), Vec::new(), Vec::new());
        Host {
            session,
            values: None,
            settings,
            identity,
            modes,
            style: Arc::new(TextStyle { encoding, ..TextStyle::default() }),
            statement_time: 0,
            warnings,
            cursors,
            measures: None,
            uses_workers: false,
            random,
            noted: None,
            roles: None,
            steps: Cell::new(0),
        }
    }

    /// A host for a worker, which evaluates expressions and has no session.
    pub(super) fn of_worker(&self) -> Host {
        let worker = Host::new(None, self.settings.share(), self.identity.clone());
        let (style, statement_time) = (Arc::clone(&self.style), self.statement_time);
        let roles = self.roles.clone();
        Host { modes: self.modes.clone(), style, statement_time, roles, ..worker }
    }

    /// The time now, in microseconds since 2000.
    pub fn clock(&self) -> i64 {
        /// 2000-01-01, in seconds since 1970.
        const EPOCH: i64 = 946_684_800;
        let now = forebay_aio::sync::SystemTime::now();
        let now = now.duration_since(forebay_aio::sync::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(now.as_micros()).unwrap_or(i64::MAX) - EPOCH * 1_000_000
    }

    /// A transaction begins.
    pub fn note_begin(&mut self) {
        let now = self.clock();
        self.statement_time = now;
        Arc::make_mut(&mut self.style).now = now;
    }

    /// The encoding of the database.
    pub fn encoding(&self) -> Encoding {
        self.style.encoding
    }

    /// Takes over what text forms depend on.
    pub fn restyle(&mut self) {
        let TextStyle { now, encoding, .. } = *self.style;
        self.style = Arc::new(TextStyle { now, encoding, ..self.settings.text_style() });
    }

    /// The session's settings of parallel scans. Without one there are no tables.
    pub(super) fn parallel(&self) -> &ParallelSettings {
        const NONE: ParallelSettings = ParallelSettings::NONE;
        self.session.as_ref().map_or(&NONE, |session| &session.settings().parallel)
    }

    /// Calls the engine: a statement's way to all that reads or changes data. The session refuses
    /// the call after a cancel or a stop, and counts it as in progress; here its error becomes a
    /// report.
    pub fn call<T, E>(&mut self, body: impl FnOnce(&mut Session) -> Result<T, E>) -> Result<T>
    where
        SqlError: From<E>,
    {
        self.call_if_any(body)?.ok_or_else(no_session)
    }

    /// The same where there may be no session; None: there is none.
    pub fn call_if_any<T, E>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T, E>,
    ) -> Result<Option<T>>
    where
        SqlError: From<E>,
    {
        Ok(self.session.as_mut().map(body).transpose()?)
    }

    /// Reads a value that is stored out of line or compressed, or a part of it.
    pub fn fetch_value(
        &mut self,
        value: &Datum<'_>,
        repr: Repr,
        part: Part,
    ) -> Result<Datum<'static>> {
        if let Some(value) = compressed_value(value, repr, &part, self.encoding())? {
            return Ok(value);
        }
        match &mut self.values {
            Some(values) => Ok(values.fetch(value, repr, part)?),
            None => self.call(|session| session.fetch_value(value, repr, part)),
        }
    }

    /// Calls the engine for I/O on temporary files.
    pub fn io<T, E: Into<EngineError>>(
        &mut self,
        body: impl FnOnce(&mut IoBackend) -> Result<T, E>,
    ) -> Result<T> {
        self.call(|session| body(session.io()).map_err(Into::into))
    }

    /// How temporary files are read and written.
    pub fn temp_options(&mut self) -> Result<TempOptions> {
        self.call(|session| Ok::<_, EngineError>(session.temp_options()))
    }

    /// The session, to be asked for what it knows.
    pub fn session(&self) -> Result<&Session> {
        self.session.as_ref().ok_or_else(no_session)
    }

    /// What the session has done to pages so far.
    pub fn page_usage(&self) -> PageUsage {
        PageUsage(self.session.as_ref().map(Session::page_usage).unwrap_or_default())
    }

    /// The session, if there is one, for what a connection does between calls.
    pub fn session_if_any(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    /// The engine.
    pub fn engine(&self) -> Result<&Arc<Engine>> {
        self.session().map(Session::engine)
    }

    /// Bytes that a sort or groups may take. Without an engine there are no files to go to.
    pub fn work_memory(&self) -> usize {
        self.session.as_ref().map_or(usize::MAX, Session::work_memory)
    }

    /// Keeps a warning until it is sent.
    pub fn warn(&mut self, warning: SqlError) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(warning);
        }
    }

    /// Takes the warnings.
    pub fn take_warnings(&mut self) -> Vec<SqlError> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether there may be warnings: of a function, or of reads that accept damaged pages.
    pub fn may_warn(&self) -> bool {
        !self.warnings.is_empty() || self.session.as_ref().is_some_and(Session::accepts_damage)
    }

    /// The value of a setting.
    pub fn show(&self, name: &str) -> Result<Shown> {
        match Mode::by_name(name) {
            Some(mode) => Ok(Shown { name: mode.name().to_owned(), value: self.modes.show(mode) }),
            None => self.settings.show(name),
        }
    }

    /// All settings, in the order of SHOW ALL.
    pub fn all_settings(&self) -> Vec<SettingRow> {
        let mut rows = self.settings.all();
        for row in &mut rows {
            if let Some(mode) = Mode::by_name(&row.name) {
                row.setting = self.modes.show(mode);
                row.shown.clone_from(&row.setting);
            }
        }
        rows
    }

    /// Sets the running transaction's isolation level.
    pub fn set_isolation(&mut self, level: IsolationLevel) -> Result<()> {
        self.modes.set_isolation(level)?;
        self.apply_isolation()
    }

    /// Hands the isolation level to the engine, which knows two.
    pub fn apply_isolation(&mut self) -> Result<()> {
        let level = match self.modes.now().isolation {
            IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => {
                Isolation::ReadCommitted
            }
            IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
        };
        match self.session.as_mut().filter(|session| session.isolation() != level) {
            Some(session) => Ok(session.set_isolation(level)?),
            None => Ok(()),
        }
    }

    /// Takes the roles that the settings name.
    pub fn take_roles(&mut self) -> Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        if !session.take_roles()? {
            return Ok(());
        }
        let (current, session_user) =
            (Arc::clone(session.current_user()), Arc::clone(session.session_user()));
        self.roles = Some(Roles { current, session_user, superuser: session.is_superuser() });
        Ok(())
    }

    /// CURRENT_USER
    pub fn current_user(&self) -> &str {
        self.roles.as_ref().map_or(&self.identity.user, |roles| &*roles.current)
    }

    /// SESSION_USER
    pub fn session_user(&self) -> &str {
        self.roles.as_ref().map_or(&self.identity.user, |roles| &*roles.session_user)
    }

    /// Whether statements run as a superuser.
    pub fn is_superuser(&self) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.superuser)
    }

    /// Refuses what needs a privilege of a role that is no superuser: they are not enforced yet.
    pub fn check_superuser(&self, what: impl FnOnce() -> String) -> Result<()> {
        if self.is_superuser() {
            return Ok(());
        }
        let (what, role) = (what(), self.current_user());
        Err(SqlError::unsupported(format!("{what} as role \"{role}\", which is no superuser,")))
    }

    /// Refuses a setting that only superusers change, and a role that does not exist.
    fn check_setting(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if !self.is_superuser() {
            let rows = self.settings.all();
            let found = rows.iter().find(|row| row.name.eq_ignore_ascii_case(name));
            if found.is_some_and(|row| row.context == "superuser") {
                let message = format!("permission denied to set parameter \"{name}\"");
                return Err(SqlError::new("42501", message));
            }
        }
        let is_role = ["role", "session_authorization"].contains(&name);
        let Some(value) = value.filter(|value| is_role && *value != "none") else { return Ok(()) };
        match self.call(|session| session.role_named(value)) {
            Err(error) if error.sqlstate == state::UNDEFINED_OBJECT => {
                let message = format!("role \"{value}\" does not exist");
                Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message))
            }
            found => found.map(drop),
        }
    }

    /// Sets a setting; None is DEFAULT. temp_buffers is refused once there are such buffers; the
    /// failing statement takes it back.
    pub fn set(&mut self, name: &str, value: Option<&str>, scope: SetScope) -> Result<()> {
        if let Some(mode) = Mode::by_name(name) {
            self.modes.set(mode, value)?;
            return self.apply_isolation();
        }
        let name = if name.eq_ignore_ascii_case("role") { "role" } else { name };
        self.check_setting(name, value)?;
        self.settings.set(name, value, scope)?;
        if name == "session_authorization" {
            self.settings.set("role", None, scope)?;
        }
        if value.is_none() || !name.eq_ignore_ascii_case("temp_buffers") {
            return Ok(());
        }
        let wanted = self.settings.engine().temp_buffers;
        let in_use = self.session.as_ref().and_then(Session::temp_buffers_in_use);
        if in_use.is_none_or(|in_use| in_use == wanted) {
            return Ok(());
        }
        let message = format!("invalid value for parameter \"temp_buffers\": {wanted}");
        let detail = "\"temp_buffers\" cannot be changed after any temporary tables have been \
                      accessed in the session.";
        Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message).detail(detail))
    }

    /// The table with that OID.
    pub fn table_by_oid(&mut self, oid: u32) -> Result<Option<Arc<Table>>> {
        Ok(self.call_if_any(|session| session.table_by_oid(oid))?.flatten())
    }

    /// The table with that OID, or PostgreSQL's error.
    pub fn open_by_oid(&mut self, oid: u32) -> Result<Arc<Table>> {
        self.table_by_oid(oid)?.ok_or_else(|| could_not_open(oid))
    }

    /// The OID of the relation that a text names, perhaps with a schema and quotes.
    pub fn relation_of_text(&mut self, text: &str) -> Result<u32> {
        let (schema, name) = relation_name(text, self.encoding())?;
        let table = self.table(schema.as_deref(), &name);
        if let Ok(Some(table)) = table {
            return Ok(table.oid);
        }
        let named = self.call_if_any(|session| session.relation_named(schema.as_deref(), &name))?;
        match (named.flatten(), table) {
            (Some(named), _) => Ok(named.oid),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => {
                let shown = schema.map_or_else(|| name.clone(), |s| format!("{s}.{name}"));
                let message = format!("relation \"{shown}\" does not exist");
                Err(SqlError::new(state::UNDEFINED_TABLE, message))
            }
        }
    }

    /// What interrupts the session's work.
    pub fn interrupt(&self) -> Option<&Interrupt> {
        self.session.as_ref().map(Session::interrupt)
    }

    /// Fails if a cancel was asked for.
    pub fn check_cancel(&self) -> Result<()> {
        Ok(self.session.as_ref().map_or(Ok(()), Session::check_cancel)?)
    }

    /// Sleeps; a cancel ends it with an error.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        match &self.session {
            Some(session) => Ok(session.sleep_until(end)?),
            None => {
                // Nobody else has this latch, so the full time passes.
                let _ = Interrupt::new().sleep_until(end);
                Ok(())
            }
        }
    }

    /// A number in [0, 1).
    pub fn random(&mut self) -> f64 {
        // xorshift64*: plenty for random().
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }
}

fn no_session() -> SqlError {
    SqlError::new(state::OBJECT_NOT_IN_PREREQUISITE_STATE, "no data directory is open")
}

/// A schema and a name from a text.
pub(super) fn relation_name(text: &str, encoding: Encoding) -> Result<(Option<String>, String)> {
    let mut parts = split_name(text, encoding)?.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => Ok((None, name)),
        (Some(schema), Some(name), None) => Ok((Some(schema), name)),
        _ => {
            let message = "improper relation name (too many dotted names)";
            Err(SqlError::new(state::SYNTAX_ERROR, message))
        }
    }
}

/// Splits `a."B".c` at its dots, folding what is not quoted. Names are cut at PostgreSQL's length.
pub(super) fn split_name(text: &str, encoding: Encoding) -> Result<Vec<String>> {
    let invalid = || SqlError::new("42602", "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim_ascii();
    loop {
        let (part, tail) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let mut part = String::new();
                let mut tail = quoted;
                loop {
                    let (inner, after) = tail.split_once('"').ok_or_else(invalid)?;
                    part.push_str(inner);
                    match after.strip_prefix('"') {
                        Some(more) => {
                            part.push('"');
                            tail = more;
                        }
                        None => break (part, after),
                    }
                }
            }
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                let (part, tail) = rest.split_at(end);
                (crate::parse::cursor::fold(part.trim_ascii()), tail)
            }
        };
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(encoding.truncate_name(&part).to_owned());
        match tail.strip_prefix('.') {
            Some(next) => rest = next,
            None if tail.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}
