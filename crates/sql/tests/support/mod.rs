//! What the golden tests share: settings that know little, and a sink that writes down what it
//! gets.
#![allow(dead_code, reason = "each test program uses some of it")]

use forebay_engine::{Engine, EngineConfig, InitOptions, IoDirect, IoMethod};
use forebay_sql::pieces::{LongValue, show_pieces};
use forebay_sql::{
    ColumnDesc, Connection, Format, Identity, IsolationLevel, PlanSettings, RowRef, RowSink,
    SetScope, SettingRow, Settings, Severity, Shown, SqlError, Step, TransactionModes,
    TransactionStatus,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

type Values = BTreeMap<String, String>;

/// Settings that know little.
#[derive(Clone, Default)]
pub struct FewSettings {
    /// What was set and committed, what the transaction has set, and SET LOCAL in it.
    committed: Values,
    set: Values,
    local: Values,
    /// What the two were when each open subtransaction began.
    levels: Vec<(Values, Values)>,
    changes: u64,
}

/// The settings and their defaults. A session with this deadlock_timeout searches for no deadlock.
const KNOWN: [(&str, &str); 22] = [
    ("allow_in_place_tablespaces", "on"),
    ("deadlock_timeout", "2147483647"),
    ("default_tablespace", ""),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("enable_bitmapscan", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_seqscan", "on"),
    ("enable_sort", "on"),
    ("lock_timeout", "0"),
    ("max_parallel_workers", "8"),
    ("max_parallel_workers_per_gather", "2"),
    ("min_parallel_table_scan_size", "1024"),
    ("parallel_leader_participation", "on"),
    ("parallel_setup_cost", "1000"),
    ("role", "none"),
    ("search_path", "$user, public"),
    ("session_authorization", "postgres"),
    ("work_mem", "4MB"),
    ("zero_damaged_pages", "off"),
];

impl FewSettings {
    /// With the defaults.
    pub fn new() -> FewSettings {
        FewSettings::default()
    }

    fn value(&self, name: &str) -> &str {
        let set = self.local.get(name).or_else(|| self.set.get(name));
        let default = || KNOWN.iter().find(|known| known.0 == name).expect("known").1;
        set.map_or_else(default, String::as_str)
    }
}

impl Settings for FewSettings {
    fn show(&self, name: &str) -> Result<Shown, SqlError> {
        if !KNOWN.iter().any(|known| known.0 == name) {
            let message = format!("unrecognized configuration parameter \"{name}\"");
            return Err(SqlError::new("42704", message));
        }
        Ok(Shown { name: name.into(), value: self.value(name).into() })
    }
    fn set(&mut self, name: &str, value: Option<&str>, scope: SetScope) -> Result<(), SqlError> {
        self.show(name)?;
        self.changes += 1;
        if scope == SetScope::Session {
            self.local.remove(name);
        }
        let values = if scope == SetScope::Local { &mut self.local } else { &mut self.set };
        match value {
            Some(value) => values.insert(name.into(), value.into()),
            None => values.remove(name),
        };
        Ok(())
    }
    fn check(&self, name: &str, _: &str) -> Result<(), SqlError> {
        self.show(name).map(drop)
    }
    fn reset_all(&mut self) -> Result<(), SqlError> {
        self.changes += 1;
        self.set.clear();
        self.local.clear();
        Ok(())
    }
    fn all(&self) -> Vec<SettingRow> {
        vec![SettingRow {
            name: "work_mem".into(),
            setting: "4096".into(),
            shown: self.value("work_mem").into(),
            ..SettingRow::default()
        }]
    }
    fn change_count(&self) -> u64 {
        self.changes
    }
    fn transaction_defaults(&self) -> TransactionModes {
        let isolation = self.value("default_transaction_isolation");
        let level = IsolationLevel::ALL.into_iter().find(|level| level.name() == isolation);
        TransactionModes {
            isolation: level.expect("an isolation level"),
            read_only: self.value("default_transaction_read_only") == "on",
            deferrable: self.value("default_transaction_deferrable") == "on",
        }
    }
    fn engine(&self) -> forebay_engine::SessionSettings {
        let number = |name| self.value(name).parse::<u32>().expect("a number");
        let default = forebay_engine::SessionSettings::default();
        let in_kb = |size: &str| size.strip_suffix("kB").and_then(|kb| kb.parse().ok());
        forebay_engine::SessionSettings {
            role: self.value("role").into(),
            session_authorization: self.value("session_authorization").into(),
            search_path: self.value("search_path").split(", ").map(str::to_owned).collect(),
            default_tablespace: self.value("default_tablespace").into(),
            lock_timeout: std::time::Duration::from_millis(number("lock_timeout").into()),
            deadlock_timeout: std::time::Duration::from_millis(number("deadlock_timeout").into()),
            work_mem: in_kb(self.value("work_mem")).unwrap_or(default.work_mem),
            zero_damaged_pages: self.value("zero_damaged_pages") == "on",
            parallel: forebay_engine::ParallelSettings {
                workers_per_gather: number("max_parallel_workers_per_gather") as usize,
                max_workers: number("max_parallel_workers") as usize,
                min_table_blocks: number("min_parallel_table_scan_size"),
                setup_cost: number("parallel_setup_cost").into(),
                leader_participates: self.value("parallel_leader_participation") == "on",
                ..default.parallel
            },
            ..default
        }
    }
    fn planning(&self) -> PlanSettings {
        let default = PlanSettings::default();
        let on = |name| self.value(name) == "on";
        PlanSettings {
            work_mem: self.engine().work_mem as f64,
            enable_bitmapscan: on("enable_bitmapscan"),
            enable_seqscan: on("enable_seqscan"),
            enable_indexscan: on("enable_indexscan"),
            enable_indexonlyscan: on("enable_indexonlyscan"),
            enable_sort: on("enable_sort"),
            ..default
        }
    }
    fn share(&self) -> Box<dyn Settings> {
        Box::new(self.clone())
    }
    fn reload_server(&mut self) -> bool {
        false
    }
    fn begin_subtransaction(&mut self) {
        self.levels.push((self.set.clone(), self.local.clone()));
    }
    fn end_subtransaction(&mut self, released: bool) {
        let before = self.levels.pop().expect("a subtransaction is open");
        if !released {
            self.changes += 1;
            (self.set, self.local) = before;
        }
    }
    fn end_transaction(&mut self, committed: bool) {
        self.changes += 1;
        self.levels.clear();
        self.local.clear();
        if committed {
            self.committed.clone_from(&self.set);
        } else {
            self.set.clone_from(&self.committed);
        }
    }
}

/// A connection for statements that need no tables, to an engine that all such tests share.
pub fn without_tables() -> Connection {
    static ENGINE: LazyLock<Arc<Engine>> = LazyLock::new(|| {
        // Examples, which use this too, are compiled without it.
        let dir = match option_env!("CARGO_TARGET_TMPDIR") {
            Some(dir) => Path::new(dir).join("shared"),
            None => std::env::temp_dir().join(format!("forebay-sql-{}", std::process::id())),
        };
        if dir.exists() {
            std::fs::remove_dir_all(&dir).expect("an earlier run's");
        }
        let options = InitOptions { sync: false, ..InitOptions::default() };
        Engine::init(&dir, &options).expect("init");
        let config = EngineConfig {
            io_method: IoMethod::Sync,
            io_direct: IoDirect::NONE.into(),
            ..EngineConfig::default()
        };
        let index_compiler = Some(std::sync::Arc::new(forebay_sql::IndexCompiler) as _);
        let config = EngineConfig { index_compiler, ..config };
        Engine::open(&dir, EngineConfig { shared_buffers: 1024.into(), ..config }).expect("open")
    });
    let session = ENGINE.session().expect("session");
    Connection::new(session, Box::new(FewSettings::new()), identity())
}

/// Who the golden cases were recorded as.
pub fn identity() -> Identity {
    Identity {
        user: "postgres".into(),
        database: "postgres".into(),
        pid: 1,
        version: "PostgreSQL 18".into(),
    }
}

/// Writes results in the form of the golden files.
#[derive(Default)]
pub struct Recorder {
    /// Lines so far.
    pub lines: Vec<String>,
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    for b in bytes {
        match b {
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b' '..=b'~' => out.push(char::from(*b)),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'x') => {
                let digits = [bytes.next(), bytes.next()]
                    .map(|d| char::from(d.expect("digit")).to_digit(16));
                digits.iter().fold(0, |n, d| n * 16 + d.expect("hex") as u8)
            }
            other => other.expect("an escape"),
        });
    }
    out
}

