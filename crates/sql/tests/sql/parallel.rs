//! Aggregates with worker threads: the same answers as without; what runs without them; errors,
//! cancels and stops.

use std::path::Path;
use std::thread;

use crate::fixture::{self, Fixture, rows};
use crate::support::{Recorder, run};
use forebay_engine::{InterruptKind, IoMethod, ShutdownMode};
use forebay_sql::{Connection, Executed};
use forebay_testkit::Dice;

/// Rows of the table of most tests, which has some hundred pages.
const ROWS: u32 = 30_000;

/// A connection for which each table is large enough.
fn open() -> Fixture {
    let mut fixture = fixture::open("");
    willing(&mut fixture.conn);
    fixture
}

fn willing(conn: &mut Connection) {
    set(conn, "min_parallel_table_scan_size", "0");
    set(conn, "parallel_setup_cost", "0");
}

fn set(conn: &mut Connection, name: &str, value: &str) {
    rows(conn, &format!("set {name} = '{value}'"));
}

/// A table with rows of many groups.
fn make(fixture: &mut Fixture) {
    fixture.rows("create table t (a int4, b int8, c text)");
    fixture.rows(&format!(
        "insert into t select i, i % 100, repeat('x', i % 50) from generate_series(1, {ROWS}) i"
    ));
}

/// Workers that were started so far.
fn started(fixture: &Fixture) -> u64 {
    fixture.engine.database_stats().workers_started
}

