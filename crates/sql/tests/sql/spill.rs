//! Sorts and groups beyond work_mem: the same rows as in memory, within temp_file_limit, and no
//! file afterwards.

use std::sync::Arc;

use crate::support::{self, Recorder};
use forebay_aio::fault::{Effect, FaultPlan, Ops, Rule};
use forebay_aio::{Errno, MethodKind, WorkerLimits};
use forebay_engine::{
    Engine, EngineConfig, InitOptions, IoDirect, IoMethod, SessionSettings, ShutdownMode,
};
use forebay_sql::{
    Connection, Executed, PlanSettings, SetScope, SettingRow, Settings, Shown, SqlError,
    TransactionModes,
};
use forebay_testkit::io::open_faulty;
use tempfile::TempDir;

/// Nothing can be set: the session has what it is given.
struct Fixed(SessionSettings);

impl Settings for Fixed {
    fn show(&self, name: &str) -> Result<Shown, SqlError> {
        Err(SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\"")))
    }
    fn set(&mut self, name: &str, _value: Option<&str>, _scope: SetScope) -> Result<(), SqlError> {
        self.show(name).map(drop)
    }
    fn check(&self, name: &str, _: &str) -> Result<(), SqlError> {
        self.show(name).map(drop)
    }
    fn reset_all(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
    fn all(&self) -> Vec<SettingRow> {
        Vec::new()
    }
    fn change_count(&self) -> u64 {
        0
    }
    fn engine(&self) -> SessionSettings {
        self.0.clone()
    }
    fn planning(&self) -> PlanSettings {
        PlanSettings::default()
    }
    fn share(&self) -> Box<dyn Settings> {
        Box::new(Fixed(self.0.clone()))
    }
    fn reload_server(&mut self) -> bool {
        false
    }
    fn transaction_defaults(&self) -> TransactionModes {
        TransactionModes::default()
    }
    fn begin_subtransaction(&mut self) {}
    fn end_subtransaction(&mut self, _released: bool) {}
    fn end_transaction(&mut self, _committed: bool) {}
}

struct Fixture {
    dir: TempDir,
    engine: Arc<Engine>,
}

impl Fixture {
    fn init() -> TempDir {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("directory");
        let options = InitOptions {
            wal_segment_size: 1 << 20,
            sync: false,
            templates: false,
            ..InitOptions::default()
        };
        Engine::init(dir.path(), &options).expect("init");
        dir
    }

    fn config(io_method: IoMethod, direct: bool) -> EngineConfig {
        let io_direct = if direct { IoDirect::ALL } else { IoDirect::NONE };
        EngineConfig {
            io_method,
            io_direct: io_direct.into(),
            io_workers: WorkerLimits::fixed(2),
            shared_buffers: 256.into(),
            max_connections: 8,
            ..EngineConfig::default()
        }
    }

    fn new(io_method: IoMethod, direct: bool) -> Fixture {
        let dir = Fixture::init();
        let engine = Engine::open(dir.path(), Fixture::config(io_method, direct)).expect("open");
        Fixture { dir, engine }
    }

    fn connect(&self, settings: SessionSettings) -> Connection {
        let session = self.engine.session().expect("session");
        Connection::new(session, Box::new(Fixed(settings)), support::identity())
    }

    /// A connection whose sorts may take so many kB of memory.
    fn with_memory(&self, work_mem: usize) -> Connection {
        self.connect(SessionSettings { work_mem, ..SessionSettings::default() })
    }

    /// Temporary files there are.
    fn files(&self) -> usize {
        std::fs::read_dir(self.dir.path().join("base/pgsql_tmp")).map_or(0, Iterator::count)
    }

    /// Temporary files there were, and their bytes.
    fn spilled(&self) -> (u64, u64) {
        let stats = self.engine.database_stats();
        (stats.temp_files, stats.temp_bytes)
    }

    fn stop(self) {
        assert_eq!(self.files(), 0);
        self.engine.shutdown(ShutdownMode::Fast).expect("shutdown");
    }
}

fn rows(conn: &mut Connection, sql: &str) -> Vec<String> {
    let lines = support::run(conn, sql);
    assert!(!lines.iter().any(|l| l.starts_with('!')), "{sql}: {lines:?}");
    lines.into_iter().filter(|l| l.starts_with("| ")).collect()
}

