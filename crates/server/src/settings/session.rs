//! One session's values.
//!
//! A value is, from the strongest: what SET LOCAL gave it, what SET gave it in this transaction,
//! what SET gave it in committed ones, what the session started with (startup packet), what the
//! server has. A commit moves the second into the third; the end of the transaction forgets the
//! first two.

use super::server::ServerSettings;
use super::table::{self, Context, Setting, TABLE};
use super::unrecognized;
use super::value::{self, Value};
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_sql::{SetScope, SettingRow, Settings, Shown, SqlError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What SET left: a value, or nothing for DEFAULT.
type Layer = BTreeMap<usize, Option<Value>>;

/// A session's view of the settings. Clones see the same session.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    inner: Arc<Mutex<Inner>>,
    /// Counts changes, so that the session need not look when nothing has changed.
    changes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Inner {
    server: Arc<ServerSettings>,
    /// From the startup packet and the session's identity.
    startup: BTreeMap<usize, Value>,
    committed: Layer,
    in_transaction: Layer,
    local: Layer,
}

impl SessionSettings {
    /// A session that has just begun.
    pub fn new(server: Arc<ServerSettings>) -> SessionSettings {
        SessionSettings {
            inner: Arc::new(Mutex::new(Inner {
                server,
                startup: BTreeMap::new(),
                committed: Layer::new(),
                in_transaction: Layer::new(),
                local: Layer::new(),
            })),
            changes: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Takes the server's values after a reload.
    pub fn follow(&self, server: Arc<ServerSettings>) {
        self.inner.lock().server = server;
        self.changed();
    }

    /// Sets a value of the startup packet: what RESET goes back to.
    pub fn at_startup(&self, name: &str, text: &str) -> Result<(), SqlError> {
        let (index, setting) = changeable(name)?;
        let value = value::parse(setting, text)?;
        self.inner.lock().startup.insert(index, value);
        self.changed();
        Ok(())
    }

    /// Tells what is, whatever the context (session_authorization).
    pub fn tell(&self, name: &str, text: &str) {
        if let Some(index) = table::index(name) {
            self.inner.lock().startup.insert(index, Value::Text(text.to_owned()));
        }
    }

    /// Names and values of the settings clients are told of.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let inner = self.inner.lock();
        TABLE
            .iter()
            .enumerate()
            .filter(|(_, s)| s.report)
            .map(|(i, s)| (s.name, inner.effective(i).show(s)))
            .collect()
    }

    /// An integer's or boolean's value.
    pub fn int(&self, name: &str) -> i64 {
        let Some(index) = table::index(name) else { return 0 };
        match self.inner.lock().effective(index) {
            Value::Int(n) => *n,
            Value::Bool(b) => i64::from(*b),
            _ => 0,
        }
    }

    /// A string's or an enumeration's value.
    pub fn text(&self, name: &str) -> String {
        table::index(name).map(|i| self.inner.lock().effective(i).raw()).unwrap_or_default()
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Inner {
    fn effective(&self, index: usize) -> &Value {
        for layer in [&self.local, &self.in_transaction, &self.committed] {
            if let Some(set) = layer.get(&index) {
                return set.as_ref().unwrap_or_else(|| self.reset_value(index));
            }
        }
        self.reset_value(index)
    }

    fn reset_value(&self, index: usize) -> &Value {
        self.startup.get(&index).unwrap_or_else(|| &self.server.at(index).0)
    }

    fn source(&self, index: usize) -> &'static str {
        let set = |layer: &Layer| layer.get(&index).is_some_and(Option::is_some);
        if set(&self.local) || set(&self.in_transaction) || set(&self.committed) {
            return "session";
        }
        if self.startup.contains_key(&index) { "client" } else { self.server.at(index).1.word() }
    }
}

/// Finds a setting that a session may change.
fn changeable(name: &str) -> Result<(usize, &'static Setting), SqlError> {
    let (index, setting) = table::index(name)
        .and_then(|i| Some((i, TABLE.get(i)?)))
        .ok_or_else(|| unrecognized(name))?;
    let why = match setting.context {
        Context::User | Context::Superuser => return Ok((index, setting)),
        Context::Internal => "cannot be changed",
        Context::Postmaster => "cannot be changed without restarting the server",
        Context::Sighup => "cannot be changed now",
    };
    Err(SqlError::new("55P02", format!("parameter \"{}\" {why}", setting.name)))
}

impl Settings for SessionSettings {
    fn show(&self, name: &str) -> Result<Shown, SqlError> {
        let (index, setting) = table::index(name)
            .and_then(|i| Some((i, TABLE.get(i)?)))
            .ok_or_else(|| unrecognized(name))?;
        let value = self.inner.lock().effective(index).show(setting);
        Ok(Shown { name: setting.name.to_owned(), value })
    }

    fn set(&mut self, name: &str, text: Option<&str>, scope: SetScope) -> Result<(), SqlError> {
        let (index, setting) = changeable(name)?;
        let value = text.map(|t| value::parse(setting, t)).transpose()?;
        let mut inner = self.inner.lock();
        match scope {
            SetScope::Local => inner.local.insert(index, value),
            SetScope::Session => {
                inner.local.remove(&index);
                inner.in_transaction.insert(index, value)
            }
        };
        drop(inner);
        self.changed();
        Ok(())
    }

    fn reset_all(&mut self) -> Result<(), SqlError> {
        let mut inner = self.inner.lock();
        let set: Vec<usize> = inner
            .committed
            .keys()
            .chain(inner.in_transaction.keys())
            .chain(inner.local.keys())
            .copied()
            .collect();
        inner.local.clear();
        for index in set {
            inner.in_transaction.insert(index, None);
        }
        drop(inner);
        self.changed();
        Ok(())
    }

    fn all(&self) -> Vec<SettingRow> {
        let inner = self.inner.lock();
        TABLE.iter().enumerate().map(|(i, s)| row(&inner, i, s)).collect()
    }

    fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn engine(&self) -> forebay_engine::SessionSettings {
        super::engine::session_settings(self)
    }

    fn reload_server(&mut self) -> bool {
        // By the signal an administrator would send: the main thread does the work.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP)
            .is_ok()
    }

    fn end_transaction(&mut self, committed: bool) {
        let mut inner = self.inner.lock();
        if inner.local.is_empty() && inner.in_transaction.is_empty() {
            return;
        }
        inner.local.clear();
        let set = std::mem::take(&mut inner.in_transaction);
        if committed {
            inner.committed.extend(set);
            inner.committed.retain(|_, value| value.is_some());
        }
        drop(inner);
        self.changed();
    }
}

fn row(inner: &Inner, index: usize, s: &'static Setting) -> SettingRow {
    let (min_val, max_val, unit, enumvals) = match s.kind {
        table::Kind::Int { min, max, unit } => {
            (Some(min.to_string()), Some(max.to_string()), unit, None)
        }
        table::Kind::Real { min, max, unit } => {
            (Some(min.to_string()), Some(max.to_string()), unit, None)
        }
        table::Kind::Enum(words) => {
            (None, None, table::Unit::None, Some(words.iter().map(|w| (*w).to_owned()).collect()))
        }
        _ => (None, None, table::Unit::None, None),
    };
    SettingRow {
        name: s.name.to_owned(),
        setting: inner.effective(index).raw(),
        unit: (unit != table::Unit::None).then(|| unit.name().to_owned()),
        category: s.category.to_owned(),
        short_desc: s.description.to_owned(),
        context: s.context.word().to_owned(),
        vartype: s.kind.word().to_owned(),
        source: inner.source(index).to_owned(),
        min_val,
        max_val,
        enumvals,
        boot_val: value::parse(s, s.boot).ok().map(|v| v.raw()),
        reset_val: Some(inner.reset_value(index).raw()),
        shown: inner.effective(index).show(s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SetScope::{Local, Session};

    fn session() -> SessionSettings {
        SessionSettings::new(Arc::new(ServerSettings::default()))
    }

    fn shown(s: &SessionSettings, name: &str) -> String {
        s.show(name).expect("exists").value
    }

    #[test]
    fn set_is_undone_with_its_transaction() {
        let mut s = session();
        s.set("extra_float_digits", Some("3"), Session).expect("set");
        assert_eq!(shown(&s, "extra_float_digits"), "3");
        s.end_transaction(false);
        assert_eq!(shown(&s, "extra_float_digits"), "1");
        s.set("extra_float_digits", Some("2"), Session).expect("set");
        s.end_transaction(true);
        s.set("extra_float_digits", None, Session).expect("reset");
        assert_eq!(shown(&s, "extra_float_digits"), "1");
        s.end_transaction(false);
        assert_eq!(shown(&s, "extra_float_digits"), "2");
        s.reset_all().expect("reset");
        s.end_transaction(true);
        assert_eq!(shown(&s, "extra_float_digits"), "1");
    }

    #[test]
    fn set_local_ends_with_its_transaction_and_yields_to_set() {
        let mut s = session();
        s.set("io_combine_limit", Some("32"), Session).expect("set");
        s.set("io_combine_limit", Some("64"), Local).expect("set");
        assert_eq!(shown(&s, "io_combine_limit"), "512kB");
        s.end_transaction(true);
        assert_eq!(shown(&s, "io_combine_limit"), "256kB");
        s.set("io_combine_limit", Some("64"), Local).expect("set");
        s.set("io_combine_limit", Some("1"), Session).expect("set");
        assert_eq!(shown(&s, "io_combine_limit"), "8kB");
        s.end_transaction(true);
        assert_eq!(shown(&s, "io_combine_limit"), "8kB");
    }

    #[test]
    fn contexts_and_names() {
        let mut s = session();
        let mut refused = |name: &str| {
            let e = s.set(name, Some("1"), Session).expect_err("refused");
            (e.sqlstate, e.message.clone())
        };
        assert_eq!(
            refused("SHARED_BUFFERS"),
            (
                "55P02",
                "parameter \"shared_buffers\" cannot be changed without restarting the server"
                    .to_owned()
            )
        );
        assert_eq!(
            refused("block_size"),
            ("55P02", "parameter \"block_size\" cannot be changed".to_owned())
        );
        assert_eq!(
            refused("track_io_timing"),
            ("55P02", "parameter \"track_io_timing\" cannot be changed now".to_owned())
        );
        assert_eq!(
            refused("nope"),
            ("42704", "unrecognized configuration parameter \"nope\"".to_owned())
        );
        assert_eq!(s.show("timezone").expect("exists").name, "TimeZone");
    }

    #[test]
    fn what_the_startup_packet_gave_is_what_reset_restores() {
        let mut s = session();
        s.at_startup("application_name", "psql").expect("set");
        s.set("application_name", Some("other"), Session).expect("set");
        s.end_transaction(true);
        s.set("application_name", None, Session).expect("reset");
        assert_eq!(shown(&s, "application_name"), "psql");
        assert!(s.at_startup("port", "1").is_err());
    }
}