/// Pages that workers have read so far.
fn pages_of_workers(conn: &mut Connection) -> u64 {
    let sql = "select coalesce(sum(hits) + sum(read_bytes) / 8192, 0) from pg_stat_io \
               where backend_type = 'background worker'";
    rows(conn, sql)[0].split('.').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// The SQLSTATE of a statement that fails.
fn refused(conn: &mut Connection, sql: &str) -> String {
    let lines = run(conn, sql);
    let report = lines.iter().find(|line| line.starts_with('!'));
    report.unwrap_or_else(|| panic!("{sql}: {lines:?}")).clone()
}

#[test]
fn workers_read_the_table_and_all_of_it() {
    let mut fixture = open();
    make(&mut fixture);
    let blocks: u64 =
        fixture.rows("select pg_relation_size('t') / 8192")[0].parse().expect("a number");
    set(&mut fixture.conn, "parallel_leader_participation", "off");
    for sql in ["select count(*) from t", "select count(*) from t where a > 0"] {
        let (before, workers) = (pages_of_workers(&mut fixture.conn), started(&fixture));
        assert_eq!(fixture.rows(sql), [ROWS.to_string()]);
        assert_eq!(started(&fixture), workers + 2, "{sql}");
        assert_eq!(pages_of_workers(&mut fixture.conn), before + blocks, "{sql}");
    }
    // With the leader each page is read once as well.
    set(&mut fixture.conn, "parallel_leader_participation", "on");
    let before = pages_of_workers(&mut fixture.conn);
    assert_eq!(fixture.rows("select count(*), sum(a) from t"), ["30000\t450015000"]);
    assert!(pages_of_workers(&mut fixture.conn) <= before + blocks);
    assert_eq!(fixture.engine.statement_workers(), 0);
    fixture.close();
}

#[test]
fn a_small_table_is_scanned_without_workers() {
    let mut fixture = fixture::open("");
    make(&mut fixture);
    // Smaller than min_parallel_table_scan_size; then large enough, but not worth while.
    fixture.rows("select count(*) from t");
    set(&mut fixture.conn, "min_parallel_table_scan_size", "0");
    fixture.rows("select count(*) from t");
    assert_eq!(fixture.engine.database_stats().workers_wanted, 0);
    set(&mut fixture.conn, "parallel_setup_cost", "0");
    fixture.rows("select count(*) from t");
    assert_eq!(fixture.engine.database_stats().workers_wanted, 2);
    fixture.close();
}

#[test]
fn without_a_free_worker_the_leader_does_all() {
    let mut fixture = open();
    make(&mut fixture);
    set(&mut fixture.conn, "max_parallel_workers", "0");
    for participates in ["on", "off"] {
        set(&mut fixture.conn, "parallel_leader_participation", participates);
        assert_eq!(fixture.rows("select count(*), sum(b) from t"), ["30000\t1485000"]);
        assert_eq!(fixture.rows("select count(*) from t"), ["30000"]);
    }
    let stats = fixture.engine.database_stats();
    assert_eq!((stats.workers_wanted, stats.workers_started), (8, 0));
    // Some are better than none.
    set(&mut fixture.conn, "max_parallel_workers", "1");
    assert_eq!(fixture.rows("select sum(b) from t"), ["1485000"]);
    assert_eq!(started(&fixture), 1);
    fixture.close();
}

#[test]
fn statements_that_postgresql_runs_without_workers() {
    let mut fixture = open();
    make(&mut fixture);
    fixture.rows("create table u (n int8)");
    fixture.rows("create temporary table v (a int4)");
    fixture.rows("insert into v select a from t");
    for sql in [
        "insert into u select count(*) from t",
        "select count(*) from v",
        "select count(*) from t where random() >= 0",
        "select sum(a + pg_backend_pid()) from t",
        "select count(*) from t where 't'::text::regclass = 0",
        "select a from t limit 1",
    ] {
        fixture.rows(sql);
        assert_eq!(fixture.engine.database_stats().workers_wanted, 0, "{sql}");
    }
    fixture.rows("begin");
    fixture.rows("declare c cursor for select count(*) from t");
    fixture.rows("fetch all from c");
    fixture.rows("commit");
    assert_eq!(fixture.engine.database_stats().workers_wanted, 0);
    for (max_rows, workers) in [(1, 0), (0, 2)] {
        fixture.conn.parse("", "select count(*) from t", &[]).expect("parsed");
        fixture.conn.bind("", "", &[], &[], &[]).expect("bound");
        let mut sink = Recorder::default();
        let executed = fixture.conn.execute("", max_rows, &mut sink).expect("executed");
        assert_eq!(matches!(executed, Executed::Suspended), max_rows == 1);
        fixture.conn.sync().expect("sync");
        assert_eq!(fixture.engine.database_stats().workers_wanted, workers);
    }
    // These run with workers.
    for (n, sql) in [
        "begin read only; select count(*) from t; commit",
        "begin isolation level repeatable read; select count(*) from t; commit",
        "copy (select count(*) from t) to stdout",
        "select count(*) from (select a + 1 as a from t where b > 3) s where a > 5",
        "select sum(a) from t where current_setting('max_parallel_workers') = '8'",
    ]
    .into_iter()
    .enumerate()
    {
        run(&mut fixture.conn, sql);
        assert_eq!(started(&fixture), 2 * (n as u64 + 2), "{sql}");
    }
    fixture.close();
}

#[test]
fn an_error_of_a_worker_is_the_statements_error() {
    let mut fixture = open();
    make(&mut fixture);
    for participates in ["off", "on"] {
        set(&mut fixture.conn, "parallel_leader_participation", participates);
        for (sql, error) in [
            ("select count(*) from t where 1 / (a - 17000) > 0", "22012 division by zero"),
            ("select sum((a * 100000)::int4) from t", "22003 integer out of range"),
            ("select b, sum(1 / (a - 29000)) from t group by b", "22012 division by zero"),
        ] {
            let report = refused(&mut fixture.conn, sql);
            assert!(report.contains(error), "{sql}: {report}");
            assert_eq!(fixture.engine.statement_workers(), 0);
        }
    }
    assert_eq!(fixture.rows("select count(*) from t"), ["30000"]);
    fixture.close();
}

/// Takes much longer than any cancel.
const LONG: &str = "select count(*) from t where octet_length(repeat('x', 1000000 + a)) > 0";

/// Runs a long statement, and `end` once its workers run. Its error.
fn ended_by(fixture: &mut Fixture, end: impl FnOnce() + Send) -> String {
    let Fixture { engine, conn, .. } = fixture;
    thread::scope(|scope| {
        scope.spawn(|| {
            while engine.statement_workers() < 2 {
                thread::yield_now();
            }
            end();
        });
        refused(conn, LONG)
    })
}

#[test]
fn a_cancel_ends_all_workers() {
    let mut fixture = open();
    make(&mut fixture);
    for participates in ["off", "on"] {
        set(&mut fixture.conn, "parallel_leader_participation", participates);
        let interrupt = fixture.conn.session().expect("a session").interrupt().clone();
        let error = ended_by(&mut fixture, || interrupt.request(InterruptKind::Cancel));
        assert!(error.contains("57014 canceling statement due to user request"), "{error}");
        assert_eq!(fixture.engine.statement_workers(), 0);
        assert_eq!(fixture.rows("select count(*) from t"), ["30000"]);
    }
    fixture.close();
}

#[test]
fn a_stop_of_the_engine_ends_all_workers() {
    let mut fixture = open();
    make(&mut fixture);
    let engine = fixture.engine.clone();
    let error = ended_by(&mut fixture, || engine.shutdown(ShutdownMode::Fast).expect("stops"));
    assert!(error.contains("57P01 "), "{error}");
    assert_eq!(fixture.engine.statement_workers(), 0);
    fixture.conn.close();
}

/// Damages a page of the largest relation.
fn damage(dir: &Path, page: usize) {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir.join("base/5")).expect("a directory") {
        let entry = entry.expect("an entry");
        files.push((entry.metadata().expect("a file").len(), entry.path()));
    }
    let (_, path) = files.into_iter().max().expect("files");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[page * 8192 + 5000] ^= 1;
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_damaged_page_ends_the_statement_or_brings_a_warning_from_the_worker() {
    let mut fixture = open();
    make(&mut fixture);
    fixture.rows("checkpoint");
    let mut fixture = fixture.restart_after(ShutdownMode::Fast, |dir| damage(dir, 77));
    willing(&mut fixture.conn);
    set(&mut fixture.conn, "parallel_leader_participation", "off");
    for sql in ["select count(*) from t", "select sum(a) from t"] {
        let error = refused(&mut fixture.conn, sql);
        assert!(error.contains("XX001 invalid page in block 77 of relation"), "{error}");
    }
    set(&mut fixture.conn, "zero_damaged_pages", "on");
    let lines = run(&mut fixture.conn, "select count(*) < 30000 from t");
    let warned = |line: &String| line.starts_with("~ WARNING XX001 invalid page in block 77");
    assert!(lines.iter().any(warned) && lines.contains(&"| t".to_owned()), "{lines:?}");
    assert_eq!(fixture.engine.statement_workers(), 0);
    fixture.close();
}

#[test]
fn a_parallel_sum_sees_all_of_a_transfer_or_nothing() {
    const TRANSFERS: usize = 60;
    let mut fixture = open();
    fixture.rows("create table t (id int4, n int4, c text)");
    fixture.rows("insert into t select i, 100, repeat('x', 200) from generate_series(0, 1999) i");
    let mut writer = fixture.connect();
    thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let mut dice = Dice::new(7);
            for n in 0..TRANSFERS {
                let (from, to) = (dice.below(2000), dice.below(2000));
                rows(&mut writer, "begin");
                rows(&mut writer, &format!("update t set n = n - 7 where id = {from}"));
                rows(&mut writer, "savepoint s");
                rows(&mut writer, &format!("update t set n = n + 7 where id = {to}"));
                if n % 3 == 0 {
                    rows(&mut writer, "rollback to s");
                    rows(&mut writer, &format!("update t set n = n + 7 where id = {from}"));
                }
                rows(&mut writer, "commit");
            }
            writer.close();
        });
        while !writing.is_finished() {
            assert_eq!(fixture.rows("select sum(n), count(*) from t"), ["200000\t2000"]);
        }
    });
    assert!(started(&fixture) > 0);
    fixture.close();
}