/// Many rows of many types in no order, with NULLs and equal ones.
fn fill(conn: &mut Connection, n: u32) {
    rows(conn, "create table t (a int, b int8, c float8, d text, e bool)");
    let insert = format!(
        "insert into t select case when g % 11 = 0 then null else g % 97 end, \
         (g::int8 * 7919) % 1000003 * 4294967296, \
         case when g % 13 = 0 then 'NaN' else ((g::int8 * 104729) % 10007)::float8 / 7 end, \
         case when g % 17 = 0 then null else 'text ' || (g::int8 * 15485863) % 99991 \
         || case when g % 500 = 0 then repeat('long', 900) else '' end end, \
         g % 3 = 0 from generate_series(1, {n}) g"
    );
    rows(conn, &insert);
}

const ORDERS: [&str; 8] = [
    "select b from t order by b",
    "select a, b from t order by a, b",
    "select a from t order by a desc",
    "select a, d, b from t order by a nulls first",
    "select * from t order by d desc nulls last, c",
    "select c from t order by c desc, e",
    "select e, b::numeric / 3 from t order by b::numeric / 3",
    "select d, count(*), sum(b), max(c) from t group by d order by 2 desc, 1",
];

const GROUPS: [&str; 7] = [
    "select b, count(*) from t group by b",
    "select d, a, sum(c), avg(b), min(e::int4) from t group by d, a",
    "select b % 3000, sum(c), max(d), count(d) from t group by 1",
    "select c, count(*) filter (where e), sum(a) filter (where not e) from t group by c \
     having count(*) > 0",
    "select b::numeric / 4, bool_and(e), min(d) from t group by 1",
    "select count(*), sum(c) from (select b, sum(c) as c from t group by b) s",
    "select b, count(*), sum(a) from t group by b having sum(a) > 50",
];

#[test]
fn groups_beyond_memory_are_the_same() {
    for (method, direct) in
        [(IoMethod::Sync, true), (IoMethod::Worker, false), (IoMethod::IoUring, true)]
    {
        let fixture = Fixture::new(method, direct);
        let (mut roomy, mut tight) = (fixture.with_memory(1 << 20), fixture.with_memory(64));
        fill(&mut roomy, 5_000);
        for sql in GROUPS {
            let before = fixture.spilled();
            // In whichever order.
            let mut expected = rows(&mut roomy, sql);
            expected.sort();
            assert_eq!(fixture.spilled(), before, "{sql}");
            let mut got = rows(&mut tight, sql);
            got.sort();
            assert!(got == expected, "{sql}, {method:?}");
            let after = fixture.spilled();
            assert!(
                after.0 - before.0 >= 4 && after.1 - before.1 > 50_000,
                "{sql}: {before:?} {after:?}"
            );
            assert_eq!(fixture.files(), 0, "{sql}");
        }
        // One group, however many rows.
        let before = fixture.spilled();
        assert_eq!(
            rows(&mut tight, "select count(*), count(d) from t"),
            rows(&mut roomy, "select count(*), count(d) from t")
        );
        assert_eq!(fixture.spilled(), before);
        [roomy, tight].into_iter().for_each(Connection::close);
        fixture.stop();
    }
}

const PARTS: [&str; 4] = ["", " limit 10", " limit 3000 offset 3", " limit 1 offset 4999"];

