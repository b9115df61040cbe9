//! One session's values.
//!
//! A session's values come in layers, the strongest first:
//!
//! 1. SET LOCAL in this transaction,
//! 2. SET in this transaction,
//! 3. SET in committed transactions,
//! 4. the startup packet,
//! 5. what is stored for the role and the database,
//! 6. the server's values.
//!
//! A commit moves the second layer into the third. The end of the transaction empties the first
//! two. The first change of a setting in a subtransaction notes what these two held, for its
//! rollback.

use super::engine::session_settings;
use super::key::{Key, Lookup, Text, key};
use super::server::ServerSettings;
use super::table::{self, Context, Kind, Setting, TABLE, Unit};
use super::text;
use super::value::Value;
use forebay_aio::sync::Mutex;
use forebay_aio::sync::atomic::{AtomicU64, Ordering};
use forebay_engine::types::{ByteaOutput, DateFormat, DateOrder, IntervalStyle, TextStyle, Zone};
use forebay_engine::{Encoding, SettingOf, StoredSetting};
use forebay_sql::{
    IsolationLevel, PlanSettings, SetScope, SettingRow, Settings, Shown, SqlError, TransactionModes,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What SET has set: values, or None for DEFAULT.
type Layer = BTreeMap<usize, Option<Value>>;

/// Bytes of what subtransactions have noted, beyond which a session may not change settings.
const MOST_NOTED: usize = 64 << 20;

/// What the transaction had set before a subtransaction set it.
#[derive(Debug)]
struct Noted {
    index: usize,
    /// How deep the subtransaction is; 1: in no other.
    level: usize,
    in_transaction: Option<Option<Value>>,
    local: Option<Option<Value>>,
}

impl Noted {
    fn bytes(&self) -> usize {
        let text = |set: &Option<Option<Value>>| match set {
            Some(Some(Value::Text(text))) => text.len(),
            _ => 0,
        };
        size_of::<Noted>() + text(&self.in_transaction) + text(&self.local)
    }
}

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
    /// What is stored for the role and the database, with where.
    stored: BTreeMap<usize, (Value, SettingOf)>,
    committed: Layer,
    in_transaction: Layer,
    local: Layer,
    /// Number of open subtransactions.
    depth: usize,
    /// What they have noted, by ascending level.
    noted: Vec<Noted>,
    /// The bytes of that.
    noted_bytes: usize,
}