#[test]
fn answers_are_those_of_one_thread() {
    for seed in 0..12 {
        let method = [IoMethod::Sync, IoMethod::Worker, IoMethod::IoUring][seed as usize % 3];
        let mut fixture = fixture::open_with(method, ["", "data"][seed as usize / 3 % 2]);
        willing(&mut fixture.conn);
        compare(&mut fixture, &mut Dice::new(seed), seed);
        assert_eq!(fixture.engine.statement_workers(), 0);
        fixture.close();
    }
}

/// Compares queries with and without workers: over rows of others that have committed and of one
/// that has not, and over the transaction's own changes, in savepoints too.
fn compare(fixture: &mut Fixture, dice: &mut Dice, seed: u64) {
    fixture.rows("create table t (a int4, b int8, f float8, g float4, c text, k int2)");
    let (rows_made, many, few) = (dice.below(9000), 1 + dice.below(5000), 1 + dice.below(12));
    fixture.rows(&format!(
        "insert into t select i, nullif(i * 7919 % {many}, 3), nullif(i % 50, 7) / 4.0, \
         (i % 40) / 2.0, nullif(repeat('y', i % {few}), 'yy'), (i % 5)::int2 \
         from generate_series(1, {rows_made}) i"
    ));
    let change = |dice: &mut Dice, own: u64| match dice.below(4) {
        0 => format!("update t set b = b + 1 where k = {own} and a % 3 = {}", dice.below(3)),
        1 => format!("delete from t where k = {own} and a % 11 = {}", dice.below(11)),
        2 => format!("update t set c = 'z', f = -f where k = {own} and a < {}", dice.below(9000)),
        _ => format!("insert into t select a, b, f, g, c, {own}::int2 from t where a % 50 = 1"),
    };
    for _ in 0..dice.below(4) {
        let sql = change(dice, 0);
        fixture.rows(&sql);
    }
    let mut other = fixture.connect();
    rows(&mut other, "begin");
    for n in 0..dice.below(4) {
        rows(&mut other, &format!("savepoint s{n}"));
        rows(&mut other, &change(dice, 1));
    }
    let level = dice.pick(&["read committed", "repeatable read"]);
    fixture.rows(&format!("begin isolation level {level}"));
    for n in 0..1 + dice.below(6) {
        fixture.rows(&format!("savepoint s{n}"));
        let sql = change(dice, 2);
        fixture.rows(&sql);
        match dice.below(4) {
            0 => drop(fixture.rows(&format!("rollback to s{n}"))),
            1 => drop(fixture.rows(&format!("release s{n}"))),
            _ => {}
        }
    }
    for _ in 0..8 {
        let sql = query(dice);
        let memory = dice.pick(&["64kB", "4MB"]);
        set(&mut fixture.conn, "work_mem", memory);
        let participates = dice.pick(&["on", "on", "off"]);
        set(&mut fixture.conn, "parallel_leader_participation", participates);
        let [mut alone, mut together] = ["0", "2"].map(|workers| {
            set(&mut fixture.conn, "max_parallel_workers_per_gather", workers);
            fixture.rows(&sql)
        });
        alone.sort_unstable();
        together.sort_unstable();
        assert_eq!(alone, together, "seed {seed}: {sql}");
    }
    rows(&mut other, "rollback");
    fixture.rows("commit");
    assert!(rows_made < 200 || started(fixture) > 0, "seed {seed}: no worker was started");
}