#[test]
fn spilled_or_not_the_rows_are_the_same() {
    for (method, direct) in
        [(IoMethod::Sync, false), (IoMethod::Worker, true), (IoMethod::IoUring, true)]
    {
        let fixture = Fixture::new(method, direct);
        let (mut roomy, mut tight, mut tighter) =
            (fixture.with_memory(1 << 20), fixture.with_memory(200), fixture.with_memory(64));
        fill(&mut roomy, 5_000);
        for order in ORDERS {
            for part in PARTS {
                let sql = format!("{order}{part}");
                let before = fixture.spilled();
                let expected = rows(&mut roomy, &sql);
                assert_eq!(fixture.spilled(), before, "{sql}");
                assert!(!part.is_empty() || expected.len() > 3_000, "{sql}: {}", expected.len());
                let conn = if part.is_empty() { &mut tighter } else { &mut tight };
                assert!(rows(conn, &sql) == expected, "{sql}, {method:?}");
                let after = fixture.spilled();
                let spilled = (after.0 - before.0, after.1 - before.1);
                match part {
                    "" => assert!(spilled.0 >= 2 && spilled.1 > 50_000, "{sql}: {spilled:?}"),
                    " limit 10" => {
                        assert!(order.contains("group by") || spilled == (0, 0), "{sql}")
                    }
                    _ => {}
                }
                assert_eq!(fixture.files(), 0, "{sql}");
            }
        }
        // A statement that writes what it sorts.
        rows(&mut tighter, "create table u (a int, b int8)");
        rows(&mut tighter, "insert into u select a, b from t order by b");
        let copied = rows(&mut roomy, "select b from u");
        assert!(copied == rows(&mut roomy, "select b from t order by b"));
        [roomy, tight, tighter].into_iter().for_each(Connection::close);
        fixture.stop();
    }
}

#[test]
fn a_sort_of_less_than_an_orders_runs_is_one_file() {
    let fixture = Fixture::new(IoMethod::Sync, false);
    let mut conn = fixture.with_memory(64);
    let sorted = rows(&mut conn, "select g from generate_series(1, 2000) g order by g desc");
    assert_eq!((sorted.len(), sorted[0].as_str(), sorted[1999].as_str()), (2000, "| 2000", "| 1"));
    // Each row is a length, a kind and a number.
    assert_eq!(fixture.spilled(), (1, 2000 * 9));
    conn.close();
    fixture.stop();
}

#[test]
fn the_limit_ends_the_statement_and_nothing_more() {
    let fixture = Fixture::new(IoMethod::Sync, false);
    let settings =
        SessionSettings { work_mem: 64, temp_file_limit: 200, ..SessionSettings::default() };
    let mut conn = fixture.connect(settings);
    let sql = |n: u32| format!("select g from generate_series(1, {n}) g order by -g");
    let lines = support::run(&mut conn, &sql(50_000));
    assert_eq!(
        lines[lines.len() - 2..],
        ["! ERROR 53400 temporary file size exceeds \"temp_file_limit\" (200kB)", "Z I"]
    );
    assert_eq!(fixture.files(), 0);
    assert_eq!(rows(&mut conn, &sql(5_000)).len(), 5_000);
    conn.close();
    fixture.stop();
}

#[test]
fn a_disk_that_fails_ends_the_statement_and_the_next_one_works() {
    let dir = Fixture::init();
    let plan = FaultPlan::new();
    let workers = MethodKind::Worker(WorkerLimits::fixed(2));
    let aio = open_faulty(&plan, workers);
    let engine =
        Engine::open_on(dir.path(), Fixture::config(IoMethod::Worker, false), aio).expect("open");
    let fixture = Fixture { dir, engine };
    let mut conn = fixture.with_memory(64);
    let sql = "select g from generate_series(1, 30000) g order by -g";
    let groups = "select g from generate_series(1, 30000) g group by g";
    for (ops, errno, word, code) in [
        (Ops::WRITE, Errno::NOSPC, "could not write to file", "53100"),
        (Ops::WRITE, Errno::IO, "could not write to file", "58030"),
        (Ops::READ, Errno::IO, "could not read from file", "58030"),
        (Ops::OPEN, Errno::ACCES, "could not create file", "58030"),
    ] {
        for (nth, sql) in [(0, sql), (3, sql), (0, groups), (3, groups)] {
            let fault = plan.add(Rule::on(ops).path("pgsql_tmp").nth(nth), Effect::Fail(errno));
            let lines = support::run(&mut conn, sql);
            if plan.fired(fault) > 0 {
                let error = &lines[lines.len() - 2];
                assert!(
                    error.starts_with(&format!("! ERROR {code} {word} \"base/pgsql_tmp/pgsql_tmp")),
                    "{error}"
                );
                assert!(error.ends_with(&errno.to_string()), "{error}");
            }
            assert!(nth > 0 || plan.fired(fault) > 0, "{ops:?}");
            plan.mend();
            assert_eq!(fixture.files(), 0);
            assert_eq!(rows(&mut conn, sql).len(), 30_000);
        }
    }
    conn.close();
    fixture.stop();
}