impl SessionValues {
    /// A session that has just begun.
    pub fn new(server: Arc<ServerSettings>) -> SessionValues {
        SessionValues {
            layers: Arc::new(Mutex::new(Layers {
                server,
                startup: BTreeMap::new(),
                stored: BTreeMap::new(),
                committed: Layer::new(),
                in_transaction: Layer::new(),
                local: Layer::new(),
                depth: 0,
                noted: Vec::new(),
                noted_bytes: 0,
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

    /// Sets a value that is stored for the role or the database, unless a stronger one is known.
    pub fn stored(&self, given: &StoredSetting) -> Result<(), SqlError> {
        let (index, setting) = changeable(&given.name)?;
        let value = text::parse(setting, &given.value)?;
        self.layers.lock().stored.entry(index).or_insert((value, given.of));
        self.changed();
        Ok(())
    }

    /// Sets what the session tells of itself, whatever the context.
    pub fn tell(&self, key: Key<Text>, text: &str) {
        self.layers.lock().startup.insert(key.index, Value::Text(text.to_owned()));
    }

    /// The session has entered a database with an encoding, as a role. Texts of the startup packet
    /// keep their bytes; what the client does not say of its encoding is the database's.
    pub fn entered(&self, encoding: Encoding, role: &str) -> Result<(), SqlError> {
        let mut layers = self.layers.lock();
        if encoding != Encoding::Utf8 {
            for value in layers.startup.values_mut() {
                if let Value::Text(text) = value {
                    *text = encoding.adopted(Encoding::Utf8, std::mem::take(text))?;
                }
            }
            let own: Key<Text> = key!("client_encoding");
            let own = own.index;
            if !layers.startup.contains_key(&own) && !layers.stored.contains_key(&own) {
                layers.startup.insert(own, Value::Text(encoding.name().to_owned()));
            }
        }
        drop(layers);
        self.tell(key!("server_encoding"), encoding.name());
        self.tell(key!("session_authorization"), role);
        self.changed();
        Ok(())
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

/// client_encoding
pub fn client_encoding(values: &Layers) -> Encoding {
    match values.text(key!("client_encoding")) {
        "SQL_ASCII" => Encoding::SqlAscii,
        _ => Encoding::Utf8,
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
        let stored = || self.stored.get(&index).map(|(value, _)| value);
        self.startup.get(&index).or_else(stored).unwrap_or_else(|| self.server.at(index))
    }

    /// Notes what is set, before the innermost subtransaction changes it.
    fn note(&mut self, index: usize) -> Result<(), SqlError> {
        let level = self.depth;
        if level == 0 || self.has_noted(level, index) {
            return Ok(());
        }
        let in_transaction = self.in_transaction.get(&index).cloned();
        let noted = Noted { index, level, in_transaction, local: self.local.get(&index).cloned() };
        let bytes = self.noted_bytes.saturating_add(noted.bytes());
        if bytes > MOST_NOTED {
            let detail = "The subtransactions have changed too many settings.";
            return Err(SqlError::new("53200", "out of memory").detail(detail));
        }
        self.noted_bytes = bytes;
        self.noted.push(noted);
        Ok(())
    }

    /// Whether a subtransaction at this level, the innermost that has noted anything, has noted it.
    fn has_noted(&self, level: usize, index: usize) -> bool {
        self.noted.iter().rev().take_while(|n| n.level == level).any(|n| n.index == index)
    }

    /// Ends the innermost subtransaction. Whether that has changed anything.
    fn end_level(&mut self, released: bool) -> bool {
        self.depth = self.depth.checked_sub(1).expect("a subtransaction is open");
        let level = self.depth;
        let first = self.noted.partition_point(|noted| noted.level <= level);
        let ended = self.noted.split_off(first);
        self.noted_bytes -= ended.iter().map(Noted::bytes).sum::<usize>();
        let changed = !released && !ended.is_empty();
        // At its end the transaction itself knows what to undo.
        let inherits = released && level > 0;
        // Those of the level around it, which must not be noted twice.
        let (around, known) = (first, self.noted.partition_point(|noted| noted.level < level));
        for noted in ended {
            if !released {
                restore(&mut self.in_transaction, noted.index, noted.in_transaction);
                restore(&mut self.local, noted.index, noted.local);
            } else if inherits && !self.noted[known..around].iter().any(|n| n.index == noted.index)
            {
                self.noted_bytes += noted.bytes();
                self.noted.push(Noted { level, ..noted });
            }
        }
        changed
    }

    fn source(&self, index: usize) -> &'static str {
        let set = |layer: &Layer| layer.get(&index).is_some_and(Option::is_some);
        if set(&self.local) || set(&self.in_transaction) || set(&self.committed) {
            return "session";
        }
        if self.startup.contains_key(&index) {
            return "client";
        }
        match self.stored.get(&index) {
            Some((_, SettingOf::RoleInDatabase)) => "database user",
            Some((_, SettingOf::Role)) => "user",
            Some((_, SettingOf::Database)) => "database",
            Some((_, SettingOf::All)) => "global",
            None => self.server.source(index).word(),
        }
    }
}

/// Sets a setting of a layer to what it was.
fn restore(layer: &mut Layer, index: usize, was: Option<Option<Value>>) {
    match was {
        Some(value) => layer.insert(index, value),
        None => layer.remove(&index),
    };
}

/// Finds a setting that a session may change.
/// Whether it is a setting that RESET ALL leaves alone: the roles.
fn is_role(index: usize) -> bool {
    TABLE.get(index).is_some_and(|s| matches!(s.name, "role" | "session_authorization"))
}

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
        layers.note(index)?;
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

    fn check(&self, name: &str, value: &str) -> Result<(), SqlError> {
        let (_, setting) = changeable(name)?;
        text::parse(setting, value).map(drop)
    }

    fn reset_all(&mut self) -> Result<(), SqlError> {
        let mut layers = self.layers.lock();
        let set: Vec<usize> = layers
            .committed
            .keys()
            .chain(layers.in_transaction.keys())
            .chain(layers.local.keys())
            .copied()
            .filter(|index| !is_role(*index))
            .collect();
        for index in set {
            layers.note(index)?;
            layers.local.remove(&index);
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

    fn transaction_defaults(&self) -> TransactionModes {
        self.read(|values| TransactionModes {
            isolation: isolation_level(values.text(key!("default_transaction_isolation"))),
            read_only: values.bool(key!("default_transaction_read_only")),
            deferrable: values.bool(key!("default_transaction_deferrable")),
        })
    }

    fn engine(&self) -> forebay_engine::SessionSettings {
        self.read(session_settings)
    }

    fn planning(&self) -> PlanSettings {
        self.read(|values| {
            let pages: u32 = values.count(key!("effective_cache_size"));
            PlanSettings {
                seq_page_cost: values.real(key!("seq_page_cost")),
                random_page_cost: values.real(key!("random_page_cost")),
                cpu_tuple_cost: values.real(key!("cpu_tuple_cost")),
                cpu_index_tuple_cost: values.real(key!("cpu_index_tuple_cost")),
                cpu_operator_cost: values.real(key!("cpu_operator_cost")),
                effective_cache_size: pages.into(),
                work_mem: f64::from(values.count::<u32>(key!("work_mem"))),
                enable_bitmapscan: values.bool(key!("enable_bitmapscan")),
                enable_seqscan: values.bool(key!("enable_seqscan")),
                enable_indexscan: values.bool(key!("enable_indexscan")),
                enable_indexonlyscan: values.bool(key!("enable_indexonlyscan")),
                enable_sort: values.bool(key!("enable_sort")),
            }
        })
    }

    fn text_style(&self) -> TextStyle<'static> {
        self.read(|values| {
            let dates = values.text(key!("DateStyle"));
            let (format, order) = dates.split_once(", ").unwrap_or((dates, ""));
            TextStyle {
                date_format: match format {
                    "SQL" => DateFormat::Sql,
                    "German" => DateFormat::German,
                    "Postgres" => DateFormat::Postgres,
                    _ => DateFormat::Iso,
                },
                date_order: match order {
                    "DMY" => DateOrder::Dmy,
                    "YMD" => DateOrder::Ymd,
                    _ => DateOrder::Mdy,
                },
                interval: match values.text(key!("IntervalStyle")) {
                    "postgres_verbose" => IntervalStyle::PostgresVerbose,
                    "sql_standard" => IntervalStyle::SqlStandard,
                    "iso_8601" => IntervalStyle::Iso8601,
                    _ => IntervalStyle::Postgres,
                },
                zone: Zone::named(values.text(key!("TimeZone"))).unwrap_or_else(Zone::utc),
                extra_float_digits: i32::try_from(values.int(key!("extra_float_digits")))
                    .unwrap_or(1),
                bytea: match values.text(key!("bytea_output")) {
                    "escape" => ByteaOutput::Escape,
                    _ => ByteaOutput::Hex,
                },
                now: 0,
                // The session knows the database's.
                encoding: Encoding::default(),
                client: client_encoding(values),
                names: None,
            }
        })
    }

    fn share(&self) -> Box<dyn Settings> {
        Box::new(self.clone())
    }

    fn reload_server(&mut self) -> bool {
        // Sends the signal that an administrator would send: the main thread does the work.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::HUP)
            .is_ok()
    }

    fn begin_subtransaction(&mut self) {
        self.layers.lock().depth += 1;
    }

    fn end_subtransaction(&mut self, released: bool) {
        if self.layers.lock().end_level(released) {
            self.changed();
        }
    }

    fn end_transaction(&mut self, committed: bool) {
        let mut layers = self.layers.lock();
        (layers.depth, layers.noted_bytes) = (0, 0);
        layers.noted.clear();
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

/// The isolation level of that name.
fn isolation_level(name: &str) -> IsolationLevel {
    let found = IsolationLevel::ALL.into_iter().find(|level| level.name() == name);
    found.expect("a setting has a value that was checked")
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
        setting: text::raw(layers.at(index), s),
        unit: (unit != Unit::None).then(|| unit.name().to_owned()),
        category: s.category.to_owned(),
        short_desc: s.description.to_owned(),
        context: s.context.word().to_owned(),
        vartype: s.kind.word().to_owned(),
        source: layers.source(index).to_owned(),
        min_val,
        max_val,
        enumvals,
        boot_val: Some(text::raw(&text::parse(s, s.boot).expect("every default is valid"), s)),
        reset_val: Some(text::raw(layers.reset_value(index), s)),
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
    fn subtransactions_undo_or_inherit_what_was_set_in_them() {
        let mut s = session();
        let name = "work_mem";
        let set = |s: &mut SessionValues, kb: &str, scope| {
            s.set(name, Some(kb), scope).expect("set");
        };
        set(&mut s, "101", Session);
        s.begin_subtransaction();
        set(&mut s, "102", Session);
        set(&mut s, "103", Local);
        set(&mut s, "104", Local);
        s.begin_subtransaction();
        set(&mut s, "105", Session);
        assert_eq!(shown(&s, name), "105kB");
        s.end_subtransaction(false);
        assert_eq!(shown(&s, name), "104kB");
        s.begin_subtransaction();
        set(&mut s, "106", Local);
        s.begin_subtransaction();
        set(&mut s, "107", Local);
        s.end_subtransaction(true);
        assert_eq!((shown(&s, name), s.layers.lock().noted.len()), ("107kB".to_owned(), 2));
        s.end_subtransaction(true);
        assert_eq!((shown(&s, name), s.layers.lock().noted.len()), ("107kB".to_owned(), 1));
        s.begin_subtransaction();
        s.reset_all().expect("reset");
        assert_eq!(shown(&s, name), "4MB");
        s.end_subtransaction(false);
        assert_eq!(shown(&s, name), "107kB");
        s.end_subtransaction(false);
        assert_eq!((shown(&s, name), s.layers.lock().noted_bytes), ("101kB".to_owned(), 0));
        // SET LOCAL lasts to the end of the transaction, and what it hid is kept then.
        s.begin_subtransaction();
        set(&mut s, "108", Session);
        set(&mut s, "109", Local);
        s.end_subtransaction(true);
        assert_eq!(shown(&s, name), "109kB");
        s.end_transaction(true);
        assert_eq!(shown(&s, name), "108kB");
    }

    #[test]
    fn what_subtransactions_note_is_bounded() {
        let mut s = session();
        let long = " ".repeat(1 << 20) + "public";
        let refused = (0..100).find_map(|_| {
            s.begin_subtransaction();
            s.set("search_path", Some(&long), Session).err()
        });
        assert_eq!(refused.expect("refused").sqlstate, "53200");
        s.end_transaction(false);
        s.begin_subtransaction();
        s.set("search_path", Some(&long), Session).expect("room again");
    }

    #[test]
    fn stored_values_are_weaker_than_the_startup_packet_and_stronger_than_the_server() {
        let mut s = session();
        let stored = |of, value: &str| StoredSetting {
            of,
            name: "work_mem".to_owned(),
            value: value.to_owned(),
        };
        s.stored(&stored(SettingOf::Role, "2MB")).expect("set");
        s.stored(&stored(SettingOf::Database, "3MB")).expect("weaker");
        assert_eq!(shown(&s, "work_mem"), "2MB");
        s.set("work_mem", Some("5MB"), Session).expect("set");
        s.set("work_mem", None, Session).expect("reset");
        assert_eq!(shown(&s, "work_mem"), "2MB");
        s.end_transaction(false);
        let source = |s: &SessionValues| {
            s.all().into_iter().find(|row| row.name == "work_mem").expect("exists").source
        };
        assert_eq!(source(&s), "user");
        s.at_startup("work_mem", "1MB").expect("set");
        assert_eq!((shown(&s, "work_mem"), source(&s)), ("1MB".to_owned(), "client".to_owned()));
    }

    #[test]
    fn contexts_and_names() {
        let mut s = session();
        for (name, state, message) in [
            (
                "SHARED_BUFFERS_MAX",
                "55P02",
                "parameter \"shared_buffers_max\" cannot be changed without restarting the server",
            ),
            ("shared_buffers", "55P02", "parameter \"shared_buffers\" cannot be changed now"),
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