impl Recorder {
    /// A report and its fields.
    pub fn report(&mut self, e: &SqlError) {
        let mark = if matches!(e.severity, Severity::Error | Severity::Fatal) { '!' } else { '~' };
        let message = escaped(e.message.as_bytes());
        self.lines.push(format!("{mark} {} {} {message}", e.severity.as_str(), e.sqlstate));
        for (name, value) in [
            ("detail", e.detail.clone()),
            ("hint", e.hint.clone()),
            ("position", e.position.map(|p| p.to_string())),
            ("context", e.context.clone()),
        ] {
            if let Some(value) = value {
                self.lines.push(format!("  {name}: {}", escaped(value.as_bytes())));
            }
        }
    }
}

impl RowSink for Recorder {
    fn columns(&mut self, columns: &[ColumnDesc], _formats: &[Format]) -> Result<(), SqlError> {
        let columns: Vec<String> =
            columns.iter().map(|c| format!("{}:{}", c.name, c.type_oid())).collect();
        self.lines.push(format!("# {}", columns.join(" ")));
        Ok(())
    }
    fn row(&mut self, row: &RowRef<'_>) -> Result<(), SqlError> {
        let (mut encoded, mut long, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        row.encode_data_row(&mut encoded, &mut long)?;
        show_pieces(&encoded, &long, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        let mut rest = &bytes[2..];
        let mut values = Vec::new();
        for _ in 0..u16::from_be_bytes([bytes[0], bytes[1]]) {
            let length = i32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
            rest = &rest[4..];
            if length < 0 {
                values.push("\\N".to_owned());
            } else {
                let (value, tail) = rest.split_at(length as usize);
                values.push(escaped(value));
                rest = tail;
            }
        }
        assert!(rest.is_empty());
        self.lines.push(format!("| {}", values.join("\t")));
        Ok(())
    }
    fn copy_out_start(&mut self, format: Format, columns: usize) -> Result<(), SqlError> {
        self.lines.push(format!("> {} {columns}", format.code()));
        Ok(())
    }
    fn copy_data(&mut self, data: &[u8]) -> Result<(), SqlError> {
        self.lines.push(format!("d {}", escaped(data)));
        Ok(())
    }
    fn copy_pieces(&mut self, data: &[u8], long: &[LongValue<'_>]) -> Result<(), SqlError> {
        let mut whole = Vec::new();
        show_pieces(data, long, &mut |piece| {
            whole.extend_from_slice(piece);
            Ok(())
        })?;
        self.copy_data(&whole)
    }
    fn copy_out_end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
    fn notice(&mut self, notice: &SqlError) -> Result<(), SqlError> {
        self.report(notice);
        Ok(())
    }
}

/// Runs a query string; what came of it, up to the transaction status.
pub fn run(conn: &mut Connection, sql: &str) -> Vec<String> {
    run_with_data(conn, sql, &[])
}

/// Runs a query string that may hold a COPY FROM STDIN with this data.
pub fn run_with_data(conn: &mut Connection, sql: &str, data: &[String]) -> Vec<String> {
    let mut sink = Recorder::default();
    let result = run_into(conn, sql, data, &mut sink);
    if let Err(e) = result {
        sink.report(&e);
    }
    sink.lines
        .push(format!("Z {}", char::from(TransactionStatus::as_byte(conn.transaction_status()))));
    sink.lines
}

fn run_into(
    conn: &mut Connection,
    sql: &str,
    data: &[String],
    sink: &mut Recorder,
) -> Result<(), SqlError> {
    let mut script = conn.start_script(sql)?;
    loop {
        match conn.step(&mut script, sink)? {
            Step::Completed(tag) => sink.lines.push(format!("= {}", tag.0)),
            Step::EmptyQuery => sink.lines.push("= (empty)".into()),
            Step::CopyIn(mut copy) => {
                sink.lines.push(format!("< {} {}", copy.format().code(), copy.columns()));
                for chunk in data {
                    copy.push(conn, &unescaped(chunk))?;
                }
                let tag = copy.finish(conn)?;
                sink.lines.push(format!("= {}", tag.0));
            }
            Step::Finished => return Ok(()),
        }
    }
}

/// Runs all cases of a golden file; what differs, in words.
pub fn differences(conn: &mut Connection, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in cases(text) {
        let got = run_with_data(conn, &case.query.replace("\\n", "\n"), &case.data);
        if got != case.expected {
            wrong.push(format!("Q {}\n  want {:#?}\n  got  {:#?}", case.query, case.expected, got));
        }
    }
    wrong
}

/// A case of a golden file.
pub struct Case {
    /// The query, as its line has it.
    pub query: String,
    /// Data for its COPY.
    pub data: Vec<String>,
    /// What PostgreSQL 18 answered.
    pub expected: Vec<String>,
}

/// Splits a golden file into cases: `Q` starts one, `C` lines are its data, and what follows up to
/// `Z` is the answer.
pub fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if let Some(query) = line.strip_prefix("Q ") {
            cases.push(Case { query: query.to_owned(), data: Vec::new(), expected: Vec::new() });
            open = true;
        } else if open
            && let Some(data) = line.strip_prefix("C ")
            && let Some(case) = cases.last_mut()
        {
            case.data.push(data.to_owned());
        } else if open && let Some(case) = cases.last_mut() {
            case.expected.push(line.to_owned());
            open = !line.starts_with("Z ");
        }
    }
    cases
}