#[test]
fn a_portal_rests_on_its_files_and_takes_them_with_it() {
    let fixture = Fixture::new(IoMethod::Worker, true);
    let (mut conn, mut other) = (fixture.with_memory(64), fixture.with_memory(64));
    let portal = |conn: &mut Connection| {
        conn.parse("", "select g from generate_series(1, 20000) g order by -g", &[])
            .expect("parse");
        conn.bind("p", "", &[], &[], &[]).expect("bind");
    };
    let execute = |conn: &mut Connection, max: u32| {
        let mut sink = Recorder::default();
        let end = conn.execute("p", max, &mut sink).expect("execute");
        (sink.lines, matches!(end, Executed::Suspended))
    };
    portal(&mut conn);
    for n in 0..10 {
        let (lines, suspended) = execute(&mut conn, 1000);
        assert_eq!(
            (lines.len(), lines[0].clone(), suspended),
            (1000, format!("| {}", 20_000 - n * 1000), true)
        );
        assert!(fixture.files() > 0);
        // Another session sorts meanwhile, and stops at its first row.
        assert_eq!(
            rows(&mut other, "select g from generate_series(1, 9000) g order by -g limit 5000")
                .len(),
            5000
        );
    }
    let (lines, suspended) = execute(&mut conn, 0);
    assert_eq!((lines.len(), lines[9999].as_str(), suspended), (10_000, "| 1", false));
    assert_eq!(fixture.files(), 0, "they go with the last row");
    conn.sync().expect("sync");
    portal(&mut conn);
    assert!(execute(&mut conn, 10).1);
    assert!(fixture.files() > 0);
    conn.sync().expect("sync");
    assert_eq!(fixture.files(), 0, "or with the transaction");
    portal(&mut conn);
    assert!(execute(&mut conn, 10).1);
    conn.close();
    assert_eq!(fixture.files(), 0, "or with the session");
    other.close();
    fixture.stop();
}

/// Rows that a cursor goes back to, and those that it keeps when its transaction ends, lie in files
/// as far as they are more than memory.
#[test]
fn cursors_go_over_rows_in_files() {
    for (method, direct) in
        [(IoMethod::Sync, true), (IoMethod::Worker, false), (IoMethod::IoUring, true)]
    {
        let fixture = Fixture::new(method, direct);
        let mut conn = fixture.with_memory(64);
        fill(&mut conn, 5_000);
        for (scroll, query) in [
            ("", "select a, b, d from t"),
            ("scroll", "select b, count(*), max(d) from t group by b"),
        ] {
            rows(&mut conn, "begin");
            rows(&mut conn, &format!("declare c {scroll} cursor with hold for {query}"));
            let all = rows(&mut conn, "fetch all c");
            assert_eq!(all.len(), 5_000);
            let mut back = rows(&mut conn, "fetch backward all c");
            back.reverse();
            assert!(back == all, "{query}");
            for n in [1_i64, 5_000, 2, 4_999, 2_500, 1_234, -1, -5_000, -3_000] {
                let row = rows(&mut conn, &format!("fetch absolute {n} c"));
                let index = if n > 0 { n - 1 } else { n + 5_000 };
                assert_eq!(row, [all[index as usize].clone()], "{query}, {n}");
            }
            rows(&mut conn, "move absolute 2000 c");
            assert!(fixture.files() > 0);
            rows(&mut conn, "commit");
            assert!(rows(&mut conn, "fetch all c") == all[2_000..], "{query}");
            assert_eq!(rows(&mut conn, "fetch backward 2 c"), [&*all[4_999], &*all[4_998]]);
            assert!(fixture.files() > 0);
            rows(&mut conn, "close c");
            assert_eq!(fixture.files(), 0);
        }
        // Without SCROLL only those that are left are kept.
        rows(&mut conn, "begin");
        rows(&mut conn, "declare c no scroll cursor with hold for select a, b, d from t");
        let mut all = rows(&mut conn, "fetch 4000 c");
        assert_eq!(fixture.files(), 0);
        rows(&mut conn, "commit");
        assert_eq!(fixture.files(), 1);
        all.extend(rows(&mut conn, "fetch all c"));
        assert!(all == rows(&mut conn, "select a, b, d from t"));
        conn.close();
        fixture.stop();
    }
}