/// Any aggregate over the table.
fn query(dice: &mut Dice) -> String {
    const CALLS: &[&str] = &[
        "count(*)",
        "count(b)",
        "sum(a)",
        "sum(b)",
        "sum(k)",
        "sum(f)",
        "sum(g)",
        "sum(b / 7.0)",
        "avg(a)",
        "avg(b)",
        "avg(f)",
        "avg(g)",
        "avg(a / 3.0)",
        "min(c)",
        "max(c)",
        "min(b)",
        "max(f)",
        "max(a::numeric)",
        "bool_and(a > 5)",
        "bool_or(b is null)",
        "count(*) filter (where a % 2 = 0)",
        "sum(b) filter (where c is null)",
    ];
    const KEYS: &[&str] = &["", "", "k", "c", "b", "a % 7, k", "b, c", "f"];
    const CONDITIONS: &[&str] = &[
        "true",
        "a > 100",
        "c like 'y%'",
        "b is not null and k <> 1",
        "false",
        "f > 3 or c = 'z'",
    ];
    let calls: Vec<&str> = (0..1 + dice.below(5)).map(|_| dice.pick(CALLS)).collect();
    let (keys, condition) = (dice.pick(KEYS), dice.pick(CONDITIONS));
    let calls = calls.join(", ");
    if keys.is_empty() {
        return format!("select {calls} from t where {condition}");
    }
    let having = dice.pick(&["true", "count(*) > 2"]);
    format!("select {keys}, {calls} from t where {condition} group by {keys} having {having}")
}
