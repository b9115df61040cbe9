//! One session's values.
//!
//! A session's values come in layers, the strongest first:
//!
//! 1. SET LOCAL in this transaction,
//! 2. SET in this transaction,
//! 3. SET in committed transactions,
//! 4. the startup packet,
//! 5. the server's values.
//!
//! A commit moves the second layer into the third. The end of the transaction empties the first
//! two.

use super::engine::session_settings;
use super::key::{Key, Lookup, Text};
use super::server::ServerSettings;
use super::table::{self, Context, Kind, Setting, TABLE, Unit};
use super::text;
use super::value::Value;
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_sql::{SetScope, SettingRow, Settings, Shown, SqlError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What SET has set: values, or None for DEFAULT.
type Layer = BTreeMap<usize, Option<Value>>;

/// A session's values of all settings. Clones belong to the same session.
#[derive(Clone, Debug)]
pub struct SessionValues {
    layers: Arc<Mutex<Layers>>,
    /// Counts changes, so that the session reads the values again only after one.
    changes: Arc<AtomicU64>,
}

/// The layers of a session's values.
#[derive(Debug)]
pub struct Layers {
    server: Arc<ServerSettings>,
    /// From the startup packet and the session's identity.
    startup: BTreeMap<usize, Value>,
    committed: Layer,
    in_transaction: Layer,
    local: Layer,
}

impl SessionValues {
    /// A session that has just begun.
    pub fn new(server: Arc<ServerSettings>) -> SessionValues {
        SessionValues {
            layers: Arc::new(Mutex::new(Layers {
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
        self.layers.lock().server = server;
        self.changed();
    }

    /// Sets a value of the startup packet: what RESET goes back to.
    pub fn at_startup(&self, name: &str, given: &str) -> Result<(), SqlError> {
        let (index, setting) = changeable(name)?;
        let value = text::parse(setting, given)?;
        self.layers.lock().startup.insert(index, value);
        self.changed();
        Ok(())
    }

    /// Sets what the session tells of itself, whatever the context.
    pub fn tell(&self, key: Key<Text>, text: &str) {
        self.layers.lock().startup.insert(key.index, Value::Text(text.to_owned()));
    }

    /// Names and values of the settings clients are told of.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let layers = self.layers.lock();
        let reported = TABLE.iter().enumerate().filter(|(_, s)| s.report);
        reported.map(|(index, s)| (s.name, text::show(layers.at(index), s))).collect()
    }

    /// Reads values, all of one moment.
    pub fn read<T>(&self, read: impl FnOnce(&Layers) -> T) -> T {
        read(&self.layers.lock())
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Lookup for Layers {
    fn at(&self, index: usize) -> &Value {
        for layer in [&self.local, &self.in_transaction, &self.committed] {
            if let Some(set) = layer.get(&index) {
                return set.as_ref().unwrap_or_else(|| self.reset_value(index));
            }
        }
        self.reset_value(index)
    }
}

impl Layers {
    fn reset_value(&self, index: usize) -> &Value {
        self.startup.get(&index).unwrap_or_else(|| self.server.at(index))
    }

    fn source(&self, index: usize) -> &'static str {
        let set = |layer: &Layer| layer.get(&index).is_some_and(Option::is_some);
        if set(&self.local) || set(&self.in_transaction) || set(&self.committed) {
            return "session";
        }
        if self.startup.contains_key(&index) { "client" } else { self.server.source(index).word() }
    }
}

/// Finds a setting that a session may change.
fn changeable(name: &str) -> Result<(usize, &'static Setting), SqlError> {
    let (index, setting) = table::find(name)?;
    let why = match setting.context {
        Context::User | Context::Superuser => return Ok((index, setting)),
        Context::Internal => "cannot be changed",
        Context::Postmaster => "cannot be changed without restarting the server",
        Context::Sighup => "cannot be changed now",
    };
    Err(SqlError::new("55P02", format!("parameter \"{}\" {why}", setting.name)))
}

impl Settings for SessionValues {
    fn show(&self, name: &str) -> Result<Shown, SqlError> {
        let (index, setting) = table::find(name)?;
        let value = text::show(self.layers.lock().at(index), setting);
        Ok(Shown { name: setting.name.to_owned(), value })
    }

    fn set(&mut self, name: &str, given: Option<&str>, scope: SetScope) -> Result<(), SqlError> {
        let (index, setting) = changeable(name)?;
        let value = given.map(|given| text::parse(setting, given)).transpose()?;
        let mut layers = self.layers.lock();
        match scope {
            SetScope::Local => layers.local.insert(index, value),
            SetScope::Session => {
                layers.local.remove(&index);
                layers.in_transaction.insert(index, value)
            }
        };
        drop(layers);
        self.changed();
        Ok(())
    }

    fn reset_all(&mut self) -> Result<(), SqlError> {
        let mut layers = self.layers.lock();
        let set: Vec<usize> = layers
            .committed
            .keys()
            .chain(layers.in_transaction.keys())
            .chain(layers.local.keys())
            .copied()
            .collect();
        layers.local.clear();
        for index in set {
            layers.in_transaction.insert(index, None);
        }
        drop(layers);
        self.changed();
        Ok(())
    }

    fn all(&self) -> Vec<SettingRow> {
        let layers = self.layers.lock();
        TABLE.iter().enumerate().map(|(i, s)| row(&layers, i, s)).collect()
    }

    fn change_count(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    fn engine(&self) -> forebay_engine::SessionSettings {
        self.read(session_settings)
    }

    fn reload_server(&mut self) -> bool {
        // Sends the signal that an administrator would send: the main thread does the work.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP)
            .is_ok()
    }

    fn end_transaction(&mut self, committed: bool) {
        let mut layers = self.layers.lock();
        if layers.local.is_empty() && layers.in_transaction.is_empty() {
            return;
        }
        layers.local.clear();
        let set = std::mem::take(&mut layers.in_transaction);
        if committed {
            layers.committed.extend(set);
            layers.committed.retain(|_, value| value.is_some());
        }
        drop(layers);
        self.changed();
    }
}

fn row(layers: &Layers, index: usize, s: &'static Setting) -> SettingRow {
    let (min_val, max_val, unit, enumvals) = match s.kind {
        Kind::Int { min, max, unit } => (Some(min.to_string()), Some(max.to_string()), unit, None),
        Kind::Real { min, max, unit } => (Some(min.to_string()), Some(max.to_string()), unit, None),
        Kind::Enum(words) => {
            (None, None, Unit::None, Some(words.iter().map(|w| (*w).to_owned()).collect()))
        }
        Kind::Bool | Kind::Text => (None, None, Unit::None, None),
    };
    SettingRow {
        name: s.name.to_owned(),
        setting: layers.at(index).raw(),
        unit: (unit != Unit::None).then(|| unit.name().to_owned()),
        category: s.category.to_owned(),
        short_desc: s.description.to_owned(),
        context: s.context.word().to_owned(),
        vartype: s.kind.word().to_owned(),
        source: layers.source(index).to_owned(),
        min_val,
        max_val,
        enumvals,
        boot_val: Some(text::parse(s, s.boot).expect("every default is valid").raw()),
        reset_val: Some(layers.reset_value(index).raw()),
        shown: text::show(layers.at(index), s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SetScope::{Local, Session};

    fn session() -> SessionValues {
        SessionValues::new(Arc::new(ServerSettings::default()))
    }

    fn shown(s: &SessionValues, name: &str) -> String {
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
        for (name, state, message) in [
            (
                "SHARED_BUFFERS",
                "55P02",
                "parameter \"shared_buffers\" cannot be changed without restarting the server",
            ),
            ("block_size", "55P02", "parameter \"block_size\" cannot be changed"),
            ("track_io_timing", "55P02", "parameter \"track_io_timing\" cannot be changed now"),
            ("nope", "42704", "unrecognized configuration parameter \"nope\""),
        ] {
            let e = s.set(name, Some("1"), Session).expect_err("refused");
            assert_eq!((e.sqlstate, e.message.as_str()), (state, message));
        }
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
